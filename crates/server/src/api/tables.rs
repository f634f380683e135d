//! Queries over one table: rows, groups, values over time.

use axum::extract::State;
use axum::response::Response;
use engine::columns::Schema;
use serde::Deserialize;
use store::query::{
    Aggregate, Cancellation, GroupsQuery, Measure, Order, OrderBy, RowsQuery, SeriesQuery,
};
use utoipa::{IntoParams, ToSchema};

use super::json;
use super::parameters::{
    PathName, QueryParameters, check_count, columns, filter, limit, offset, range,
};
use crate::app::App;
use crate::json as write;
use crate::problem::Problem;

/// Series in one answer at most.
const SERIES_MAX: usize = 50;

/// Rows of a table.
#[derive(ToSchema)]
#[allow(dead_code, reason = "the schema of what is written as text")]
pub(super) struct RowsAnswer {
    /// Names of the columns.
    columns: Vec<String>,
    /// Rows, each with a value for each column.
    rows: Vec<Vec<serde_json::Value>>,
    /// Rows that were wanted, of which these are some.
    matched: u64,
    /// Rows that were searched.
    searched: u64,
    /// As in the state.
    sequence: u64,
}

/// Values over time.
#[derive(ToSchema)]
#[allow(dead_code, reason = "the schema of what is written as text")]
pub(super) struct SeriesAnswer {
    /// When each step begins, nanoseconds since the epoch.
    times: Vec<String>,
    /// How long a step is.
    step_ns: u64,
    /// The series, the largest first, the rest as `other`.
    series: Vec<OneSeries>,
    /// Rows that were wanted.
    matched: u64,
    /// Rows that were searched.
    searched: u64,
}

/// A series.
#[derive(ToSchema)]
#[allow(dead_code, reason = "the schema of what is written as text")]
struct OneSeries {
    /// Its key.
    name: serde_json::Value,
    /// Its value in each step; null where there is none.
    values: Vec<Option<f64>>,
}

/// Which rows.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RowsParameters {
    /// Filter, such as `dst_port == 443 && bytes > 1M`.
    r#where: Option<String>,
    /// Columns by which rows are put in order, with `-` the largest first: `-src_bytes,first_ns`;
    /// 8 at most.
    sort: Option<String>,
    /// Rows in the answer, at most 10,000; 100 where it is left out.
    limit: Option<usize>,
    /// Rows to skip.
    offset: Option<usize>,
    /// From this time on: nanoseconds since the epoch, or RFC 3339. Stored rows are examined,
    /// too, where the run has a history; without it rows in memory alone.
    from: Option<String>,
    /// Before this time.
    to: Option<String>,
    /// Columns, with commas between them; all where it is left out.
    columns: Option<String>,
}

