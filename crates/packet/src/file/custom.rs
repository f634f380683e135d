//! What is private to a program in a pcapng file (draft-ietf-opsawg-pcapng, section 4.7 on custom
//! options), and how long a section is.
//!
//! ```text
//!  custom option                        a block for nobody else
//!   0 code: 2988 text, 2989 bytes,       0 type 4: name resolution
//!     19372 and 19373: not to be         4 total length
//!     copied when a file is changed      8 end of names, of which there are none
//!   2 length of what follows            12 option 19373, length
//!   4 private enterprise number         16 private enterprise number
//!   8 value, padded to 4 bytes          20 data
//!                                          end of options, total length again
//! ```
//!
//! The specification has custom blocks as well. They are not used: Wireshark lists each as a
//! packet, which shifts the numbers of all others. A block of names without names is passed over.

use super::encode_pcapng::OPTION_LEN_MAX;
use super::option::{Options, code};
use super::order::ByteOrder;
use super::pcapng::block_type;

/// Where the options of a section header begin.
const SECTION_HEADER_LEN: usize = 24;

/// A block that holds nothing but data of one program, and that others pass over in silence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrivateBlock<'a> {
    /// Whose data they are.
    pub enterprise: u32,
    /// The data.
    pub data: &'a [u8],
}

impl<'a> PrivateBlock<'a> {
    /// Where the data begin in the block.
    pub const DATA_OFFSET: usize = 20;
    /// Bytes of the block behind the data.
    pub const END_LEN: usize = 8;
    /// Bytes of a block, at most: the length of an option has 16 bits.
    pub const LEN_MAX: usize = OPTION_LEN_MAX - 4 + Self::DATA_OFFSET + Self::END_LEN;

    /// The private block that `bytes` begins with, in a section of this byte order.
    #[must_use]
    pub fn read(bytes: &'a [u8], order: ByteOrder) -> Option<Self> {
        let head = bytes.first_chunk::<20>()?;
        let total = order.u32_at(head, 4) as usize;
        let data_end = total.checked_sub(Self::END_LEN)?;
        let data = bytes.get(Self::DATA_OFFSET..data_end)?;
        let end = bytes.get(data_end..total)?;
        let is_sound = order.u32_at(head, 0) == block_type::NAME_RESOLUTION
            && order.u32_at(head, 8) == 0
            && order.u16_at(head, 12) == code::CUSTOM_BYTES_NO_COPY
            && usize::from(order.u16_at(head, 14)) == data.len() + 4
            && total.is_multiple_of(4)
            && order.u32_at(end, 0) == 0
            && order.u32_at(end, 4) as usize == total;
        is_sound.then_some(Self { enterprise: order.u32_at(head, 16), data })
    }

    /// Writes the block's head and end around the data that lie in `out` from
    /// [`Self::DATA_OFFSET`] to [`Self::END_LEN`] before its end; the block fills `out`, whose
    /// length is a multiple of 4.
    ///
    /// False where `out` is too short or too long for a block.
    #[must_use]
    pub fn frame(out: &mut [u8], enterprise: u32) -> bool {
        let total = out.len();
        if !total.is_multiple_of(4) || total > Self::LEN_MAX {
            return false;
        }
        let Some(data_len) = total.checked_sub(Self::DATA_OFFSET + Self::END_LEN) else {
            return false;
        };
        let option = (data_len as u32 + 4) << 16 | u32::from(code::CUSTOM_BYTES_NO_COPY);
        let head = [block_type::NAME_RESOLUTION, total as u32, 0, option, enterprise];
        for (place, word) in out.chunks_exact_mut(4).zip(head) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        if let Some(end) = out.last_chunk_mut::<8>() {
            *end = (u64::from(total as u32) << 32).to_le_bytes();
        }
        true
    }
}

/// Appends a custom option of bytes that may be copied, little-endian, padded.
/// What is longer than an option holds is left out, and false returned.
pub fn custom_option(out: &mut Vec<u8>, enterprise: u32, value: &[u8]) -> bool {
    let len = value.len().saturating_add(4);
    if len > OPTION_LEN_MAX {
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

/// The order of bytes in the section that `bytes` begin with; none where no section begins.
#[must_use]
pub fn section_order(bytes: &[u8]) -> Option<ByteOrder> {
    let order = super::block::section_order(bytes.first_chunk()?).ok()?;
    (order.u32_at(bytes, 0) == block_type::SECTION_HEADER).then_some(order)
}

/// Bytes of the section whose header `bytes` begins with, without that header, and the bytes of
/// the header; `None` where it does not tell or is none.
#[must_use]
pub fn section_len(bytes: &[u8]) -> Option<(usize, u64)> {
    let order = section_order(bytes).filter(|_| bytes.len() >= SECTION_HEADER_LEN)?;
    let len = order.u64_of(bytes.get(16..24)?)?;
    (len != u64::MAX).then_some((order.u32_at(bytes, 4) as usize, len))
}

/// Writes into the little-endian section header that `bytes` begins with how long its section is,
/// counted without the header; `u64::MAX` says that it is not given.
pub fn set_section_len(bytes: &mut [u8], len: u64) {
    if let Some(field) = bytes.get_mut(16..24) {
        field.copy_from_slice(&len.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{BlockKind, Decoder, Item, PcapngEncoder, Section};

    #[test]
    fn a_private_block_is_read_as_it_was_written_and_passed_over_by_others() {
        for len in [28, 60, PrivateBlock::LEN_MAX] {
            let mut bytes = vec![7_u8; len];
            assert!(PrivateBlock::frame(&mut bytes, 32_473));
            let block = PrivateBlock::read(&bytes, ByteOrder::Little).unwrap();
            assert_eq!(block.enterprise, 32_473);
            assert_eq!(block.data, vec![7; len - 28]);
            let mut file = Vec::new();
            PcapngEncoder::new().section(&mut file, &Section::default());
            let (mut decoder, _) = Decoder::new(&file).unwrap();
            decoder.next(&file).unwrap();
            assert_eq!(decoder.next(&bytes), Ok((Item::Meta(BlockKind::Names), len)));
            assert_eq!(PrivateBlock::read(&bytes[..len - 1], ByteOrder::Little), None, "cut");
            for at in [0, 4, 8, 12, 14, len - 8, len - 1] {
                bytes[at] ^= 1;
                assert_eq!(PrivateBlock::read(&bytes, ByteOrder::Little), None, "{at}");
                bytes[at] ^= 1;
            }
        }
        assert!(!PrivateBlock::frame(&mut [0; 24], 1));
        assert!(!PrivateBlock::frame(&mut [0; 30], 1));
        assert!(!PrivateBlock::frame(&mut vec![0; PrivateBlock::LEN_MAX + 4], 1));
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
