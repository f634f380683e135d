//! Connections packet by packet, and what hostile ones may cost.

mod doubtful;

use packet::wire::quic::Quic;
use packet::wire::tcp::{SeqNumber, TcpFlags};
use packet::{FlowDirection, FlowKey, Protocol, Timestamp};
use proptest::prelude::*;

use crate::budget::Budget;
use crate::context::{Context, Limits, Queues};
use crate::flow::{Flow, Opening};
use crate::outstanding::Waiting;
use crate::sample::{AckDelay, Method, MissingReason, Place, Sample, TakeSamples};
use crate::segment::Segment;

const UP: FlowDirection = FlowDirection::LowToHigh;
const DOWN: FlowDirection = FlowDirection::HighToLow;
const MS: i64 = 1_000_000;
const MSS: u32 = 1000;

/// A latency in ms, or why there is none.
type Outcome = Result<(u64, Method, AckDelay), MissingReason>;

/// All samples, as they come.
#[derive(Default)]
struct All(Vec<Sample>);

impl TakeSamples for All {
    const WANTS_ALL: bool = true;
    const WANTS_QUEUES: bool = true;

    fn take(&mut self, sample: &Sample) {
        self.0.push(*sample);
    }
}

/// A flow on its own.
struct Alone {
    flow: Flow,
    limits: Limits,
    packets: Budget,
    buckets: Budget,
    queues: Queues,
    out: All,
}

fn key() -> FlowKey {
    let ends = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
    FlowKey::from_tuple(ends.0, ends.1, 1000, 80, Protocol::TCP).0
}

impl Alone {
    fn new(limits: Limits) -> Self {
        Self {
            flow: Flow::of_first(UP),
            packets: Budget::new(limits.waiting_max),
            buckets: Budget::new(1 << 16),
            queues: Queues::default(),
            out: All::default(),
            limits,
        }
    }

