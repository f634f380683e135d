//! The page: files that were built from `page/` and are part of the program.

use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};

/// A file of the page.
struct File {
    path: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
    /// The same, compressed by gzip.
    compressed: Option<&'static [u8]>,
}

include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// Whether the page was there when the program was built.
pub const HAS_PAGE: bool = !FILES.is_empty();

/// The page with a place for data, of which reports are made.
const REPORT: &str = "/report.html";

/// The text of that.
pub(crate) fn report() -> Option<&'static str> {
    let file = FILES.iter().find(|file| file.path == REPORT)?;
    std::str::from_utf8(file.bytes).ok()
}

/// What is served in place of the page if it was not built.
const NO_PAGE: &str = "This program was built without its page, as Node.js was not installed.\nThe \
    API works without it: /api/v1/openapi.json describes it, /metrics is for Prometheus.\nFor the \
    page, install Node.js 20 or newer and build again.\n";

/// A file of the page, by its path.
pub(crate) fn file(path: &str, headers: &HeaderMap) -> Response {
    let path = if path == "/" { "/index.html" } else { path };
    let served = FILES.iter().filter(|file| file.path != REPORT);
    let Some(file) = served.into_iter().find(|file| file.path == path) else {
        if !HAS_PAGE && path == "/index.html" {
            return (StatusCode::OK, NO_PAGE).into_response();
        }
        return (StatusCode::NOT_FOUND, "not found; the page is at /\n").into_response();
    };
    let accepted = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    let takes_gzip = accepted.is_some_and(|accepted| accepted.contains("gzip"));
    let content_type = [(CONTENT_TYPE, file.content_type), (VARY, "accept-encoding")];
    match file.compressed.filter(|_| takes_gzip) {
        Some(bytes) => (content_type, [(CONTENT_ENCODING, "gzip")], bytes).into_response(),
        None => (content_type, file.bytes).into_response(),
    }
}
