//! The connection to the broker: who we are to it, over TCP or TLS.
//!
//! The library keeps the connection and opens it again where it was lost. The first one is opened
//! here, attempt by attempt: only then can who starts it be told what will not become well by
//! itself. A run waits two seconds for that, and then begins without it.

use std::error::Error as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use async_nats::{
    Client, ClientError, ConnectError, ConnectErrorKind, ConnectOptions, Event, ServerAddr,
    ServerError,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio::time::timeout;

use crate::BusError;

/// How long an attempt at one address may take, up to the point where the broker lets us in.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// How long the start of a run waits for its broker, so that one that refuses us is seen there. A
/// name server that is away answers after ten seconds and more; packets do not wait for it.
const FIRST_WITHIN: Duration = Duration::from_secs(2);

/// The first wait for a broker that is away; each further one is twice as long.
const RECONNECT_FIRST: Duration = Duration::from_millis(100);

/// The longest.
pub(crate) const RECONNECT_MAX: Duration = Duration::from_secs(2);

/// How often the broker is asked whether it is still there; after two that it leaves open it is
/// away.
const PING_EVERY: Duration = Duration::from_secs(15);

/// Messages on their way to the connection at most; who sends more waits.
const CLIENT_CAPACITY: usize = 64;

/// Where the broker is, and what it is shown.
#[derive(Clone, Debug, Default)]
pub struct Link {
    /// Addresses of its servers, such as `nats://host:4222` and `tls://host:4222`.
    pub servers: Vec<String>,
    /// A file of credentials, as `nsc` writes it: a JWT and the seed of its key; or the seed alone.
    pub credentials: Option<PathBuf>,
    /// A file whose first line is a token.
    pub token_file: Option<PathBuf>,
    /// A user, and a file whose first line is the password.
    pub user: Option<(String, PathBuf)>,
    /// Certificates of authorities in PEM, in place of those that browsers trust. With it TLS is
    /// required.
    pub ca_file: Option<PathBuf>,
    /// Our own certificate and its key, in PEM.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// It may succeed later.
    Away(String),
    /// It will not, unless something is changed.
    Refused(BusError),
}

/// What becomes of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum LinkEvent {
    /// The broker has let us in: for the first time, or again.
    Connected,
    /// The connection was lost or could not be opened again, and why. It is tried again.
    Away(String),
    /// The broker complains.
    Trouble(String),
}

/// Hears of events; called on the thread that drives the connection.
pub(crate) type OnEvent = Arc<dyn Fn(LinkEvent) + Send + Sync>;

/// The wait before an attempt, counted from 1.
pub(crate) fn wait_before(attempt: usize) -> Duration {
    let doublings = u32::try_from(attempt.saturating_sub(1)).unwrap_or(u32::MAX).min(16);
    (RECONNECT_FIRST * (1 << doublings)).min(RECONNECT_MAX)
}

/// The attempt at the start of a run, given up where it takes longer than a start may: the broker
/// then counts as away, and is tried again while the run reads.
///
/// # Errors
/// As of the attempt.
pub(crate) async fn first<T>(
    link: &Link,
    attempt: impl Future<Output = Result<T, OpenError>>,
) -> Result<T, OpenError> {
    timeout(FIRST_WITHIN, attempt).await.unwrap_or_else(|_| {
        let (servers, within) = (link.servers.join(", "), FIRST_WITHIN.as_secs());
        Err(OpenError::Away(format!("{servers}: no answer within {within} s of the start")))
    })
}

/// One attempt to connect: at the first server that answers. Answers to questions are sent to
/// subjects below `inbox`. A connection that is lost later is opened again for as long as the
/// client lives.
///
/// # Errors
/// Files are read first, so what is missing is named even if no broker answers.
pub(crate) async fn connect(
    link: &Link,
    name: &str,
    inbox: &str,
    on_event: OnEvent,
) -> Result<Client, OpenError> {
    let servers: Vec<ServerAddr> =
        link.servers.iter().map(|server| address(server)).collect::<Result<_, _>>()?;
    let is_first = AtomicBool::new(true);
    let options = identified(link, ConnectOptions::new())?
        .name(name)
        .custom_inbox_prefix(inbox)
        .tls_client_config(tls_config(link)?)
        .require_tls(link.ca_file.is_some())
        .connection_timeout(CONNECT_WITHIN)
        .ping_interval(PING_EVERY)
        .client_capacity(CLIENT_CAPACITY)
        .retain_servers_order()
        .max_reconnects(None)
        .reconnect_delay_callback(move |attempt| {
            if is_first.swap(false, Relaxed) { Duration::ZERO } else { wait_before(attempt) }
        })
        .event_callback(move |event| {
            if let Some(event) = link_event(event) {
                on_event(event);
            }
            std::future::ready(())
        });
    options.connect(servers).await.map_err(|error| open_error(link, &error))
}

