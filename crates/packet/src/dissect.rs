//! Finds the headers of one frame.
//!
//! Most frames are Ethernet, perhaps one VLAN tag, IP without options and TCP
//! or UDP: [`fast`] knows these alone and gives up on the first doubt.
//! [`walk`] knows everything, and a property test holds that the two agree.

mod fast;
mod walk;

#[cfg(test)]
mod tests;

use crate::layers::Layers;
use crate::link::LinkType;

/// Network and encapsulation headers that are followed before a frame counts as too deep.
pub const HEADERS_MAX: usize = 16;

/// What [`dissect`] looks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DissectOptions {
    /// Open tunnels and describe the innermost headers. Without it the first IP header is
    /// described.
    pub decapsulate: bool,
    /// Read the transport header; off where addresses are enough.
    pub transport: bool,
}

impl Default for DissectOptions {
    fn default() -> Self {
        Self { decapsulate: true, transport: true }
    }
}

/// Finds the headers of `frame`, which was `wire_len` bytes long before it was cut.
///
/// Never fails: what was wrong is [`Layers::fault`], and what was found before
/// stays found. Link types without IP in them give empty [`Layers`].
#[inline]
#[must_use]
pub fn dissect(link: LinkType, frame: &[u8], wire_len: u32, options: DissectOptions) -> Layers {
    let mut layers = Layers::default();
    dissect_into(link, frame, wire_len, options, &mut layers);
    layers
}

/// [`dissect`] into a record that already has its place. `layers` is
/// overwritten; to copy it there afterwards would cost as much as finding it,
/// because wide loads wait for the narrow stores that filled it.
#[inline]
pub fn dissect_into(
    link: LinkType,
    frame: &[u8],
    wire_len: u32,
    options: DissectOptions,
    layers: &mut Layers,
) {
    if link != LinkType::ETHERNET || !fast::dissect(frame, wire_len, options, layers) {
        walk::dissect(link, frame, wire_len, options, layers);
    }
}

/// [`dissect`] without its fast path; for tests and measurements.
#[doc(hidden)]
#[must_use]
pub fn dissect_slowly(
    link: LinkType,
    frame: &[u8],
    wire_len: u32,
    options: DissectOptions,
) -> Layers {
    let mut layers = Layers::default();
    walk::dissect(link, frame, wire_len, options, &mut layers);
    layers
}
