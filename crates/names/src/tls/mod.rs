//! The TLS ClientHello (RFC 8446 §4.1.2; of TLS 1.0 to 1.2 in RFC 5246 §7.4.1.2).
//!
//! It is the last message of a handshake that is sent in the clear and the first one at all: it
//! names the server, the protocols that the client speaks, and, by what it offers in which order,
//! the program that speaks.
//!
//! - [`Hello`] reads the message from its bytes, whole or as a prefix.
//! - [`handshake`] takes a TCP stream's record headers away, behind which the message may be
//!   split over several records. QUIC has no records: its CRYPTO frames carry the message itself.
//! - [`Ja4`] is the fingerprint of a client.
//!
//! Nothing is allocated but for a fingerprint of a hello with more than 128 cipher suites or
//! extensions. What a hello says is not trusted: each length is checked against what encloses it.
//!
//! Fingerprints are tested with the worked example of FoxIO's description of JA4, with raw
//! fingerprints from its tests, and, in `tests/captures`, with what FoxIO and nDPI publish of
//! captures that are stored outside the repository; there, hellos are also compared with tshark's.

mod fault;
mod hello;
mod ja4;
#[cfg(test)]
mod made;
mod records;

pub use fault::Fault;
pub use hello::{Extension, Hello, NAME_LEN_MAX, Protocols, extension, is_grease};
pub use ja4::{Ja4, Transport};
pub use records::{Handshake, Progress, RECORD_LEN_MAX, begins_like_hello, handshake, is_complete};
