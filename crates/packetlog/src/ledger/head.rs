//! Hashes, and heads: the number of a record with its hash, by which it is anchored elsewhere.

use std::fmt;

/// A BLAKE3 hash.
pub(crate) type Digest = [u8; 32];

/// The hash of parts one after the other.
pub(crate) fn digest(parts: &[&[u8]]) -> Digest {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}

/// In hexadecimal digits.
pub(crate) fn hex(digest: &Digest) -> String {
    blake3::Hash::from_bytes(*digest).to_hex().to_string()
}

/// From hexadecimal digits.
pub(crate) fn unhex(text: &str) -> Option<Digest> {
    // In capitals it would be the same hash, and a changed file.
    let hash = blake3::Hash::from_hex(text).ok().filter(|hash| hash.to_hex().as_str() == text)?;
    Some(*hash.as_bytes())
}

/// The number of a record and its hash, which fixes all records before it. Written as
/// `NUMBER:HASH`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Head {
    /// Counted from 1 since the ledger was begun.
    pub number: u64,
    /// The hash of the record.
    pub hash: [u8; 32],
}

impl Head {
    /// Reads what [`Display`](fmt::Display) writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (number, hash) = text.split_once(':')?;
        Some(Self { number: number.parse().ok()?, hash: unhex(hash)? })
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.number, hex(&self.hash))
    }
}

/// The heads among the words of a text: of a file of `--anchor`, a log of syslog, a mail.
#[must_use]
pub fn read_heads(text: &str) -> Vec<Head> {
    text.split_whitespace().filter_map(Head::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written_among_other_words() {
        let head = Head { number: 17, hash: digest(&[b"a", b"b"]) };
        assert_eq!(head.hash, digest(&[b"ab"]));
        let text = format!("2026-11-28T17:00:00Z {head} 18:1234 x:y\nhost: packetlog {head}\n");
        assert_eq!(read_heads(&text), [head, head]);
    }
}
