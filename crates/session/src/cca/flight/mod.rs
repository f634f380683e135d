//! One tap: bytes in flight of flows, measured from their data and acknowledgements.

mod rows;

use cca::flight::{FlightCounts, FlightMissingReason, FlightTap};
use cca::{TapOptions, Walk};
use engine::group::Outcome;
use packet::event_time::STEP_BACK;
use packet::{Batch, EventTime, FlowKey, Frame, Record, TimeMove, Timestamp};

use super::BEGUN_AGAIN;
use super::naming::Namer;
use crate::reading::Needs;
pub use rows::{FlightReport, SCHEMA};

/// Headers of TCP with all their options.
pub const NEEDS: Needs = Needs { stage: "cca", len: Needs::TRANSPORT_LEN + 40, takes_all: false };

/// What packets lack that are not measured.
pub const KEY: &str = "TCP data or acknowledgements of it";

/// Slots after a period that are waited for, since stamps of several flows may come out of order.
const SLOTS_WAITED: i64 = 2;

/// Evaluates each period that is past. If no packet passes, bytes in flight are reported for as
/// long as a packet may wait, and then no more.
///
/// The reported periods depend only on the packets before their ends, and not on how they are
/// cut into batches. Where an epoch begins ([`packet::event_time`]), the periods before it are
/// evaluated as at the end of the input, and all flows begin again.
pub struct FlightReader {
    tap: FlightTap,
    walk: Walk,
    row_count: usize,
    namer: Option<Namer>,
    /// The start of the period that is evaluated next.
    begin: Option<i64>,
    time: EventTime,
    /// Epochs after the first.
    epochs: u64,
    seen: Seen,
}

impl FlightReader {
    /// Nothing read yet. Periods have so many slots; of each the `row_count` heaviest flows are
    /// told.
    #[must_use]
    pub fn new(
        options: TapOptions,
        period_len: usize,
        row_count: usize,
        namer: Option<Namer>,
    ) -> Self {
        let walk = Walk::new(options.clock, period_len, 0);
        let tap = FlightTap::new(options);
        let time = EventTime::new(STEP_BACK);
        Self { tap, walk, row_count, namer, begin: None, time, epochs: 0, seen: Seen::default() }
    }

    /// Takes packets in, and hands periods that are past to `put`.
    ///
    /// # Errors
    /// What `put` returns, at once.
    pub fn on_batch<E>(
        &mut self,
        batch: &Batch<'_>,
        mut put: impl FnMut(&FlightReport) -> Result<(), E>,
    ) -> Result<(), E> {
        let Batch { bytes, records, tick } = *batch;
        let mut rest = records;
        // A period is looked at right behind the packet by which it is past, wherever the batch
        // ends: what is forgotten then is forgotten before the same packet in every run.
        while let Some((at, is_epoch)) = self.next_look(rest) {
            let (mut due, after) = rest.split_at(at + 1);
            if is_epoch {
                let (before, first) = due.split_at(at);
                self.tap.take(&Batch { bytes, records: before, tick: None });
                self.look(true, &mut put)?;
                self.epochs += 1;
                self.begin = None;
                self.tap.begin_again();
                due = first;
            }
            self.tap.take(&Batch { bytes, records: due, tick: None });
            self.look(false, &mut put)?;
            rest = after;
        }
        self.tap.take(&Batch { bytes, records: rest, tick });
        if tick.is_some() { self.look(false, put) } else { Ok(()) }
    }

    /// The first packet by which periods are past, and whether it is of another epoch: then they
    /// are evaluated before it is taken in. Each packet is looked at once, since it moves time.
    fn next_look(&mut self, records: &[Record]) -> Option<(usize, bool)> {
        records.iter().enumerate().find_map(|(at, record)| {
            let is_epoch = self.time.on_packet(record.timestamp) == TimeMove::Epoch;
            (is_epoch || self.is_due(record)).then_some((at, is_epoch))
        })
    }

    /// Whether a packet is the first after the period that is evaluated next, and its wait.
    fn is_due(&self, record: &Record) -> bool {
        let Some(begin) = self.begin else { return true };
        let due = self.walk.period(begin).end().saturating_add(SLOTS_WAITED);
        let time = record.timestamp;
        time != Timestamp::UNKNOWN && self.tap.options().clock.slot(time) >= due
    }

    /// What is kept of a frame's flow is dropped: it begins again with its next packet.
    pub fn forget(&mut self, frame: &Frame<'_>) {
        if let Some((key, _)) = FlowKey::from_frame(frame) {
            self.tap.forget_flow(key);
        }
    }

