//! A flow as its row has it, for writers of records of other tools.

use engine::columns::{Column, Columns, Schema, Values};
use packet::Timestamp;

/// What is known of a flow. Pairs are of the source and the destination.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowRow<'a> {
    /// Community ID.
    pub community_id: &'a str,
    /// IP protocol by name, or its number.
    pub protocol: &'a str,
    /// Addresses.
    pub ips: [&'a str; 2],
    /// Ports; of ICMP the type, and the counterpart's type or the code.
    pub ports: [u16; 2],
    /// Earliest stamp.
    pub first_ns: Option<i64>,
    /// Latest stamp.
    pub last_ns: Option<i64>,
    /// Packets.
    pub packets: [u64; 2],
    /// Bytes on the wire, link header included.
    pub bytes: [u64; 2],
    /// Bytes of IP packets.
    pub ip_bytes: [u64; 2],
    /// Bytes of payload.
    pub payload_bytes: [u64; 2],
    /// First and latest stamp of each side.
    pub spans_ns: [Option<(i64, i64)>; 2],
    /// TCP flags, or-ed.
    pub tcp_flags: [u16; 2],
    /// Kinds of TCP segments in their order.
    pub tcp_history: &'a str,
    /// How it ended.
    pub end_reason: &'a str,
    /// Outermost VLAN.
    pub vlan: Option<u16>,
    /// The capture, where rows have one.
    pub capture: Option<&'a str>,
    /// MAC addresses, where rows have them.
    pub macs: [Option<&'a str>; 2],
    /// What the payload shows.
    pub names: NamesRow<'a>,
    /// What a model says.
    pub verdict: Option<VerdictRow<'a>>,
    /// What is known of its addresses besides.
    pub sides: [SideRow<'a>; 2],
}

/// What is known of an address besides packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct SideRow<'a> {
    /// Whether it is of this network.
    pub is_local: Option<bool>,
    /// Its autonomous system.
    pub asn: Option<u32>,
    /// Who runs that.
    pub as_org: Option<&'a str>,
    /// Its country, by ISO 3166-1.
    pub country: Option<&'a str>,
    /// The vendor of its MAC address.
    pub mac_vendor: Option<&'a str>,
}

/// Names and protocols that the payload shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct NamesRow<'a> {
    /// Application protocol.
    pub app_protocol: Option<&'a str>,
    /// SNI, or host of HTTP.
    pub server_name: Option<&'a str>,
    /// By DNS.
    pub resolved_name: Option<&'a str>,
    /// First name asked for.
    pub dns_query: Option<&'a str>,
    /// Its type of record.
    pub dns_query_type: Option<&'a str>,
    /// Highest version of TLS offered.
    pub tls_version: Option<&'a str>,
    /// Offered ALPN.
    pub alpn: Option<&'a str>,
    /// JA4 of the client.
    pub ja4: Option<&'a str>,
    /// Whether ECH is offered.
    pub ech_offered: Option<bool>,
}

/// What a model says of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct VerdictRow<'a> {
    /// A class, or unknown.
    pub label: &'a str,
    /// None for unknown.
    pub confidence: Option<f64>,
    /// The likeliest class.
    pub guess: &'a str,
    /// Its probability.
    pub guess_confidence: f64,
    /// Which model decided.
    pub stage: &'a str,
    /// Packets shown to it.
    pub packets_used: u16,
    /// The cascade.
    pub model: &'a str,
}

impl FlowRow<'_> {
    /// The first stamp.
    #[must_use]
    pub fn first(&self) -> Timestamp {
        self.first_ns.map_or(Timestamp::UNKNOWN, Timestamp::from_ns)
    }

    /// From the first packet to the last.
    #[must_use]
    pub fn duration_ns(&self) -> Option<u64> {
        u64::try_from(self.last_ns?.saturating_sub(self.first_ns?)).ok()
    }

    /// Whether ports are types and codes.
    #[must_use]
    pub fn is_icmp(&self) -> bool {
        matches!(self.protocol, "icmp" | "ipv6-icmp")
    }

    /// Whether its addresses are of IPv6.
    #[must_use]
    pub fn is_ipv6(&self) -> bool {
        self.ips.iter().any(|ip| ip.contains(':'))
    }
}

