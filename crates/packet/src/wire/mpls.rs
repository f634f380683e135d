//! MPLS label stack entry (RFC 3032 §2.1): 20 bits label, 3 bits traffic class,
//! 1 bit bottom of stack, 8 bits time to live. Nothing names what lies below.

use std::fmt;

use crate::malformed::Malformed;

/// Bytes of one entry.
pub const HEADER_LEN: usize = 4;
/// Bytes of a pseudo-wire control word, whose first nibble is 0 (RFC 4385 §3).
pub const CONTROL_WORD_LEN: usize = 4;
/// The largest label.
pub const LABEL_MAX: u32 = 0x000f_ffff;

/// A label stack entry.
#[derive(Clone, Copy, Debug)]
pub struct Mpls<'a> {
    header: &'a [u8; HEADER_LEN],
}

impl<'a> Mpls<'a> {
    /// # Errors
    /// [`Malformed::MplsStackShort`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let header = bytes.first_chunk().ok_or(Malformed::MplsStackShort)?;
        Ok(Self { header })
    }

    /// Label.
    #[inline]
    #[must_use]
    pub fn label(&self) -> u32 {
        u32::from_be_bytes(*self.header) >> 12
    }

    /// Traffic class (RFC 5462), once "experimental", 0 to 7.
    #[inline]
    #[must_use]
    pub fn traffic_class(&self) -> u8 {
        self.header[2] >> 1 & 7
    }

    /// Whether this is the last entry.
    #[inline]
    #[must_use]
    pub fn is_bottom(&self) -> bool {
        self.header[2] & 1 != 0
    }

    /// Time to live in hops.
    #[inline]
    #[must_use]
    pub fn time_to_live(&self) -> u8 {
        self.header[3]
    }
}

/// A label stack entry as a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MplsRepr {
    /// Label; bits above the 20th are not emitted.
    pub label: u32,
    /// Traffic class; bits above the third are not emitted.
    pub traffic_class: u8,
    /// Whether this is the last entry.
    pub is_bottom: bool,
    /// Time to live in hops.
    pub time_to_live: u8,
}

impl MplsRepr {
    /// # Errors
    /// None at present: every view is a valid value.
    pub fn parse(view: &Mpls<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            label: view.label(),
            traffic_class: view.traffic_class(),
            is_bottom: view.is_bottom(),
            time_to_live: view.time_to_live(),
        })
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Appends the entry.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let word = (self.label & LABEL_MAX) << 12
            | u32::from(self.traffic_class & 7) << 9
            | u32::from(self.is_bottom) << 8
            | u32::from(self.time_to_live);
        out.extend_from_slice(&word.to_be_bytes());
    }
}

impl fmt::Display for Mpls<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MPLS label {}, tc {}", self.label(), self.traffic_class())?;
        if self.is_bottom() {
            f.write_str(", [S]")?;
        }
        write!(f, ", ttl {}", self.time_to_live())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_and_tells() {
        let view = Mpls::new(&[0x00, 0x01, 0xd1, 0xff]).unwrap();
        assert_eq!(view.to_string(), "MPLS label 29, tc 0, [S], ttl 255");
    }

    #[test]
    fn three_bytes_are_short() {
        assert_eq!(Mpls::new(&[0; 3]).unwrap_err(), Malformed::MplsStackShort);
    }

    proptest! {
        #[test]
        fn parse_gives_back_what_emit_wrote(
            label in 0..=LABEL_MAX, traffic_class in 0_u8..8, is_bottom: bool, time_to_live: u8,
        ) {
            let value = MplsRepr { label, traffic_class, is_bottom, time_to_live };
            let mut bytes = Vec::new();
            value.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), value.header_len());
            prop_assert_eq!(MplsRepr::parse(&Mpls::new(&bytes).unwrap()), Ok(value));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..8)) {
            if let Ok(view) = Mpls::new(&bytes) {
                let _ = (view.to_string(), MplsRepr::parse(&view));
            }
        }
    }
}
