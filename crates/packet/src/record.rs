//! The record: what is known of a frame besides its bytes.

use crate::layers::Layers;
use crate::link::LinkType;
use crate::time::Timestamp;

/// Which way a frame passed the capture point, if the capture says so.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum Direction {
    /// The capture does not tell.
    #[default]
    Unknown,
    /// Received by the capturing host.
    Inbound,
    /// Sent by the capturing host.
    Outbound,
}

/// One frame as it was seen. Small, `Copy`, owns nothing: its bytes lie in the
/// [`Batch`](crate::Batch) that lends it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Record {
    /// When it was seen; [`Timestamp::UNKNOWN`] where the capture does not tell.
    pub timestamp: Timestamp,
    /// Start of the frame within the batch's bytes.
    pub offset: u32,
    /// Captured bytes.
    pub captured_len: u32,
    /// Bytes that were on the wire, link header included, as the capture records them.
    pub wire_len: u32,
    /// Index of the interface within its input, in order of appearance.
    pub interface: u16,
    /// Index of its input among those that are read as one, in the order they were named; inputs
    /// after the 65,535th share the last index.
    pub input: u16,
    /// What the first byte of the frame is.
    pub link: LinkType,
    /// Wire packets that this frame stands for: above 1 after segmentation offload.
    pub segments: u16,
    /// Which way it passed.
    pub direction: Direction,
    /// Where its headers lie.
    pub layers: Layers,
}

const _: () = assert!(size_of::<Record>() <= 56, "a record stays within one cache line");
