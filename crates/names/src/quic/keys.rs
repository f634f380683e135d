//! Keys of Initial packets (RFC 9001 §5.2) and what they open.

use packet::must;
use ring::aead::quic::{AES_128, HeaderProtectionKey};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};

use super::packet::{CONNECTION_ID_LEN_MAX, Initial, Version};
use super::{Fault, Pieces};

const KEY_LEN: usize = 16;
/// Bits of the first byte that header protection covers in long headers.
const FIRST_MASK: u8 = 0x0f;
const NUMBER_LEN_MASK: u8 = 0x03;

const SALT_V1: [u8; 20] = [
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad,
    0xcc, 0xbb, 0x7f, 0x0a,
];
const SALT_V2: [u8; 20] = [
    0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26, 0x9d, 0xcb,
    0xf9, 0xbd, 0x2e, 0xd9,
];
const SALT_DRAFT_29: [u8; 20] = [
    0xaf, 0xbf, 0xec, 0x28, 0x99, 0x93, 0xd2, 0x4c, 0x9e, 0x97, 0x86, 0xf1, 0x9c, 0x61, 0x11, 0xe0,
    0x43, 0x90, 0xa8, 0x99,
];

const SALT_DRAFT_23: [u8; 20] = [
    0xc3, 0xee, 0xf7, 0x12, 0xc7, 0x2e, 0xbb, 0x5a, 0x11, 0xa7, 0xd2, 0x43, 0x2b, 0xb4, 0x63, 0x65,
    0xbe, 0xf9, 0xf5, 0x02,
];
const SALT_DRAFT_21: [u8; 20] = [
    0x7f, 0xbc, 0xdb, 0x0e, 0x7c, 0x66, 0xbb, 0xe9, 0x19, 0x3a, 0x96, 0xcd, 0x21, 0x51, 0x9e, 0xbd,
    0x7a, 0x02, 0x64, 0x4a,
];
/// Salt and labels of a version.
const fn constants(version: Version) -> (&'static [u8; 20], [&'static [u8]; 3]) {
    const LABELS: [&[u8]; 3] = [b"quic key", b"quic iv", b"quic hp"];
    const LABELS_V2: [&[u8]; 3] = [b"quicv2 key", b"quicv2 iv", b"quicv2 hp"];
    match version {
        Version::V1 => (&SALT_V1, LABELS),
        Version::V2 => (&SALT_V2, LABELS_V2),
        Version::Draft29 => (&SALT_DRAFT_29, LABELS),
        Version::Draft23 => (&SALT_DRAFT_23, LABELS),
        Version::Draft21 => (&SALT_DRAFT_21, LABELS),
    }
}

/// Keys for the Initial packets of one side of a connection. 44 bytes: the schedules that the
/// cipher expands them to are ten times as long and take a fraction of a microsecond to make, so
/// that they are made for each packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Keys {
    pub(super) key: [u8; KEY_LEN],
    pub(super) iv: [u8; NONCE_LEN],
    pub(super) header: [u8; KEY_LEN],
}

/// Keys are printed in no log, also those that any observer can derive.
impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

impl Keys {
    /// Of the client's packets, by the destination identifier of its first one, or of its first
    /// one after a Retry.
    #[must_use]
    pub fn client(version: Version, dcid: &[u8]) -> Self {
        Self::derive(version, dcid, b"client in")
    }

    /// Of the server's packets, by the same identifier, which is the client's choice.
    #[must_use]
    pub fn server(version: Version, dcid: &[u8]) -> Self {
        Self::derive(version, dcid, b"server in")
    }

    fn derive(version: Version, dcid: &[u8], side: &[u8]) -> Self {
        let (salt, [key, iv, header]) = constants(version);
        let initial = Salt::new(HKDF_SHA256, salt).extract(dcid);
        let label = Label::new(side, 32);
        let parts = label.parts();
        let secret = initial.expand(&parts, HKDF_SHA256).ok();
        let secret = must(secret, "a hash's own length is never too long").map(Prk::from);
        // Without a secret, which cannot be, the keys open nothing.
        let secret = secret.unwrap_or(initial);
        Self { key: expand(&secret, key), iv: expand(&secret, iv), header: expand(&secret, header) }
    }

