//! Records lent together with their bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::layers::Network;
use crate::record::Record;
use crate::time::Timestamp;

/// Records a source hands over per call; few enough that records and headers
/// stay in the first-level cache until the last stage has seen them.
pub const BATCH_LEN_MAX: usize = 256;

/// Some frames, in the order in which they were read.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The bytes in which the records' offsets count.
    pub bytes: &'a [u8],
    /// The records; at most [`BATCH_LEN_MAX`].
    pub records: &'a [Record],
    /// Time up to which everything that was seen has been handed over, this batch included.
    /// Only live sources know it; of a file the stamps themselves are all there is. It lets
    /// windows close and flows end while a link is silent.
    pub tick: Option<Timestamp>,
}

/// One frame of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// What is known of it.
    pub record: &'a Record,
    /// Its captured bytes.
    pub bytes: &'a [u8],
}

/// Where batches come from: a file, several files in time order, an interface.
///
/// A source that has to stop early ends, and says why in its own report: what
/// it handed out before stays valid, and a stage never sees an error.
pub trait Source {
    /// The next frames, or `None` at the end. A batch is empty where it brings a
    /// [`tick`](Batch::tick), or where all of its frames were left out as copies.
    fn next_batch(&mut self) -> Option<Batch<'_>>;

    /// Whether a stop is its own affair: it is asked until it ends, since what
    /// it has received already is still to be handed out.
    fn ends_by_itself(&self) -> bool {
        false
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    #[inline]
    fn next_batch(&mut self) -> Option<Batch<'_>> {
        (**self).next_batch()
    }

    fn ends_by_itself(&self) -> bool {
        (**self).ends_by_itself()
    }
}

impl<'a> Batch<'a> {
    /// The frames in order.
    #[inline]
    pub fn frames(&self) -> impl ExactSizeIterator<Item = Frame<'a>> + use<'a> {
        let bytes = self.bytes;
        self.records.iter().map(move |record| Frame::new(bytes, record))
    }
}

impl<'a> Frame<'a> {
    /// The frame of `record` in the bytes of its batch. A record that does not
    /// fit its batch gives an empty frame.
    #[inline]
    #[must_use]
    pub fn new(batch_bytes: &'a [u8], record: &'a Record) -> Self {
        let start = record.offset as usize;
        let end = start.wrapping_add(record.captured_len as usize);
        let bytes = batch_bytes.get(start..end).unwrap_or_default();
        Self { record, bytes }
    }

    /// Bytes from `offset` on; empty past the end.
    #[inline]
    #[must_use]
    pub fn from_offset(&self, offset: u16) -> &'a [u8] {
        self.bytes.get(usize::from(offset)..).unwrap_or_default()
    }

    /// The innermost IPv4 header's source and destination, in host order.
    #[inline]
    #[must_use]
    pub fn ipv4_addresses(&self) -> Option<(u32, u32)> {
        if self.record.layers.network != Network::Ipv4 {
            return None;
        }
        let header: &[u8; 20] =
            self.from_offset(self.record.layers.network_offset).first_chunk()?;
        let word = |at: usize| {
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        Some((word(12), word(16)))
    }

    /// The innermost IPv6 header's source and destination, in host order.
    #[inline]
    #[must_use]
    pub fn ipv6_addresses(&self) -> Option<(u128, u128)> {
        if self.record.layers.network != Network::Ipv6 {
            return None;
        }
        let header: &[u8; 40] =
            self.from_offset(self.record.layers.network_offset).first_chunk()?;
        let source: &[u8; 16] = header[8..].first_chunk()?;
        let destination: &[u8; 16] = header[24..].first_chunk()?;
        Some((u128::from_be_bytes(*source), u128::from_be_bytes(*destination)))
    }

    /// The innermost IP header's source and destination.
    #[must_use]
    pub fn ip_addresses(&self) -> Option<(IpAddr, IpAddr)> {
        if let Some((source, destination)) = self.ipv4_addresses() {
            return Some((Ipv4Addr::from(source).into(), Ipv4Addr::from(destination).into()));
        }
        let (source, destination) = self.ipv6_addresses()?;
        Some((Ipv6Addr::from(source).into(), Ipv6Addr::from(destination).into()))
    }
}
