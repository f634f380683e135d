//! Two captures, read side by side in event time.

use std::path::PathBuf;
use std::sync::Arc;

use capture::input::Input;
use cca::{Pair, Rules, TapOptions, Walk};
use engine::group::Outcome;
use engine::run::Control;
use packet::{Batch, Record, SlotClock, Source as _, Span, Timestamp};

use super::BEGUN_AGAIN;
use super::naming::Namer;
use super::rows::Told;
use super::settings::CcaSettings;
use crate::reading::{InOrder, InputError, InputRequest, Inputs, Opened, Received};

/// What packets of which nothing is told lack.
pub const KEY: &str = "TCP data";

/// Stamps are compared over so much of the captures' beginnings.
const COMPARED: Span = Span::from_seconds(2);

/// A capture that is read as far as is needed.
struct Side {
    inputs: Inputs,
    source: InOrder,
    /// Stamps are later by this than the capture has them.
    shift: Span,
    has_ended: bool,
    shifted: Vec<Record>,
}

impl Side {
    fn open(inputs: Inputs) -> Result<Self, InputError> {
        let opened = Opened::Files(inputs.open()?);
        let source = inputs.in_order(opened);
        let shift = Span::default();
        Ok(Self { inputs, source, shift, has_ended: false, shifted: Vec::new() })
    }

    /// Reads up to a moment, or to the end.
    fn read(&mut self, tap: &mut cca::Tap, until: Timestamp) {
        // No stamp is later than the latest that there is: then only the end ends it.
        while tap.latest() < until || until == Timestamp::MAX {
            if !self.read_batch(tap) {
                break;
            }
        }
    }

    /// Reads on; `false` where there is nothing more to read.
    fn read_batch(&mut self, tap: &mut cca::Tap) -> bool {
        if self.has_ended || self.inputs.control.is_stopped() {
            return false;
        }
        let Some(batch) = self.source.next_batch() else {
            self.has_ended = true;
            return false;
        };
        if self.shift == Span::default() {
            tap.take(&batch);
            return true;
        }
        self.shifted.clear();
        self.shifted.extend(batch.records.iter().map(|record| Record {
            timestamp: if record.timestamp == Timestamp::UNKNOWN {
                record.timestamp
            } else {
                record.timestamp.plus(self.shift)
            },
            ..*record
        }));
        tap.take(&Batch { records: &self.shifted, ..batch });
        true
    }

    fn finish(self, tap: &cca::Tap) -> TapDone {
        let counts = tap.counts();
        let keyed = counts.taken + counts.left_out;
        let outcome =
            Outcome { keyed, without_key: counts.received() - keyed, ..Outcome::default() };
        TapDone {
            inputs: self.inputs,
            received: self.source.received(),
            outcome,
            beyond_max_flows: counts.no_place,
            begun_again: counts.out_of_window,
        }
    }
}

/// What became of the packets of a tap.
pub struct TapDone {
    /// What was read.
    pub inputs: Inputs,
    /// Packets by what became of them before.
    pub received: Received,
    /// Packets by what was done with them.
    pub outcome: Outcome,
    /// Packets of flows for which there was no place.
    pub beyond_max_flows: u64,
    /// Packets that fit no window.
    pub begun_again: u64,
}

impl TapDone {
    /// What there is to say besides the counts that every command has, each line ended.
    #[must_use]
    pub fn lines(&self) -> String {
        match self.begun_again {
            0 => String::new(),
            count => format!("cca: {count} {BEGUN_AGAIN}\n"),
        }
    }
}

/// Both, read together.
struct Sides {
    ingress: Side,
    egress: Side,
}

impl Sides {
    /// Reads both up to a moment.
    fn read(&mut self, pair: &mut Pair, until: Timestamp) {
        self.ingress.read(&mut pair.ingress, until);
        self.egress.read(&mut pair.egress, until);
    }

    /// When the first packet came to the queue of which anything is kept; both are read so far.
    fn first(&mut self, pair: &mut Pair) -> Option<Timestamp> {
        while pair.ingress.earliest().is_none() {
            if !self.ingress.read_batch(&mut pair.ingress) {
                return None;
            }
        }
        pair.ingress.earliest()
    }

    /// Up to when both are read, where one of them has not ended.
    fn horizon(&self, pair: &Pair) -> Option<Timestamp> {
        let sides = [(&self.ingress, &pair.ingress), (&self.egress, &pair.egress)];
        let going_on = sides.into_iter().filter(|(side, _)| !side.has_ended);
        going_on.map(|(_, tap)| tap.latest()).min()
    }

    /// Whether reading is to end.
    fn are_stopped(&self) -> bool {
        self.ingress.inputs.control.is_stopped()
    }

    /// Whether both have ended.
    const fn have_ended(&self) -> bool {
        self.ingress.has_ended && self.egress.has_ended
    }
}

/// Two captures of a queue: looks back at each period that both have left behind them and in which
/// a packet came or something waits.
pub struct QueueReader {
    sides: Sides,
    pair: Pair,
    walk: Walk,
    rules: Rules,
    row_count: usize,
    namer: Option<Namer>,
}

