//! The columns of a snapshot: their names, their order, and how each is filled.

use std::fmt;
use std::fmt::Write as _;

use engine::sums::PacketSums;
use model::numeric::BLOCK_ROWS;
use packet::FlowDirection;

use super::facts::Facts;
use super::options::{FeatureOptions, Key};
use super::packet_set::PacketSet;
use super::states::StateColumn;

/// One number of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Column {
    /// Of the packet alone.
    Packet(PacketColumn),
    /// Of what packets of one key did, up to the packet and with it.
    Of(Key, SumColumn),
    /// Of the states of the packet's flow and hosts.
    State(StateColumn),
}

/// What a column of `f32` holds where the packet has no such thing.
pub const MISSING: f32 = -1.0;

/// An enum of columns, each with its name and what it means.
macro_rules! named_columns {
    ($(#[$doc:meta])* $columns:ident: $($variant:ident, $name:literal, $about:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $columns {
            $(#[doc = $about] $variant,)*
        }

        impl $columns {
            /// Every one, in their order.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What it means, in a sentence.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => $about,)* }
            }
        }
    };
}
pub(super) use named_columns;

macro_rules! packet_columns {
    ($($variant:ident, $name:literal, $about:literal, $value:expr;)*) => {
        named_columns! {
            /// A number of a packet alone.
            PacketColumn: $($variant, $name, $about;)*
        }

        impl PacketColumn {
            /// Of one packet, as a whole number.
            #[inline]
            pub(crate) fn whole(self, facts: &Facts) -> i64 {
                match self {
                    $(Self::$variant => {
                        let of: fn(&Facts) -> _ = $value;
                        i64::from(of(facts))
                    })*
                }
            }

            /// Of each packet that is asked for its value. What differs from column to column is
            /// asked once.
            #[allow(clippy::cast_precision_loss)]
            pub(super) fn fill(self, facts: &[Facts], asked: PacketSet, values: &mut [f32]) {
                fn each(
                    facts: &[Facts],
                    asked: PacketSet,
                    values: &mut [f32],
                    of: impl Fn(&Facts) -> f32,
                ) {
                    if asked.has_all(facts.len()) {
                        for (value, facts) in values.iter_mut().zip(facts) {
                            *value = of(facts);
                        }
                        return;
                    }
                    for at in asked.iter() {
                        let (Some(value), Some(facts)) = (values.get_mut(at), facts.get(at)) else {
                            break;
                        };
                        *value = of(facts);
                    }
                }
                match self {
                    $(Self::$variant => {
                        let of: fn(&Facts) -> _ = $value;
                        each(facts, asked, values, |facts| of(facts) as f32);
                    })*
                }
            }
        }
    };
}

packet_columns! {
    WireBytes, "wire_bytes", "Bytes on the wire, link header included.", |f| f.wire_len;
    IpBytes, "ip_bytes",
        "Bytes of the innermost IP packet by its headers, at most those on the wire; of other \
         frames those on the wire.",
        |f| f.size;
    PayloadBytes, "payload_bytes", "Bytes of transport payload.", |f| f.payload_len;
    Network, "network", "Network layer: 4 and 6 for IP, 1 for ARP, 0 for anything else.",
        |f| f.network;
    Protocol, "protocol", "IP protocol.", |f| f.protocol;
    IpHeaderBytes, "ip_header_bytes", "Bytes of the IP header, its options and extensions.",
        |f| f.ip_header_len;
    TransportHeaderBytes, "transport_header_bytes", "Bytes of the transport header.",
        |f| f.transport_header_len;
    SourcePort, "source_port", "Source port of TCP, UDP or SCTP.", |f| f.source_port;
    DestinationPort, "destination_port", "Destination port.", |f| f.destination_port;
    LowerPort, "lower_port", "The smaller of both ports.", Facts::lower_port;
    HigherPort, "higher_port", "The larger of both ports.", Facts::higher_port;
    TcpFlags, "tcp_flags",
        "FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128, AE 256, added up.",
        |f| f.tcp_flags;
    TcpFin, "tcp_fin", "FIN, 0 or 1.", |f| f.tcp_flag(0);
    TcpSyn, "tcp_syn", "SYN, 0 or 1.", |f| f.tcp_flag(1);
    TcpRst, "tcp_rst", "RST, 0 or 1.", |f| f.tcp_flag(2);
    TcpPsh, "tcp_psh", "PSH, 0 or 1.", |f| f.tcp_flag(3);
    TcpAck, "tcp_ack", "ACK, 0 or 1.", |f| f.tcp_flag(4);
    TcpUrg, "tcp_urg", "URG, 0 or 1.", |f| f.tcp_flag(5);
    TcpEce, "tcp_ece", "ECE, 0 or 1.", |f| f.tcp_flag(6);
    TcpCwr, "tcp_cwr", "CWR, 0 or 1.", |f| f.tcp_flag(7);
    TcpWindow, "tcp_window", "TCP window of the header, unscaled.", |f| f.tcp_window;
    IsFragment, "is_fragment", "Whether it is a fragment of an IP packet, 0 or 1.",
        |f| f.is_fragment;
    DontFragment, "dont_fragment", "IPv4's bit of that name.", |f| f.dont_fragment;
    Ecn, "ecn", "ECN codepoint: 0 none, 1 ECT(1), 2 ECT(0), 3 CE.", |f| f.ecn;
    IcmpType, "icmp_type", "Type of ICMP or `ICMPv6`.", |f| f.icmp_type;
    IcmpCode, "icmp_code", "Code of ICMP or `ICMPv6`.", |f| f.icmp_code;
    ArpOperation, "arp_operation", "1 for a request, 2 for a reply.", |f| f.arp_operation;
    ArpGratuitous, "arp_gratuitous", "Whether an ARP packet asks for its sender's own address.",
        |f| f.arp_gratuitous;
    IsMalformed, "is_malformed", "Whether a header is malformed, 0 or 1.", |f| f.is_malformed;
}

