//! Names that packets carry, read from their payload.
//!
//! A client names the server that it wants in the clear: in its TLS ClientHello, in the QUIC
//! Initial packets that carry one, in HTTP's `Host`, or in the DNS query before the connection.
//! Servers greet with the protocol that they speak.
//!
//! - [`reader::Reader`] reads the names of flows from their packets.
//! - [`tls`] reads a ClientHello, [`quic`] finds one in Initial packets.
//! - [`gather`] puts bytes in order that arrive in pieces, within a budget.

#![forbid(unsafe_code)]

pub mod counts;
pub mod dns;
mod fault;
pub mod found;
pub mod gather;
pub mod greeting;
pub mod http;
pub mod pseudonym;
pub mod quic;
pub mod reader;
pub mod text;
pub mod tls;
