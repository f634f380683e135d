//! What the program in the kernel that cuts packets says of each, behind what is left of it.
//!
//! `struct trailer` of `crates/capture/bpf/cut.h`. A sender who knew the secret could write one
//! himself, so it is drawn for each run and shown nowhere.

use crate::batch::Batch;
use crate::record::Record;

/// The verdict on a packet, and its length before it was cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CutTrailer {
    /// Bytes of the frame as the driver had it.
    pub wire_len: u32,
    /// Of all trees together.
    pub all_weight: u32,
    /// How much of that is the class's.
    pub class_weight: u32,
    /// Of the table by which it was cut, its lower 32 bits.
    pub generation: u32,
    /// Index of the class.
    pub class: u16,
    /// Whether sums of the packet's flow decided.
    pub is_by_flow: bool,
    /// Whether the program saw a VLAN tag in the frame.
    pub has_tag: bool,
}

impl CutTrailer {
    /// Bytes that it takes.
    pub const LEN: usize = 32;

    /// From the last bytes of a frame; nothing where they are not signed by the secret.
    #[inline]
    #[must_use]
    pub fn read(bytes: &[u8; Self::LEN], secret: u64) -> Option<Self> {
        let word = |at: usize| u32::from_ne_bytes(four(bytes, at));
        let [a, b, c, d] = four(bytes, 0);
        let [e, f, g, h] = four(bytes, 4);
        let is_signed = u64::from_ne_bytes([a, b, c, d, e, f, g, h]) == secret;
        let [class_a, class_b, is_by_flow, has_tag] = four(bytes, 24);
        is_signed.then(|| Self {
            wire_len: word(8),
            all_weight: word(12),
            class_weight: word(16),
            generation: word(20),
            class: u16::from_ne_bytes([class_a, class_b]),
            is_by_flow: is_by_flow != 0,
            has_tag: has_tag != 0,
        })
    }

    /// That of a packet whose capture left it behind the frame's bytes.
    #[inline]
    #[must_use]
    pub fn behind(record: &Record, batch: &Batch<'_>, secret: u64) -> Option<Self> {
        let end = (record.offset as usize).checked_add(record.captured_len as usize)?;
        Self::read(batch.bytes.get(end..)?.first_chunk()?, secret)
    }
}

#[inline]
const fn four(bytes: &[u8; CutTrailer::LEN], at: usize) -> [u8; 4] {
    [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailer_is_read_where_its_secret_is_right() {
        let mut bytes = [0; CutTrailer::LEN];
        bytes[..8].copy_from_slice(&7_u64.to_ne_bytes());
        for (at, word) in [(8, 1_514_u32), (12, 300), (16, 200), (20, 5)] {
            bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        bytes[24..26].copy_from_slice(&1_u16.to_ne_bytes());
        bytes[26] = 1;
        let wanted = CutTrailer {
            wire_len: 1_514,
            all_weight: 300,
            class_weight: 200,
            generation: 5,
            class: 1,
            is_by_flow: true,
            has_tag: false,
        };
        assert_eq!(CutTrailer::read(&bytes, 7), Some(wanted));
        assert_eq!(CutTrailer::read(&bytes, 8), None);
    }

    #[test]
    fn nothing_is_read_beyond_the_bytes_of_a_batch() {
        let record = Record { offset: 0, captured_len: 60, ..Record::default() };
        let batch = |bytes| Batch { bytes, records: &[], tick: None };
        assert_eq!(CutTrailer::behind(&record, &batch(&[0; 91]), 0), None);
        assert!(CutTrailer::behind(&record, &batch(&[0; 92]), 0).is_some());
        let far = Record { offset: u32::MAX, captured_len: u32::MAX, ..Record::default() };
        assert_eq!(CutTrailer::behind(&far, &batch(&[0; 92]), 0), None);
    }
}
