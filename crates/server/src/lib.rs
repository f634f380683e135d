//! What a run has found, over HTTP: an API, events, metrics, and the page that shows it.
//!
//! A server is a thread of its own with an asynchronous runtime; queries run on two more. It reads
//! the [`Store`], which those who compute fill; no packet waits for a request.

#![forbid(unsafe_code)]

mod api;
mod app;
mod guard;
mod json;
mod limits;
mod listen;
mod metrics;
mod page;
mod problem;
mod report;
mod tls;

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use store::Store;
use tokio::sync::watch;

pub use app::{CountPackets, Facts, Mode, NameInputs};
pub use limits::Limits;
pub use page::HAS_PAGE;
pub use report::{REPORT_BYTES_MAX, report};
pub use tls::{Certificate, CertificateError};

use app::App;
use tls::Tls;

/// Where a server listens, and whom it answers.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address and port; port 0 is any that is free.
    pub listen: SocketAddr,
    /// The token that requests must carry; none if only loopback is served.
    pub token: Option<String>,
    /// What connections are encrypted with; nothing on loopback alone.
    pub certificate: Option<Certificate>,
}

/// Why a server does not begin.
#[derive(Debug)]
pub enum ServerError {
    /// The address cannot be listened on.
    Listen(SocketAddr, io::Error),
    /// Beyond this machine it needs a token.
    NeedsToken(SocketAddr),
    /// Beyond this machine it needs encryption.
    NeedsTls(SocketAddr),
    /// The certificate cannot be used.
    Certificate(CertificateError),
    /// The runtime or its thread does not start.
    Start(io::Error),
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen(address, error) if error.kind() == io::ErrorKind::AddrInUse => write!(
                f,
                "{address}: the port is in use; try another port, or port 0 for any free one"
            ),
            Self::Listen(address, error) => write!(f, "{address}: {error}"),
            Self::NeedsToken(address) => write!(
                f,
                "{address} can be reached from other machines; wanted: 127.0.0.1 or [::1], or a \
                 token"
            ),
            Self::NeedsTls(address) => write!(
                f,
                "{address} can be reached from other machines; wanted: 127.0.0.1 or [::1], or a \
                 certificate"
            ),
            Self::Certificate(error) => error.fmt(f),
            Self::Start(error) => write!(f, "server: {error}"),
        }
    }
}

impl std::error::Error for ServerError {}

/// A server that runs.
pub struct Server {
    address: SocketAddr,
    token: Option<String>,
    tls: Option<Arc<Tls>>,
    /// Whether its certificate was made at the start.
    is_made: bool,
    over: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

/// How much others come before the threads that serve, as `nice` counts it.
const NICENESS: i32 = 10;

/// Has this thread wait for those that read packets, where both want a core. Linux keeps the
/// priority of each thread apart (setpriority(2)).
fn come_after_packets() {
    // Without it answers are as they are, only that packets may wait.
    let _ = rustix::process::setpriority_process(None, NICENESS);
}

/// Threads on which queries run.
const QUERY_THREADS: usize = 2;

impl Server {
    /// Begins to listen.
    ///
    /// # Errors
    /// [`ServerError`]
    pub fn begin(options: Options, store: Arc<Store>, facts: Facts) -> Result<Self, ServerError> {
        Self::begin_with(options, Limits::default(), store, facts)
    }

    /// The same with other limits than [usual](Limits::default).
    ///
    /// # Errors
    /// [`ServerError`]
    pub fn begin_with(
        options: Options,
        limits: Limits,
        store: Arc<Store>,
        facts: Facts,
    ) -> Result<Self, ServerError> {
        let Options { listen, token, certificate } = options;
        if !listen.ip().is_loopback() && token.is_none() {
            return Err(ServerError::NeedsToken(listen));
        }
        if !listen.ip().is_loopback() && certificate.is_none() {
            return Err(ServerError::NeedsTls(listen));
        }
        let is_made = matches!(certificate, Some(Certificate::Made(_)));
        let tls = certificate.map(|certificate| Tls::new(certificate, (facts.now_ns)()));
        let tls = tls.transpose().map_err(ServerError::Certificate)?.map(Arc::new);
        let failed = |error| ServerError::Listen(listen, error);
        let listener = TcpListener::bind(listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(QUERY_THREADS)
            .thread_name("query")
            .on_thread_start(come_after_packets)
            .build()
            .map_err(ServerError::Start)?;
        let app = App::new(store, facts, address, (token.clone(), tls.clone()), limits);
        let (over, ends) = watch::channel(false);
        let serve = move || {
            come_after_packets();
            runtime.block_on(listen::serve(listener, app, ends));
        };
        let thread = thread::Builder::new().name("server".into()).spawn(serve);
        Ok(Self { address, token, tls, is_made, over, thread: thread.map_err(ServerError::Start)? })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What is typed into a browser; `machine` is the name of this one.
    #[must_use]
    pub fn url(&self, machine: &str) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        if self.address.ip().is_unspecified() && !machine.is_empty() {
            return format!("{scheme}://{machine}:{}/", self.address.port());
        }
        format!("{scheme}://{}/", self.address)
    }

    /// What to report when it begins: where it is, with the token that opens it, and which
    /// certificate was made for it.
    #[must_use]
    pub fn lines(&self, machine: &str) -> Vec<String> {
        let what = if HAS_PAGE { "page" } else { "API, without the page (built without Node.js)" };
        let query = self.token.as_deref().map_or_else(String::new, |it| format!("?token={it}"));
        let mut lines = vec![format!("{what}: {}{query}", self.url(machine))];
        if let Some(tls) = self.tls.as_ref().filter(|_| self.is_made) {
            lines.push(format!(
                "page: its certificate was generated for this run; compare it when the browser \
                 warns: SHA-256 {}",
                tls.fingerprint
            ));
        }
        lines
    }

    /// SHA-256 of the certificate in hexadecimal, as browsers show it; nothing without encryption.
    #[must_use]
    pub fn fingerprint(&self) -> Option<&str> {
        self.tls.as_ref().map(|tls| tls.fingerprint.as_str())
    }

    /// Reads the operator's certificate again, as when it was renewed.
    ///
    /// # Errors
    /// [`CertificateError`]; the one before stays in force.
    pub fn reload_certificate(&self) -> Result<(), CertificateError> {
        self.tls.as_ref().map_or(Ok(()), |tls| tls.reload())
    }

    /// Ends, with all connections.
    pub fn end(self) {
        let Self { over, thread, .. } = self;
        // Where the thread has ended already, no one listens.
        let _ = over.send(true);
        let _ = thread.join();
    }
}
