//! What was found in a flow's payload.

use std::sync::Arc;

use crate::dns::RecordType;
use crate::greeting::Protocol;

/// Names of a flow and what was read along with them. Text is safe to print.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FlowNames {
    /// The server that the client named: SNI of TLS or QUIC, or the host of HTTP/1.
    pub server_name: Option<Box<str>>,
    /// The name for which the client was given the server's address by DNS, before this flow.
    pub resolved: Option<Arc<str>>,
    /// What was read of a TLS ClientHello.
    pub hello: Option<ClientHelloInfo>,
    /// The first name that was asked for, in flows of DNS, and the type of record.
    pub query: Option<(Box<str>, RecordType)>,
}

/// What was read of a TLS ClientHello, of TCP or QUIC.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClientHelloInfo {
    /// The application protocols that the client offers, in its order, separated by commas.
    pub alpn: Option<Box<str>>,
    /// The highest version of TLS that it offers: 0x0304 for TLS 1.3; none of a hello that was cut
    /// short, as that stands near its end.
    pub version: Option<u16>,
    /// Its JA4 fingerprint; none of a hello that was cut short.
    pub ja4: Option<crate::tls::Ja4>,
    /// Whether it offers Encrypted Client Hello: the server's name may then be a public one.
    pub ech_offered: bool,
}

impl ClientHelloInfo {
    /// The version by name, as Wireshark and Suricata write it.
    #[must_use]
    pub const fn version_name(&self) -> Option<&'static str> {
        match self.version {
            Some(0x0300) => Some("SSL 3.0"),
            Some(0x0301) => Some("TLS 1.0"),
            Some(0x0302) => Some("TLS 1.1"),
            Some(0x0303) => Some("TLS 1.2"),
            Some(0x0304) => Some("TLS 1.3"),
            Some(_) => Some("unknown"),
            None => None,
        }
    }
}

impl FlowNames {
    /// The server's name as the client gave it, else by DNS, else the name that was asked for.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        let query = || self.query.as_ref().map(|(name, _)| &**name);
        self.server_name.as_deref().or(self.resolved.as_deref()).or_else(query)
    }

    /// Bytes of text.
    pub(crate) fn text_len(&self) -> usize {
        let len = |text: &Option<Box<str>>| text.as_deref().map_or(0, str::len);
        len(&self.server_name)
            + self.resolved.as_deref().map_or(0, str::len)
            + self.query.as_ref().map_or(0, |(name, _)| name.len())
            + self.hello.as_ref().map_or(0, |hello| len(&hello.alpn))
    }
}

/// What is known of a flow: its protocol, and names if there are any.
#[derive(Clone, Debug, Default)]
pub struct FlowInfo {
    /// The application protocol that the payload shows.
    pub protocol: Option<Protocol>,
    /// Names.
    pub found: Option<Arc<FlowNames>>,
}
