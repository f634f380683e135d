//! From slots at two taps to what a model reads: one row a slot, one column an input.
//!
//! The paper's §III-A and §III-D. Its `InSeq(t)` and `OutSeq(t)` are the first byte of data of the
//! first packet of slot t at the tap upstream of the queue and at the tap downstream of it; what
//! has passed a tap by the end of slot t is what lies before the first packet of slot t + 1. A
//! window of n slots therefore looks at n + 1, and is filled from its last slot to its first, each
//! slot once.

mod drops;
mod queue;
mod sequences;
#[cfg(test)]
mod tests;

use packet::TapSlot;
use packet::wire::tcp::SeqNumber;

use sequences::Sequences;

/// One column.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Input {
    /// CBIQ, the flow's bytes of data in the queue at the end of the slot.
    Cbiq,
    /// Bytes of data that entered the queue.
    IngressBytes,
    /// Bytes of data that left it.
    EgressBytes,
    /// Packets that were lost in it, an estimate; see [`Window::fill`].
    Drops,
    /// The largest step of the sender's time stamps, in its ticks, of packets that came.
    SourceGap,
    /// The longest time between packets that came, in nanoseconds.
    ArrivalGap,
    /// Packets that came, as they are on the wire.
    IngressSegments,
    /// Packets that came, as the tap saw them; with offloads, one may hold many segments.
    IngressPackets,
    /// Packets that left, as they are on the wire.
    EgressSegments,
}

impl Input {
    /// All of them: the six of the paper, and packets where it counts bytes.
    pub const ALL: [Self; 9] = [
        Self::Cbiq,
        Self::IngressBytes,
        Self::EgressBytes,
        Self::Drops,
        Self::SourceGap,
        Self::ArrivalGap,
        Self::IngressSegments,
        Self::IngressPackets,
        Self::EgressSegments,
    ];

    /// For columns and settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cbiq => "cbiq_bytes",
            Self::IngressBytes => "ingress_bytes",
            Self::EgressBytes => "egress_bytes",
            Self::Drops => "drops",
            Self::SourceGap => "source_gap_ticks",
            Self::ArrivalGap => "arrival_gap_ns",
            Self::IngressSegments => "ingress_segments",
            Self::IngressPackets => "ingress_packets",
            Self::EgressSegments => "egress_segments",
        }
    }

    /// Whether what all flows have of it is the queue's, so that each has a share.
    #[must_use]
    pub const fn is_shared(self) -> bool {
        matches!(self, Self::Cbiq | Self::IngressBytes | Self::EgressBytes)
    }

    /// By its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|input| input.name() == name)
    }
}

/// What has passed a tap by the end of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ProgressRule {
    /// All before the first packet of the next slot that has one: the paper's rule. A packet that
    /// is retransmitted puts it back.
    #[default]
    First,
    /// All before the highest byte that was seen: what is retransmitted changes nothing.
    Highest,
}

/// What is taken for the sequence number of a slot without a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Empty {
    /// That of the next slot that has one: right where every packet was seen.
    #[default]
    Next,
    /// On the line between the slots around it: where packets were not sampled.
    Line,
}

/// How bytes that came and left are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Throughput {
    /// Added up, packet by packet.
    #[default]
    Counted,
    /// `InThr(t) = max(InSeq(t + 1) − InSeq(t), 0)`: where packets were not sampled.
    Sequence,
}

/// The rules of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rules {
    /// What has passed a tap.
    pub passed: ProgressRule,
    /// Slots without a packet.
    pub empty: Empty,
    /// Bytes that came and left.
    pub throughput: Throughput,
}

impl Rules {
    /// Where packets were not sampled.
    pub const SAMPLED: Self =
        Self { passed: ProgressRule::First, empty: Empty::Line, throughput: Throughput::Sequence };

    /// The same for packets that were not sampled.
    #[must_use]
    pub const fn of_sampled(self) -> Self {
        Self { passed: self.passed, ..Self::SAMPLED }
    }
}

