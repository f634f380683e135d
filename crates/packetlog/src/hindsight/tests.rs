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
        let hashes = hindsight.expect(&frame, &judged);
        hindsight.push(&frame, &judged, hashes, sent.plan, &mut each);
    }
    hindsight.give_over(&mut each);
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

/// What happens to packets that wait.
#[derive(Clone, Debug)]
enum Step {
    /// A packet comes: what the clock does meanwhile, and what its record has that few have.
    Packet(Sent, Clock, Oddity),
    /// A silent link.
    Tick(i64),
    /// A batch ends.
    BatchEnd,
}

#[derive(Clone, Copy, Debug)]
enum Clock {
    Forward(i64),
    /// By less than the hindsight: the packet is late.
    Late(i64),
    /// By more.
    Back(i64),
    Unknown,
}

#[derive(Clone, Copy, Debug)]
enum Oddity {
    None,
    Vlan,
    Merged,
    Input,
    Fault,
}

const MS: i64 = 1_000_000;

fn odd(mut record: Record, oddity: Oddity) -> Record {
    match oddity {
        Oddity::None => {}
        Oddity::Vlan => record.layers.vlan_id = 7,
        Oddity::Merged => (record.segments, record.wire_len) = (40, 60_000),
        Oddity::Input => record.input = 3,
        Oddity::Fault => record.layers.fault = Some(packet::Malformed::ALL[1]),
    }
    // What a dissected frame has, so that the short form has all of it but for the oddity.
    record.layers.ether_type = 0x0800;
    record.layers.outer_network = record.layers.network;
    record.layers.outer_network_offset = record.layers.network_offset;
    record
}

fn step(len_max: u32) -> impl Strategy<Value = Step> {
    let clock = prop_oneof![
        8 => (0_i64..900).prop_map(|ms| Clock::Forward(ms * MS)),
        2 => (1_i64..2000).prop_map(|ms| Clock::Late(ms * MS)),
        1 => (2001_i64..9000).prop_map(|ms| Clock::Back(ms * MS)),
        1 => Just(Clock::Unknown),
    ];
    let oddity = prop_oneof![
        4 => Just(Oddity::None),
        1 => Just(Oddity::Vlan),
        1 => Just(Oddity::Merged),
        1 => Just(Oddity::Input),
        1 => Just(Oddity::Fault),
    ];
    let come = (packet(), clock, oddity, 60..len_max).prop_map(|(sent, clock, oddity, len)| {
        let mut sent = Sent { len, ..sent };
        sent.plan.mark = sent.plan.mark.filter(|_| sent.len.is_multiple_of(2));
        Step::Packet(sent, clock, oddity)
    });
    prop_oneof![
        12 => come,
        1 => (0_i64..1500).prop_map(|ms| Step::Tick(ms * MS)),
        2 => Just(Step::BatchEnd),
    ]
}

/// A packet with all that is to come out again.
#[derive(Clone, PartialEq, Debug)]
struct Whole {
    record: Record,
    bytes: Vec<u8>,
    judged: PacketVerdict,
    kept_len: Option<u32>,
}

/// Everything that ever came, in a list.
struct Plain {
    packets: Vec<(Whole, Sent, i64)>,
    left: usize,
    /// Of flows and hosts.
    marks: Vec<((bool, u16), Granularity)>,
    now: i64,
    time: i64,
    reach: Reach,
    clock_steps: u64,
}

fn rank_of(mark: Granularity) -> u64 {
    match mark.keep {
        Keep::Nothing => 0,
        Keep::Header => 1,
        Keep::Partial(bytes) => 2 + u64::from(bytes),
        Keep::Full => u64::MAX,
    }
}

impl Plain {
    fn keys(&self, sent: &Sent) -> Vec<(bool, u16)> {
        let flow = (false, u16::from(sent.host) << 8 | sent.port);
        let host = (true, u16::from(sent.host));
        if self.reach == Reach::Host { vec![flow, host] } else { vec![flow] }
    }