impl QueueReader {
    /// Opens the captures before the queue and behind it, whose stamps are later by `offset` than
    /// the captures have them.
    ///
    /// # Errors
    /// [`InputError`]: a capture that cannot be read.
    pub fn open(
        (before, behind): (Inputs, Inputs),
        offset: Span,
        settings: &CcaSettings,
        clock: SlotClock,
        namer: Option<Namer>,
    ) -> Result<Self, InputError> {
        let mut sides = Sides { ingress: Side::open(before)?, egress: Side::open(behind)? };
        sides.egress.shift = offset;
        let model = namer.as_ref().map(|namer| &namer.model);
        Ok(Self {
            sides,
            pair: Pair::new(settings.tap_options(clock, model)),
            // The slot after the last tells what has passed by its end.
            walk: Walk::new(clock, settings.period_len(clock), 1),
            rules: settings.rules(),
            row_count: settings.row_count_max(),
            namer,
        })
    }

    /// What is read before the queue, of which progress is shown.
    #[must_use]
    pub const fn before(&self) -> &Inputs {
        &self.sides.ingress.inputs
    }

    /// Names of the controls that are told apart; none where there is no model.
    #[must_use]
    pub fn controls(&self) -> Vec<String> {
        Namer::controls(self.namer.as_ref())
    }

    /// Reads both to their ends, and hands each period to `put`.
    ///
    /// # Errors
    /// What `put` returns, at once.
    pub fn run<E>(&mut self, mut put: impl FnMut(&Told) -> Result<(), E>) -> Result<(), E> {
        let Self { sides, pair, walk, rules, row_count, namer } = self;
        let clock = pair.options().clock;
        let Some(first) = sides.first(pair) else { return Ok(()) };
        let mut begin = walk.begin_of(clock.slot(first));
        loop {
            let period = walk.period(begin);
            sides.read(pair, clock.start(period.end().saturating_add(2)));
            let mut is_told = false;
            if walk.is_worth(begin, |from| pair.next_slot(from)) {
                let told = Told::of(pair, period, *rules, *row_count, namer.as_mut());
                put(&told)?;
                is_told = !told.flows.is_empty();
            }
            let latest = clock.slot(pair.ingress.latest().max(pair.egress.latest()));
            if sides.have_ended() && latest < period.end() || sides.are_stopped() {
                return Ok(());
            }
            let horizon = sides.horizon(pair).map_or(latest, |time| clock.slot(time));
            begin = walk.next(period.end(), is_told, |from| pair.next_slot(from), horizon);
            pair.forget_before(clock.start(begin));
        }
    }

    /// What became of the packets of each tap, that before the queue first.
    #[must_use]
    pub fn finish(self) -> [TapDone; 2] {
        let Sides { ingress, egress } = self.sides;
        [ingress.finish(&self.pair.ingress), egress.finish(&self.pair.egress)]
    }
}

/// What is to be added to stamps behind the queue so that no packet leaves before it came; nothing
/// where none does. Read from the captures' beginnings, which standard input has not.
///
/// # Errors
/// [`InputError`]: a capture that cannot be read.
pub fn offset(
    before: &InputRequest,
    behind: &InputRequest,
    options: TapOptions,
    control: &Arc<Control>,
) -> Result<Span, InputError> {
    let is_pipe = |request: &InputRequest| request.names.iter().any(|name| name.as_os_str() == "-");
    if is_pipe(before) || is_pipe(behind) {
        return Ok(Span::default());
    }
    let find = |request| Inputs::find(request, true, Arc::clone(control));
    let mut sides =
        Sides { ingress: Side::open(find(before)?)?, egress: Side::open(find(behind)?)? };
    let mut pair = Pair::new(TapOptions { kept: Span::from_ns(i64::MAX), ..options });
    // Clocks that differ by hours have no moment in common: each side by its own first packet.
    for (side, tap) in
        [(&mut sides.ingress, &mut pair.ingress), (&mut sides.egress, &mut pair.egress)]
    {
        side.read(tap, Timestamp::from_ns(i64::MIN + 1));
        let until = tap.latest().plus(COMPARED);
        side.read(tap, until);
    }
    let least = pair.delay_min().unwrap_or_default();
    let differ = least.as_ns() < 0 || least > DELAY_SANE;
    Ok(if differ { Span::from_ns(-least.as_ns()) } else { Span::default() })
}

/// No queue holds every packet for longer: it is the clocks that differ.
const DELAY_SANE: Span = Span::from_seconds(2);

/// Names of captures, for the summary.
pub fn names(inputs: &Inputs) -> String {
    let name = |input: &Input| match input {
        Input::Stdin => String::from("-"),
        Input::File(path) => path.display().to_string(),
    };
    inputs.resolved.inputs.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// The request for the tap behind the queue: as that before it, of other captures.
pub fn behind(before: &InputRequest, egress: &[PathBuf]) -> InputRequest {
    InputRequest { names: egress.to_vec(), ..before.clone() }
}
