//! Sensors that were heard: how each stands, and a row for every change of that.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use engine::columns::{Columns, Field, Kind, RowMismatch, Schema, Value};
use serde_json::Value as Json;
use store::Table;

use super::clocks::{ClockChange, SensorClock};
use super::live_runs::LiveRuns;
use super::progress::Progress;
use super::rows::{Head, NAME_LEN_MAX, SENSOR};
use crate::VERSION;

/// Sensors that are known at a time.
pub(super) const SENSORS_MAX: usize = 1_000;

/// Tables of runs of one sensor that are followed; the longest unheard goes where there are more.
const TABLES_MAX: usize = 256;

/// The table of sensors.
pub const SENSORS_SCHEMA: Schema = &[
    SENSOR,
    Field::new("time_ns", Kind::TimestampNs, "When, by the clock of this machine."),
    Field::new(
        "event",
        Kind::Text,
        "`heard` (first message), `restarted`, `silent`, `back`, `shared` (several runs publish \
         under its name), `clock` (its clock differs by 5 s or more); `now` in rows of the present \
         state.",
    ),
    Field::new("run", Kind::Text, "Run of the sensor, a number in hexadecimal."),
    Field::new("silent_s", Kind::F64, "Seconds since its last message."),
    Field::new("event_time_ns", Kind::TimestampNs, "Event time of the sensor in its last metrics.")
        .nullable(),
    Field::new("packets_received", Kind::U64, "Packets that it received in this run.").nullable(),
    Field::new("packets_dropped", Kind::U64, "Packets that it lost in this run.").nullable(),
    Field::new("rows", Kind::U64, "Rows received here, of all its runs."),
    Field::new("rows_missing", Kind::U64, "Rows that others follow and that did not come."),
    Field::new("rows_lost", Kind::U64, "Rows that it reports as lost before they were published.")
        .nullable(),
];

/// A sensor.
struct Sensor {
    run: String,
    heard: Duration,
    is_silent: bool,
    /// The table of a run, and when it was heard last.
    tables: BTreeMap<(String, String), (Progress, Duration)>,
    rows: u64,
    /// Missing rows of tables that are not followed any more.
    missing_before: u64,
    metrics: Option<Metrics>,
    live: LiveRuns,
    clock: SensorClock,
}

/// What is read of a sensor's own metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Metrics {
    pub time_ns: Option<i64>,
    /// Its clock when they were sent; sensors of earlier versions do not say.
    pub clock_ns: Option<i64>,
    pub received: u64,
    pub dropped: u64,
    pub rows_lost: u64,
}

/// All sensors, and the table of them.
pub(super) struct Sensors {
    all: BTreeMap<String, Sensor>,
    silent_after: Duration,
    realtime_ns: fn() -> i64,
    tell: fn(&str),
    pub table: Arc<Table>,
}

/// How sensors stand together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct SensorSums {
    pub known: u64,
    pub silent: u64,
    /// Names under which several publish.
    pub shared: u64,
    /// Sensors whose clocks differ from this machine's.
    pub clocks_off: u64,
    pub missing: u64,
    pub received: u64,
    pub dropped: u64,
}

/// Adds what a sensor reports, which may be any number.
fn add(sum: &mut u64, reported: u64) {
    *sum = sum.saturating_add(reported);
}

impl Sensor {
    fn new(run: &str, heard: Duration) -> Self {
        let (run, tables) = (run.to_owned(), BTreeMap::new());
        let (live, clock) = (LiveRuns::default(), SensorClock::default());
        Self {
            run,
            heard,
            is_silent: false,
            tables,
            rows: 0,
            missing_before: 0,
            metrics: None,
            live,
            clock,
        }
    }

    fn missing(&self) -> u64 {
        // Numbers of rows are a sensor's to choose, also those of which no sum is one.
        let of_tables = self.tables.values().map(|(progress, _)| progress.missing());
        of_tables.fold(self.missing_before, u64::saturating_add)
    }