fn refused<T>(why: impl Into<String>) -> Result<T, OpenError> {
    Err(OpenError::Refused(BusError::Refused(why.into())))
}

fn file_error(path: &Path, error: io::Error) -> OpenError {
    OpenError::Refused(BusError::File(path.into(), error))
}

fn text(path: &Path) -> Result<String, OpenError> {
    fs::read_to_string(path).map_err(|error| file_error(path, error))
}

fn first_line(path: &Path) -> Result<String, OpenError> {
    Ok(text(path)?.lines().next().unwrap_or_default().trim().to_owned())
}

/// The address of a server. Who we are is not taken from it: addresses are printed.
fn address(server: &str) -> Result<ServerAddr, OpenError> {
    let read = server.parse::<ServerAddr>().ok().filter(|address| {
        let url = address.clone().into_inner();
        let is_host = !address.host().is_empty() && url.username().is_empty();
        ["nats", "tls"].contains(&url.scheme()) && is_host && ["", "/"].contains(&url.path())
    });
    let wanted = "wanted: nats://HOST:4222 or tls://HOST:4222";
    read.map_or_else(|| refused(format!("{server}: no address; {wanted}")), Ok)
}

/// The options, with what the broker is shown.
fn identified(link: &Link, mut options: ConnectOptions) -> Result<ConnectOptions, OpenError> {
    if let Some(path) = &link.credentials {
        let text = text(path)?;
        let wanted = "no credentials; wanted: a file that nsc writes, or a user's seed";
        let unread = || file_error(path, io::Error::other(wanted));
        options = match seed(&text) {
            Some(seed) => options.nkey(seed),
            None => options.credentials(&text).map_err(|_| unread())?,
        };
    }
    if let Some(path) = &link.token_file {
        options = options.token(first_line(path)?);
    }
    if let Some((user, path)) = &link.user {
        options = options.user_and_password(user.clone(), first_line(path)?);
    }
    Ok(options)
}

/// The seed of a user's key, where a text has that alone. It is checked, as the library does so
/// only once a broker answers.
fn seed(text: &str) -> Option<String> {
    let lines = || text.lines().map(str::trim).filter(|line| !line.starts_with(['-', '#']));
    let has_jwt = lines().any(|line| line.starts_with("eyJ"));
    let seed = lines().find(|line| line.starts_with("SU")).filter(|_| !has_jwt)?;
    nkeys::KeyPair::from_seed(seed).is_ok().then(|| seed.to_owned())
}

