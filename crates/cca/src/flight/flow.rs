//! One way of a flow: its data one way, acknowledgements of it the other.

use std::num::NonZeroU32;

use packet::wire::tcp::SeqNumber;
use packet::{SlotClock, Timestamp};

use super::ranges::{Ranges, later};
use super::slot::FlightSlot;
use super::timed::{EchoTimes, PacketTimes};
use crate::segment::Segment;
use packet::reach;

/// An acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ack {
    /// When the tap saw it.
    pub time: Timestamp,
    /// The first byte that the receiver still waits for.
    pub number: SeqNumber,
    /// The receiver's time stamp (RFC 7323), where it sends any.
    pub ticks: Option<u32>,
    /// What it has beyond (SACK, RFC 2018): first byte, and one past the last.
    pub blocks: [Option<(SeqNumber, SeqNumber)>; 4],
}

/// What is known of one way of a flow.
#[derive(Clone, Debug, Default)]
pub struct FlightFlow {
    open: Option<FlightSlot>,
    time: Option<Timestamp>,
    /// One past the highest byte of data.
    high: Option<SeqNumber>,
    /// What the receiver waits for.
    acked: Option<SeqNumber>,
    /// What it has beyond.
    sacked: Ranges,
    /// What data went past without the tap's having seen it.
    holes: Ranges,
    /// The number of the packet that opened the connection.
    opened: Option<SeqNumber>,
    /// Ends of packets that were seen once, and when.
    timed: PacketTimes,
    /// Up to here acknowledgements may have waited for what was retransmitted: they time nothing
    /// (Karn's rule).
    untimed_until: Option<SeqNumber>,
    /// Time stamps of acknowledgements that passed.
    echoes: EchoTimes,
    /// The least time from data to its acknowledgement; 0 before the first.
    rtt_least_ns: u32,
    begins: bool,
}

impl FlightFlow {
    /// Takes in a packet with data, or that opens a connection; when it is the first of its slot,
    /// the slot before is complete.
    pub fn add(&mut self, clock: SlotClock, segment: &Segment) -> Option<FlightSlot> {
        let now = self.now(segment.time);
        if segment.opens {
            self.begin(segment, now);
        }
        if segment.data_len == 0 {
            return None;
        }
        let start = if segment.opens { segment.seq.plus(1) } else { segment.seq };
        if !self.is_of_window(start, segment.data_len) {
            *self = Self { open: self.open, time: self.time, begins: true, ..Self::default() };
        }
        if self.acked.is_some_and(|acked| !reach::is_near(start, acked)) {
            self.acked = None;
        }
        self.time = Some(now);
        // What is acknowledged was sent, whether it was seen or not.
        let high = self.high.unwrap_or_else(|| later(start, self.acked.unwrap_or(start)));
        if start.is_before(high) {
            // Sent again, or late: which of them is acknowledged cannot be told.
            self.timed.clear();
            self.untimed_until = Some(high);
        }
        if segment.data_len == 1 && start.since(high) == -1 {
            // A keep-alive, or a probe of a closed window that is repeated (RFC 9293 §3.8.4 and
            // §3.8.6.1): by a timer, and not since anything was lost.
            return None;
        }
        let done = self.turn(clock, now);
        let end = start.plus(segment.data_len.min(reach::WINDOW_MAX_BYTES));
        // Holes lie below `high`, none in another: what they have of a packet is a part of that.
        let again = again_bytes(start, end, high).saturating_sub(self.holes.overlap(start, end));
        let is_needless = self.has_bytes(start, end) >= again;
        if !start.is_after(high) {
            self.holes.cut(start, end);
        }
        let floor = self.reach(later(high, end));
        if start.is_after(high) {
            self.holes.insert(later(high, floor), start);
        }
        if end.is_after(high) {
            self.time_it(end, now);
        }
        let upstream = segment.echoed_ticks.and_then(|ticks| self.echoes.take(ticks));
        let begins = std::mem::take(&mut self.begins);
        if let Some(open) = &mut self.open {
            open.sent_bytes += u64::from(segment.data_len);
            if let Some(passed) = upstream {
                open.add_upstream_rtt(now.since(passed).as_ns().unsigned_abs());
            }
            open.segments = open.segments.saturating_add(segment.segments);
            if begins {
                open.flags |= FlightSlot::BEGAN;
            }
            let segments = part(segment.segments, again, segment.data_len);
            open.resent_bytes += u64::from(again);
            open.resent_segments = open.resent_segments.saturating_add(segments);
            let lost = if is_needless { 0 } else { segments };
            open.lost_segments = open.lost_segments.saturating_add(lost);
        }
        self.note_flight();
        done
    }