    /// Decrypts `initial` in `scratch`. Where that fails, `scratch` holds nothing of use.
    fn open(&self, initial: &Initial<'_>, scratch: &mut [u8]) -> Result<Spans, Fault> {
        let packet = scratch.get_mut(..initial.bytes.len()).ok_or(Fault::PacketLong)?;
        packet.copy_from_slice(initial.bytes);
        let protection = HeaderProtectionKey::new(&AES_128, &self.header).ok();
        let protection = must(protection, "the key has the cipher's length");
        let mask = protection.and_then(|key| key.new_mask(initial.sample()).ok());
        let [first_mask, number_mask @ ..] = mask.ok_or(Fault::PacketShort)?;
        let first = packet.first_mut().ok_or(Fault::PacketShort)?;
        *first ^= first_mask & FIRST_MASK;
        let number_len = usize::from(*first & NUMBER_LEN_MASK) + 1;
        let header_len = initial.number_start + number_len;
        let (header, payload) =
            packet.split_at_mut_checked(header_len).ok_or(Fault::PacketShort)?;
        let number_bytes = header.get_mut(initial.number_start..).unwrap_or_default();
        let mut number = 0;
        for (byte, mask) in number_bytes.iter_mut().zip(number_mask) {
            *byte ^= mask;
            number = number << 8 | u32::from(*byte);
        }
        let mut nonce = self.iv;
        let places = nonce.iter_mut().rev().zip(number.to_le_bytes());
        places.for_each(|(place, byte)| *place ^= byte);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let key = UnboundKey::new(&AES_128_GCM, &self.key).ok();
        let key = must(key, "the key has the cipher's length").map(LessSafeKey::new);
        let opened =
            key.and_then(|key| key.open_in_place(nonce, Aad::from(&*header), payload).ok());
        let len = opened.ok_or(Fault::NotDecrypted)?.len();
        Ok(Spans { number, start: header_len, end: header_len + len })
    }
}

/// Where the decrypted bytes lie in the scratch buffer.
#[derive(Clone, Copy)]
struct Spans {
    number: u32,
    start: usize,
    end: usize,
}

impl Spans {
    fn opened(self, scratch: &[u8], is_fresh: bool) -> DecryptedPacket<'_> {
        let payload = scratch.get(self.start..self.end).unwrap_or_default();
        DecryptedPacket { number: self.number, payload, is_fresh }
    }
}

/// A packet in the clear.
#[derive(Clone, Copy, Debug)]
pub struct DecryptedPacket<'s> {
    number: u32,
    payload: &'s [u8],
    is_fresh: bool,
}

impl<'s> DecryptedPacket<'s> {
    /// The packet number, as much of it as the packet has.
    #[inline]
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The frames.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'s [u8] {
        self.payload
    }

    /// Whether its keys come from this packet's own identifier and not from an earlier one: the
    /// first packet, the first one after a Retry (the hello is then the same again), or the first
    /// one of another connection between the same ports.
    #[inline]
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// The pieces of the handshake in it.
    #[inline]
    #[must_use]
    pub fn pieces(&self) -> Pieces<'s> {
        Pieces::new(self.payload)
    }
}

/// What is kept of a client between its packets: keys and what they were derived from. 68 bytes.
///
/// The client's destination identifier changes to the server's choice with the first packet that
/// it gets, and the keys stay. After a Retry identifier and keys change both. So the kept keys
/// are tried first and then those of the packet's own identifier.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ClientKeys {
    kept: Option<CachedKeys>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct CachedKeys {
    keys: Keys,
    version: Version,
    dcid: [u8; CONNECTION_ID_LEN_MAX],
    dcid_len: u8,
}

