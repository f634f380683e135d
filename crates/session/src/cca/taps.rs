//! Two captures, read side by side in event time.

use std::fmt::Display;
use std::sync::Arc;

use cca::{Pair, Rules, TapOptions, Walk};
use engine::group::Outcome;
use engine::run::Control;
use packet::{Batch, Record, SlotClock, Span, Timestamp};
use store::Count;

pub use crate::second::behind;

use super::BEGUN_AGAIN;
use super::counted::{forgotten_early, forgotten_early_line, of_tap};
use super::naming::Namer;
use super::rows::QueueReport;
use super::settings::CcaSettings;
use crate::reading::{InputError, InputRequest, Inputs};
use crate::second::Second;
use crate::summary::SourceSummary;

/// What packets lack that are not measured.
pub const KEY: &str = "TCP data";

/// Said of packets that are behind all periods that are left. Two taps have no epochs: which
/// packet of one belongs to which of the other cannot be determined.
const BEHIND: &str = "packets are timestamped before periods that were reported already, and are \
                      in no row: the clock was set back; give the captures before and after it \
                      separately";

/// Stamps are compared over so much of the captures' beginnings.
const COMPARED: Span = Span::from_seconds(2);

/// A capture that is read as far as is needed.
struct Side(Second);

impl Side {
    fn open(inputs: Inputs) -> Result<Self, InputError> {
        Second::open(inputs, Span::default()).map(Self)
    }

    /// Reads up to a moment, or to the end.
    fn read(&mut self, tap: &mut cca::Tap, until: Timestamp) {
        // No stamp is later than the latest that there is: then only the end ends it.
        while tap.latest() < until || until == Timestamp::MAX {
            if !self.0.next(|batch| tap.take(batch)) {
                break;
            }
        }
    }

    /// Reads on, with what is from a moment on, and a little before it, in a tap.
    fn read_from(&mut self, from: Timestamp, options: TapOptions) -> cca::Tap {
        let mut tap = cca::Tap::new(options);
        let mut until = Timestamp::from_ns(i64::MIN + 1);
        while until < from && !self.0.has_ended() && !self.0.is_stopped() {
            self.read(&mut tap, until);
            tap.forget_old();
            until = tap.latest().plus(COMPARED);
        }
        self.read(&mut tap, from.plus(COMPARED));
        tap
    }

    fn finish(self, done: TapOutcome) -> SourceSummary {
        let TapOutcome { outcome, beyond_max_flows, lines } = done;
        let (inputs, received) = self.0.finish();
        SourceSummary {
            inputs,
            received,
            outcome,
            key: KEY,
            beyond_max_keys: beyond_max_flows,
            lines,
        }
    }
}

/// The downstream tap of a queue, read as far as the upstream one has come.
pub struct Downstream(Side);

impl Downstream {
    /// Opens captures whose stamps are later by `offset` than they have them.
    ///
    /// # Errors
    /// [`InputError`]: a capture that cannot be read.
    pub fn open(inputs: Inputs, offset: Span) -> Result<Self, InputError> {
        Second::open(inputs, offset).map(|second| Self(Side(second)))
    }
}

/// A queue between packets that are handed in and captures that are read beside them: looks back at
/// each period that both have left behind them and in which a packet came or something waits.
///
/// A period is evaluated right after the packet that ends it, so that the set of rows
/// does not depend on how packets are cut into batches.
pub struct QueuePeriods {
    egress: Side,
    pair: Pair,
    walk: Walk,
    rules: Rules,
    row_count: usize,
    namer: Option<Namer>,
    /// The start of the period that is evaluated next.
    begin: Option<i64>,
    /// Whether no packet comes to the queue any more.
    has_ended: bool,
    /// Whether all periods were evaluated, or evaluation was stopped.
    is_over: bool,
}

impl QueuePeriods {
    /// Nothing read yet.
    #[must_use]
    pub fn new(
        egress: Downstream,
        settings: &CcaSettings,
        clock: SlotClock,
        namer: Option<Namer>,
    ) -> Self {
        let model = namer.as_ref().map(|namer| &namer.model);
        Self {
            egress: egress.0,
            pair: Pair::new(settings.tap_options(clock, model)),
            // The slot after the last tells what has passed by its end.
            walk: Walk::new(clock, settings.period_len(clock), 1),
            rules: settings.rules(),
            row_count: settings.row_count_max(),
            namer,
            begin: None,
            has_ended: false,
            is_over: false,
        }
    }

