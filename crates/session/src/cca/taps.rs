//! Two captures, read side by side in event time.

use std::path::PathBuf;
use std::sync::Arc;

use crate::reading::{InOrder, InputError, InputRequest, Inputs, Opened, Received};
use capture::input::Input;
use cca::{Pair, TapOptions};
use engine::group::Outcome;
use engine::run::Control;
use packet::{Batch, Record, Source as _, Span, Timestamp};

/// Stamps are compared over so much of the captures' beginnings.
const COMPARED: Span = Span::from_seconds(2);

/// A capture that is read as far as is needed.
pub struct Side {
    /// What is read.
    pub inputs: Inputs,
    source: InOrder,
    shift: Span,
    has_ended: bool,
    shifted: Vec<Record>,
}

impl Side {
    /// Opens it.
    ///
    /// # Errors
    /// [`InputError`]: a capture that cannot be read.
    pub fn open(inputs: Inputs) -> Result<Self, InputError> {
        let opened = Opened::Files(inputs.open()?);
        let source = inputs.in_order(opened);
        let shift = Span::default();
        Ok(Self { inputs, source, shift, has_ended: false, shifted: Vec::new() })
    }

    /// Stamps are later by this than the capture has them.
    pub fn shift(&mut self, by: Span) {
        self.shift = by;
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

    /// Whether all of it was read.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// What became of its frames.
    pub fn finish(self, tap: &cca::Tap) -> (Inputs, Received, Outcome) {
        let counts = tap.counts();
        let keyed = counts.taken + counts.left_out;
        let outcome =
            Outcome { keyed, without_key: counts.received() - keyed, ..Outcome::default() };
        (self.inputs, self.source.received(), outcome)
    }
}

/// Both, read together.
pub struct Sides {
    /// Before the queue.
    pub ingress: Side,
    /// Behind it.
    pub egress: Side,
}

impl Sides {
    /// Reads both up to a moment.
    pub fn read(&mut self, pair: &mut Pair, until: Timestamp) {
        self.ingress.read(&mut pair.ingress, until);
        self.egress.read(&mut pair.egress, until);
    }

    /// When the first packet came to the queue of which anything is kept; both are read so far.
    pub fn first(&mut self, pair: &mut Pair) -> Option<Timestamp> {
        while pair.ingress.earliest().is_none() {
            if !self.ingress.read_batch(&mut pair.ingress) {
                return None;
            }
        }
        pair.ingress.earliest()
    }

    /// Up to when both are read, where one of them has not ended.
    pub fn horizon(&self, pair: &Pair) -> Option<Timestamp> {
        let sides = [(&self.ingress, &pair.ingress), (&self.egress, &pair.egress)];
        let going_on = sides.into_iter().filter(|(side, _)| !side.has_ended);
        going_on.map(|(_, tap)| tap.latest()).min()
    }

    /// Whether reading is to end.
    pub fn are_stopped(&self) -> bool {
        self.ingress.inputs.control.is_stopped()
    }

    /// Whether both have ended.
    pub const fn have_ended(&self) -> bool {
        self.ingress.has_ended() && self.egress.has_ended()
    }
}

/// What is to be added to stamps behind the queue so that no packet leaves before it came; nothing
/// where none does. Read anew from the captures' beginnings, which standard input has not.
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
