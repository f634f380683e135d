//! Finding a record in the middle of a file, so that threads can share it.
//!
//! Neither format marks its records, so this is a guess: a place from which many
//! records follow one another, each plausible. A wrong guess does no harm as long
//! as the caller verifies that the part before ends exactly there, and decodes on
//! from where it did end if not.

use super::block::check_len;
use super::order::ByteOrder;
use super::pcap::{Pcap, RECORD_HEADER_LEN};
use super::pcapng::{Pcapng, block_type};
use super::{Decoder, FRAME_LEN_MAX_MESSAGE, Layout};

/// Neighbouring records of a capture are closer than this.
const GAP_SECONDS_MAX: u32 = 86_400;

impl Decoder {
    /// Offset within `bytes`, which begin anywhere in the file, at which a chain of
    /// `chain_len` plausible records begins, or a shorter one that ends exactly
    /// with `bytes`. The interfaces met so far must be those of the place.
    ///
    /// Takes at most `chain_len` looks at each byte; `bytes` should be somewhat
    /// longer than the longest record.
    #[must_use]
    pub fn find_boundary(&self, bytes: &[u8], chain_len: usize) -> Option<usize> {
        (0..bytes.len()).find(|&start| match &self.layout {
            Layout::Pcap(pcap) => pcap.is_chain(bytes, start, chain_len),
            Layout::Pcapng(pcapng) => pcapng.is_chain(bytes, start, chain_len),
        })
    }
}

impl Pcap {
    fn is_chain(&self, bytes: &[u8], start: usize, chain_len: usize) -> bool {
        let len_max = self.plausible_len_max();
        let mut at = start;
        let mut earlier: Option<u32> = None;
        for _ in 0..chain_len {
            if at == bytes.len() {
                return at > start;
            }
            let Some(header) = bytes.get(at..).and_then(<[u8]>::first_chunk::<RECORD_HEADER_LEN>)
            else {
                return false;
            };
            let seconds = self.order.u32_at(header, 0);
            let (captured_len, wire_len, _) = self.lengths(header);
            // An empty frame would make a run of zeros a chain.
            let plausible = self.order.u32_at(header, 4) < self.ticks_per_second()
                && (1..=len_max).contains(&captured_len)
                && (captured_len..=FRAME_LEN_MAX_MESSAGE).contains(&wire_len)
                && earlier.is_none_or(|earlier| seconds.abs_diff(earlier) <= GAP_SECONDS_MAX);
            if !plausible {
                return false;
            }
            earlier = Some(seconds);
            at = at.saturating_add(self.record_header_len()).saturating_add(captured_len as usize);
        }
        true
    }
}

impl Pcapng {
    fn is_chain(&self, bytes: &[u8], start: usize, chain_len: usize) -> bool {
        let mut interface_count = self.channels.len();
        let mut at = start;
        for _ in 0..chain_len {
            if at == bytes.len() {
                return at > start;
            }
            let block = bytes.get(at..).unwrap_or_default();
            let Some(block_len) = plausible_block(self.order, block, &mut interface_count) else {
                return false;
            };
            at = at.saturating_add(block_len);
        }
        true
    }
}

/// Length of the block at the start of `bytes`, where it is whole and plausible.
fn plausible_block(order: ByteOrder, bytes: &[u8], interface_count: &mut usize) -> Option<usize> {
    let header = bytes.first_chunk::<12>()?;
    let (kind, block_len) = (order.u32_at(header, 0), order.u32_at(header, 4));
    match kind {
        block_type::SECTION_HEADER => {
            // A section of the other byte order ends the chain: rare, and harmless.
            (super::block::section_order(header) == Ok(order)).then_some(())?;
            *interface_count = 0;
        }
        block_type::INTERFACE_DESCRIPTION => *interface_count = interface_count.saturating_add(1),
        block_type::ENHANCED_PACKET | block_type::INTERFACE_STATISTICS => {
            let known = (order.u32_at(header, 8) as usize) < *interface_count;
            known.then_some(())?;
        }
        block_type::OBSOLETE_PACKET
        | block_type::SIMPLE_PACKET
        | block_type::NAME_RESOLUTION
        | block_type::JOURNAL
        | block_type::SECRETS
        | block_type::CUSTOM
        | block_type::CUSTOM_NO_COPY => {}
        _ => return None,
    }
    check_len(kind, block_len).ok()?;
    let block = bytes.get(..block_len as usize)?;
    let trailing = order.u32_at(block, block.len().saturating_sub(4));
    (trailing == block_len).then_some(block.len())
}
