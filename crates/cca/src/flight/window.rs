//! What a model and a row are given of one flow at one tap.

use packet::{SlotClock, Span};

use super::slot::FlightSlot;
use crate::pair::Period;
use crate::segment::FlowWay;

/// One column of what a model reads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FlightInput {
    /// Bytes in flight at the end of the slot.
    Flight,
    /// The most of them in the slot.
    FlightMax,
    /// Those at its end that the receiver has, out of order.
    Sacked,
    /// Bytes of data that passed.
    Sent,
    /// Bytes of data that were acknowledged.
    Acked,
    /// Packets that had passed before.
    Resent,
    /// The mean time from data to its acknowledgement; where none was timed, that of the slot
    /// before.
    Rtt,
    /// The mean time from an acknowledgement to the data that it let go, on the sender's side of
    /// the tap; where none was timed, that of the slot before.
    UpstreamRtt,
    /// The round trip of the whole path: both parts together. Without TCP timestamps it is the part
    /// beyond the tap alone.
    PathRtt,
}

impl FlightInput {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Flight,
        Self::FlightMax,
        Self::Sacked,
        Self::Sent,
        Self::Acked,
        Self::Resent,
        Self::Rtt,
        Self::UpstreamRtt,
        Self::PathRtt,
    ];

    /// For columns and settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flight => "flight_bytes",
            Self::FlightMax => "flight_max_bytes",
            Self::Sacked => "sacked_bytes",
            Self::Sent => "sent_bytes",
            Self::Acked => "acked_bytes",
            Self::Resent => "resent_packets",
            Self::Rtt => "rtt_s",
            Self::UpstreamRtt => "upstream_rtt_s",
            Self::PathRtt => "path_rtt_s",
        }
    }

    /// By its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|input| input.name() == name)
    }
}

/// Why what is in flight is not known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FlightMissingReason {
    /// No data of the flow passed up to the end of the window.
    Data,
    /// None of it was acknowledged past the tap: the way back takes another path, or the flow was
    /// caught before its first acknowledgement.
    Acks,
}

impl FlightMissingReason {
    /// For tables and counters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Acks => "acks",
        }
    }
}

/// A flow's RTT is the mean of so much of its past, up to where it was timed last: longer than a
/// packet waits in any queue. It is that of the whole path: from the tap to the receiver and back,
/// and, where time stamps tell it, from the tap to the sender and back.
pub const RTT_LOOKED_AT: Span = Span::from_seconds(10);

/// Slots of a row, where each RTT is cut into so many rows, by the RTT that a flow had before a
/// slot; at least one. `None` where none was timed.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn row_slots(
    slots: &[FlightSlot],
    end: i64,
    clock: SlotClock,
    rows_per_rtt: u32,
) -> Option<usize> {
    let past = slots.get(..slots.partition_point(|slot| slot.slot < end)).unwrap_or_default();
    // A flow that always sends again is timed at no time.
    let last = past.iter().rposition(|slot| slot.rtt_count > 0)?;
    let past = past.get(..=last).unwrap_or_default();
    let end = past.last()?.slot.saturating_add(1);
    let from = end.saturating_sub(clock.count(RTT_LOOKED_AT));
    let lately = past.iter().filter(|slot| slot.slot >= from);
    let (mut down, mut up) = (Times::default(), Times::default());
    for slot in lately {
        down = down.with(slot.rtt_sum_ns, slot.rtt_count);
        up = up.with(slot.upstream_rtt_sum_ns, slot.upstream_rtt_count);
    }
    let count = down.count;
    let row_s = (down.mean_s() + up.mean_s()) / f64::from(rows_per_rtt.max(1));
    (count > 0).then(|| (row_s / clock.length().as_seconds_f64()).round().max(1.0) as usize)
}

/// Times that are averaged.
#[derive(Clone, Copy, Default)]
struct Times {
    sum_ns: u64,
    count: u64,
}

impl Times {
    fn with(self, sum_ns: u64, count: u32) -> Self {
        let sum_ns = self.sum_ns.saturating_add(sum_ns);
        Self { sum_ns, count: self.count + u64::from(count) }
    }

