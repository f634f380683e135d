//! Each packet from its arrival to its acknowledgement: notes become records.
//!
//! A record is complete when its bytes were acknowledged; until then it is kept, for at most
//! [`GIVE_UP_NS`] and with at most [`PENDING_MAX`] others.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use dualq::{Departure, Fate};
use l4s::trace::{Outcome, Record};
use packet::wire::tcp::{SeqNumber, Tcp, TcpFlags};
use packet::wire::tcp_options::TcpOption;

use super::{Head, Note};
use crate::prefix::Prefix;

/// After so long no acknowledgement is waited for: a TCP that has heard nothing has retransmitted.
const GIVE_UP_NS: u64 = 5_000_000_000;
/// Records that wait: a second of 3 Gbit/s. 45 MB.
const PENDING_MAX: usize = 1 << 18;
/// Flows that have a number; those beyond have the last one in common.
const FLOWS_MAX: usize = 1 << 16;
const FLOW_BEYOND: u32 = u32::MAX;
/// A host of no prefix.
const HOST_UNKNOWN: u16 = u16::MAX;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Which flow a number is.
#[derive(Clone, Debug)]
pub struct FlowReport {
    /// Where its packets come from; port 0 where there are none.
    pub source: SocketAddr,
    /// Where they go.
    pub target: SocketAddr,
    /// The number of its protocol.
    pub protocol: u8,
    /// Packets that came to the router.
    pub packets: u64,
}

/// What was followed.
#[derive(Clone, Debug, Default)]
pub struct TraceSummary {
    /// Flows, in the order of their numbers.
    pub flows: Vec<FlowReport>,
    /// Records.
    pub records: u64,
    /// Of those that left with bytes, those whose acknowledgement was not seen.
    pub unacknowledged: u64,
    /// Packets of flows beyond the table.
    pub beyond: u64,
}

/// The ends of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Ends {
    source: SocketAddr,
    target: SocketAddr,
    protocol: u8,
}

/// What TCP says of a packet.
#[derive(Clone, Copy, Debug)]
struct Segment {
    sequence: SeqNumber,
    payload_len: u32,
    is_syn: bool,
}

/// A packet whose record is not complete.
#[derive(Debug)]
struct Pending {
    tag: u64,
    record: Record,
    /// Which byte of its flow follows it, where it has any.
    end: Option<u64>,
    is_done: bool,
}

/// A flow of TCP, by the bytes that were sent and not acknowledged.
#[derive(Debug, Default)]
struct Flow {
    /// The number of its first byte, and the latest place as number and as count.
    begin: Option<(SeqNumber, u64)>,
    highest: u64,
    /// Packets that wait for an acknowledgement: end and tag, with their first byte.
    sent: BTreeMap<(u64, u64), u64>,
}

/// All packets that are followed.
#[derive(Debug)]
pub(super) struct Following {
    senders: Vec<Prefix>,
    receivers: Vec<Prefix>,
    numbers: HashMap<Ends, u32>,
    flows: Vec<Flow>,
    pending: VecDeque<Pending>,
    now_ns: u64,
    followed: TraceSummary,
}

impl Following {
    pub(super) fn new(senders: Vec<Prefix>, receivers: Vec<Prefix>) -> Self {
        Self {
            senders,
            receivers,
            numbers: HashMap::new(),
            flows: Vec::new(),
            pending: VecDeque::new(),
            now_ns: 0,
            followed: TraceSummary::default(),
        }
    }

    pub(super) fn note(&mut self, note: &Note) {
        match note {
            Note::Arrived { .. } => self.arrived(note),
            Note::Left { left: Some(left), at_ns } => self.left(*at_ns, left),
            Note::Left { .. } => {}
            Note::Delivered { tag, at_ns } => self.delivered(*tag, *at_ns),
            Note::Acknowledged { at_ns, head } => {
                self.acknowledged(*at_ns, head);
            }
        }
    }

