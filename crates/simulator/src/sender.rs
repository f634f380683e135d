//! The sending end of a flow: what is in flight, what is lost, and what is sent next.

use std::collections::VecDeque;

use dualq::Queue;

use crate::congestion::{AckSample, Congestion, Kind};
use crate::receiver::Ack;
use crate::reordering::Reordering;
use crate::scenario::Recovery;

/// Payload of a full segment, in bytes.
pub(crate) const SEGMENT_BYTES: u32 = 1_448;
/// IP and TCP headers with timestamps.
pub(crate) const HEADER_BYTES: u32 = 52;

/// Segments that must have arrived out of order before those below them are lost (RFC 6675).
const DUPLICATES: usize = 3;
/// Linux' bounds of the retransmission time-out.
const TIME_OUT_LEAST_NS: u64 = 200_000_000;
const TIME_OUT_MOST_NS: u64 = 120_000_000_000;
const TIME_OUT_FIRST_NS: u64 = 1_000_000_000;
/// Segments in flight that a receiver has room for.
const WINDOW_MOST: f64 = 100_000.0;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    InFlight,
    Lost,
    Arrived,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    start: u64,
    bytes: u32,
    state: State,
    sent_ns: u64,
    transmissions: u32,
    /// Delivered when this was sent, and when the last of that was: the rate is what has been
    /// delivered since.
    delivered: u64,
    delivered_ns: u64,
    is_app_limited: bool,
    queue: Queue,
    record: u64,
    number: u64,
}

/// A packet to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) segment: u64,
    pub(crate) start: u64,
    pub(crate) bytes: u32,
    pub(crate) is_retransmission: bool,
}

/// A packet that is known to have arrived: its queue, its latency and its record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeliveredPacket {
    pub(crate) queue: Queue,
    pub(crate) latency_ns: u64,
    pub(crate) record: u64,
    /// What steering knows it by.
    pub(crate) number: u64,
    pub(crate) was_sent_once: bool,
}

/// When a time-out is due, for an agenda that cannot forget an event.
#[derive(Clone, Copy, Debug, Default)]
struct Timer {
    due_ns: Option<u64>,
    /// The event that is in the agenda.
    number: u32,
    is_in_agenda: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Sender {
    congestion: Congestion,
    segments: VecDeque<Segment>,
    /// Number of the first of `segments`.
    first: u64,
    next_byte: u64,
    /// Bytes that the application has for us; `None` is as many as we like.
    available: Option<u64>,
    in_flight: u32,
    lost: u32,
    /// No segment below is lost and waits.
    lost_from: u64,
    /// Segments below were examined, whether they are lost.
    examined: u64,
    recovery: Recovery,
    reordering: Reordering,
    /// The highest segments that have arrived, from the highest on.
    highest: [Option<u64>; DUPLICATES],
    recovers_until: u64,
    round_until: u64,
    delivered: u64,
    delivered_ns: u64,
    rtt_ns: Option<f64>,
    rtt_variation_ns: f64,
    rtt_min_ns: u64,
    backoff: u32,
    timer: Timer,
    pace_ns: u64,
    pub(crate) is_pacing: bool,
    pub(crate) retransmissions: u64,
}

impl Sender {
    pub(crate) fn new(kind: Kind, is_greedy: bool, recovery: Recovery) -> Self {
        let segment_bits = f64::from((SEGMENT_BYTES + HEADER_BYTES) * 8);
        Self {
            congestion: Congestion::new(kind, segment_bits),
            segments: VecDeque::new(),
            first: 0,
            next_byte: 0,
            available: (!is_greedy).then_some(0),
            in_flight: 0,
            lost: 0,
            lost_from: 0,
            examined: 0,
            recovery,
            reordering: Reordering::default(),
            highest: [None; DUPLICATES],
            recovers_until: 0,
            round_until: 0,
            delivered: 0,
            delivered_ns: 0,
            rtt_ns: None,
            rtt_variation_ns: 0.0,
            rtt_min_ns: u64::MAX,
            backoff: 0,
            timer: Timer::default(),
            pace_ns: 0,
            is_pacing: false,
            retransmissions: 0,
        }
    }