    /// Takes in an acknowledgement; when it is the first packet of its slot, the slot before is
    /// complete.
    pub fn add_ack(&mut self, clock: SlotClock, ack: &Ack) -> Option<FlightSlot> {
        let now = self.now(ack.time);
        if !self.fits_ack(ack) {
            // Another connection's, or a number that means nothing.
            return None;
        }
        if self.acked.is_some_and(|acked| ack.number.is_before(acked)) {
            return None;
        }
        // Without data of its own a way has no slots: all acknowledge, few send.
        let done = if self.high.is_some() { self.turn(clock, now) } else { None };
        if let Some(ticks) = ack.ticks {
            self.echoes.push(ticks, now);
        }
        let before = self.acked.replace(ack.number);
        self.time = Some(now);
        let rtt = self.take_rtt(ack.number, now);
        self.holes.cut_below(ack.number);
        self.sacked.cut_below(ack.number);
        for (start, end) in ack.blocks.into_iter().flatten() {
            // One that lies below tells what came twice (RFC 2883).
            if self.high.is_some_and(|high| is_between(ack.number, start, end, high)) {
                self.sacked.insert(start, end);
                // It passed, whether it was seen or not.
                self.holes.cut(start, end);
            }
        }
        if let Some(high) = self.high {
            // One byte more is the sender's FIN. More are data that went past unseen.
            if ack.number.since(high) > 1 {
                self.reach(ack.number);
            }
            let from = before.unwrap_or(ack.number);
            if let Some(open) = &mut self.open {
                open.acked_bytes += u64::from(u32::try_from(ack.number.since(from)).unwrap_or(0));
                if let Some(rtt_ns) = rtt {
                    open.add_rtt(rtt_ns);
                    let least = NonZeroU32::new(self.rtt_least_ns).map_or(u32::MAX, u32::from);
                    self.rtt_least_ns = least.min(narrow(rtt_ns));
                    open.rtt_least_ns = self.rtt_least_ns;
                }
            }
        }
        self.note_flight();
        done
    }

    /// Whether a packet can be of the connection that was seen so far; else it begins another.
    #[must_use]
    pub fn fits(&self, segment: &Segment) -> bool {
        segment.opens || segment.data_len == 0 || self.is_of_window(segment.seq, segment.data_len)
    }

    fn is_of_window(&self, start: SeqNumber, data_len: u32) -> bool {
        self.high.is_none_or(|high| reach::fits(start, data_len, high))
    }

    /// Whether an acknowledgement can be of what was sent.
    #[must_use]
    pub fn fits_ack(&self, ack: &Ack) -> bool {
        let high = self.high.or(self.opened.map(|opened| opened.plus(1)));
        high.is_none_or(|high| reach::is_near(ack.number, high))
    }

    /// Data goes up to here, and what lies further back than a window reaches is forgotten; where
    /// that begins.
    fn reach(&mut self, high: SeqNumber) -> SeqNumber {
        let floor = reach::floor(high);
        self.high = Some(high);
        self.holes.cut_below(floor);
        self.sacked.cut_below(floor);
        self.acked = self.acked.filter(|acked| !acked.is_before(floor));
        self.untimed_until = self.untimed_until.filter(|until| !until.is_before(floor));
        while self.timed.take_first_if(|end| end.is_before(floor)).is_some() {}
        floor
    }

    /// The slot that is not complete yet, as far as it has come.
    #[must_use]
    pub const fn open(&self) -> Option<&FlightSlot> {
        self.open.as_ref()
    }

    /// Bytes in flight: sent past the tap, and not acknowledged. `None` until both ways were seen.
    #[must_use]
    pub fn flight(&self) -> Option<u32> {
        let (high, acked) = (self.high?, self.acked?);
        // What was acknowledged may be one more, the sender's FIN.
        Some(u32::try_from(high.since(acked)).unwrap_or(0))
    }

    /// Those of them that the receiver has.
    #[must_use]
    pub fn sacked(&self) -> u32 {
        self.sacked.len_bytes()
    }

