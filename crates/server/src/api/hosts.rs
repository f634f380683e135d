//! Hosts: addresses, with what their flows add up to.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::net::IpAddr;

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use store::query::{Cell, TimeRange, cell, time_column};
use store::{Held, Table};
use utoipa::IntoParams;

use super::flows::{TablesAnswer, has, of_tables};
use super::json;
use super::parameters::{Asked, Named, filter, limit, offset, range};
use super::tables::RowsAnswer;
use crate::app::App;
use crate::problem::Problem;

/// Hosts that are added up at most; the flows of others are left out, and counted.
const HOST_COUNT_MAX: usize = 200_000;

/// Peers that are told apart for each host.
const PEERS_MAX: usize = 10_000;

const COLUMNS: [&str; 9] = [
    "host",
    "bytes_sent",
    "bytes_received",
    "packets_sent",
    "packets_received",
    "flows",
    "peers",
    "first_ns",
    "last_ns",
];

/// Which hosts.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct HostsParameters {
    /// Filter of their flows.
    r#where: Option<String>,
    /// A column of the answer, with `-` the largest first; where it is left out `-bytes`, of both
    /// directions.
    sort: Option<String>,
    /// Hosts in the answer, at most 10,000; 100 where it is left out.
    limit: Option<usize>,
    /// Hosts to skip.
    offset: Option<usize>,
    /// From this time on.
    from: Option<String>,
    /// Before this time.
    to: Option<String>,
}

/// A host's flows, added up.
#[derive(Clone, Default)]
struct Host {
    sent: [u64; 2],
    received: [u64; 2],
    flow_count: u64,
    peers: HashSet<IpAddr>,
    first_ns: Option<i64>,
    last_ns: Option<i64>,
}

impl Host {
    fn number(&self, column: &str) -> Option<i128> {
        let [bytes_sent, packets_sent] = self.sent;
        let [bytes_received, packets_received] = self.received;
        Some(match column {
            "bytes" => i128::from(bytes_sent) + i128::from(bytes_received),
            "bytes_sent" => bytes_sent.into(),
            "bytes_received" => bytes_received.into(),
            "packets_sent" => packets_sent.into(),
            "packets_received" => packets_received.into(),
            "flows" => self.flow_count.into(),
            "peers" => self.peers.len() as i128,
            "first_ns" => self.first_ns?.into(),
            "last_ns" => self.last_ns?.into(),
            _ => return None,
        })
    }
}

/// Hosts by the bytes that they sent and received, from the table `flows`.
#[utoipa::path(
    get,
    path = "/api/v1/hosts",
    tag = "views",
    params(HostsParameters),
    responses(
        (status = 200, description = "Hosts, a row each", body = RowsAnswer),
        (status = 400, description = "A parameter is wrong", body = Problem),
        (status = 404, description = "The run has no table flows", body = Problem),
        (status = 503, description = "Too many queries wait", body = Problem)
    )
)]
pub(super) async fn hosts(
    State(app): State<App>,
    Asked(asked): Asked<HostsParameters>,
) -> Result<Response, Problem> {
    let table = app.table("flows")?;
    let filter = filter(asked.r#where.as_deref(), table.schema())?;
    let range = range(asked.from.as_deref(), asked.to.as_deref())?;
    let sort = asked.sort.filter(|sort| !sort.is_empty()).unwrap_or_else(|| "-bytes".into());
    let (name, is_descending) = sort.strip_prefix('-').map_or((&*sort, false), |name| (name, true));
    if name != "bytes" && !COLUMNS.contains(&name) {
        let wanted = COLUMNS.join(", ");
        return Err(Problem::bad(format!("sort {name:?}; wanted: bytes, {wanted}")));
    }
    let (name, limit, offset) = (name.to_owned(), limit(asked.limit)?, offset(asked.offset)?);
    let sequence = app.store.sequence();
    let query = move || {
        let chunks = table.view().chunks();
        let places = Places::of(&table)
            .ok_or_else(|| Problem::not_found("the table flows has not the columns of Wirelens"))?;
        let wants = |columns: &_, row| filter.has(columns, row);
        let mut found: Vec<_> = places.hosts(&chunks, &range, wants).into_iter().collect();
        let matched = found.len();
        found.sort_by(|(host, one), (other_host, other)| {
            let order = one.number(&name).cmp(&other.number(&name));
            let order = if is_descending { order.reverse() } else { order };
            order.then_with(|| host.cmp(other_host))
        });
        let shown = found.iter().skip(offset).take(limit);
        Ok(answer(shown, matched, sequence))
    };
    Ok(json(app.query(query).await?))
}

fn answer<'a>(
    hosts: impl Iterator<Item = &'a (IpAddr, Host)>,
    matched: usize,
    sequence: u64,
) -> String {
    let mut text = String::from("{\"columns\":[");
    text.push_str(&COLUMNS.map(|name| format!("\"{name}\"")).join(","));
    text.push_str("],\"rows\":[");
    for (at, (address, host)) in hosts.enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{}[\"{address}\"", if at > 0 { "," } else { "" });
        for column in COLUMNS.iter().skip(1) {
            let _ = match host.number(column) {
                Some(ns) if column.ends_with("_ns") => write!(text, ",\"{ns}\""),
                Some(value) => write!(text, ",{value}"),
                None => write!(text, ",null"),
            };
        }
        text.push(']');
    }
    let _ =
        write!(text, "],\"matched\":{matched},\"searched\":{matched},\"sequence\":{sequence}}}");
    text
}