    /// The input has ended: hands the periods that are left to `put`.
    ///
    /// # Errors
    /// What `put` returns, at once.
    pub fn finish<E>(&mut self, put: impl FnMut(&FlightReport) -> Result<(), E>) -> Result<(), E> {
        self.look(true, put)
    }

    fn look<E>(
        &mut self,
        has_ended: bool,
        mut put: impl FnMut(&FlightReport) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { tap, walk, row_count, namer, seen, .. } = self;
        let clock = tap.options().clock;
        let first = || tap.earliest().map(|slot| walk.begin_of(slot));
        let Some(mut begin) = self.begin.or_else(first) else { return Ok(()) };
        let latest = clock.slot(tap.latest());
        loop {
            let period = walk.period(begin);
            let is_past = latest >= period.end().saturating_add(SLOTS_WAITED);
            let is_last = has_ended && begin <= latest;
            if !is_past && !is_last {
                break;
            }
            let mut is_told = false;
            if walk.is_worth(begin, |slots| tap.has_slot(&slots)) {
                let told = FlightReport::of(tap, period, *row_count, namer.as_mut());
                seen.add(&told);
                put(&told)?;
                is_told = !told.flows.is_empty();
            }
            begin = walk.next(period.end(), is_told, |from| tap.next_slot(from), latest);
        }
        if self.begin.replace(begin) != Some(begin) {
            self.tap.forget_before(clock.start(begin));
            self.tap.make_room(begin);
        }
        Ok(())
    }

    /// Outcome of packets, for who looks while they come.
    #[must_use]
    pub const fn counts(&self) -> &FlightCounts {
        self.tap.counts()
    }

    /// Slots that were forgotten before their time.
    #[must_use]
    pub const fn slots_forgotten_early(&self) -> u64 {
        self.tap.forgotten_early()
    }

    /// Packets by outcome.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let counts = self.tap.counts();
        // Those of flows for which there was no place are reported as such.
        let keyed = counts.data + counts.acks + counts.no_place;
        Outcome { keyed, without_key: counts.received() - keyed, ..Outcome::default() }
    }

    /// Packets of flows for which there was no place.
    #[must_use]
    pub fn beyond_max_flows(&self) -> u64 {
        self.tap.counts().no_place
    }

    /// What did not fit, and why, each a line.
    #[must_use]
    pub fn lines(&self) -> String {
        let (counts, seen) = (self.tap.counts(), self.seen);
        let mut text = String::new();
        let mut say = |count: u64, what: &str| {
            if count > 0 {
                text.push_str(&format!("cca: {count} {what}\n"));
            }
        };
        say(counts.not_tcp, "packets are not TCP; UDP and QUIC have no visible sequence numbers");
        say(counts.unreadable, "packets are fragments, or their headers cannot be decoded");
        say(
            counts.cut_options,
            "packets are captured without all of their TCP options, so without SACK and the RTT \
             upstream of the tap; wanted: 118 bytes of each frame",
        );
        say(counts.no_time, "packets have no timestamp");
        say(
            counts.out_of_window,
            "packets acknowledge data more than 2^30 bytes from what was sent, which exceeds any \
             window: ignored",
        );
        say(counts.begun_again, BEGUN_AGAIN);
        say(self.epochs, "steps back of the clock by 120 s or more: flows and periods begin again");
        say(
            counts.acks_of_unseen,
            "packets acknowledge data that did not pass the tap: it takes another path, or there \
             is none",
        );
        if seen.without_acks > 0 && seen.without_acks == seen.told {
            text.push_str(
                "cca: data passed, but no acknowledgement of it: bytes in flight are unknown; \
                 wanted: a tap that sees both directions of a flow\n",
            );
        } else {
            say(
                seen.without_acks,
                "rows have no bytes in flight, as no acknowledgement had arrived by then",
            );
        }
        text
    }
}

/// What was seen of flows, for what is said at the end.
#[derive(Clone, Copy, Default)]
struct Seen {
    told: u64,
    without_acks: u64,
}

impl Seen {
    fn add(&mut self, told: &FlightReport) {
        let is_unknown = |missing: &&FlightMissingReason| **missing == FlightMissingReason::Acks;
        let unknown = told.flows.iter().filter_map(|flow| flow.flight.as_ref().err());
        self.told += told.flows.len() as u64;
        self.without_acks += unknown.filter(is_unknown).count() as u64;
    }
}

#[cfg(test)]
mod tests;
