//! The ClientHello, read in place.

use std::fmt;

use super::Fault;

/// Handshake type of a ClientHello.
pub(super) const CLIENT_HELLO: u8 = 1;
/// Type and length of a handshake message.
pub(super) const MESSAGE_HEADER_LEN: usize = 4;
const RANDOM_LEN: usize = 32;
/// Server name type of a host name (RFC 6066 §3).
const HOST_NAME: u8 = 0;

/// The longest host name that is handed out. A name in DNS has at most 253 bytes as text.
pub const NAME_LEN_MAX: usize = 255;

/// Numbers of the extensions that are looked into, as IANA assigns them.
pub mod extension {
    /// Server name (RFC 6066 §3).
    pub const SERVER_NAME: u16 = 0;
    /// Signature algorithms (RFC 8446 §4.2.3).
    pub const SIGNATURE_ALGORITHMS: u16 = 13;
    /// Application-layer protocol negotiation (RFC 7301).
    pub const ALPN: u16 = 16;
    /// Supported versions (RFC 8446 §4.2.1).
    pub const SUPPORTED_VERSIONS: u16 = 43;
    /// Encrypted ClientHello (RFC 9849): the name outside is the one of a front.
    pub const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;
}

/// Whether a cipher suite, extension, version or signature algorithm is one of the sixteen that
/// clients send so that servers keep ignoring what they do not know (RFC 8701): `0x?a?a`.
#[inline]
#[must_use]
pub const fn is_grease(value: u16) -> bool {
    let [high, low] = value.to_be_bytes();
    high == low && low & 0x0f == 0x0a
}

/// A ClientHello, or as much of it as is at hand.
#[derive(Clone, Copy, Debug)]
pub struct Hello<'a> {
    version: u16,
    is_cut: bool,
    fault: Option<Fault>,
    cipher_suites: &'a [u8],
    /// Whole extensions only.
    extensions: &'a [u8],
    server_name: Option<&'a [u8]>,
    alpn: Option<&'a [u8]>,
    supported_versions: Option<&'a [u8]>,
    signature_algorithms: Option<&'a [u8]>,
    has_server_name: bool,
    offers_ech: bool,
}

/// One extension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extension<'a> {
    /// Its number.
    pub kind: u16,
    /// What it holds.
    pub data: &'a [u8],
}

/// Why reading ends before the message does.
enum Stop {
    /// The bytes at hand end here; that is no fault.
    Cut,
    PastEnd,
}

/// What is left of a field: the bytes at hand, which may be fewer than it has.
#[derive(Clone, Copy)]
struct Field<'a> {
    bytes: &'a [u8],
    len: usize,
}

impl<'a> Field<'a> {
    /// The next `len` bytes of the field, as many of them as are at hand.
    #[inline]
    fn split(&mut self, len: usize) -> Result<Field<'a>, Stop> {
        let left = self.len.checked_sub(len).ok_or(Stop::PastEnd)?;
        let (bytes, rest) = self.bytes.split_at(len.min(self.bytes.len()));
        *self = Field { bytes: rest, len: left };
        Ok(Field { bytes, len })
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        self.split(N)?.bytes.first_chunk().copied().ok_or(Stop::Cut)
    }

    #[inline]
    fn u8(&mut self) -> Result<usize, Stop> {
        self.array().map(|[byte]| usize::from(byte))
    }

    #[inline]
    fn u16(&mut self) -> Result<u16, Stop> {
        self.array().map(u16::from_be_bytes)
    }

    /// A vector with a length of two bytes before it.
    #[inline]
    fn vector(&mut self) -> Result<Field<'a>, Stop> {
        let len = self.u16()?;
        self.split(usize::from(len))
    }

    fn is_cut(&self) -> bool {
        self.bytes.len() < self.len
    }
}

impl<'a> Hello<'a> {
    /// Reads a handshake message from its type byte on. `message` may end early, then
    /// [`Hello::is_cut`] says so and what had not arrived reads as absent, and may be longer than
    /// the message, then what follows is ignored.
    ///
    /// # Errors
    /// [`Fault::NotAHello`]; [`Fault::LengthPastEnd`] where lengths contradict each other, because
    /// nothing behind such a place can be believed. What is wrong inside of one extension is
    /// [`Hello::fault`] instead: the rest of the message still says what it says.
    #[inline]
    pub fn new(message: &'a [u8]) -> Result<Self, Fault> {
        let mut hello = Self {
            version: 0,
            is_cut: false,
            fault: None,
            cipher_suites: &[],
            extensions: &[],
            server_name: None,
            alpn: None,
            supported_versions: None,
            signature_algorithms: None,
            has_server_name: false,
            offers_ech: false,
        };
        if message.first().is_some_and(|&kind| kind != CLIENT_HELLO) {
            return Err(Fault::NotAHello);
        }
        match hello.read(message) {
            Ok(()) => Ok(hello),
            Err(Stop::Cut) => {
                hello.is_cut = true;
                Ok(hello)
            }
            Err(Stop::PastEnd) => Err(Fault::LengthPastEnd),
        }
    }