    fn mean_s(self) -> f64 {
        rtt_s(self.sum_ns, self.count)
    }
}

/// Some slots of one flow at one tap.
#[derive(Clone, Copy, Debug)]
pub struct FlightWindow<'a> {
    /// The first slot, and how many rows.
    pub period: Period,
    /// Slots of a row.
    pub row_slots: usize,
    /// What the tap saw, in order; also before the window.
    pub slots: &'a [FlightSlot],
}

/// Room for rows, to be used again and again.
pub type FlightRows = Vec<f32>;

impl FlightWindow<'_> {
    /// Writes the inputs, row by row: `rows[slot * inputs.len() + input]`. `rows` is cleared
    /// first. Before a connection began, nothing is in flight.
    ///
    /// # Errors
    /// [`FlightMissingReason`], where what is in flight is not known at the window's end.
    pub fn fill(
        &self,
        inputs: &[FlightInput],
        rows: &mut FlightRows,
    ) -> Result<(), FlightMissingReason> {
        rows.clear();
        let row_slots = i64::try_from(self.row_slots.max(1)).unwrap_or(i64::MAX);
        let slots = self.period.len.saturating_mul(self.row_slots.max(1));
        let seen = up_to_end(self.slots, Period { len: slots, ..self.period });
        let last = seen.last().ok_or(FlightMissingReason::Data)?;
        if !last.is_known() {
            return Err(FlightMissingReason::Acks);
        }
        let past = seen.partition_point(|slot| slot.slot < self.period.start);
        let (before, inside) = seen.split_at(past);
        let mut state = Carried::default();
        before.iter().for_each(|slot| state.pass(slot));
        let mut inside = inside.iter().peekable();
        rows.reserve(self.period.len.saturating_mul(inputs.len()));
        let mut end = self.period.start;
        for _ in 0..self.period.len {
            end = end.saturating_add(row_slots);
            state.begin_row();
            while let Some(slot) = inside.next_if(|slot| slot.slot < end) {
                state.pass(slot);
            }
            rows.extend(inputs.iter().map(|&input| state.told(input)));
        }
        Ok(())
    }
}

/// What a row shows, and what holds until the next slot with a packet.
#[derive(Clone, Copy, Default)]
struct Carried {
    flight_bytes: u32,
    flight_max_bytes: u32,
    sacked_bytes: u32,
    sent_bytes: u64,
    acked_bytes: u64,
    resent_segments: u64,
    rtt_s: f64,
    upstream_rtt_s: f64,
}

impl Carried {
    fn begin_row(&mut self) {
        let Self { flight_bytes, sacked_bytes, rtt_s, upstream_rtt_s, .. } = *self;
        *self = Self {
            flight_bytes,
            flight_max_bytes: flight_bytes,
            sacked_bytes,
            rtt_s,
            upstream_rtt_s,
            ..Self::default()
        };
    }

    fn pass(&mut self, slot: &FlightSlot) {
        self.flight_bytes = slot.flight_bytes;
        self.flight_max_bytes = self.flight_max_bytes.max(slot.flight_max_bytes);
        self.sacked_bytes = slot.sacked_bytes;
        self.sent_bytes += slot.sent_bytes;
        self.acked_bytes += slot.acked_bytes;
        self.resent_segments += u64::from(slot.resent_segments);
        if slot.rtt_count > 0 {
            self.rtt_s = rtt_s(slot.rtt_sum_ns, slot.rtt_count.into());
        }
        if slot.upstream_rtt_count > 0 {
            self.upstream_rtt_s = rtt_s(slot.upstream_rtt_sum_ns, slot.upstream_rtt_count.into());
        }
    }

    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
    fn told(&self, input: FlightInput) -> f32 {
        match input {
            FlightInput::Flight => self.flight_bytes as f32,
            FlightInput::FlightMax => self.flight_max_bytes as f32,
            FlightInput::Sacked => self.sacked_bytes as f32,
            FlightInput::Sent => self.sent_bytes as f32,
            FlightInput::Acked => self.acked_bytes as f32,
            FlightInput::Resent => self.resent_segments as f32,
            FlightInput::Rtt => self.rtt_s as f32,
            FlightInput::UpstreamRtt => self.upstream_rtt_s as f32,
            FlightInput::PathRtt => (self.rtt_s + self.upstream_rtt_s) as f32,
        }
    }
}