/// A number of what packets of one key did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum SumColumn {
    /// Packets.
    Packets,
    /// Of a flow, packets that went the same way as this one; of a host, flows that began.
    Marked,
    /// Bytes of all.
    SizeSum,
    /// Bytes of the largest.
    SizeMax,
    /// Bytes of the smallest.
    SizeMin,
    /// Mean bytes.
    SizeMean,
    /// Variance of bytes.
    SizeVariance,
    /// Nanoseconds from the first to this one.
    GapSum,
    /// Longest gap.
    GapMax,
    /// Shortest gap.
    GapMin,
    /// Mean gap.
    GapMean,
    /// Variance of gaps.
    GapVariance,
}

impl SumColumn {
    /// Every one, in their order.
    pub const ALL: &[Self] = &[
        Self::Packets,
        Self::Marked,
        Self::SizeSum,
        Self::SizeMax,
        Self::SizeMin,
        Self::SizeMean,
        Self::SizeVariance,
        Self::GapSum,
        Self::GapMax,
        Self::GapMin,
        Self::GapMean,
        Self::GapVariance,
    ];

    const fn suffix(self, key: Key) -> &'static str {
        match self {
            Self::Packets => "packets",
            Self::Marked => match key {
                Key::Flow => "packets_same_way",
                Key::Source | Key::Destination => "flows",
            },
            Self::SizeSum => "size_sum_bytes",
            Self::SizeMax => "size_max_bytes",
            Self::SizeMin => "size_min_bytes",
            Self::SizeMean => "size_mean_bytes",
            Self::SizeVariance => "size_variance_bytes2",
            Self::GapSum => "gap_sum_ns",
            Self::GapMax => "gap_max_ns",
            Self::GapMin => "gap_min_ns",
            Self::GapMean => "gap_mean_ns",
            Self::GapVariance => "gap_variance_ns2",
        }
    }
}

/// Of some packets the numbers of what one of their keys did, by [`SumColumn`].
pub(super) type SumNumbers = [[f32; BLOCK_ROWS]; SumColumn::ALL.len()];

/// Before the first packet.
pub(super) const NO_NUMBERS: SumNumbers = [[MISSING; BLOCK_ROWS]; SumColumn::ALL.len()];

/// All numbers of what keys did, packet by packet: a packet's sums are examined once, and without
/// a branch on what differs from packet to packet. Of flows, packets that went the same way count
/// for themselves.
pub(super) fn fill_sums(
    sums: &[PacketSums],
    ways: Option<&[FlowDirection]>,
    asked: PacketSet,
    numbers: &mut SumNumbers,
) {
    if asked.has_all(sums.len()) {
        for (at, sums) in sums.iter().enumerate().take(BLOCK_ROWS) {
            fill_sums_at(at, sums, ways, numbers);
        }
        return;
    }
    for at in asked.iter() {
        let Some(sums) = sums.get(at) else { break };
        fill_sums_at(at, sums, ways, numbers);
    }
}

