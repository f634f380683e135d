//! The connection to the broker: who we are to it, over TCP or TLS.

use std::fs;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value as Json, json};

use crate::BusError;
use crate::keys::{self, Credentials};
use crate::link::{Link, OpenError};
use crate::protocol::{NO_BROKER, ServerMessage, take};

/// How long each step of connecting may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// How long a broker may take no bytes.
const WRITE_WITHIN: Duration = Duration::from_secs(5);

/// The port, unless an address has another.
const PORT: u16 = 4222;

/// Bytes that are read in one call.
const READ_LEN: usize = 16 << 10;

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::Away(error.to_string())
    }
}

impl Link {
    /// That a file is missing is known before any broker answers.
    fn check_files(&self) -> Result<(), OpenError> {
        let Self { credentials, token_file, ca_file, user, certificate, .. } = self;
        let pair = certificate.iter().flat_map(|(certificate, key)| [certificate, key]);
        let password = user.iter().map(|(_, password)| password);
        let single = [credentials, token_file, ca_file].into_iter().flatten();
        for path in single.chain(pair).chain(password) {
            fs::File::open(path).map_err(|error| file_error(path, error))?;
        }
        Ok(())
    }
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

/// Host, port, and whether TLS is asked for.
pub(crate) fn address(server: &str) -> Option<(String, u16, bool)> {
    let (scheme, rest) = server.split_once("://").unwrap_or(("nats", server));
    let is_tls = match scheme {
        "nats" => false,
        "tls" => true,
        _ => return None,
    };
    let rest = rest.trim_end_matches('/');
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
        _ => (rest, PORT),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_host = !host.is_empty() && !host.contains(['@', '/', ' ']);
    is_host.then(|| (host.to_owned(), port, is_tls))
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(tls) => tls.get_ref(),
        }
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => tcp.read(into),
            Self::Tls(tls) => tls.read(into),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(tcp) => tcp.write_all(bytes),
            Self::Tls(tls) => tls.write_all(bytes).and_then(|()| tls.flush()),
        }
    }
}

/// An open connection.
pub(crate) struct Connection {
    stream: Stream,
    read: Vec<u8>,
    /// Bytes of a message that the broker takes at most.
    pub max_payload: usize,
}

