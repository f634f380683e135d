use packet::wire::tcp::SeqNumber;
use packet::{SlotClock, Span, Timestamp};
use proptest::prelude::*;

use super::*;
use crate::pair::Period;
use crate::segment::Segment;

const SLOT_NS: i64 = 1_000;

fn clock() -> SlotClock {
    SlotClock::new(Span::from_ns(SLOT_NS))
}

fn data(time: i64, seq: u32, data_len: u32) -> Segment {
    let time = Timestamp::from_ns(time);
    Segment { time, seq: SeqNumber(seq), data_len, segments: 1, ..Segment::default() }
}

fn opening(time: i64, seq: u32) -> Segment {
    Segment { opens: true, ..data(time, seq, 0) }
}

fn ack(time: i64, number: u32, blocks: &[(u32, u32)]) -> Ack {
    let mut found = [None; 4];
    for (place, &(start, end)) in found.iter_mut().zip(blocks) {
        *place = Some((SeqNumber(start), SeqNumber(end)));
    }
    Ack { time: Timestamp::from_ns(time), number: SeqNumber(number), blocks: found, ticks: None }
}

/// What happens at a tap, in offsets that never wrap.
#[derive(Clone, Copy, Debug)]
enum Event {
    Data { start: u64, end: u64 },
    Ack { number: u64, block: Option<(u64, u64)> },
}

/// The same, byte by byte, with the whole past at hand.
#[derive(Default)]
struct Naive {
    /// Of each byte whether it passed, or the receiver reported that it has it.
    is_known: Vec<bool>,
    is_sacked: Vec<bool>,
    high: Option<u64>,
    acked: Option<u64>,
    /// Data that ended higher than all before: end, time, number of the event, acknowledged then.
    fresh: Vec<(u64, i64, usize, Option<u64>)>,
    /// Data that did not begin at the end of all before, or later: number of the event, and end of
    /// all before.
    disturbances: Vec<(usize, u64)>,
    events: usize,
}

#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Sums {
    sent: u64,
    acked: u64,
    resent: u64,
    lost: u32,
    rtt_sum: u64,
    rtt_count: u32,
}

impl Naive {
    fn mark(bytes: &mut Vec<bool>, start: u64, end: u64) {
        let end = usize::try_from(end).unwrap();
        if bytes.len() < end {
            bytes.resize(end, false);
        }
        bytes[usize::try_from(start).unwrap()..end].fill(true);
    }

    fn count(bytes: &[bool], start: u64, end: u64) -> u64 {
        (start..end).filter(|&at| bytes.get(at as usize) == Some(&true)).count() as u64
    }

    fn data(&mut self, time: i64, start: u64, end: u64, sums: &mut Sums) {
        let high = self.high.unwrap_or_else(|| start.max(self.acked.unwrap_or(0)));
        if self.high.is_none() {
            // What was before the first packet is nobody's.
            Self::mark(&mut self.is_known, 0, high);
        }
        let again = Self::count(&self.is_known, start, end);
        let acked = self.acked.unwrap_or(0);
        let has = (start..end)
            .filter(|&at| at < acked || self.is_sacked.get(at as usize) == Some(&true))
            .count() as u64;
        sums.sent += end - start;
        sums.resent += again;
        sums.lost += u32::from(again > 0 && has < again);
        if start < high {
            self.disturbances.push((self.events, high));
        }
        if end > high {
            self.fresh.push((end, time, self.events, self.acked));
        }
        Self::mark(&mut self.is_known, start, end);
        self.high = Some(high.max(end));
        self.events += 1;
    }

    fn ack(&mut self, time: i64, number: u64, block: Option<(u64, u64)>, sums: &mut Sums) {
        let last = self.acked;
        self.events += 1;
        if last.is_some_and(|last| number < last) {
            return;
        }
        self.acked = Some(number);
        let events = self.events;
        let valid = |&(end, _, at, acked): &(u64, i64, usize, Option<u64>)| {
            end <= number
                && last.is_none_or(|last| end > last)
                && self.disturbances.iter().all(|&(when, high)| {
                    when <= at && acked.is_some_and(|acked| acked >= high) || when > events
                })
        };
        let newest = self.fresh.iter().rev().find(|fresh| valid(fresh));
        if let Some(&(_, passed, ..)) = newest {
            sums.rtt_sum += u64::try_from(time - passed).unwrap();
            sums.rtt_count += 1;
        }
        let Some(high) = self.high else { return };
        let high = if number > high + 1 { number } else { high };
        self.high = Some(high);
        Self::mark(&mut self.is_known, 0, number.min(high));
        if let Some((start, end)) = block.filter(|&(start, end)| start >= number && end <= high) {
            Self::mark(&mut self.is_known, start, end);
            Self::mark(&mut self.is_sacked, start, end);
        }
        sums.acked += last.map_or(0, |last| number - last);
    }

