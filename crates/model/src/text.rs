//! Records as the text of a CSV row.
//!
//! A row has a thousand values of two or three characters. So a byte's eight values are one copy
//! from a table, and a header that is not there is one copy for all of it.

use crate::subscription::Subscription;

/// Text of eight bits, each with its comma.
const BYTE_LEN: usize = 16;

/// For each byte the text of its bits.
const BYTES: [[u8; BYTE_LEN]; 256] = bytes();

const fn bytes() -> [[u8; BYTE_LEN]; 256] {
    let mut table = [[b','; BYTE_LEN]; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut bit = 0;
        while bit < 8 {
            table[byte][bit * 2] = b'0' + (byte >> (7 - bit) & 1) as u8;
            bit += 1;
        }
        byte += 1;
    }
    table
}

/// Columns that are written together.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// All columns of the bytes from `start` to `end`.
    Whole { start: usize, end: usize },
    /// Some columns of one byte.
    Some { index: usize, mask: u8 },
}

/// Writes records as text, as nPrint does: values with commas between them.
#[derive(Clone, Debug)]
pub struct BitText {
    parts: Vec<Part>,
    data_len: usize,
    /// What stands where there is no bit, with its comma.
    missing: Vec<u8>,
    /// The same for as many bits as are examined together.
    missing_many: Vec<u8>,
    /// The same for a whole packet.
    missing_all: Vec<u8>,
}

impl BitText {
    /// For records of this subscription.
    #[must_use]
    pub fn new(subscription: &Subscription) -> Self {
        let masks = subscription.masks();
        let (mut parts, mut index) = (Vec::new(), 0);
        while let Some(&mask) = masks.get(index) {
            let end = index + masks.iter().skip(index).take_while(|&&mask| mask == u8::MAX).count();
            if end > index {
                parts.push(Part::Whole { start: index, end });
                index = end;
            } else {
                parts.push(Part::Some { index, mask });
                index += 1;
            }
        }
        let missing = format!("{},", subscription.missing()).into_bytes();
        Self {
            parts,
            data_len: subscription.layout().data_len(),
            missing_all: missing.repeat(subscription.column_count()),
            missing_many: missing.repeat(WORD_BITS * 8),
            missing,
        }
    }

    /// Appends a record's values, each followed by a comma. Nothing of a record that is shorter
    /// than the subscription's.
    pub fn push(&self, record: &[u8], out: &mut Vec<u8>) {
        let Some((data, presence)) = record.split_at_checked(self.data_len) else { return };
        for &part in &self.parts {
            match part {
                Part::Whole { start, end } => self.whole(data, presence, start, end, out),
                Part::Some { index, mask } => {
                    let (is_there, _) = stretch(presence, index);
                    let byte = data.get(index).copied().unwrap_or(0);
                    for bit in (0..8).rev().filter(|bit| mask >> bit & 1 == 1) {
                        if is_there {
                            out.extend([b'0' + (byte >> bit & 1), b',']);
                        } else {
                            out.extend_from_slice(&self.missing);
                        }
                    }
                }
            }
        }
    }

    /// Appends the values of a packet that is not there.
    pub fn push_absent(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.missing_all);
    }

    #[inline]
    fn whole(&self, data: &[u8], presence: &[u8], start: usize, end: usize, out: &mut Vec<u8>) {
        let mut at = start;
        while at < end {
            let (is_there, len) = stretch(presence, at);
            let next = end.min(at + len);
            if is_there {
                let bytes = data.get(at..next).unwrap_or_default();
                let place = out.len();
                out.resize(place + bytes.len() * BYTE_LEN, b',');
                let (places, _) = out.get_mut(place..).unwrap_or_default().as_chunks_mut();
                for (place, &byte) in places.iter_mut().zip(bytes) {
                    *place = BYTES[usize::from(byte)];
                }
            } else {
                let len = (next - at) * 8 * self.missing.len();
                out.extend_from_slice(self.missing_many.get(..len).unwrap_or_default());
            }
            at = next;
        }
    }
}

/// Presence that is examined together.
const WORD_BITS: usize = u64::BITS as usize;

/// Whether the byte `at` is there, and for how many bytes from there on that is the same: at
/// least one, and perhaps fewer than there are.
#[inline(always)]
fn stretch(presence: &[u8], at: usize) -> (bool, usize) {
    let bytes = presence.get(at / 8..).unwrap_or_default();
    let word = match bytes.first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => bytes.iter().rev().fold(0, |word, &byte| word >> 8 | u64::from(byte) << 56),
    };
    let word = word << (at % 8);
    let is_there = word.leading_ones() > 0;
    let len = if is_there { word.leading_ones() } else { word.leading_zeros() };
    // What was shifted in says nothing; a word begins at every byte, so there is always one.
    (is_there, (len as usize).min(WORD_BITS - at % 8))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Block, Layout, SubscriptionRequest};

    fn slowly(subscription: &Subscription, record: &[u8]) -> String {
        let mut values = Vec::new();
        subscription.values(record, &mut values);
        values.iter().map(|value| format!("{value},")).collect()
    }

    #[test]
    fn a_packet_that_is_absent_is_all_missing() {
        let some = Subscription::new(&SubscriptionRequest {
            missing: -128,
            ..SubscriptionRequest::default()
        })
        .unwrap();
        let text = BitText::new(&some);
        let (mut absent, mut empty) = (Vec::new(), Vec::new());
        text.push_absent(&mut absent);
        text.push(&[0; crate::PLAIN_RECORD_LEN], &mut empty);
        assert_eq!(String::from_utf8(absent.clone()).unwrap(), "-128,".repeat(1024));
        assert_eq!(absent, empty);
        text.push(&[0; 100], &mut empty);
        assert_eq!(absent, empty, "nothing of a record that is too short");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn text_is_that_of_the_values(
            seed in prop::collection::vec(any::<u8>(), 400), payload_len in 0..70u16,
            blocks in prop::collection::vec(prop::sample::select(Block::ALL.to_vec()), 1..6),
            drops in prop::sample::subsequence(vec!["_opt_", "_.*[37]$", "^udp_", "src"], 0..3),
            missing: i8,
        ) {
            let layout = Layout::new(&blocks, payload_len);
            let exclude: Vec<_> = drops.iter().map(|&pattern| pattern.to_owned()).collect();
            let wanted = SubscriptionRequest {
                layout,
                exclude: &exclude,
                missing,
                ..SubscriptionRequest::default()
            };
            let Ok(some) = Subscription::new(&wanted) else { return Ok(()) };
            let data_len = some.layout().data_len();
            // Data that is random, presence in stretches as headers have it.
            let mut record: Vec<_> = seed.iter().copied().take(data_len).collect();
            let mostly_whole =
                |&byte: &u8| if byte % 3 == 0 { byte } else { u8::MAX * (byte % 2) };
            let presence = seed.iter().skip(data_len).map(mostly_whole);
            record.extend(presence.take(some.layout().record_len() - data_len));
            let mut out = b"index,".to_vec();
            BitText::new(&some).push(&record, &mut out);
            let text = String::from_utf8(out).unwrap();
            prop_assert_eq!(text, format!("index,{}", slowly(&some, &record)));
        }
    }
}
