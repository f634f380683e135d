//! What drivers put before frames of 802.11 before radiotap: the Prism header of 144 bytes, and
//! AVS, which gives its length. Where Prism is announced either may be there.

use std::fmt;

use crate::malformed::Malformed;

mod field {
    pub(super) const LENGTH: usize = 4;
}

/// Bytes of a Prism header.
pub const HEADER_LEN: usize = 144;
/// Bytes of AVS in which version and length are, the least there is.
pub const AVS_HEADER_LEN: usize = 8;

/// The first word of AVS but for its last 12 bits, which are a version.
const AVS_MAGIC: u32 = 0x8021_1000;
const AVS_MAGIC_MASK: u32 = 0xffff_f000;

/// A Prism or an AVS header, length checked.
#[derive(Clone, Copy, Debug)]
pub struct Prism<'a> {
    header: &'a [u8],
    payload: &'a [u8],
    is_avs: bool,
}

impl<'a> Prism<'a> {
    /// Where Prism is announced.
    ///
    /// # Errors
    /// [`Malformed::PrismHeaderShort`], also for AVS that says so little of itself.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let magic = word(bytes, 0).ok_or(Malformed::PrismHeaderShort)?;
        if magic & AVS_MAGIC_MASK == AVS_MAGIC {
            Self::new_avs(bytes)
        } else {
            Self::of(bytes, HEADER_LEN)
        }
    }

    /// Where AVS is announced.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn new_avs(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let len = word(bytes, field::LENGTH).and_then(|len| usize::try_from(len).ok());
        let len = len.filter(|&len| len >= AVS_HEADER_LEN).ok_or(Malformed::PrismHeaderShort)?;
        Ok(Self { is_avs: true, ..Self::of(bytes, len)? })
    }

    fn of(bytes: &'a [u8], len: usize) -> Result<Self, Malformed> {
        let (header, payload) = bytes.split_at_checked(len).ok_or(Malformed::PrismHeaderShort)?;
        Ok(Self { header, payload, is_avs: false })
    }

    /// Whether this is AVS.
    #[must_use]
    pub fn is_avs(&self) -> bool {
        self.is_avs
    }

    /// Bytes of the header.
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

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_be_bytes)
}

/// A header as a value; what the radio noted is sent as 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PrismRepr {
    /// Prism.
    Prism,
    /// AVS.
    Avs {
        /// Bytes of the header; sent as 8 if it is below.
        len: u32,
    },
}

impl PrismRepr {
    /// The value of a header.
    #[must_use]
    pub fn parse(view: &Prism<'_>) -> Self {
        let len = u32::try_from(view.header_len()).unwrap_or(u32::MAX);
        if view.is_avs { Self::Avs { len } } else { Self::Prism }
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub fn header_len(&self) -> usize {
        match *self {
            Self::Prism => HEADER_LEN,
            Self::Avs { len } => usize::try_from(len).unwrap_or(AVS_HEADER_LEN).max(AVS_HEADER_LEN),
        }
    }

    /// Appends the header.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        if let Self::Avs { len } = *self {
            out.extend_from_slice(&(AVS_MAGIC | 1).to_be_bytes());
            out.extend_from_slice(&len.max(AVS_HEADER_LEN as u32).to_be_bytes());
        }
        out.resize(start + self.header_len(), 0);
    }
}

/// `AVS, length 64`
impl fmt::Display for Prism<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.is_avs { "AVS" } else { "Prism" };
        write!(f, "{name}, length {}", self.header.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn either_is_found_where_prism_is_announced() {
        let mut bytes = [0; 150];
        bytes[0] = 0x44;
        let view = Prism::new(&bytes).unwrap();
        assert_eq!((view.to_string().as_str(), view.payload().len()), ("Prism, length 144", 6));
        bytes[..8].copy_from_slice(&[0x80, 0x21, 0x10, 0x02, 0, 0, 0, 80]);
        let view = Prism::new(&bytes).unwrap();
        assert_eq!((view.to_string().as_str(), view.payload().len()), ("AVS, length 80", 70));
        bytes[7] = 7;
        assert_eq!(Prism::new(&bytes).unwrap_err(), Malformed::PrismHeaderShort);
        assert_eq!(Prism::new(&[0; 143]).unwrap_err(), Malformed::PrismHeaderShort);
        assert_eq!(Prism::new_avs(&[0x80; 7]).unwrap_err(), Malformed::PrismHeaderShort);
    }

    proptest! {
        #[test]
        fn parse_gives_back_what_emit_wrote(
            value in prop_oneof![
                Just(PrismRepr::Prism),
                (8..200_u32).prop_map(|len| PrismRepr::Avs { len }),
            ],
        ) {
            let mut bytes = Vec::new();
            value.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), value.header_len());
            prop_assert_eq!(PrismRepr::parse(&Prism::new(&bytes).unwrap()), value);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..160)) {
            for view in [Prism::new(&bytes), Prism::new_avs(&bytes)].into_iter().flatten() {
                prop_assert_eq!(view.header_len() + view.payload().len(), bytes.len());
                let _ = (view.to_string(), PrismRepr::parse(&view));
            }
        }
    }
}