    fn flight(&self) -> Option<u64> {
        Some(self.high?.saturating_sub(self.acked?))
    }

    fn sacked(&self) -> u64 {
        let until = self.is_sacked.len() as u64;
        Self::count(&self.is_sacked, self.acked.unwrap_or(0).min(until), until)
    }
}

/// A sender that continues, jumps ahead or retransmits, and a receiver of all or part of it.
fn events() -> impl Strategy<Value = Vec<(i64, Event)>> {
    let one = (0..8_u8, 0..6_000_u64, 2..3_000_u64, 0..900_i64);
    prop::collection::vec(one, 1..60).prop_map(|choices| {
        let (mut next, mut time) = (2_u64, 0_i64);
        let mut events = Vec::new();
        for (kind, at, len, gap) in choices {
            time += gap;
            events.push((
                time,
                match kind {
                    0..=2 => {
                        let start = next;
                        next += len;
                        Event::Data { start, end: next }
                    }
                    3 => {
                        let start = next + at;
                        next = start + len;
                        Event::Data { start, end: next }
                    }
                    4 => {
                        let start = next.saturating_sub(at).max(2);
                        next = next.max(start + len);
                        Event::Data { start, end: start + len }
                    }
                    5 => Event::Ack { number: next, block: None },
                    6 => Event::Ack { number: next.saturating_sub(at).max(2), block: None },
                    _ => {
                        let number = next.saturating_sub(at).max(2);
                        let start = number + len / 2;
                        Event::Ack { number, block: Some((start, start + len)) }
                    }
                },
            ));
        }
        events
    })
}

