//! The keys by which packets are grouped: addresses, pairs, ports, protocols, flows.

use packet::{FlowDirection, FlowKey, Frame, HashSeed, KeyHash, Network, Protocol};

use crate::group::{Grouping, Order, Place};
use crate::table::{Entry, Tally};

/// By source address of the innermost IP header.
#[derive(Clone, Copy, Debug)]
pub struct BySource;

/// By destination address of the innermost IP header.
#[derive(Clone, Copy, Debug)]
pub struct ByDestination;

/// By source and destination address, each direction for itself.
#[derive(Clone, Copy, Debug)]
pub struct ByPair;

/// By transport protocol and the lower of the two port numbers, which is the
/// service's wherever one side's port is ephemeral.
#[derive(Clone, Copy, Debug)]
pub struct ByPort;

/// By IP protocol, or by EtherType where there is no IP.
#[derive(Clone, Copy, Debug)]
pub struct ByProtocol;

/// By conversation: both directions of one 5-tuple together.
#[derive(Clone, Copy, Debug)]
pub struct ByFlow;

/// Key of an address that every packet has in its narrow form.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NoWideKey;

/// Two IPv6 addresses: source, destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ipv6Pair(pub u128, pub u128);

/// Two IPv4 addresses: source, destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ipv4Pair(pub u32, pub u32);

/// A protocol with a port, or with an EtherType.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProtocolKey {
    /// IP protocol; `None` where there is no IP.
    pub protocol: Option<Protocol>,
    /// Port number, or EtherType where there is no IP.
    pub number: u16,
}

/// Packets and bytes of a flow, and who was seen first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowTally {
    /// Both directions together.
    pub tally: Tally,
    /// Where the first packet was in the order of reading.
    pub first: Order,
    /// Which way the first packet went.
    pub first_is_high_to_low: bool,
}

impl KeyHash for NoWideKey {
    fn key_hash(&self, seed: HashSeed) -> u64 {
        seed.hash_word(0)
    }
}

impl KeyHash for Ipv4Pair {
    #[inline]
    fn key_hash(&self, seed: HashSeed) -> u64 {
        seed.hash_word(u64::from(self.0) << 32 | u64::from(self.1))
    }
}

impl KeyHash for Ipv6Pair {
    #[inline]
    fn key_hash(&self, seed: HashSeed) -> u64 {
        seed.hash_words(self.0.key_hash(seed), self.1.key_hash(seed))
    }
}

impl KeyHash for ProtocolKey {
    #[inline]
    fn key_hash(&self, seed: HashSeed) -> u64 {
        let protocol = self.protocol.map_or(0, |protocol| 1 + u64::from(protocol.0));
        seed.hash_word(protocol << 16 | u64::from(self.number))
    }
}

impl Entry for FlowTally {
    #[inline]
    fn is_vacant(&self) -> bool {
        self.tally.is_vacant()
    }

    #[inline]
    fn fold(&mut self, other: &Self) {
        if other.is_vacant() {
            return;
        }
        let order = |entry: &Self| (entry.first, entry.first_is_high_to_low);
        if self.is_vacant() || order(other) < order(self) {
            (self.first, self.first_is_high_to_low) = order(other);
        }
        self.tally.fold(&other.tally);
    }

    #[inline]
    fn decided(&self) -> Option<bool> {
        Some(self.first_is_high_to_low)
    }

    #[inline]
    fn decide(&mut self, decided: bool) {
        self.first_is_high_to_low = decided;
    }
}

/// One address of each packet.
macro_rules! by_address {
    ($grouping:ty, $member:tt) => {
        impl Grouping for $grouping {
            type Narrow = u32;
            type Wide = u128;
            type Value = Tally;

            #[inline]
            fn place(&self, frame: &Frame<'_>, _: Order) -> (Place<u32, u128>, Tally) {
                let place = if let Some(addresses) = frame.ipv4_addresses() {
                    Place::Narrow(addresses.$member)
                } else if let Some(addresses) = frame.ipv6_addresses() {
                    Place::Wide(addresses.$member)
                } else {
                    Place::Absent
                };
                (place, Tally::of_packet(frame.record.wire_len))
            }
        }
    };
}

by_address!(BySource, 0);
by_address!(ByDestination, 1);

impl Grouping for ByPair {
    type Narrow = Ipv4Pair;
    type Wide = Ipv6Pair;
    type Value = Tally;

    #[inline]
    fn place(&self, frame: &Frame<'_>, _: Order) -> (Place<Ipv4Pair, Ipv6Pair>, Tally) {
        let place = if let Some((source, destination)) = frame.ipv4_addresses() {
            Place::Narrow(Ipv4Pair(source, destination))
        } else if let Some((source, destination)) = frame.ipv6_addresses() {
            Place::Wide(Ipv6Pair(source, destination))
        } else {
            Place::Absent
        };
        (place, Tally::of_packet(frame.record.wire_len))
    }
}

impl Grouping for ByPort {
    type Narrow = ProtocolKey;
    type Wide = NoWideKey;
    type Value = Tally;

    #[inline]
    fn place(&self, frame: &Frame<'_>, _: Order) -> (Place<ProtocolKey, NoWideKey>, Tally) {
        (
            ports_of(frame).map_or(Place::Absent, Place::Narrow),
            Tally::of_packet(frame.record.wire_len),
        )
    }
}

/// Protocol and lower port of a packet whose ports can be read.
#[inline]
fn ports_of(frame: &Frame<'_>) -> Option<ProtocolKey> {
    let (source, destination) = packet::flow_key::ports(frame)?;
    let protocol = Some(frame.record.layers.protocol);
    Some(ProtocolKey { protocol, number: source.min(destination) })
}

impl Grouping for ByProtocol {
    type Narrow = ProtocolKey;
    type Wide = NoWideKey;
    type Value = Tally;

    #[inline]
    fn place(&self, frame: &Frame<'_>, _: Order) -> (Place<ProtocolKey, NoWideKey>, Tally) {
        let layers = &frame.record.layers;
        let place = match layers.network {
            Network::Ipv4 | Network::Ipv6 => {
                Place::Narrow(ProtocolKey { protocol: Some(layers.protocol), number: 0 })
            }
            Network::Arp | Network::None if layers.fault.is_none() && layers.ether_type != 0 => {
                Place::Narrow(ProtocolKey { protocol: None, number: layers.ether_type })
            }
            Network::Arp | Network::None => Place::Absent,
        };
        (place, Tally::of_packet(frame.record.wire_len))
    }
}

impl Grouping for ByFlow {
    type Narrow = FlowKey;
    type Wide = NoWideKey;
    type Value = FlowTally;

    #[inline]
    fn place(&self, frame: &Frame<'_>, order: Order) -> (Place<FlowKey, NoWideKey>, FlowTally) {
        let mut value = FlowTally {
            tally: Tally::of_packet(frame.record.wire_len),
            first: order,
            first_is_high_to_low: false,
        };
        match FlowKey::from_frame(frame) {
            Some((key, direction)) => {
                value.first_is_high_to_low = direction == FlowDirection::HighToLow;
                (Place::Narrow(key), value)
            }
            None => (Place::Absent, value),
        }
    }
}