fn tls_config(link: &Link) -> Result<ClientConfig, OpenError> {
    let mut roots = RootCertStore::empty();
    match &link.ca_file {
        Some(path) => {
            for certificate in certificates(path)? {
                if let Err(error) = roots.add(certificate) {
                    return refused(format!("{}: {error}", path.display()));
                }
            }
        }
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
    }
    // Named, as another crate could install another provider for the whole process.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = match config {
        Ok(config) => config.with_root_certificates(roots),
        Err(error) => return refused(format!("TLS: {error}")),
    };
    let Some((chain, key)) = &link.certificate else { return Ok(config.with_no_client_auth()) };
    let chain = certificates(chain)?;
    // Opened first: what cannot be opened and what cannot be read are two errors.
    fs::File::open(key).map_err(|error| file_error(key, error))?;
    let read = PrivateKeyDer::from_pem_file(key);
    let read = read.map_err(|error| file_error(key, io::Error::other(error)))?;
    match config.with_client_auth_cert(chain, read) {
        Ok(config) => Ok(config),
        Err(error) => refused(format!("{}: {error}", key.display())),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, OpenError> {
    let file = fs::File::open(path).map_err(|error| file_error(path, error))?;
    let read: Result<Vec<_>, _> =
        CertificateDer::pem_reader_iter(io::BufReader::new(file)).collect();
    let found = read.map_err(|error| file_error(path, io::Error::other(error)))?;
    if found.is_empty() {
        return Err(file_error(path, io::Error::other("no certificate; wanted: PEM")));
    }
    Ok(found)
}

/// Whether it may become well by itself, and what to try where it does not.
fn open_error(link: &Link, error: &ConnectError) -> OpenError {
    let cause = error.source();
    let seen = cause.map_or_else(|| error.kind().to_string(), ToString::to_string);
    let in_io = cause.and_then(|cause| cause.downcast_ref::<io::Error>()?.get_ref());
    let tls = in_io.and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let why = match error.kind() {
        ConnectErrorKind::AuthorizationViolation => explained(&error.kind().to_string()),
        ConnectErrorKind::Authentication => format!("{}: {seen}", error.kind()),
        // Of the handshake this is no error, but of what precedes it: the library reads the
        // certificates of the system even where it is given others.
        ConnectErrorKind::Tls => {
            let seen = seen.replace('\n', ", ");
            format!("TLS: {seen}; try: servers of [nats], SSL_CERT_FILE of the environment")
        }
        _ => match (tls, cause.and_then(|cause| cause.downcast_ref::<ServerError>())) {
            (Some(rustls::Error::AlertReceived(_)), _) => {
                format!("TLS: {seen}; try: certificate of [nats]")
            }
            (Some(_), _) => format!("TLS: {seen}; try: ca-file of [nats]"),
            (None, Some(said)) => explained(&server_text(said)),
            (None, None) => {
                return OpenError::Away(format!("{}: {seen}", link.servers.join(", ")));
            }
        },
    };
    OpenError::Refused(BusError::Refused(format!("{}: {why}", link.servers.join(", "))))
}

/// What the broker said, without the library's own words.
fn server_text(said: &ServerError) -> String {
    match said {
        ServerError::Other(why) => why.clone(),
        ServerError::AuthorizationViolation => String::from("authorization violation"),
        ServerError::SlowConsumer(_) => String::from("messages come faster than they are read"),
    }
}

fn link_event(event: Event) -> Option<LinkEvent> {
    match event {
        Event::Connected => Some(LinkEvent::Connected),
        Event::Disconnected => Some(LinkEvent::Away(String::from("the connection was lost"))),
        Event::ServerError(said) => Some(LinkEvent::Trouble(explained(&server_text(&said)))),
        Event::SlowConsumer(sid) => {
            let said = server_text(&ServerError::SlowConsumer(sid));
            Some(LinkEvent::Trouble(said))
        }
        // An attempt to connect again that failed; it is tried again.
        Event::ClientError(ClientError::Other(why)) => {
            let is_refused = why == ConnectErrorKind::AuthorizationViolation.to_string();
            Some(if is_refused {
                LinkEvent::Trouble(explained(&why))
            } else {
                LinkEvent::Away(why)
            })
        }
        Event::ClientError(_) | Event::LameDuckMode | Event::Draining | Event::Closed => None,
    }
}

/// What is wrong and what to try.
fn explained(why: &str) -> String {
    if why.to_ascii_lowercase().contains("authorization violation") {
        let try_these = "credentials, token-file or user of [nats]";
        return format!("the broker refuses these credentials; try: {try_these}");
    }
    format!("the broker reports: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_all_their_forms() {
        for (text, wanted) in [
            ("nats://a:1", Some(("a", 1, false))),
            ("a", Some(("a", 4222, false))),
            ("tls://a.example/", Some(("a.example", 4222, true))),
            ("nats://[::1]:5", Some(("::1", 5, false))),
            ("nats://[::1]", Some(("::1", 4222, false))),
            ("http://a", None),
            ("ws://a", None),
            ("nats://a:b", None),
            ("nats://a/b", None),
            ("nats://", None),
            ("nats://user:word@a:4222", None),
        ] {
            let read = address(text).ok();
            let read = read.as_ref().map(|one| (one.host(), one.port(), one.tls_required()));
            assert_eq!(read, wanted, "{text}");
        }
    }

    #[test]
    fn a_seed_is_read_whole_or_not() {
        let seed_text = nkeys::KeyPair::new_user().seed().unwrap();
        assert_eq!(seed(&format!("# made today\n {seed_text}\n")).as_deref(), Some(&*seed_text));
        // With a JWT it is a file of nsc, which the library reads.
        assert_eq!(seed(&format!("eyJ0.a.b\n{seed_text}\n")), None);
        let other = if seed_text.ends_with('A') { "B" } else { "A" };
        assert_eq!(seed(&format!("{}{other}", &seed_text[..seed_text.len() - 1])), None);
        assert_eq!(seed(&seed_text[..20]), None);
        assert_eq!(seed(&nkeys::KeyPair::new_account().seed().unwrap()), None);
    }

    #[test]
    fn waits_double_up_to_the_longest() {
        let waits: Vec<u128> = (1..8).map(|attempt| wait_before(attempt).as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1_600, 2_000, 2_000]);
        assert_eq!(wait_before(usize::MAX), RECONNECT_MAX);
    }
}
