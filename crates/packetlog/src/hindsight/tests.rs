use std::collections::VecDeque;

use packet::{HashSeed, Layers, Network, Protocol, Record};
use proptest::prelude::*;

use super::*;

const SECOND: i64 = 1_000_000_000;

/// Bytes of the headers of a packet of these tests.
const HEADERS: u32 = 42;

/// A UDP packet: who sends, to which port, how long, when, and how it was judged.
#[derive(Clone, Copy, Debug)]
struct Sent {
    host: u8,
    port: u16,
    len: u32,
    time: i64,
    plan: Plan,
}

fn frame_bytes(sent: &Sent) -> Vec<u8> {
    let mut bytes = vec![0_u8; sent.len as usize];
    bytes[12..14].copy_from_slice(&[8, 0]);
    bytes[14..16].copy_from_slice(&[0x45, 0]);
    let ip_len = (sent.len - 14) as u16;
    bytes[16..18].copy_from_slice(&ip_len.to_be_bytes());
    bytes[23] = 17;
    bytes[26..30].copy_from_slice(&[10, 0, 0, sent.host]);
    bytes[30..34].copy_from_slice(&[10, 0, 1, 1]);
    bytes[34..36].copy_from_slice(&4000_u16.to_be_bytes());
    bytes[36..38].copy_from_slice(&sent.port.to_be_bytes());
    bytes
}

fn record(sent: &Sent) -> Record {
    let layers = Layers {
        network: Network::Ipv4,
        network_offset: 14,
        transport_offset: 34,
        payload_offset: HEADERS as u16,
        payload_len: sent.len - HEADERS,
        protocol: Protocol::UDP,
        flags: Layers::TRANSPORT,
        ..Layers::default()
    };
    let timestamp = Timestamp::from_ns(sent.time);
    Record { timestamp, captured_len: sent.len, wire_len: sent.len, layers, ..Record::default() }
}

/// What leaves: the port and length of a packet, and how much of it is stored.
type Left = (u16, u32, Option<u32>);

fn run(hindsight: &mut Hindsight, packets: &[Sent], finish: bool) -> Vec<Left> {
    let mut left = Vec::new();
    let mut each = |frame: &Frame<'_>, judged: &PacketVerdict, kept_len: Option<u32>| {
        let port = u16::from_be_bytes([frame.bytes[36], frame.bytes[37]]);
        assert_eq!(frame.bytes.len() as u32, frame.record.captured_len);
        assert_eq!(judged.flow, FlowKey::from_frame(frame));
        left.push((port, frame.record.captured_len, kept_len));
    };
    for sent in packets {
        let (bytes, record) = (frame_bytes(sent), record(sent));
        let frame = Frame { record: &record, bytes: &bytes };
        let judged = PacketVerdict {
            class: u16::from(sent.plan.mark.is_some()),
            confidence: 0.9,
            basis: Basis::Flow,
            flow: FlowKey::from_frame(&frame),
        };
        hindsight.push(&frame, &judged, sent.plan, &mut each);
    }
    if finish {
        hindsight.release_all(&mut each);
    }
    left
}

fn hindsight(seconds: i64, bytes: usize, reach: Reach) -> Hindsight {
    let options = HindsightOptions { time: Span::from_seconds(seconds), bytes, reach };
    Hindsight::new(options, HashSeed::new(7))
}

const HEADER: Plan = Plan { kept_len: Some(HEADERS), mark: None, is_final: false };
const MARKED: Plan = Plan { kept_len: Some(1000), mark: Some(Granularity::FULL), is_final: false };

fn sent(host: u8, port: u16, seconds: i64, plan: Plan) -> Sent {
    Sent { host, port, len: 1000, time: seconds * SECOND, plan }
}

#[test]
fn a_flow_that_is_marked_late_is_stored_from_its_beginning() {
    let packets = [
        sent(1, 1, 0, HEADER),
        sent(1, 2, 0, HEADER),
        sent(1, 1, 1, MARKED),
        sent(1, 1, 2, HEADER),
    ];
    let mut flows = hindsight(2, 1 << 24, Reach::Flow);
    let left = run(&mut flows, &packets, true);
    let full = Some(1000);
    assert_eq!(left, [(1, 1000, full), (2, 1000, Some(42)), (1, 1000, full), (1, 1000, full)]);
    let counts = flows.counts();
    assert_eq!((counts.raised, counts.raised_bytes, counts.waiting), (2, 2 * 958, 0));
    let mut hosts = hindsight(2, 1 << 24, Reach::Host);
    assert!(run(&mut hosts, &packets, true).iter().all(|(_, _, kept)| *kept == full));
}

#[test]
fn what_left_before_the_mark_stays_truncated() {
    let packets = [sent(1, 1, 0, HEADER), sent(1, 1, 3, HEADER), sent(1, 1, 4, MARKED)];
    let left = run(&mut hindsight(2, 1 << 24, Reach::Flow), &packets, true);
    assert_eq!(
        left.iter().map(|left| left.2).collect::<Vec<_>>(),
        [Some(42), Some(1000), Some(1000)]
    );
}

#[test]
fn a_mark_is_forgotten_when_none_of_its_packets_waits() {
    let packets = [sent(1, 1, 0, MARKED), sent(1, 1, 5, HEADER)];
    let left = run(&mut hindsight(2, 1 << 24, Reach::Flow), &packets, true);
    assert_eq!(left[1].2, Some(42));
}