    /// When the last packet came; of several, the latest stamp.
    #[must_use]
    pub const fn latest(&self) -> Option<Timestamp> {
        self.time
    }

    /// Whether data was seen.
    #[must_use]
    pub const fn has_data(&self) -> bool {
        self.high.is_some()
    }

    /// Time is the latest stamp so far.
    fn now(&self, time: Timestamp) -> Timestamp {
        self.time.map_or(time, |last| last.max(time))
    }

    /// A connection is opened; the same packet retransmitted opens it once.
    fn begin(&mut self, segment: &Segment, now: Timestamp) {
        if self.opened == Some(segment.seq) {
            self.timed.clear();
            return;
        }
        *self = Self {
            open: self.open,
            time: Some(now),
            opened: Some(segment.seq),
            begins: true,
            ..Self::default()
        };
        self.timed.push(segment.seq.plus(1), now);
    }

    /// Begins a slot, if time has come to another.
    fn turn(&mut self, clock: SlotClock, now: Timestamp) -> Option<FlightSlot> {
        let slot = clock.slot(now);
        let done =
            if self.open.is_some_and(|open| open.slot < slot) { self.open.take() } else { None };
        if self.open.is_none() {
            let flight = self.flight();
            self.open = Some(FlightSlot {
                slot,
                flight_max_bytes: flight.unwrap_or(0),
                flight_bytes: flight.unwrap_or(0),
                sacked_bytes: self.sacked(),
                rtt_least_ns: self.rtt_least_ns,
                flags: if flight.is_some() { FlightSlot::KNOWN } else { 0 },
                ..FlightSlot::default()
            });
        }
        done
    }

    /// Bytes of a packet that the receiver has.
    fn has_bytes(&self, start: SeqNumber, end: SeqNumber) -> u32 {
        let acked = self.acked.map_or(0, |acked| again_bytes(start, end, acked));
        acked.saturating_add(self.sacked.overlap(start, end))
    }

    fn time_it(&mut self, end: SeqNumber, now: Timestamp) {
        let waits = self
            .untimed_until
            .is_some_and(|until| self.acked.is_none_or(|acked| acked.is_before(until)));
        if !waits {
            self.timed.push(end, now);
        }
    }

    /// The time since the last packet that this acknowledges passed.
    fn take_rtt(&mut self, acked: SeqNumber, now: Timestamp) -> Option<u64> {
        let mut passed = None;
        while let Some(time) = self.timed.take_first_if(|end| !end.is_after(acked)) {
            passed = Some(time);
        }
        passed.map(|passed| now.since(passed).as_ns().unsigned_abs())
    }

    fn note_flight(&mut self) {
        let (flight, sacked) = (self.flight(), self.sacked());
        if let (Some(open), Some(flight)) = (&mut self.open, flight) {
            open.flight_bytes = flight;
            open.flight_max_bytes = open.flight_max_bytes.max(flight);
            open.sacked_bytes = sacked;
            open.flags |= FlightSlot::KNOWN;
        }
    }
}

impl FlightSlot {
    /// The sum is of whole times: behind a slow link whose queue is long, they exceed what a
    /// minimum here can be.
    fn add_rtt(&mut self, rtt_ns: u64) {
        let least = if self.rtt_count == 0 { u32::MAX } else { self.rtt_min_ns };
        self.rtt_min_ns = least.min(narrow(rtt_ns));
        self.rtt_count = self.rtt_count.saturating_add(1);
        self.rtt_sum_ns = self.rtt_sum_ns.saturating_add(rtt_ns);
    }

    /// A sender that has nothing to send echoes an old stamp, so these times may be long, and
    /// the stamps of a capture may lie centuries apart.
    fn add_upstream_rtt(&mut self, rtt_ns: u64) {
        self.upstream_rtt_count = self.upstream_rtt_count.saturating_add(1);
        self.upstream_rtt_sum_ns = self.upstream_rtt_sum_ns.saturating_add(rtt_ns);
    }
}

/// A time as a minimum is kept, 4.29 s at most.
fn narrow(rtt_ns: u64) -> u32 {
    u32::try_from(rtt_ns).unwrap_or(u32::MAX)
}

/// Whether a range lies between two numbers, which are of one window.
fn is_between(low: SeqNumber, start: SeqNumber, end: SeqNumber, high: SeqNumber) -> bool {
    let [start, end, high] = [start, end, high].map(|number| number.since(low));
    0 <= start && start < end && end <= high
}

