//! One tap: what flows have in flight, as a lens.

use engine::flow::pass::{FaultScope, LabelUse, Labels, Lens, Now, Piece};
use engine::group::Outcome;
use packet::{Batch, Record, Timestamp};

use super::{Cca, Out};
use crate::application::{Application as _, Closing, Count, Opening, Refusal, Watcher, Watchers};
use crate::cca::counted::{forgotten_early_line, of_flight};
use crate::cca::flight::{self, FlightReader, FlightReport};
use crate::done::RunTotals;
use crate::rules::{Act, Following};

pub(super) fn open(cca: Cca, mut opening: Opening) -> Result<Watchers, Refusal> {
    let Cca { settings, clock, namer, shown, .. } = cca;
    let out = Out::new(&mut opening, shown.flight(), clock, namer.as_ref())?;
    let options = settings.tap_options(clock, namer.as_ref().map(|namer| &namer.model));
    let period_len = settings.period_len(clock);
    let reader = FlightReader::new(options, period_len, settings.row_count_max(), namer);
    let rules = Following::new(&opening.rules);
    let (chosen, left_out, refusal) = (Vec::new(), 0, None);
    Ok(Watching { reader, out, rules, chosen, left_out, refusal }.into())
}

struct Watching {
    reader: FlightReader,
    out: Out<FlightReport>,
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

    fn on_fault(&mut self, lost: &FaultScope<'_>) -> bool {
        if let FaultScope::Piece(piece) = lost {
            piece.frames().for_each(|frame| self.reader.forget(&frame));
        }
        true
    }

    fn outcome(&self) -> Option<Outcome> {
        let mut outcome = self.reader.outcome();
        outcome.without_key += self.left_out;
        Some(outcome)
    }
}

impl Watcher for Watching {
    fn name(&self) -> &'static str {
        Cca::NAME
    }

    fn counts(&self, _: &Now<'_>) -> Vec<Count> {
        let forgotten = self.reader.slots_forgotten_early();
        of_flight(self.reader.counts(), self.left_out, forgotten)
    }

    fn close(mut self: Box<Self>, _: &RunTotals) -> Result<Closing, Refusal> {
        let Self { reader, out, refusal, .. } = &mut *self;
        if let Err(error) = reader.finish(|told| out.put(told)) {
            refusal.get_or_insert(error);
        }
        let mut outcome = self.reader.outcome();
        let mut lines = self.reader.lines();
        outcome.without_key += self.left_out;
        if self.left_out > 0 {
            lines.push_str(&format!(
                "cca: {} packets are of flows that no rule selects\n",
                self.left_out
            ));
        }
        lines.push_str(&forgotten_early_line(self.reader.slots_forgotten_early()));
        let beyond_max_keys = self.reader.beyond_max_flows();
        let closing =
            Closing { outcome, key: flight::KEY, lines, beyond_max_keys, ..Closing::default() };
        self.refusal.map_or(Ok(closing), Err)
    }
}
