//! Steps of the transport layer.

use super::{Next, Walk};
use crate::layers::{Layers, Network, Protocol, Tunnel};
use crate::malformed::Malformed;
use crate::wire::icmp::{self, Icmp};
use crate::wire::icmpv6::{self, Icmpv6};
use crate::wire::sctp::{self, Sctp};
use crate::wire::tcp::{self, Tcp};
use crate::wire::udp::{self, Udp};
use crate::wire::{geneve, gtpu, vxlan};

impl Walk<'_> {
    pub(super) fn transport(&mut self, protocol: Protocol) -> Next {
        let bytes = self.captured();
        match protocol {
            Protocol::UDP => self.udp(),
            Protocol::IPV4 if self.options.decapsulate => self.ip_in_ip(Next::Ipv4),
            Protocol::IPV6 if self.options.decapsulate => self.ip_in_ip(Next::Ipv6),
            Protocol::GRE if self.options.decapsulate => Next::Gre,
            _ if !self.options.transport => Next::Stop,
            Protocol::TCP => self.tcp(),
            Protocol::ICMP => self.fixed(icmp::HEADER_LEN, Icmp::new(bytes).err()),
            Protocol::ICMPV6 => self.fixed(icmpv6::HEADER_LEN, Icmpv6::new(bytes).err()),
            Protocol::SCTP => self.fixed(sctp::HEADER_LEN, Sctp::new(bytes).err()),
            _ => Next::Stop,
        }
    }

    fn ip_in_ip(&mut self, next: Next) -> Next {
        self.tunnel = Tunnel::IpInIp;
        next
    }

    /// A transport header of one length.
    fn fixed(&mut self, header_len: usize, refused: Option<Malformed>) -> Next {
        match refused {
            None => self.enter_payload(header_len, self.remaining()),
            Some(cause) => self.missing(header_len, cause),
        }
    }

    /// The transport header at the position holds; the segment is `len` bytes with it.
    fn enter_payload(&mut self, header_len: usize, len: usize) -> Next {
        let Ok(offset) = u16::try_from(self.position.saturating_add(header_len)) else {
            return self.fault(Malformed::HeadersTooDeep);
        };
        self.layers.flags |= Layers::TRANSPORT;
        self.layers.payload_offset = offset;
        let payload_len = len.saturating_sub(header_len);
        self.layers.payload_len = u32::try_from(payload_len).unwrap_or(u32::MAX);
        Next::Stop
    }

    fn tcp(&mut self) -> Next {
        let bytes = self.captured();
        match Tcp::new(bytes) {
            Ok(view) => {
                self.enter_payload(view.header_len(), self.remaining());
                match view.check_options() {
                    Ok(()) => Next::Stop,
                    Err(cause) => self.fault(cause),
                }
            }
            Err(cause @ Malformed::TcpDataOffsetLong) => {
                let header_len = bytes.get(12).map_or(0, |byte| usize::from(byte >> 4) * 4);
                self.missing(header_len, cause)
            }
            Err(cause @ Malformed::TcpHeaderShort) => self.missing(tcp::HEADER_LEN, cause),
            Err(cause) => self.fault(cause),
        }
    }

    fn udp(&mut self) -> Next {
        let Self { options, .. } = *self;
        if !options.transport && !options.decapsulate {
            return Next::Stop;
        }
        // Without `transport` a datagram that is wrong is nobody's business.
        let view = match Udp::new(self.captured()) {
            Ok(view) => view,
            Err(cause) if options.transport => return self.missing(udp::HEADER_LEN, cause),
            Err(_) => return Next::Stop,
        };
        let remaining = self.remaining();
        let datagram_len = match usize::from(view.length()) {
            0 if self.layers.network == Network::Ipv6 => remaining,
            len if len < udp::HEADER_LEN => {
                return self.udp_fault(Malformed::UdpLengthSmall);
            }
            len if len > remaining && !self.is_open => {
                return self.udp_fault(Malformed::UdpLengthLong);
            }
            len => len.min(remaining),
        };
        if options.transport {
            self.enter_payload(udp::HEADER_LEN, datagram_len);
        }
        let (source_port, destination_port) = (view.source_port(), view.destination_port());
        self.narrow(datagram_len);
        self.pass(udp::HEADER_LEN);
        if !options.decapsulate || self.remaining() == 0 {
            Next::Stop
        } else if destination_port == vxlan::PORT {
            Next::Vxlan
        } else if destination_port == geneve::PORT {
            Next::Geneve
        } else if source_port == gtpu::PORT || destination_port == gtpu::PORT {
            Next::Gtpu
        } else {
            Next::Stop
        }
    }

    fn udp_fault(&mut self, cause: Malformed) -> Next {
        if self.options.transport { self.fault(cause) } else { Next::Stop }
    }
}