    fn progress(&mut self, head: &Head, now: Duration) -> &mut Progress {
        let key = (head.run.clone(), head.table.clone());
        if self.tables.len() >= TABLES_MAX && !self.tables.contains_key(&key) {
            let oldest = self.tables.iter().min_by_key(|(_, (_, heard))| *heard);
            if let Some((oldest, (progress, _))) = oldest {
                self.missing_before = self.missing_before.saturating_add(progress.missing());
                let oldest = oldest.clone();
                self.tables.remove(&oldest);
            }
        }
        let new = || (Progress::new(head.rows.start), now);
        let (progress, heard) = self.tables.entry(key).or_insert_with(new);
        *heard = now;
        progress
    }
}

impl Metrics {
    /// The sensor and its run, and what is read of its metrics; nothing where these are none.
    pub(super) fn read(payload: &[u8]) -> Option<(String, String, Self)> {
        let json: Json = serde_json::from_slice(payload).ok()?;
        if json.get("version")?.as_u64()? != u64::from(VERSION) {
            return None;
        }
        let text = |name: &str| {
            let text = json.get(name)?.as_str()?;
            (text.len() <= NAME_LEN_MAX).then(|| text.to_owned())
        };
        let time_ns = json.get("time_ns")?.as_i64();
        let clock_ns = json.get("clock_ns").and_then(Json::as_i64);
        let mut metrics = Self { time_ns, clock_ns, ..Self::default() };
        for count in json.get("counts")?.as_array()? {
            let value = count.get("value").and_then(Json::as_f64).unwrap_or(0.0);
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let value = value as u64;
            let is_of = |name: &str| count.get("application").and_then(Json::as_str) == Some(name);
            match count.get("name").and_then(Json::as_str) {
                Some("packets_received") if is_of("run") => add(&mut metrics.received, value),
                Some("packets_dropped") if is_of("run") => add(&mut metrics.dropped, value),
                Some("rows_lost") if is_of("nats") => add(&mut metrics.rows_lost, value),
                _ => {}
            }
        }
        Some((text("sensor")?, text("run")?, metrics))
    }
}

/// Several publish under one name, for users.
fn shared_line(name: &str, one: &str, other: &str) -> String {
    format!(
        "sensors: several runs publish as {name} at the same time ({one} and {other}), and their \
         rows are mixed; wanted: a name for each; give one of them another `sensor` in [nats]"
    )
}

impl Sensors {
    pub(super) fn new(
        table: Arc<Table>,
        silent_after: Duration,
        realtime_ns: fn() -> i64,
        tell: fn(&str),
    ) -> Self {
        Self { all: BTreeMap::new(), silent_after, realtime_ns, tell, table }
    }

    /// A sensor that is heard now; none where there are too many. Messages of the past, which the
    /// broker had stored, are heard when they come; one that `is_live` was not stored.
    fn hear(&mut self, name: &str, run: &str, is_live: bool, now: Duration) -> Option<&mut Sensor> {
        if !self.all.contains_key(name) {
            if self.all.len() >= SENSORS_MAX {
                return None;
            }
            self.all.insert(name.to_owned(), Sensor::new(run, now));
            self.note(name, "heard", now);
        }
        let sensor = self.all.get_mut(name)?;
        let was_silent = std::mem::replace(&mut sensor.is_silent, false);
        let gap = now.saturating_sub(std::mem::replace(&mut sensor.heard, now));
        // Runs are numbered by their time: stored rows of one from before do not make it the
        // present one. What is live does, also where a clock was set back since.
        let is_later = (run.len(), run) > (sensor.run.len(), sensor.run.as_str());
        // One that publishes alongside another is no later one, whose turn it was.
        let is_known = sensor.live.has(run);
        if is_later && !is_known || is_live && run != sensor.run {
            run.clone_into(&mut sensor.run);
            sensor.metrics = None;
            if !is_known {
                self.note(name, "restarted", now);
            }
        }
        if was_silent {
            (self.tell)(&format!("sensors: {name} is back after {:.0} s", gap.as_secs_f64()));
            self.note(name, "back", now);
        }
        self.all.get_mut(name)
    }