#[inline(always)]
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn fill_sums_at(
    at: usize,
    sums: &PacketSums,
    ways: Option<&[FlowDirection]>,
    numbers: &mut SumNumbers,
) {
    let way = ways.and_then(|ways| ways.get(at));
    let is_back = way == Some(&FlowDirection::HighToLow);
    let other_way = sums.packets.saturating_sub(sums.marked);
    let marked = if is_back { other_way } else { sums.marked };
    // One packet has no gap.
    let (is_held, has_gap) = (sums.packets > 0, sums.packets > 1);
    let values = [
        (is_held, sums.packets as f32),
        (is_held, marked as f32),
        (is_held, whole(sums.size_sum)),
        (is_held, sums.size_max as f32),
        (is_held, sums.size_min as f32),
        (is_held, sums.size_mean() as f32),
        (is_held, sums.size_variance() as f32),
        (is_held, whole(sums.gap_sum)),
        (has_gap, whole(sums.gap_max)),
        (has_gap, whole(sums.gap_min)),
        (has_gap, sums.gap_mean() as f32),
        (has_gap, sums.gap_variance() as f32),
    ];
    for (numbers, (is_known, value)) in numbers.iter_mut().zip(values) {
        numbers[at] = either(is_known, value, MISSING);
    }
}

/// One or the other by its bits: floats are chosen between by jumping.
#[inline(always)]
const fn either(condition: bool, value: f32, other: f32) -> f32 {
    let mask = 0_u32.wrapping_sub(condition as u32);
    f32::from_bits(value.to_bits() & mask | other.to_bits() & !mask)
}

/// As a float, up to 2⁶³, where it stops. Processors convert signed numbers in one instruction,
/// others in six steps.
#[inline(always)]
#[allow(clippy::cast_precision_loss)]
fn whole(number: u64) -> f32 {
    i64::try_from(number).unwrap_or(i64::MAX) as f32
}

impl Column {
    /// Every column that there is with these options, in order.
    pub fn all(options: &FeatureOptions) -> impl Iterator<Item = Self> {
        let keys = &options.keys;
        let of_packet = PacketColumn::ALL.iter().map(|&column| Self::Packet(column));
        let wanted = Key::ALL.into_iter().filter(move |key| keys.contains(key));
        let of_keys = wanted.flat_map(move |key| {
            let columns = SumColumn::ALL.iter().map(move |&column| Self::Of(key, column));
            // Which flows began is only known where flows are kept.
            columns.filter(move |&column| {
                key == Key::Flow
                    || keys.contains(&Key::Flow)
                    || column != Self::Of(key, SumColumn::Marked)
            })
        });
        let states = if options.states == 0 { &[] } else { StateColumn::ALL };
        of_packet.chain(of_keys).chain(states.iter().map(|&column| Self::State(column)))
    }

    /// The column of this name, among those that there are with these options.
    #[must_use]
    pub fn named(name: &str, options: &FeatureOptions) -> Option<Self> {
        Self::all(options).find(|column| column.is_named(name))
    }

    fn is_named(self, name: &str) -> bool {
        match self {
            Self::Packet(column) => column.name() == name,
            Self::State(column) => column.name() == name,
            Self::Of(key, column) => {
                let rest = name.strip_prefix(key.name()).and_then(|name| name.strip_prefix('_'));
                rest == Some(column.suffix(key))
            }
        }
    }

    /// Whose packets it sums up, if any.
    #[must_use]
    pub const fn key(self) -> Option<Key> {
        match self {
            Self::Packet(_) | Self::State(_) => None,
            Self::Of(key, _) => Some(key),
        }
    }

    /// The column of states that it is, if any.
    #[must_use]
    pub const fn state(self) -> Option<StateColumn> {
        match self {
            Self::State(column) => Some(column),
            Self::Packet(_) | Self::Of(..) => None,
        }
    }

    /// Whether what it says of hosts is made from what is kept of flows.
    #[must_use]
    pub fn needs(self, key: Key) -> bool {
        self.key() == Some(key)
            || (key == Key::Flow && matches!(self, Self::Of(_, SumColumn::Marked)))
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packet(column) => f.write_str(column.name()),
            Self::State(column) => f.write_str(column.name()),
            Self::Of(key, column) => write!(f, "{}_{}", key.name(), column.suffix(*key)),
        }
    }
}

/// The text of which a model carries the hash: what its numbers mean, in which order.
#[must_use]
pub fn schema_text(options: &FeatureOptions, columns: &[Column]) -> String {
    let mut text = String::from("wirelens packetlog features 1\nlayout row\ndtype f32\n");
    // Writing to a string cannot fail.
    let _ = writeln!(text, "missing -1\nheaders innermost\nwindow_ns {}", options.window.as_ns());
    let has_states = columns.iter().any(|column| matches!(column, Column::State(_)));
    if options.window.as_ns() == 0 || has_states {
        let _ = writeln!(text, "idle_timeout_ns {}", options.idle_timeout.as_ns());
    }
    let _ = writeln!(text, "columns {}", columns.len());
    for column in columns {
        let _ = writeln!(text, "{column}");
    }
    text
}

/// SHA-256 of [`schema_text`], in hexadecimal.
#[must_use]
pub fn schema_hash(options: &FeatureOptions, columns: &[Column]) -> String {
    model::schema::text_hash(&schema_text(options, columns))
}
