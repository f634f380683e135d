//! What the program in the kernel that cuts packets says of each, in front of what is left of it.
//!
//! A sender who knew the secret could write such a note himself, so it is drawn for each run and
//! shown nowhere.

use crate::batch::Batch;
use crate::record::Record;

/// The verdict on a packet, and its length before it was cut: `struct note` of
/// `crates/capture/bpf/cut.h`, within a link header of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CutNote {
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
    /// When the program had it, by the clock of programs in the kernel.
    pub time_ns: u64,
}

/// In place of a class: the program handed the frame over, and did not judge it.
const NOT_JUDGED: u16 = 0xffff;

/// Where the note begins, behind an Ethernet header and what makes it a multiple of 8 bytes.
const NOTE_AT: usize = 16;
const SECRET_LEN: usize = 8;
/// Bytes of a VLAN tag, which a capture may put between the note and the frame.
const TAG_LEN: usize = 4;

impl CutNote {
    /// Bytes in front of the frame.
    pub const LEN: usize = 56;

    /// From the first bytes of a frame; nothing where they are not signed by the secret.
    #[inline]
    #[must_use]
    pub fn read(bytes: &[u8; Self::LEN], secret: u64) -> Option<Self> {
        let word = |at: usize| u32::from_ne_bytes(four(bytes, at));
        let is_signed = eight(bytes, 0) == secret;
        let [class_a, class_b, is_by_flow, _] = four(bytes, 24);
        is_signed.then(|| Self {
            wire_len: word(8),
            all_weight: word(12),
            class_weight: word(16),
            generation: word(20),
            class: u16::from_ne_bytes([class_a, class_b]),
            is_by_flow: is_by_flow != 0,
            time_ns: eight(bytes, 32),
        })
    }

    /// Whether it has a verdict.
    #[inline]
    #[must_use]
    pub const fn is_judged(&self) -> bool {
        self.class != NOT_JUDGED
    }

    /// Leaves no note in front of a frame that has none: what is there may be of an earlier frame.
    pub fn clear_before(bytes: &mut [u8], frame: usize) {
        for start in [Self::LEN, Self::LEN - TAG_LEN].iter().map(|len| frame.checked_sub(*len)) {
            let secret = start.map(|start| start + NOTE_AT..start + NOTE_AT + SECRET_LEN);
            if let Some(secret) = secret.and_then(|secret| bytes.get_mut(secret)) {
                secret.fill(0);
            }
        }
    }

    /// The verdict on a packet of which a capture left it in front of the frame's bytes.
    #[inline]
    #[must_use]
    pub fn before(record: &Record, batch: &Batch<'_>, secret: u64) -> Option<Self> {
        let at = |start: usize| Self::read(batch.bytes.get(start..)?.first_chunk()?, secret);
        let frame = record.offset as usize;
        let plain = frame.checked_sub(Self::LEN).and_then(at);
        // A tag that a card took out was put back since, and took its room from the note's end.
        let note = plain.or_else(|| frame.checked_sub(Self::LEN - TAG_LEN).and_then(at));
        note.filter(Self::is_judged)
    }
}

#[inline]
const fn four(bytes: &[u8; CutNote::LEN], at: usize) -> [u8; 4] {
    let at = NOTE_AT + at;
    [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]
}

#[inline]
const fn eight(bytes: &[u8; CutNote::LEN], at: usize) -> u64 {
    let [a, b, c, d] = four(bytes, at);
    let [e, f, g, h] = four(bytes, at + 4);
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note() -> [u8; CutNote::LEN] {
        let mut bytes = [0; CutNote::LEN];
        let note = &mut bytes[NOTE_AT..];
        note[..8].copy_from_slice(&7_u64.to_ne_bytes());
        for (at, word) in [(8, 1_514_u32), (12, 300), (16, 200), (20, 5)] {
            note[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        note[24..26].copy_from_slice(&1_u16.to_ne_bytes());
        note[26] = 1;
        note[32..40].copy_from_slice(&9_u64.to_ne_bytes());
        bytes
    }

    #[test]
    fn a_note_is_read_where_its_secret_is_right() {
        let wanted = CutNote {
            wire_len: 1_514,
            all_weight: 300,
            class_weight: 200,
            generation: 5,
            class: 1,
            is_by_flow: true,
            time_ns: 9,
        };
        assert_eq!(CutNote::read(&note(), 7), Some(wanted));
        assert_eq!(CutNote::read(&note(), 8), None);
    }

    #[test]
    fn a_note_is_found_in_front_of_a_frame_also_behind_a_tag() {
        let bytes = [note().as_slice(), &[1; 60]].concat();
        let batch = |bytes| Batch { bytes, records: &[], tick: None };
        let found = |offset| {
            let record = Record { offset, captured_len: 60, ..Record::default() };
            CutNote::before(&record, &batch(&bytes), 7)
        };
        assert!(found(56).is_some() && found(52).is_some());
        assert!(found(55).is_none() && found(0).is_none() && found(u32::MAX).is_none());
        let mut cleared = bytes.clone();
        CutNote::clear_before(&mut cleared, 56);
        let record = Record { offset: 56, captured_len: 60, ..Record::default() };
        assert_eq!(CutNote::before(&record, &batch(&cleared), 7), None);
        assert_eq!(cleared[56..], bytes[56..]);
        let mut whole = bytes.clone();
        whole[40..42].fill(0xff);
        assert!(!CutNote::read(whole.first_chunk().unwrap(), 7).unwrap().is_judged());
        assert_eq!(CutNote::before(&record, &batch(&whole), 7), None);
        CutNote::clear_before(&mut cleared, 3);
    }
}