/// Where the columns of flows are.
struct Places {
    ends: [usize; 2],
    bytes: [usize; 2],
    packets: [usize; 2],
    first: usize,
    last: usize,
    time: Option<usize>,
}

impl Places {
    fn of(table: &Table) -> Option<Self> {
        let schema = table.schema();
        let place = |name: &str| schema.iter().position(|field| field.name == name);
        Some(Self {
            ends: [place("src_ip")?, place("dst_ip")?],
            bytes: [place("src_bytes")?, place("dst_bytes")?],
            packets: [place("src_packets")?, place("dst_packets")?],
            first: place("first_ns")?,
            last: place("last_ns")?,
            time: time_column(schema),
        })
    }

    fn hosts(
        &self,
        chunks: &[Held],
        range: &TimeRange,
        wants: impl Fn(&engine::columns::Columns, usize) -> bool,
    ) -> HashMap<IpAddr, Host> {
        let mut hosts: HashMap<IpAddr, Host> = HashMap::new();
        for held in chunks {
            let columns = held.columns();
            let number = |place, row| match cell(columns, place, row) {
                Cell::Integer(value) => u64::try_from(value).unwrap_or(0),
                _ => 0,
            };
            for row in 0..columns.row_count() {
                if !range.has(columns, self.time, row) || !wants(columns, row) {
                    continue;
                }
                let address = |place| cell(columns, place, row).text()?.parse::<IpAddr>().ok();
                let ends = self.ends.map(address);
                for (side, other) in [(0, 1), (1, 0)] {
                    let (Some(one), Some(peer)) = (ends[side], ends[other]) else { continue };
                    if hosts.len() >= HOST_COUNT_MAX && !hosts.contains_key(&one) {
                        continue;
                    }
                    let host = hosts.entry(one).or_default();
                    for (sum, place) in host.sent.iter_mut().zip([self.bytes, self.packets]) {
                        *sum += number(place[side], row);
                    }
                    for (sum, place) in host.received.iter_mut().zip([self.bytes, self.packets]) {
                        *sum += number(place[other], row);
                    }
                    host.flow_count += 1;
                    if host.peers.len() < PEERS_MAX {
                        host.peers.insert(peer);
                    }
                    let first = cell(columns, self.first, row).time();
                    host.first_ns = [host.first_ns, first].into_iter().flatten().min();
                    host.last_ns = host.last_ns.max(cell(columns, self.last, row).time());
                }
            }
        }
        hosts
    }
}

/// One host: what every table says of it.
#[utoipa::path(
    get,
    path = "/api/v1/hosts/{address}",
    tag = "views",
    params(("address" = String, Path, description = "IP address of the host")),
    responses(
        (status = 200, description = "Rows by table", body = TablesAnswer),
        (status = 400, description = "No address", body = Problem),
        (status = 404, description = "No table has rows of it", body = Problem),
        (status = 503, description = "Too many queries wait", body = Problem)
    )
)]
pub(super) async fn host(
    State(app): State<App>,
    Named(address): Named,
) -> Result<Response, Problem> {
    let address: IpAddr =
        address.parse().map_err(|_| Problem::bad(format!("{address:?}; wanted: an IP address")))?;
    let of = app.clone();
    let query = move || {
        let is_of_hosts =
            |table: &Table| ["src_ip", "dst_ip", "host"].iter().any(|column| has(table, column));
        let filter = |table: &Table| is_of_hosts(table).then(|| format!("ip == {address}"));
        of_tables(&of.store, "host", &address.to_string(), filter)
    };
    Ok(json(app.query(query).await?))
}