    fn advance(&mut self, time: i64) {
        if time < self.now.saturating_sub(self.time) {
            (self.left, self.now) = (self.packets.len(), time);
            self.clock_steps += 1;
        }
        self.now = self.now.max(time);
        let due = self.now.saturating_sub(self.time);
        while self.packets.get(self.left).is_some_and(|(_, _, came)| *came <= due) {
            self.left += 1;
        }
        let waiting: Vec<_> = self.packets[self.left..].iter().map(|(_, sent, _)| *sent).collect();
        let names: Vec<_> = waiting.iter().flat_map(|sent| self.keys(sent)).collect();
        self.marks.retain(|(key, _)| names.contains(key));
    }

    fn lengthen(&mut self, at: usize, mark: Granularity) {
        let (whole, sent, _) = &mut self.packets[at];
        if !sent.plan.is_final && mark.keep != Keep::Nothing {
            let len = mark.kept_len(&Frame { record: &whole.record, bytes: &[] });
            whole.kept_len = Some(whole.kept_len.map_or(len, |before| before.max(len)));
        }
    }

    fn push(&mut self, whole: Whole, sent: Sent) {
        if whole.record.timestamp != Timestamp::UNKNOWN {
            self.advance(whole.record.timestamp.as_ns());
        }
        let at = self.packets.len();
        self.packets.push((whole, sent, self.now));
        let keys = self.keys(&sent);
        let marks = self.marks.clone();
        for (_, mark) in marks.iter().filter(|(key, _)| keys.contains(key)) {
            self.lengthen(at, *mark);
        }
        let Some(mark) = sent.plan.mark else { return };
        for key in keys {
            match self.marks.iter().position(|(name, _)| *name == key) {
                Some(place) if rank_of(self.marks[place].1) >= rank_of(mark) => continue,
                Some(place) => self.marks[place].1 = mark,
                None => self.marks.push((key, mark)),
            }
            for other in self.left..=at {
                if self.keys(&self.packets[other].1).contains(&key) {
                    self.lengthen(other, mark);
                }
            }
        }
    }
}

/// Runs steps, and compares what leaves with the list of everything unless memory is short.
fn compared(steps: &[Step], bytes: usize, reach: Reach) -> Result<HindsightCounts, TestCaseError> {
    let mut waiting = hindsight(2, bytes, reach);
    let (packets, marks) = (Vec::new(), Vec::new());
    let (now, time) = (Timestamp::MIN.as_ns(), 2 * SECOND);
    let mut plain = Plain { packets, left: 0, marks, now, time, reach, clock_steps: 0 };
    let mut left: Vec<Whole> = Vec::new();
    let mut each = |frame: &Frame<'_>, judged: &PacketVerdict, kept_len: Option<u32>| {
        let (record, bytes) = (*frame.record, frame.bytes.to_vec());
        left.push(Whole { record, bytes, judged: *judged, kept_len });
    };
    let mut wall = 1_700_000_000 * SECOND;
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Packet(sent, clock, oddity) => {
                let mut record = odd(record(sent), *oddity);
                match clock {
                    Clock::Forward(ns) => wall += ns,
                    Clock::Back(ns) => wall -= ns,
                    Clock::Late(_) | Clock::Unknown => {}
                }
                record.timestamp = match clock {
                    Clock::Late(ns) => Timestamp::from_ns(wall - ns),
                    Clock::Unknown => Timestamp::UNKNOWN,
                    _ => Timestamp::from_ns(wall),
                };
                let bytes = frame_bytes(sent);
                let frame = Frame { record: &record, bytes: &bytes };
                let judged = PacketVerdict {
                    class: number as u16,
                    confidence: number as f32 / 7.0,
                    basis: if number % 3 == 0 { Basis::Packet } else { Basis::Flow },
                    flow: FlowKey::from_frame(&frame),
                };
                let hashes = waiting.expect(&frame, &judged);
                waiting.push(&frame, &judged, hashes, sent.plan, &mut each);
                let kept_len = sent.plan.kept_len;
                plain.push(Whole { record, bytes: bytes.clone(), judged, kept_len }, *sent);
            }
            Step::Tick(ns) => {
                wall += ns;
                waiting.tick(Timestamp::from_ns(wall), &mut each);
                plain.advance(wall.max(plain.now));
            }
            Step::BatchEnd => waiting.give_over(&mut each),
        }
        prop_assert!(waiting.size_bytes() <= bytes, "{} bytes", waiting.size_bytes());
    }
    waiting.give_over(&mut each);
    let counts = waiting.counts();
    if counts.early == 0 {
        prop_assert_eq!(counts.waiting as usize, plain.packets.len() - plain.left);
    }
    prop_assert_eq!(counts.clock_steps, plain.clock_steps);
    waiting.release_all(&mut each);
    prop_assert_eq!(left.len(), plain.packets.len());
    for (left, (whole, sent, _)) in left.iter().zip(&plain.packets) {
        if counts.early == 0 {
            prop_assert_eq!(left, whole);
        } else {
            // In order and intact, and no less of it than was planned.
            let kept_len = left.kept_len;
            prop_assert_eq!(left, &Whole { kept_len, ..whole.clone() });
            prop_assert!(kept_len >= sent.plan.kept_len && kept_len <= whole.kept_len);
        }
    }
    Ok(counts)
}