#[allow(clippy::cast_precision_loss)] // A mean of nanoseconds has digits to spare.
fn rtt_s(sum_ns: u64, count: u64) -> f64 {
    sum_ns as f64 / count.max(1) as f64 / 1e9
}

/// Slots up to the end of a window, of the connection that it ends with.
fn up_to_end(slots: &[FlightSlot], period: Period) -> &[FlightSlot] {
    let past = slots.partition_point(|slot| slot.slot < period.end());
    let slots = slots.get(..past).unwrap_or_default();
    let began = slots.iter().rposition(FlightSlot::began).unwrap_or(0);
    slots.get(began..).unwrap_or_default()
}

/// The slot from which on what is in flight is known, of the connection with which a period ends:
/// that of its beginning, or of the first data and acknowledgement that were seen.
#[must_use]
pub fn known_from(slots: &[FlightSlot], period: Period) -> Option<&FlightSlot> {
    let seen = up_to_end(slots, period);
    seen.last().filter(|last| last.is_known())?;
    let first = seen.iter().find(|slot| slot.is_known())?;
    let began = seen.first().filter(|slot| slot.began());
    Some(began.unwrap_or(first))
}

/// A flow's bytes in flight.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct InFlight {
    /// The mean of the slots' ends.
    pub mean_bytes: f64,
    /// The highest at any moment.
    pub max_bytes: u32,
    /// The most that the receiver had out of order at a slot's end.
    pub sacked_max_bytes: u32,
}

/// What a flow did in a period.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FlightPeriod {
    /// Which flow, and which way its data goes.
    pub way: FlowWay,
    /// Bytes of data that passed.
    pub sent_bytes: u64,
    /// Bytes that were acknowledged.
    pub acked_bytes: u64,
    /// Packets that had passed before.
    pub resent: u64,
    /// Those of them that the receiver was not known to have.
    pub lost: u64,
    /// Bytes in flight.
    pub flight: Result<InFlight, FlightMissingReason>,
    /// Mean time from data to its acknowledgement, in seconds.
    pub rtt_s: Option<f64>,
    /// Their minimum, up to 4.29 s.
    pub rtt_min: Option<Span>,
    /// How much `rtt_s` is above the least since the connection was first seen, in seconds: how
    /// long packets wait beyond the tap.
    pub rtt_inflation_s: Option<f64>,
    /// Mean time from an acknowledgement to the data that it let go, in seconds; with the mean time
    /// above it is the round trip of the whole path.
    pub upstream_rtt_s: Option<f64>,
}

impl FlightPeriod {
    /// `None` of a flow that sent nothing and has nothing in flight.
    #[must_use]
    pub fn of(way: FlowWay, period: Period, slots: &[FlightSlot]) -> Option<Self> {
        let past = slots.partition_point(|slot| slot.slot < period.end());
        let first = slots.partition_point(|slot| slot.slot < period.start);
        let inside = slots.get(first..past).unwrap_or_default();
        let flight = in_flight(slots, period);
        let total = Total::of(inside);
        let sent_bytes = total.sent_bytes;
        if sent_bytes == 0 && flight.is_ok_and(|flight| flight.max_bytes == 0)
            || inside.is_empty() && flight.is_err()
        {
            return None;
        }
        let is_timed = total.rtt.count > 0;
        Some(Self {
            way,
            sent_bytes,
            acked_bytes: total.acked_bytes,
            resent: total.resent,
            lost: total.lost,
            flight,
            rtt_s: is_timed.then(|| total.rtt.mean_s()),
            rtt_min: (total.rtt_min_ns < u32::MAX).then(|| Span::from_ns(total.rtt_min_ns.into())),
            rtt_inflation_s: inflation_s(inside),
            upstream_rtt_s: (total.upstream.count > 0).then(|| total.upstream.mean_s()),
        })
    }
}

