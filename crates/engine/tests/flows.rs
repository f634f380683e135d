//! Flows against the guide's rules, written down once more as plainly as possible.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use engine::exchange::Own as _;
use engine::flow::{
    AllFlows, EndReason, FlowClock, FlowCounts, FlowMark, FlowOptions, FlowOwner, FlowPacket,
    FlowRecord, FlowRest, FlowStatistics, MarkKind, PerFlow,
};
use engine::{PARTITION_COUNT, Partition};
use packet::flow_key::MarkedKey;
use packet::{FlowDirection, FlowKey, HashSeed, KeyHash as _, Protocol, Span, Timestamp};
use proptest::prelude::*;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

const SEED: HashSeed = HashSeed::new(7);

fn key(conversation: u32, is_ipv6: bool) -> FlowKey {
    let (a, b): (IpAddr, IpAddr) = if is_ipv6 {
        let low = Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(conversation));
        (low.into(), Ipv6Addr::from_bits(u128::MAX - u128::from(conversation)).into())
    } else {
        (Ipv4Addr::from_bits(conversation).into(), Ipv4Addr::from_bits(u32::MAX).into())
    };
    FlowKey::from_tuple(a, b, 1_000, 80, Protocol::TCP).0
}

fn packet(key: FlowKey, ns: i64, direction: FlowDirection, tcp_flags: u8) -> FlowPacket {
    FlowPacket {
        marked_key: MarkedKey::new(key, ns.unsigned_abs() as u16),
        timestamp: Timestamp::from_ns(ns),
        hash: key.key_hash(SEED),
        wire_len: 100,
        vlan_id: 5,
        tcp_flags,
        direction,
    }
}

type Ended<S> = (FlowRecord, S);

/// Runs packets through owners of the partitions, as `exchange` does.
fn run<S: PerFlow>(
    options: FlowOptions,
    packets: &[FlowPacket],
    owner_count: usize,
) -> (Vec<Ended<S>>, FlowCounts, FlowClock) {
    let mut clock = FlowClock::new(options.idle_timeout, options.window);
    let mut owners: Vec<_> =
        (0..owner_count).map(|_| FlowOwner::<S, _>::new(options, AllFlows::default())).collect();
    let mut ended = Vec::new();
    let mut rests = Vec::new();
    let mut counts = FlowCounts::default();
    let mut mark_all = |owners: &mut Vec<FlowOwner<S, AllFlows<S>>>, mark: FlowMark| {
        for owner in owners {
            let part = owner.on_mark(mark);
            counts.fold(&part.counts);
            ended.extend(part.collected);
            rests.extend(part.rest);
        }
    };
    for packet in packets {
        let (timestamp, mark) = clock.on_packet(packet.timestamp);
        if let Some(mark) = mark {
            mark_all(&mut owners, mark);
        }
        let owner = Partition::of_hash(packet.hash).owner(owner_count);
        owners[owner].on_item(FlowPacket { timestamp, ..*packet });
    }
    mark_all(&mut owners, clock.last_mark());
    let drained: Result<(), ()> = FlowRest::drain(rests, 7, |flows| {
        ended.extend_from_slice(flows);
        Ok(())
    });
    drained.unwrap();
    ended.sort_by_key(|(record, _)| record.order());
    (ended, counts, clock)
}

/// An open flow, as the guide defines it.
struct Open {
    record: FlowRecord,
    began: Timestamp,
    fins: [bool; 2],
    closed: Option<(EndReason, Timestamp)>,
}

struct Model {
    options: FlowOptions,
    open: BTreeMap<FlowKey, Open>,
    ended: Vec<FlowRecord>,
}

impl Model {
    fn apart(&self, a: Timestamp, b: Timestamp) -> bool {
        a.since(b).as_ns().abs() >= self.options.idle_timeout.as_ns()
    }