    /// Takes packets that arrived at the queue, and passes periods that are past to `put`.
    ///
    /// # Errors
    /// What `put` returns, at once.
    pub fn on_batch<E>(
        &mut self,
        batch: &Batch<'_>,
        mut put: impl FnMut(&QueueReport) -> Result<(), E>,
    ) -> Result<(), E> {
        let bytes = batch.bytes;
        let mut rest = batch.records;
        while let Some(at) = rest.iter().position(|record| self.is_due(record)) {
            let (before, after) = rest.split_at(at + 1);
            self.pair.ingress.take(&Batch { bytes, records: before, tick: None });
            self.look(&mut put)?;
            rest = after;
        }
        self.pair.ingress.take(&Batch { bytes, records: rest, tick: None });
        Ok(())
    }

    /// No more packets arrive at the queue: reads the downstream tap to its end, and passes periods
    /// that are left to `put`.
    ///
    /// # Errors
    /// What `put` returns, at once.
    pub fn finish<E>(&mut self, put: impl FnMut(&QueueReport) -> Result<(), E>) -> Result<(), E> {
        self.has_ended = true;
        self.look(put)
    }

    /// Outcome of the packets of both taps so far, for who looks while they come.
    #[must_use]
    pub fn counts(&self) -> Vec<Count> {
        let mut counts = of_tap("ingress", self.pair.ingress.counts());
        counts.extend(of_tap("egress", self.pair.egress.counts()));
        counts.push(forgotten_early(self.pair.forgotten_early()));
        counts
    }

    /// The same of the packets that were handed in, with a flow or without.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        TapOutcome::of(&self.pair.ingress).outcome
    }

    /// Outcome of the packets of each tap: of those that were handed in, and of those behind
    /// the queue with their outcome before.
    #[must_use]
    pub fn into_done(self) -> (TapOutcome, SourceSummary) {
        let egress = TapOutcome::of(&self.pair.egress);
        let mut ingress = TapOutcome::of(&self.pair.ingress);
        ingress.lines.push_str(&forgotten_early_line(self.pair.forgotten_early()));
        (ingress, self.egress.finish(egress))
    }

    /// When the period is past that begins here.
    fn due(&self, begin: i64) -> Timestamp {
        let end = self.walk.period(begin).end();
        self.pair.options().clock.start(end.saturating_add(2))
    }

    /// Whether the period that is evaluated next is past by this packet; also if there is none yet.
    fn is_due(&self, record: &Record) -> bool {
        let time = record.timestamp;
        let is_past = |begin| time != Timestamp::UNKNOWN && time >= self.due(begin);
        !self.is_over && self.begin.is_none_or(is_past)
    }

    fn look<E>(&mut self, mut put: impl FnMut(&QueueReport) -> Result<(), E>) -> Result<(), E> {
        let clock = self.pair.options().clock;
        let first = |pair: &Pair| pair.ingress.earliest().map(|time| clock.slot(time));
        let begin = self.begin.or_else(|| first(&self.pair).map(|slot| self.walk.begin_of(slot)));
        let Some(mut begin) = begin.filter(|_| !self.is_over) else { return Ok(()) };
        loop {
            self.begin = Some(begin);
            let due = self.due(begin);
            // No stamp is later than the latest that there is: then only the end ends it.
            if !self.has_ended && (self.pair.ingress.latest() < due || due == Timestamp::MAX) {
                return Ok(());
            }
            self.egress.read(&mut self.pair.egress, due);
            let Self { egress, pair, walk, rules, row_count, namer, has_ended, .. } = self;
            let period = walk.period(begin);
            let mut is_told = false;
            if walk.is_worth(begin, |slots| pair.has_slot(&slots)) {
                let told = QueueReport::of(pair, period, *rules, *row_count, namer.as_mut());
                put(&told)?;
                is_told = !told.flows.is_empty();
            }
            let latest = clock.slot(pair.ingress.latest().max(pair.egress.latest()));
            let have_ended = *has_ended && egress.0.has_ended();
            if have_ended && latest < period.end() || egress.0.is_stopped() {
                self.is_over = true;
                return Ok(());
            }
            // Up to when both are read, where one of them has not ended.
            let going_on = [(*has_ended, &pair.ingress), (egress.0.has_ended(), &pair.egress)];
            let going_on = going_on.into_iter().filter(|(has_ended, _)| !has_ended);
            let horizon = going_on.map(|(_, tap)| clock.slot(tap.latest())).min();
            let horizon = horizon.unwrap_or(latest);
            begin = walk.next(period.end(), is_told, |from| pair.next_slot(from), horizon);
            pair.forget_before(clock.start(begin));
            pair.make_room(begin);
        }
    }
}