/// How far the mean time of the connection that is the last in these slots is above its least;
/// `None` before it was timed.
fn inflation_s(slots: &[FlightSlot]) -> Option<f64> {
    let began = slots.iter().rposition(FlightSlot::began).unwrap_or(0);
    let own = slots.get(began..).unwrap_or_default();
    let (rtt, least_ns) = (Total::of(own).rtt, own.last()?.rtt_least_ns);
    // A minimum that is the largest number is longer than that.
    let is_timed = rtt.count > 0 && least_ns > 0 && least_ns < u32::MAX;
    is_timed.then(|| (rtt.mean_s() - rtt_s(least_ns.into(), 1)).max(0.0))
}

/// Some slots together.
#[derive(Clone, Copy)]
struct Total {
    sent_bytes: u64,
    acked_bytes: u64,
    resent: u64,
    lost: u64,
    rtt: Times,
    /// Of those that have one; the largest number where none has.
    rtt_min_ns: u32,
    upstream: Times,
}

impl Total {
    /// In one walk, since a period has a thousand of them.
    fn of(slots: &[FlightSlot]) -> Self {
        let none = Self {
            sent_bytes: 0,
            acked_bytes: 0,
            resent: 0,
            lost: 0,
            rtt: Times::default(),
            rtt_min_ns: u32::MAX,
            upstream: Times::default(),
        };
        slots.iter().fold(none, |sum, slot| Self {
            sent_bytes: sum.sent_bytes + slot.sent_bytes,
            acked_bytes: sum.acked_bytes + slot.acked_bytes,
            resent: sum.resent + u64::from(slot.resent_segments),
            lost: sum.lost + u64::from(slot.lost_segments),
            rtt: sum.rtt.with(slot.rtt_sum_ns, slot.rtt_count),
            rtt_min_ns: if slot.rtt_count > 0 {
                sum.rtt_min_ns.min(slot.rtt_min_ns)
            } else {
                sum.rtt_min_ns
            },
            upstream: sum.upstream.with(slot.upstream_rtt_sum_ns, slot.upstream_rtt_count),
        })
    }
}

fn in_flight(slots: &[FlightSlot], period: Period) -> Result<InFlight, FlightMissingReason> {
    // Of what was before the period the last slot says all that counts, and where that one or a
    // later one begins a connection, nothing before it does.
    let first = slots.partition_point(|slot| slot.slot < period.start).saturating_sub(1);
    let seen = up_to_end(slots.get(first..).unwrap_or_default(), period);
    let last = seen.last().ok_or(FlightMissingReason::Data)?;
    if !last.is_known() {
        return Err(FlightMissingReason::Acks);
    }
    // A flow that is silent and has nothing in flight needs no look at each slot.
    if last.slot < period.start && last.flight_bytes == 0 {
        return Ok(InFlight::default());
    }
    let mut found = InFlight::default();
    let mut carried = 0_u32;
    let (mut from, mut area) = (period.start, 0.0);
    #[allow(clippy::cast_precision_loss)]
    let slots_of = |from: i64, to: i64| to.saturating_sub(from).max(0) as f64;
    for slot in seen {
        if slot.slot >= period.start {
            area += f64::from(carried) * slots_of(from, slot.slot);
            found.max_bytes = found.max_bytes.max(slot.flight_max_bytes);
            found.sacked_max_bytes = found.sacked_max_bytes.max(slot.sacked_bytes);
            from = slot.slot;
        } else {
            found.max_bytes = slot.flight_bytes;
            found.sacked_max_bytes = slot.sacked_bytes;
        }
        carried = slot.flight_bytes;
    }
    area += f64::from(carried) * slots_of(from, period.end());
    #[allow(clippy::cast_precision_loss)]
    let len = period.len.max(1) as f64;
    found.mean_bytes = area / len;
    Ok(found)
}
