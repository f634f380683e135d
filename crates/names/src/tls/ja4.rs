//! JA4, the fingerprint of a TLS client.
//!
//! Two hellos of one program differ in their random bytes, in the server's name and, since
//! browsers permute them, in the order of their extensions; which suites, extensions and
//! signature algorithms they offer stays. JA4 keeps what stays, in three parts:
//!
//! ```text
//! t13d1516h2_8daaf6152771_e5627efa2ab1
//! ││ │││ │ │            │            └ SHA-256 of the extensions, sorted, without server name and
//! ││ │││ │ │            │              ALPN, and of the signature algorithms in their order
//! ││ │││ │ │            └ SHA-256 of the cipher suites, sorted; of each hash 12 digits
//! ││ │││ │ └ first and last character of the first ALPN protocol
//! ││ │││ └ how many extensions
//! ││ ││└ how many cipher suites
//! ││ │└ `d`: it names the server; `i`: it does not
//! │└ highest TLS version
//! └ `t`: over TCP; `q`: over QUIC
//! ```
//!
//! Written from FoxIO's public description of JA4, which is under the BSD 3-Clause licence
//! (Copyright (c) 2023 FoxIO); no code of theirs is in it. GREASE values are left out of every
//! part. What the description leaves open is decided so: a protocol of one character counts as
//! first and last; protocols are taken as they come, GREASE or not; a version that has no name,
//! such as those of drafts of TLS 1.3, is `00`.

use std::fmt;

use ring::digest::{Context, SHA256};

use super::hello::{Hello, extension, is_grease};

/// Characters of a fingerprint.
const LEN: usize = 36;
/// How many values are sorted without allocation. Clients send fewer than 100.
const VALUES_MAX: usize = 128;
/// Digits of a hash that are kept, and the part of a list that has nothing to hash.
const HASH_LEN: usize = 12;
const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// What carried the hello.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Transport {
    /// TLS over TCP.
    Tcp,
    /// QUIC.
    Quic,
}

/// The fingerprint of a client: 36 characters of ASCII.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ja4([u8; LEN]);

impl Ja4 {
    /// The fingerprint of a hello; `None` where it is cut, as any extension may yet come.
    #[must_use]
    pub fn of(hello: &Hello<'_>, transport: Transport) -> Option<Self> {
        if hello.is_cut() {
            return None;
        }
        let (mut suites_room, mut extensions_room) = ([0; VALUES_MAX], [0; VALUES_MAX]);
        let (mut suites_more, mut extensions_more) = (Vec::new(), Vec::new());
        let suites = sorted(hello.cipher_suites(), &mut suites_room, &mut suites_more);
        let kinds = hello.extensions().map(|extension| extension.kind);
        let extensions = sorted(kinds, &mut extensions_room, &mut extensions_more);

        let mut text = Text { bytes: [b'_'; LEN], len: 0 };
        text.push(match transport {
            Transport::Tcp => b't',
            Transport::Quic => b'q',
        });
        text.extend(version_name(hello.version()));
        text.push(if hello.has_server_name() { b'd' } else { b'i' });
        text.extend(&two_digits(suites.len()));
        text.extend(&two_digits(extensions.len()));
        text.extend(&ends(hello.alpn().next().unwrap_or_default()));
        text.push(b'_');
        let mut hash = Hash::new();
        suites.iter().for_each(|&value| hash.value(value, b','));
        text.extend(&hash.finish());
        text.push(b'_');
        let mut hash = Hash::new();
        let is_kept = |kind: &&u16| !matches!(**kind, extension::SERVER_NAME | extension::ALPN);
        extensions.iter().filter(is_kept).for_each(|&value| hash.value(value, b','));
        // Algorithms are the content of an extension, so that something stands before the first.
        let algorithms = hello.signature_algorithms().filter(|&value| !is_grease(value));
        for (index, value) in algorithms.enumerate() {
            hash.value(value, if index == 0 { b'_' } else { b',' });
        }
        text.extend(&hash.finish());
        Some(Self(text.bytes))
    }

    /// The fingerprint as text.
    #[inline]
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Made of ASCII alone.
        str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The fingerprint's 36 bytes of ASCII.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 36] {
        &self.0
    }
}

impl fmt::Display for Ja4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Ja4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ja4({self})")
    }
}