    fn natural(&self, flow: &Open) -> EndReason {
        let idle_at = flow.record.last.plus(self.options.idle_timeout);
        match (flow.closed, self.options.window) {
            (Some((reason, _)), _) => reason,
            (None, Some(window)) => {
                let window_end = flow.record.last.window_start(window).plus(window);
                if idle_at > window_end { EndReason::Window } else { EndReason::Idle }
            }
            (None, None) => EndReason::Idle,
        }
    }

    fn write(&mut self, flow: &Open, reason: EndReason) {
        if flow.record.packets_total() > 0 {
            self.ended.push(FlowRecord { reason, ..flow.record });
        }
    }

    fn begin(packet: &FlowPacket, direction: FlowDirection) -> Open {
        let record = FlowRecord {
            key: packet.key(),
            direction,
            reason: EndReason::End,
            vlan_id: packet.vlan_id,
            input: packet.input(),
            tcp_flags: [0; 2],
            packets: [0; 2],
            bytes: [0; 2],
            first: packet.timestamp,
            last: packet.timestamp,
        };
        Open { record, began: packet.timestamp, fins: [false; 2], closed: None }
    }

    fn on_packet(&mut self, packet: &FlowPacket) {
        let time = packet.timestamp;
        let mut flow = match self.open.remove(&packet.key()) {
            None => Self::begin(packet, packet.direction),
            Some(flow) => {
                let is_apart = self.apart(time, flow.record.last);
                let began =
                    if self.options.window.is_some() { flow.began } else { flow.record.first };
                if let Some((reason, at)) = flow.closed {
                    let is_new = packet.tcp_flags & (SYN | ACK) == SYN;
                    if is_apart || is_new || time.since(at) >= Span::from_seconds(5) {
                        self.write(&flow, reason);
                        Self::begin(packet, packet.direction)
                    } else {
                        flow
                    }
                } else if is_apart {
                    let reason = self.natural(&flow);
                    self.write(&flow, reason);
                    Self::begin(packet, packet.direction)
                } else if time.since(began) >= self.options.active_timeout {
                    let reason = match self.options.window {
                        Some(window)
                            if time.window_start(window)
                                > flow.record.last.window_start(window) =>
                        {
                            self.natural(&flow)
                        }
                        _ => EndReason::Active,
                    };
                    self.write(&flow, reason);
                    Self::begin(packet, flow.record.direction)
                } else {
                    flow
                }
            }
        };
        if let Some(window) = self.options.window
            && time.window_start(window) > flow.record.last.window_start(window)
        {
            let reason = self.natural(&flow);
            self.write(&flow, reason);
            let rest = Self::begin(packet, flow.record.direction).record;
            let FlowRecord { vlan_id, input, .. } = flow.record;
            flow.record = FlowRecord { vlan_id, input, ..rest };
        }
        let record = &mut flow.record;
        let side = usize::from(packet.direction != record.direction);
        record.packets[side] += 1;
        record.bytes[side] += u64::from(packet.wire_len);
        record.tcp_flags[side] |= packet.tcp_flags;
        record.first = record.first.min(time);
        record.last = record.last.max(time);
        flow.fins[side] |= packet.tcp_flags & FIN != 0;
        if flow.closed.is_none() {
            if flow.fins == [true; 2] {
                flow.closed = Some((EndReason::Fin, time));
            } else if packet.tcp_flags & RST != 0 {
                flow.closed = Some((EndReason::Rst, time));
            }
        }
        self.open.insert(packet.key(), flow);
    }

    fn finish(mut self, end: Timestamp) -> Vec<FlowRecord> {
        for flow in std::mem::take(&mut self.open).into_values() {
            let reason = match self.natural(&flow) {
                EndReason::Idle if flow.record.last.plus(self.options.idle_timeout) > end => {
                    EndReason::End
                }
                EndReason::Window => {
                    let window = self.options.window.unwrap();
                    let window_end = flow.record.last.window_start(window).plus(window);
                    if window_end <= end { EndReason::Window } else { EndReason::End }
                }
                reason => reason,
            };
            self.write(&flow, reason);
        }
        self.ended.sort_by_key(FlowRecord::order);
        self.ended
    }
}

