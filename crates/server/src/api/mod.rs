//! The API, version 1: every path with its parameters and answers, as OpenAPI describes them.

mod flows;
mod health;
mod hosts;
mod packetlog;
mod parameters;
pub(crate) mod state;
mod stream;
mod tables;

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::problem::Problem;
use crate::{guard, metrics, page};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Wirelens",
        description = "Results of a run so far: tables of rows, queries over them, counters. \
                       Everything is read-only. Times are nanoseconds since the epoch as decimal \
                       text; other numbers are numbers.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    tags(
        (name = "run", description = "The run as a whole"),
        (name = "tables", description = "Rows of applications, and queries over them"),
        (name = "packets", description = "Packets stored by the run"),
        (name = "views", description = "Rows of several tables, combined")
    )
)]
struct Description;

/// All that is served.
pub(crate) fn router(app: &App) -> Router {
    let (api, mut description) = OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(state::state))
        .routes(routes!(health::health))
        .routes(routes!(stream::stream))
        .routes(routes!(tables::rows))
        .routes(routes!(tables::groups))
        .routes(routes!(tables::series))
        .routes(routes!(flows::flow))
        .routes(routes!(hosts::hosts))
        .routes(routes!(hosts::host))
        .routes(routes!(packetlog::status))
        .routes(routes!(packetlog::search))
        .routes(routes!(packetlog::pcapng))
        .split_for_parts();
    app.facts.version.clone_into(&mut description.info.version);
    let description = get(move || async move { Json(description) });
    api.route("/api/v1/openapi.json", description)
        .route("/metrics", get(metrics))
        .fallback(other)
        .layer(middleware::from_fn_with_state(app.clone(), guard::check))
        .with_state(app.clone())
}

/// So long those who count have to answer, which they do after the next batch: a scrape shows
/// counts that are no older, unless packets wait.
const COUNTED_WITHIN: Duration = Duration::from_millis(20);

async fn metrics(State(app): State<App>) -> Result<Response, Problem> {
    if !app.store.is_over() {
        app.store.ask_for_counts();
        tokio::time::sleep(COUNTED_WITHIN).await;
    }
    let of = app.clone();
    let text = app.query(move |_| Ok(metrics::text(&of))).await?;
    Ok(([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}

/// The page, or nothing.
async fn other(request: Request) -> Response {
    let path = request.uri().path();
    if path.starts_with("/api/") {
        let wanted = "no such path; /api/v1/openapi.json lists all paths";
        return Problem::not_found(wanted).into_response();
    }
    // Monitors ask by HEAD whether a page is there; the body is left out further down.
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let status = StatusCode::METHOD_NOT_ALLOWED;
        return Problem::new(status, "the page is read by GET or HEAD").into_response();
    }
    page::file(path, request.headers())
}

/// JSON that is text already.
fn json(text: String) -> Response {
    ([(CONTENT_TYPE, "application/json")], text).into_response()
}
