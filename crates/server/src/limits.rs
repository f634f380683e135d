//! What clients may hold of the server: connections, bytes of answers, and time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::response::Response;
use http_body_util::BodyExt as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How much clients may hold, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections; further ones are turned away.
    pub connections: usize,
    /// Bytes of answers that clients have not taken, of all connections together.
    pub answer_bytes: usize,
    /// A connection that has sent no whole request head within this time is closed.
    pub head_within: Duration,
    /// So is one that takes nothing of an answer for so long.
    pub takes_within: Duration,
    /// So is one that has not taken all that waits for it within this time.
    pub taken_within: Duration,
    /// A query without an answer after this time, in which it may have waited for others, is
    /// cancelled.
    pub query_within: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 512,
            answer_bytes: 256 << 20,
            head_within: Duration::from_secs(5),
            takes_within: Duration::from_secs(20),
            taken_within: Duration::from_secs(300),
            query_within: Duration::from_secs(30),
        }
    }
}

impl Limits {
    /// Bytes that may wait when an answer of this length is added. A quarter is for answers that
    /// are small: a few slow downloads do not keep the page and the metrics from others.
    const fn bytes_for(&self, len: usize) -> usize {
        let is_small = len <= self.answer_bytes / 256;
        if is_small { self.answer_bytes } else { self.answer_bytes / 4 * 3 }
    }
}

/// Bytes of answers that clients have not taken.
#[derive(Clone, Default)]
pub(crate) struct AnswerBytes(Arc<AtomicUsize>);

impl AnswerBytes {
    pub(crate) fn waiting(&self) -> usize {
        self.0.load(Relaxed)
    }

    /// Whether there is room for so many more.
    pub(crate) fn has_room(&self, len: usize, limits: &Limits) -> bool {
        self.waiting().saturating_add(len) <= limits.bytes_for(len)
    }

    /// The answer with its bytes counted until its client has taken them; nothing where there is no
    /// room for it. The length of events is not known before: their stream looks for room itself.
    pub(crate) async fn count(&self, answer: Response, limits: &Limits) -> Option<Response> {
        let (head, body) = answer.into_parts();
        let body = match body.size_hint().exact() {
            Some(len) => {
                let len = usize::try_from(len).unwrap_or(usize::MAX);
                if len > 0 && !self.has_room(len, limits) {
                    return None;
                }
                // It is in memory already, in one piece.
                Body::from(self.hold(to_bytes(body, len).await.ok()?))
            }
            None => {
                let held = self.clone();
                Body::new(body.map_frame(move |frame| frame.map_data(|bytes| held.hold(bytes))))
            }
        };
        Some(Response::from_parts(head, body))
    }

    fn hold(&self, bytes: Bytes) -> Bytes {
        self.0.fetch_add(bytes.len(), Relaxed);
        Bytes::from_owner(Held { bytes, of: self.clone() })
    }
}

/// Dropped with the last reference to the bytes: they were sent, or their connection has ended.
struct Held {
    bytes: Bytes,
    of: AnswerBytes,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.of.0.fetch_sub(self.bytes.len(), Relaxed);
    }
}

/// A stream whose client takes all that waits for it within a time, or the stream ends.
pub(crate) struct PromptStream<S> {
    stream: S,
    within: Duration,
    /// Since something waits.
    ends: Option<Pin<Box<Sleep>>>,
    /// Whether the client has sent something since it was last written to.
    asks: Arc<AtomicBool>,
}

impl<S> PromptStream<S> {
    pub(crate) fn new(stream: S, within: Duration, asks: Arc<AtomicBool>) -> Self {
        Self { stream, within, ends: None, asks }
    }

    /// What a write gave, unless it waits for longer than it may.
    fn in_time<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_pending() {
            let within = self.within;
            let ends = self.ends.get_or_insert_with(|| Box::pin(sleep(within)));
            ready!(ends.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PromptStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, into);
        if into.filled().len() > before {
            self.asks.store(true, Relaxed);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PromptStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.asks.store(false, Relaxed);
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.in_time(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.asks.store(false, Relaxed);
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.in_time(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called when all was written: from then on nothing waits.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() {
            self.ends = None;
        }
        self.in_time(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.in_time(context, shut)
    }
}