    /// The next record that is complete, or is not waited for any longer; at the end all are.
    pub(super) fn next_done(&mut self, is_end: bool) -> Option<Record> {
        let first = self.pending.front()?;
        let entered_ns = first.record.entered_ns.unwrap_or_default();
        let is_over = is_end
            || self.pending.len() > PENDING_MAX
            || self.now_ns.saturating_sub(entered_ns) > GIVE_UP_NS;
        if !first.is_done && !is_over {
            return None;
        }
        let Pending { tag, record, end, is_done } = self.pending.pop_front()?;
        if let (Some(end), false) = (end, is_done) {
            self.followed.unacknowledged += u64::from(record.received_ns.is_some());
            if let Some(flow) = self.flows.get_mut(record.flow as usize) {
                flow.sent.remove(&(end, tag));
            }
        }
        self.followed.records += 1;
        Some(record)
    }

    pub(super) fn end(self) -> TraceSummary {
        self.followed
    }

    fn arrived(&mut self, note: &Note) {
        let Note::Arrived { arrival, entered, found, head } = note else { return };
        self.now_ns = arrival.at_ns;
        let read = ends_of(head.bytes());
        let ends = read.map(|(ends, _)| ends);
        let flow = ends.map_or(FLOW_BEYOND, |ends| self.number(ends));
        let mut record = Record {
            // The senders' links are devices without delay: what left them is here.
            sent_ns: Some(arrival.at_ns),
            entered_ns: Some(arrival.at_ns),
            left_ns: entered.dropped.map(|_| arrival.at_ns),
            received_ns: None,
            acked_ns: None,
            sequence: 0,
            flow,
            size: arrival.packet.len,
            found_l4s: found.l4s,
            found_classic: found.classic,
            sender: host(&self.senders, ends.map(|ends| ends.source)),
            receiver: host(&self.receivers, ends.map(|ends| ends.target)),
            ecn_sent: arrival.packet.ecn,
            ecn_left: arrival.packet.ecn,
            queue: entered.queue,
            outcome: entered.dropped.map_or(Outcome::Waiting, Outcome::Dropped),
            mark: None,
            is_retransmission: false,
            is_remarked: false,
        };
        let segment = read.and_then(|(ends, at)| segment(head, ends, at, arrival.packet.len));
        let tag = arrival.packet.tag;
        let mut end = None;
        if let (Some(segment), Some(flow)) = (segment, self.flows.get_mut(flow as usize)) {
            let start = flow.place(&segment);
            record.sequence = start;
            if segment.payload_len > 0 {
                let behind = start + u64::from(segment.payload_len);
                record.is_retransmission = start < flow.highest;
                flow.highest = flow.highest.max(behind);
                end = Some(behind);
                if entered.dropped.is_none() {
                    flow.sent.insert((behind, tag), start);
                }
            }
        }
        let is_done = entered.dropped.is_some();
        self.pending.push_back(Pending { tag, record, end, is_done });
    }

    fn left(&mut self, at_ns: u64, left: &Departure) {
        let Some(pending) = find(&mut self.pending, left.packet.tag) else { return };
        pending.record.left_ns = Some(at_ns);
        pending.record.ecn_left = left.packet.ecn;
        match left.fate {
            Fate::Sent(mark) => {
                pending.record.outcome = Outcome::Sent;
                pending.record.mark = mark;
            }
            Fate::Dropped(cause) => {
                pending.record.outcome = Outcome::Dropped(cause);
                self.forget(left.packet.tag);
            }
        }
    }

    fn delivered(&mut self, tag: u64, at_ns: Option<u64>) {
        let Some(pending) = find(&mut self.pending, tag) else { return };
        pending.record.received_ns = at_ns;
        if at_ns.is_none() {
            self.forget(tag);
        } else if pending.end.is_none() {
            pending.is_done = true;
        }
    }

    /// No acknowledgement is waited for: what was dropped is acknowledged when it is retransmitted.
    fn forget(&mut self, tag: u64) {
        let Some(pending) = find(&mut self.pending, tag) else { return };
        pending.is_done = true;
        if let (Some(end), Some(flow)) =
            (pending.end, self.flows.get_mut(pending.record.flow as usize))
        {
            flow.sent.remove(&(end, tag));
        }
    }