/// Why there is nothing to read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MissingReason {
    /// No packet of the flow came to the queue up to the end of the window.
    Ingress,
    /// None left it: all wait, or the tap downstream of the queue does not see this flow.
    Egress,
    /// What was seen upstream and downstream of the queue lies further apart than any window
    /// reaches: two connections of the same ports.
    Apart,
}

impl MissingReason {
    /// For tables and counters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ingress => "ingress",
            Self::Egress => "egress",
            Self::Apart => "apart",
        }
    }
}

/// Slots before a window in which it is looked for what never came to the queue: longer than a
/// packet waits in it, so that windows one after the other count each loss once.
pub(crate) const DROPS_LOOK_BACK: i64 = 1000;

/// Some slots of one flow.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// The first slot.
    pub start: i64,
    /// Slots.
    pub len: usize,
    /// What the tap upstream of the queue saw, in order; also before the window, and one slot
    /// after.
    pub ingress: &'a [TapSlot],
    /// What the tap downstream of the queue saw.
    pub egress: &'a [TapSlot],
}

/// Room for what is computed on the way, to be used again and again.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    ingress: Vec<f64>,
    egress: Vec<f64>,
    ingress_runs: Vec<(usize, f64)>,
    egress_runs: Vec<(usize, f64)>,
}

