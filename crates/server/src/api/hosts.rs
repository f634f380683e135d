//! Hosts: addresses, with what their flows add up to.

use std::fmt::Write as _;
use std::net::IpAddr;

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use store::Table;
use store::query::{Cancellation, HostSums, HostsQuery};
use utoipa::IntoParams;

use super::flows::{TablesAnswer, has, of_tables};
use super::json;
use super::parameters::{PathName, QueryParameters, RangeParameters, filter, limit, offset, range};
use super::tables::RowsAnswer;
use crate::app::App;
use crate::problem::Problem;

/// Hosts that are added up at most; the flows of others are left out, and counted.
const HOST_COUNT_MAX: usize = 200_000;

/// Peers that are counted for each host.
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
    /// From this time on, of stored rows too.
    from: Option<String>,
    /// Before this time.
    to: Option<String>,
}

/// The value of a column of the answer; `bytes` is of both directions.
fn number(host: &HostSums, column: &str) -> Option<i128> {
    Some(match column {
        "bytes" => i128::from(host.bytes_sent) + i128::from(host.bytes_received),
        "bytes_sent" => host.bytes_sent.into(),
        "bytes_received" => host.bytes_received.into(),
        "packets_sent" => host.packets_sent.into(),
        "packets_received" => host.packets_received.into(),
        "flows" => host.flow_count.into(),
        "peers" => host.peers.len() as i128,
        "first_ns" => host.first_ns?.into(),
        "last_ns" => host.last_ns?.into(),
        _ => return None,
    })
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
        (status = 503, description = "Too many queries or bytes of answers wait", body = Problem),
        (status = 504, description = "No answer in time", body = Problem)
    )
)]
pub(super) async fn hosts(
    State(app): State<App>,
    QueryParameters(asked): QueryParameters<HostsParameters>,
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
    let mut adding =
        HostsQuery { filter, range, host_count_max: HOST_COUNT_MAX, peer_count_max: PEERS_MAX };
    let of = app.clone();
    let query = move |asked: &Cancellation| {
        adding.filter = adding.filter.until(asked);
        let columns = HostsQuery::columns(table.schema());
        let chunks = of.chunks(&table, adding.range, &adding.filter, columns);
        let found = adding.run(&chunks, table.schema());
        let found = found.ok_or_else(|| {
            Problem::not_found(
                "the table flows does not have the columns of \
                                               Wirelens",
            )
        })?;
        let mut found: Vec<_> = found.hosts.into_iter().collect();
        let matched = found.len();
        found.sort_by(|(host, one), (other_host, other)| {
            let order = number(one, &name).cmp(&number(other, &name));
            let order = if is_descending { order.reverse() } else { order };
            order.then_with(|| host.cmp(other_host))
        });
        let shown = found.iter().skip(offset).take(limit);
        Ok(answer(shown, matched, sequence))
    };
    Ok(json(app.query(query).await?))
}

fn answer<'a>(
    hosts: impl Iterator<Item = &'a (IpAddr, HostSums)>,
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
            let _ = match number(host, column) {
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

/// One host: what every table says of it.
#[utoipa::path(
    get,
    path = "/api/v1/hosts/{address}",
    tag = "views",
    params(("address" = String, Path, description = "IP address of the host"), RangeParameters),
    responses(
        (status = 200, description = "Rows by table", body = TablesAnswer),
        (status = 400, description = "No address", body = Problem),
        (status = 404, description = "No table has rows of it", body = Problem),
        (status = 503, description = "Too many queries or bytes of answers wait", body = Problem),
        (status = 504, description = "No answer in time", body = Problem)
    )
)]
pub(super) async fn host(
    State(app): State<App>,
    PathName(address): PathName,
    QueryParameters(asked): QueryParameters<RangeParameters>,
) -> Result<Response, Problem> {
    let address: IpAddr =
        address.parse().map_err(|_| Problem::bad(format!("{address:?}; wanted: an IP address")))?;
    let range = range(asked.from.as_deref(), asked.to.as_deref())?;
    let of = app.clone();
    let query = move |asked: &Cancellation| {
        let is_of_hosts =
            |table: &Table| ["src_ip", "dst_ip", "host"].iter().any(|column| has(table, column));
        let filter = |table: &Table| is_of_hosts(table).then(|| format!("ip == {address}"));
        of_tables(&of, "host", &address.to_string(), (range, asked), filter)
    };
    Ok(json(app.query(query).await?))
}