    /// The rows of a message, by number, that did not come before; nothing where there are too many
    /// sensors. They count as not seen until they are [taken](Self::take): a message that cannot be
    /// read does not keep another with its rows from being read.
    pub(super) fn unseen(&mut self, head: &Head, now: Duration) -> Option<Vec<Range<u64>>> {
        let sensor = self.hear(&head.sensor, &head.run, false, now)?;
        let known = sensor.tables.get(&(head.run.clone(), head.table.clone()));
        let all = || vec![head.rows.clone()];
        Some(known.map_or_else(all, |(progress, _)| progress.unseen(&head.rows)))
    }

    /// The rows of a message, of which so many were unseen, were read.
    pub(super) fn take(&mut self, head: &Head, unseen_count: u64, now: Duration) {
        if let Some(sensor) = self.all.get_mut(&head.sensor) {
            sensor.progress(head, now).take(&head.rows);
            add(&mut sensor.rows, unseen_count);
        }
    }

    /// Takes in metrics; whether there was room.
    pub(super) fn take_metrics(
        &mut self,
        name: &str,
        run: &str,
        metrics: Metrics,
        now: Duration,
    ) -> bool {
        let (realtime_ns, tell) = (self.realtime_ns, self.tell);
        let Some(sensor) = self.hear(name, run, true, now) else { return false };
        sensor.metrics = Some(metrics);
        let other = sensor.live.hear(run, now);
        let clock_ns = metrics.clock_ns.filter(|_| !sensor.live.is_shared());
        let clock = clock_ns.and_then(|theirs| sensor.clock.take(theirs, realtime_ns(), now));
        if let Some(other) = other {
            tell(&shared_line(name, &other, run));
            self.note(name, "shared", now);
        }
        if let Some(change) = clock {
            tell(&change.line(name));
            if matches!(change, ClockChange::Off(_)) {
                self.note(name, "clock", now);
            }
        }
        true
    }

    /// Looks which sensors are silent, and shows how all stand.
    pub(super) fn look(&mut self, now: Duration) {
        let silent_after = self.silent_after;
        let is_silent = |sensor: &Sensor| now.saturating_sub(sensor.heard) >= silent_after;
        let newly: Vec<String> = self
            .all
            .iter_mut()
            .filter(|(_, sensor)| !sensor.is_silent && is_silent(sensor))
            .map(|(name, sensor)| {
                sensor.is_silent = true;
                name.clone()
            })
            .collect();
        for name in newly {
            let after = silent_after.as_secs_f64();
            (self.tell)(&format!("sensors: {name} is silent: no message for {after:.0} s"));
            self.note(&name, "silent", now);
        }
        for (name, sensor) in &mut self.all {
            if sensor.live.look(silent_after, now) {
                (self.tell)(&format!("sensors: one run alone publishes as {name} again"));
            }
        }
        let mut rows = Columns::new(SENSORS_SCHEMA);
        for name in self.all.keys() {
            // Rows of its own columns.
            let _ = self.push(&mut rows, name, "now", now);
        }
        let row_count = rows.row_count();
        self.table.put_open(0, 0, row_count, Box::new(move || rows.clone()));
    }

    /// Nothing is open any more.
    pub(super) fn end(&self, now: Duration) {
        self.table.end_open(0, 0);
        self.all.keys().for_each(|name| self.note(name, "now", now));
    }

