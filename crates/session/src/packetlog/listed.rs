//! Hosts and sessions of the packets that a query finds.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::net::IpAddr;

use engine::columns::{Columns, Field, Kind, RowMismatch, Schema, Value};
use packet::community_id::CommunityId;
use packet::{FlowDirection, FlowKey, Frame, Timestamp};
use packetlog::log::PacketMatch;

use crate::choice::choice;

choice! {
    /// What is listed of packets that are found.
    Listed: "list" {
        Hosts = "hosts", "Each address, with what it sent and received";
        Sessions = "sessions", "Each flow by its addresses, ports and protocol, both directions \
                                together";
    }
}

/// Hosts or sessions that are distinguished; packets of others are counted together.
const ENTRIES_MAX: usize = 1 << 20;

const fn number(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::U64, about)
}

const FIRST: Field = Field::new("first_ns", Kind::TimestampNs, "Earliest packet found.").nullable();
const LAST: Field = Field::new("last_ns", Kind::TimestampNs, "Latest packet found.").nullable();

/// Columns of hosts.
pub const HOSTS: Schema = &[
    Field::new("host", Kind::Text, "The address."),
    number("sent_packets", "Packets found that it sent."),
    number("sent_bytes", "Their bytes on the wire."),
    number("received_packets", "Packets found that were sent to it."),
    number("received_bytes", "Their bytes on the wire."),
    FIRST,
    LAST,
];

/// Columns of sessions.
pub const SESSIONS: Schema = &[
    Field::new("community_id", Kind::Text, "Community ID v1, seed 0."),
    Field::new("protocol", Kind::Text, "IP protocol."),
    Field::new("src_ip", Kind::Text, "Sender of the first packet found."),
    Field::new("src_port", Kind::U16, "Its port; the message type for ICMP."),
    Field::new("dst_ip", Kind::Text, "The other address."),
    Field::new("dst_port", Kind::U16, "Its port; the counterpart's type or the code for ICMP."),
    number("src_packets", "Packets found from the source."),
    number("src_bytes", "Their bytes on the wire."),
    number("dst_packets", "Packets found from the destination."),
    number("dst_bytes", "Their bytes on the wire."),
    FIRST,
    LAST,
];

/// Packets, bytes and times. Pairs are of who sent first, or of what was sent and received.
#[derive(Clone, Copy, Debug)]
struct Sums {
    packets: [u64; 2],
    bytes: [u64; 2],
    span: Option<(Timestamp, Timestamp)>,
    direction: FlowDirection,
}

impl Sums {
    const fn new(direction: FlowDirection) -> Self {
        Self { packets: [0; 2], bytes: [0; 2], span: None, direction }
    }

    fn add(&mut self, side: usize, bytes: u64, time: Timestamp) {
        self.packets[side] += 1;
        self.bytes[side] += bytes;
        if time != Timestamp::UNKNOWN {
            let (first, last) = self.span.unwrap_or((time, time));
            self.span = Some((first.min(time), last.max(time)));
        }
    }

    const fn total(&self) -> u64 {
        self.bytes[0].saturating_add(self.bytes[1])
    }

    fn values<'a>(&self) -> [Value<'a>; 6] {
        let (first, last) = self.span.unzip();
        let time = |time: Option<Timestamp>| time.map(|time| Value::TimestampNs(time.as_ns()));
        [
            Value::U64(self.packets[0]),
            Value::U64(self.bytes[0]),
            Value::U64(self.packets[1]),
            Value::U64(self.bytes[1]),
            time(first).into(),
            time(last).into(),
        ]
    }
}

/// What is listed of packets that are found.
pub struct Listing {
    what: Listed,
    hosts: HashMap<IpAddr, Sums>,
    sessions: HashMap<FlowKey, Sums>,
    /// Packets beyond [`ENTRIES_MAX`] entries.
    pub beyond: u64,
    /// Packets without an IP header.
    pub keyless: u64,
}

/// The entry of a key, unless there are too many.
fn entry<K: Eq + Hash>(
    of: &mut HashMap<K, Sums>,
    key: K,
    direction: FlowDirection,
) -> Option<&mut Sums> {
    let is_full = of.len() >= ENTRIES_MAX;
    match of.entry(key) {
        Entry::Occupied(known) => Some(known.into_mut()),
        Entry::Vacant(_) if is_full => None,
        Entry::Vacant(new) => Some(new.insert(Sums::new(direction))),
    }
}

impl Listing {
    /// Nothing found yet.
    #[must_use]
    pub fn new(what: Listed) -> Self {
        Self { what, hosts: HashMap::new(), sessions: HashMap::new(), beyond: 0, keyless: 0 }
    }

    /// The columns.
    #[must_use]
    pub const fn schema(&self) -> Schema {
        match self.what {
            Listed::Hosts => HOSTS,
            Listed::Sessions => SESSIONS,
        }
    }

    /// Takes in a packet.
    pub fn add(&mut self, found: &PacketMatch<'_>) {
        let frame = Frame::new(found.bytes, found.record);
        let Some((key, direction)) = FlowKey::from_frame(&frame) else {
            self.keyless += 1;
            return;
        };
        let (bytes, time) = (u64::from(found.record.wire_len), found.record.timestamp);
        match self.what {
            Listed::Hosts => {
                let (source, destination) = key.endpoints(direction);
                let mut is_beyond = false;
                for (side, address) in [source.address, destination.address].into_iter().enumerate()
                {
                    match entry(&mut self.hosts, address, direction) {
                        Some(sums) => sums.add(side, bytes, time),
                        None => is_beyond = true,
                    }
                }
                self.beyond += u64::from(is_beyond);
            }
            Listed::Sessions => match entry(&mut self.sessions, key, direction) {
                Some(sums) => sums.add(usize::from(sums.direction != direction), bytes, time),
                None => self.beyond += 1,
            },
        }
    }

    /// The rows, those of most bytes first.
    ///
    /// # Errors
    /// [`RowMismatch`]
    pub fn columns(&self) -> Result<Columns, RowMismatch> {
        let mut columns = Columns::new(self.schema());
        for (host, sums) in sorted(&self.hosts) {
            let [a, b, c, d, e, f] = sums.values();
            columns.push_row(&[Value::Address(*host), a, b, c, d, e, f])?;
        }
        for (key, sums) in sorted(&self.sessions) {
            let (source, destination) = key.endpoints(sums.direction);
            let (id, protocol) = (CommunityId(*key), key.protocol());
            let [a, b, c, d, e, f] = sums.values();
            columns.push_row(&[
                Value::Text(&id),
                Value::Text(&protocol),
                Value::Address(source.address),
                Value::U16(source.port),
                Value::Address(destination.address),
                Value::U16(destination.port),
                a,
                b,
                c,
                d,
                e,
                f,
            ])?;
        }
        Ok(columns)
    }
}

fn sorted<K: Ord>(of: &HashMap<K, Sums>) -> Vec<(&K, &Sums)> {
    let mut entries: Vec<_> = of.iter().collect();
    entries.sort_by_key(|(key, sums)| (std::cmp::Reverse(sums.total()), *key));
    entries
}
