//! Integers as decimal text and bytes as hexadecimal, without the formatting machinery, which costs
//! more than the digits where every row has a dozen numbers; and floats, of which it costs most,
//! once where they repeat.

use std::io::Write as _;

/// Digits of the largest: 2⁶⁴ − 1.
const LEN_MAX: usize = 20;

/// `00`, `01` … `99`.
const PAIRS: [[u8; 2]; 100] = pairs();

const fn pairs() -> [[u8; 2]; 100] {
    let mut table = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        table[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    table
}

/// Appends `value`.
#[inline]
pub(crate) fn unsigned(out: &mut Vec<u8>, mut value: u64) {
    // Most numbers of a flow of a few packets.
    if value < 10 {
        return out.push(b'0' + value as u8);
    }
    let mut digits = [0; LEN_MAX];
    let mut start = LEN_MAX;
    // Two digits a division, from the last to the first.
    while value >= 10 {
        let pair = PAIRS[(value % 100) as usize];
        value /= 100;
        start -= 2;
        digits[start..start + 2].copy_from_slice(&pair);
    }
    // What is left is one digit, or nothing where the last pair took it in.
    if value > 0 {
        start -= 1;
        digits[start] = b'0' + value as u8;
    }
    out.extend_from_slice(&digits[start..]);
}

/// The text of the float before, which the next one often has: both confidences of a verdict, those
/// of flows that a model does not distinguish, and means of flows of one packet.
#[derive(Default)]
pub(crate) struct FloatText {
    bits: u64,
    text: Vec<u8>,
}

impl FloatText {
    /// Appends the shortest text that reads back to the same bits. Debug, unlike Display, gives
    /// large and small floats an exponent.
    pub(crate) fn append(&mut self, out: &mut Vec<u8>, value: f64) {
        if self.text.is_empty() || self.bits != value.to_bits() {
            self.bits = value.to_bits();
            self.text.clear();
            // Writing to a vector cannot fail.
            let _ = write!(self.text, "{value:?}");
        }
        out.extend_from_slice(&self.text);
    }
}

/// Appends `value`, with its sign where it is negative.
#[inline]
pub(crate) fn signed(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    unsigned(out, value.unsigned_abs());
}

/// Appends two digits a byte.
pub(crate) fn hexadecimal(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    out.extend(
        bytes
            .iter()
            .flat_map(|&byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(value: u64) {
        let mut out = Vec::new();
        unsigned(&mut out, value);
        assert_eq!(out, value.to_string().into_bytes());
        out.clear();
        signed(&mut out, value.cast_signed());
        assert_eq!(out, value.cast_signed().to_string().into_bytes());
    }

    #[test]
    fn every_length_is_as_displayed() {
        for power in (0..20).map(|exponent| 10_u64.pow(exponent)) {
            [power - 1, power, power + 1].into_iter().for_each(check);
        }
        [u64::MAX, i64::MIN.cast_unsigned(), i64::MAX.cast_unsigned()].into_iter().for_each(check);
    }

    #[test]
    fn floats_are_as_displayed_again_and_after_others() {
        let (mut float, mut out) = (FloatText::default(), Vec::new());
        let values = [0.0, 0.0, -0.0, 1e300, f64::NAN, f64::NAN, f64::INFINITY, 0.1, 0.1, 0.0];
        values.into_iter().for_each(|value| float.append(&mut out, value));
        assert_eq!(out, values.map(|value| format!("{value:?}")).concat().into_bytes());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_number_is_as_displayed(value: u64, shift in 0_u32..64) {
            check(value >> shift);
        }
    }
}