    fn acknowledged(&mut self, at_ns: u64, head: &Head) -> Option<()> {
        let (ends, at) = ends_of(head.bytes())?;
        let Ends { source, target, protocol } = ends;
        let way = Ends { source: target, target: source, protocol };
        let flow = self.flows.get_mut(*self.numbers.get(&way)? as usize)?;
        let tcp = (protocol == TCP).then(|| Tcp::new(head.bytes().get(at..)?).ok()).flatten()?;
        if !tcp.flags().contains(TcpFlags::ACK) {
            return None;
        }
        let until = flow.place_of(tcp.acknowledgment_number())?;
        while let Some((&(end, tag), _)) = flow.sent.first_key_value() {
            if end > until {
                break;
            }
            flow.sent.remove(&(end, tag));
            acknowledge(&mut self.pending, tag, at_ns);
        }
        for option in tcp.options().flatten() {
            let TcpOption::Sack(blocks) = option else { continue };
            for (from, to) in blocks.iter() {
                let (Some(from), Some(to)) = (flow.place_of(from), flow.place_of(to)) else {
                    continue;
                };
                if from >= to {
                    continue;
                }
                let inside = flow.sent.range((from + 1, 0)..=(to, u64::MAX));
                let inside = inside.filter(|(_, start)| **start >= from).map(|(key, _)| *key);
                for key in inside.collect::<Vec<_>>() {
                    flow.sent.remove(&key);
                    acknowledge(&mut self.pending, key.1, at_ns);
                }
            }
        }
        Some(())
    }

    /// The number of a flow.
    fn number(&mut self, ends: Ends) -> u32 {
        let next = self.flows.len();
        let number = match self.numbers.get(&ends) {
            Some(number) => *number,
            None if next >= FLOWS_MAX => {
                self.followed.beyond += 1;
                return FLOW_BEYOND;
            }
            None => {
                let number = u32::try_from(next).unwrap_or(FLOW_BEYOND);
                self.numbers.insert(ends, number);
                self.flows.push(Flow::default());
                let Ends { source, target, protocol } = ends;
                self.followed.flows.push(FlowReport { source, target, protocol, packets: 0 });
                number
            }
        };
        if let Some(flow) = self.followed.flows.get_mut(number as usize) {
            flow.packets += 1;
        }
        number
    }
}

impl Flow {
    /// The count of the first byte of a segment. The bytes are counted from the first one seen.
    fn place(&mut self, segment: &Segment) -> u64 {
        if segment.is_syn || self.begin.is_none() {
            let first = segment.sequence.plus(u32::from(segment.is_syn));
            self.begin = Some((first, 0));
            return 0;
        }
        let place = self.place_of(segment.sequence).unwrap_or(0);
        if let Some((_, latest)) = self.begin
            && place > latest
        {
            self.begin = Some((segment.sequence, place));
        }
        place
    }

    /// Numbers go round: the count that is nearest to the latest one.
    fn place_of(&self, number: SeqNumber) -> Option<u64> {
        let (latest, place) = self.begin?;
        Some(place.saturating_add_signed(i64::from(number.since(latest))))
    }
}

fn find(pending: &mut VecDeque<Pending>, tag: u64) -> Option<&mut Pending> {
    let at = pending.binary_search_by_key(&tag, |pending| pending.tag).ok()?;
    pending.get_mut(at)
}

fn acknowledge(pending: &mut VecDeque<Pending>, tag: u64, at_ns: u64) {
    if let Some(pending) = find(pending, tag) {
        pending.record.acked_ns = Some(at_ns);
        pending.is_done = true;
    }
}

fn host(prefixes: &[Prefix], address: Option<SocketAddr>) -> u16 {
    let found = address.and_then(|a| prefixes.iter().position(|prefix| prefix.holds(a.ip())));
    found.and_then(|index| u16::try_from(index).ok()).unwrap_or(HOST_UNKNOWN)
}