proptest! {
    #[test]
    fn flight_is_that_of_a_second_model_wherever_numbers_begin(events in events(), base: u32) {
        let seq = |offset: u64| base.wrapping_add(u32::try_from(offset).unwrap());
        let (mut flow, mut naive) = (FlightFlow::default(), Naive::default());
        let (mut slots, mut sums) = (Vec::new(), Sums::default());
        for &(time, event) in &events {
            match event {
                Event::Data { start, end } => {
                    let len = u32::try_from(end - start).unwrap();
                    slots.extend(flow.add(clock(), &data(time, seq(start), len)));
                    naive.data(time, start, end, &mut sums);
                }
                Event::Ack { number, block } => {
                    let block = block.map(|(start, end)| (seq(start), seq(end)));
                    let blocks: Vec<_> = block.into_iter().collect();
                    slots.extend(flow.add_ack(clock(), &ack(time, seq(number), &blocks)));
                    naive.ack(time, number, match event {
                        Event::Ack { block, .. } => block,
                        Event::Data { .. } => None,
                    }, &mut sums);
                }
            }
            prop_assert_eq!(flow.flight().map(u64::from), naive.flight());
            prop_assert_eq!(u64::from(flow.sacked()), naive.sacked());
            if let Some(open) = flow.open() {
                prop_assert_eq!(open.is_known(), naive.flight().is_some());
                prop_assert_eq!(u64::from(open.flight_bytes), naive.flight().unwrap_or(0));
                prop_assert!(open.flight_max_bytes >= open.flight_bytes);
            }
        }
        slots.extend(flow.open());
        prop_assert!(slots.windows(2).all(|pair| pair[0].slot < pair[1].slot));
        let sum = |of: fn(&FlightSlot) -> u64| slots.iter().map(of).sum::<u64>();
        let small = |of: fn(&FlightSlot) -> u32| slots.iter().map(of).sum::<u32>();
        let found = Sums {
            sent: sum(|slot| slot.sent_bytes),
            acked: sum(|slot| slot.acked_bytes),
            resent: sum(|slot| slot.resent_bytes),
            lost: small(|slot| slot.lost_segments),
            rtt_sum: sum(|slot| slot.rtt_sum_ns),
            rtt_count: small(|slot| slot.rtt_count),
        };
        // Before its first data a way has no slot in which to count.
        prop_assert_eq!(found, sums);
    }

    #[test]
    fn ranges_are_those_of_a_set_of_bytes(
        steps in prop::collection::vec((0..3_u8, 0..200_u32, 0..40_u32), 0..40), base: u32,
    ) {
        let (mut ranges, mut bytes) = (Ranges::default(), vec![false; 300]);
        let seq = |offset: u32| SeqNumber(base.wrapping_add(offset));
        for (kind, start, len) in steps {
            let inside = start as usize..(start + len) as usize;
            let had = bytes[inside.clone()].iter().filter(|&&is_in| is_in).count();
            prop_assert_eq!(ranges.overlap(seq(start), seq(start + len)) as usize, had);
            match kind {
                0 => {
                    prop_assert!(ranges.insert(seq(start), seq(start + len)));
                    bytes[inside].fill(true);
                }
                1 => {
                    prop_assert_eq!(ranges.cut(seq(start), seq(start + len)) as usize, had);
                    bytes[inside].fill(false);
                }
                _ => {
                    ranges.cut_below(seq(start));
                    bytes[..start as usize].fill(false);
                }
            }
            let count = bytes.iter().filter(|&&is_in| is_in).count();
            prop_assert_eq!(ranges.len_bytes() as usize, count);
        }
    }

    #[test]
    fn a_slot_comes_back_from_its_bytes(slot: i64, wide: u64, narrow: u32) {
        let slot = FlightSlot {
            slot, sent_bytes: wide, acked_bytes: 1, resent_bytes: 2, rtt_sum_ns: wide / 2,
            rtt_count: narrow, rtt_min_ns: 3, segments: 4, resent_segments: 5, lost_segments: 6,
            flight_bytes: narrow / 2, flight_max_bytes: 7, sacked_bytes: 8, flags: 9,
            upstream_rtt_sum_ns: wide / 3, upstream_rtt_count: 10, rtt_least_ns: 11,
        };
        prop_assert_eq!(FlightSlot::from_ne_bytes(&slot.to_ne_bytes()), slot);
    }
}

#[test]
fn flight_is_known_once_both_ways_were_seen() {
    let mut flow = FlightFlow::default();
    flow.add(clock(), &data(0, 1000, 100));
    assert_eq!(flow.flight(), None, "the beginning was not seen");
    assert!(!flow.open().unwrap().is_known());
    flow.add_ack(clock(), &ack(10, 900, &[]));
    assert_eq!(flow.flight(), Some(200));
    // From its beginning on, all is known with the first answer.
    let mut flow = FlightFlow::default();
    flow.add(clock(), &opening(0, u32::MAX));
    flow.add_ack(clock(), &ack(500, 0, &[]));
    assert!(flow.open().is_none(), "a way without data has no slots");
    flow.add(clock(), &data(600, 0, 100));
    let open = flow.open().unwrap();
    assert_eq!((flow.flight(), open.began(), open.is_known()), (Some(100), true, true));
}

#[test]
fn time_upstream_is_from_an_acknowledgement_to_the_first_echo_of_its_stamp() {
    let stamped = |time, ticks| Ack { ticks: Some(ticks), ..ack(time, 0, &[]) };
    let echo = |time, seq, ticks| Segment { echoed_ticks: Some(ticks), ..data(time, seq, 10) };
    let mut flow = FlightFlow::default();
    // Ticks wrap between the second and the third.
    for (time, ticks) in [(0, u32::MAX - 1), (1, u32::MAX - 1), (10, u32::MAX), (30, 2)] {
        flow.add_ack(clock(), &stamped(time, ticks));
    }
    flow.add(clock(), &echo(100, 0, u32::MAX));
    flow.add(clock(), &echo(110, 10, u32::MAX));
    flow.add(clock(), &echo(120, 20, u32::MAX - 1));
    // One that no acknowledgement had takes those before it along.
    flow.add(clock(), &echo(130, 30, 1));
    flow.add(clock(), &echo(150, 40, 2));
    flow.add(clock(), &echo(160, 50, 2));
    let open = flow.open().unwrap();
    assert_eq!((open.upstream_rtt_sum_ns, open.upstream_rtt_count), (90 + 120, 2));
}

