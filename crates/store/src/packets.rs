//! Packets that a run keeps: who searches them, and who is asked.

use std::net::IpAddr;

use crate::query::Cancellation;

/// Which packets; all of what is given must hold.
#[derive(Clone, Debug, Default)]
pub struct PacketQuery {
    /// Source or destination.
    pub host: Option<IpAddr>,
    /// A Community ID, or protocol, address, port, address and port.
    pub flow: Option<String>,
    /// A class.
    pub class: Option<String>,
    /// The earliest stamp, nanoseconds since the epoch.
    pub from_ns: Option<i64>,
    /// The first stamp that is too late.
    pub to_ns: Option<i64>,
    /// Whether the answer is still wanted.
    pub cancellation: Cancellation,
}

/// A packet as a row: text where it stands, or nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketRow {
    /// Its stamp, nanoseconds since the epoch.
    pub time_ns: i64,
    /// Source, destination and protocol, where it has an IP header.
    pub ends: Option<([(IpAddr, u16); 2], String)>,
    /// Bytes on the wire.
    pub wire_len: u32,
    /// Bytes that were kept.
    pub kept_len: u32,
    /// Its class.
    pub class: String,
}

/// A packet log that can be asked, from several threads. What cannot be answered is said in words.
pub trait PacketLog: Send + Sync {
    /// Mode, counts, classes, latest events: an object of JSON.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn status(&self) -> Result<String, String>;

    /// The first packets, at most so many; and whether there are more.
    ///
    /// # Errors
    /// Why it cannot be read, or what is wrong with the question.
    fn rows(&self, query: &PacketQuery, limit: usize) -> Result<(Vec<PacketRow>, bool), String>;

    /// The packets as pcapng.
    ///
    /// # Errors
    /// The same, or that they are too many.
    fn pcapng(&self, query: &PacketQuery) -> Result<Vec<u8>, String>;
}
