//! Captures of what stacks and hostile machines send: TCP with handshakes, losses, jumps and
//! options, QUIC, DNS, fragments and tunnels, at times that wait, repeat, step back and leave the
//! calendar.
//!
//! Input: packets, each with a byte of what it is (below), one of its flow and tunnel, and one of
//! how time goes on (its lower half a step of [`STEPS`], its upper half how many); then what the
//! packet needs. The upper bits of the first byte: 0x80 the capture has it cut, 0x40 it is
//! missing at the second tap. Where the input ends, zeros follow.

mod frame;
mod payload;

use packet::file::{FrameNote, Interface, PcapngEncoder, Section};
use packet::record::Direction;
use packet::{LinkType, Timestamp};

use crate::input::Input;
use frame::{FLOW_COUNT, Flow, Segment};

/// Packets that one input makes at most, those of bursts included.
const PACKETS_MAX: usize = 400;
/// Packets of a burst at most.
const BURST_MAX: u8 = 40;
/// From one tap to the next.
const BETWEEN_TAPS_NS: i64 = 3_000_000;
/// When captures begin, unless time jumps: in 2023.
const USUAL_NS: i64 = 1_700_000_000_000_000_000;

/// How time goes on.
enum Step {
    /// By so much, which may be negative, as often as is asked for.
    By(i64),
    /// To here.
    To(i64),
}

/// The steps that there are: none, within slots, windows and timeouts, back, and to the ends of
/// calendars.
const STEPS: [Step; 16] = [
    Step::By(0),
    Step::By(1_000),
    Step::By(100_000),
    Step::By(1_000_000),
    Step::By(10_000_000),
    Step::By(200_000_000),
    Step::By(1_000_000_000),
    Step::By(61_000_000_000),
    Step::By(3_600_000_000_000),
    Step::By(-1_000_000),
    Step::By(-1_000_000_000),
    Step::By(-7_200_000_000_000),
    Step::To(0),
    Step::To(4_294_967_296_000_000_000),
    Step::By(31_536_000_000_000_000),
    Step::To(i64::MAX),
];

/// A capture, and the same traffic at a second tap.
pub struct Captures {
    /// As pcapng, in nanoseconds.
    pub first: Vec<u8>,
    /// Without what is lost between the taps.
    pub second: Vec<u8>,
    /// Packets of the first.
    pub packet_count: u64,
}

/// A capture that is being written.
struct Written {
    bytes: Vec<u8>,
    encoder: PcapngEncoder,
}

impl Written {
    fn new() -> Self {
        let (mut bytes, mut encoder) = (Vec::new(), PcapngEncoder::new());
        encoder.section(&mut bytes, &Section::default());
        let interface = Interface { link: LinkType::ETHERNET, ..Interface::default() };
        encoder.interface(&mut bytes, &interface).expect("one interface");
        Self { bytes, encoder }
    }

    fn push(&mut self, now_ns: i64, wire_len: usize, kept: &[u8]) {
        let note = FrameNote {
            timestamp: Timestamp::from_ns(now_ns),
            interface: 0,
            wire_len: u32::try_from(wire_len).unwrap_or(u32::MAX),
            direction: Direction::Unknown,
            comments: &[],
        };
        self.encoder.frame(&mut self.bytes, &note, kept).expect("a known interface");
    }
}

/// What makes packets, and what it remembers of them.
struct Maker {
    flows: [Flow; FLOW_COUNT],
    now_ns: i64,
    taps: [Written; 2],
    packet_count: u64,
    /// The last packet, for those that come twice.
    last: Vec<u8>,
}

/// What the first bytes of a packet say of it.
#[derive(Clone, Copy)]
struct Kind {
    flow: usize,
    way: usize,
    tunnel: u8,
    is_cut: bool,
    is_lost: bool,
}

/// The captures that the rest of an input asks for.
#[must_use]
pub fn captures(input: &mut Input<'_>) -> Captures {
    let mut maker = Maker {
        flows: Flow::all(),
        now_ns: USUAL_NS,
        taps: [Written::new(), Written::new()],
        packet_count: 0,
        last: Vec::new(),
    };
    while !input.is_empty() && maker.packet_count < PACKETS_MAX as u64 {
        maker.next(input);
    }
    let [first, second] = maker.taps.map(|tap| tap.bytes);
    Captures { first, second, packet_count: maker.packet_count }
}

