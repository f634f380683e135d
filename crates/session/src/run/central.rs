//! A run whose rows are those of sensors: `[sensors]` in place of `[input]`.
//!
//! The settings are those of a sensor, so that the tables here have the columns that sensors
//! publish, with the sensor in front; no application of them looks at packets.

use std::ops::Range;
use std::sync::Arc;

use bus::{Central, CentralCounts, CentralOptions, CentralTable, central_schema};
use engine::columns::Schema;
use engine::run::Control;
use packet::Span;
use store::{Store, TableLimits};
use toml::de::DeTable;

use super::jailed::RunJail;
use super::outlets::{RowsTo, finish_rows, open_rows, wrong_rows};
use super::plan::{AppPlan, Plan, table_of};
use super::session::{Doors, PendingWriters, RunError};
use crate::input::InputSettings;
use crate::networks::Enriching;
use crate::outlet::{self, OutletWriter, RowsWriter, WhenBehind};
use crate::published::{NatsSettings, duration};
use crate::refusal::Refusal;
use crate::sensors::SensorsSettings;
use crate::toml_text::{Mistakes, read_table};

/// Its name in settings.
pub(super) const NAME: &str = "sensors";

/// The table of the alerts of sensors: those of this run are another.
pub(super) const ALERTS: &str = "sensor_alerts";

/// Reads `[sensors]`, which takes the place of `[input]`: where both are, the place of neither.
pub(super) fn take(root: &mut DeTable<'_>, mistakes: &mut Mistakes) -> Option<SensorsSettings> {
    let value = root.remove(NAME)?;
    let at = value.span();
    for (name, why) in [
        ("input", "reads packets, and [sensors] the rows of other machines"),
        ("rule", "steers applications, and with [sensors] none looks at packets"),
        ("packetlog", "keeps packets, which sensors do not publish"),
    ] {
        if let Some((key, _)) = root.get_key_value(name) {
            mistakes.add(key.span(), format_args!("[{name}] {why}; remove one of them"));
        }
    }
    if !root.contains_key("nats") {
        mistakes.add(at, "[sensors] needs [nats], over which sensors are reached");
    }
    let table = table_of(NAME, Some(value), mistakes)?;
    let settings: SensorsSettings = read_table(NAME, &table, mistakes)?;
    let second = Span::from_seconds(1);
    let is_short = settings.silent_after < second || settings.join_wait < second;
    if is_short || settings.join_wait > Span::from_seconds(3_600) {
        let wanted =
            "silent-after, join-wait: wanted a second or more, and of join-wait at most 1h";
        mistakes.add(table.span(), format_args!("[sensors] {wanted}"));
    }
    Some(settings)
}

/// What is wrong with a plan of sensors beyond single tables.
pub(super) fn check(
    at: Option<Range<usize>>,
    planned: &[AppPlan],
    (input, is_seen): (Option<&InputSettings>, bool),
    mistakes: &mut Mistakes,
) {
    let Some(at) = at else { return };
    if input.is_some_and(|input| input.is_given()) {
        mistakes.add(at.clone(), "[sensors] takes the place of packets; leave out -r and -i");
    }
    if !is_seen && planned.iter().all(|one| one.output.is_none()) {
        let wanted = "wanted: [page], [history], [[alert]], or an output of a table";
        mistakes.add(at, format_args!("[sensors] has rows that go nowhere; {wanted}"));
    }
    for one in planned.iter().filter(|one| one.door.is_some()) {
        let name = one.ready.name();
        let wanted = "wanted: one file as csv, jsonl, parquet or arrow";
        let told = format_args!("[{name}] output: rows of sensors go into one file; {wanted}");
        mistakes.add_at(one.place.as_ref(), told);
    }
}

/// The tables of a run, as rules of alerts see them.
pub(super) fn tables(planned: &[AppPlan], is_central: bool) -> Vec<(&'static str, Schema)> {
    let has_rows = |one: &&AppPlan| one.wants_door || one.output.is_some();
    let of_plan = planned.iter().filter(has_rows);
    let of_plan = of_plan.map(|one| (one.ready.name(), one.schema(false)));
    if !is_central {
        return of_plan.collect();
    }
    let of_sensors = of_plan.map(|(name, schema)| (name, central_schema(schema)));
    let own = [
        (NAME, bus::SENSORS_SCHEMA),
        ("joined", bus::JOINED_SCHEMA),
        (ALERTS, central_schema(alerts::SCHEMA)),
    ];
    of_sensors.chain(own).collect()
}

/// What rows of sensors are shown to and written into.
pub struct CentralRun {
    central: Central,
    writers: Vec<(usize, OutletWriter)>,
    /// Entered once everything is open.
    jail: Option<RunJail>,
    tell: fn(&str),
}

/// What a run of sensors is lent.
pub struct CentralDoors {
    /// As other runs are lent.
    pub doors: Doors,
    /// Ends the run where a file cannot be written.
    pub control: Arc<Control>,
    /// The name of this machine.
    pub machine: String,
    /// Time since the epoch in nanoseconds.
    pub realtime_ns: fn() -> i64,
    /// Prints messages for users; a line each.
    pub tell: fn(&str),
}

