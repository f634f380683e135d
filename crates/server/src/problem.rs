//! What is answered where a request cannot be fulfilled.

use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use store::query::QueryError;
use utoipa::ToSchema;

/// Why a request is not fulfilled.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// What was seen, what was wanted, what to try.
    pub error: String,
    #[serde(skip)]
    #[schema(ignore)]
    pub status: u16,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { error: error.into(), status: status.as_u16() }
    }

    pub(crate) fn bad(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    pub(crate) fn not_found(error: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, error)
    }

    /// Too many queries wait.
    pub(crate) fn busy() -> Self {
        let error = "too many queries wait; try again in a second";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error)
    }

    /// Clients that read slowly hold too much.
    pub(crate) fn full(waiting: usize) -> Self {
        let mib = waiting >> 20;
        let error = format!(
            "{mib} MiB of answers wait for clients that read slowly; try again in a second, or ask \
             for fewer rows"
        );
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error)
    }

    /// A query has no answer in time.
    pub(crate) fn late(within: Duration) -> Self {
        let error = format!(
            "no answer after {within:?}, the time of queries before it included: the query was \
             cancelled; try a narrower time range (from, to)"
        );
        Self::new(StatusCode::GATEWAY_TIMEOUT, error)
    }
}

impl From<QueryError> for Problem {
    fn from(error: QueryError) -> Self {
        Self::bad(error.0)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::BAD_REQUEST);
        let body = serde_json::to_string(&self).unwrap_or_default();
        let mut response = (status, [(CONTENT_TYPE, "application/json")], body).into_response();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
