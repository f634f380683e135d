//! DNS messages (RFC 1035 §4), also those of mDNS (RFC 6762) and LLMNR (RFC 4795).
//!
//! ```text
//! header (12 bytes) | questions | answers | authority | additional
//! question:  name | type | class
//! record:    name | type | class | TTL (32 bits) | length | data
//! ```

mod name;
mod resolved;

pub use name::{LABELS_MAX, Name};
pub use resolved::{ANSWERS_MAX, ResolverCache};

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use packet::wire::dns::{Dns, HEADER_LEN};

use crate::fault::faults;

/// The port of LLMNR (RFC 4795 §2).
pub const LLMNR_PORT: u16 = 5355;

/// Records of a message that are examined: more do not fit a datagram of usual size.
const RECORDS_MAX: usize = 128;

mod field {
    pub(super) const ANSWER_COUNT: usize = 6;
    /// Type and class behind the name of a question.
    pub(super) const QUESTION_TAIL_LEN: usize = 4;
    /// Type, class, TTL and length behind the name of a record.
    pub(super) const RECORD_TAIL_LEN: usize = 10;
}

faults! {
    /// What is wrong with a message.
    DnsFault:
    /// Too short for a header, or a header that cannot be one.
    NotDns = "not_dns";
    /// A count or a length goes past the end of the message.
    PastEnd = "dns_past_end";
    /// A pointer of a name does not go back, or there are too many: names would not end.
    NameLoop = "dns_name_loop";
    /// A label of a kind that does not exist.
    BadLabel = "dns_bad_label";
    /// A name of more than 255 bytes.
    NameTooLong = "dns_name_too_long";
}

/// The type of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordType(pub u16);

impl RecordType {
    /// An IPv4 address.
    pub const A: Self = Self(1);
    /// Another name for this one.
    pub const CNAME: Self = Self(5);
    /// An IPv6 address.
    pub const AAAA: Self = Self(28);
}

/// Its name, or `TYPE` and its number where it has none here (RFC 3597 §5).
impl fmt::Display for RecordType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            1 => "A",
            2 => "NS",
            5 => "CNAME",
            6 => "SOA",
            12 => "PTR",
            13 => "HINFO",
            15 => "MX",
            16 => "TXT",
            28 => "AAAA",
            33 => "SRV",
            35 => "NAPTR",
            43 => "DS",
            46 => "RRSIG",
            47 => "NSEC",
            48 => "DNSKEY",
            64 => "SVCB",
            65 => "HTTPS",
            252 => "AXFR",
            255 => "ANY",
            257 => "CAA",
            number => return write!(f, "TYPE{number}"),
        };
        f.write_str(name)
    }
}

/// What a message asks.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The name.
    pub name: Name<'a>,
    /// The type of record that is wanted.
    pub kind: RecordType,
}

/// An answer.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// Whose record it is.
    pub name: Name<'a>,
    /// The type of the record.
    pub kind: RecordType,
    /// How long it may be kept, in seconds.
    pub ttl_s: u32,
    /// Its data.
    pub data: &'a [u8],
    /// The name in its data, where the type of the record has one there.
    data_name: Name<'a>,
}

impl<'a> Answer<'a> {
    /// The name that an alias stands for.
    #[must_use]
    pub fn alias(&self) -> Option<Name<'a>> {
        (self.kind == RecordType::CNAME).then_some(self.data_name)
    }

    /// The address of an A or AAAA record.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        match self.kind {
            RecordType::A => {
                let octets: [u8; 4] = self.data.try_into().ok()?;
                Some(Ipv4Addr::from(octets).into())
            }
            RecordType::AAAA => {
                let octets: [u8; 16] = self.data.try_into().ok()?;
                Some(Ipv6Addr::from(octets).into())
            }
            _ => None,
        }
    }
}

/// A DNS message, of which the header is there.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    header: Dns<'a>,
    bytes: &'a [u8],
}

