//! Writing classic pcap: version 2.4, little-endian.

use super::{FRAME_LEN_MAX, frame_len_max};
use crate::link::LinkType;
use crate::time::{NS_PER_SECOND, Timestamp};

const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const VERSION: (u16, u16) = (2, 4);

/// Encodes a pcap file by appending to a buffer that the caller writes out.
///
/// What the format cannot say is bent and counted, never refused: frames are cut
/// at the snaplen, stamps are held within 1970 to 2106.
#[derive(Clone, Debug)]
pub struct PcapEncoder {
    link: LinkType,
    snaplen: u32,
    magic: u32,
    ns_per_tick: u32,
    timestamps_clamped: u64,
    frames_cut: u64,
}

impl PcapEncoder {
    /// With stamps in nanoseconds. A `snaplen` of 0 is the longest there is.
    #[must_use]
    pub fn nanoseconds(link: LinkType, snaplen: u32) -> Self {
        Self::new(link, snaplen, MAGIC_NANOSECONDS, 1)
    }

    /// With stamps in microseconds, rounded down, for readers that know no others.
    #[must_use]
    pub fn microseconds(link: LinkType, snaplen: u32) -> Self {
        Self::new(link, snaplen, MAGIC_MICROSECONDS, 1_000)
    }

    fn new(link: LinkType, snaplen: u32, magic: u32, ns_per_tick: u32) -> Self {
        let snaplen = match snaplen {
            0 => FRAME_LEN_MAX,
            _ => snaplen.min(frame_len_max(link)),
        };
        Self { link, snaplen, magic, ns_per_tick, timestamps_clamped: 0, frames_cut: 0 }
    }

    /// Appends the file header.
    pub fn header(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.magic.to_le_bytes());
        out.extend_from_slice(&VERSION.0.to_le_bytes());
        out.extend_from_slice(&VERSION.1.to_le_bytes());
        // Time zone and accuracy: always 0.
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&self.snaplen.to_le_bytes());
        out.extend_from_slice(&u32::from(self.link.0).to_le_bytes());
    }

    /// Appends a frame that had `wire_len` bytes and of which `bytes` were captured.
    #[inline]
    pub fn frame(&mut self, out: &mut Vec<u8>, timestamp: Timestamp, wire_len: u32, bytes: &[u8]) {
        let kept = bytes.get(..self.snaplen as usize).unwrap_or(bytes);
        if kept.len() < bytes.len() {
            self.frames_cut = self.frames_cut.wrapping_add(1);
        }
        let ns = timestamp.as_ns();
        let (seconds, subsecond) = match u32::try_from(ns.div_euclid(NS_PER_SECOND)) {
            Ok(seconds) => (seconds, ns.rem_euclid(NS_PER_SECOND) as u32 / self.ns_per_tick),
            Err(_) => self.clamped(ns),
        };
        out.reserve(16_usize.saturating_add(kept.len()));
        for word in [seconds, subsecond, kept.len() as u32, wire_len] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(kept);
    }

    /// The nearest stamp that the format can say.
    #[cold]
    fn clamped(&mut self, ns: i64) -> (u32, u32) {
        self.timestamps_clamped = self.timestamps_clamped.wrapping_add(1);
        if ns < 0 { (0, 0) } else { (u32::MAX, (NS_PER_SECOND as u32 - 1) / self.ns_per_tick) }
    }

    /// Stamps before 1970 or after 2106, written as the nearest within.
    #[must_use]
    pub const fn timestamps_clamped(&self) -> u64 {
        self.timestamps_clamped
    }

    /// Frames cut because they were longer than the snaplen.
    #[must_use]
    pub const fn frames_cut(&self) -> u64 {
        self.frames_cut
    }
}