impl Maker {
    fn next(&mut self, input: &mut Input<'_>) {
        let (what, place, step) = (input.u8(), input.u8(), input.u8());
        self.go_on(step);
        let kind = Kind {
            flow: usize::from(place & 7),
            way: usize::from(place >> 3 & 1),
            tunnel: place >> 4,
            is_cut: what & 0x80 != 0,
            is_lost: what & 0x40 != 0,
        };
        match what & 0xf {
            0 => self.handshake(kind, input),
            1 => self.data(kind, input),
            2 => self.burst(kind, input),
            3 => self.again(kind, input),
            4 => self.jump(kind, input),
            5 => self.acknowledge(kind, input),
            6 => self.end(kind, input),
            7 => self.datagram(kind, &payload::datagram(input)),
            8 => self.datagram(kind, &payload::dns(input)),
            9 => self.datagram(kind, &payload::quic(input)),
            10 => self.push(kind, frame::icmp(&self.flows[kind.flow], kind.way, input)),
            11 => self.fragments(kind, input),
            12 => self.push_raw(kind, input),
            13 => self.push_last(kind),
            14 => self.push(kind, frame::other(&self.flows[kind.flow], kind.way, input)),
            _ => self.options(kind, input),
        }
    }

    fn go_on(&mut self, step: u8) {
        self.now_ns = match STEPS[usize::from(step & 0xf)] {
            Step::By(by_ns) => {
                self.now_ns.saturating_add(by_ns.saturating_mul(i64::from(step >> 4) + 1)).max(0)
            }
            // Once more it goes back to when most of the traffic is.
            Step::To(at_ns) if self.now_ns == at_ns => USUAL_NS,
            Step::To(at_ns) => at_ns,
        };
    }

    /// Writes an IP packet, in Ethernet and whatever is around it.
    fn push(&mut self, kind: Kind, packet: Vec<u8>) {
        let framed = frame::framed(kind.tunnel, packet);
        self.put(kind, framed);
    }

    fn put(&mut self, kind: Kind, framed: Vec<u8>) {
        if self.packet_count >= PACKETS_MAX as u64 {
            return;
        }
        self.packet_count += 1;
        let kept = if kind.is_cut { framed.len().min(60) } else { framed.len() };
        self.taps[0].push(self.now_ns, framed.len(), &framed[..kept]);
        if !kind.is_lost {
            let later_ns = self.now_ns.saturating_add(BETWEEN_TAPS_NS);
            self.taps[1].push(later_ns, framed.len(), &framed[..kept]);
        }
        self.last = framed;
    }

    fn push_raw(&mut self, kind: Kind, input: &mut Input<'_>) {
        let len = usize::from(input.u8());
        self.put(kind, input.bytes(len).to_vec());
    }

    fn push_last(&mut self, kind: Kind) {
        self.put(kind, self.last.clone());
    }

    fn segment(&mut self, kind: Kind, segment: &Segment<'_>) {
        let packet = self.flows[kind.flow].segment(kind.way, segment, self.now_ns);
        self.push(kind, packet);
    }

    /// SYN, SYN and ACK, ACK, with the sequence numbers that the input chooses.
    fn handshake(&mut self, kind: Kind, input: &mut Input<'_>) {
        let numbers = [input.u32(), input.u32()];
        let flow = &mut self.flows[kind.flow];
        flow.next = numbers;
        if kind.way == 1 {
            // Other hosts, so that there are more flows than places for them.
            flow.host = input.u16();
        }
        for (way, flags) in [(0, Segment::SYN), (1, Segment::SYN | Segment::ACK), (0, Segment::ACK)]
        {
            self.segment(Kind { way, ..kind }, &Segment { flags, ..Segment::default() });
            self.now_ns = self.now_ns.saturating_add(1_500_000);
        }
    }