impl CentralRun {
    /// Opens the outputs of a plan with `[sensors]`, connects and begins to receive; nothing where
    /// a plan has none.
    ///
    /// # Errors
    /// [`RunError`]
    pub fn begin(plan: &mut Plan, lent: &CentralDoors) -> Result<Option<Self>, RunError> {
        let Some((settings, nats)) = plan.sensors.as_ref().zip(plan.nats.as_ref()) else {
            return Ok(None);
        };
        let jail = Some(RunJail::of(plan, None, lent.doors));
        let options = options(settings, nats, lent);
        let store = plan.store.get_or_insert_with(Store::new);
        let (mut begun, mut tables) = (PendingWriters(Vec::new()), Vec::new());
        for (at, one) in plan.applications.drain(..).enumerate() {
            tables.extend(open((at, one), store, lent, &mut begun)?);
        }
        let about = "Alerts of sensors.";
        let schema = central_schema(alerts::SCHEMA);
        let table = store.add(ALERTS, about, schema, TableLimits::default());
        let put = Box::new(move |rows| table.push(&rows));
        tables.push(CentralTable { name: String::from(alerts::TABLE), schema, put });
        let central = Central::begin(options, tables, store);
        let central = central.map_err(|error| RunError::Refused(Refusal::of("[nats]", error)))?;
        Ok(Some(Self { central, writers: std::mem::take(&mut begun.0), jail, tell: lent.tell }))
    }

    /// Enters the jail: what observers of the run need has to be open as well.
    pub fn enter_jail(&mut self) {
        if let Some(jail) = self.jail.take() {
            jail.enter(&mut self.tell);
        }
    }

    /// Packets of all sensors so far: received, and dropped.
    #[must_use]
    pub fn packets(&self) -> Box<dyn Fn() -> (u64, u64) + Send + Sync> {
        self.central.packets()
    }

    /// Has files finished, and new ones begun.
    pub fn reopen(&self) {
        self.writers.iter().for_each(|(_, writer)| writer.reopen());
    }

    /// Ends without files: the run did not begin.
    pub fn abandon(self) {
        let Self { central, writers, .. } = self;
        let _ = central.end();
        writers.into_iter().for_each(|(_, writer)| writer.abandon());
    }

    /// Ends, with all rows written that were received.
    ///
    /// # Errors
    /// [`RunError`]: rows could not be written.
    pub fn end(self, store: Option<&Store>) -> Result<CentralCounts, RunError> {
        let Self { central, writers, .. } = self;
        let counts = central.end();
        let mut failure = None;
        finish_rows(writers, &mut failure);
        store.into_iter().for_each(Store::end);
        failure.map_or(Ok(counts), Err)
    }
}

fn options(settings: &SensorsSettings, nats: &NatsSettings, lent: &CentralDoors) -> CentralOptions {
    CentralOptions {
        link: nats.link(),
        prefix: nats.prefix.clone(),
        name: nats.sensor.clone().unwrap_or_else(|| lent.machine.clone()),
        since: duration(settings.since),
        silent_after: duration(settings.silent_after),
        join_wait: duration(settings.join_wait),
        realtime_ns: lent.realtime_ns,
        monotonic: lent.doors.clock.monotonic,
        tell: lent.tell,
    }
}

/// A table of the store, and the file of its rows if there is one; nothing for what has no rows.
fn open(
    (at, planned): (usize, AppPlan),
    store: &Arc<Store>,
    lent: &CentralDoors,
    begun: &mut PendingWriters,
) -> Result<Option<CentralTable>, RunError> {
    let AppPlan { ready, output, wants_door, about, enriching, place, .. } = planned;
    if !wants_door && output.is_none() {
        return Ok(None);
    }
    let name = ready.name();
    let schema = central_schema(ready.schema(false));
    let enriching = enriching.map(|enriching| enriching.with(schema));
    let shown = enriching.as_ref().map_or(schema, Enriching::schema);
    let table = store.add(name, about, shown, TableLimits::default());
    let of_sensors = table.name().to_owned();
    let rows = output.map(|output| open_rows(RowsTo::File(output), shown, lent.doors)).transpose();
    let rows = rows.map_err(|error| wrong_rows(place.as_ref(), name, error))?;
    let rows = RowsWriter::Shown(table, rows.map(Box::new));
    let rows = match enriching {
        Some(enriching) => RowsWriter::Enriched(enriching, Box::new(rows)),
        None => rows,
    };
    // The broker keeps what is not taken yet.
    let (now, control) = (lent.doors.clock.now, Arc::clone(&lent.control));
    let (outlet, writer) = outlet::begin(name, rows, WhenBehind::Wait, now, control);
    store.count_by(name, writer.counting());
    begun.0.push((at, writer));
    Ok(Some(CentralTable { name: of_sensors, schema, put: Box::new(move |rows| outlet.put(rows)) }))
}