proptest! {
    #[test]
    fn what_leaves_is_what_a_list_of_everything_has(
        steps in proptest::collection::vec(step(400), 0..300),
        is_host: bool,
    ) {
        let reach = if is_host { Reach::Host } else { Reach::Flow };
        compared(&steps, 1 << 24, reach)?;
    }

    #[test]
    fn full_memory_changes_neither_order_nor_content(
        steps in proptest::collection::vec(step(40_000), 100..300),
        is_host: bool,
    ) {
        let reach = if is_host { Reach::Host } else { Reach::Flow };
        compared(&steps, 1 << 20, reach)?;
    }
}

#[test]
fn memory_that_is_full_of_long_frames_is_kept_to() {
    let packet = Sent { host: 1, port: 1, len: 30_000, time: 0, plan: HEADER };
    let steps = vec![Step::Packet(packet, Clock::Forward(1), Oddity::None); 200];
    let counts = compared(&steps, 1 << 20, Reach::Flow).unwrap();
    assert!(counts.early > 100 && counts.waiting > 20, "{counts:?}");
}

#[test]
fn a_flood_of_flows_does_not_take_more_memory_than_is_given() {
    let bytes = 1 << 20;
    let mut small = hindsight(5, bytes, Reach::Host);
    let mut each = |_: &Frame<'_>, _: &PacketVerdict, _: Option<u32>| {};
    for number in 0..100_000_u32 {
        let one = Sent { len: 60, ..sent(number as u8, (number >> 8) as u16, 0, HEADER) };
        let (bytes_of_frame, record) = (frame_bytes(&one), record(&one));
        let frame = Frame { record: &record, bytes: &bytes_of_frame };
        let flow = FlowKey::from_frame(&frame);
        let judged = PacketVerdict { class: 0, confidence: 0.5, basis: Basis::Flow, flow };
        let hashes = small.expect(&frame, &judged);
        small.push(&frame, &judged, hashes, HEADER, &mut each);
        assert!(small.size_bytes() <= bytes, "{:?}", small.counts());
    }
    // A flow of one packet: its frame, what is known of it, and places for two chains.
    assert!(small.counts().waiting > 3_000, "{:?}", small.counts());
}

#[test]
fn clocks_that_step_forth_and_back_leave_no_packet_behind() {
    let times = [0, 1, 3600, 3601, 1, 2, 0, 1, 2, 3, 4];
    let packets: Vec<_> =
        times.iter().enumerate().map(|(at, time)| sent(1, at as u16, *time, HEADER)).collect();
    let mut two = hindsight(2, 1 << 24, Reach::Flow);
    let left = run(&mut two, &packets, false);
    // An hour forth: the first two leave. Back: the next two. Back by two seconds is no step.
    assert_eq!(left.iter().map(|left| left.0).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!((two.counts().clock_steps, two.counts().waiting), (1, 2));
}
