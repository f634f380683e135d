//! What a packet of TCP says that is asked for here.

use packet::wire::accurate_ecn::AccurateEcnRepr;
use packet::wire::ipv4::Ipv4;
use packet::wire::ipv6::Ipv6;
use packet::wire::tcp::{SeqNumber, Tcp, TcpFlags};
use packet::wire::tcp_options::{SACK_BLOCKS_MAX, TcpOption};
use packet::{Frame, Layers, Network, Timestamp};

/// A packet of TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// When the tap saw it.
    pub time: Timestamp,
    /// The first number that it takes up.
    pub seq: SeqNumber,
    /// Numbers that it takes up: its bytes of data, SYN and FIN.
    pub len: u32,
    /// Bytes of data.
    pub payload_len: u32,
    /// What its sender waits for, where that means something.
    pub ack: Option<SeqNumber>,
    /// Control bits.
    pub flags: TcpFlags,
    /// Bytes of the frame.
    pub wire_len: u32,
    /// Packets as they are on the wire.
    pub segments: u16,
    /// ECN codepoint of the IP header: 0 not capable, 1 ECT(1), 2 ECT(0), 3 CE.
    pub ecn: u8,
    /// Timestamps: of the sender, and the echo of the peer's.
    pub ticks: Option<(u32, u32)>,
    /// What the sender has beyond `ack` (SACK).
    pub blocks: [Option<(SeqNumber, SeqNumber)>; SACK_BLOCKS_MAX],
    /// Counters of Accurate ECN.
    pub accurate: Option<AccurateEcnRepr>,
}

impl Segment {
    /// Of a frame of TCP; none where the header was cut off or cannot be.
    #[inline]
    #[must_use]
    pub fn from_frame(frame: &Frame<'_>) -> Option<Self> {
        let layers = &frame.record.layers;
        if !layers.has(Layers::TRANSPORT) {
            return None;
        }
        let tcp = Tcp::new(frame.from_offset(layers.transport_offset)).ok()?;
        let flags = tcp.flags();
        let bits = u32::from(flags.contains(TcpFlags::SYN) as u8)
            + u32::from(flags.contains(TcpFlags::FIN) as u8);
        let mut segment = Self {
            time: frame.record.timestamp,
            seq: tcp.sequence_number(),
            len: layers.payload_len.saturating_add(bits),
            payload_len: layers.payload_len,
            ack: flags.contains(TcpFlags::ACK).then(|| tcp.acknowledgment_number()),
            flags,
            wire_len: frame.record.wire_len,
            segments: frame.record.segments.max(1),
            ecn: ecn(frame),
            ..Self::default()
        };
        segment.read_options(&tcp);
        Some(segment)
    }

    #[inline]
    fn read_options(&mut self, tcp: &Tcp<'_>) {
        for option in tcp.options() {
            match option {
                Ok(TcpOption::Timestamps { value, echo_reply }) => {
                    self.ticks = Some((value, echo_reply));
                }
                Ok(TcpOption::Sack(blocks)) => {
                    for (held, block) in self.blocks.iter_mut().zip(blocks.iter()) {
                        *held = Some(block);
                    }
                }
                Ok(option @ TcpOption::Raw { .. }) => {
                    self.accurate = self.accurate.or_else(|| AccurateEcnRepr::parse(&option));
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
    }

    /// One past the last number that it takes up.
    #[inline]
    #[must_use]
    pub const fn end(&self) -> SeqNumber {
        self.seq.plus(self.len)
    }

    /// Whether it opens a connection.
    #[inline]
    #[must_use]
    pub const fn opens(&self) -> bool {
        self.flags.contains(TcpFlags::SYN)
    }
}

/// The ECN codepoint of the innermost IP header.
#[inline]
pub(crate) fn ecn(frame: &Frame<'_>) -> u8 {
    let layers = &frame.record.layers;
    let header = frame.from_offset(layers.network_offset);
    match layers.network {
        Network::Ipv4 => Ipv4::new(header).map_or(0, |ip| ip.ecn()),
        Network::Ipv6 => Ipv6::new(header).map_or(0, |ip| ip.ecn()),
        Network::None | Network::Arp => 0,
    }
}