#[test]
fn stamps_that_lie_centuries_apart_are_survived() {
    let mut flow = FlightFlow::default();
    for ticks in 0..8 {
        flow.add_ack(clock(), &Ack { ticks: Some(ticks), ..ack(0, 0, &[]) });
    }
    for ticks in 0..8 {
        let echoed_ticks = Some(ticks);
        let late = data(i64::MAX - 1, ticks * 10, 10);
        flow.add(clock(), &Segment { echoed_ticks, ..late });
    }
    let open = flow.open().unwrap();
    assert_eq!((open.upstream_rtt_sum_ns, open.upstream_rtt_count), (u64::MAX, 8));
}

#[test]
fn echoes_that_never_come_take_bounded_memory() {
    let mut echoes = timed::EchoTimes::default();
    let count = ECHO_COUNT_MAX as u32 + 10;
    for ticks in 0..count {
        echoes.push(ticks, Timestamp::from_ns(ticks.into()));
    }
    assert_eq!(echoes.take(9), None, "the oldest are gone");
    assert_eq!(echoes.take(10), Some(Timestamp::from_ns(10)));
    assert_eq!(echoes.take(count - 1), Some(Timestamp::from_ns((count - 1).into())));
}

#[test]
fn rows_are_parts_of_the_round_trip_of_the_whole_path() {
    let second = SlotClock::new(Span::from_ns(1_000_000));
    let slot = FlightSlot {
        rtt_sum_ns: 60_000_000,
        rtt_count: 2,
        upstream_rtt_sum_ns: 50_000_000,
        upstream_rtt_count: 1,
        ..FlightSlot::default()
    };
    assert_eq!(row_slots(&[slot], 1, second, 4), Some(20), "30 ms behind, 50 ms before the tap");
    let untimed = FlightSlot { rtt_count: 0, ..slot };
    assert_eq!(row_slots(&[untimed], 1, second, 4), None);
}

#[test]
fn what_is_sent_again_is_told_from_what_comes_late() {
    let mut flow = FlightFlow::default();
    flow.add_ack(clock(), &ack(0, 0, &[]));
    for start in [0, 100, 300, 400] {
        flow.add(clock(), &data(1, start, 100));
    }
    // 200 was lost before the tap: it comes late, and for the first time.
    flow.add(clock(), &data(2, 200, 100));
    assert_eq!(flow.open().unwrap().resent_segments, 0);
    // The receiver lacks 100 to 200, and has the rest; 400 again is needless.
    flow.add_ack(clock(), &ack(3, 100, &[(200, 500)]));
    assert_eq!((flow.flight(), flow.sacked()), (Some(400), 300));
    flow.add(clock(), &data(4, 100, 100));
    flow.add(clock(), &data(5, 400, 100));
    let open = flow.open().unwrap();
    assert_eq!((open.resent_segments, open.lost_segments, open.resent_bytes), (2, 1, 200));
    flow.add_ack(clock(), &ack(6, 500, &[]));
    assert_eq!((flow.flight(), flow.sacked()), (Some(0), 0));
}

#[test]
fn what_was_sent_again_times_nothing() {
    let mut flow = FlightFlow::default();
    flow.add_ack(clock(), &ack(0, 0, &[]));
    flow.add(clock(), &data(10, 0, 100));
    flow.add_ack(clock(), &ack(50, 100, &[]));
    flow.add(clock(), &data(60, 100, 100));
    flow.add(clock(), &data(200, 100, 100));
    flow.add(clock(), &data(210, 200, 100));
    flow.add_ack(clock(), &ack(250, 300, &[]));
    flow.add(clock(), &data(260, 300, 100));
    flow.add_ack(clock(), &ack(290, 400, &[]));
    let open = flow.open().unwrap();
    assert_eq!((open.rtt_count, open.rtt_sum_ns, open.rtt_min_ns), (2, 40 + 30, 30));
}

