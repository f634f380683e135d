//! Per-packet information (`LINKTYPE_PPI`): a version, flags, the length of the whole, the link
//! type of the frame behind it, and fields that are not read; all of it little-endian.

use std::fmt;

use crate::malformed::Malformed;

/// Bytes of a header without fields, the shortest there is.
pub const HEADER_LEN: usize = 8;

/// A header with its fields, length checked.
#[derive(Clone, Copy, Debug)]
pub struct Ppi<'a> {
    header: &'a [u8],
    payload: &'a [u8],
    link: u32,
}

impl<'a> Ppi<'a> {
    /// # Errors
    /// [`Malformed::PpiHeaderShort`], also for a length below 8.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let &[_, _, low, high, a, b, c, d] =
            bytes.first_chunk().ok_or(Malformed::PpiHeaderShort)?;
        let len = usize::from(u16::from_le_bytes([low, high]));
        if len < HEADER_LEN {
            return Err(Malformed::PpiHeaderShort);
        }
        let (header, payload) = bytes.split_at_checked(len).ok_or(Malformed::PpiHeaderShort)?;
        Ok(Self { header, payload, link: u32::from_le_bytes([a, b, c, d]) })
    }

    /// Link type of the frame.
    #[must_use]
    pub fn link(&self) -> u32 {
        self.link
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

/// A header without fields as a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PpiRepr {
    /// Link type of the frame.
    pub link: u32,
}

impl PpiRepr {
    /// The value of a header.
    #[must_use]
    pub fn parse(view: &Ppi<'_>) -> Self {
        Self { link: view.link }
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Appends the header.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let [low, high] = (HEADER_LEN as u16).to_le_bytes();
        out.extend_from_slice(&[0, 0, low, high]);
        out.extend_from_slice(&self.link.to_le_bytes());
    }
}

/// `PPI, length 32, link type 105`
impl fmt::Display for Ppi<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PPI, length {}, link type {}", self.header.len(), self.link)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BYTES: [u8; 13] = [0, 0, 12, 0, 105, 0, 0, 0, 1, 2, 3, 4, 0x08];

    #[test]
    fn reads_and_tells() {
        let view = Ppi::new(&BYTES).unwrap();
        assert_eq!((view.link(), view.header_len(), view.payload()), (105, 12, &[0x08][..]));
        assert_eq!(view.to_string(), "PPI, length 12, link type 105");
    }

    #[test]
    fn refuses_what_it_cannot_be() {
        for len in 0..12 {
            assert_eq!(Ppi::new(&BYTES[..len]).unwrap_err(), Malformed::PpiHeaderShort);
        }
        assert_eq!(Ppi::new(&[0, 0, 7, 0, 1, 0, 0, 0]).unwrap_err(), Malformed::PpiHeaderShort);
    }

    proptest! {
        #[test]
        fn parse_gives_back_what_emit_wrote(link: u32) {
            let value = PpiRepr { link };
            let mut bytes = Vec::new();
            value.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), value.header_len());
            prop_assert_eq!(PpiRepr::parse(&Ppi::new(&bytes).unwrap()), value);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(view) = Ppi::new(&bytes) {
                prop_assert_eq!(view.header_len() + view.payload().len(), bytes.len());
                let _ = (view.to_string(), PpiRepr::parse(&view));
            }
        }
    }
}