    pub(super) fn sums(&self) -> SensorSums {
        let mut sums = SensorSums { known: self.all.len() as u64, ..SensorSums::default() };
        for sensor in self.all.values() {
            sums.silent += u64::from(sensor.is_silent);
            sums.shared += u64::from(sensor.live.is_shared());
            sums.clocks_off += u64::from(sensor.clock.is_off());
            add(&mut sums.missing, sensor.missing());
            let metrics = sensor.metrics.unwrap_or_default();
            add(&mut sums.received, metrics.received);
            add(&mut sums.dropped, metrics.dropped);
        }
        sums
    }

    fn note(&self, name: &str, event: &str, now: Duration) {
        let mut row = Columns::new(SENSORS_SCHEMA);
        if self.push(&mut row, name, event, now).is_ok() {
            self.table.push(&row);
        }
    }

    fn push(
        &self,
        rows: &mut Columns,
        name: &str,
        event: &str,
        now: Duration,
    ) -> Result<(), RowMismatch> {
        let Some(sensor) = self.all.get(name) else { return Ok(()) };
        let of = |value: fn(Metrics) -> u64| -> Value<'static> {
            sensor.metrics.map(|metrics| Value::U64(value(metrics))).into()
        };
        let time_ns = sensor.metrics.and_then(|metrics| metrics.time_ns);
        rows.push_row(&[
            Value::Str(name),
            Value::TimestampNs((self.realtime_ns)()),
            Value::Str(event),
            Value::Str(&sensor.run),
            Value::F64(now.saturating_sub(sensor.heard).as_secs_f64()),
            time_ns.map(Value::TimestampNs).into(),
            of(|metrics| metrics.received),
            of(|metrics| metrics.dropped),
            Value::U64(sensor.rows),
            Value::U64(sensor.missing()),
            of(|metrics| metrics.rows_lost),
        ])
    }
}

