//! Link types: what the first byte of a frame is.

use std::fmt;

/// A link-layer type as pcap and pcapng number it (`LINKTYPE_*`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LinkType(pub u16);

macro_rules! link_types {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        impl LinkType {
            $($(#[$doc])* pub const $name: Self = Self($number);)*

            /// The name under which tcpdump.org lists it, where it does.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some($text),)*
                    other => {
                        let place = OTHERS.binary_search_by_key(&other, |&(number, _)| number);
                        place.ok().and_then(|place| OTHERS.get(place)).map(|&(_, name)| name)
                    }
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
    /// Raw IP: the first nibble gives version 4 or 6.
    RAW = 101, "RAW";
    /// Cisco HDLC.
    C_HDLC = 104, "C_HDLC";
    /// IEEE 802.11.
    IEEE802_11 = 105, "IEEE802_11";
    /// OpenBSD loopback: as NULL, but in network byte order.
    LOOP = 108, "LOOP";
    /// Linux cooked capture, version 1.
    LINUX_SLL = 113, "LINUX_SLL";
    /// IEEE 802.11 after a Prism header, or after AVS.
    IEEE802_11_PRISM = 119, "IEEE802_11_PRISM";
    /// IEEE 802.11 after an AVS header.
    IEEE802_11_AVS = 163, "IEEE802_11_AVS";
    /// Per-packet information, which names the link type of the frame behind it.
    PPI = 192, "PPI";
    /// IEEE 802.11 after a radiotap header.
    IEEE802_11_RADIOTAP = 127, "IEEE802_11_RADIOTAP";
    /// What netfilter's log hands out: attributes, one of which is an IP packet.
    NFLOG = 239, "NFLOG";
    /// Raw IPv4.
    IPV4 = 228, "IPV4";
    /// Raw IPv6.
    IPV6 = 229, "IPV6";
    /// Linux cooked capture, version 2.
    LINUX_SLL2 = 276, "LINUX_SLL2";
}

/// Link types whose headers this project does not read, by number: names of tcpdump.org's list
/// without the `LINKTYPE_` before them.
const OTHERS: &[(u16, &str)] = &[
    (6, "IEEE802_5"),
    (7, "ARCNET_BSD"),
    (8, "SLIP"),
    (10, "FDDI"),
    (100, "ATM_RFC1483"),
    (106, "ATM_CLIP"),
    (107, "FRELAY"),
    (117, "PFLOG"),
    (122, "IP_OVER_FC"),
    (123, "SUNATM"),
    (129, "ARCNET_LINUX"),
    (130, "JUNIPER_MLPPP"),
    (131, "JUNIPER_MLFR"),
    (132, "JUNIPER_ES"),
    (133, "JUNIPER_GGSN"),
    (134, "JUNIPER_MFR"),
    (135, "JUNIPER_ATM2"),
    (136, "JUNIPER_SERVICES"),
    (137, "JUNIPER_ATM1"),
    (138, "APPLE_IP_OVER_IEEE1394"),
    (139, "MTP2_WITH_PHDR"),
    (140, "MTP2"),
    (141, "MTP3"),
    (142, "SCCP"),
    (143, "DOCSIS"),
    (144, "LINUX_IRDA"),
    (160, "USER13"),
    (164, "JUNIPER_MONITOR"),
    (165, "BACNET_MS_TP"),
    (166, "PPP_PPPD"),
    (167, "JUNIPER_PPPOE"),
    (169, "GPRS_LLC"),
    (170, "GPF_T"),
    (171, "GPF_F"),
    (177, "LINUX_LAPD"),
    (178, "JUNIPER_ETHER"),
    (179, "JUNIPER_PPP"),
    (180, "JUNIPER_FRELAY"),
    (181, "JUNIPER_CHDLC"),
    (182, "MFR"),
    (187, "BLUETOOTH_HCI_H4"),
    (189, "USB_LINUX"),
    (194, "JUNIPER_ISM"),
    (195, "IEEE802_15_4_WITHFCS"),
    (196, "SITA"),
    (197, "ERF"),
    (199, "AX25_KISS"),
    (200, "JUNIPER_VP"),
    (201, "BLUETOOTH_HCI_H4_WITH_PHDR"),
    (203, "LAPD"),
    (204, "PPP_WITH_DIR"),
    (205, "C_HDLC_WITH_DIR"),
    (206, "FRELAY_WITH_DIR"),
    (207, "LAPB_WITH_DIR"),
    (209, "IPMB_LINUX"),
    (210, "FLEXRAY"),
    (215, "IEEE802_15_4_NONASK_PHY"),
    (220, "USB_LINUX_MMAPPED"),
    (224, "FC_2"),
    (225, "FC_2_WITH_FRAME_DELIMS"),
    (226, "IPNET"),
    (227, "CAN_SOCKETCAN"),
    (230, "IEEE802_15_4_NOFCS"),
    (231, "DBUS"),
    (235, "DVB_CI"),
    (236, "MUX27010"),
    (237, "STANAG_5066_D_PDU"),
    (240, "NETANALYZER"),
    (241, "NETANALYZER_TRANSPARENT"),
    (242, "IPOIB"),
    (243, "MPEG_2_TS"),
    (244, "NG40"),
    (245, "NFC_LLCP"),
    (247, "INFINIBAND"),
    (248, "SCTP"),
    (249, "USBPCAP"),
    (250, "RTAC_SERIAL"),
    (251, "BLUETOOTH_LE_LL"),
    (253, "NETLINK"),
    (254, "BLUETOOTH_LINUX_MONITOR"),
    (255, "BLUETOOTH_BREDR_BB"),
    (256, "BLUETOOTH_LE_LL_WITH_PHDR"),
    (257, "PROFIBUS_DL"),
    (258, "PKTAP"),
    (259, "EPON"),
    (260, "IPMI_HPM_2"),
    (261, "ZWAVE_R1_R2"),
    (262, "ZWAVE_R3"),
    (263, "WATTSTOPPER_DLM"),
    (264, "ISO_14443"),
    (265, "RDS"),
    (266, "USB_DARWIN"),
    (268, "SDLC"),
    (270, "LORATAP"),
    (271, "VSOCK"),
    (272, "NORDIC_BLE"),
    (273, "DOCSIS31_XRA31"),
    (274, "ETHERNET_MPACKET"),
    (275, "DISPLAYPORT_AUX"),
    (278, "OPENVIZSLA"),
    (279, "EBHSCR"),
    (280, "VPP_DISPATCH"),
    (281, "DSA_TAG_BRCM"),
    (282, "DSA_TAG_BRCM_PREPEND"),
    (283, "IEEE802_15_4_TAP"),
    (284, "DSA_TAG_DSA"),
    (285, "DSA_TAG_EDSA"),
    (286, "ELEE"),
    (287, "Z_WAVE_SERIAL"),
    (288, "USB_2_0"),
    (289, "ATSC_ALP"),
    (290, "ETW"),
    (292, "ZBOSS_NCP"),
    (293, "USB_2_0_LOW_SPEED"),
    (294, "USB_2_0_FULL_SPEED"),
    (295, "USB_2_0_HIGH_SPEED"),
    (296, "AUERSWALD_LOG"),
    (297, "ZWAVE_TAP"),
    (298, "SILABS_DEBUG_CHANNEL"),
    (299, "FIRA_UCI"),
    (300, "MDB"),
    (301, "DECT_NR"),
];

impl LinkType {
    /// Link types whose headers are read.
    pub const DECODED: [Self; 20] = [
        Self::NULL,
        Self::ETHERNET,
        Self::PPP,
        Self::RAW_OLD_12,
        Self::RAW_OLD_14,
        Self::PPP_HDLC,
        Self::PPP_ETHER,
        Self::RAW,
        Self::C_HDLC,
        Self::IEEE802_11,
        Self::LOOP,
        Self::LINUX_SLL,
        Self::IEEE802_11_PRISM,
        Self::IEEE802_11_RADIOTAP,
        Self::IEEE802_11_AVS,
        Self::PPI,
        Self::IPV4,
        Self::IPV6,
        Self::NFLOG,
        Self::LINUX_SLL2,
    ];

    /// Whether headers of such frames are read.
    #[must_use]
    pub fn is_decoded(self) -> bool {
        Self::DECODED.contains(&self)
    }

    /// The names of those that are, joined by commas.
    #[must_use]
    pub fn decoded_names() -> String {
        let mut names: Vec<_> = Self::DECODED.into_iter().filter_map(Self::name).collect();
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "LINKTYPE_{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_link_types_are_in_order_and_no_number_has_two() {
        assert!(OTHERS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(OTHERS.iter().all(|&(number, _)| !LinkType(number).is_decoded()));
        assert_eq!(LinkType(239).to_string(), "NFLOG");
        assert_eq!(LinkType(127).to_string(), "IEEE802_11_RADIOTAP");
        assert_eq!(LinkType(195).to_string(), "IEEE802_15_4_WITHFCS");
        assert_eq!(LinkType(57_842).to_string(), "LINKTYPE_57842");
    }
}
