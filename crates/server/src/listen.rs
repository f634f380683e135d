//! Connections: accepted up to a limit, dropped where they are slow or idle.

use std::error::Error as _;
use std::io;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_io_timeout::TimeoutStream;

use crate::api;
use crate::app::App;
use crate::limits::{Limits, PromptStream};

/// Bytes of an answer that the kernel takes in place of a slow client; it doubles them for itself.
/// Without this they may be 4 MiB of each connection, which no limit of ours would see.
const KERNEL_BYTES: usize = 256 << 10;

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
    let room = Arc::new(Semaphore::new(app.limits.connections));
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
        add_one(&served.connections_refused);
        return;
    };
    add_one(&served.connections);
    add_one(&served.connections_open);
    let (router, app, mut ends) = (router.clone(), app.clone(), ends.clone());
    // What cannot be set has no effect beyond some milliseconds, and memory of the kernel.
    let _ = stream.set_nodelay(true);
    let _ = set_socket_send_buffer_size(&stream, KERNEL_BYTES);
    tokio::spawn(async move {
        let _place = place;
        tokio::select! {
            () = talk(stream, router, &app) => {}
            _ = ends.changed() => {}
        }
        app.served.connections_open.fetch_sub(1, Ordering::Relaxed);
    });
}

/// Answers the requests of a connection. How it ends is its client's business.
async fn talk(stream: TcpStream, router: Router, app: &App) {
    let Limits { head_within, takes_within, .. } = app.limits;
    let Some(tls) = &app.tls else {
        return answer(guarded(stream, takes_within), router, app).await;
    };
    let mut first = [0];
    match timeout(head_within, stream.peek(&mut first)).await {
        Ok(Ok(1)) if first == [HANDSHAKE] => {}
        Ok(Ok(1)) => {
            // So little fits into what the kernel sends; if not, the client sees it closed.
            let _ = stream.try_write(WANTS_TLS.as_bytes());
            return;
        }
        _ => return,
    }
    match timeout(head_within, tls.acceptor().accept(guarded(stream, takes_within))).await {
        Ok(Ok(stream)) => answer(stream, router, app).await,
        Ok(Err(_)) => {}
        Err(_) => add_one(&app.served.slow_requests),
    }
}

/// A stream that ends where its client takes nothing.
fn guarded(stream: TcpStream, takes_within: Duration) -> Pin<Box<TimeoutStream<TcpStream>>> {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(takes_within));
    Box::pin(stream)
}

async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin, router: Router, app: &App) {
    let service = TowerToHyperService::new(router);
    let asks = Arc::new(AtomicBool::new(false));
    let stream = PromptStream::new(stream, app.limits.taken_within, Arc::clone(&asks));
    let ended = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(app.limits.head_within)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    let Err(error) = ended else { return };
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    if source.is_some_and(|source| source.kind() == io::ErrorKind::TimedOut) {
        add_one(&app.served.slow_answers);
    } else if error.is_timeout() && asks.load(Ordering::Relaxed) {
        // One that has nothing more to ask ends in the same way.
        add_one(&app.served.slow_requests);
    }
}

fn add_one(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}