#[test]
fn a_round_trip_is_above_the_least_of_its_connection() {
    let (mut flow, mut slots) = (FlightFlow::default(), Vec::new());
    flow.add_ack(clock(), &ack(0, 0, &[]));
    let mut exchange = |sent: i64, seq: u32, rtt: i64| {
        slots.extend(flow.add(clock(), &data(sent, seq, 100)));
        slots.extend(flow.add_ack(clock(), &ack(sent + rtt, seq + 100, &[])));
        let seen: Vec<_> = slots.iter().chain(flow.open()).copied().collect();
        let period = Period { start: clock().slot(Timestamp::from_ns(sent)), len: 1 };
        FlightPeriod::of(way(), period, &seen).unwrap().rtt_inflation_s.unwrap() * 1e9
    };
    assert!(exchange(0, 0, 50).abs() < 1e-3, "the first is the least");
    assert!((exchange(1_000, 100, 200) - 150.0).abs() < 1e-3);
    assert!(exchange(2_000, 200, 30).abs() < 1e-3, "a new least");
    assert!((exchange(3_000, 300, 80) - 50.0).abs() < 1e-3);
    flow.add(clock(), &opening(4_000, 3_000_000_000));
    flow.add(clock(), &data(4_001, 3_000_000_001, 10));
    assert_eq!(flow.open().unwrap().rtt_least_ns, 0, "another connection");
    slots.extend(flow.open().copied());
    let all = Period { start: clock().slot(Timestamp::from_ns(0)), len: 100 };
    let seen = FlightPeriod::of(way(), all, &slots).unwrap();
    assert!(seen.rtt_s.is_some() && seen.rtt_inflation_s.is_none(), "it is not timed yet");
}

#[test]
fn ports_that_are_used_again_are_another_connection() {
    let mut flow = FlightFlow::default();
    flow.add(clock(), &data(0, 5, 100));
    flow.add_ack(clock(), &ack(1, 5, &[]));
    // A SYN that is sent again is the same connection, another number is another.
    flow.add(clock(), &opening(2, 3_000_000_000));
    assert_eq!(flow.flight(), None);
    flow.add_ack(clock(), &ack(3, 3_000_000_001, &[]));
    flow.add(clock(), &opening(4, 3_000_000_000));
    flow.add(clock(), &data(5, 3_000_000_001, 10));
    assert_eq!(flow.flight(), Some(10));
    // A jump that no window reaches is one as well; what was acknowledged was the other's.
    flow.add(clock(), &data(6, 5, 10));
    assert_eq!(flow.flight(), None);
    flow.add_ack(clock(), &ack(7, 3_000_000_011, &[]));
    assert_eq!(flow.flight(), None);
    flow.add_ack(clock(), &ack(8, 16, &[]));
    // One more than the data: the sender's FIN.
    assert_eq!(flow.flight(), Some(0));
}

#[test]
fn windows_carry_what_is_in_flight_from_slot_to_slot() {
    let mut flow = FlightFlow::default();
    let mut slots = Vec::new();
    flow.add_ack(clock(), &ack(0, 0, &[]));
    slots.extend(flow.add(clock(), &data(100, 0, 100)));
    slots.extend(flow.add(clock(), &data(200, 100, 100)));
    slots.extend(flow.add_ack(clock(), &ack(3_500, 100, &[])));
    slots.extend(flow.open());
    let mut rows = Vec::new();
    let inputs = [FlightInput::Flight, FlightInput::FlightMax, FlightInput::Sent, FlightInput::Rtt];
    let window =
        |start, len| FlightWindow { period: Period { start, len }, row_slots: 1, slots: &slots };
    window(-1, 6).fill(&inputs, &mut rows).unwrap();
    #[rustfmt::skip]
    let wanted = [
        0.0, 0.0, 0.0, 0.0,
        200.0, 200.0, 200.0, 0.0,
        200.0, 200.0, 0.0, 0.0,
        200.0, 200.0, 0.0, 0.0,
        100.0, 200.0, 0.0, 3.4e-6,
        100.0, 100.0, 0.0, 3.4e-6,
    ];
    assert_eq!(rows, wanted);
    // Rows of two slots; and of as many as half an RTT of 3.4 has, to the nearest.
    FlightWindow { row_slots: 2, ..window(-1, 3) }.fill(&inputs, &mut rows).unwrap();
    #[rustfmt::skip]
    let wanted = [
        200.0, 200.0, 200.0, 0.0,
        200.0, 200.0, 0.0, 0.0,
        100.0, 200.0, 0.0, 3.4e-6,
    ];
    assert_eq!(rows, wanted);
    assert_eq!(row_slots(&slots, 4, clock(), 2), Some(2));
    assert_eq!(row_slots(&slots, 4, clock(), 100), Some(1));
    assert_eq!(row_slots(&slots, 3, clock(), 2), None);
    assert_eq!(window(-5, 2).fill(&inputs, &mut rows), Err(FlightMissingReason::Data));
    assert_eq!(known_from(&slots, Period { start: 0, len: 4 }), slots.first());
    let way = way();
    let told = FlightPeriod::of(way, Period { start: 2, len: 4 }, &slots).unwrap();
    let flight = told.flight.unwrap();
    assert_eq!((flight.mean_bytes, flight.max_bytes), (125.0, 200));
    assert_eq!((told.sent_bytes, told.acked_bytes), (0, 100));
    let only_data = [FlightSlot { sent_bytes: 5, ..FlightSlot::default() }];
    let told = FlightPeriod::of(way, Period { start: 0, len: 1 }, &only_data).unwrap();
    assert_eq!(told.flight, Err(FlightMissingReason::Acks));
    let nothing = FlightPeriod::of(way, Period { start: -5, len: 2 }, &slots);
    assert!(nothing.is_none());
}

