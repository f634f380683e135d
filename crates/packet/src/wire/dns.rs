//! DNS over UDP (RFC 1035 §4.1.1): the fixed header, by which a response is matched to its query.
//!
//! ```text
//! |                id                 |
//! |QR| opcode |AA|TC|RD|RA| Z | rcode |
//! |  questions  |  answers  |  authority  |  additional  |
//! ```

use std::fmt;

mod field {
    pub(super) const ID: usize = 0;
    pub(super) const FLAGS: usize = 2;
    pub(super) const QUESTION_COUNT: usize = 4;
}

/// Bytes of the header.
pub const HEADER_LEN: usize = 12;
/// The port of DNS.
pub const PORT: u16 = 53;
/// The port of multicast DNS (RFC 6762), where no response is required.
pub const MULTICAST_PORT: u16 = 5353;

const IS_RESPONSE: u16 = 1 << 15;

/// A DNS header.
#[derive(Clone, Copy, Debug)]
pub struct Dns<'a> {
    header: &'a [u8; HEADER_LEN],
}

impl<'a> Dns<'a> {
    /// Reads the header at the start of a datagram's payload; `None` where it is shorter, or has
    /// an opcode that is not in use.
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let view = Self { header: bytes.first_chunk()? };
        (view.opcode() <= 6).then_some(view)
    }

    #[inline]
    fn word(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.header[at], self.header[at + 1]])
    }

    /// The number that a response has of its query.
    #[inline]
    #[must_use]
    pub fn id(&self) -> u16 {
        self.word(field::ID)
    }

    /// Whether this is a response (QR).
    #[inline]
    #[must_use]
    pub fn is_response(&self) -> bool {
        self.word(field::FLAGS) & IS_RESPONSE != 0
    }

    /// What kind of query it is: 0 for the usual one.
    #[inline]
    #[must_use]
    pub fn opcode(&self) -> u8 {
        // Four bits.
        (self.word(field::FLAGS) >> 11 & 15).to_le_bytes()[0]
    }

    /// Questions that follow.
    #[inline]
    #[must_use]
    pub fn question_count(&self) -> u16 {
        self.word(field::QUESTION_COUNT)
    }
}

/// `query 4711` or `response 4711`.
impl fmt::Display for Dns<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.is_response() { "response" } else { "query" };
        write!(f, "{what} {}", self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_has_the_number_of_its_query() {
        // A query for example.com, and the first bytes of its response.
        let query = [0x12, 0x67, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 7, b'e'];
        let response = [0x12, 0x67, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
        let (query, response) = (Dns::new(&query).unwrap(), Dns::new(&response).unwrap());
        assert_eq!((query.to_string(), query.question_count()), ("query 4711".to_owned(), 1));
        assert_eq!(response.to_string(), "response 4711");
    }

    #[test]
    fn what_is_short_or_has_another_opcode_is_none() {
        assert!(Dns::new(&[0; 11]).is_none());
        let mut bytes = [0; 12];
        bytes[2] = 0b0111_1000;
        assert!(Dns::new(&bytes).is_none());
    }
}
