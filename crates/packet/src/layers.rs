//! Where the headers of a frame lie.

use std::fmt;

use crate::malformed::Malformed;

/// The network layer that was found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum Network {
    /// No header this project reads; [`Layers::ether_type`] may tell more.
    #[default]
    None,
    /// ARP or RARP.
    Arp,
    /// Internet Protocol version 4.
    Ipv4,
    /// Internet Protocol version 6.
    Ipv6,
}

/// The kind of tunnel around the innermost network header.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum Tunnel {
    /// No tunnel, or one that was left closed.
    #[default]
    None,
    /// IP in IP: 4in4, 4in6, 6in4, 6in6 (RFC 2003, RFC 2473, RFC 4213).
    IpInIp,
    /// Generic routing encapsulation (RFC 2784, RFC 2890).
    Gre,
    /// VXLAN (RFC 7348).
    Vxlan,
    /// GPRS tunnelling, user plane (3GPP TS 29.281).
    Gtpu,
    /// Geneve (RFC 8926).
    Geneve,
    /// ERSPAN of any type, within GRE.
    Erspan,
}

/// An IP protocol number, as IANA assigns them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Protocol(pub u8);

/// Where the headers of one frame lie, and what was odd about them.
///
/// Offsets count bytes from the start of the frame. With decapsulation they
/// describe the innermost headers; `outer_*` keep the first network header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Layers {
    /// Start of the innermost network header; meaningful unless [`Network::None`].
    pub network_offset: u16,
    /// Start of the first network header; equal to `network_offset` without a tunnel.
    pub outer_network_offset: u16,
    /// Start of the transport header, behind IP options and extension headers.
    pub transport_offset: u16,
    /// Start of what the transport header carries; equal to `transport_offset` where that was not
    /// read.
    pub payload_offset: u16,
    /// Length of the payload as the headers tell it, in bytes, captured or not; link padding
    /// excluded.
    pub payload_len: u32,
    /// EtherType of the innermost network layer, whether the link named it or not; of what
    /// the link named last where no network layer was found; else 0.
    pub ether_type: u16,
    /// Outermost VLAN identifier of the frame itself, tunnels not looked into, or
    /// [`Layers::NO_VLAN`].
    pub vlan_id: u16,
    /// Innermost network layer.
    pub network: Network,
    /// First network layer.
    pub outer_network: Network,
    /// Protocol above the innermost network layer, extension headers passed.
    pub protocol: Protocol,
    /// Bits of [`Layers`]' flag constants.
    pub flags: u8,
    /// The innermost tunnel that was opened.
    pub tunnel: Tunnel,
    /// The first fault met on the way, if any.
    pub fault: Option<Malformed>,
}

impl Layers {
    /// `vlan_id` of a frame without a tag.
    pub const NO_VLAN: u16 = u16::MAX;
    /// The transport header was read whole: ports, flags and lengths may be used.
    pub const TRANSPORT: u8 = 1;
    /// The capture, or the fragment, ends before the headers do.
    pub const CUT: u8 = 1 << 1;
    /// A fragment of a larger packet, first or later.
    pub const FRAGMENT: u8 = 1 << 2;
    /// A fragment that is not the first, so that it carries no transport header.
    pub const LATER_FRAGMENT: u8 = 1 << 3;
    /// At least one MPLS label was passed.
    pub const MPLS: u8 = 1 << 4;
    /// A PPPoE header was passed.
    pub const PPPOE: u8 = 1 << 5;

    /// What the link carries is encrypted (a protected frame of 802.11, MACsec): no header in it
    /// is read, and none is malformed.
    pub const ENCRYPTED: u8 = 1 << 6;

    /// Whether every bit of `flag` is set.
    #[inline]
    #[must_use]
    pub const fn has(self, flag: u8) -> bool {
        self.flags & flag == flag
    }

    /// Whether the capture ends before the headers do.
    #[inline]
    #[must_use]
    pub const fn is_cut(self) -> bool {
        self.has(Self::CUT)
    }

    /// Whether the innermost network layer is IP.
    #[inline]
    #[must_use]
    pub const fn is_ip(self) -> bool {
        matches!(self.network, Network::Ipv4 | Network::Ipv6)
    }

    /// The VLAN identifier, if the frame was tagged.
    #[must_use]
    pub const fn vlan(self) -> Option<u16> {
        if self.vlan_id == Self::NO_VLAN { None } else { Some(self.vlan_id) }
    }
}

macro_rules! protocols {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        impl Protocol {
            $($(#[$doc])* pub const $name: Self = Self($number);)*

            /// IANA's keyword in lower case, where this project knows it.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 { $($number => Some($text),)* _ => None }
            }
        }
    };
}

protocols! {
    /// IPv6 hop-by-hop options.
    HOP_BY_HOP = 0, "hopopt";
    /// ICMP.
    ICMP = 1, "icmp";
    /// IGMP.
    IGMP = 2, "igmp";
    /// IPv4 in IP.
    IPV4 = 4, "ipv4";
    /// TCP.
    TCP = 6, "tcp";
    /// UDP.
    UDP = 17, "udp";
    /// DCCP.
    DCCP = 33, "dccp";
    /// IPv6 in IP.
    IPV6 = 41, "ipv6";
    /// IPv6 routing header.
    IPV6_ROUTE = 43, "ipv6-route";
    /// IPv6 fragment header.
    IPV6_FRAGMENT = 44, "ipv6-frag";
    /// RSVP.
    RSVP = 46, "rsvp";
    /// GRE.
    GRE = 47, "gre";
    /// Encapsulating security payload.
    ESP = 50, "esp";
    /// Authentication header.
    AH = 51, "ah";
    /// `ICMPv6`.
    ICMPV6 = 58, "ipv6-icmp";
    /// No next header.
    IPV6_NO_NEXT = 59, "ipv6-nonxt";
    /// IPv6 destination options.
    IPV6_OPTIONS = 60, "ipv6-opts";
    /// EIGRP.
    EIGRP = 88, "eigrp";
    /// OSPF.
    OSPF = 89, "ospf";
    /// PIM.
    PIM = 103, "pim";
    /// VRRP.
    VRRP = 112, "vrrp";
    /// L2TP version 3.
    L2TP = 115, "l2tp";
    /// SCTP.
    SCTP = 132, "sctp";
    /// IPv6 mobility header.
    MOBILITY = 135, "mobility-header";
    /// UDP-Lite.
    UDP_LITE = 136, "udplite";
    /// Host identity protocol.
    HIP = 139, "hip";
    /// Shim6.
    SHIM6 = 140, "shim6";
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}
