//! What every request has to pass, and what every answer carries.

use std::net::IpAddr;
use std::sync::atomic::Ordering;

use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, LOCATION, REFERRER_POLICY,
    SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::problem::Problem;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' data:; connect-src 'self'; manifest-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'";

/// How its name begins. The port follows: a browser sends the cookies of a host to all of its
/// ports, and of two runs on one machine either has its own.
const COOKIE_NAME: &str = "wirelens";

/// Lets a request through, or says why not.
pub(crate) async fn check(State(app): State<App>, request: Request, next: Next) -> Response {
    // Who scrapes asks for counts alone, and only then.
    app.served.requests.fetch_add(1, Ordering::Relaxed);
    let mut response = match admit(&app, &request) {
        Ok(None) => {
            if request.uri().path() != "/metrics" {
                app.note_look();
            }
            let answer = next.run(request).await;
            match app.answer_bytes.count(answer, &app.limits).await {
                Some(answer) => answer,
                None => {
                    app.served.bytes_refused.fetch_add(1, Ordering::Relaxed);
                    Problem::full(app.answer_bytes.waiting()).into_response()
                }
            }
        }
        Ok(Some(redirect)) => redirect,
        Err(problem) => {
            app.served.refused.fetch_add(1, Ordering::Relaxed);
            problem.into_response()
        }
    };
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    set(CONTENT_SECURITY_POLICY, POLICY);
    set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(REFERRER_POLICY, "no-referrer");
    set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    set(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    set(CACHE_CONTROL, "no-store");
    response
}

/// Nothing where the request may continue, or where it is sent instead.
fn admit(app: &App, request: &Request) -> Result<Option<Response>, Problem> {
    let headers = request.headers();
    check_host(app, headers)?;
    check_site(request.uri().path(), headers)?;
    let Some(token) = app.token.as_deref() else { return Ok(None) };
    let bearer = header(headers, AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
    let cookies = header(headers, COOKIE).into_iter().flat_map(|all| all.split(';'));
    let cookies = cookies.filter_map(|one| {
        let (name, value) = one.trim().split_once('=')?;
        name.starts_with(COOKIE_NAME).then_some(value)
    });
    if bearer.into_iter().chain(cookies).any(|seen| is_same(seen, token)) {
        return Ok(None);
    }
    // The address with the token is typed or clicked once; from then on a cookie carries it.
    let typed = request
        .uri()
        .query()
        .and_then(|query| query.split('&').find_map(|part| part.strip_prefix("token=")));
    if request.uri().path() == "/" && typed.is_some_and(|seen| is_same(seen, token)) {
        return Ok(Some(welcome(token, app)));
    }
    let wanted = "token required: Authorization: Bearer TOKEN, or open the address with \
                  ?token=TOKEN that was printed at start";
    Err(Problem::new(StatusCode::UNAUTHORIZED, wanted))
}

fn welcome(token: &str, app: &App) -> Response {
    let secure = if app.tls.is_some() { "; Secure" } else { "" };
    let name = format!("{COOKIE_NAME}-{}", app.address.port());
    let cookie = format!("{name}={token}; Path=/; HttpOnly; SameSite=Strict{secure}");
    let mut response = (StatusCode::SEE_OTHER, [(LOCATION, "/")]).into_response();
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// A name of another site that leads here is not answered (DNS rebinding).
fn check_host(app: &App, headers: &HeaderMap) -> Result<(), Problem> {
    let seen = header(headers, HOST).unwrap_or_default();
    let name = seen.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
    let name = name.map_or(seen, |(name, _)| name);
    let address: Option<IpAddr> = name.trim_matches(['[', ']']).parse().ok();
    let is_known = match address {
        Some(address) => address.is_loopback() || !app.address.ip().is_loopback(),
        // Where a token is asked for, names that lead here are welcome.
        None => name.eq_ignore_ascii_case("localhost") || app.token.is_some(),
    };
    if is_known {
        return Ok(());
    }
    let wanted = format!("host {seen:?}; wanted: {} or localhost", app.address);
    Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, wanted))
}

/// A page of another site gets nothing.
fn check_site(path: &str, headers: &HeaderMap) -> Result<(), Problem> {
    let site = header(headers, HeaderName::from_static("sec-fetch-site")).unwrap_or("none");
    let mode = header(headers, HeaderName::from_static("sec-fetch-mode")).unwrap_or_default();
    // A link on another page may lead to the page here. What costs work or has data does not answer
    // it: a site could open many such addresses.
    let is_page = !path.starts_with("/api/") && path != "/metrics";
    if matches!(site, "same-origin" | "none") || (mode == "navigate" && is_page) {
        return Ok(());
    }
    Err(Problem::new(StatusCode::FORBIDDEN, "requests from another site are not allowed"))
}

fn header(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// In the same time whatever the first difference.
fn is_same(seen: &str, wanted: &str) -> bool {
    let difference = seen.bytes().zip(wanted.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    seen.len() == wanted.len() && difference == 0
}
