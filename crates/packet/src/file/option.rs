//! pcapng options: a list of (code, length, value), each padded to 4 bytes.
//!
//! ```text
//!  0      2      4           4+len, padded
//!  +------+------+-----------+
//!  | code | len  | value ... |   code 0 (opt_endofopt) ends the list,
//!  +------+------+-----------+   and so does the end of the block
//! ```

use std::borrow::Cow;

use super::order::ByteOrder;

/// Option codes as the specification numbers them.
pub(super) mod code {
    pub(in crate::file) const END: u16 = 0;
    pub(in crate::file) const COMMENT: u16 = 1;
    pub(in crate::file) const SHB_HARDWARE: u16 = 2;
    pub(in crate::file) const SHB_OS: u16 = 3;
    pub(in crate::file) const SHB_APPLICATION: u16 = 4;
    pub(in crate::file) const IF_NAME: u16 = 2;
    pub(in crate::file) const IF_DESCRIPTION: u16 = 3;
    pub(in crate::file) const IF_SPEED: u16 = 8;
    pub(in crate::file) const IF_TSRESOL: u16 = 9;
    pub(in crate::file) const IF_FILTER: u16 = 11;
    pub(in crate::file) const IF_OS: u16 = 12;
    pub(in crate::file) const IF_FCSLEN: u16 = 13;
    pub(in crate::file) const IF_TSOFFSET: u16 = 14;
    pub(in crate::file) const IF_HARDWARE: u16 = 15;
    pub(in crate::file) const PACKET_FLAGS: u16 = 2;
    pub(in crate::file) const PACKET_DROPCOUNT: u16 = 4;
    pub(in crate::file) const ISB_STARTTIME: u16 = 2;
    pub(in crate::file) const ISB_ENDTIME: u16 = 3;
    pub(in crate::file) const ISB_IFRECV: u16 = 4;
    pub(in crate::file) const ISB_IFDROP: u16 = 5;
    pub(in crate::file) const ISB_FILTERACCEPT: u16 = 6;
    pub(in crate::file) const ISB_OSDROP: u16 = 7;
    pub(in crate::file) const ISB_USRDELIV: u16 = 8;
    pub(in crate::file) const CUSTOM_TEXT: u16 = 2988;
    pub(in crate::file) const CUSTOM_BYTES: u16 = 2989;
    pub(in crate::file) const CUSTOM_TEXT_NO_COPY: u16 = 19_372;
    pub(in crate::file) const CUSTOM_BYTES_NO_COPY: u16 = 19_373;
}

/// One option of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockOption<'a> {
    /// Its code; what it means depends on the block, except 1, which is a comment.
    pub code: u16,
    /// Its value without the padding.
    pub value: &'a [u8],
}

/// The options of a block. Each step takes at least 4 bytes, so the list ends.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
    order: ByteOrder,
    malformed: bool,
}

impl<'a> Options<'a> {
    #[inline]
    pub(super) const fn new(bytes: &'a [u8], order: ByteOrder) -> Self {
        Self { rest: bytes, order, malformed: false }
    }

    /// Whether the list ended because an option reached past the block.
    /// What came before it holds.
    #[must_use]
    pub const fn is_malformed(&self) -> bool {
        self.malformed
    }

    /// The values of custom options of `enterprise`, text and bytes alike.
    pub fn custom(self, enterprise: u32) -> impl Iterator<Item = &'a [u8]> {
        self.filter_map(move |option| {
            let is_custom = matches!(
                option.code,
                code::CUSTOM_TEXT
                    | code::CUSTOM_BYTES
                    | code::CUSTOM_TEXT_NO_COPY
                    | code::CUSTOM_BYTES_NO_COPY
            );
            let (number, value) = option.value.split_first_chunk::<4>()?;
            (is_custom && self.order.u32_at(number, 0) == enterprise).then_some(value)
        })
    }

    /// The comments among them, damaged UTF-8 replaced.
    pub fn comments(self) -> impl Iterator<Item = Cow<'a, str>> {
        self.filter(|option| option.code == code::COMMENT)
            .map(|option| String::from_utf8_lossy(text_bytes(option.value)))
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = BlockOption<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let Some((header, rest)) = self.rest.split_first_chunk::<4>() else {
            self.malformed |= !self.rest.is_empty();
            self.rest = &[];
            return None;
        };
        let code = self.order.u16_at(header, 0);
        let len = usize::from(self.order.u16_at(header, 2));
        if code == code::END {
            self.rest = &[];
            return None;
        }
        let Some((value, _)) = rest.split_at_checked(len) else {
            self.malformed = true;
            self.rest = &[];
            return None;
        };
        // Some writers leave out the padding of the last option.
        self.rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(BlockOption { code, value })
    }
}

/// Text up to the first zero byte: options are not terminated, but many writers
/// count a terminator, and Wireshark shows none.
pub(super) fn text_bytes(value: &[u8]) -> &[u8] {
    value.split(|&byte| byte == 0).next().unwrap_or_default()
}
