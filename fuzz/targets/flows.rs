//! Flows: whatever packets come and whatever is asked, every packet is in one
//! record, the table keeps to its limit, and nobody sees who owns a partition.
//!
//! Input: idle time-out, active time-out, window (0: none) in two bytes each, in
//! milliseconds; the most flows in one; then packets of four bytes: key,
//! direction, TCP flags, how the stamp is made; and what the stamp needs.
#![no_main]

use std::net::{Ipv4Addr, Ipv6Addr};

use engine::Partition;
use engine::exchange::Own as _;
use engine::flow::{
    AllFlows, FlowClock, FlowCounts, FlowMark, FlowOptions, FlowOwner, FlowPacket, FlowRecord,
    FlowRest, FlowStatistics,
};
use fuzz::input::Input;
use libfuzzer_sys::fuzz_target;
use packet::flow_key::MarkedKey;
use packet::{FlowDirection, FlowKey, HashSeed, KeyHash as _, Protocol, Span, Timestamp};

const SEED: HashSeed = HashSeed::new(7);

type Ended = (FlowRecord, FlowStatistics);

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let options = options(&mut input);
    let packets = packets(&mut input);
    let alone = run(options, &packets, 1);
    assert!(run(options, &packets, 3) == alone, "three owners find something else");
    let (ended, counts) = alone;
    assert_eq!(counts.total(), ended.len() as u64);
    assert_eq!(counts.packets, packets.len() as u64);
    let bytes: u64 = packets.iter().map(|packet| u64::from(packet.wire_len)).sum();
    assert_eq!(counts.bytes, bytes);
    let (mut packet_count, mut bytes) = (0, 0);
    for (record, statistics) in &ended {
        packet_count += record.packets_total();
        bytes += record.bytes_total();
        check(record, statistics);
    }
    assert_eq!((packet_count, bytes), (counts.packets, counts.bytes));
});

/// A record and its statistics tell the same.
fn check(record: &FlowRecord, statistics: &FlowStatistics) {
    assert!(record.first <= record.last && record.packets_total() > 0, "{record:?}");
    assert_eq!(statistics.gaps().count, record.packets_total() - 1);
    let sides = statistics.sides(record.direction);
    for (side, statistics) in sides.iter().enumerate() {
        assert_eq!(statistics.sizes.count, u64::from(record.packets[side]));
    }
    let spans = || sides.iter().filter_map(|side| side.span);
    assert_eq!(spans().map(|(first, _)| first).min(), Some(record.first));
    assert_eq!(spans().map(|(_, last)| last).max(), Some(record.last));
}

fn options(input: &mut Input<'_>) -> FlowOptions {
    let mut span = || Span::from_ns(i64::from(input.u16()) * 1_000_000);
    let (idle, active, window) = (span(), span(), span());
    let shortest = Span::from_ns(1_000);
    FlowOptions {
        idle_timeout: idle.max(shortest),
        active_timeout: active.max(shortest),
        window: (window > Span::default()).then_some(window),
        flow_count_max: usize::from(input.u8()),
        ..FlowOptions::default()
    }
}

fn packets(input: &mut Input<'_>) -> Vec<FlowPacket> {
    let mut packets = Vec::new();
    let mut now = 1_700_000_000_000_000_000i64;
    while !input.is_empty() {
        let (key, is_low, tcp_flags, kind) =
            (input.u8(), input.u8() & 1 == 1, input.u8(), input.u8());
        let ms = |number: u16| i64::from(number) * 1_000_000;
        let stamp = match kind % 8 {
            0..=2 => now.saturating_add(ms(u16::from(input.u8()))),
            3 | 4 => now.saturating_add(ms(input.u16())),
            5 => now.saturating_sub(ms(input.u16())),
            6 => Timestamp::UNKNOWN.as_ns(),
            _ => input.i64(),
        };
        if kind % 8 != 5 && kind % 8 != 6 {
            now = stamp;
        }
        packets.push(packet(key, is_low, tcp_flags, stamp, u32::from(kind)));
    }
    packets
}

fn packet(number: u8, is_low: bool, tcp_flags: u8, ns: i64, wire_len: u32) -> FlowPacket {
    let (low, high) = (u128::from(number), u128::MAX);
    let (a, b) = if number % 4 == 0 {
        (Ipv6Addr::from_bits(low).into(), Ipv6Addr::from_bits(high).into())
    } else {
        (Ipv4Addr::from_bits(number.into()).into(), Ipv4Addr::BROADCAST.into())
    };
    let (key, _) = FlowKey::from_tuple(a, b, 1_000, 80, Protocol::TCP);
    FlowPacket {
        marked_key: MarkedKey::new(key, u16::from(tcp_flags)),
        timestamp: Timestamp::from_ns(ns),
        hash: key.key_hash(SEED),
        wire_len,
        vlan_id: u16::from(number % 3),
        tcp_flags,
        direction: if is_low { FlowDirection::LowToHigh } else { FlowDirection::HighToLow },
    }
}

/// Owners of the partitions and what they have handed over.
struct Run {
    owners: Vec<FlowOwner<FlowStatistics, AllFlows<FlowStatistics>>>,
    /// Packets on their way: owners take them many at a time.
    waiting: Vec<Vec<FlowPacket>>,
    live_count_max: usize,
    ended: Vec<Ended>,
    rests: Vec<FlowRest<FlowStatistics>>,
    counts: FlowCounts,
}

impl Run {
    fn mark(&mut self, mark: FlowMark) {
        for (owner, waiting) in self.owners.iter_mut().zip(&mut self.waiting) {
            owner.on_items(waiting);
            waiting.clear();
            let part = owner.on_mark(mark);
            assert!(part.live_count <= self.live_count_max, "{} flows", part.live_count);
            self.counts.fold(&part.counts);
            self.ended.extend(part.collected);
            self.rests.extend(part.rest);
        }
    }
}

/// What `exchange` does, in order of records.
fn run(
    options: FlowOptions,
    packets: &[FlowPacket],
    owner_count: usize,
) -> (Vec<Ended>, FlowCounts) {
    let mut clock = FlowClock::new(options.idle_timeout, options.window);
    let make_owner = |_| FlowOwner::new(options, AllFlows::default());
    let mut run = Run {
        owners: (0..owner_count).map(make_owner).collect(),
        waiting: vec![Vec::new(); owner_count],
        // A 64th in each of 64 partitions, rounded up.
        live_count_max: options.flow_count_max.div_ceil(64).max(1) * 64,
        ended: Vec::new(),
        rests: Vec::new(),
        counts: FlowCounts::default(),
    };
    for packet in packets {
        let (timestamp, mark) = clock.on_packet(packet.timestamp);
        if let Some(mark) = mark {
            run.mark(mark);
        }
        let owner = Partition::of_hash(packet.hash).owner(owner_count);
        run.waiting[owner].push(FlowPacket { timestamp, ..*packet });
    }
    run.mark(clock.last_mark());
    let Run { mut ended, rests, counts, .. } = run;
    let drained: Result<(), ()> = FlowRest::drain(rests, 7, |flows| {
        ended.extend_from_slice(flows);
        Ok(())
    });
    drained.expect("nothing refuses");
    ended.sort_by_key(|(record, _)| record.order());
    (ended, counts)
}