#[test]
fn what_a_rule_says_of_a_packet_stays() {
    let none = Plan { kept_len: None, mark: Some(Granularity::HEADER), is_final: true };
    let packets = [sent(1, 1, 0, none), sent(1, 1, 0, MARKED), sent(1, 1, 0, none)];
    let left = run(&mut hindsight(2, 1 << 24, Reach::Flow), &packets, true);
    assert_eq!(left.iter().map(|left| left.2).collect::<Vec<_>>(), [None, Some(1000), None]);
}

#[test]
fn a_clock_that_steps_back_ends_the_waiting() {
    let mut two = hindsight(2, 1 << 24, Reach::Flow);
    let left = run(&mut two, &[sent(1, 1, 100, HEADER), sent(1, 1, 10, MARKED)], false);
    assert_eq!(left, [(1, 1000, Some(42))]);
    assert_eq!(two.counts().clock_steps, 1);
    // A step forward is time that has passed.
    assert_eq!(run(&mut two, &[sent(1, 1, 1000, HEADER)], false).len(), 1);
}

#[test]
fn full_memory_releases_the_oldest_and_counts_them() {
    let bytes = 8 << 20;
    let mut small = hindsight(5, bytes, Reach::Flow);
    let packets: Vec<_> = (0..20_000).map(|n| sent(1, n as u16, 0, HEADER)).collect();
    let left = run(&mut small, &packets, false);
    let counts = small.counts();
    assert!(counts.early > 10_000 && counts.bytes as usize <= bytes, "{counts:?}");
    assert_eq!(left.len() as u64, counts.early);
    assert_eq!(counts.waiting + counts.early, 20_000);
    // In the order of arrival.
    assert!(left.iter().enumerate().all(|(at, left)| left.0 == at as u16));
}

/// The same by searching all that waits.
fn plainly(packets: &[Sent], time: i64, reach: Reach) -> Vec<Option<u32>> {
    let mut kept: Vec<_> = packets.iter().map(|sent| sent.plan.kept_len).collect();
    let mut waiting: VecDeque<(usize, i64)> = VecDeque::new();
    let mut marks: Vec<(bool, u16, Granularity)> = Vec::new();
    let mut now = i64::MIN;
    let rank = |granularity: Granularity| match granularity.keep {
        Keep::Nothing => 0,
        Keep::Header => 1,
        Keep::Partial(bytes) => 2 + u64::from(bytes),
        Keep::Full => u64::MAX,
    };
    for (at, one) in packets.iter().enumerate() {
        now = now.max(one.time);
        while waiting.front().is_some_and(|(_, came)| *came <= now - time) {
            waiting.pop_front();
        }
        // Flows are distinguished by host and port; hosts by host.
        let flow = |sent: &Sent| u16::from(sent.host) << 8 | sent.port;
        let keys = |sent: &Sent| [(false, flow(sent)), (true, u16::from(sent.host))];
        marks.retain(|(is_host, key, _)| {
            waiting.iter().any(|(other, _)| keys(&packets[*other]).contains(&(*is_host, *key)))
        });
        let used = if reach == Reach::Host { 2 } else { 1 };
        let mut lengthen = |index: usize, mark: Granularity| {
            let sent = &packets[index];
            if sent.plan.is_final || mark.keep == Keep::Nothing {
                return;
            }
            let record = record(sent);
            let len = mark.kept_len(&Frame { record: &record, bytes: &[] });
            kept[index] = Some(kept[index].map_or(len, |before| before.max(len)));
        };
        for key in &keys(one)[..used] {
            for (_, _, mark) in marks.iter().filter(|(host, name, _)| (*host, *name) == *key) {
                lengthen(at, *mark);
            }
        }
        waiting.push_back((at, now));
        if let Some(mark) = one.plan.mark {
            for key in &keys(one)[..used] {
                let before = marks.iter().position(|(host, name, _)| (*host, *name) == *key);
                match before {
                    Some(place) if rank(marks[place].2) >= rank(mark) => continue,
                    Some(place) => marks[place].2 = mark,
                    None => marks.push((key.0, key.1, mark)),
                }
                for (other, _) in &waiting {
                    if keys(&packets[*other]).contains(key) {
                        lengthen(*other, mark);
                    }
                }
            }
        }
    }
    kept
}

fn packet() -> impl Strategy<Value = Sent> {
    let keep = prop_oneof![
        Just(Keep::Full),
        Just(Keep::Header),
        Just(Keep::Nothing),
        (1_u32..300).prop_map(Keep::Partial),
    ];
    (0_u8..3, 0_u16..3, 60_u32..400, 0_i64..900, keep, 0_u8..6).prop_map(
        |(host, port, len, gap, keep, kind)| {
            let granularity = Granularity { keep, sample: None };
            let mut plan = Plan { kept_len: Some(HEADERS), mark: None, is_final: false };
            if kind == 0 {
                plan.mark = Some(granularity);
            } else if kind == 1 {
                plan = Plan { kept_len: None, mark: None, is_final: len % 2 == 0 };
            }
            Sent { host, port, len, time: gap * 1_000_000, plan }
        },
    )
}

proptest! {
    #[test]
    fn lengths_are_those_of_a_plain_search(
        mut packets in proptest::collection::vec(packet(), 0..200),
        is_host: bool,
    ) {
        let mut time = 0;
        for sent in &mut packets {
            time += sent.time;
            sent.time = time;
        }
        let reach = if is_host { Reach::Host } else { Reach::Flow };
        let mut waiting = hindsight(2, 1 << 24, reach);
        let left = run(&mut waiting, &packets, true);
        let kept: Vec<_> = left.iter().map(|left| left.2).collect();
        prop_assert_eq!(kept, plainly(&packets, 2 * SECOND, reach));
        prop_assert!(left.iter().zip(&packets).all(|(left, sent)| left.1 == sent.len));
    }
}
