//! What is in a capture: a stage that counts by kind.

use std::collections::BTreeMap;
use std::fmt;

use packet::{
    Batch, Frame, Layers, LinkType, MalformedCounts, Network, Protocol, Span, Timestamp, Tunnel,
};

use crate::stage::Stage;
use crate::table::{Entry, Tally};

/// Counts by kind over the frames of one capture, in the order of the capture.
#[derive(Clone, Debug)]
pub struct Census {
    /// All frames, and their bytes on the wire.
    pub total: Tally,
    /// Captured bytes.
    pub captured_bytes: u64,
    /// Shortest frame on the wire, in bytes; meaningless without frames.
    pub wire_len_min: u32,
    /// Longest frame on the wire, in bytes.
    pub wire_len_max: u32,
    /// Earliest stamp; meaningless where [`Census::has_time`] is false.
    pub first: Timestamp,
    /// Latest stamp.
    pub last: Timestamp,
    /// Frames stamped earlier than the frame before them.
    pub backwards: u64,
    /// Frames of which the capture gives no time.
    pub unstamped: u64,
    /// Frames whose capture is shorter than they were on the wire.
    pub shortened: u64,
    /// Frames truncated within their headers.
    pub cut: u64,
    /// Frames in which a header is malformed, by cause.
    pub malformed: MalformedCounts,
    /// By link type.
    pub links: BTreeMap<LinkType, Tally>,
    /// By interface, in order of appearance.
    pub interfaces: Vec<Tally>,
    /// By innermost network layer, by EtherType where this project reads none.
    pub networks: BTreeMap<NetworkName, Tally>,
    /// By protocol above IP.
    pub protocols: BTreeMap<Protocol, Tally>,
    /// By feature met on the way, such as VLAN tags.
    pub features: BTreeMap<Feature, Tally>,
    previous: Timestamp,
}

/// A network layer by name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NetworkName {
    /// Internet Protocol version 4.
    Ipv4,
    /// Internet Protocol version 6.
    Ipv6,
    /// Address resolution.
    Arp,
    /// Another EtherType.
    EtherType(u16),
    /// A link that names none, or headers that could not be read.
    Unknown,
}

/// Something that a frame's headers have besides the ordinary.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Feature {
    /// An 802.1Q or 802.1ad tag.
    Vlan,
    /// An MPLS label.
    Mpls,
    /// PPP over Ethernet.
    Pppoe,
    /// A fragment of an IP packet.
    Fragment,
    /// What the link carries is encrypted.
    Encrypted,
    /// A tunnel that was opened.
    Tunnel(Tunnel),
}

/// The name of an EtherType in lower case, or its number.
#[must_use]
pub fn ether_type_name(ether_type: u16) -> String {
    let name = match ether_type {
        0x0800 => "ipv4",
        0x0806 => "arp",
        0x0842 => "wake-on-lan",
        0x22f3 => "trill",
        0x6003 => "decnet",
        0x8035 => "rarp",
        0x809b => "appletalk",
        0x8137 => "ipx",
        0x86dd => "ipv6",
        0x8808 => "flow-control",
        0x8809 => "slow-protocols",
        0x8847 | 0x8848 => "mpls",
        0x8863 => "pppoe-discovery",
        0x8864 => "pppoe",
        0x888e => "eapol",
        0x8892 => "profinet",
        0x88a4 => "ethercat",
        0x88b8 => "goose",
        0x88ba => "sampled-values",
        0x88cc => "lldp",
        0x88e5 => "macsec",
        0x88f7 => "ptp",
        0x8902 => "cfm",
        0x9000 => "loopback",
        other => return format!("ether_type_0x{other:04x}"),
    };
    String::from(name)
}

