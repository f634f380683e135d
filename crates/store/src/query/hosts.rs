//! Hosts: addresses, with what their flows add up to.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use engine::columns::Schema;

use super::cell::{Cell, cell};
use super::filter::Filter;
use super::span::{TimeRange, time_column};
use crate::table::RowChunk;

/// Which hosts are added up.
#[derive(Clone, Debug)]
pub struct HostsQuery {
    /// Flows that are wanted.
    pub filter: Filter,
    /// Of this time.
    pub range: TimeRange,
    /// Hosts at most; ends of flows of further ones are counted as left out.
    pub host_count_max: usize,
    /// Peers that are counted for each host at most.
    pub peer_count_max: usize,
}

/// A host's flows, added up.
#[derive(Clone, Debug, Default)]
pub struct HostSums {
    /// Bytes that it sent.
    pub bytes_sent: u64,
    /// Bytes that it received.
    pub bytes_received: u64,
    /// Packets that it sent.
    pub packets_sent: u64,
    /// Packets that it received.
    pub packets_received: u64,
    /// Its flows.
    pub flow_count: u64,
    /// With whom.
    pub peers: HashSet<IpAddr>,
    /// The earliest first stamp.
    pub first_ns: Option<i64>,
    /// The latest last stamp.
    pub last_ns: Option<i64>,
}

/// Hosts that were found.
#[derive(Debug, Default)]
pub struct Hosts {
    /// Each with its sums, in no order.
    pub hosts: HashMap<IpAddr, HostSums>,
    /// Ends of flows whose hosts are beyond the limit.
    pub left_out: u64,
}

/// One side of a flow: its columns.
#[derive(Clone, Copy)]
struct Side {
    address: usize,
    bytes: usize,
    packets: usize,
}

/// Where the columns of flows are.
struct Places {
    source: Side,
    destination: Side,
    first: usize,
    last: usize,
    time: Option<usize>,
}

impl Places {
    fn of(schema: Schema) -> Option<Self> {
        let place = |name: &str| schema.iter().position(|field| field.name == name);
        let side = |address, bytes, packets| {
            Some(Side { address: place(address)?, bytes: place(bytes)?, packets: place(packets)? })
        };
        Some(Self {
            source: side("src_ip", "src_bytes", "src_packets")?,
            destination: side("dst_ip", "dst_bytes", "dst_packets")?,
            first: place("first_ns")?,
            last: place("last_ns")?,
            time: time_column(schema),
        })
    }
}

impl HostsQuery {
    /// The columns that it reads besides those of its filter; nothing where they are none of flows.
    #[must_use]
    pub fn columns(schema: Schema) -> Option<Vec<usize>> {
        let Places { source, destination, first, last, .. } = Places::of(schema)?;
        let sides = [source, destination].map(|side| [side.address, side.bytes, side.packets]);
        Some([sides.concat(), vec![first, last]].concat())
    }

    /// Adds up flows; nothing where the columns are none of flows.
    #[must_use]
    pub fn run(&self, chunks: &[RowChunk], schema: Schema) -> Option<Hosts> {
        let places = Places::of(schema)?;
        let mut found = Hosts::default();
        for held in chunks.iter().take_while(|_| !self.filter.is_cancelled()) {
            let rows = held.columns();
            for row in 0..rows.row_count() {
                if self.range.has(rows, places.time, row) && self.filter.has(rows, row) {
                    self.add(&places, held, row, &mut found);
                }
            }
        }
        Some(found)
    }

    fn add(&self, places: &Places, held: &RowChunk, row: usize, found: &mut Hosts) {
        let rows = held.columns();
        let number = |place| match cell(rows, place, row) {
            Cell::Integer(value) => u64::try_from(value).unwrap_or(0),
            _ => 0,
        };
        let address = |side: Side| cell(rows, side.address, row).text()?.parse::<IpAddr>().ok();
        let Places { source, destination, .. } = *places;
        let Some(ends) = address(source).zip(address(destination)) else { return };
        let sides = [(ends.0, ends.1, source, destination), (ends.1, ends.0, destination, source)];
        for (one, peer, sent, received) in sides {
            if found.hosts.len() >= self.host_count_max && !found.hosts.contains_key(&one) {
                found.left_out += 1;
                continue;
            }
            let host = found.hosts.entry(one).or_default();
            // Rows of sensors may have any numbers.
            for (sum, place) in [
                (&mut host.bytes_sent, sent.bytes),
                (&mut host.bytes_received, received.bytes),
                (&mut host.packets_sent, sent.packets),
                (&mut host.packets_received, received.packets),
            ] {
                *sum = sum.saturating_add(number(place));
            }
            host.flow_count += 1;
            if host.peers.len() < self.peer_count_max {
                host.peers.insert(peer);
            }
            let first = cell(rows, places.first, row).time();
            host.first_ns = [host.first_ns, first].into_iter().flatten().min();
            host.last_ns = host.last_ns.max(cell(rows, places.last, row).time());
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::columns::{Columns, Field, Kind, Value};

    use super::*;

    const SCHEMA: Schema = &[
        Field::new("src_ip", Kind::Text, ""),
        Field::new("dst_ip", Kind::Text, ""),
        Field::new("first_ns", Kind::TimestampNs, ""),
        Field::new("last_ns", Kind::TimestampNs, ""),
        Field::new("src_packets", Kind::U64, ""),
        Field::new("src_bytes", Kind::U64, ""),
        Field::new("dst_packets", Kind::U64, ""),
        Field::new("dst_bytes", Kind::U64, ""),
    ];

    #[test]
    fn sums_of_any_numbers_saturate() {
        let mut rows = Columns::new(SCHEMA);
        for bytes in [u64::MAX, 1] {
            let ends = [Value::Str("192.0.2.1"), Value::Str("192.0.2.2")];
            let times = [Value::TimestampNs(1), Value::TimestampNs(2)];
            let counts = [Value::U64(bytes); 4];
            rows.push_row(&[&ends[..], &times, &counts].concat()).unwrap();
        }
        let query = HostsQuery {
            filter: Filter::all(),
            range: TimeRange::default(),
            host_count_max: 10,
            peer_count_max: 10,
        };
        let found = query.run(&[RowChunk::own(rows)], SCHEMA).unwrap();
        assert_eq!(found.hosts.len(), 2);
        for host in found.hosts.values() {
            assert_eq!((host.bytes_sent, host.packets_received), (u64::MAX, u64::MAX));
            assert_eq!((host.flow_count, host.peers.len()), (2, 1));
        }
    }
}
