//! `cca` of one tap, on a pass that others share.

use std::path::PathBuf;

use cca::{Model, TapOptions};
use engine::columns::Schema;
use engine::flow::pass::{LabelUse, Labels, Lens, Piece};
use packet::{Batch, Record, SlotClock, Span, Timestamp};
use serde::Deserialize;

use super::flight::{self, FlightReader, Told};
use super::naming::Namer;
use super::period::PeriodTold as _;
use super::settings::{self, FLOW_COUNTS, SettingsError};
use super::{FLOWS_MAX, MODEL, read_model};
use crate::application::{Application, Closing, Opening, Refusal, Site, Wants, Watcher, Watchers};
use crate::done::Done;
use crate::outlet::Outlet;
use crate::rules::{Act, Following};
use crate::written;

/// Settings of `cca` of one tap.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// A model that was trained on bytes in flight.
    pub model: Option<PathBuf>,
    /// How often flows are reported.
    #[serde(deserialize_with = "written::duration")]
    pub every: Span,
    /// How long a slot is, in which packets are put together.
    #[serde(deserialize_with = "written::duration")]
    pub slot: Span,
    /// Flows that are reported each time, the heaviest; 0 for all.
    pub rows: usize,
    /// Flows that are followed at the same time.
    pub max_flows: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            model: None,
            every: Span::from_seconds(1),
            slot: Span::from_ns(1_000_000),
            rows: 10,
            max_flows: FLOWS_MAX,
        }
    }
}

/// What flows have in flight beyond one tap.
pub struct Cca {
    settings: Settings,
    clock: SlotClock,
    namer: Option<Namer>,
}

impl Application for Cca {
    const NAME: &'static str = "cca";
    const ABOUT: &'static str =
        "What heavy flows have in flight, their round trips and retransmissions";
    const EXAMPLE: &'static str = "\
# How often flows are reported, and how many, the heaviest; 0 for all.
# every = \"1s\"
# rows = 10
# How long a slot is, in which packets are put together.
# slot = \"1ms\"
# Name congestion controls by a model that was trained on bytes in flight.
# model = \"./my-model\"
# max-flows = 65536
";

    type Settings = Settings;

    fn ready(settings: Settings, site: &Site<'_>) -> Result<Self, Refusal> {
        let of = |error: SettingsError| Refusal::of(error.key(), error);
        let clock = settings::slot_clock(settings.every, settings.slot).map_err(of)?;
        if !FLOW_COUNTS.contains(&settings.max_flows) {
            return Err(of(SettingsError::Flows));
        }
        let read = |folder: &PathBuf| -> Result<Namer, Refusal> {
            let of = |error: &dyn std::fmt::Display| Refusal::of("model", error);
            let found = MODEL.find(folder, site.host).map_err(|error| of(&error))?;
            let model = read_model(&found, clock).map_err(|error| of(&error))?;
            Namer::of_flight(model).map_err(|_| {
                Refusal::of(
                    "model",
                    "a model of two taps; wanted one that was trained on bytes in flight, or none",
                )
            })
        };
        let namer = settings.model.as_ref().map(read).transpose()?;
        Ok(Self { settings, clock, namer })
    }

    fn wants(&self) -> Wants {
        Wants::frames(flight::NEEDS)
    }

    fn schema(&self, _: bool) -> Schema {
        flight::SCHEMA
    }

    fn open(self, opening: Opening) -> Result<Watchers, Refusal> {
        let Self { settings, clock, namer } = self;
        let Some(outlet) = opening.outlet else { return Err(Refusal::new("rows go nowhere")) };
        let controls = Namer::controls(namer.as_ref());
        let options = options(&settings, clock, namer.as_ref().map(|namer| &namer.model));
        let period_len = settings::period_len(settings.every, clock);
        let row_count = settings::row_count_max(settings.rows);
        let reader = FlightReader::new(options, period_len, row_count, namer);
        let rules = Following::new(&opening.rules);
        let out = Out { outlet, clock, controls };
        let (chosen, left_out, refusal) = (Vec::new(), 0, None);
        Ok(Watching { reader, out, rules, chosen, left_out, refusal }.into())
    }
}

/// What the tap keeps.
fn options(settings: &Settings, clock: SlotClock, model: Option<&Model>) -> TapOptions {
    TapOptions {
        clock,
        flow_count_max: settings.max_flows as usize,
        kept: settings::kept(settings.every, model),
        sampler: None,
    }
}

/// Periods on their way out.
struct Out {
    outlet: Outlet,
    clock: SlotClock,
    controls: Vec<String>,
}

impl Out {
    fn put(&self, told: &Told) -> Result<(), Refusal> {
        if !told.is_empty() {
            let columns = told.columns(self.clock, &self.controls);
            self.outlet.put(columns.map_err(Refusal::new)?);
        }
        Ok(())
    }
}

struct Watching {
    reader: FlightReader,
    out: Out,
    rules: Following,
    /// Records of flows that rules choose.
    chosen: Vec<Record>,
    /// Packets of flows that they do not.
    left_out: u64,
    refusal: Option<Refusal>,
}

impl Watching {
    fn take(&mut self, batch: &Batch<'_>) {
        let Self { reader, out, refusal, .. } = self;
        if let Err(error) = reader.on_batch(batch, |told| out.put(told)) {
            refusal.get_or_insert(error);
        }
    }
}

impl Lens for Watching {
    fn labels(&self) -> LabelUse {
        let reads = self.rules.rules().reads(|act| matches!(act, Act::Follow(_)));
        LabelUse { reads, gives: Vec::new() }
    }

    fn on_piece(&mut self, piece: &Piece<'_>, labels: &mut Labels) {
        self.rules.look();
        if !self.rules.rules().steers_follows() {
            return self.take(&piece.as_batch());
        }
        let mut chosen = std::mem::take(&mut self.chosen);
        chosen.clear();
        let rules = self.rules.rules();
        for (place, frame, _, slot) in piece.flows() {
            if rules.follows(labels, slot, place) {
                chosen.push(*frame.record);
            }
        }
        self.left_out += piece.records.len().saturating_sub(chosen.len()) as u64;
        self.take(&Batch { bytes: piece.batch.bytes, records: &chosen, tick: None });
        self.chosen = chosen;
    }

    fn on_tick(&mut self, time: Timestamp) {
        self.take(&Batch { bytes: &[], records: &[], tick: Some(time) });
    }
}

impl Watcher for Watching {
    fn name(&self) -> &'static str {
        Cca::NAME
    }

    fn close(mut self: Box<Self>, _: &Done) -> Result<Closing, Refusal> {
        let Self { reader, out, refusal, .. } = &mut *self;
        if let Err(error) = reader.finish(|told| out.put(told)) {
            refusal.get_or_insert(error);
        }
        let mut outcome = self.reader.outcome();
        let mut lines = self.reader.lines();
        outcome.without_key += self.left_out;
        if self.left_out > 0 {
            lines.push_str(&format!(
                "cca: {} packets are of flows that no rule chooses\n",
                self.left_out
            ));
        }
        let beyond_max_keys = self.reader.beyond_max_flows();
        let closing =
            Closing { outcome, key: flight::KEY, lines, beyond_max_keys, ..Closing::default() };
        self.refusal.map_or(Ok(closing), Err)
    }
}