fn model(options: FlowOptions, packets: &[FlowPacket]) -> Vec<FlowRecord> {
    let mut model = Model { options, open: BTreeMap::new(), ended: Vec::new() };
    packets.iter().for_each(|packet| model.on_packet(packet));
    let end = packets.iter().map(|packet| packet.timestamp).max().unwrap_or_default();
    model.finish(end)
}

/// Packets of a few conversations, a little out of order, with pauses.
fn packets() -> impl Strategy<Value = Vec<FlowPacket>> {
    let gap = prop_oneof![
        6 => 0i64..200_000_000,
        2 => 200_000_000i64..2_500_000_000,
        1 => 4_000_000_000i64..20_000_000_000,
    ];
    let flags = prop_oneof![
        6 => Just(ACK), 2 => Just(FIN | ACK), 1 => Just(RST), 1 => Just(SYN), 1 => Just(SYN | ACK),
    ];
    let step = (0u32..6, any::<bool>(), gap, 0i64..400_000_000, any::<bool>(), flags);
    proptest::collection::vec(step, 1..300).prop_map(|steps| {
        let mut now = 1_700_000_000_000_000_000i64;
        let one = |(conversation, is_ipv6, gap, back, is_low, flags)| {
            now += gap;
            let direction =
                if is_low { FlowDirection::LowToHigh } else { FlowDirection::HighToLow };
            packet(key(conversation, is_ipv6), now - back, direction, flags)
        };
        steps.into_iter().map(one).collect()
    })
}