impl Connection {
    /// Connects to the first server that answers, and is let in.
    pub(crate) fn open(link: &Link, name: &str) -> Result<Self, OpenError> {
        link.check_files()?;
        let mut last = OpenError::Away(String::from("no server"));
        for server in &link.servers {
            match Self::open_one(link, server, name) {
                Ok(connection) => return Ok(connection),
                Err(OpenError::Away(why)) => last = OpenError::Away(format!("{server}: {why}")),
                Err(OpenError::Refused(BusError::Refused(why))) => {
                    return refused(format!("{server}: {why}"));
                }
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    fn open_one(link: &Link, server: &str, name: &str) -> Result<Self, OpenError> {
        let Some((host, port, asks_for_tls)) = address(server) else {
            return refused("no address; wanted: nats://HOST:4222 or tls://HOST:4222");
        };
        let tcp = reach(&host, port)?;
        let mut connection =
            Self { stream: Stream::Plain(tcp), read: Vec::new(), max_payload: 1 << 20 };
        let info = match connection.next(CONNECT_WITHIN)? {
            Some(ServerMessage::Info(info)) => info,
            Some(_) => return refused(NO_BROKER),
            None => return Err(OpenError::Away(String::from("it does not answer"))),
        };
        let is_true = |key: &str| info.get(key).and_then(Json::as_bool).unwrap_or(false);
        let has_tls = asks_for_tls || link.ca_file.is_some() || is_true("tls_required");
        if has_tls {
            connection = connection.secured(link, &host)?;
        }
        let max_payload = info.get("max_payload").and_then(Json::as_u64).unwrap_or(1 << 20);
        connection.max_payload = usize::try_from(max_payload).unwrap_or(usize::MAX);
        let hello = format!("CONNECT {}\r\nPING\r\n", hello(link, &info, name, has_tls)?);
        connection.write(hello.as_bytes())?;
        loop {
            match connection.next(CONNECT_WITHIN)? {
                Some(ServerMessage::Pong) => return Ok(connection),
                Some(ServerMessage::Error(why)) => return refused(explained(&why)),
                Some(_) => {}
                None => return Err(OpenError::Away(String::from("it does not answer"))),
            }
        }
    }

    fn secured(self, link: &Link, host: &str) -> Result<Self, OpenError> {
        let Stream::Plain(mut tcp) = self.stream else { return Ok(self) };
        let Ok(server) = ServerName::try_from(host.to_owned()) else {
            return refused("no name that a certificate could have");
        };
        let mut tls = match ClientConnection::new(Arc::new(tls_config(link)?), server) {
            Ok(tls) => tls,
            Err(error) => return refused(format!("TLS: {error}; try: certificate of [nats]")),
        };
        while tls.is_handshaking() {
            if let Err(error) = tls.complete_io(&mut tcp) {
                return match error.kind() {
                    ErrorKind::InvalidData => {
                        refused(format!("TLS: {error}; try: ca-file of [nats]"))
                    }
                    _ => Err(error.into()),
                };
            }
        }
        let stream = Stream::Tls(Box::new(StreamOwned::new(tls, tcp)));
        Ok(Self { stream, ..self })
    }

    /// Writes all of it.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write(bytes)
    }

    /// What the broker says next, at most so long from now; nothing where it says nothing.
    pub(crate) fn next(&mut self, wait: Duration) -> io::Result<Option<ServerMessage>> {
        let mut is_first = true;
        loop {
            let taken = take(&mut self.read);
            let taken = taken.map_err(|why| io::Error::new(ErrorKind::InvalidData, why))?;
            if taken.is_some() || !is_first && wait.is_zero() {
                return Ok(taken);
            }
            // A time-out of nothing would be none.
            let wait = wait.max(Duration::from_micros(1));
            self.stream.tcp().set_read_timeout(Some(wait))?;
            let mut bytes = [0; READ_LEN];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => self.read.extend_from_slice(bytes.get(..len).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_time_out(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
            is_first = false;
        }
    }
}

fn is_time_out(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn reach(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_WITHIN) {
            Ok(tcp) => {
                tcp.set_nodelay(true)?;
                tcp.set_read_timeout(Some(CONNECT_WITHIN))?;
                tcp.set_write_timeout(Some(WRITE_WITHIN))?;
                return Ok(tcp);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
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
    let read = PrivateKeyDer::from_pem_file(key);
    let read = read.map_err(|error| file_error(key, io::Error::other(error)))?;
    match config.with_client_auth_cert(chain, read) {
        Ok(config) => Ok(config),
        Err(error) => refused(format!("{}: {error}", key.display())),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, OpenError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let found: Vec<_> = read.map_err(|error| file_error(path, io::Error::other(error)))?;
    if found.is_empty() {
        return Err(file_error(path, io::Error::other("no certificate; wanted: PEM")));
    }
    Ok(found)
}

/// What follows `CONNECT`.
fn hello(link: &Link, info: &Json, name: &str, has_tls: bool) -> Result<Json, OpenError> {
    let mut hello = json!({
        "verbose": false,
        "pedantic": false,
        "headers": true,
        "no_responders": true,
        "echo": false,
        "protocol": 1,
        "lang": "rust",
        "name": name,
        "version": env!("CARGO_PKG_VERSION"),
        "tls_required": has_tls,
    });
    let mut put = |key: &str, text: String| {
        if let Some(object) = hello.as_object_mut() {
            object.insert(key.into(), text.into());
        }
    };
    if let Some(path) = &link.credentials {
        let Some(credentials) = Credentials::read(&text(path)?) else {
            return Err(file_error(path, io::Error::other(keys::WANTED)));
        };
        let nonce = info.get("nonce").and_then(Json::as_str).unwrap_or_default();
        put("sig", credentials.sign(nonce));
        match &credentials.jwt {
            Some(jwt) => put("jwt", jwt.clone()),
            None => put("nkey", credentials.public()),
        }
    }
    if let Some(path) = &link.token_file {
        put("auth_token", first_line(path)?);
    }
    if let Some((user, path)) = &link.user {
        put("user", user.clone());
        put("pass", first_line(path)?);
    }
    Ok(hello)
}

/// What is wrong and what to try.
pub(crate) fn explained(why: &str) -> String {
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
            ("a", Some(("a", PORT, false))),
            ("tls://a.example/", Some(("a.example", PORT, true))),
            ("nats://[::1]:5", Some(("::1", 5, false))),
            ("nats://[::1]", Some(("::1", PORT, false))),
            ("http://a", None),
            ("nats://a:b", None),
            ("nats://", None),
            ("nats://user:word@a:4222", None),
        ] {
            let wanted = wanted.map(|(host, port, is_tls)| (String::from(host), port, is_tls));
            assert_eq!(address(text), wanted, "{text}");
        }
    }
}