impl Window<'_> {
    /// Writes the inputs, row by row: `rows[slot * inputs.len() + input]`. `rows` is cleared
    /// first.
    ///
    /// Losses are an estimate: bytes that sequence numbers went past downstream of the queue and
    /// not upstream of it, in packets of the flow's mean size, in the slot in which the tap
    /// downstream of the queue shows them. What passed before a tap began to see the flow is not
    /// among them.
    ///
    /// # Errors
    /// [`MissingReason`], where CBIQ has no beginning.
    pub fn fill(
        &self,
        inputs: &[Input],
        rules: Rules,
        scratch: &mut Scratch,
        rows: &mut Vec<f32>,
    ) -> Result<(), MissingReason> {
        rows.clear();
        let (ingress, egress) = self.connection(rules)?;
        let base = base(ingress, self.start).ok_or(MissingReason::Ingress)?;
        let len = self.len.saturating_add(1);
        let sequences = Sequences { start: self.start, len, base, rules };
        if !sequences.fill(ingress, &mut scratch.ingress) {
            return Err(MissingReason::Ingress);
        }
        if !sequences.fill(egress, &mut scratch.egress) {
            return Err(MissingReason::Egress);
        }
        if !are_near(ingress, egress) {
            return Err(MissingReason::Apart);
        }
        rows.resize(self.len * inputs.len(), 0.0);
        for (column, &input) in inputs.iter().enumerate() {
            self.fill_column(input, rules, scratch, rows, (column, inputs.len()));
        }
        Ok(())
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
    fn fill_column(
        &self,
        input: Input,
        rules: Rules,
        scratch: &Scratch,
        rows: &mut [f32],
        (column, stride): (usize, usize),
    ) {
        let mut put = |slot: usize, value: f32| {
            if let Some(place) = rows.get_mut(slot * stride + column) {
                *place = value;
            }
        };
        let grown = |passed: &[f64], put: &mut dyn FnMut(usize, f32)| {
            for (slot, pair) in passed.windows(2).enumerate() {
                put(slot, (pair[1] - pair[0]).max(0.0) as f32);
            }
        };
        let by_sequence = rules.throughput == Throughput::Sequence;
        match input {
            Input::Cbiq => {
                let ends = scratch.ingress.iter().zip(&scratch.egress).skip(1);
                for (slot, (came, left)) in ends.enumerate() {
                    put(slot, (came - left).max(0.0) as f32);
                }
            }
            Input::IngressBytes if by_sequence => grown(&scratch.ingress, &mut put),
            Input::EgressBytes if by_sequence => grown(&scratch.egress, &mut put),
            Input::IngressBytes => {
                self.each(self.ingress, |at, seen| put(at, seen.data_bytes as f32))
            }
            Input::EgressBytes => {
                self.each(self.egress, |at, seen| put(at, seen.data_bytes as f32))
            }
            Input::Drops => self.drops(&mut put),
            Input::SourceGap => {
                self.each(self.ingress, |at, seen| put(at, seen.source_gap_max_ticks as f32));
            }
            Input::ArrivalGap => {
                self.each(self.ingress, |at, seen| put(at, seen.arrival_gap_max_ns as f32));
            }
            Input::IngressSegments => {
                self.each(self.ingress, |at, seen| put(at, seen.segments as f32))
            }
            Input::IngressPackets => {
                self.each(self.ingress, |at, seen| put(at, seen.packets as f32))
            }
            Input::EgressSegments => {
                self.each(self.egress, |at, seen| put(at, seen.segments as f32))
            }
        }
    }

    fn each(&self, slots: &[TapSlot], mut put: impl FnMut(usize, &TapSlot)) {
        for seen in self.inside(slots) {
            if let Ok(at) = usize::try_from(seen.slot - self.start) {
                put(at, seen);
            }
        }
    }

    fn inside<'b>(&self, slots: &'b [TapSlot]) -> &'b [TapSlot] {
        self.since(self.start, slots)
    }

    /// Slots from this one on, up to the last of the window.
    fn since<'b>(&self, first: i64, slots: &'b [TapSlot]) -> &'b [TapSlot] {
        let end = self.start.saturating_add_unsigned(self.len as u64);
        let first = slots.partition_point(|seen| seen.slot < first);
        let past = slots.partition_point(|seen| seen.slot < end);
        slots.get(first..past).unwrap_or_default()
    }

    /// Slots of both taps up to one after the window, of the connection that the window ends with.
    ///
    /// Where ports are used again, all that came of the new connection may wait while the last that
    /// left is of the old one: its numbers say nothing about the new. An opening packet that the
    /// queue lost also begins at one tap alone; then what left goes into what came, and is of the
    /// same connection. Where packets were not sampled, the taps see it begin at different ones,
    /// which shows nothing.
    fn connection(&self, rules: Rules) -> Result<(&[TapSlot], &[TapSlot]), MissingReason> {
        let ingress = self.up_to_end(self.ingress);
        let egress = self.up_to_end(self.egress);
        let firsts = ingress.first().zip(egress.first());
        let begins_alone = firsts.is_some_and(|(came, left)| came.began() && left.slot < came.slot);
        if begins_alone && rules.empty == Empty::Next && !goes_into(egress, ingress) {
            return Err(MissingReason::Egress);
        }
        Ok((ingress, egress))
    }

    /// Slots up to one after the window, of the connection that the window ends with.
    fn up_to_end<'b>(&self, slots: &'b [TapSlot]) -> &'b [TapSlot] {
        let end = self.start.saturating_add_unsigned(self.len as u64);
        let past = slots.partition_point(|seen| seen.slot <= end);
        let slots = slots.get(..past).unwrap_or_default();
        let began = slots.iter().rposition(TapSlot::began).unwrap_or(0);
        slots.get(began..).unwrap_or_default()
    }
}

/// Sequence numbers are relative to this one, so that they may wrap.
fn base(ingress: &[TapSlot], start: i64) -> Option<SeqNumber> {
    let at = ingress.partition_point(|seen| seen.slot < start);
    ingress.get(at).or_else(|| ingress.last()).map(TapSlot::first)
}

/// Whether the last that left lies within what came.
fn goes_into(egress: &[TapSlot], ingress: &[TapSlot]) -> bool {
    let (Some(left), Some(first), Some(last)) = (egress.last(), ingress.first(), ingress.last())
    else {
        return false;
    };
    left.high().since(first.first()) > 0 && last.high().since(left.high()) >= 0
}

fn are_near(ingress: &[TapSlot], egress: &[TapSlot]) -> bool {
    let (Some(came), Some(left)) = (ingress.last(), egress.last()) else { return false };
    packet::reach::is_near(came.high(), left.high())
}