/// Rows of a table, the latest first unless they are put in order.
#[utoipa::path(
    get,
    path = "/api/v1/tables/{table}",
    tag = "tables",
    params(("table" = String, Path, description = "Name of the table"), RowsParameters),
    responses(
        (status = 200, description = "Rows", body = RowsAnswer),
        (status = 400, description = "A parameter is wrong", body = Problem),
        (status = 404, description = "No such table", body = Problem),
        (status = 503, description = "Too many queries or bytes of answers wait", body = Problem),
        (status = 504, description = "No answer in time", body = Problem)
    )
)]
pub(super) async fn rows(
    State(app): State<App>,
    PathName(table): PathName,
    QueryParameters(asked): QueryParameters<RowsParameters>,
) -> Result<Response, Problem> {
    let table = app.table(&table)?;
    let schema = table.schema();
    let mut query = RowsQuery {
        filter: filter(asked.r#where.as_deref(), schema)?,
        range: range(asked.from.as_deref(), asked.to.as_deref())?,
        order: Order::read(asked.sort.as_deref().unwrap_or_default(), schema)?,
        offset: offset(asked.offset)?,
        limit: limit(asked.limit)?,
    };
    let wanted = columns(asked.columns.as_deref(), schema)?;
    let sequence = app.store.sequence();
    let of = app.clone();
    let found = move |asked: &Cancellation| {
        query.filter = query.filter.until(asked);
        Ok(write::rows(&of.rows(&table, &query), &wanted, sequence))
    };
    Ok(json(app.query(found).await?))
}

/// How rows are put together.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct GroupsParameters {
    /// Columns that rows of a group have in common, with commas between them.
    by: String,
    /// Columns to sum; 64 at most, together with those of `max`, `min` and `mean`.
    sum: Option<String>,
    /// Columns of which the largest value is wanted.
    max: Option<String>,
    /// Columns of which the smallest value is wanted.
    min: Option<String>,
    /// Columns of which the mean is wanted.
    mean: Option<String>,
    /// Filter.
    r#where: Option<String>,
    /// A column of the answer, with `-` the largest first; `-rows` where it is left out.
    sort: Option<String>,
    /// Groups in the answer, at most 10,000; 100 where it is left out.
    limit: Option<usize>,
    /// Groups to skip.
    offset: Option<usize>,
    /// From this time on, of stored rows too.
    from: Option<String>,
    /// Before this time.
    to: Option<String>,
}

/// Rows of a table by some columns, with sums, largest, smallest or mean values.
#[utoipa::path(
    get,
    path = "/api/v1/tables/{table}/groups",
    tag = "tables",
    params(("table" = String, Path, description = "Name of the table"), GroupsParameters),
    responses(
        (status = 200, description = "Groups, a row each", body = RowsAnswer),
        (status = 400, description = "A parameter is wrong", body = Problem),
        (status = 404, description = "No such table", body = Problem),
        (status = 503, description = "Too many queries or bytes of answers wait", body = Problem),
        (status = 504, description = "No answer in time", body = Problem)
    )
)]
pub(super) async fn groups(
    State(app): State<App>,
    PathName(table): PathName,
    QueryParameters(asked): QueryParameters<GroupsParameters>,
) -> Result<Response, Problem> {
    let table = app.table(&table)?;
    let schema = table.schema();
    let aggregates = aggregates(&asked, schema)?;
    let by = without_repeats(columns(Some(&asked.by), schema)?);
    if by.is_empty() {
        return Err(Problem::bad("by: empty; wanted: a column, such as by=src_ip"));
    }
    let mut query = GroupsQuery {
        filter: filter(asked.r#where.as_deref(), schema)?,
        range: range(asked.from.as_deref(), asked.to.as_deref())?,
        by,
        aggregates,
        order: (OrderBy::Rows, true),
        offset: offset(asked.offset)?,
        limit: limit(asked.limit)?,
    };
    if let Some(sort) = asked.sort.as_deref().filter(|sort| !sort.is_empty()) {
        query.order = query.order(sort)?;
    }
    let sequence = app.store.sequence();
    let of = app.clone();
    let found = move |asked: &Cancellation| {
        query.filter = query.filter.until(asked);
        let found = of.groups(&table, &query);
        Ok(write::groups(&found, &query.names(), sequence))
    };
    Ok(json(app.query(found).await?))
}

/// What is put together of each group. All four lists together are bounded, as each group has a
/// value of each of them.
fn aggregates(
    asked: &GroupsParameters,
    schema: Schema,
) -> Result<Vec<(Aggregate, Measure)>, Problem> {
    let mut aggregates = Vec::new();
    for (aggregate, names) in [
        (Aggregate::Sum, &asked.sum),
        (Aggregate::Max, &asked.max),
        (Aggregate::Min, &asked.min),
        (Aggregate::Mean, &asked.mean),
    ] {
        let Some(names) = names else { continue };
        let columns = without_repeats(columns(Some(names), schema)?);
        aggregates.extend(columns.into_iter().map(|column| (aggregate, column)));
    }
    check_count("columns of sum, max, min and mean", aggregates.len())?;
    Ok(aggregates)
}

fn without_repeats(columns: Vec<Measure>) -> Vec<Measure> {
    let mut seen = Vec::new();
    for column in columns {
        if !seen.contains(&column) {
            seen.push(column);
        }
    }
    seen
}

/// Which values.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SeriesParameters {
    /// Column; the count of rows where it is left out.
    value: Option<String>,
    /// How values of a step are put together: sum, max, min, mean or count; sum where it is left
    /// out.
    aggregate: Option<String>,
    /// A series for each value of this column.
    by: Option<String>,
    /// So many series, the largest; 8 where it is left out.
    series: Option<usize>,
    /// Length of a step in seconds, such as `10` or `10s`; chosen where it is left out.
    step: Option<String>,
    /// Filter.
    r#where: Option<String>,
    /// From this time on, of stored rows too.
    from: Option<String>,
    /// Before this time.
    to: Option<String>,
}

