//! Custom blocks and options (draft-ietf-opsawg-pcapng, section 4.7), and how long a section is.
//!
//! ```text
//!  custom block                         custom option
//!   0 type: 0x00000bad, or               0 code: 2988 text, 2989 bytes,
//!     0x40000bad: not to be copied         19372 and 19373: not to be copied
//!     when a file is changed             2 length of what follows
//!   4 total length                       4 private enterprise number
//!   8 private enterprise number          8 value, padded to 4 bytes
//!  12 data, padded to 4 bytes
//!     total length again
//! ```

use super::option::{Options, code};
use super::order::ByteOrder;
use super::pcapng::block_type;

/// Where the options of a section header begin.
const SECTION_HEADER_LEN: usize = 24;

/// A custom block as it lies in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CustomBlock<'a> {
    /// Whose block it is.
    pub enterprise: u32,
    /// Whether a program that changes the file may copy it.
    pub may_copy: bool,
    /// Its data, padding included.
    pub data: &'a [u8],
}

impl<'a> CustomBlock<'a> {
    /// Bytes of a block that are not its data.
    pub const OVERHEAD: usize = 16;

    /// The custom block that `bytes` begins with, in a section of this byte order.
    #[must_use]
    pub fn read(bytes: &'a [u8], order: ByteOrder) -> Option<Self> {
        let header = bytes.first_chunk::<12>()?;
        let kind = order.u32_at(header, 0);
        let may_copy = kind == block_type::CUSTOM;
        if !may_copy && kind != block_type::CUSTOM_NO_COPY {
            return None;
        }
        let total = order.u32_at(header, 4) as usize;
        let data_end = total.checked_sub(4)?;
        let data = bytes.get(12..data_end)?;
        let trailing = order.u32_at(bytes.get(data_end..total)?, 0) as usize;
        let is_sound = trailing == total && total.is_multiple_of(4);
        is_sound.then_some(Self { enterprise: order.u32_at(header, 8), may_copy, data })
    }

    /// Writes the block's head and end around the data that lie in `out` from byte 12 to 4 before
    /// its end; the block fills `out`, whose length is a multiple of 4.
    ///
    /// False where `out` is too short or too long for a block.
    #[must_use]
    pub fn frame(out: &mut [u8], enterprise: u32, may_copy: bool) -> bool {
        let Ok(total) = u32::try_from(out.len()) else { return false };
        if !total.is_multiple_of(4) || out.len() < Self::OVERHEAD {
            return false;
        }
        let kind = if may_copy { block_type::CUSTOM } else { block_type::CUSTOM_NO_COPY };
        let words = [kind, total, enterprise];
        for (place, word) in out.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        if let Some(end) = out.last_chunk_mut::<4>() {
            *end = total.to_le_bytes();
        }
        true
    }
}

/// Appends a custom option of bytes that may be copied, little-endian, padded.
/// What is longer than an option holds is left out, and false told.
pub fn custom_option(out: &mut Vec<u8>, enterprise: u32, value: &[u8]) -> bool {
    let len = value.len().saturating_add(4);
    if len > super::encode_pcapng::OPTION_LEN_MAX {
        return false;
    }
    super::encode_pcapng::option(out, code::CUSTOM_BYTES, &[&enterprise.to_le_bytes(), value]);
    true
}

/// Values of the custom options of `enterprise` in the section header that `bytes` begins with.
pub fn section_custom(bytes: &[u8], enterprise: u32) -> impl Iterator<Item = &[u8]> {
    let found = bytes.first_chunk().and_then(|header| super::block::section_order(header).ok());
    let order = found.unwrap_or(ByteOrder::Little);
    let end = (order.u32_at(bytes, 4) as usize).saturating_sub(4);
    let options = bytes.get(SECTION_HEADER_LEN..end).unwrap_or_default();
    Options::new(options, order).custom(enterprise)
}

/// Bytes of the section whose header `bytes` begins with, without that header, and the bytes of
/// the header; `None` where it does not tell or is none.
#[must_use]
pub fn section_len(bytes: &[u8]) -> Option<(usize, u64)> {
    let order = super::block::section_order(bytes.first_chunk()?).ok()?;
    if order.u32_at(bytes, 0) != block_type::SECTION_HEADER || bytes.len() < SECTION_HEADER_LEN {
        return None;
    }
    let len = order.u64_of(bytes.get(16..24)?)?;
    (len != u64::MAX).then_some((order.u32_at(bytes, 4) as usize, len))
}

/// Writes into the little-endian section header that `bytes` begins with how long its section is,
/// counted without the header; `u64::MAX` says that it is not told.
pub fn set_section_len(bytes: &mut [u8], len: u64) {
    if let Some(field) = bytes.get_mut(16..24) {
        field.copy_from_slice(&len.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{PcapngEncoder, Section};

    #[test]
    fn a_custom_block_is_read_as_it_was_written() {
        for may_copy in [true, false] {
            let mut bytes = [7_u8; 32];
            assert!(CustomBlock::frame(&mut bytes, 32_473, may_copy));
            let block = CustomBlock::read(&bytes, ByteOrder::Little).unwrap();
            assert_eq!(block, CustomBlock { enterprise: 32_473, may_copy, data: &[7; 16] });
            assert_eq!(CustomBlock::read(&bytes[..31], ByteOrder::Little), None, "cut");
            bytes[28] = 0;
            assert_eq!(CustomBlock::read(&bytes, ByteOrder::Little), None, "lengths disagree");
        }
        assert!(!CustomBlock::frame(&mut [0; 12], 1, true));
        assert!(!CustomBlock::frame(&mut [0; 18], 1, true));
    }

    #[test]
    fn a_section_tells_its_length_and_its_private_text() {
        let mut bytes = Vec::new();
        let section = Section { application: "a".into(), ..Section::default() };
        PcapngEncoder::new().section_with(&mut bytes, &section, Some((32_473, "class 0 benign")));
        assert_eq!(section_len(&bytes), None, "not told");
        set_section_len(&mut bytes, 4096);
        assert_eq!(section_len(&bytes), Some((bytes.len(), 4096)));
        let texts: Vec<_> = section_custom(&bytes, 32_473).collect();
        assert_eq!(texts, [b"class 0 benign"]);
        assert_eq!(section_custom(&bytes, 1).count(), 0, "somebody else's");
        assert_eq!(section_len(&bytes[1..]), None);
    }

    #[test]
    fn options_of_a_section_that_lies_about_its_length_are_none() {
        let mut bytes = Vec::new();
        PcapngEncoder::new().section_with(&mut bytes, &Section::default(), Some((1, "x")));
        bytes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(section_custom(&bytes, 1).count(), 0);
        assert_eq!(section_custom(&[], 1).count(), 0);
    }
}
