//! Text of a row group, from its pages.
//!
//! The reader of the library hands out each text as a reference-counted slice, which costs more
//! than all else that a search for text does. The pages that `sink` writes are read here; others
//! are left to the library.

use parquet::basic::Encoding;
use parquet::column::page::{Page, PageReader};

/// The pages of a column.
pub(crate) struct TextPages(Vec<Page>);

impl TextPages {
    /// All of them; nothing where the library had better read them.
    pub(crate) fn read(reader: &mut dyn PageReader) -> Option<Self> {
        let mut pages = Vec::new();
        while let Some(page) = reader.get_next_page().ok()? {
            pages.push(page);
        }
        Some(Self(pages))
    }

    /// The text of each row; nothing where the pages are laid out in another way, or damaged.
    pub(crate) fn texts(&self, row_count: usize, is_optional: bool) -> Option<Vec<Option<&str>>> {
        let mut texts = Vec::with_capacity(row_count);
        let mut dictionary = Vec::new();
        for page in &self.0 {
            match page {
                Page::DictionaryPage { buf, num_values, .. } => {
                    let count = usize::try_from(*num_values).ok()?;
                    dictionary = plain(buf, count.min(buf.len()))?;
                }
                Page::DataPage { buf, num_values, encoding, def_level_encoding, .. } => {
                    let count = usize::try_from(*num_values).ok()?;
                    if texts.len() + count > row_count || *def_level_encoding != Encoding::RLE {
                        return None;
                    }
                    let (levels, values) = levels(buf, count, is_optional)?;
                    let have = levels.iter().filter(|level| **level > 0).count();
                    let values = match encoding {
                        Encoding::PLAIN => plain(values, have)?,
                        Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => {
                            let (width, numbers) = values.split_first()?;
                            let numbers = numbers_of(numbers, u32::from(*width), have)?;
                            let text = |number: &u32| dictionary.get(*number as usize).copied();
                            numbers.iter().map(text).collect::<Option<Vec<&str>>>()?
                        }
                        _ => return None,
                    };
                    let mut values = values.into_iter();
                    texts.extend(
                        levels.iter().map(|level| if *level > 0 { values.next() } else { None }),
                    );
                }
                Page::DataPageV2 { .. } => return None,
            }
        }
        (texts.len() == row_count).then_some(texts)
    }
}

/// Which rows of a page have a value, and the values.
fn levels(page: &[u8], count: usize, is_optional: bool) -> Option<(Vec<u32>, &[u8])> {
    if !is_optional {
        return Some((vec![1; count], page));
    }
    let (len, rest) = page.split_first_chunk::<4>()?;
    let (levels, values) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    Some((numbers_of(levels, 1, count)?, values))
}

/// Texts that have their length in front.
fn plain(mut bytes: &[u8], count: usize) -> Option<Vec<&str>> {
    let mut texts = Vec::with_capacity(count);
    for _ in 0..count {
        let (len, rest) = bytes.split_first_chunk::<4>()?;
        let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        texts.push(str::from_utf8(text).ok()?);
        bytes = rest;
    }
    Some(texts)
}

/// Numbers of so many bits, in runs: of one value, or packed eight together.
fn numbers_of(mut bytes: &[u8], width: u32, count: usize) -> Option<Vec<u32>> {
    if width > 32 {
        return None;
    }
    let mut numbers = Vec::with_capacity(count);
    while numbers.len() < count {
        let (head, rest) = varint(bytes)?;
        let left = count - numbers.len();
        let run = usize::try_from(head >> 1).ok()?;
        if head & 1 == 1 {
            let len = run.checked_mul(width as usize)?;
            let (packed, rest) = rest.split_at_checked(len)?;
            unpack(packed, width, left.min(run.checked_mul(8)?), &mut numbers);
            bytes = rest;
        } else {
            let (value, rest) = rest.split_at_checked(width.div_ceil(8) as usize)?;
            let value = value.iter().rev().fold(0_u32, |value, byte| value << 8 | u32::from(*byte));
            numbers.resize(numbers.len() + left.min(run), value);
            bytes = rest;
        }
        // A run of nothing would never end.
        if run == 0 {
            return None;
        }
    }
    Some(numbers)
}

/// The lowest bits first.
fn unpack(packed: &[u8], width: u32, count: usize, into: &mut Vec<u32>) {
    let mask = (1_u64 << width) - 1;
    let (mut held, mut bits) = (0_u64, 0);
    let mut bytes = packed.iter();
    for _ in 0..count {
        while bits < width {
            held |= u64::from(bytes.next().copied().unwrap_or(0)) << bits;
            bits += 8;
        }
        into.push((held & mask) as u32);
        held >>= width;
        bits -= width;
    }
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (at, byte) in bytes.iter().enumerate().take(9) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(at + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_both_kinds_of_runs() {
        // The example of the format's own text: 0 to 7 in three bits each.
        let packed = [0b11, 0b1000_1000, 0b1100_0110, 0b1111_1010];
        assert_eq!(numbers_of(&packed, 3, 8).unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(numbers_of(&packed, 3, 5).unwrap(), [0, 1, 2, 3, 4]);
        assert_eq!(numbers_of(&[8 << 1, 0x01, 0x02, 4 << 1, 3, 0], 9, 9).unwrap()[7..], [513, 3]);
        assert_eq!(numbers_of(&[8 << 1], 0, 3).unwrap(), [0; 3]);
        assert_eq!(numbers_of(&packed, 3, 9), None, "too few");
        assert_eq!(numbers_of(&[0, 0], 0, 1), None, "a run of nothing");
        assert_eq!(numbers_of(&[0xff; 12], 7, 1), None);
        assert_eq!(plain(&[2, 0, 0, 0, b'o', b'k'], 1).unwrap(), ["ok"]);
        assert_eq!(plain(&[3, 0, 0, 0, b'o', b'k'], 1), None);
    }
}