    fn data(&mut self, kind: Kind, input: &mut Input<'_>) {
        let payload = payload::stream(input);
        let flags = Segment::ACK | Segment::PUSH;
        self.segment(kind, &Segment { flags, payload: &payload, ..Segment::default() });
    }

    /// Segments one after another, as of a sender that fills a queue, and what is acknowledged.
    fn burst(&mut self, kind: Kind, input: &mut Input<'_>) {
        let (count, gap, lost) = (input.u8() % BURST_MAX, i64::from(input.u8()), input.u8());
        let payload = [0x17; 1_200];
        for at in 0..count {
            self.now_ns = self.now_ns.saturating_add(gap * 40_000);
            let is_lost = lost != 0 && at % lost == 0;
            let segment = Segment { payload: &payload, ..Segment::default() };
            self.segment(Kind { is_lost: kind.is_lost || is_lost, ..kind }, &segment);
            if at % 3 == 2 {
                self.segment(Kind { way: kind.way ^ 1, ..kind }, &Segment::default());
            }
        }
    }

    /// A retransmission of bytes so far before the next ones.
    fn again(&mut self, kind: Kind, input: &mut Input<'_>) {
        let (back, len) = (u32::from(input.u16()), usize::from(input.u8()) * 8);
        let next = self.flows[kind.flow].next[kind.way];
        let payload = vec![0x55; len];
        let seq = Some(next.wrapping_sub(back));
        self.segment(kind, &Segment { seq, payload: &payload, ..Segment::default() });
    }

    /// Sequence numbers from anywhere.
    fn jump(&mut self, kind: Kind, input: &mut Input<'_>) {
        let to = input.u32();
        let by = input.u8();
        let flow = &mut self.flows[kind.flow];
        let next = &mut flow.next[kind.way];
        *next = if by & 1 == 0 { to } else { next.wrapping_add(1 << (by >> 3)) };
        let payload = vec![0xaa; usize::from(by)];
        self.segment(kind, &Segment { payload: &payload, ..Segment::default() });
    }

    /// An acknowledgement off by so much, with blocks of SACK (RFC 2018).
    fn acknowledge(&mut self, kind: Kind, input: &mut Input<'_>) {
        let (off, blocks) = (input.u16().cast_signed(), input.u8());
        let ack = self.flows[kind.flow].next[kind.way ^ 1].wrapping_add_signed(i32::from(off));
        let mut sack = Vec::new();
        for _ in 0..blocks & 3 {
            let (from, len) = (input.u16(), input.u8());
            let scale = u32::from(blocks >> 2);
            let start = ack.wrapping_add(u32::from(from) << (scale & 15));
            let end = start.wrapping_add(u32::from(len) << (scale >> 4 & 15));
            sack.push((start, end));
        }
        self.segment(kind, &Segment { ack: Some(ack), sack: &sack, ..Segment::default() });
    }

    fn end(&mut self, kind: Kind, input: &mut Input<'_>) {
        let flags = input.u8() | Segment::FIN;
        self.segment(kind, &Segment { flags, ..Segment::default() });
    }

    /// Options as the input has them, whatever they are.
    fn options(&mut self, kind: Kind, input: &mut Input<'_>) {
        let len = usize::from(input.u8() % 41);
        let options = Some(input.bytes(len));
        self.segment(kind, &Segment { options, ..Segment::default() });
    }

    fn datagram(&mut self, kind: Kind, payload: &payload::Datagram) {
        let packet = self.flows[kind.flow].datagram(kind.way, payload.port, &payload.bytes);
        self.push(kind, packet);
    }

    /// A datagram in pieces of IPv4 that may overlap, and of which one may be missing.
    fn fragments(&mut self, kind: Kind, input: &mut Input<'_>) {
        let (gap, which) = (input.u8(), input.u8());
        let payload = payload::datagram(input);
        let packet = self.flows[kind.flow].datagram(kind.way, payload.port, &payload.bytes);
        for (at, piece) in frame::pieces(&packet, gap).into_iter().enumerate() {
            if which & 1 << at == 0 {
                self.push(kind, piece);
            }
        }
    }
}
