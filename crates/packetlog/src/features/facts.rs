//! What the headers of one packet say.

use packet::wire::arp::Arp;
use packet::wire::tcp::TcpFlags;
use packet::{Frame, Layers, Network, Protocol, Record};

use super::merged::WireSegments;

// Flags as facts have them, where −1 is that there are none.
pub(crate) const TCP_FIN: i16 = TcpFlags::FIN.bits() as i16;
pub(crate) const TCP_SYN: i16 = TcpFlags::SYN.bits() as i16;
pub(crate) const TCP_RST: i16 = TcpFlags::RST.bits() as i16;
const TCP_PSH: i16 = TcpFlags::PSH.bits() as i16;
pub(crate) const TCP_ACK: i16 = TcpFlags::ACK.bits() as i16;

/// Numbers of one packet; −1 where it has no such thing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Facts {
    pub(crate) wire_len: u32,
    /// Bytes of the innermost IP packet as its headers tell, and never more than on the wire; of
    /// other frames those on the wire. Links differ in what they put around a packet, and pad.
    pub(crate) size: u32,
    pub(crate) payload_len: i64,
    pub(crate) source_port: i32,
    pub(crate) destination_port: i32,
    pub(crate) tcp_window: i32,
    pub(crate) arp_operation: i32,
    pub(crate) ip_header_len: i32,
    pub(crate) transport_header_len: i32,
    pub(crate) protocol: i16,
    pub(crate) tcp_flags: i16,
    pub(crate) icmp_type: i16,
    pub(crate) icmp_code: i16,
    pub(crate) network: i8,
    pub(crate) ecn: i8,
    pub(crate) is_fragment: i8,
    pub(crate) dont_fragment: i8,
    pub(crate) arp_gratuitous: i8,
    pub(crate) is_malformed: i8,
    /// Packets on the wire that the frame stands for. Lengths are those of each but the last.
    pub(crate) segments: u16,
    /// `size` of the last of them.
    pub(crate) last_size: u32,
}

impl Facts {
    /// Of a frame whose headers say nothing.
    pub(crate) const NONE: Self = Self {
        wire_len: 0,
        size: 0,
        payload_len: -1,
        source_port: -1,
        destination_port: -1,
        tcp_window: -1,
        arp_operation: -1,
        ip_header_len: -1,
        transport_header_len: -1,
        protocol: -1,
        tcp_flags: -1,
        icmp_type: -1,
        icmp_code: -1,
        network: 0,
        ecn: -1,
        is_fragment: -1,
        dont_fragment: -1,
        arp_gratuitous: -1,
        is_malformed: 0,
        segments: 1,
        last_size: 0,
    };

    /// Takes in what a frame says, where nothing has been said yet. In place: to copy it there
    /// afterwards would cost more than to find it, because wide loads wait for narrow stores.
    #[inline(always)]
    pub(crate) fn take(&mut self, frame: &Frame<'_>) {
        let layers = &frame.record.layers;
        self.wire_len = frame.record.wire_len;
        self.size = frame.record.wire_len;
        self.is_malformed = i8::from(layers.fault.is_some());
        match layers.network {
            Network::Ipv4 | Network::Ipv6 => self.add_ip(frame, layers),
            Network::Arp => self.add_arp(frame.from_offset(layers.network_offset)),
            Network::None => {}
        }
    }

    #[inline]
    fn add_ip(&mut self, frame: &Frame<'_>, layers: &Layers) {
        let header = frame.from_offset(layers.network_offset);
        if layers.network == Network::Ipv4 {
            self.network = 4;
            if let Some(header) = header.first_chunk::<8>() {
                self.ecn = (header[1] & 3).cast_signed();
                self.dont_fragment = i8::from(header[6] & 0x40 != 0);
            }
        } else {
            self.network = 6;
            self.ecn = header.get(1).map_or(-1, |byte| (byte >> 4 & 3).cast_signed());
        }
        self.protocol = i16::from(layers.protocol.0);
        self.is_fragment = i8::from(layers.has(Layers::FRAGMENT));
        self.payload_len = i64::from(layers.payload_len);
        let header_len = layers.transport_offset.checked_sub(layers.network_offset);
        self.ip_header_len = header_len.map_or(-1, i32::from);
        let before_payload = layers.payload_offset.saturating_sub(layers.network_offset);
        self.size = layers.payload_len.saturating_add(before_payload.into()).min(self.wire_len);
        if layers.has(Layers::TRANSPORT) && !layers.has(Layers::LATER_FRAGMENT) {
            self.add_transport(frame, layers);
            self.split(frame.record);
        }
    }

    /// Of a frame that offloads made of several packets, what each of these was on the wire: models
    /// learn from captures without offloads, and the same traffic is to get the same verdict.
    #[inline]
    fn split(&mut self, record: &Record) {
        if let Some(merged) = WireSegments::of(record, self.size) {
            self.segments = merged.segments;
            let headers = self.size.saturating_sub(record.layers.payload_len);
            let link = self.wire_len.saturating_sub(self.size);
            self.payload_len = merged.segment_len.into();
            self.size = headers.saturating_add(merged.segment_len);
            self.wire_len = link.saturating_add(self.size);
            self.last_size = headers.saturating_add(merged.last_len);
            if self.tcp_flags > 0 {
                // The last segment alone has them.
                self.tcp_flags &= !(TCP_FIN | TCP_PSH);
            }
        }
    }

    #[inline]
    fn add_transport(&mut self, frame: &Frame<'_>, layers: &Layers) {
        let header = frame.from_offset(layers.transport_offset);
        let len = layers.payload_offset.checked_sub(layers.transport_offset);
        self.transport_header_len = len.map_or(-1, i32::from);
        let Some(&[a, b, c, d]) = header.first_chunk() else { return };
        match layers.protocol {
            Protocol::ICMP | Protocol::ICMPV6 => {
                (self.icmp_type, self.icmp_code) = (a.into(), b.into());
            }
            Protocol::TCP | Protocol::UDP | Protocol::SCTP => {
                self.source_port = u16::from_be_bytes([a, b]).into();
                self.destination_port = u16::from_be_bytes([c, d]).into();
                if layers.protocol == Protocol::TCP
                    && let Some(&[.., high, flags, e, f]) = header.first_chunk::<16>()
                {
                    self.tcp_flags = i16::from(high & 1) << 8 | i16::from(flags);
                    self.tcp_window = u16::from_be_bytes([e, f]).into();
                }
            }
            _ => {}
        }
    }

    #[cold]
    fn add_arp(&mut self, bytes: &[u8]) {
        self.network = 1;
        if let Ok(arp) = Arp::new(bytes) {
            self.arp_operation = arp.operation().into();
            self.arp_gratuitous = i8::from(arp.sender_protocol() == arp.target_protocol());
        }
    }

    /// The smaller port, which is the server's more often than not.
    #[inline]
    pub(crate) fn lower_port(&self) -> i32 {
        self.source_port.min(self.destination_port)
    }

    #[inline]
    pub(crate) fn higher_port(&self) -> i32 {
        self.source_port.max(self.destination_port)
    }

    /// One of the TCP flags as 0 or 1.
    #[inline]
    pub(crate) fn tcp_flag(&self, bit: u32) -> i16 {
        if self.tcp_flags < 0 { -1 } else { self.tcp_flags >> bit & 1 }
    }
}