impl CachedKeys {
    fn new(version: Version, dcid: &[u8]) -> Self {
        let mut own = [0; CONNECTION_ID_LEN_MAX];
        own.iter_mut().zip(dcid).for_each(|(place, &byte)| *place = byte);
        let dcid_len = dcid.len().min(CONNECTION_ID_LEN_MAX).to_le_bytes()[0];
        Self { keys: Keys::client(version, dcid), version, dcid: own, dcid_len }
    }

    fn dcid(&self) -> &[u8] {
        self.dcid.get(..usize::from(self.dcid_len)).unwrap_or_default()
    }
}

impl ClientKeys {
    /// Nothing kept yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether a packet was opened.
    #[inline]
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.kept.is_some()
    }

    /// Decrypts a packet of the client in `scratch`, which has to be as long as the packet; keys
    /// that open it are kept.
    ///
    /// A packet that no key opens costs up to three trials and two derivations, some 20 µs: a
    /// caller that counts faults gives up on a flow after a few.
    ///
    /// # Errors
    /// [`Fault::NotDecrypted`], also for the packets of a server; [`Fault::PacketLong`].
    pub fn open<'s>(
        &mut self,
        initial: &Initial<'_>,
        scratch: &'s mut [u8],
    ) -> Result<DecryptedPacket<'s>, Fault> {
        if scratch.len() < initial.bytes.len() {
            return Err(Fault::PacketLong);
        }
        if let Some(kept) = self.kept {
            // A client that began in one version goes on in another one where the server chose
            // it; the identifier stays that of its first packet (RFC 9368 §4, RFC 9369 §4.1).
            let is_same = kept.version == initial.version;
            let kept = if is_same { kept } else { CachedKeys::new(initial.version, kept.dcid()) };
            if let Ok(spans) = kept.keys.open(initial, scratch) {
                self.kept = Some(kept);
                return Ok(spans.opened(scratch, false));
            }
            if kept.dcid() == initial.dcid {
                return Err(Fault::NotDecrypted);
            }
        }
        let own = CachedKeys::new(initial.version, initial.dcid);
        let spans = own.keys.open(initial, scratch)?;
        self.kept = Some(own);
        Ok(spans.opened(scratch, true))
    }

    /// Decrypts a packet of the server of the client whose keys are kept.
    ///
    /// # Errors
    /// [`Fault::NotDecrypted`], also where no packet of the client was opened before.
    pub fn open_server<'s>(
        &self,
        initial: &Initial<'_>,
        scratch: &'s mut [u8],
    ) -> Result<DecryptedPacket<'s>, Fault> {
        let kept = self.kept.as_ref().ok_or(Fault::NotDecrypted)?;
        let keys = Keys::server(initial.version, kept.dcid());
        Ok(keys.open(initial, scratch)?.opened(scratch, false))
    }
}

/// A length for HKDF-Expand.
struct Len(usize);

impl KeyType for Len {
    fn len(&self) -> usize {
        self.0
    }
}

/// `HkdfLabel` of TLS 1.3 (RFC 8446 §7.1), without a context.
struct Label<'a> {
    head: [u8; 3],
    name: &'a [u8],
}

impl<'a> Label<'a> {
    const PREFIX: &'static [u8] = b"tls13 ";

    /// `name` and `len` are constants of a few bytes.
    fn new(name: &'a [u8], len: usize) -> Self {
        let name_len = Self::PREFIX.len() + name.len();
        Self { head: [0, len.to_le_bytes()[0], name_len.to_le_bytes()[0]], name }
    }

    fn parts(&self) -> [&[u8]; 4] {
        [&self.head, Self::PREFIX, self.name, &[0]]
    }
}

fn expand<const N: usize>(secret: &Prk, label: &[u8]) -> [u8; N] {
    let mut key = [0; N];
    let label = Label::new(label, N);
    let parts = label.parts();
    let filled = secret.expand(&parts, Len(N)).and_then(|output| output.fill(&mut key));
    must(filled.ok(), "a key is not too long to be derived");
    key
}