    fn read(&mut self, message: &'a [u8]) -> Result<(), Stop> {
        let &[_, a, b, c] = message.first_chunk::<MESSAGE_HEADER_LEN>().ok_or(Stop::Cut)?;
        let len = u32::from_be_bytes([0, a, b, c]) as usize;
        let bytes = message.get(MESSAGE_HEADER_LEN..).unwrap_or_default();
        let mut body = Field { bytes: bytes.get(..len).unwrap_or(bytes), len };
        self.is_cut = body.is_cut();
        self.version = body.u16()?;
        body.split(RANDOM_LEN)?;
        let session_id_len = body.u8()?;
        body.split(session_id_len)?;
        let cipher_suites = body.vector()?;
        self.cipher_suites = cipher_suites.bytes;
        if !cipher_suites.len.is_multiple_of(2) {
            self.note(Fault::CipherSuitesWrong);
        }
        let compression_len = body.u8()?;
        body.split(compression_len)?;
        // TLS 1.2 and older may end without extensions, and without a length for them.
        if body.len == 0 {
            return Ok(());
        }
        let extensions = body.vector()?;
        if body.len > 0 {
            self.note(Fault::BytesLeftOver);
        }
        self.read_extensions(extensions)
    }

    fn read_extensions(&mut self, mut extensions: Field<'a>) -> Result<(), Stop> {
        let all = extensions.bytes;
        while extensions.len > 0 {
            let kind = extensions.u16()?;
            let data = extensions.vector()?;
            if data.is_cut() {
                return Err(Stop::Cut);
            }
            self.extensions = all.get(..all.len() - extensions.bytes.len()).unwrap_or_default();
            self.take_extension(kind, data.bytes);
        }
        Ok(())
    }

    fn take_extension(&mut self, kind: u16, data: &'a [u8]) {
        let is_first = match kind {
            extension::SERVER_NAME => !std::mem::replace(&mut self.has_server_name, true),
            extension::ALPN => self.alpn.is_none(),
            extension::SUPPORTED_VERSIONS => self.supported_versions.is_none(),
            extension::SIGNATURE_ALGORITHMS => self.signature_algorithms.is_none(),
            extension::ENCRYPTED_CLIENT_HELLO => {
                self.offers_ech = true;
                return;
            }
            _ => return,
        };
        // The first one holds, as for servers that do not refuse the second.
        if !is_first {
            return self.note(Fault::ExtensionTwice);
        }
        match kind {
            extension::SERVER_NAME => match host_name(data) {
                Ok(name) => self.server_name = Some(name),
                Err(fault) => self.note(fault),
            },
            extension::ALPN => {
                let (list, is_exact) = long_list(data);
                let (mut entries, mut count) = (Protocols { rest: list }, 0);
                while entries.next().is_some_and(|entry| !entry.is_empty()) {
                    count += 1;
                }
                if !is_exact || count == 0 || !entries.rest.is_empty() {
                    self.note(Fault::AlpnWrong);
                }
                self.alpn = Some(list);
            }
            extension::SUPPORTED_VERSIONS => {
                let (&len, rest) = data.split_first().unwrap_or((&0, &[]));
                let list = rest.get(..usize::from(len)).unwrap_or(rest);
                if usize::from(len) != rest.len() || !len.is_multiple_of(2) || len == 0 {
                    self.note(Fault::VersionsWrong);
                }
                self.supported_versions = Some(list);
            }
            _ => {
                let (list, is_exact) = long_list(data);
                if !is_exact || list.is_empty() || !list.len().is_multiple_of(2) {
                    self.note(Fault::SignatureAlgorithmsWrong);
                }
                self.signature_algorithms = Some(list);
            }
        }
    }

    fn note(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
    }