/// The values without GREASE, sorted, in `room` or, where that is too small, in `more`.
fn sorted<'a>(
    values: impl Iterator<Item = u16>,
    room: &'a mut [u16; VALUES_MAX],
    more: &'a mut Vec<u16>,
) -> &'a [u16] {
    let mut values = values.filter(|&value| !is_grease(value));
    let mut count = 0;
    for (place, value) in room.iter_mut().zip(&mut values) {
        *place = value;
        count += 1;
    }
    let found = if let (VALUES_MAX, Some(next)) = (count, values.next()) {
        more.extend_from_slice(room);
        more.push(next);
        more.extend(values);
        more.as_mut_slice()
    } else {
        room.get_mut(..count).unwrap_or_default()
    };
    found.sort_unstable();
    found
}

fn version_name(version: u16) -> &'static [u8; 2] {
    match version {
        0x0304 => b"13",
        0x0303 => b"12",
        0x0302 => b"11",
        0x0301 => b"10",
        0x0300 => b"s3",
        0x0002 => b"s2",
        _ => b"00",
    }
}

/// A count, of which more than 99 is 99.
fn two_digits(count: usize) -> [u8; 2] {
    let count = count.min(99);
    [count / 10, count % 10].map(digit)
}

#[inline]
fn digit(value: usize) -> u8 {
    DIGITS.get(value & 0xf).copied().unwrap_or_default()
}

/// The first and the last character of a protocol; of its digits in hex where one of them is
/// neither a letter nor a digit.
fn ends(protocol: &[u8]) -> [u8; 2] {
    match (protocol.first(), protocol.last()) {
        (Some(&first), Some(&last)) => {
            if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() {
                [first, last]
            } else {
                [digit(usize::from(first >> 4)), digit(usize::from(last))]
            }
        }
        _ => *b"00",
    }
}

struct Text {
    bytes: [u8; LEN],
    len: usize,
}

impl Text {
    fn push(&mut self, byte: u8) {
        self.extend(&[byte]);
    }

    fn extend(&mut self, bytes: &[u8]) {
        let room = self.bytes.get_mut(self.len..).unwrap_or_default();
        room.iter_mut().zip(bytes).for_each(|(place, &byte)| *place = byte);
        self.len += bytes.len();
    }
}

/// SHA-256 of values as four digits each. They are collected, because a call for five bytes costs
/// as much as hashing them.
struct Hash {
    context: Context,
    pending: [u8; 320],
    len: usize,
    is_empty: bool,
}

impl Hash {
    fn new() -> Self {
        Self { context: Context::new(&SHA256), pending: [0; 320], len: 0, is_empty: true }
    }

    /// One value, with what stands before it where it is not the first one.
    fn value(&mut self, value: u16, before: u8) {
        if self.len + 5 > self.pending.len() {
            self.flush();
        }
        let digits = [12, 8, 4, 0].map(|shift| digit(usize::from(value >> shift)));
        let [a, b, c, d] = digits;
        let text = [before, a, b, c, d];
        let text = if self.is_empty && before == b',' { &text[1..] } else { &text[..] };
        let room = self.pending.get_mut(self.len..).unwrap_or_default();
        room.iter_mut().zip(text).for_each(|(place, &byte)| *place = byte);
        self.len += text.len();
        self.is_empty = false;
    }

    fn flush(&mut self) {
        self.context.update(self.pending.get(..self.len).unwrap_or_default());
        self.len = 0;
    }

