//! The names of what can be wrong with a header.
//!
//! A malformed header is data: it is named, counted and passed on, never an
//! error and never a log line. A header that the capture cut off (`snaplen`)
//! is not malformed; [`Layers::is_cut`](crate::Layers::is_cut) reports it.

use std::fmt;

/// Which part of a frame a malformed header spoils.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Layer {
    /// Everything: not even the network header could be found.
    Link,
    /// The network header and what it carries.
    Network,
    /// Only the transport header: addresses are known, ports may not be.
    Transport,
    /// A tunnel's header or what lies in it; the outer headers hold.
    Tunnel,
}

macro_rules! malformed {
    ($($(#[doc = $about:literal])* $name:ident = $text:literal, $layer:ident;)*) => {
        /// Why a header cannot be what it claims to be. One byte, `Copy`.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Malformed {
            $($(#[doc = $about])* $name,)*
        }

        impl Malformed {
            /// Every cause, in the order of their discriminants.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$name,)*];
            /// How many causes there are.
            pub const COUNT: usize = [$(stringify!($name),)*].len();

            /// The name used in output and metrics: `snake_case`, stable.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// One sentence for people: what was seen.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self { $(Self::$name => concat!($($about),*).trim_ascii(),)* }
            }

            /// What the fault spoils.
            #[must_use]
            pub const fn layer(self) -> Layer {
                match self { $(Self::$name => Layer::$layer,)* }
            }
        }
    };
}

malformed! {
    /// Fewer than 14 bytes of Ethernet.
    EthernetHeaderShort = "ethernet_header_short", Link;
    /// An 802.1Q or 802.1ad tag ends before its fourth byte.
    VlanTagShort = "vlan_tag_short", Link;
    /// An 802.2 LLC or SNAP header ends early.
    LlcHeaderShort = "llc_header_short", Link;
    /// A label stack ends before its bottom.
    MplsStackShort = "mpls_stack_short", Link;
    /// Fewer than 4 bytes of NFLOG.
    NflogHeaderShort = "nflog_header_short", Link;
    /// An attribute of NFLOG is shorter than its own header, or the last one ends in it.
    NflogAttributeWrong = "nflog_attribute_wrong", Link;
    /// Fewer than 6 bytes of PPPoE.
    PppoeHeaderShort = "pppoe_header_short", Link;
    /// PPPoE version or type is not 1 (RFC 2516 §4).
    PppoeVersionWrong = "pppoe_version_wrong", Link;
    /// A PPP header ends early.
    PppHeaderShort = "ppp_header_short", Link;
    /// Fewer than 16 bytes of Linux cooked v1, or 20 of v2.
    CookedHeaderShort = "cooked_header_short", Link;
    /// Fewer than 4 bytes of BSD loopback.
    LoopbackHeaderShort = "loopback_header_short", Link;
    /// A radiotap header ends early.
    RadiotapHeaderShort = "radiotap_header_short", Link;
    /// The version of a radiotap header is not 0, or its length is below 8.
    RadiotapHeaderWrong = "radiotap_header_wrong", Link;
    /// A Prism or AVS header ends early, or the length of AVS is below 8.
    PrismHeaderShort = "prism_header_short", Link;
    /// A PPI header ends early, or its length is below 8.
    PpiHeaderShort = "ppi_header_short", Link;
    /// The header of an 802.11 frame, or of the first subframe in it, ends early.
    WlanHeaderShort = "wlan_header_short", Link;
    /// A MACsec tag, or the type behind it, ends early.
    MacsecTagShort = "macsec_tag_short", Link;
    /// The version bit of a MACsec tag is set (IEEE 802.1AE §9.5).
    MacsecVersionWrong = "macsec_version_wrong", Link;
    /// A raw IP frame whose first nibble is neither 4 nor 6, or that is empty.
    RawVersionWrong = "raw_version_wrong", Link;
    /// More than 16 nested headers, or headers deeper than 65,535 bytes.
    HeadersTooDeep = "headers_too_deep", Link;

    /// An ARP packet ends before its addresses do.
    ArpShort = "arp_short", Network;
    /// Fewer than 20 bytes of IPv4.
    Ipv4HeaderShort = "ipv4_header_short", Network;
    /// The version nibble is not 4.
    Ipv4VersionWrong = "ipv4_version_wrong", Network;
    /// IHL is below 5 words.
    Ipv4HeaderLengthSmall = "ipv4_header_length_small", Network;
    /// IHL reaches past the end of the packet.
    Ipv4HeaderLengthLong = "ipv4_header_length_long", Network;
    /// Total length is below the header's own length.
    Ipv4TotalLengthSmall = "ipv4_total_length_small", Network;
    /// Total length reaches past the end of the frame.
    Ipv4TotalLengthLong = "ipv4_total_length_long", Network;
    /// An option's length is 0, 1, or reaches past the header.
    Ipv4OptionWrong = "ipv4_option_wrong", Network;
    /// Fewer than 40 bytes of IPv6.
    Ipv6HeaderShort = "ipv6_header_short", Network;
    /// The version nibble is not 6.
    Ipv6VersionWrong = "ipv6_version_wrong", Network;
    /// Payload length reaches past the end of the frame.
    Ipv6PayloadLengthLong = "ipv6_payload_length_long", Network;
    /// An extension header reaches past the end of the packet.
    Ipv6ExtensionShort = "ipv6_extension_short", Network;
    /// More than 16 extension headers.
    Ipv6ExtensionsTooMany = "ipv6_extensions_too_many", Network;

    /// Fewer than 20 bytes of TCP.
    TcpHeaderShort = "tcp_header_short", Transport;
    /// Data offset is below 5 words.
    TcpDataOffsetSmall = "tcp_data_offset_small", Transport;
    /// Data offset reaches past the end of the packet.
    TcpDataOffsetLong = "tcp_data_offset_long", Transport;
    /// An option's length is 0, 1, or reaches past the header.
    TcpOptionWrong = "tcp_option_wrong", Transport;
    /// Fewer than 8 bytes of UDP.
    UdpHeaderShort = "udp_header_short", Transport;
    /// UDP length is below 8 (0 is allowed in IPv6 jumbograms, RFC 2675).
    UdpLengthSmall = "udp_length_small", Transport;
    /// UDP length reaches past the end of the packet.
    UdpLengthLong = "udp_length_long", Transport;
    /// Fewer than 8 bytes of ICMP.
    IcmpHeaderShort = "icmp_header_short", Transport;
    /// Fewer than 4 bytes of `ICMPv6`.
    Icmpv6HeaderShort = "icmpv6_header_short", Transport;
    /// Fewer than 12 bytes of SCTP.
    SctpHeaderShort = "sctp_header_short", Transport;

    /// A GRE header ends before its flags say so.
    GreHeaderShort = "gre_header_short", Tunnel;
    /// An ERSPAN header ends early.
    ErspanHeaderShort = "erspan_header_short", Tunnel;
    /// The version of an ERSPAN header is neither 1 (type II) nor 2 (type III).
    ErspanVersionWrong = "erspan_version_wrong", Tunnel;
    /// A Geneve header ends before its options do.
    GeneveHeaderShort = "geneve_header_short", Tunnel;
    /// An option of Geneve reaches past the options' end.
    GeneveOptionWrong = "geneve_option_wrong", Tunnel;
    /// Fewer than 8 bytes of VXLAN.
    VxlanHeaderShort = "vxlan_header_short", Tunnel;
    /// A GTP-U header or one of its extensions ends early.
    GtpuHeaderShort = "gtpu_header_short", Tunnel;
}

/// How often each cause was met.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MalformedCounts([u64; Malformed::COUNT]);

impl Default for MalformedCounts {
    fn default() -> Self {
        Self([0; Malformed::COUNT])
    }
}

impl MalformedCounts {
    /// Takes out what was counted before.
    pub fn subtract(&mut self, before: &Self) {
        self.0
            .iter_mut()
            .zip(before.0)
            .for_each(|(count, before)| *count = count.saturating_sub(before));
    }

    /// One more of `cause`.
    #[inline]
    pub fn add(&mut self, cause: Malformed) {
        self.0[cause as usize] += 1;
    }

    /// Adds the counts of another part of the same traffic.
    pub fn merge(&mut self, other: &Self) {
        for (own, theirs) in self.0.iter_mut().zip(other.0) {
            *own += theirs;
        }
    }

    /// How often `cause` was met.
    #[must_use]
    pub fn get(&self, cause: Malformed) -> u64 {
        self.0[cause as usize]
    }

    /// All causes together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The causes that were met, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = (Malformed, u64)> + '_ {
        Malformed::ALL.into_iter().zip(self.0).filter(|&(_, count)| count > 0)
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

const _: () = assert!(size_of::<Option<Malformed>>() == 1, "a record keeps one fault in one byte");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discriminants_index_the_counts() {
        for (index, cause) in Malformed::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, index);
        }
    }

    #[test]
    fn names_are_unique_snake_case() {
        let names: std::collections::BTreeSet<_> =
            Malformed::ALL.iter().map(|cause| cause.name()).collect();
        assert_eq!(names.len(), Malformed::COUNT);
        for name in names {
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'));
        }
    }
}