    fn with<R>(&mut self, act: impl FnOnce(&mut Flow, &mut Context<'_, All>) -> R) -> R {
        let Self { flow, limits, packets, buckets, queues, out } = self;
        let mut context =
            Context { key: key(), direction: UP, limits, packets, buckets, queues, out };
        act(flow, &mut context)
    }

    fn send(&mut self, ms: i64, direction: FlowDirection, segment: Segment) {
        let segment = Segment { time: Timestamp::from_ns(ms * MS), ..segment };
        self.with(|flow, context| flow.on_tcp(&segment, direction, context));
    }

    fn data(&mut self, ms: i64, seq: u32, ticks: Option<u32>) {
        let ticks = ticks.map(|ticks| (ticks, 0));
        self.send(ms, UP, Segment { ticks, ..data(seq, MSS) });
    }

    fn ack(&mut self, ms: i64, number: u32, echo: Option<u32>) {
        let ticks = echo.map(|echo| (0, echo));
        self.send(ms, DOWN, Segment { ticks, ..ack(number) });
    }

    /// Latency in ms, or why there is none, of each packet by its number.
    fn found(&mut self) -> Vec<(u32, Outcome)> {
        self.with(Flow::give_up);
        let found = self.out.0.iter().map(|sample| {
            let result = match sample.latency_ns {
                Some(ns) => Ok((ns / 1_000_000, sample.method, sample.held)),
                None => Err(sample.missing.unwrap()),
            };
            (sample.seq.unwrap().0, result)
        });
        found.collect()
    }
}

fn data(seq: u32, len: u32) -> Segment {
    Segment {
        seq: SeqNumber(seq),
        len,
        payload_len: len,
        flags: TcpFlags::ACK,
        segments: 1,
        wire_len: len.saturating_add(54),
        ..Segment::default()
    }
}

fn ack(number: u32) -> Segment {
    Segment { ack: Some(SeqNumber(number)), flags: TcpFlags::ACK, ..Segment::default() }
}

fn alone() -> Alone {
    Alone::new(Limits::default())
}

#[test]
fn an_acknowledgement_of_two_packets_is_the_later_ones() {
    let mut flow = alone();
    flow.data(0, 0, None);
    flow.data(3, 1000, None);
    flow.ack(23, 2000, None);
    assert_eq!(
        flow.found(),
        [
            (0, Ok((23, Method::Ack, AckDelay::Covered))),
            (1000, Ok((20, Method::Ack, AckDelay::No))),
        ]
    );
    assert_eq!(flow.out.0[0].wait_ns, Some(3_000_000));
    let rtt = &flow.flow.ways[0].rtt;
    assert_eq!((rtt.count, rtt.min()), (1, Some(20_000_000)));
}

#[test]
fn a_lone_packet_that_is_acknowledged_by_a_timer_is_marked() {
    let mut flow = alone();
    flow.data(0, 0, None);
    flow.data(0, 1000, None);
    flow.ack(20, 2000, None);
    flow.data(100, 2000, None);
    flow.ack(160, 3000, None);
    // A packet that waits in a queue is overtaken by none: the next one is on its way before the
    // acknowledgement can have been sent.
    flow.data(200, 3000, None);
    flow.data(210, 4000, None);
    flow.ack(260, 4000, None);
    flow.ack(270, 5000, None);
    let held: Vec<_> = flow.out.0.iter().map(|sample| sample.held).collect();
    assert_eq!(held, [AckDelay::Covered, AckDelay::No, AckDelay::Lone, AckDelay::No, AckDelay::No]);
    assert_eq!(flow.flow.ways[0].totals.held_lone, 1);
    // Sharp with it: 20 to 60 ms and on; without, from 20 to 60 and none after.
    let series = flow.flow.ways[0].series;
    assert_eq!((series.sharp, series.sharp_prompt), (1, 1));
}

#[test]
fn which_copy_was_acknowledged_is_told_by_timestamps_alone() {
    for (echo, first, copy) in [
        (None, Err(MissingReason::Ambiguous), Err(MissingReason::Ambiguous)),
        (Some(7), Ok((320, Method::AckTimestamp, AckDelay::No)), Err(MissingReason::Needless)),
        (Some(9), Err(MissingReason::Lost), Ok((20, Method::AckTimestamp, AckDelay::No))),
    ] {
        let mut flow = alone();
        let ticks = |ticks| echo.map(|_| ticks);
        flow.data(0, 0, ticks(7));
        flow.data(300, 0, ticks(9));
        flow.ack(320, 1000, echo);
        assert_eq!(flow.found(), [(0, first), (0, copy)], "{echo:?}");
        assert_eq!(flow.out.0[1].place, Place::Retransmission);
        assert_eq!(flow.flow.ways[0].totals.retransmissions, 1);
    }
}

#[test]
fn sack_measures_what_came_out_of_order_and_nothing_waits_for_the_gap() {
    let mut flow = alone();
    for (at, seq) in [(0, 0), (1, 1000), (2, 2000), (3, 3000)] {
        flow.data(at, seq, None);
    }
    let sack = |from: u32, to: u32| Segment {
        blocks: [Some((SeqNumber(from), SeqNumber(to))), None, None, None],
        ..ack(0)
    };
    flow.send(22, DOWN, sack(1000, 3000));
    flow.send(23, DOWN, sack(1000, 4000));
    flow.data(30, 0, None);
    flow.ack(50, 4000, None);
    assert_eq!(
        flow.found(),
        [
            (1000, Ok((21, Method::Sack, AckDelay::Covered))),
            (2000, Ok((20, Method::Sack, AckDelay::No))),
            (3000, Ok((20, Method::Sack, AckDelay::No))),
            (0, Err(MissingReason::Ambiguous)),
            (0, Err(MissingReason::Ambiguous)),
        ]
    );
}

#[test]
fn what_waited_for_a_gap_without_sack_has_no_latency() {
    let mut flow = alone();
    flow.data(0, 0, None);
    flow.data(1, 1000, None);
    flow.data(300, 0, None);
    flow.ack(320, 2000, None);
    assert_eq!(
        flow.found(),
        [
            (0, Err(MissingReason::Ambiguous)),
            (1000, Err(MissingReason::Blocked)),
            (0, Err(MissingReason::Ambiguous)),
        ]
    );
    // The same where the tap sees the gap filled: reordered, or lost upstream.
    let mut flow = alone();
    flow.data(0, 0, None);
    flow.ack(20, 1000, None);
    flow.data(21, 2000, None);
    flow.data(25, 1000, None);
    flow.ack(45, 3000, None);
    assert_eq!(
        flow.found()[1..],
        [(1000, Ok((20, Method::Ack, AckDelay::No))), (2000, Err(MissingReason::Blocked)),]
    );
    assert_eq!(flow.out.0[1].place, Place::Late);
}

#[test]
fn a_handshake_measures_both_ends_and_a_copy_of_it_none() {
    for is_again in [false, true] {
        let syn = |flags| Segment { len: 1, payload_len: 0, flags, ..data(99, 1) };
        let (mut opening, mut flow) = (Opening::default(), alone());
        let at =
            |segment: Segment, ms: i64| Segment { time: Timestamp::from_ns(ms * MS), ..segment };
        opening.add(&at(syn(TcpFlags::SYN), 0), UP);
        if is_again {
            opening.add(&at(syn(TcpFlags::SYN), 10), UP);
        }
        let syn_ack = Segment { ack: Some(SeqNumber(100)), ..syn(TcpFlags::SYN | TcpFlags::ACK) };
        opening.add(&at(syn_ack, 20), DOWN);
        let last = at(ack(100), 25);
        assert!(opening.is_answered_by(&last, UP));
        flow.flow = flow.with(|_, context| Flow::opened(&opening, UP, context));
        flow.send(25, UP, last);
        let client = Ok((5, Method::Handshake, AckDelay::No));
        let server = Ok((20, Method::Handshake, AckDelay::No));
        let found = flow.found();
        if is_again {
            let copy = Err(MissingReason::Ambiguous);
            assert_eq!(found, [(99, copy), (99, copy), (99, client)]);
            assert_eq!(flow.out.0[0].time, Timestamp::from_ns(10 * MS));
        } else {
            assert_eq!(found, [(99, server), (99, client)]);
        }
    }
}

#[test]
fn a_clock_that_is_set_back_is_counted() {
    let mut flow = alone();
    flow.data(1000, 0, None);
    flow.ack(10, 1000, None);
    assert_eq!(flow.found(), [(0, Err(MissingReason::ClockStep))]);
}

#[test]
fn a_fin_that_is_sent_again_is_a_copy() {
    let mut flow = alone();
    let fin = Segment { flags: TcpFlags::FIN | TcpFlags::ACK, payload_len: 0, ..data(0, 1) };
    flow.send(0, UP, fin);
    flow.send(5, UP, fin);
    assert_eq!(flow.flow.ways[0].totals.retransmissions, 1);
    assert_eq!(flow.flow.ways[0].totals.keep_alives, 0);
}

#[test]
fn the_server_thinks_between_request_and_answer() {
    let mut flow = alone();
    flow.data(0, 0, None);
    flow.ack(20, 1000, None);
    flow.send(50, DOWN, Segment { ack: Some(SeqNumber(1000)), ..data(5000, MSS) });
    assert_eq!(flow.flow.to_source().think.min(), Some(30_000_000));
    assert_eq!(flow.flow.to_destination().think.count, 0);
}

#[test]
fn of_one_direction_only_few_packets_wait() {
    let mut flow = alone();
    for number in 0..1000 {
        flow.data(number.into(), number * MSS, None);
    }
    let found = flow.found();
    let waited = found.iter().filter(|(_, found)| *found == Err(MissingReason::NoAnswer)).count();
    assert_eq!((waited, found.len()), (crate::outstanding::ONE_WAY_MAX, 1000));
}

#[test]
fn without_room_packets_are_counted_and_measured_again_later() {
    let mut flow = Alone::new(Limits { waiting_max: 8, ..Limits::default() });
    flow.data(0, 0, None);
    flow.ack(20, 1000, None);
    for number in 1..20 {
        flow.data(30, number * MSS, None);
    }
    flow.ack(50, 20_000, None);
    flow.data(60, 20_000, None);
    flow.ack(80, 21_000, None);
    let totals = flow.flow.ways[0].totals;
    assert_eq!(totals.missing[MissingReason::NoRoom as usize], 11);
    assert_eq!(flow.found().last(), Some(&(20_000, Ok((20, Method::Ack, AckDelay::No)))));
    assert_eq!(flow.packets.used(), 0);
}

#[test]
fn the_spin_bit_measures_both_halves_and_random_bits_are_told() {
    let mut flow = alone();
    let spin = |flow: &mut Alone, ms: i64, direction: FlowDirection, bit: bool| {
        let segment = Segment { time: Timestamp::from_ns(ms * MS), ..Segment::default() };
        let byte = [if bit { 0x60 } else { 0x40 }];
        let quic = Quic::new(&byte).unwrap();
        let packet = Waiting::of(&segment);
        flow.with(|flow, context| flow.on_quic(&quic, packet, direction, context));
    };
    // The server's end is 15 ms away and sends back; the client's is 5 ms away and inverts.
    let mut bit = false;
    for round in 0..10 {
        let now = round * 20;
        spin(&mut flow, now, UP, bit);
        spin(&mut flow, now + 1, UP, bit);
        spin(&mut flow, now + 15, DOWN, bit);
        bit = !bit;
    }
    let [up, down] = &flow.flow.ways;
    assert_eq!((up.rtt.min(), up.rtt.max()), (Some(15_000_000), Some(15_000_000)));
    assert_eq!((down.rtt.min(), down.rtt.max()), (Some(5_000_000), Some(5_000_000)));
    assert!(!flow.flow.has_random_spin());
    let mut flow = alone();
    let mut state = 1_u32;
    for at in 0..2_000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        spin(&mut flow, at, UP, state >> 31 == 1);
    }
    let measured: u64 = flow.flow.ways.iter().map(|way| way.rtt.count).sum();
    assert!(measured < 64, "what was measured before bits were judged: {measured}");
    assert!(flow.flow.has_random_spin());
}