/// The ends of an IP packet, and where its next header begins. IPv6 extension headers and
/// fragments but the first have no ports here: the testbed sends neither.
fn ends_of(packet: &[u8]) -> Option<(Ends, usize)> {
    let (source, target, protocol, at) = match packet.first()? >> 4 {
        4 => {
            let address =
                |at: usize| packet.get(at..)?.first_chunk::<4>().map(|bytes| IpAddr::from(*bytes));
            let at = usize::from(packet.first()? & 0xf) * 4;
            (address(12)?, address(16)?, *packet.get(9)?, at)
        }
        6 => {
            let address =
                |at: usize| packet.get(at..)?.first_chunk::<16>().map(|bytes| IpAddr::from(*bytes));
            (address(8)?, address(24)?, *packet.get(6)?, 40)
        }
        _ => return None,
    };
    let has_ports = matches!(protocol, TCP | UDP);
    let port = |at: usize| {
        let bytes = packet.get(at..).and_then(<[u8]>::first_chunk::<2>);
        bytes.filter(|_| has_ports).map_or(0, |bytes| u16::from_be_bytes(*bytes))
    };
    let source = SocketAddr::new(source, port(at));
    let target = SocketAddr::new(target, port(at + 2));
    Some((Ends { source, target, protocol }, at))
}