impl<'a> Message<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`DnsFault::NotDns`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, DnsFault> {
        let header = Dns::new(bytes).ok_or(DnsFault::NotDns)?;
        Ok(Self { header, bytes })
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> Dns<'a> {
        self.header
    }

    /// Answers that follow the questions, as the header counts them.
    #[must_use]
    pub fn answer_count(&self) -> u16 {
        self.word(field::ANSWER_COUNT).unwrap_or(0)
    }

    /// The first question, which is the only one that servers answer.
    ///
    /// # Errors
    /// [`DnsFault`]: the question cannot be read.
    pub fn question(&self) -> Result<Option<Question<'a>>, DnsFault> {
        if self.header.question_count() == 0 {
            return Ok(None);
        }
        let name = Name::new(self.bytes, HEADER_LEN);
        let tail = name.end()?;
        let kind = self.word(tail).ok_or(DnsFault::PastEnd)?;
        self.word(tail + 2).ok_or(DnsFault::PastEnd)?;
        Ok(Some(Question { name, kind: RecordType(kind) }))
    }

    /// Whether it can hardly be anything but DNS, on whatever port: a query of one question with
    /// nothing behind it but what EDNS adds, or a response to one that is read to its end.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        let count = |at: usize| self.word(at);
        let (Some(authority), Some(additional)) = (count(8), count(10)) else { return false };
        let is_standard = self.header.opcode() == 0 && self.header.question_count() == 1;
        let Ok(Some(question)) = self.question() else { return false };
        let Ok(tail) = question.name.end() else { return false };
        let is_internet = self.word(tail + 2).is_some_and(|class| class & 0x7fff == 1);
        let fits = match self.header.is_response() {
            true => self.answers().all(|answer| answer.is_ok()),
            false => {
                let is_last = additional > 0 || tail + field::QUESTION_TAIL_LEN == self.bytes.len();
                self.answer_count() == 0 && authority == 0 && additional <= 2 && is_last
            }
        };
        is_standard && is_internet && fits
    }

    /// The answers, the first [`RECORDS_MAX`] of them. It ends behind a fault.
    #[must_use]
    pub fn answers(&self) -> Answers<'a> {
        let questions = self.header.question_count();
        let left = usize::from(self.answer_count()).min(RECORDS_MAX);
        Answers { message: *self, questions, left, at: HEADER_LEN }
    }

    fn word(&self, at: usize) -> Option<u16> {
        let bytes = self.bytes.get(at..)?.first_chunk()?;
        Some(u16::from_be_bytes(*bytes))
    }
}

/// The answers of a message.
#[derive(Clone, Debug)]
pub struct Answers<'a> {
    message: Message<'a>,
    /// Questions that are still to be passed.
    questions: u16,
    left: usize,
    at: usize,
}

impl<'a> Answers<'a> {
    fn read(&mut self) -> Result<Answer<'a>, DnsFault> {
        let message = self.message;
        // A header may count 65,535 questions: each takes five bytes, so the message ends first.
        while self.questions > 0 {
            self.at = Name::new(message.bytes, self.at).end()? + field::QUESTION_TAIL_LEN;
            self.questions -= 1;
        }
        let name = Name::new(message.bytes, self.at);
        let tail = name.end()?;
        let word = |at: usize| message.word(tail + at).ok_or(DnsFault::PastEnd);
        let (kind, ttl) = (word(0)?, u32::from(word(4)?) << 16 | u32::from(word(6)?));
        let start = tail + field::RECORD_TAIL_LEN;
        let end = start + usize::from(word(8)?);
        let data = message.bytes.get(start..end).ok_or(DnsFault::PastEnd)?;
        self.at = end;
        // The topmost bit of a TTL counts as none (RFC 2181 §8).
        let ttl_s = if ttl > i32::MAX.unsigned_abs() { 0 } else { ttl };
        let data_name = Name::new(message.bytes, start);
        Ok(Answer { name, kind: RecordType(kind), ttl_s, data, data_name })
    }
}

impl<'a> Iterator for Answers<'a> {
    type Item = Result<Answer<'a>, DnsFault>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let answer = self.read();
        if answer.is_err() {
            self.left = 0;
        }
        Some(answer)
    }
}

#[cfg(test)]
mod tests;
