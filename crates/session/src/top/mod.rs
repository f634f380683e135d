//! Who sends what: packets and bytes by a key.

mod application;
mod by_name;
mod largest;
mod ranking;
mod row;

pub use application::{Settings, Top};
pub use ranking::{Ranking, needs, needs_transport, schema};

use engine::columns::Schema;
use engine::grouping::{ByDestination, ByFlow, ByPair, ByPort, ByProtocol, BySource};
use engine::table::Tally;

use crate::choice::choice;
use row::TopGrouping as _;

choice! {
    /// What `top` adds up by.
    By: "key to aggregate by" {
        Source = "source", "Source address";
        Destination = "destination", "Destination address";
        Pair = "pair", "Source and destination address, one row per direction";
        Port = "port",
            "Transport protocol and the lower of the two port numbers, usually that of the service";
        Protocol = "protocol", "IP protocol, or EtherType if there is no IP";
        Flow = "flow",
            "Conversation: both directions of one 5-tuple together, seen from its first sender";
        Name = "name",
            "Server name that the client sent in TLS, QUIC or HTTP, or queried in DNS";
    }
}

choice! {
    /// What rows are ordered by.
    SortBy: "measure to sort by" {
        Bytes = "bytes", "Bytes on the wire";
        Packets = "packets", "Packets";
    }
}

impl SortBy {
    /// By what rows are compared: the measure, and the other one where that is the same.
    const fn rank(self, tally: Tally) -> (u64, u64) {
        match self {
            Self::Bytes => (tally.bytes, tally.packets),
            Self::Packets => (tally.packets, tally.bytes),
        }
    }
}

/// The columns of each grouping, without windows and with them.
#[must_use]
pub fn declared_columns() -> Vec<(&'static str, Schema)> {
    vec![
        ("wirelens top --by source", BySource::SCHEMA),
        ("wirelens top --by destination", ByDestination::SCHEMA),
        ("wirelens top --by pair", ByPair::SCHEMA),
        ("wirelens top --by port", ByPort::SCHEMA),
        ("wirelens top --by protocol", ByProtocol::SCHEMA),
        ("wirelens top --by flow", ByFlow::SCHEMA),
        ("wirelens top --by name", by_name::SCHEMA),
        ("wirelens top --by source --window DURATION", BySource::WINDOWED_SCHEMA),
    ]
}
