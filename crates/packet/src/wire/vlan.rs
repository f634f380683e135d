//! VLAN tag (IEEE 802.1Q, 802.1ad): 3 bits priority, 1 bit drop eligible,
//! 12 bits identifier, then 2 bytes EtherType or length of what follows. The
//! EtherType that announces the tag lies before it and is not part of it here.

use std::fmt;

use crate::malformed::Malformed;

/// Bytes of the tag.
pub const HEADER_LEN: usize = 4;
/// The largest identifier; 0 carries a priority only, 4,095 is reserved.
pub const IDENTIFIER_MAX: u16 = 0x0fff;

/// A VLAN tag.
#[derive(Clone, Copy, Debug)]
pub struct Vlan<'a> {
    header: &'a [u8; HEADER_LEN],
}

impl<'a> Vlan<'a> {
    /// # Errors
    /// [`Malformed::VlanTagShort`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let header = bytes.first_chunk().ok_or(Malformed::VlanTagShort)?;
        Ok(Self { header })
    }

    /// VLAN identifier.
    #[inline]
    #[must_use]
    pub fn identifier(&self) -> u16 {
        u16::from_be_bytes([self.header[0], self.header[1]]) & IDENTIFIER_MAX
    }

    /// Priority code point, 0 to 7.
    #[inline]
    #[must_use]
    pub fn priority(&self) -> u8 {
        self.header[0] >> 5
    }

    /// Drop eligible indicator.
    #[inline]
    #[must_use]
    pub fn drop_eligible(&self) -> bool {
        self.header[0] & 0x10 != 0
    }

    /// EtherType or length of what follows.
    #[inline]
    #[must_use]
    pub fn type_or_length(&self) -> u16 {
        u16::from_be_bytes([self.header[2], self.header[3]])
    }
}

/// A VLAN tag as a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VlanRepr {
    /// VLAN identifier; bits above the 12th are not emitted.
    pub identifier: u16,
    /// Priority code point; bits above the third are not emitted.
    pub priority: u8,
    /// Drop eligible indicator.
    pub drop_eligible: bool,
    /// EtherType or length of what follows.
    pub type_or_length: u16,
}

impl VlanRepr {
    /// # Errors
    /// None at present: every view is a valid value.
    pub fn parse(view: &Vlan<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            identifier: view.identifier(),
            priority: view.priority(),
            drop_eligible: view.drop_eligible(),
            type_or_length: view.type_or_length(),
        })
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Appends the tag.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let control = u16::from(self.priority & 7) << 13
            | u16::from(self.drop_eligible) << 12
            | self.identifier & IDENTIFIER_MAX;
        out.extend_from_slice(&control.to_be_bytes());
        out.extend_from_slice(&self.type_or_length.to_be_bytes());
    }
}

impl fmt::Display for Vlan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vlan {}, p {}", self.identifier(), self.priority())?;
        if self.drop_eligible() {
            f.write_str(", DEI")?;
        }
        write!(f, ", ethertype {:#06x}", self.type_or_length())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_and_tells() {
        let view = Vlan::new(&[0xb0, 0x64, 0x86, 0xdd]).unwrap();
        assert_eq!(view.to_string(), "vlan 100, p 5, DEI, ethertype 0x86dd");
    }

    #[test]
    fn three_bytes_are_short() {
        assert_eq!(Vlan::new(&[0; 3]).unwrap_err(), Malformed::VlanTagShort);
    }

    proptest! {
        #[test]
        fn parse_gives_back_what_emit_wrote(
            identifier in 0..=IDENTIFIER_MAX, priority in 0_u8..8, drop_eligible: bool,
            type_or_length: u16,
        ) {
            let value = VlanRepr { identifier, priority, drop_eligible, type_or_length };
            let mut bytes = Vec::new();
            value.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), value.header_len());
            prop_assert_eq!(VlanRepr::parse(&Vlan::new(&bytes).unwrap()), Ok(value));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..8)) {
            if let Ok(view) = Vlan::new(&bytes) {
                let _ = (view.to_string(), VlanRepr::parse(&view));
            }
        }
    }
}
