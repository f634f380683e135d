//! The blocks of an nPrint row, and their fields.

/// One header, or the first bytes of the payload, in the order in which a row has them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Block {
    /// IPv4 with options, 60 bytes.
    Ipv4,
    /// IPv6 without extension headers, 40 bytes.
    Ipv6,
    /// TCP with options, 60 bytes.
    Tcp,
    /// UDP, 8 bytes.
    Udp,
    /// ICMP's first 8 bytes.
    Icmp,
    /// The first bytes behind the transport header, as many as are asked for.
    Payload,
}

/// How many blocks there are.
pub const BLOCK_COUNT: usize = 6;

/// A field's name and its bits.
pub type BitField = (&'static str, u16);

// The names, their order and their widths are nPrint 1.2.1's.

const IPV4: &[BitField] = &[
    ("ipv4_ver", 4),
    ("ipv4_hl", 4),
    ("ipv4_tos", 8),
    ("ipv4_tl", 16),
    ("ipv4_id", 16),
    ("ipv4_rbit", 1),
    ("ipv4_dfbit", 1),
    ("ipv4_mfbit", 1),
    ("ipv4_foff", 13),
    ("ipv4_ttl", 8),
    ("ipv4_proto", 8),
    ("ipv4_cksum", 16),
    ("ipv4_src", 32),
    ("ipv4_dst", 32),
    ("ipv4_opt", 320),
];

const IPV6: &[BitField] = &[
    ("ipv6_ver", 4),
    ("ipv6_tc", 8),
    ("ipv6_fl", 20),
    ("ipv6_len", 16),
    ("ipv6_nh", 8),
    ("ipv6_hl", 8),
    ("ipv6_src", 128),
    ("ipv6_dst", 128),
];

const TCP: &[BitField] = &[
    ("tcp_sprt", 16),
    ("tcp_dprt", 16),
    ("tcp_seq", 32),
    ("tcp_ackn", 32),
    ("tcp_doff", 4),
    ("tcp_res", 3),
    ("tcp_ns", 1),
    ("tcp_cwr", 1),
    ("tcp_ece", 1),
    ("tcp_urg", 1),
    ("tcp_ackf", 1),
    ("tcp_psh", 1),
    ("tcp_rst", 1),
    ("tcp_syn", 1),
    ("tcp_fin", 1),
    ("tcp_wsize", 16),
    ("tcp_cksum", 16),
    ("tcp_urp", 16),
    ("tcp_opt", 320),
];

const UDP: &[BitField] =
    &[("udp_sport", 16), ("udp_dport", 16), ("udp_len", 16), ("udp_cksum", 16)];

const ICMP: &[BitField] =
    &[("icmp_type", 8), ("icmp_code", 8), ("icmp_cksum", 16), ("icmp_roh", 32)];

impl Block {
    /// All blocks, in the order of a row.
    pub const ALL: [Self; BLOCK_COUNT] =
        [Self::Ipv4, Self::Ipv6, Self::Tcp, Self::Udp, Self::Icmp, Self::Payload];

    /// The word for it in schemas and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Icmp => "icmp",
            Self::Payload => "payload",
        }
    }

    /// Its bytes where it is asked for; of the payload, none until it is said how many.
    #[must_use]
    pub const fn size_bytes(self) -> u16 {
        match self {
            Self::Ipv4 | Self::Tcp => 60,
            Self::Ipv6 => 40,
            Self::Udp | Self::Icmp => 8,
            Self::Payload => 0,
        }
    }

    /// Its fields in order; none of the payload, whose bits have one name and a number.
    #[must_use]
    pub const fn fields(self) -> &'static [BitField] {
        match self {
            Self::Ipv4 => IPV4,
            Self::Ipv6 => IPV6,
            Self::Tcp => TCP,
            Self::Udp => UDP,
            Self::Icmp => ICMP,
            Self::Payload => &[],
        }
    }

    /// The names of its columns, in order, where it has so many bytes.
    pub fn columns(self, byte_len: u16) -> impl Iterator<Item = String> {
        const PAYLOAD: &str = "payload_bit";
        let payload_bits = if self == Self::Payload { usize::from(byte_len) * 8 } else { 0 };
        let numbered = |name: &'static str, bits| (0..bits).map(move |bit| format!("{name}_{bit}"));
        let fields = self.fields().iter();
        fields
            .flat_map(move |&(name, bits)| numbered(name, usize::from(bits)))
            .chain(numbered(PAYLOAD, payload_bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_fill_their_blocks() {
        for block in Block::ALL {
            let bits: u16 = block.fields().iter().map(|(_, bits)| bits).sum();
            assert_eq!(bits, block.size_bytes() * 8, "{block:?}");
            assert_eq!(block.columns(block.size_bytes()).count(), usize::from(bits));
            assert_eq!(Block::ALL[block as usize], block);
        }
        assert_eq!(Block::Payload.columns(2).last().unwrap(), "payload_bit_15");
        assert_eq!(Block::Tcp.columns(60).nth(97).unwrap(), "tcp_doff_1");
    }
}
