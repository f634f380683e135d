//! Radiotap: what a radio noted of a frame of 802.11, before it. A version, the length of the
//! whole, words of bits that name fields, the fields; all of it little-endian. Of the fields only
//! the flags are read, which say how the frame ends and whether its header is padded.

use std::fmt;

use crate::malformed::Malformed;

mod field {
    pub(super) const VERSION: usize = 0;
    pub(super) const LENGTH: usize = 2;
    pub(super) const PRESENT: usize = 4;
}

/// Bytes of a header without fields, the shortest there is.
pub const HEADER_LEN: usize = 8;

const PRESENT_LEN: usize = 4;
const PRESENT_TIME: u32 = 1;
const PRESENT_FLAGS: u32 = 1 << 1;
const PRESENT_MORE: u32 = 1 << 31;
const TIME_LEN: usize = 8;
const FLAG_CHECK_SEQUENCE: u8 = 0x10;
const FLAG_PADDED: u8 = 0x20;

/// A header with its fields, length checked.
#[derive(Clone, Copy, Debug)]
pub struct Radiotap<'a> {
    header: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Radiotap<'a> {
    /// # Errors
    /// [`Malformed::RadiotapHeaderShort`], or [`Malformed::RadiotapHeaderWrong`] for another
    /// version or a length below 8.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        // Short ones first: cut further, they have no other fault.
        let first: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or(Malformed::RadiotapHeaderShort)?;
        let at = field::LENGTH;
        let len = usize::from(u16::from_le_bytes([first[at], first[at + 1]]));
        if first[field::VERSION] != 0 || len < HEADER_LEN {
            return Err(Malformed::RadiotapHeaderWrong);
        }
        let (header, payload) =
            bytes.split_at_checked(len).ok_or(Malformed::RadiotapHeaderShort)?;
        Ok(Self { header, payload })
    }

    /// The flags; 0 where there are none. Bounded by the header: each word takes four bytes.
    #[must_use]
    pub fn flags(&self) -> u8 {
        let word = |at: usize| {
            let word = self.header.get(at..).and_then(<[u8]>::first_chunk);
            word.copied().map_or(0, u32::from_le_bytes)
        };
        let present = word(field::PRESENT);
        if present & PRESENT_FLAGS == 0 {
            return 0;
        }
        let mut at = field::PRESENT;
        while word(at) & PRESENT_MORE != 0 {
            at += PRESENT_LEN;
        }
        at += PRESENT_LEN;
        if present & PRESENT_TIME != 0 {
            at = at.next_multiple_of(TIME_LEN) + TIME_LEN;
        }
        self.header.get(at).copied().unwrap_or_default()
    }

    /// Whether the frame ends in its check sequence.
    #[must_use]
    pub fn has_check_sequence(&self) -> bool {
        self.flags() & FLAG_CHECK_SEQUENCE != 0
    }

    /// Whether the frame's header is padded to a multiple of 4 bytes.
    #[must_use]
    pub fn is_padded(&self) -> bool {
        self.flags() & FLAG_PADDED != 0
    }

    /// Bytes of the header with its fields.
    #[must_use]
    pub fn header_len(&self) -> usize {
        self.header.len()
    }

    /// Captured bytes of the frame.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A header as a value: flags are its one field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RadiotapRepr {
    /// Flags.
    pub flags: u8,
}

impl RadiotapRepr {
    /// The value of a header.
    #[must_use]
    pub fn parse(view: &Radiotap<'_>) -> Self {
        Self { flags: view.flags() }
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        HEADER_LEN + 1
    }

    /// Appends the header.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let [len, _] = (HEADER_LEN as u16 + 1).to_le_bytes();
        out.extend_from_slice(&[0, 0, len, 0]);
        out.extend_from_slice(&PRESENT_FLAGS.to_le_bytes());
        out.push(self.flags);
    }
}

/// `radiotap, length 25, flags 0x10`
impl fmt::Display for Radiotap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "radiotap, length {}, flags {:#04x}", self.header.len(), self.flags())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Two words, time and flags; the time lies at a multiple of its length.
    const BYTES: [u8; 26] = [
        0, 0, 25, 0, 3, 0, 0, 0x80, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4, 5, 6, 7, 8,
        0x10, 0x08,
    ];

    #[test]
    fn reads_and_tells() {
        let view = Radiotap::new(&BYTES).unwrap();
        assert_eq!((view.header_len(), view.flags(), view.payload()), (25, 0x10, &[0x08][..]));
        assert!(view.has_check_sequence() && !view.is_padded());
        assert_eq!(view.to_string(), "radiotap, length 25, flags 0x10");
        let none = Radiotap::new(&[0, 0, 8, 0, 0, 0, 0, 0]).unwrap();
        assert_eq!((none.flags(), none.header_len()), (0, 8));
    }

    #[test]
    fn refuses_what_it_cannot_be() {
        for len in 0..25 {
            let refused = Radiotap::new(&BYTES[..len]).unwrap_err();
            assert_eq!(refused, Malformed::RadiotapHeaderShort, "{len}");
        }
        for bytes in [[1, 0, 8, 0, 0, 0, 0, 0], [0, 0, 7, 0, 0, 0, 0, 0]] {
            assert_eq!(Radiotap::new(&bytes).unwrap_err(), Malformed::RadiotapHeaderWrong);
        }
    }

    proptest! {
        #[test]
        fn parse_gives_back_what_emit_wrote(flags: u8) {
            let value = RadiotapRepr { flags };
            let mut bytes = Vec::new();
            value.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), value.header_len());
            prop_assert_eq!(RadiotapRepr::parse(&Radiotap::new(&bytes).unwrap()), value);
        }

        #[test]
        fn any_bytes_are_read_or_refused(
            mut bytes in prop::collection::vec(any::<u8>(), 0..40), len in 0..48_u8,
        ) {
            for (at, value) in [(0, 0), (2, len), (3, 0)] {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            if let Ok(view) = Radiotap::new(&bytes) {
                prop_assert_eq!(view.header_len() + view.payload().len(), bytes.len());
                let _ = (view.to_string(), RadiotapRepr::parse(&view));
            }
        }
    }
}