/// Values of a table over time.
#[utoipa::path(
    get,
    path = "/api/v1/tables/{table}/series",
    tag = "tables",
    params(("table" = String, Path, description = "Name of the table"), SeriesParameters),
    responses(
        (status = 200, description = "Series", body = SeriesAnswer),
        (status = 400, description = "A parameter is wrong", body = Problem),
        (status = 404, description = "No such table", body = Problem),
        (status = 503, description = "Too many queries or bytes of answers wait", body = Problem),
        (status = 504, description = "No answer in time", body = Problem)
    )
)]
pub(super) async fn series(
    State(app): State<App>,
    PathName(table): PathName,
    QueryParameters(asked): QueryParameters<SeriesParameters>,
) -> Result<Response, Problem> {
    let table = app.table(&table)?;
    let schema = table.schema();
    let one =
        |name: &Option<String>| name.as_deref().map(|name| Measure::find(schema, name)).transpose();
    let series_count = match asked.series.unwrap_or(8) {
        count if count <= SERIES_MAX => count,
        count => {
            let wanted = format!("series {count}; wanted: {SERIES_MAX} at most");
            return Err(Problem::bad(wanted));
        }
    };
    let mut query = SeriesQuery {
        filter: filter(asked.r#where.as_deref(), schema)?,
        range: range(asked.from.as_deref(), asked.to.as_deref())?,
        value: one(&asked.value)?,
        aggregate: aggregate(asked.aggregate.as_deref())?,
        by: one(&asked.by)?,
        series_count,
        step_ns: step(asked.step.as_deref())?,
    };
    let name = asked.value.unwrap_or_else(|| String::from("rows"));
    let of = app.clone();
    let found = move |asked: &Cancellation| {
        query.filter = query.filter.until(asked);
        Ok(write::series(&of.series(&table, &query), &name, query.by.is_some()))
    };
    Ok(json(app.query(found).await?))
}

fn aggregate(name: Option<&str>) -> Result<Aggregate, Problem> {
    let name = name.unwrap_or("sum");
    Aggregate::named(name).ok_or_else(|| {
        let names: Vec<_> = Aggregate::ALL.iter().map(|(name, _)| *name).collect();
        Problem::bad(format!("aggregate {name:?}; wanted one of: {}", names.join(", ")))
    })
}

fn step(text: Option<&str>) -> Result<Option<i64>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let seconds: Option<f64> = text.trim_end_matches('s').parse().ok();
    // A millisecond to a year.
    let seconds = seconds.filter(|seconds| (0.001..=31_536_000.0).contains(seconds));
    #[allow(clippy::cast_possible_truncation)]
    let step = seconds.map(|seconds| (seconds * 1e9) as i64);
    let wanted = || Problem::bad(format!("step {text:?}; wanted: seconds, such as 10s or 0.5s"));
    step.map(Some).ok_or_else(wanted)
}
