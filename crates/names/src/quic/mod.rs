//! QUIC Initial packets (RFC 9000, RFC 9001, RFC 9369), which carry the ClientHello.
//!
//! They are encrypted with keys that any observer on the path can derive: from the destination
//! connection identifier of the client's first packet and a salt that the version's RFC prints.
//! The protection is against changes by those who do not speak the version, not against reading.
//!
//! ```text
//! datagram ── Datagram ──► Initial ── ClientKeys::open ──► Opened ── pieces ──► (offset, bytes)
//! ```
//!
//! A hello that does not fit into one packet, as with post-quantum key shares, comes in several;
//! Chrome also splits it into pieces in random order. [`Gather`](crate::gather::Gather) puts
//! them in order. What remains is a handshake message without record headers, which
//! [`Hello`](crate::tls::Hello) reads.
//!
//! Versions 1 and 2 are read, and drafts from 21 on, which differ from version 1 in the salt at
//! most. Nothing is allocated: a packet is decrypted in the caller's buffer.
//!
//! Tested with all Initial packets of the appendices of RFC 9001 and RFC 9369, in both
//! directions, and in `tests/captures` with captures stored outside the repository and tshark.
//!
//! Two things are not seen: a packet that the capture cut (`snaplen`), because its authentication
//! tag is at its end; and packet numbers that need more than the packet has of them, which takes
//! more than 127 Initial packets without an acknowledgement.

mod fault;
mod frames;
mod keys;
mod packet;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod vectors;

pub use fault::Fault;
pub use frames::{Piece, Pieces};
pub use keys::{ClientKeys, DecryptedPacket, Keys};
pub use packet::{CONNECTION_ID_LEN_MAX, Datagram, Initial, Packet, Version};