/// Bytes of a packet that lie below a number.
fn again_bytes(start: SeqNumber, end: SeqNumber, below: SeqNumber) -> u32 {
    let past = if end.is_before(below) { end } else { below };
    u32::try_from(past.since(start)).unwrap_or(0)
}

/// Of segments that travel as one packet those that so many of its bytes touch.
fn part(segments: u32, bytes: u32, of: u32) -> u32 {
    if bytes >= of {
        return segments;
    }
    let whole = u64::from(segments) * u64::from(bytes);
    u32::try_from(whole.div_ceil(u64::from(of.max(1)))).unwrap_or(segments)
}

#[cfg(test)]
mod tests {
    use packet::{FlowKey, Protocol, Span};

    use super::*;
    use crate::flight::FlightPeriod;
    use crate::{FlowWay, Period};

    /// Packets with data and acknowledgements, by millisecond, in one slot.
    fn exchange(flow: &mut FlightFlow, packets: &[(i64, u32, u32)], acks: &[(i64, u32)]) {
        let clock = SlotClock::new(Span::from_seconds(1));
        let mut events = packets.to_vec();
        events.extend(acks.iter().map(|&(ms, number)| (ms, number, 0)));
        events.sort_unstable();
        for (ms, number, data_len) in events {
            let (time, number) = (Timestamp::from_ns(ms * 1_000_000), SeqNumber(number));
            if data_len == 0 {
                flow.add_ack(clock, &Ack { time, number, ..Ack::default() });
            } else {
                let segment =
                    Segment { time, seq: number, data_len, segments: 1, ..Segment::default() };
                flow.add(clock, &segment);
            }
        }
    }

    fn sent_again(flow: &FlightFlow) -> (u64, u32, u32) {
        let open = flow.open().unwrap();
        (open.sent_bytes, open.resent_segments, open.lost_segments)
    }

    #[test]
    fn probes_of_a_closed_window_are_no_losses_and_time_nothing() {
        let mut flow = FlightFlow::default();
        // The window is closed from 100 on. One byte more probes it, and is let in at the fourth.
        let probes = [(1, 0, 100), (10, 100, 1), (210, 100, 1), (610, 100, 1), (900, 100, 1)];
        exchange(&mut flow, &probes, &[(0, 0), (6, 100), (905, 101)]);
        assert_eq!(sent_again(&flow), (101, 0, 0));
        assert_eq!((flow.flight(), flow.open().unwrap().rtt_count), (Some(0), 1));
        // More than the byte of a probe is data.
        exchange(&mut flow, &[(910, 101, 100), (950, 101, 100)], &[]);
        assert_eq!(sent_again(&flow), (301, 1, 1));
    }

    #[test]
    fn round_trips_longer_than_a_minimum_can_be_are_averaged_in_full() {
        let mut flow = FlightFlow::default();
        exchange(&mut flow, &[(0, 0, 100), (10, 100, 100)], &[(6_000, 100), (8_010, 200)]);
        let open = flow.open().unwrap();
        assert_eq!((open.rtt_count, open.rtt_sum_ns), (1, 8_000_000_000), "the second, alone");
        // The minimum is not known, so that nothing is said of it.
        let ends = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let (key, direction) = FlowKey::from_tuple(ends.0, ends.1, 1, 2, Protocol::TCP);
        let (way, period) = (FlowWay { key, direction }, Period { start: open.slot, len: 1 });
        let seen = FlightPeriod::of(way, period, &[*open]).unwrap();
        let times = (seen.rtt_s, seen.rtt_min, seen.rtt_inflation_s);
        assert_eq!(times, (Some(8.0), None, None));
    }

    #[test]
    fn keep_alives_with_a_byte_are_not_sent_again() {
        let mut flow = FlightFlow::default();
        exchange(&mut flow, &[(1, 0, 100)], &[(0, 0), (6, 100)]);
        exchange(&mut flow, &[(300, 99, 1), (600, 99, 1)], &[(301, 100), (601, 100)]);
        assert_eq!(sent_again(&flow), (100, 0, 0));
        exchange(&mut flow, &[(700, 100, 100)], &[(710, 200)]);
        assert_eq!(flow.open().unwrap().rtt_count, 2, "what follows is timed");
    }
}
