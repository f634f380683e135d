//! Few values of many rows, each written once.

/// Values in a dictionary at most.
const VALUE_COUNT_MAX: usize = 1 << 16;

/// Rows after which it shows whether values repeat.
const ROWS_TRIED: usize = 1 << 12;

/// Places probed for a value. Values crafted to collide get no dictionary.
const STEPS_MAX: usize = 32;

/// A free place.
const FREE: u32 = u32::MAX;

/// The values of a column that differ, and which of them each row has.
pub(super) struct Dictionary {
    /// Of each value, the first row that has it.
    pub(super) firsts: Vec<u32>,
    /// Of each row, the number of its value.
    pub(super) numbers: Vec<u32>,
}

impl Dictionary {
    /// Of so many rows, by the hash of a row's value and whether two rows have the same; `None`
    /// where that saves little.
    #[inline]
    pub(super) fn find(
        row_count: usize,
        hash: impl Fn(usize) -> u64,
        is_same: impl Fn(usize, usize) -> bool,
    ) -> Option<Self> {
        let value_count_max = VALUE_COUNT_MAX.min(row_count / 2).max(1);
        let mut numbers = Vec::with_capacity(row_count);
        let mut firsts: Vec<u32> = Vec::new();
        let mut places = vec![FREE; 1 << 8];
        for row in 0..row_count {
            if row == ROWS_TRIED && firsts.len() > ROWS_TRIED / 4 * 3 {
                return None;
            }
            let mut place = start(hash(row), places.len());
            let mut step = 0;
            let number = loop {
                let number = *places.get(place)?;
                if number == FREE {
                    break number;
                }
                let first = *firsts.get(number as usize)?;
                if is_same(first as usize, row) {
                    break number;
                }
                step += 1;
                if step > STEPS_MAX {
                    return None;
                }
                place = (place + 1) & (places.len() - 1);
            };
            if number != FREE {
                numbers.push(number);
                continue;
            }
            if firsts.len() >= value_count_max {
                return None;
            }
            let number = u32::try_from(firsts.len()).ok()?;
            numbers.push(number);
            firsts.push(u32::try_from(row).ok()?);
            *places.get_mut(place)? = number;
            if firsts.len() * 2 > places.len() {
                places = wider(&firsts, places.len() * 4, &hash)?;
            }
        }
        (!firsts.is_empty()).then_some(Self { firsts, numbers })
    }

    /// Bits of a number.
    pub(super) fn width(&self) -> u32 {
        let last = self.firsts.len().saturating_sub(1);
        (usize::BITS - last.leading_zeros()).max(1)
    }
}

fn start(hash: u64, place_count: usize) -> usize {
    // The upper bits of a product depend on all of its factors' bits.
    (hash >> 40) as usize & (place_count - 1)
}

fn wider(firsts: &[u32], place_count: usize, hash: impl Fn(usize) -> u64) -> Option<Vec<u32>> {
    let mut places = vec![FREE; place_count];
    for (number, &first) in (0_u32..).zip(firsts) {
        let mut place = start(hash(first as usize), place_count);
        while *places.get(place)? != FREE {
            place = (place + 1) & (place_count - 1);
        }
        *places.get_mut(place)? = number;
    }
    Some(places)
}

/// Appends numbers as one run of so many bits each, as Parquet packs them: eight together, the
/// lowest bits first.
pub(super) fn pack(numbers: &[u32], width: u32, into: &mut Vec<u8>) {
    let groups = numbers.len().div_ceil(8);
    let mut head = groups << 1 | 1;
    while head >= 0x80 {
        into.push((head & 0x7f) as u8 | 0x80);
        head >>= 7;
    }
    into.push((head & 0x7f) as u8);
    let end = into.len() + groups * width as usize;
    into.reserve(end + 8 - into.len());
    let (mut held, mut bits) = (0_u64, 0);
    for &number in numbers {
        held |= u64::from(number) << bits;
        bits += width;
        if bits >= 32 {
            into.extend_from_slice(&(held as u32).to_le_bytes());
            held >>= 32;
            bits -= 32;
        }
    }
    into.extend_from_slice(&held.to_le_bytes());
    into.resize(end, 0);
}

/// The hash of a number.
#[inline]
pub(super) const fn hash_number(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (number >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// The hash of bytes, eight at a time.
#[inline]
pub(super) fn hash_bytes(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last.iter_mut().zip(rest).for_each(|(place, &byte)| *place = byte);
    let seed = (bytes.len() as u64).wrapping_mul(0xa076_1d64_78bd_642f);
    let mixed = words.iter().chain([&last]).fold(seed, |hash, word| {
        let product =
            u128::from(hash ^ u64::from_le_bytes(*word)) * u128::from(0xe703_7ed1_a0b4_28db_u64);
        product as u64 ^ (product >> 64) as u64
    });
    mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[u64]) -> Option<Dictionary> {
        let hash = |row: usize| hash_number(values[row]);
        Dictionary::find(values.len(), hash, |one, other| values[one] == values[other])
    }

    #[test]
    fn each_row_finds_its_value_again() {
        let values: Vec<u64> = (0..50_000).map(|row| row * row % 997).collect();
        let found = of(&values).unwrap();
        let again =
            found.numbers.iter().map(|&number| values[found.firsts[number as usize] as usize]);
        assert_eq!(again.collect::<Vec<_>>(), values);
        let mut unlike: Vec<_> = values.clone();
        unlike.sort_unstable();
        unlike.dedup();
        assert_eq!(found.firsts.len(), unlike.len());
    }

    #[test]
    fn values_that_never_repeat_have_no_dictionary() {
        assert!(of(&(0..10_000).collect::<Vec<_>>()).is_none());
        assert!(of(&(0..100).collect::<Vec<_>>()).is_none());
    }

    #[test]
    fn values_that_all_meet_have_no_dictionary() {
        let values: Vec<u64> = (0..1_000).map(|row| row % 100).collect();
        let found = Dictionary::find(1_000, |_| 7, |one, other| values[one] == values[other]);
        assert!(found.is_none());
    }

    #[test]
    fn packed_numbers_lie_lowest_bits_first() {
        // The example of the format's own text: 0 to 7 in three bits each.
        let mut bytes = Vec::new();
        pack(&[0, 1, 2, 3, 4, 5, 6, 7], 3, &mut bytes);
        assert_eq!(bytes, [0b11, 0b1000_1000, 0b1100_0110, 0b1111_1010]);
        bytes.clear();
        pack(&[1, 0, 1], 1, &mut bytes);
        assert_eq!(bytes, [0b11, 0b101]);
        bytes.clear();
        pack(&[0x1_ffff; 9], 17, &mut bytes);
        assert_eq!(bytes.len(), 1 + 2 * 17);
        assert_eq!(bytes.iter().skip(1).map(|byte| byte.count_ones()).sum::<u32>(), 9 * 17);
    }
}
