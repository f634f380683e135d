//! Hosts: addresses, with what their flows add up to.

use std::net::IpAddr;

use store::Table;
use store::query::{Filter, HostSums, Hosts, HostsQuery, TimeRange};

use super::{Row, Sheet, Subject};
use crate::screens::HOSTS;
use crate::value::Value;

/// Hosts that are added up at most; the flows of others are left out, and counted.
const HOST_COUNT_MAX: usize = 20_000;

/// Peers that are counted for each host.
const PEERS_MAX: usize = 1_000;

/// Hosts by the flows of a table.
pub(super) fn sheet(table: &Table, filter: &Filter) -> Sheet {
    let columns = HOSTS.to_vec();
    let query = HostsQuery {
        filter: filter.clone(),
        range: TimeRange::default(),
        host_count_max: HOST_COUNT_MAX,
        peer_count_max: PEERS_MAX,
    };
    let Some(Hosts { hosts, left_out }) = query.run(&table.view().chunks(), table.schema()) else {
        let note = String::from("the table flows does not have the columns of both directions");
        return Sheet { columns, note, ..Sheet::default() };
    };
    let note = if left_out > 0 {
        format!("{left_out} flow ends of further hosts are not shown")
    } else {
        String::new()
    };
    let matched = hosts.len();
    let rows = hosts.iter().map(|(address, host)| row(*address, host)).collect();
    Sheet { columns, rows, matched, note, ..Sheet::default() }
}

#[allow(clippy::cast_precision_loss)]
fn row(address: IpAddr, host: &HostSums) -> Row {
    let id = address.to_string();
    let numbers = [
        host.bytes_sent.saturating_add(host.bytes_received),
        host.bytes_sent,
        host.bytes_received,
        host.flow_count,
        host.peers.len() as u64,
        host.packets_sent.saturating_add(host.packets_received),
    ];
    // In the order of the columns; the rate is put in later.
    let mut values = vec![Value::Text(id.clone()), Value::None];
    values.extend(numbers.map(|number| Value::Number(number as f64)));
    Row { subject: Subject::Host(id.clone()), id, values, is_warning: false }
}