/// Where each column stands, by its name.
#[derive(Clone, Debug)]
pub struct Places {
    at: Vec<Option<usize>>,
}

macro_rules! columns {
    ($($name:ident $text:literal,)*) => {
        #[derive(Clone, Copy)]
        enum Name { $($name,)* }
        const COLUMNS: &[&str] = &[$($text),*];
    };
}

columns! {
    CommunityId "community_id", Protocol "protocol", SrcIp "src_ip", DstIp "dst_ip",
    SrcPort "src_port", DstPort "dst_port", First "first_ns", Last "last_ns",
    SrcPackets "src_packets", DstPackets "dst_packets", SrcBytes "src_bytes",
    DstBytes "dst_bytes", SrcFlags "src_tcp_flags", DstFlags "dst_tcp_flags",
    EndReason "end_reason", Vlan "vlan", SrcIpBytes "src_ip_bytes", DstIpBytes "dst_ip_bytes",
    SrcPayload "src_payload_bytes", DstPayload "dst_payload_bytes", History "tcp_history",
    SrcFirst "src_first_ns", SrcLast "src_last_ns", DstFirst "dst_first_ns",
    DstLast "dst_last_ns", Capture "capture", AppProtocol "app_protocol",
    Server "server_name", Resolved "resolved_name", Query "dns_query",
    QueryType "dns_query_type", TlsVersion "tls_version", Alpn "alpn", Ja4 "ja4",
    Ech "ech_offered", Label "label", Confidence "confidence", Guess "guess",
    GuessConfidence "guess_confidence", Stage "stage", PacketsUsed "packets_used",
    Model "model", SrcLocal "src_local", DstLocal "dst_local", SrcAsn "src_asn",
    DstAsn "dst_asn", SrcAsOrg "src_as_org", DstAsOrg "dst_as_org", SrcCountry "src_country",
    DstCountry "dst_country", SrcMac "src_mac", DstMac "dst_mac",
    SrcMacVendor "src_mac_vendor", DstMacVendor "dst_mac_vendor",
}

/// One row, by the names of its columns.
struct Cells<'a> {
    places: &'a Places,
    columns: &'a [Column],
    row: usize,
}

impl<'a> Cells<'a> {
    fn column(&self, name: Name) -> Option<&'a Column> {
        let at = self.places.at.get(name as usize).copied().flatten()?;
        self.columns.get(at).filter(|column| !column.is_null(self.row))
    }

    fn text_if_any(&self, name: Name) -> Option<&'a str> {
        match self.column(name)?.values() {
            Values::Text(texts) => Some(texts.get(self.row)),
            _ => None,
        }
    }

    fn text(&self, name: Name) -> &'a str {
        self.text_if_any(name).unwrap_or_default()
    }

    fn count(&self, name: Name) -> u64 {
        match self.column(name).map(Column::values) {
            Some(Values::U64(counts)) => counts.get(self.row).copied().unwrap_or_default(),
            _ => 0,
        }
    }

    fn small_if_any(&self, name: Name) -> Option<u16> {
        match self.column(name)?.values() {
            Values::U16(numbers) => numbers.get(self.row).copied(),
            _ => None,
        }
    }

    fn small(&self, name: Name) -> u16 {
        self.small_if_any(name).unwrap_or_default()
    }

    fn time(&self, name: Name) -> Option<i64> {
        match self.column(name)?.values() {
            Values::TimestampNs(times) => times.get(self.row).copied(),
            _ => None,
        }
    }

    fn real(&self, name: Name) -> Option<f64> {
        match self.column(name)?.values() {
            Values::F64(numbers) => numbers.get(self.row).copied(),
            _ => None,
        }
    }

    fn number_if_any(&self, name: Name) -> Option<u32> {
        match self.column(name)?.values() {
            Values::U32(numbers) => numbers.get(self.row).copied(),
            _ => None,
        }
    }

    fn bit(&self, name: Name) -> Option<bool> {
        match self.column(name)?.values() {
            Values::I8(bits) => bits.get(self.row).map(|&bit| bit != 0),
            _ => None,
        }
    }
}