fn way() -> crate::FlowWay {
    let (key, direction) = packet::FlowKey::from_tuple(
        "192.0.2.1".parse().unwrap(),
        "192.0.2.2".parse().unwrap(),
        1,
        2,
        packet::Protocol::TCP,
    );
    crate::FlowWay { key, direction }
}

#[test]
fn what_is_kept_is_bounded() {
    let mut ranges = Ranges::default();
    let taken = (0..200_u32).filter(|at| ranges.insert(SeqNumber(at * 10), SeqNumber(at * 10 + 5)));
    assert_eq!(taken.count(), RANGE_COUNT_MAX);
    let mut flow = FlightFlow::default();
    flow.add_ack(clock(), &ack(0, 0, &[]));
    for at in 0..10_000 {
        flow.add(clock(), &data(i64::from(at), at * 10, 10));
    }
    let last = u32::try_from(TIMED_COUNT_MAX).unwrap();
    flow.add_ack(clock(), &ack(20_000, 100_000, &[]));
    let open = flow.open().unwrap();
    // Of those that were timed, the last.
    assert_eq!((open.rtt_count, open.rtt_min_ns), (1, 20_000 - (last - 1)));
}

#[test]
fn a_connection_that_was_opened_is_known_when_its_data_comes() {
    use super::tap::Passing;
    let options = crate::TapOptions {
        clock: clock(),
        flow_count_max: 2,
        kept: Span::from_ns(10_000),
        sampler: None,
    };
    let mut tap = FlightTap::new(options);
    let (there, time) = (way(), Timestamp::from_ns);
    let back = crate::FlowWay { direction: there.direction.opposite(), ..there };
    let passing =
        |way, at, segment, ack| Passing { way, time: time(at), segment, ack, is_cut: false };
    tap.add(&passing(there, 0, Some(opening(0, 99)), None));
    tap.forget_old();
    tap.add(&passing(back, 500, None, Some(ack(500, 100, &[]))));
    tap.forget_old();
    assert_eq!((tap.earliest(), tap.counts().acks_of_unseen), (None, 1));
    tap.add(&passing(there, 5_500, Some(data(5_500, 100, 10)), None));
    let seen = Period { start: 0, len: 6 };
    assert_eq!(tap.periods(seen)[0].flight.unwrap().max_bytes, 10);
    assert_eq!(
        (tap.next_slot(0), tap.next_slot(6), tap.known_slots(&there, seen)),
        (Some(5), None, (1, true))
    );
    // It is forgotten when nothing came for longer than is kept.
    let other = crate::FlowWay { key: other_key(), ..there };
    tap.add(&passing(other, 15_000, Some(data(15_000, 1, 1)), None));
    tap.forget_old();
    assert_eq!(tap.flows().count(), 2);
    tap.add(&passing(other, 16_000, Some(data(16_000, 2, 1)), None));
    tap.forget_old();
    assert_eq!(tap.flows().collect::<Vec<_>>(), [other]);
}

fn other_key() -> packet::FlowKey {
    let [one, two] = ["192.0.2.3", "192.0.2.4"].map(|address| address.parse().unwrap());
    packet::FlowKey::from_tuple(one, two, 1, 2, packet::Protocol::TCP).0
}