#[cfg(test)]
// Ranges are values here.
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use std::sync::Mutex;

    use store::query::cell;
    use store::{Store, TableLimits};

    use super::*;

    fn sensors(store: &Store) -> Sensors {
        let table = store.add("sensors", "", SENSORS_SCHEMA, TableLimits::default());
        Sensors::new(table, Duration::from_secs(30), || 7, |_| ())
    }

    fn head(sensor: &str, run: &str, rows: Range<u64>) -> Head {
        let [sensor, run] = [sensor, run].map(String::from);
        Head { sensor, run, table: String::from("flows"), rows }
    }

    /// A message that can be read: the ranges of its rows that did not come before.
    fn take(sensors: &mut Sensors, head: &Head, now: Duration) -> Option<usize> {
        let unseen = sensors.unseen(head, now)?;
        sensors.take(head, unseen.iter().map(|rows| rows.end - rows.start).sum(), now);
        Some(unseen.len())
    }

    fn events(store: &Store) -> Vec<String> {
        let view = store.find("sensors").unwrap().view();
        let of = |rows: &Columns, row| {
            let text = |place| cell(rows, place, row).text().unwrap_or_default().to_owned();
            format!("{} {} {}", text(0), text(2), text(3))
        };
        let rows = view.final_rows();
        rows.iter().flat_map(|rows| (0..rows.row_count()).map(|row| of(rows, row))).collect()
    }

    #[test]
    fn every_change_of_a_sensor_is_a_row() {
        let (store, second) = (Store::new(), Duration::from_secs);
        let mut sensors = sensors(&store);
        assert_eq!(take(&mut sensors, &head("a", "9f", 0..4), second(0)), Some(1));
        sensors.look(second(29));
        sensors.look(second(30));
        sensors.look(second(31));
        assert_eq!(sensors.sums(), SensorSums { known: 1, silent: 1, ..SensorSums::default() });
        // Another run, whose number is longer and so later, with a gap; then a row of the first.
        take(&mut sensors, &head("a", "100", 0..1), second(40)).unwrap();
        take(&mut sensors, &head("a", "100", 6..7), second(40)).unwrap();
        take(&mut sensors, &head("a", "9f", 4..5), second(41)).unwrap();
        assert_eq!(sensors.sums(), SensorSums { known: 1, missing: 5, ..SensorSums::default() });
        assert_eq!(events(&store), ["a heard 9f", "a silent 9f", "a restarted 100", "a back 100"]);
    }

    #[test]
    fn rows_that_cannot_be_read_are_taken_from_another_message() {
        let store = Store::new();
        let mut sensors = sensors(&store);
        let (whole, now) = (head("a", "1", 0..4), Duration::ZERO);
        for _ in 0..2 {
            assert_eq!(sensors.unseen(&whole, now).unwrap(), [0..4]);
        }
        assert_eq!(take(&mut sensors, &whole, now), Some(1));
        assert_eq!(take(&mut sensors, &whole, now), Some(0));
        // Where no other comes, they are missing.
        assert_eq!(sensors.unseen(&head("a", "1", 4..6), now).unwrap(), [4..6]);
        assert_eq!(take(&mut sensors, &head("a", "1", 6..7), now), Some(1));
        assert_eq!(sensors.sums(), SensorSums { known: 1, missing: 2, ..SensorSums::default() });
    }

    #[test]
    fn metrics_are_those_of_the_present_run() {
        let store = Store::new();
        let mut sensors = sensors(&store);
        let text = br#"{"version":1,"sensor":"a","run":"2","number":0,"time_ns":5,"counts":[
            {"application":"run","name":"packets_received","labels":{},"value":90},
            {"application":"run","name":"packets_dropped","labels":{"cause":"ring_full"},"value":2},
            {"application":"run","name":"packets_dropped","labels":{"cause":"interface"},"value":3},
            {"application":"flows","name":"packets_received","labels":{},"value":1000},
            {"application":"nats","name":"rows_lost","labels":{"cause":"evicted"},"value":4}]}"#;
        let (sensor, run, metrics) = Metrics::read(text).unwrap();
        let wanted =
            Metrics { time_ns: Some(5), received: 90, dropped: 5, rows_lost: 4, clock_ns: None };
        assert_eq!((sensor.as_str(), run.as_str(), metrics), ("a", "2", wanted));
        assert!(sensors.take_metrics("a", "2", metrics, Duration::ZERO));
        assert_eq!((sensors.sums().received, sensors.sums().dropped), (90, 5));
        // Stored rows of a run that is over change nothing.
        take(&mut sensors, &head("a", "1", 0..1), Duration::ZERO).unwrap();
        assert_eq!(sensors.sums().received, 90);
        // Its clock was set back, and it was restarted.
        let after = Metrics { received: 1, ..Metrics::default() };
        assert!(sensors.take_metrics("a", "1", after, Duration::ZERO));
        assert_eq!(sensors.sums().received, 1);
        assert_eq!(events(&store), ["a heard 2", "a restarted 1"]);
        for text in ["", "{}", "[]", "{\"version\":2}", "{\"version\":1,\"time_ns\":1}"] {
            assert_eq!(Metrics::read(text.as_bytes()), None, "{text}");
        }
        let of_run = |run: &str| {
            let text =
                format!(r#"{{"version":1,"sensor":"a","run":"{run}","time_ns":5,"counts":[]}}"#);
            Metrics::read(text.as_bytes()).is_some()
        };
        assert!(of_run(&"1".repeat(NAME_LEN_MAX)) && !of_run(&"1".repeat(NAME_LEN_MAX + 1)));
    }

    /// Takes in metrics of a run of `a`, with its clock.
    fn hear(sensors: &mut Sensors, run: &str, clock_ns: i64, at_s: u64) {
        let metrics = Metrics { clock_ns: Some(clock_ns), received: 1, ..Metrics::default() };
        assert!(sensors.take_metrics("a", run, metrics, Duration::from_secs(at_s)));
    }

    #[test]
    fn two_runs_under_one_name_are_reported_once() {
        static PRINTED: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let store = Store::new();
        let mut sensors = sensors(&store);
        sensors.tell = |line| PRINTED.lock().unwrap().push(line.to_owned());
        for round in 0..5 {
            hear(&mut sensors, "100", 7, 20 * round);
            take(&mut sensors, &head("a", "200", round..round + 1), Duration::from_secs(1));
            hear(&mut sensors, "200", 7, 20 * round + 10);
        }
        let wanted = ["a heard 100", "a restarted 200", "a shared 200"];
        assert_eq!(events(&store), wanted, "a restart is of one that stays away");
        assert_eq!((sensors.sums().shared, sensors.sums().received), (1, 1));
        let printed = PRINTED.lock().unwrap().concat();
        assert!(printed.contains("publish as a at the same time (100 and 200)"), "{printed}");
        assert!(printed.contains("wanted: a name for each"), "{printed}");
        assert_eq!(PRINTED.lock().unwrap().len(), 1);
        // One of them is given another name.
        for at in 10..15 {
            hear(&mut sensors, "200", 7, 10 * at);
            sensors.look(Duration::from_secs(10 * at));
        }
        assert_eq!(sensors.sums().shared, 0);
        assert!(PRINTED.lock().unwrap()[1].contains("one run alone publishes as a again"));
        // A restart is one, whoever shared the name before.
        hear(&mut sensors, "300", 7, 160);
        assert_eq!(events(&store).last().unwrap(), "a restarted 300");
    }

    #[test]
    fn a_clock_that_differs_is_reported_once() {
        static PRINTED: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let store = Store::new();
        let mut sensors = sensors(&store);
        sensors.tell = |line| PRINTED.lock().unwrap().push(line.to_owned());
        for at in 0..3 {
            hear(&mut sensors, "100", 7 - 3600 * 1_000_000_000, 10 * at);
        }
        assert_eq!(events(&store), ["a heard 100", "a clock 100"]);
        assert_eq!(sensors.sums().clocks_off, 1);
        hear(&mut sensors, "100", 7, 30);
        assert_eq!(sensors.sums().clocks_off, 0);
        let printed = PRINTED.lock().unwrap();
        assert!(printed[0].contains("the clock of a is 3600 s behind this machine's"));
        assert!(printed.len() == 2 && printed[1].contains("agrees again"), "{printed:?}");
    }

    #[test]
    fn sums_of_what_sensors_report_end_at_the_largest_number() {
        let store = Store::new();
        let mut sensors = sensors(&store);
        let text = br#"{"version":1,"sensor":"a","run":"1","time_ns":5,"counts":[
            {"application":"run","name":"packets_received","value":1.8e19},
            {"application":"run","name":"packets_received","value":1.8e19}]}"#;
        let (_, _, metrics) = Metrics::read(text).unwrap();
        assert_eq!(metrics.received, u64::MAX);
        for name in ["a", "b"] {
            assert!(sensors.take_metrics(name, "1", metrics, Duration::ZERO));
        }
        // Gaps as wide as numbers of rows can be, in more tables than are followed.
        let last = 1 << 62;
        for run in 0..TABLES_MAX + 8 {
            for rows in [0..1, last - 1..last] {
                let head = head("c", &format!("{run:04}"), rows);
                take(&mut sensors, &head, Duration::ZERO).unwrap();
            }
        }
        let sums = sensors.sums();
        assert_eq!((sums.received, sums.missing), (u64::MAX, u64::MAX));
    }

    #[test]
    fn sensors_are_bounded() {
        let store = Store::new();
        let mut sensors = sensors(&store);
        for at in 0..SENSORS_MAX + 1 {
            let took = take(&mut sensors, &head(&at.to_string(), "1", 0..1), Duration::ZERO);
            assert_eq!(took.is_some(), at < SENSORS_MAX);
        }
        assert_eq!(sensors.sums().known, SENSORS_MAX as u64);
    }
}
