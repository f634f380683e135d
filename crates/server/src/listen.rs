//! Connections: accepted up to a limit, dropped where they are slow or idle.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_io_timeout::TimeoutStream;

use crate::api;
use crate::app::App;
use crate::tls::Tls;

/// Connections at most; further ones are turned away.
const CONNECTIONS_MAX: usize = 512;

/// A connection that has sent no whole request head within this time is dropped.
const HEAD_WITHIN: Duration = Duration::from_secs(5);

/// So is one that takes nothing of an answer for so long.
const TAKES_WITHIN: Duration = Duration::from_secs(20);

/// The first byte of a TLS handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;

/// The answer to HTTP without TLS.
const WANTS_TLS: &str = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\
     Connection: close\r\n\r\nuse https:// for this address\n";

/// How often open flows and counts are asked for, while a client looks.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// Answers requests until it is over.
pub(crate) async fn serve(listener: TcpListener, app: App, mut ends: watch::Receiver<bool>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let router = api::router(&app);
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut asking = interval(ASK_EVERY);
    asking.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ends.changed() => return,
            _ = asking.tick() => if app.is_watched() { app.store.ask() },
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => take(stream, &room, &router, &app, &ends),
                // Mostly too many open files: those that are served will be closed.
                Err(_) => sleep(Duration::from_millis(100)).await,
            },
        }
    }
}

fn take(
    stream: TcpStream,
    room: &Arc<Semaphore>,
    router: &Router,
    app: &App,
    ends: &watch::Receiver<bool>,
) {
    let served = &app.served;
    let Ok(place) = Arc::clone(room).try_acquire_owned() else {
        served.connections_refused.fetch_add(1, Ordering::Relaxed);
        return;
    };
    served.connections.fetch_add(1, Ordering::Relaxed);
    served.connections_open.fetch_add(1, Ordering::Relaxed);
    let (router, app, mut ends) = (router.clone(), app.clone(), ends.clone());
    // What cannot be set has no effect beyond some milliseconds.
    let _ = stream.set_nodelay(true);
    tokio::spawn(async move {
        let _place = place;
        tokio::select! {
            () = talk(stream, router, app.tls.as_deref()) => {}
            _ = ends.changed() => {}
        }
        app.served.connections_open.fetch_sub(1, Ordering::Relaxed);
    });
}

/// Answers the requests of a connection. How it ends is its client's business.
async fn talk(stream: TcpStream, router: Router, tls: Option<&Tls>) {
    let Some(tls) = tls else { return answer(guarded(stream), router).await };
    let mut first = [0];
    match timeout(HEAD_WITHIN, stream.peek(&mut first)).await {
        Ok(Ok(1)) if first == [HANDSHAKE] => {}
        Ok(Ok(1)) => {
            // So little fits into what the kernel sends; if not, the client sees it closed.
            let _ = stream.try_write(WANTS_TLS.as_bytes());
            return;
        }
        _ => return,
    }
    if let Ok(Ok(stream)) = timeout(HEAD_WITHIN, tls.acceptor().accept(guarded(stream))).await {
        answer(stream, router).await;
    }
}

/// A stream that ends where its client takes nothing.
fn guarded(stream: TcpStream) -> std::pin::Pin<Box<TimeoutStream<TcpStream>>> {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(TAKES_WITHIN));
    Box::pin(stream)
}

async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin, router: Router) {
    let service = TowerToHyperService::new(router);
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
