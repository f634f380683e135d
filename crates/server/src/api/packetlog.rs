//! Packets stored by the run: status, search, download.

use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use store::packets::{PacketLog, PacketQuery, PacketRow};
use store::query::Cancellation;
use utoipa::IntoParams;

use super::json;
use super::parameters::{QueryParameters, limit, range};
use super::tables::RowsAnswer;
use crate::app::App;
use crate::problem::Problem;

/// Which packets.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PacketsParameters {
    /// Address of source or destination.
    host: Option<String>,
    /// Community ID, or protocol, address, port, address and port with commas between them.
    flow: Option<String>,
    /// Class.
    class: Option<String>,
    /// From this time on.
    from: Option<String>,
    /// Before this time.
    to: Option<String>,
    /// Packets in the answer, at most 10,000; 100 where it is left out. Not for a download.
    limit: Option<usize>,
}

impl PacketsParameters {
    fn query(self) -> Result<PacketQuery, Problem> {
        let range = range(self.from.as_deref(), self.to.as_deref())?;
        let text = |text: Option<String>| text.filter(|text| !text.is_empty());
        let host = text(self.host).map(|text| {
            text.parse().map_err(|_| Problem::bad(format!("host {text:?}; wanted: an IP address")))
        });
        Ok(PacketQuery {
            host: host.transpose()?,
            flow: text(self.flow),
            class: text(self.class),
            from_ns: range.from_ns,
            to_ns: range.to_ns,
            ..PacketQuery::default()
        })
    }
}

fn log(app: &App) -> Result<Arc<dyn PacketLog>, Problem> {
    let none = "this run stores no packets; add a [packetlog] table to wirelens.toml";
    app.facts.packet_log.clone().ok_or_else(|| Problem::not_found(none))
}

/// Mode, counts and classes of the packet log; null where the run keeps no packets.
#[utoipa::path(
    get,
    path = "/api/v1/packetlog",
    tag = "packets",
    responses(
        (status = 200, description = "The log, or null", body = serde_json::Value),
        (status = 503, description = "Too many queries or bytes of answers wait", body = Problem),
        (status = 504, description = "No answer in time", body = Problem)
    )
)]
pub(super) async fn status(State(app): State<App>) -> Result<Response, Problem> {
    let Ok(log) = log(&app) else { return Ok(json(String::from("null"))) };
    let status = app.query(move |_| log.status().map_err(Problem::not_found)).await?;
    Ok(json(status))
}

/// Packets by host, flow, class and time, the earliest first.
#[utoipa::path(
    get,
    path = "/api/v1/packetlog/search",
    tag = "packets",
    params(PacketsParameters),
    responses(
        (status = 200, description = "Packets, a row each", body = RowsAnswer),
        (status = 400, description = "A parameter is wrong", body = Problem),
        (status = 404, description = "The run stores no packets", body = Problem),
        (status = 503, description = "Too many queries or bytes of answers wait", body = Problem),
        (status = 504, description = "No answer in time", body = Problem)
    )
)]
pub(super) async fn search(
    State(app): State<App>,
    QueryParameters(asked): QueryParameters<PacketsParameters>,
) -> Result<Response, Problem> {
    let limit = limit(asked.limit)?;
    let mut query = asked.query()?;
    let log = log(&app)?;
    let found = move |asked: &Cancellation| {
        query.cancellation = asked.clone();
        log.rows(&query, limit).map_err(Problem::bad)
    };
    let (rows, is_cut) = app.query(found).await?;
    let row = |row: &PacketRow| {
        let (ends, protocol) = row.ends.clone().unzip();
        let [source, destination] = ends.map_or([None; 2], |ends| ends.map(Some));
        let port = |end: Option<(std::net::IpAddr, u16)>| end.map(|(_, port)| port);
        let address = |end: Option<(std::net::IpAddr, u16)>| end.map(|(address, _)| address);
        json!([
            row.time_ns.to_string(),
            address(source),
            port(source),
            address(destination),
            port(destination),
            protocol,
            row.wire_len,
            row.kept_len,
            row.class
        ])
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    let matched = rows.len();
    let columns = [
        "time_ns", "src_ip", "src_port", "dst_ip", "dst_port", "protocol", "length", "kept",
        "class",
    ];
    let answer = json!({
        "columns": columns, "rows": rows, "matched": matched, "searched": matched,
        "is_cut": is_cut, "sequence": app.store.sequence(),
    });
    Ok(json(answer.to_string()))
}

/// The same packets as pcapng, up to 64 MiB.
#[utoipa::path(
    get,
    path = "/api/v1/packetlog/pcapng",
    tag = "packets",
    params(PacketsParameters),
    responses(
        (status = 200, description = "Packets", content_type = "application/x-pcapng"),
        (status = 400, description = "A parameter is wrong, or too many packets", body = Problem),
        (status = 404, description = "The run stores no packets", body = Problem),
        (status = 503, description = "Too many queries or bytes of answers wait", body = Problem),
        (status = 504, description = "No answer in time", body = Problem)
    )
)]
pub(super) async fn pcapng(
    State(app): State<App>,
    QueryParameters(asked): QueryParameters<PacketsParameters>,
) -> Result<Response, Problem> {
    let mut query = asked.query()?;
    let log = log(&app)?;
    let found = move |asked: &Cancellation| {
        query.cancellation = asked.clone();
        log.pcapng(&query).map_err(Problem::bad)
    };
    let bytes = app.query(found).await?;
    let headers = [
        (CONTENT_TYPE, "application/x-pcapng"),
        (CONTENT_DISPOSITION, "attachment; filename=\"wirelens.pcapng\""),
    ];
    Ok((headers, bytes).into_response())
}
