//! Hosts: addresses, with what their flows add up to.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use store::Table;
use store::query::{Filter, cell};

use super::{Row, Sheet, Subject, measure};
use crate::screens::HOSTS;
use crate::value::Value;

/// Hosts that are added up at most; the flows of others are left out, and counted.
const HOST_COUNT_MAX: usize = 20_000;

/// Peers that are counted for each host.
const PEERS_MAX: usize = 1_000;

#[derive(Default)]
struct Host {
    sent: f64,
    received: f64,
    packets: f64,
    flow_count: f64,
    peers: HashSet<IpAddr>,
}

/// Hosts by the flows of a table.
pub(super) fn sheet(table: &Table, filter: &Filter) -> Sheet {
    let columns = HOSTS.to_vec();
    let place = |name: &str| table.schema().iter().position(|field| field.name == name);
    let wanted = ["src_ip", "dst_ip", "src_bytes", "dst_bytes"].map(place);
    let ([Some(source), Some(destination), Some(sent), Some(received)], Some(packets)) =
        (wanted, measure(table, "packets"))
    else {
        let note = String::from("the table flows has no columns of both sides");
        return Sheet { columns, note, ..Sheet::default() };
    };
    let mut hosts: HashMap<IpAddr, Host> = HashMap::new();
    let mut left_out = 0_u64;
    for held in table.view().chunks() {
        let rows = held.columns();
        for at in (0..rows.row_count()).filter(|&at| filter.has(rows, at)) {
            let address = |place| cell(rows, place, at).text()?.parse::<IpAddr>().ok();
            let number = |place| cell(rows, place, at).number().unwrap_or(0.0);
            let bytes = [number(sent), number(received)];
            let ends = [address(source), address(destination)];
            for (one, peer, sent, received) in
                [(ends[0], ends[1], bytes[0], bytes[1]), (ends[1], ends[0], bytes[1], bytes[0])]
            {
                let Some(one) = one else { continue };
                if hosts.len() >= HOST_COUNT_MAX && !hosts.contains_key(&one) {
                    left_out += 1;
                    continue;
                }
                let host = hosts.entry(one).or_default();
                host.sent += sent;
                host.received += received;
                host.packets += packets.cell(rows, at).number().unwrap_or(0.0);
                host.flow_count += 1.0;
                if host.peers.len() < PEERS_MAX {
                    host.peers.extend(peer);
                }
            }
        }
    }
    let note = if left_out > 0 {
        format!("{left_out} flow ends of further hosts are left out")
    } else {
        String::new()
    };
    let matched = hosts.len();
    let rows = hosts.into_iter().map(|(address, host)| host.row(address)).collect();
    Sheet { columns, rows, matched, note, ..Sheet::default() }
}

impl Host {
    fn row(self, address: IpAddr) -> Row {
        let id = address.to_string();
        #[allow(clippy::cast_precision_loss)]
        let peers = self.peers.len() as f64;
        let numbers = [
            self.sent + self.received,
            self.sent,
            self.received,
            self.flow_count,
            peers,
            self.packets,
        ];
        // In the order of the columns; the rate is put in later.
        let mut values = vec![Value::Text(id.clone()), Value::None];
        values.extend(numbers.map(Value::Number));
        Row { subject: Subject::Host(id.clone()), id, values, is_warning: false }
    }
}
