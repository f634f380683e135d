//! Frames that offloads made of several packets, taken apart again by their lengths.
//!
//! A card, or the kernel in its place, merges segments that it receives (GRO, LRO) and splits what
//! is sent (TSO, GSO) below the point where a capture sees it. One frame of up to 64 KiB then
//! stands for dozens of packets. What each of these was follows from the lengths: all but the last
//! carry as much as fits.

use packet::{LinkType, Protocol, Record};

/// An Ethernet frame without tags, at the usual MTU of 1,500 bytes.
const USUAL_LEN: u32 = 1_514;
const ETHERNET_HEADER_LEN: u32 = 14;
const TAG_LEN: u32 = 4;

/// What 1,514 bytes take at 1 Gbit/s: so far apart segments of one frame are taken to have come,
/// since it is not known. Back-to-back segments in the testbed's captures are 2 to 12 µs apart.
pub(crate) const SEGMENT_GAP_NS: u32 = 12_112;

/// The outcome of a merged frame on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WireSegments {
    /// Packets, at least 2.
    pub(crate) segments: u16,
    /// Payload of each but the last.
    pub(crate) segment_len: u32,
    /// Payload of the last.
    pub(crate) last_len: u32,
}

impl WireSegments {
    /// Of a frame whose innermost IP packet has `size` bytes; nothing where it is one packet.
    ///
    /// A live capture says how many packets a frame was. Files do not: there a TCP segment that is
    /// longer than the usual MTU lets through is taken to be merged, which with jumbo frames it
    /// need not be. What a segment holds is then what fits the usual MTU, so that traffic looks the
    /// same at any.
    #[inline]
    pub(crate) fn of(record: &Record, size: u32) -> Option<Self> {
        let is_told = record.segments > 1;
        if !is_told && (size < USUAL_LEN - ETHERNET_HEADER_LEN || !is_long(record)) {
            return None;
        }
        Self::split(record, size, is_told)
    }

    #[cold]
    fn split(record: &Record, size: u32, is_told: bool) -> Option<Self> {
        let payload = record.layers.payload_len.min(size);
        let usual = room(record, size).saturating_sub(size - payload).max(1);
        let segments = if is_told {
            u32::from(record.segments).min(payload)
        } else {
            payload.div_ceil(usual).min(u16::MAX.into())
        };
        if segments < 2 {
            return None;
        }
        // With so many segments each but the last is within these bounds.
        let (least, most) = (payload.div_ceil(segments), (payload - 1) / (segments - 1));
        let segment_len = usual.clamp(least.min(most), most);
        let last_len = payload.saturating_sub(segment_len.saturating_mul(segments - 1));
        let segments = u16::try_from(segments).unwrap_or(u16::MAX);
        Some(Self { segments, segment_len, last_len })
    }
}

/// Whether a frame of a file is longer than a TCP segment is on a network with the usual MTU.
#[inline]
fn is_long(record: &Record) -> bool {
    let layers = &record.layers;
    let is_segment = layers.protocol == Protocol::TCP && !layers.has(packet::Layers::FRAGMENT);
    let tags = if layers.vlan().is_some() { TAG_LEN } else { 0 };
    let link = if record.link == LinkType::ETHERNET { ETHERNET_HEADER_LEN + tags } else { 0 };
    is_segment && record.wire_len > USUAL_LEN - ETHERNET_HEADER_LEN + link
}

/// Bytes that an innermost IP packet may have where the outermost has the usual MTU.
fn room(record: &Record, size: u32) -> u32 {
    let tags = if record.layers.vlan().is_some() { TAG_LEN } else { 0 };
    let link = if record.link == LinkType::ETHERNET { ETHERNET_HEADER_LEN + tags } else { 0 };
    // Headers of tunnels stand between the link's and the innermost packet's.
    let before = record.wire_len.saturating_sub(size);
    (USUAL_LEN - ETHERNET_HEADER_LEN).saturating_sub(before.saturating_sub(link))
}