    /// Whether the message is longer than the bytes that were at hand.
    #[inline]
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The first fault that left the rest of the message readable.
    #[inline]
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// The name of the server that the client wants: 1 to [`NAME_LEN_MAX`] bytes as the client
    /// sent them, which need not be a host name. With ECH it is the name of the front.
    #[inline]
    #[must_use]
    pub fn server_name(&self) -> Option<&'a [u8]> {
        self.server_name
    }

    /// Whether there is an extension for the server's name, readable or not.
    #[inline]
    #[must_use]
    pub fn has_server_name(&self) -> bool {
        self.has_server_name
    }

    /// The application protocols in the client's order (`h2`, `http/1.1`, …).
    #[inline]
    #[must_use]
    pub fn alpn(&self) -> Protocols<'a> {
        Protocols { rest: self.alpn.unwrap_or_default() }
    }

    /// The version in the message's own field: at most 0x0303 in clients that follow RFC 8446,
    /// whatever they speak; 0 where not even that was at hand.
    #[inline]
    #[must_use]
    pub fn legacy_version(&self) -> u16 {
        self.version
    }

    /// The versions of the extension, GREASE included; `None` without the extension.
    #[inline]
    pub fn supported_versions(&self) -> Option<impl Iterator<Item = u16> + use<'a>> {
        self.supported_versions.map(words)
    }

    /// The highest version that the client offers, GREASE left out: of the extension where there
    /// is one, 0 if it has none; else [`Hello::legacy_version`].
    #[inline]
    #[must_use]
    pub fn version(&self) -> u16 {
        self.supported_versions().map_or(self.version, |versions| {
            versions.filter(|&version| !is_grease(version)).max().unwrap_or_default()
        })
    }

    /// The cipher suites in the client's order, GREASE included.
    #[inline]
    pub fn cipher_suites(&self) -> impl Iterator<Item = u16> + use<'a> {
        words(self.cipher_suites)
    }

    /// The signature algorithms in the client's order, GREASE included.
    #[inline]
    pub fn signature_algorithms(&self) -> impl Iterator<Item = u16> + use<'a> {
        words(self.signature_algorithms.unwrap_or_default())
    }

    /// The extensions in the client's order, GREASE included; of a cut hello those that are
    /// whole.
    #[inline]
    pub fn extensions(&self) -> impl Iterator<Item = Extension<'a>> + use<'a> {
        let mut rest = Field { bytes: self.extensions, len: self.extensions.len() };
        std::iter::from_fn(move || {
            let kind = rest.u16().ok()?;
            Some(Extension { kind, data: rest.vector().ok()?.bytes })
        })
    }

    /// Whether the client offers an encrypted ClientHello. Many send the extension with random
    /// bytes where they have no key (GREASE ECH), which no observer on the path can distinguish.
    #[inline]
    #[must_use]
    pub fn ech_offered(&self) -> bool {
        self.offers_ech
    }
}

/// Big-endian 16-bit values; an odd last byte is left out.
#[inline]
fn words(bytes: &[u8]) -> impl Iterator<Item = u16> + use<'_> {
    bytes.as_chunks().0.iter().map(|&word| u16::from_be_bytes(word))
}

/// A list with a length of two bytes before it: what there is of it, and whether it is all of
/// `data`.
#[inline]
fn long_list(data: &[u8]) -> (&[u8], bool) {
    let Some((&len, rest)) = data.split_first_chunk() else { return (&[], false) };
    let len = usize::from(u16::from_be_bytes(len));
    (rest.get(..len).unwrap_or(rest), len == rest.len())
}

/// The first host name in a list of server names (RFC 6066 §3).
fn host_name(data: &[u8]) -> Result<&[u8], Fault> {
    let (list, is_exact) = long_list(data);
    if !is_exact {
        return Err(Fault::ServerNameWrong);
    }
    let mut entries = Field { bytes: list, len: list.len() };
    while let (Ok(kind), Ok(name)) = (entries.array(), entries.vector()) {
        match (kind, name.len) {
            ([HOST_NAME], 0) => return Err(Fault::NameEmpty),
            ([HOST_NAME], 1..=NAME_LEN_MAX) => return Ok(name.bytes),
            ([HOST_NAME], _) => return Err(Fault::NameTooLong),
            _ => {}
        }
    }
    Err(Fault::ServerNameWrong)
}

/// Names of application protocols. Ends where an entry reaches past the list.
#[derive(Clone, Debug)]
pub struct Protocols<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Protocols<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (&len, rest) = self.rest.split_first()?;
        let (protocol, rest) = rest.split_at_checked(usize::from(len))?;
        self.rest = rest;
        Some(protocol)
    }
}

impl std::iter::FusedIterator for Protocols<'_> {}

/// `client hello, version 0x0304, name example.com, alpn h2 http/1.1`; bytes that are no
/// printable ASCII are escaped.
impl fmt::Display for Hello<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client hello, version {:#06x}", self.version())?;
        if let Some(name) = self.server_name {
            write!(f, ", name {}", name.escape_ascii())?;
        }
        for (index, protocol) in self.alpn().enumerate() {
            let before = if index == 0 { ", alpn " } else { " " };
            write!(f, "{before}{}", protocol.escape_ascii())?;
        }
        if self.offers_ech {
            f.write_str(", ech")?;
        }
        if self.is_cut {
            f.write_str(", cut")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