impl fmt::Display for NetworkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ipv4 => f.write_str("ipv4"),
            Self::Ipv6 => f.write_str("ipv6"),
            Self::Arp => f.write_str("arp"),
            Self::EtherType(ether_type) => f.write_str(&ether_type_name(*ether_type)),
            Self::Unknown => f.write_str("other"),
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vlan => "vlan",
            Self::Mpls => "mpls",
            Self::Pppoe => "pppoe",
            Self::Fragment => "ip_fragment",
            Self::Encrypted => "encrypted_link",
            Self::Tunnel(Tunnel::None) => "none",
            Self::Tunnel(Tunnel::IpInIp) => "ip_in_ip",
            Self::Tunnel(Tunnel::Gre) => "gre",
            Self::Tunnel(Tunnel::Vxlan) => "vxlan",
            Self::Tunnel(Tunnel::Gtpu) => "gtpu",
            Self::Tunnel(Tunnel::Geneve) => "geneve",
            Self::Tunnel(Tunnel::Erspan) => "erspan",
        })
    }
}

impl Default for Census {
    fn default() -> Self {
        Self {
            total: Tally::default(),
            captured_bytes: 0,
            wire_len_min: u32::MAX,
            wire_len_max: 0,
            first: Timestamp::MAX,
            last: Timestamp::MIN,
            backwards: 0,
            unstamped: 0,
            shortened: 0,
            cut: 0,
            malformed: MalformedCounts::default(),
            links: BTreeMap::new(),
            interfaces: Vec::new(),
            networks: BTreeMap::new(),
            protocols: BTreeMap::new(),
            features: BTreeMap::new(),
            previous: Timestamp::MIN,
        }
    }
}

impl Census {
    /// Whether any frame has a stamp.
    #[must_use]
    pub fn has_time(&self) -> bool {
        self.total.packets > self.unstamped
    }

    /// From the first stamp to the last; zero without stamps.
    #[must_use]
    pub fn duration(&self) -> Span {
        if !self.has_time() { Span::default() } else { self.last.since(self.first) }
    }

    fn add(&mut self, frame: &Frame<'_>) {
        let record = frame.record;
        let tally = Tally::of_packet(record.wire_len);
        self.total.fold(&tally);
        self.captured_bytes += u64::from(record.captured_len);
        self.wire_len_min = self.wire_len_min.min(record.wire_len);
        self.wire_len_max = self.wire_len_max.max(record.wire_len);
        if record.timestamp == Timestamp::UNKNOWN {
            self.unstamped += 1;
        } else {
            self.first = self.first.min(record.timestamp);
            self.last = self.last.max(record.timestamp);
            self.backwards += u64::from(record.timestamp < self.previous);
            self.previous = record.timestamp;
        }
        self.shortened += u64::from(record.captured_len < record.wire_len);
        let interface = usize::from(record.interface);
        if self.interfaces.len() <= interface {
            self.interfaces.resize(interface + 1, Tally::default());
        }
        if let Some(counted) = self.interfaces.get_mut(interface) {
            counted.fold(&tally);
        }
        self.links.entry(record.link).or_default().fold(&tally);
        self.add_layers(&record.layers, &tally);
    }

    fn add_layers(&mut self, layers: &Layers, tally: &Tally) {
        self.cut += u64::from(layers.is_cut());
        if let Some(cause) = layers.fault {
            self.malformed.add(cause);
        }
        let network = match layers.network {
            Network::Ipv4 => NetworkName::Ipv4,
            Network::Ipv6 => NetworkName::Ipv6,
            Network::Arp => NetworkName::Arp,
            Network::None if layers.ether_type != 0 => NetworkName::EtherType(layers.ether_type),
            Network::None => NetworkName::Unknown,
        };
        self.networks.entry(network).or_default().fold(tally);
        if layers.is_ip() {
            self.protocols.entry(layers.protocol).or_default().fold(tally);
        }
        let met = [
            (Feature::Vlan, layers.vlan().is_some()),
            (Feature::Mpls, layers.has(Layers::MPLS)),
            (Feature::Pppoe, layers.has(Layers::PPPOE)),
            (Feature::Fragment, layers.has(Layers::FRAGMENT)),
            (Feature::Encrypted, layers.has(Layers::ENCRYPTED)),
            (Feature::Tunnel(layers.tunnel), layers.tunnel != Tunnel::None),
        ];
        for (feature, _) in met.into_iter().filter(|&(_, is_met)| is_met) {
            self.features.entry(feature).or_default().fold(tally);
        }
    }
}

impl Stage for Census {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        for frame in batch.frames() {
            self.add(&frame);
        }
    }
}
