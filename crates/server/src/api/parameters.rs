//! Parameters that several requests share, and how they are read.

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use engine::columns::Schema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use store::query::{Filter, Measure, TimeRange, time};
use utoipa::IntoParams;

use crate::json::all;
use crate::problem::Problem;

/// Rows or groups in one answer at most.
pub(super) const LIMIT_MAX: usize = 10_000;

/// The same where nothing is asked for.
const LIMIT_USUAL: usize = 100;

/// Rows that may be skipped.
const OFFSET_MAX: usize = 10_000_000;

/// Columns that one request may name.
const COLUMNS_MAX: usize = 64;

/// Parameters after the question mark; what is wrong with them is said in our words.
pub(super) struct QueryParameters<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryParameters<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = Query::<T>::from_request_parts(parts, state).await;
        let wrong = |error: QueryRejection| Problem::bad(error.body_text());
        read.map(|Query(asked)| Self(asked)).map_err(wrong)
    }
}

/// Which time.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RangeParameters {
    /// From this time on, of stored rows too.
    pub from: Option<String>,
    /// Before this time.
    pub to: Option<String>,
}

/// A part of the path.
pub(super) struct PathName(pub String);

impl<S: Send + Sync> FromRequestParts<S> for PathName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = Path::<String>::from_request_parts(parts, state).await;
        let wrong = |error: PathRejection| Problem::bad(error.body_text());
        read.map(|Path(name)| Self(name)).map_err(wrong)
    }
}

pub(super) fn filter(text: Option<&str>, schema: Schema) -> Result<Filter, Problem> {
    Ok(text.map_or_else(|| Ok(Filter::all()), |text| Filter::new(text, schema))?)
}

pub(super) fn range(from: Option<&str>, to: Option<&str>) -> Result<TimeRange, Problem> {
    Ok(TimeRange { from_ns: moment("from", from)?, to_ns: moment("to", to)? })
}

fn moment(name: &str, text: Option<&str>) -> Result<Option<i64>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let wanted = "nanoseconds since the epoch, or a time in UTC such as 2026-11-25T13:00:00Z";
    let ns = time(text).ok_or_else(|| Problem::bad(format!("{name} {text:?}; wanted: {wanted}")));
    ns.map(Some)
}

pub(super) fn limit(asked: Option<usize>) -> Result<usize, Problem> {
    match asked {
        None => Ok(LIMIT_USUAL),
        Some(limit) if limit <= LIMIT_MAX => Ok(limit),
        Some(limit) => Err(Problem::bad(format!("limit {limit}; wanted: {LIMIT_MAX} at most"))),
    }
}

pub(super) fn offset(asked: Option<usize>) -> Result<usize, Problem> {
    match asked.unwrap_or(0) {
        offset if offset <= OFFSET_MAX => Ok(offset),
        offset => Err(Problem::bad(format!("offset {offset}; wanted: {OFFSET_MAX} at most"))),
    }
}

/// Columns by their names; all of them where none is named.
pub(super) fn columns(text: Option<&str>, schema: Schema) -> Result<Vec<Measure>, Problem> {
    let Some(text) = text else { return Ok(all(schema)) };
    let columns = Measure::list(schema, text)?;
    check_count("columns", columns.len())?;
    Ok(columns)
}

/// Refuses more columns than one request may name.
pub(super) fn check_count(what: &str, count: usize) -> Result<(), Problem> {
    if count > COLUMNS_MAX {
        return Err(Problem::bad(format!("{count} {what}; wanted: {COLUMNS_MAX} at most")));
    }
    Ok(())
}