#[derive(Clone, Debug)]
struct Step {
    wait_ms: i64,
    is_down: bool,
    seq: u32,
    len: u32,
    ack: Option<u32>,
    block: (u32, u32),
    flags: u16,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let number = || prop_oneof![4 => 0_u32..5000, 1 => any::<u32>()];
    let step = (
        -5_i64..50,
        any::<bool>(),
        number(),
        prop_oneof![0_u32..2000, Just(u32::MAX)],
        prop::option::of(number()),
        (number(), number()),
        prop_oneof![8 => Just(16_u16), 1 => any::<u16>()],
    );
    let step = step.prop_map(|(wait_ms, is_down, seq, len, ack, block, flags)| Step {
        wait_ms,
        is_down,
        seq,
        len,
        ack,
        block,
        flags,
    });
    prop::collection::vec(step, 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_packet_is_told_of_once_and_all_memory_comes_back(
        steps in steps(), waiting_max in 4_usize..200,
    ) {
        let mut alone = Alone::new(Limits { waiting_max, ..Limits::default() });
        let mut now = 1_000_000;
        for step in steps {
            now += step.wait_ms;
            let direction = if step.is_down { DOWN } else { UP };
            let block = Some((SeqNumber(step.block.0), SeqNumber(step.block.1)));
            let segment = Segment {
                ack: step.ack.map(SeqNumber),
                flags: TcpFlags::from_bits(step.flags),
                blocks: [block, None, None, None],
                ticks: Some((step.seq, step.block.0)),
                ..data(step.seq, step.len)
            };
            alone.send(now, direction, segment);
            prop_assert!(alone.packets.used() <= waiting_max);
        }
        alone.with(Flow::give_up);
        let packets: u64 = alone.flow.ways.iter().map(|way| way.totals.packets).sum();
        prop_assert_eq!(alone.out.0.len() as u64, packets);
        prop_assert_eq!(alone.packets.used(), 0);
        alone.flow.release(&mut alone.buckets);
        prop_assert_eq!(alone.buckets.used(), 0);
    }
}
