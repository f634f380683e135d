//! Link types: what the first byte of a frame is.

use std::fmt;

/// A link-layer type as pcap and pcapng number it (`LINKTYPE_*`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LinkType(pub u16);

macro_rules! link_types {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        impl LinkType {
            $($(#[$doc])* pub const $name: Self = Self($number);)*

            /// The registered name, where this project knows it.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

link_types! {
    /// BSD loopback: a 4-byte address family in the byte order of the host that captured.
    NULL = 0, "NULL";
    /// Ethernet.
    ETHERNET = 1, "ETHERNET";
    /// PPP, with or without HDLC framing (RFC 1661, RFC 1662).
    PPP = 9, "PPP";
    /// Raw IP as some systems wrote it before 101 was registered.
    RAW_OLD_12 = 12, "RAW";
    /// Raw IP as OpenBSD wrote it.
    RAW_OLD_14 = 14, "RAW";
    /// PPP in HDLC-like framing.
    PPP_HDLC = 50, "PPP_HDLC";
    /// PPP over Ethernet, frame begins at the PPPoE header (RFC 2516).
    PPP_ETHER = 51, "PPP_ETHER";
    /// Raw IP: the first nibble tells version 4 or 6.
    RAW = 101, "RAW";
    /// Cisco HDLC.
    C_HDLC = 104, "C_HDLC";
    /// IEEE 802.11.
    IEEE802_11 = 105, "IEEE802_11";
    /// OpenBSD loopback: as NULL, but in network byte order.
    LOOP = 108, "LOOP";
    /// Linux cooked capture, version 1.
    LINUX_SLL = 113, "LINUX_SLL";
    /// IEEE 802.11 after a radiotap header.
    IEEE802_11_RADIOTAP = 127, "IEEE802_11_RADIOTAP";
    /// Raw IPv4.
    IPV4 = 228, "IPV4";
    /// Raw IPv6.
    IPV6 = 229, "IPV6";
    /// Linux cooked capture, version 2.
    LINUX_SLL2 = 276, "LINUX_SLL2";
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "LINKTYPE_{}", self.0),
        }
    }
}