fn segment(head: &Head, ends: Ends, at: usize, len: u32) -> Option<Segment> {
    if ends.protocol != TCP {
        return None;
    }
    let tcp = Tcp::new(head.bytes().get(at..)?).ok()?;
    let headers = u32::try_from(at + tcp.header_len()).ok()?;
    Some(Segment {
        sequence: tcp.sequence_number(),
        payload_len: len.saturating_sub(headers),
        is_syn: tcp.flags().contains(TcpFlags::SYN),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dualq::{Arrival, DropCause, Ecn, EnqueueOutcome, OfQueue, Packet, Queue};

    /// A TCP segment of IPv4 between two hosts, with SACK blocks.
    fn packet(way: [u8; 2], numbers: [u32; 2], flags: u8, sack: &[(u32, u32)]) -> Vec<u8> {
        let options: Vec<u8> = match sack {
            [] => Vec::new(),
            blocks => {
                let bytes = blocks.iter().flat_map(|(from, to)| [*from, *to]);
                let len = u8::try_from(2 + blocks.len() * 8).unwrap();
                [1, 1, 5, len].into_iter().chain(bytes.flat_map(u32::to_be_bytes)).collect()
            }
        };
        let words = u8::try_from((20 + options.len()) / 4).unwrap();
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, TCP, 0, 0];
        packet.extend([10, 0, 0, way[0], 10, 0, 0, way[1], 0, way[0], 0, way[1]]);
        packet.extend(numbers.into_iter().flat_map(u32::to_be_bytes));
        packet.extend([words << 4, flags, 0, 0, 0, 0, 0, 0]);
        packet.extend(options);
        packet
    }

    struct World {
        following: Following,
        tag: u64,
    }

    impl World {
        fn new() -> Self {
            let sender = ["10.0.0.1/32".parse().unwrap()];
            Self { following: Following::new(sender.into(), Vec::new()), tag: 0 }
        }

        /// A segment of 1,000 bytes comes and, unless it is dropped, leaves and is delivered.
        fn send(&mut self, sequence: u32, dropped: Option<DropCause>) {
            let at_ns = self.tag * 100;
            let bytes = packet([1, 2], [sequence, 0], 0x10, &[]);
            let packet = Packet { len: 1_040, ecn: Ecn::Ect1, tag: self.tag };
            self.following.note(&Note::Arrived {
                arrival: Arrival { packet, at_ns },
                entered: EnqueueOutcome { queue: Queue::L4s, dropped },
                found: OfQueue { l4s: 3, classic: 4 },
                head: Head::of(&bytes),
            });
            if dropped.is_none() {
                let left = Departure {
                    packet,
                    queue: Queue::L4s,
                    entered_ns: at_ns,
                    fate: Fate::Sent(None),
                };
                self.following.note(&Note::Left { at_ns: at_ns + 1, left: Some(left) });
                let at_ns = Some(at_ns + 2);
                self.following.note(&Note::Delivered { tag: self.tag, at_ns });
            }
            self.tag += 1;
        }

        fn acknowledge(&mut self, at_ns: u64, number: u32, sack: &[(u32, u32)]) {
            let bytes = packet([2, 1], [0, number], 0x10, sack);
            self.following.note(&Note::Acknowledged { at_ns, head: Head::of(&bytes) });
        }

        fn done(&mut self, is_end: bool) -> Vec<(u64, Option<u64>, bool)> {
            let next = || self.following.next_done(is_end);
            let records = std::iter::from_fn(next);
            records.map(|r| (r.sequence, r.acked_ns, r.is_retransmission)).collect()
        }
    }

    #[test]
    fn the_first_acknowledgement_that_covers_a_packet_counts_across_the_wrap() {
        let mut world = World::new();
        let begin = u32::MAX - 1_499;
        (0..4).for_each(|index| world.send(begin.wrapping_add(index * 1_000), None));
        world.acknowledge(900, begin.wrapping_add(1_000), &[]);
        assert_eq!(world.done(false), [(0, Some(900), false)]);
        let sack = (begin.wrapping_add(2_000), begin.wrapping_add(3_000));
        world.acknowledge(901, begin.wrapping_add(1_000), &[sack]);
        assert_eq!(world.done(false), []);
        // It was lost on its way, and is retransmitted.
        world.send(begin.wrapping_add(1_000), None);
        world.acknowledge(950, begin.wrapping_add(4_000), &[]);
        let wanted = [(1_000, 950, false), (2_000, 901, false), (3_000, 950, false)];
        let wanted = wanted.into_iter().chain([(1_000, 950, true)]);
        let wanted: Vec<_> = wanted.map(|(start, at, again)| (start, Some(at), again)).collect();
        assert_eq!(world.done(false), wanted);
        assert_eq!(world.following.end().unacknowledged, 0);
    }

    #[test]
    fn what_is_dropped_is_done_and_what_is_not_heard_of_is_given_up() {
        let mut world = World::new();
        world.send(1, Some(DropCause::Full));
        world.send(1, None);
        assert_eq!(world.done(false), [(0, None, false)]);
        world.tag = GIVE_UP_NS / 100 + 2;
        world.send(1_001, None);
        assert_eq!(world.done(false), [(0, None, true)]);
        world.acknowledge(9, 1_001, &[]);
        assert_eq!(world.done(true), [(1_000, None, false)]);
        let followed = world.following.end();
        assert_eq!((followed.records, followed.unacknowledged), (3, 2));
        assert_eq!((followed.flows.len(), followed.flows[0].packets), (1, 3));
    }

    #[test]
    fn hosts_have_the_numbers_of_their_prefixes() {
        let mut world = World::new();
        world.send(1, Some(DropCause::Early));
        let record = world.following.next_done(true).unwrap();
        assert_eq!((record.sender, record.receiver, record.flow), (0, HOST_UNKNOWN, 0));
        assert_eq!((record.found_l4s, record.found_classic), (3, 4));
        assert_eq!(record.outcome, Outcome::Dropped(DropCause::Early));
    }

    #[test]
    fn what_is_no_tcp_is_followed_without_bytes() {
        assert!(ends_of(&[]).is_none() && ends_of(&[0x15; 40]).is_none());
        let udp = [&[0x60, 0, 0, 0, 0, 8, UDP, 64][..], &[7; 32], &[0, 9, 0, 8]].concat();
        let (ends, at) = ends_of(&udp).unwrap();
        assert_eq!((ends.source.port(), ends.target.port(), at), (9, 8, 40));
        assert!(segment(&Head::of(&udp), ends, at, 100).is_none());
    }
}