impl Places {
    /// Of these columns.
    #[must_use]
    pub fn of(schema: Schema) -> Self {
        let place = |name: &&str| schema.iter().position(|field| field.name == *name);
        Self { at: COLUMNS.iter().map(place).collect() }
    }

    /// Whether rows have what a model says.
    #[must_use]
    pub fn has_verdict(&self) -> bool {
        self.has(Name::Label)
    }

    /// Whether rows have MAC addresses.
    #[must_use]
    pub fn has_macs(&self) -> bool {
        self.has(Name::SrcMac)
    }

    fn has(&self, name: Name) -> bool {
        self.at.get(name as usize).copied().flatten().is_some()
    }

    /// A row.
    #[must_use]
    pub fn row<'a>(&'a self, rows: &'a Columns, row: usize) -> FlowRow<'a> {
        use Name as N;
        let of = Cells { places: self, columns: rows.columns(), row };
        FlowRow {
            community_id: of.text(N::CommunityId),
            protocol: of.text(N::Protocol),
            ips: [N::SrcIp, N::DstIp].map(|name| of.text(name)),
            ports: [N::SrcPort, N::DstPort].map(|name| of.small(name)),
            first_ns: of.time(N::First),
            last_ns: of.time(N::Last),
            packets: [N::SrcPackets, N::DstPackets].map(|name| of.count(name)),
            bytes: [N::SrcBytes, N::DstBytes].map(|name| of.count(name)),
            ip_bytes: [N::SrcIpBytes, N::DstIpBytes].map(|name| of.count(name)),
            payload_bytes: [N::SrcPayload, N::DstPayload].map(|name| of.count(name)),
            spans_ns: [
                of.time(N::SrcFirst).zip(of.time(N::SrcLast)),
                of.time(N::DstFirst).zip(of.time(N::DstLast)),
            ],
            tcp_flags: [N::SrcFlags, N::DstFlags].map(|name| of.small(name)),
            tcp_history: of.text(N::History),
            end_reason: of.text(N::EndReason),
            vlan: of.small_if_any(N::Vlan),
            capture: of.text_if_any(N::Capture),
            macs: [N::SrcMac, N::DstMac].map(|name| of.text_if_any(name)),
            names: names(&of),
            verdict: self.has_verdict().then(|| verdict(&of)),
            sides: [
                side(&of, [N::SrcLocal, N::SrcAsn, N::SrcAsOrg, N::SrcCountry, N::SrcMacVendor]),
                side(&of, [N::DstLocal, N::DstAsn, N::DstAsOrg, N::DstCountry, N::DstMacVendor]),
            ],
        }
    }
}

fn side<'a>(of: &Cells<'a>, [local, asn, as_org, country, mac_vendor]: [Name; 5]) -> SideRow<'a> {
    SideRow {
        is_local: of.bit(local),
        asn: of.number_if_any(asn),
        as_org: of.text_if_any(as_org),
        country: of.text_if_any(country),
        mac_vendor: of.text_if_any(mac_vendor),
    }
}

fn names<'a>(of: &Cells<'a>) -> NamesRow<'a> {
    use Name as N;
    NamesRow {
        app_protocol: of.text_if_any(N::AppProtocol),
        server_name: of.text_if_any(N::Server),
        resolved_name: of.text_if_any(N::Resolved),
        dns_query: of.text_if_any(N::Query),
        dns_query_type: of.text_if_any(N::QueryType),
        tls_version: of.text_if_any(N::TlsVersion),
        alpn: of.text_if_any(N::Alpn),
        ja4: of.text_if_any(N::Ja4),
        ech_offered: of.bit(N::Ech),
    }
}

fn verdict<'a>(of: &Cells<'a>) -> VerdictRow<'a> {
    use Name as N;
    VerdictRow {
        label: of.text(N::Label),
        confidence: of.real(N::Confidence),
        guess: of.text(N::Guess),
        guess_confidence: of.real(N::GuessConfidence).unwrap_or_default(),
        stage: of.text(N::Stage),
        packets_used: of.small(N::PacketsUsed),
        model: of.text(N::Model),
    }
}
