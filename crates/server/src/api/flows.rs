//! One flow: what every table says of it.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use store::Table;
use store::query::{Cancellation, Filter, Order, RowsQuery, TimeRange};
use utoipa::{IntoParams, ToSchema};

use super::json;
use super::parameters::{PathName, QueryParameters};
use crate::app::App;
use crate::json as write;
use crate::problem::Problem;

/// Rows of each table at most.
const ROWS_MAX: usize = 1_000;

/// Rows by table.
#[derive(ToSchema)]
#[allow(dead_code, reason = "the schema of what is written as text")]
pub(super) struct TablesAnswer {
    /// What was asked for.
    id: String,
    /// For each table that says something of it: columns and rows.
    tables: serde_json::Value,
}

/// Which of the flows of a Community ID.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct FlowParameters {
    /// First time stamp of the flow, nanoseconds since the epoch: a connection may come again.
    /// Where its rows are no longer in memory it is looked for from there on.
    first_ns: Option<String>,
}

/// One flow: what every table says of it.
#[utoipa::path(
    get,
    path = "/api/v1/flows/{community_id}",
    tag = "views",
    params(
        ("community_id" = String, Path, description = "Community ID v1, percent-encoded"),
        FlowParameters
    ),
    responses(
        (status = 200, description = "Rows by table", body = TablesAnswer),
        (status = 400, description = "A parameter is wrong", body = Problem),
        (status = 404, description = "No table has rows of it", body = Problem),
        (status = 503, description = "Too many queries or bytes of answers wait", body = Problem),
        (status = 504, description = "No answer in time", body = Problem)
    )
)]
pub(super) async fn flow(
    State(app): State<App>,
    PathName(id): PathName,
    QueryParameters(asked): QueryParameters<FlowParameters>,
) -> Result<Response, Problem> {
    let wrong = |_| Problem::bad("first_ns: wanted nanoseconds since the epoch");
    let first_ns = asked.first_ns.as_deref().map(str::parse::<i64>).transpose().map_err(wrong)?;
    let of = app.clone();
    let query = move |asked: &Cancellation| {
        let has_first = |table: &Table| has(table, "first_ns");
        let filter = |table: &Table| {
            has(table, "community_id").then(|| {
                let id = format!("community_id == {}", quoted(&id));
                match first_ns {
                    Some(ns) if has_first(table) => format!("{id} && first_ns == {ns}"),
                    _ => id,
                }
            })
        };
        let in_memory = of_tables(&of, "community_id", &id, (TimeRange::default(), asked), filter);
        match in_memory {
            // It may have been stored.
            Err(_) if of.facts.history.is_some() => {
                let range = TimeRange { from_ns: Some(first_ns.unwrap_or(i64::MIN)), to_ns: None };
                of_tables(&of, "community_id", &id, (range, asked), filter)
            }
            found => found,
        }
    };
    Ok(json(app.query(query).await?))
}

pub(super) fn has(table: &Table, column: &str) -> bool {
    table.schema().iter().any(|field| field.name == column)
}

/// A value for a filter.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The rows of all tables for which there is a filter.
pub(super) fn of_tables(
    app: &App,
    key: &str,
    value: &str,
    (range, asked): (TimeRange, &Cancellation),
    filter: impl Fn(&Table) -> Option<String>,
) -> Result<String, Problem> {
    let mut text = format!("{{\"{key}\":");
    write::push_text(&mut text, value);
    text.push_str(",\"tables\":{");
    let mut is_first = true;
    for table in app.store.tables() {
        let Some(filter) = filter(&table) else { continue };
        let schema = table.schema();
        let query = RowsQuery {
            filter: Filter::new(&filter, schema)?.until(asked),
            range,
            order: Vec::<Order>::new(),
            offset: 0,
            limit: ROWS_MAX,
        };
        let found = app.rows(&table, &query);
        if found.is_empty() {
            continue;
        }
        if !is_first {
            text.push(',');
        }
        is_first = false;
        write::push_text(&mut text, table.name());
        text.push(':');
        text.push_str(&write::table(&write::all(schema), found.each()));
    }
    text.push_str("}}");
    if is_first {
        return Err(Problem::not_found(format!(
            "no rows of {value:?}; it may be older than the rows kept, or outside the requested \
             time range"
        )));
    }
    Ok(text)
}