    /// The application has more to send.
    pub(crate) fn offer(&mut self, bytes: u64) {
        if let Some(available) = &mut self.available {
            *available = available.saturating_add(bytes);
        }
    }

    fn end(&self) -> u64 {
        self.first + self.segments.len() as u64
    }

    fn at(&mut self, number: u64) -> Option<&mut Segment> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.segments.get_mut(index)
    }

    /// When the next packet may leave, where sending is spread out and that is later than now.
    pub(crate) fn paced_until_ns(&self, now_ns: u64) -> Option<u64> {
        (self.pace_ns > now_ns && self.congestion.pacing_bps().is_some()).then_some(self.pace_ns)
    }

    /// Whether window and application let it send.
    pub(crate) fn may_send(&self) -> bool {
        f64::from(self.in_flight) + 1.0 <= self.congestion.window().clamp(1.0, WINDOW_MOST)
            && (self.lost > 0 || self.available != Some(0))
    }

    /// Takes the packet that is sent now: one that was lost, or the next.
    pub(crate) fn take(&mut self, now_ns: u64) -> Option<Outgoing> {
        if !self.may_send() {
            return None;
        }
        let number = if self.lost > 0 { self.next_lost()? } else { self.append() };
        if self.in_flight == 0 {
            // Time without packets in flight says nothing of the path's rate.
            self.delivered_ns = now_ns;
        }
        let (delivered, delivered_ns) = (self.delivered, self.delivered_ns);
        let is_app_limited = self.available == Some(0);
        let segment = self.at(number)?;
        segment.state = State::InFlight;
        segment.sent_ns = now_ns;
        segment.transmissions += 1;
        (segment.delivered, segment.delivered_ns) = (delivered, delivered_ns);
        segment.is_app_limited = is_app_limited;
        let is_retransmission = segment.transmissions > 1;
        let (start, bytes) = (segment.start, segment.bytes);
        self.in_flight += 1;
        self.retransmissions += u64::from(is_retransmission);
        if self.timer.due_ns.is_none() {
            self.timer.due_ns = Some(now_ns.saturating_add(self.time_out_ns()));
        }
        if let Some(bps) = self.congestion.pacing_bps() {
            self.pace(now_ns, bytes, bps);
        }
        Some(Outgoing { segment: number, start, bytes, is_retransmission })
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn pace(&mut self, now_ns: u64, bytes: u32, bps: f64) {
        let gap_ns = (f64::from((bytes + HEADER_BYTES) * 8) / bps * 1e9) as u64;
        self.pace_ns = self.pace_ns.max(now_ns).saturating_add(gap_ns);
    }

    /// Which queue and record the packet has got that was taken last for this segment.
    pub(crate) fn note(&mut self, segment: u64, queue: Queue, record: u64) {
        if let Some(segment) = self.at(segment) {
            (segment.queue, segment.record) = (queue, record);
        }
    }

    /// What steering knows the packet by that is taken for this segment.
    pub(crate) fn steered(&mut self, segment: u64, number: u64) {
        if let Some(segment) = self.at(segment) {
            segment.number = number;
        }
    }

    fn next_lost(&mut self) -> Option<u64> {
        let from = self.lost_from.max(self.first);
        let index = usize::try_from(from - self.first).ok()?;
        let ahead = self.segments.iter().skip(index).position(|seg| seg.state == State::Lost)?;
        let number = from + ahead as u64;
        (self.lost, self.lost_from) = (self.lost - 1, number + 1);
        Some(number)
    }

    fn append(&mut self) -> u64 {
        let bytes = match &mut self.available {
            None => SEGMENT_BYTES,
            Some(available) => {
                let bytes = SEGMENT_BYTES.min(u32::try_from(*available).unwrap_or(SEGMENT_BYTES));
                *available -= u64::from(bytes);
                bytes
            }
        };
        let start = self.next_byte;
        self.next_byte += u64::from(bytes);
        self.segments.push_back(Segment {
            start,
            bytes,
            state: State::InFlight,
            sent_ns: 0,
            transmissions: 0,
            delivered: 0,
            delivered_ns: 0,
            is_app_limited: false,
            queue: Queue::Classic,
            record: 0,
            number: 0,
        });
        self.end() - 1
    }

    /// An acknowledgement has arrived; hands over each packet that is now known to have.
    pub(crate) fn acknowledge(
        &mut self,
        now_ns: u64,
        ack: &Ack,
        mut then: impl FnMut(DeliveredPacket),
    ) {
        let was_limited = !self.may_send() && self.available != Some(0);
        let rtt_ns = now_ns.saturating_sub(ack.sent_ns);
        self.measure(rtt_ns);
        let (mut segments, mut newest) = (0, None);
        for number in ack.from..ack.from + u64::from(ack.count) {
            if let Some(arrived) = self.arrive(number, ack.sent_ns, rtt_ns) {
                segments += 1;
                newest = Some(arrived);
                then(DeliveredPacket {
                    queue: arrived.queue,
                    latency_ns: now_ns.saturating_sub(arrived.sent_ns),
                    record: arrived.record,
                    number: arrived.number,
                    was_sent_once: arrived.transmissions == 1,
                });
            }
        }
        let Some(newest) = newest else { return };
        self.delivered += u64::from(segments);
        self.delivered_ns = now_ns;
        while self.segments.front().is_some_and(|segment| segment.state == State::Arrived) {
            self.segments.pop_front();
            self.first += 1;
        }
        (self.backoff, self.timer.due_ns) = (0, self.due_after(now_ns));
        match self.recovery {
            Recovery::Dupacks => self.find_lost(),
            Recovery::Rack => self.find_late(now_ns),
        }
        let ends_round = self.first >= self.round_until;
        if ends_round {
            self.round_until = self.end();
        }
        let since_ns = now_ns.saturating_sub(newest.delivered_ns).max(1);
        let acked = AckSample {
            now_ns,
            segments,
            marked: ack.marked,
            rtt_ns,
            rtt_smooth_ns: self.smooth_rtt_ns(),
            rtt_min_ns: self.rtt_min_ns,
            in_flight: self.in_flight,
            is_limited: was_limited,
            is_recovering: self.first < self.recovers_until,
            ends_round,
            rate: (self.delivered - newest.delivered) as f64 / (since_ns as f64 / 1e9),
            is_app_limited: newest.is_app_limited,
        };
        self.congestion.acknowledge(&acked);
    }

    /// A segment has arrived, if it had not before.
    fn arrive(&mut self, number: u64, sent_ns: u64, rtt_ns: u64) -> Option<Segment> {
        let (first, end, highest) = (self.first, self.end(), self.highest[0]);
        let Some(segment) = self.at(number).filter(|segment| segment.state != State::Arrived)
        else {
            self.reordering.arrive_twice(first, end);
            return None;
        };
        let before = segment.state;
        segment.state = State::Arrived;
        let segment = *segment;
        let is_behind = segment.transmissions == 1 && highest.is_some_and(|high| number < high);
        self.reordering.arrive(is_behind, sent_ns, rtt_ns);
        let was_taken_for_lost = before == State::Lost || segment.transmissions > 1;
        if was_taken_for_lost
            && self.recovery == Recovery::Rack
            && let Some(before) = self.reordering.undo(sent_ns)
        {
            self.congestion = before;
            self.recovers_until = self.first;
        }
        match before {
            State::InFlight => self.in_flight -= 1,
            State::Lost => self.lost -= 1,
            State::Arrived => {}
        }
        let place = self.highest.iter().position(|high| high.is_none_or(|high| number > high));
        if let Some(tail) = place.and_then(|place| self.highest.get_mut(place..)) {
            tail.rotate_right(1);
            if let Some(high) = tail.first_mut() {
                *high = Some(number);
            }
        }
        Some(segment)
    }

    /// Segments with three above them that have arrived are lost, if they were sent once.
    fn find_lost(&mut self) {
        let Some(below) = self.highest[DUPLICATES - 1] else { return };
        let mut is_new = false;
        for number in self.examined.max(self.first)..below {
            let Some(segment) = self.at(number) else { break };
            if segment.state == State::InFlight && segment.transmissions == 1 {
                segment.state = State::Lost;
                self.mark_lost(number);
                is_new |= number >= self.recovers_until;
            }
        }
        self.examined = self.examined.max(below);
        if is_new {
            self.answer_loss();
        }
    }

    /// Segments that were sent before one that has arrived, and a while ago, are lost.
    fn find_late(&mut self, now_ns: u64) {
        let Some(below) = self.highest[0].filter(|&high| high >= self.first) else { return };
        let is_recovering = self.first < self.recovers_until;
        let arrived_above = self.highest[DUPLICATES - 1].is_some_and(|third| third > self.first);
        let patience_ns = self.reordering.patience_ns(
            is_recovering,
            arrived_above,
            self.rtt_min_ns,
            self.smooth_rtt_ns(),
        );
        let Reordering { newest_sent_ns, newest_rtt_ns, .. } = self.reordering;
        let mut is_new = false;
        for number in self.first..below {
            let Some(segment) = self.at(number) else { break };
            let is_late = segment.sent_ns + newest_rtt_ns + patience_ns <= now_ns;
            if segment.state == State::InFlight && segment.sent_ns <= newest_sent_ns && is_late {
                segment.state = State::Lost;
                self.mark_lost(number);
                is_new |= number >= self.recovers_until;
            }
        }
        if is_new {
            self.reordering.remember(now_ns, &self.congestion);
            self.answer_loss();
        }
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn smooth_rtt_ns(&self) -> u64 {
        self.rtt_ns.map_or(0, |rtt_ns| rtt_ns as u64)
    }

    fn answer_loss(&mut self) {
        self.recovers_until = self.end();
        self.congestion.lose();
    }

    fn mark_lost(&mut self, number: u64) {
        self.in_flight -= 1;
        self.lost += 1;
        self.lost_from = self.lost_from.min(number);
    }

    /// The retransmission time-out is over: all that is in flight counts as lost.
    pub(crate) fn time_out(&mut self, now_ns: u64) {
        let end = self.end();
        for number in self.first..end {
            let Some(segment) = self.at(number) else { break };
            if segment.state == State::InFlight {
                segment.state = State::Lost;
                self.mark_lost(number);
            }
        }
        self.examined = end;
        (self.recovers_until, self.round_until) = (end, end);
        self.congestion.time_out();
        self.backoff = (self.backoff + 1).min(16);
        self.timer.due_ns = self.due_after(now_ns);
    }

    /// RFC 6298, section 2.
    fn measure(&mut self, rtt_ns: u64) {
        self.rtt_min_ns = self.rtt_min_ns.min(rtt_ns);
        let sample = rtt_ns as f64;
        let Some(smooth) = &mut self.rtt_ns else {
            (self.rtt_ns, self.rtt_variation_ns) = (Some(sample), sample / 2.0);
            return;
        };
        self.rtt_variation_ns += ((*smooth - sample).abs() - self.rtt_variation_ns) / 4.0;
        *smooth += (sample - *smooth) / 8.0;
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn time_out_ns(&self) -> u64 {
        let of_path = |rtt_ns: f64| {
            let least_ns = TIME_OUT_LEAST_NS as f64;
            (rtt_ns + (4.0 * self.rtt_variation_ns).max(least_ns)) as u64
        };
        let time_out_ns = self.rtt_ns.map_or(TIME_OUT_FIRST_NS, of_path);
        (time_out_ns << self.backoff).min(TIME_OUT_MOST_NS)
    }

    fn due_after(&self, now_ns: u64) -> Option<u64> {
        let waits = self.in_flight > 0 || self.lost > 0;
        waits.then(|| now_ns.saturating_add(self.time_out_ns()))
    }

    /// When to look at the timer, if no event of the agenda does already.
    pub(crate) fn timer_event(&mut self) -> Option<(u64, u32)> {
        if self.timer.is_in_agenda {
            return None;
        }
        let due_ns = self.timer.due_ns?;
        self.timer.is_in_agenda = true;
        self.timer.number += 1;
        Some((due_ns, self.timer.number))
    }

    /// The timer's event: whether the time-out is over. It is not if it was put off since.
    pub(crate) fn timer_rings(&mut self, now_ns: u64, number: u32) -> bool {
        if number != self.timer.number {
            return false;
        }
        self.timer.is_in_agenda = false;
        self.timer.due_ns.is_some_and(|due_ns| due_ns <= now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn sender() -> Sender {
        Sender::new(Kind::Reno, true, Recovery::Dupacks)
    }

    fn ack(from: u64, count: u32) -> Ack {
        Ack { flow: 0, from, count, marked: 0, sent_ns: 0 }
    }

    fn send_all(sender: &mut Sender, now_ns: u64) -> Vec<(u64, bool)> {
        let taken = std::iter::from_fn(|| sender.take(now_ns));
        taken.map(|packet| (packet.segment, packet.is_retransmission)).collect()
    }

    #[test]
    fn three_arrivals_above_a_gap_lose_it_once_and_halve_the_window() {
        let mut sender = sender();
        assert_eq!(send_all(&mut sender, 0).len(), 10);
        sender.acknowledge(40 * MS, &ack(0, 1), |_| {});
        for arrived in 2..4 {
            sender.acknowledge(40 * MS, &ack(arrived, 1), |_| {});
        }
        assert_eq!(sender.lost, 0);
        sender.acknowledge(40 * MS, &ack(4, 1), |_| {});
        assert_eq!((sender.lost, sender.in_flight), (1, 5));
        let window = sender.congestion.window();
        assert!((window - 5.5).abs() < 1e-9, "half of what had grown: {window}");
        assert_eq!(send_all(&mut sender, 41 * MS), [], "more is in flight than the window has");
        sender.acknowledge(41 * MS, &ack(5, 1), |_| {});
        assert_eq!(send_all(&mut sender, 41 * MS), [(1, true)]);
        sender.acknowledge(80 * MS, &ack(6, 4), |_| {});
        assert!((sender.congestion.window() - window).abs() < 1e-9, "one loss, one reduction");
        sender.acknowledge(81 * MS, &ack(1, 1), |_| {});
        assert!(sender.first >= 10);
    }

    #[test]
    fn packets_that_overtake_each_other_are_waited_for_and_a_mistake_is_undone() {
        let mut sender = Sender::new(Kind::Reno, true, Recovery::Rack);
        send_all(&mut sender, 0);
        // Nothing was ever late so far: three arrivals above the first lose it.
        sender.acknowledge(40 * MS, &ack(1, 3), |_| {});
        assert_eq!((sender.lost, sender.congestion.window()), (1, 5.0));
        // It was late: its first transmission arrives.
        sender.acknowledge(41 * MS, &ack(0, 1), |_| {});
        assert_eq!((sender.lost, sender.congestion.window()), (0, 11.0));
        // From now on a quarter of a round trip is waited for those that are late.
        let acked = |from, sent_ns| Ack { sent_ns, ..ack(from, 1) };
        send_all(&mut sender, 50 * MS);
        for number in 5..9 {
            sender.acknowledge(42 * MS, &acked(number, 0), |_| {});
        }
        assert_eq!(sender.lost, 0);
        sender.acknowledge(92 * MS, &acked(10, 50 * MS), |_| {});
        assert_eq!(sender.lost, 2, "segments 4 and 9");
    }

    #[test]
    fn a_time_out_sends_everything_again_one_at_a_time() {
        let mut sender = sender();
        send_all(&mut sender, 0);
        let (due_ns, number) = sender.timer_event().unwrap();
        assert_eq!((due_ns, sender.timer_event()), (1_000 * MS, None));
        assert!(!sender.timer_rings(due_ns, number + 1));
        assert!(sender.timer_rings(due_ns, number));
        sender.time_out(due_ns);
        assert_eq!(send_all(&mut sender, due_ns), [(0, true)]);
        assert_eq!(sender.timer_event().map(|(due_ns, _)| due_ns), Some(3_000 * MS));
    }

    #[test]
    fn an_application_with_little_to_say_sends_little() {
        let mut sender = Sender::new(Kind::Cubic, false, Recovery::Rack);
        assert!(sender.take(0).is_none());
        sender.offer(2_000);
        let sizes: Vec<u32> = std::iter::from_fn(|| sender.take(0)).map(|out| out.bytes).collect();
        assert_eq!(sizes, [1_448, 552]);
        sender.acknowledge(40 * MS, &ack(0, 2), |_| {});
        assert!((sender.congestion.window() - 10.0).abs() < 1e-9, "it was not the limit");
    }
}