    /// Zeros where there was nothing, so that a reader recognises it.
    fn finish(mut self) -> [u8; HASH_LEN] {
        if self.is_empty {
            return [b'0'; HASH_LEN];
        }
        self.flush();
        let digest = self.context.finish();
        let mut text = [b'0'; HASH_LEN];
        for (pair, &byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(digest.as_ref()) {
            *pair = [digit(usize::from(byte >> 4)), digit(usize::from(byte))];
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::made::{HelloSpec, alpn, list, versions};

    fn ja4(made: &HelloSpec) -> String {
        let message = made.message();
        Ja4::of(&Hello::new(&message).unwrap(), Transport::Tcp).unwrap().to_string()
    }

    /// A hello of these values, whose contents are of no account but for the last ones.
    fn made(suites: &[u16], kinds: &[u16], algorithms: &[u16], protocol: &str) -> HelloSpec {
        let data = |kind| match kind {
            0x000d => list(algorithms),
            0x0010 => alpn(&[protocol.as_bytes()]),
            0x002b => versions(&[0x0303, 0x0304]),
            _ => vec![0; 5],
        };
        let extensions = kinds.iter().map(|&kind| (kind, data(kind))).collect();
        HelloSpec { version: 0x0303, cipher_suites: suites.to_vec(), extensions }
    }

    const CHROME: [u16; 15] = [
        0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc013, 0xc014,
        0x009c, 0x009d, 0x002f, 0x0035,
    ];

    /// The worked example of FoxIO's description: suites, extensions, algorithms and result.
    #[test]
    fn the_worked_example_of_the_description_comes_out() {
        assert_eq!(ja4(&HelloSpec::default()), "t13d1516h2_8daaf6152771_e5627efa2ab1");
        // The same without algorithms.
        let none = HelloSpec::default().with(0x000d, Some(vec![]));
        assert_eq!(ja4(&none), "t13d1516h2_8daaf6152771_6d807ffa2a79");
    }

    /// Of FoxIO's tests (`sigalg-grease.pcapng`), put together from the raw fingerprint; GREASE
    /// among the algorithms is left out.
    #[test]
    fn algorithms_keep_their_order_and_lose_their_grease() {
        let kinds = [
            0xfe0d, 0x0010, 0x0017, 0x0033, 0x44cd, 0xff01, 0x000a, 0x000d, 0x0023, 0x002b, 0x000b,
            0xca34, 0x002d, 0x0000, 0x0005, 0x001b, 0x0012,
        ];
        let algorithms = [
            0x8a8a, 0x0904, 0x0905, 0x0906, 0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806,
            0x0601,
        ];
        let made = made(&CHROME, &kinds, &algorithms, "h2");
        assert_eq!(ja4(&made), "t13d1517h2_8daaf6152771_cb7bf5808d99");
    }

    /// Over QUIC: the raw fingerprint that a published dissection by Wireshark shows.
    #[test]
    fn a_hello_over_quic_begins_with_q() {
        let kinds = [0x0033, 0x002b, 0x000d, 0x000a, 0x002d, 0x0000, 0x0010, 0x0039];
        let algorithms = [0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0201, 0x0807, 0x0808];
        let message = made(&[0x1302, 0x1301, 0x1303], &kinds, &algorithms, "h3").message();
        let hello = Hello::new(&message).unwrap();
        let ja4 = Ja4::of(&hello, Transport::Quic).unwrap();
        assert_eq!(ja4.as_str(), "q13d0308h3_55b375c5d22e_a06176d7f541");
        assert_eq!(format!("{ja4:>40}"), "    q13d0308h3_55b375c5d22e_a06176d7f541");
    }

    /// The examples of FoxIO's description.
    #[test]
    fn a_protocol_that_is_no_text_counts_by_its_digits() {
        let cases: [(&[u8], &[u8; 2]); 10] = [
            (b"h2", b"h2"),
            (b"http/1.1", b"h1"),
            (b"", b"00"),
            (b"x", b"xx"),
            (&[0xab], b"ab"),
            (&[0xab, 0xcd], b"ad"),
            (&[0x30, 0xab], b"3b"),
            (&[0x30, 0x31, 0xab, 0xcd], b"3d"),
            (&[0x30, 0xab, 0xcd, 0x31], b"01"),
            (&[0x0a, 0x0a], b"0a"),
        ];
        for (protocol, text) in cases {
            assert_eq!(ends(protocol), *text, "{protocol:?}");
        }
    }

    #[test]
    fn a_hello_with_nothing_to_hash_has_zeros() {
        let empty = HelloSpec { version: 0x0300, cipher_suites: vec![], extensions: vec![] };
        assert_eq!(ja4(&empty), "ts3i000000_000000000000_000000000000");
        let named = empty.with(0, Some(vec![]));
        assert_eq!(ja4(&named), "ts3d000100_000000000000_000000000000");
    }

    #[test]
    fn versions_have_names_and_those_of_drafts_have_none() {
        for (version, text) in [(0x0002, "s2"), (0x0301, "10"), (0x0302, "11"), (0x0303, "12")] {
            assert_eq!(version_name(version), text.as_bytes());
        }
        let draft = HelloSpec::default().with(43, Some(versions(&[0x7f17, 0x0303])));
        assert!(ja4(&draft).starts_with("t00d"));
    }

    #[test]
    fn many_values_are_counted_to_99_and_hashed_in_full() {
        let many: Vec<u16> = (0..400).collect();
        let mut other = many.clone();
        other.reverse();
        let ja4_many = ja4(&made(&many, &[], &[], ""));
        assert!(ja4_many.starts_with("t12i990000_"), "{ja4_many}");
        assert_eq!(ja4_many, ja4(&made(&other, &[], &[], "")));
        other.pop();
        assert_ne!(ja4_many, ja4(&made(&other, &[], &[], "")));
    }

    #[test]
    fn a_cut_hello_has_no_fingerprint() {
        let message = HelloSpec::default().message();
        let hello = Hello::new(&message[..message.len() - 1]).unwrap();
        assert_eq!(Ja4::of(&hello, Transport::Tcp), None);
    }
}