/// Outcome of the packets of a tap.
pub struct TapOutcome {
    /// Packets by what was done with them.
    pub outcome: Outcome,
    /// Packets of flows for which there was no place.
    pub beyond_max_flows: u64,
    /// What there is to say besides the counts that every command has, each line ended.
    pub lines: String,
}

impl TapOutcome {
    fn of(tap: &cca::Tap) -> Self {
        let counts = tap.counts();
        // Those of flows for which there was no place are reported as such.
        let keyed = counts.taken + counts.left_out + counts.no_place;
        let mut lines = String::new();
        for (count, what) in [(counts.out_of_window, BEGUN_AGAIN), (counts.behind, BEHIND)] {
            if count > 0 {
                lines.push_str(&format!("cca: {count} {what}\n"));
            }
        }
        Self {
            outcome: Outcome {
                keyed,
                without_key: counts.received() - keyed,
                ..Outcome::default()
            },
            beyond_max_flows: counts.no_place,
            lines,
        }
    }
}

/// The offset to add to downstream timestamps, and what there is to say of it.
#[derive(Default)]
pub struct ClockOffset {
    /// Nothing where no packet leaves before it arrived, or that is not known.
    pub add: Span,
    /// That clocks differ, or why they were not compared.
    pub said: Option<String>,
}

impl ClockOffset {
    /// Of the shortest time from tap to tap.
    fn of(least: Span) -> Self {
        if least.as_ns() >= 0 && least <= DELAY_SANE {
            return Self::default();
        }
        let add = Span::from_ns(-least.as_ns());
        let said = format!(
            "packets seem to leave before they arrive, or far too late: clocks differ; {:+.6} s \
             are added to downstream timestamps",
            add.as_seconds_f64()
        );
        Self { add, said: Some(said) }
    }

    fn unknown(why: impl Display) -> Self {
        let said = format!(
            "the clocks of the taps were not compared: {why}; downstream timestamps are used as \
             they are, and queues and delays are wrong if the clocks differ"
        );
        Self { add: Span::default(), said: Some(said) }
    }
}

/// The offset to add to downstream timestamps so that no packet leaves before it arrived; nothing
/// where none does. Read from the captures' beginnings, which standard input has not.
///
/// # Errors
/// [`InputError`]: a capture that cannot be read.
pub fn offset(
    before: &InputRequest,
    behind: &InputRequest,
    options: TapOptions,
    control: &Arc<Control>,
) -> Result<ClockOffset, InputError> {
    let is_pipe = |request: &InputRequest| request.names.iter().any(|name| name.as_os_str() == "-");
    if is_pipe(before) || is_pipe(behind) {
        return Ok(ClockOffset::unknown("standard input can be read only once"));
    }
    let find = |request| Inputs::find(request, true, Arc::clone(control));
    let (mut ingress, mut egress) = (Side::open(find(before)?)?, Side::open(find(behind)?)?);
    let mut pair = Pair::new(TapOptions { kept: Span::from_ns(i64::MAX), ..options });
    // Clocks that differ by hours have no moment in common: each side by its own first packet.
    for (side, tap) in [(&mut ingress, &mut pair.ingress), (&mut egress, &mut pair.egress)] {
        side.read(tap, Timestamp::from_ns(i64::MIN + 1));
        let until = tap.latest().plus(COMPARED);
        side.read(tap, until);
    }
    let (Some(came), Some(left)) = (pair.ingress.earliest(), pair.egress.earliest()) else {
        let tap = if pair.ingress.earliest().is_none() { "upstream" } else { "downstream" };
        return Ok(ClockOffset::unknown(format_args!("the {tap} captures have no TCP data")));
    };
    if let Some(least) = pair.delay_min() {
        return Ok(ClockOffset::of(least));
    }
    // One was begun later than the other: then by its first packet, if the clocks are as near.
    let options = TapOptions { kept: Span::from_ns(2 * COMPARED.as_ns()), ..options };
    if came < left {
        pair.ingress = ingress.read_from(left, options);
    } else {
        pair.egress = egress.read_from(came, options);
    }
    Ok(pair.delay_min().map_or_else(
        || {
            ClockOffset::unknown(format_args!(
                "no packet could be matched where the captures begin, upstream at {came}, \
                 downstream at {left}"
            ))
        },
        ClockOffset::of,
    ))
}

/// No queue holds every packet for longer: it is the clocks that differ.
const DELAY_SANE: Span = Span::from_seconds(2);