fn options() -> impl Strategy<Value = FlowOptions> {
    let window = proptest::option::of(300i64..5_000);
    (500i64..9_000, 1_000i64..30_000, window).prop_map(|(idle, active, window)| FlowOptions {
        idle_timeout: Span::from_ns(idle * 1_000_000),
        active_timeout: Span::from_ns(active * 1_000_000),
        window: window.map(|ms| Span::from_ns(ms * 1_000_000)),
        ..FlowOptions::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn flows_are_those_of_the_guide_whoever_owns_them(
        packets in packets(), options in options(), owner_count in 1usize..5,
    ) {
        let expected = model(options, &packets);
        let (ended, counts, clock) = run::<()>(options, &packets, owner_count);
        let records: Vec<_> = ended.into_iter().map(|(record, ())| record).collect();
        prop_assert_eq!(&records, &expected);
        prop_assert_eq!(counts.total(), expected.len() as u64);
        prop_assert_eq!(counts.packets, packets.len() as u64);
        prop_assert_eq!((clock.late, clock.steps), (0, 0));
    }

    #[test]
    fn statistics_follow_their_flows(packets in packets(), options in options()) {
        let (ended, _, _) = run::<FlowStatistics>(options, &packets, 2);
        for (record, statistics) in ended {
            let sides = statistics.sides(record.direction);
            for (side, statistics) in sides.iter().enumerate() {
                prop_assert_eq!(statistics.sizes.count, u64::from(record.packets[side]));
                let or = statistics.flag_packets.iter().enumerate();
                let flags = or.fold(0u8, |flags, (bit, &n)| flags | u8::from(n > 0) << bit);
                prop_assert_eq!(flags, record.tcp_flags[side]);
            }
            let spans = sides.iter().filter_map(|side| side.span);
            let first = spans.clone().map(|(first, _)| first).min();
            prop_assert_eq!(first, Some(record.first));
            prop_assert_eq!(spans.map(|(_, last)| last).max(), Some(record.last));
            prop_assert_eq!(statistics.gaps().count, record.packets_total() - 1);
        }
    }
}

#[test]
fn a_flood_pushes_itself_out_and_nothing_is_lost() {
    const FLOWS_KEPT: u32 = 200;
    let flow_count_max = 64 * 64;
    let options = FlowOptions { flow_count_max, ..FlowOptions::default() };
    let mut packets = Vec::new();
    let mut now = 1_700_000_000_000_000_000i64;
    for old in 0..FLOWS_KEPT {
        packets.push(packet(key(old, false), now, FlowDirection::LowToHigh, SYN));
        packets.push(packet(key(old, false), now, FlowDirection::HighToLow, SYN | ACK));
    }
    for flood in 0..200_000u32 {
        now += 1_000;
        packets.push(packet(
            key(1_000_000 + flood, flood % 3 == 0),
            now,
            FlowDirection::LowToHigh,
            SYN,
        ));
        if flood % 50 == 0 {
            // Each old flow speaks once in 20 ms, in turn to and fro.
            let turn = flood / 50;
            let direction = if (turn / FLOWS_KEPT).is_multiple_of(2) {
                FlowDirection::LowToHigh
            } else {
                FlowDirection::HighToLow
            };
            packets.push(packet(key(turn % FLOWS_KEPT, false), now, direction, ACK));
        }
    }
    let (ended, counts, _) = run::<()>(options, &packets, 1);
    assert_eq!(counts.packets, packets.len() as u64);
    assert!(counts.of(EndReason::Evicted) > 190_000, "{counts:?}");
    // Every old flow lives.
    let old = ended.iter().filter(|(record, ())| record.packets_total() > 15);
    assert_eq!(
        old.filter(|(record, ())| record.reason == EndReason::End).count(),
        FLOWS_KEPT as usize
    );
    let live = counts.of(EndReason::End);
    assert!(live <= flow_count_max as u64, "{live} flows live");
}

#[test]
fn eviction_does_not_depend_on_who_owns_a_partition() {
    let options = FlowOptions { flow_count_max: PARTITION_COUNT * 3, ..FlowOptions::default() };
    let mut packets = Vec::new();
    for turn in 0..20_000i64 {
        let conversation = (turn * 7_919 % 1_500) as u32;
        let flags = if turn % 11 == 0 { FIN | ACK } else { ACK };
        let direction =
            if turn % 5 == 0 { FlowDirection::HighToLow } else { FlowDirection::LowToHigh };
        packets.push(packet(key(conversation, turn % 2 == 0), turn * 3_000_000, direction, flags));
    }
    let (alone, counts, _) = run::<()>(options, &packets, 1);
    assert!(counts.of(EndReason::Evicted) > 1_000);
    for owner_count in [2, 3, 64] {
        assert!(run::<()>(options, &packets, owner_count).0 == alone, "{owner_count} owners");
    }
}

#[test]
fn emergency_time_outs_go_before_eviction() {
    // One partition of one flow: the second conversation of the partition needs its place.
    let options = FlowOptions { flow_count_max: 1, ..FlowOptions::default() };
    let mut keys = (0..10_000).map(|conversation| key(conversation, false));
    let first = keys.next().unwrap();
    let partition = Partition::of_hash(first.key_hash(SEED));
    let second = keys.find(|key| Partition::of_hash(key.key_hash(SEED)) == partition).unwrap();
    for (seconds, reason) in [(4, EndReason::Evicted), (5, EndReason::Emergency)] {
        let packets = [
            packet(first, 0, FlowDirection::LowToHigh, ACK),
            packet(second, seconds * 1_000_000_000, FlowDirection::LowToHigh, ACK),
        ];
        let (ended, _, _) = run::<()>(options, &packets, 1);
        assert_eq!(ended[0].0.reason, reason);
        assert_eq!(ended[1].0.reason, EndReason::End);
    }
}

#[test]
fn a_clock_set_back_is_counted_and_ends_flows_of_the_future() {
    let (a, b) = (key(1, false), key(2, false));
    let day = 86_400_000_000_000i64;
    let packets = [
        packet(a, 2 * day, FlowDirection::LowToHigh, ACK),
        packet(a, day, FlowDirection::LowToHigh, ACK),
        packet(b, day + 1, FlowDirection::LowToHigh, ACK),
        packet(a, day + 2, FlowDirection::HighToLow, ACK),
    ];
    let (ended, _, clock) = run::<()>(FlowOptions::default(), &packets, 1);
    assert_eq!(clock.steps, 1);
    let seen: Vec<_> = ended.iter().map(|(r, ())| (r.first.as_ns(), r.packets, r.reason)).collect();
    let expected = [
        (day, [1, 1], EndReason::End),
        (day + 1, [1, 0], EndReason::End),
        (2 * day, [1, 0], EndReason::Idle),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn all_flows_end_with_an_epoch_and_epochs_are_rationed() {
    let at = |s: i64| s * 1_000_000_000;
    let of = |number, time| packet(key(number, false), time, FlowDirection::LowToHigh, ACK);
    let mut packets = vec![of(1, at(1))];
    for round in 2..42 {
        packets.extend([of(round, at(121)), of(round, at(0))]);
    }
    for owners in [1, 3] {
        let (ended, counts, clock) = run::<()>(FlowOptions::default(), &packets, owners);
        assert_eq!((clock.steps, clock.late, counts.packets), (16, 40 - 16, 81));
        let (first, ()) = ended.iter().find(|(flow, ())| flow.key == key(1, false)).unwrap();
        assert_eq!((first.packets_total(), first.reason), (1, EndReason::Idle));
    }
}

#[test]
fn late_packets_are_counted_and_kept() {
    let seconds = |s: i64| s * 1_000_000_000;
    let packets = [
        packet(key(1, false), seconds(100), FlowDirection::LowToHigh, ACK),
        packet(key(2, false), seconds(102), FlowDirection::LowToHigh, ACK),
        packet(key(1, false), seconds(100), FlowDirection::LowToHigh, ACK),
    ];
    let (ended, counts, clock) = run::<()>(FlowOptions::default(), &packets, 1);
    assert_eq!((clock.late, counts.packets, ended.len()), (1, 3, 2));
}

#[test]
fn frames_without_stamps_share_a_time() {
    let mut packets = [packet(key(1, false), 0, FlowDirection::LowToHigh, ACK); 3];
    packets.iter_mut().for_each(|packet| packet.timestamp = Timestamp::UNKNOWN);
    let (ended, _, clock) = run::<()>(FlowOptions::default(), &packets, 1);
    assert_eq!(ended.len(), 1);
    assert_eq!((clock.steps, clock.late), (0, 0));

    // A flow takes the first stamp that comes.
    packets[2].timestamp = Timestamp::from_ns(1_700_000_000_000_000_000);
    let (ended, _, _) = run::<()>(FlowOptions::default(), &packets, 1);
    let [(record, ())] = ended.as_slice() else { panic!("one flow: {ended:?}") };
    assert_eq!((record.first, record.packets[0]), (packets[2].timestamp, 3));
    assert_eq!(clock.last_mark().kind, MarkKind::Last);
}

#[test]
fn the_heaviest_flows_are_told_while_they_go_on() {
    let mut owner =
        FlowOwner::<(), _>::new(FlowOptions::default(), AllFlows::default()).with_live(3);
    let packets: Vec<_> = (0..50u32)
        .flat_map(|flow| {
            (0..=flow).map(move |turn| {
                packet(key(flow, false), i64::from(turn), FlowDirection::LowToHigh, ACK)
            })
        })
        .collect();
    owner.on_items(&packets);
    let part = owner.on_mark(FlowMark { watermark: Timestamp::from_ns(50), kind: MarkKind::Tick });
    let heaviest: Vec<_> = part.live.iter().map(|flow| (flow.key, flow.packets[0])).collect();
    assert_eq!(heaviest, [49, 48, 47].map(|flow| (key(flow, false), flow + 1)));
    assert!(part.collected.is_empty());
}

#[test]
fn packets_before_the_first_stamp_take_it() {
    let start = 1_700_000_000_000_000_000i64;
    let unknown = Timestamp::UNKNOWN.as_ns();
    let one = |ns, flags| packet(key(1, false), ns, FlowDirection::LowToHigh, flags);
    let short = FlowOptions {
        active_timeout: Span::from_seconds(1),
        window: Some(Span::from_seconds(10)),
        ..FlowOptions::default()
    };
    for options in [FlowOptions::default(), short] {
        let packets = [one(unknown, ACK), one(unknown, ACK), one(start, ACK), one(start + 7, ACK)];
        let (ended, _, _) = run::<FlowStatistics>(options, &packets, 1);
        let [(record, statistics)] = ended.as_slice() else { panic!("one flow: {ended:?}") };
        assert_eq!((record.first.as_ns(), record.last.as_ns()), (start, start + 7));
        let gaps = statistics.gaps();
        assert_eq!((gaps.count, gaps.min, gaps.max), (3, 0, 7));
        let span = statistics.sides(record.direction)[0].span;
        assert_eq!(span, Some((record.first, record.last)));

        // So does what was closed before, and what follows belongs to it.
        let packets = [one(unknown, RST), one(start, ACK), one(start + 7, ACK)];
        let (ended, _, _) = run::<()>(options, &packets, 1);
        let [(record, ())] = ended.as_slice() else { panic!("one flow: {ended:?}") };
        assert_eq!((record.reason, record.packets[0]), (EndReason::Rst, 3));
        let (ended, _, _) = run::<()>(options, &[one(unknown, RST), one(unknown, SYN)], 1);
        assert_eq!(ended.len(), 2, "a SYN after a close: {ended:?}");
    }
}

#[test]
fn a_flow_without_stamps_does_not_hold_up_the_others() {
    let start = 1_700_000_000i64;
    for kind in [MarkKind::Tick, MarkKind::Step] {
        let mut owner = FlowOwner::<(), _>::new(FlowOptions::default(), AllFlows::default());
        let unknown = Timestamp::UNKNOWN.as_ns();
        owner.on_item(packet(key(1, false), unknown, FlowDirection::LowToHigh, ACK));
        let at = |seconds: i64| Timestamp::from_parts(start + seconds, 0);
        owner.on_mark(FlowMark { watermark: at(0), kind });
        owner.on_item(packet(key(2, false), at(0).as_ns(), FlowDirection::LowToHigh, ACK));
        let part = owner.on_mark(FlowMark { watermark: at(124), kind: MarkKind::Tick });
        let of = |number| part.collected.iter().find(|(flow, ())| flow.key == key(number, false));
        assert_eq!(of(2).unwrap().0.reason, EndReason::Idle);
        // The other ended with the epoch, or has waited for a stamp for as long.
        assert_eq!(of(1).is_some(), kind == MarkKind::Tick);
    }
}

#[test]
fn what_is_written_before_a_late_packet_does_not_depend_on_other_flows() {
    let start = 1_700_000_000_000_000_000i64;
    let ms = |ms: i64| start + ms * 1_000_000;
    let options = FlowOptions { idle_timeout: Span::from_seconds(30), ..FlowOptions::default() };
    let from = |conversation, ns, flags| {
        packet(key(conversation, false), ns, FlowDirection::LowToHigh, flags)
    };
    let make = |other: u32| {
        [
            from(other, ms(-29), ACK),
            // Closed, and past its time when the clock has come to a full second.
            from(1, ms(-7_453), RST),
            from(other, ms(29), ACK),
            from(1, ms(-7_395), ACK),
        ]
    };
    for other in 2..50 {
        let packets = make(other);
        let alone = run::<()>(options, &packets, 1).0;
        assert_eq!(run::<()>(options, &packets, 64).0, alone, "{other}");
    }
}

#[test]
fn short_windows_are_written_within_a_second_and_a_tick() {
    let options = FlowOptions { window: Some(Span::from_ns(1_000)), ..FlowOptions::default() };
    let mut clock = FlowClock::new(options.idle_timeout, options.window);
    let mut marks = 0;
    for ns in (0..10_000_000_000i64).step_by(1_000_000) {
        marks += u64::from(clock.on_packet(Timestamp::from_ns(ns)).1.is_some());
    }
    assert_eq!(marks, 100, "a look ten times a second, at all flows of a second");
}
