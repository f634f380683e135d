//! PPP over Ethernet (RFC 2516 §4): version 1 and type 1 in one byte, code,
//! session identifier, length of what follows. Code 0 carries a PPP frame
//! without address and control.

use std::fmt;

use crate::malformed::Malformed;

/// Bytes of the header.
pub const HEADER_LEN: usize = 6;
/// Version and type.
pub const VERSION_AND_TYPE: u8 = 0x11;
/// Code of session data.
pub const CODE_SESSION: u8 = 0;

/// A PPPoE header.
#[derive(Clone, Copy, Debug)]
pub struct Pppoe<'a> {
    header: &'a [u8; HEADER_LEN],
}

impl<'a> Pppoe<'a> {
    /// # Errors
    /// [`Malformed::PppoeHeaderShort`], [`Malformed::PppoeVersionWrong`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let header: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or(Malformed::PppoeHeaderShort)?;
        if header[0] != VERSION_AND_TYPE {
            return Err(Malformed::PppoeVersionWrong);
        }
        Ok(Self { header })
    }

    /// Code: 0 for session data.
    #[inline]
    #[must_use]
    pub fn code(&self) -> u8 {
        self.header[1]
    }

    /// Session identifier.
    #[inline]
    #[must_use]
    pub fn session_id(&self) -> u16 {
        u16::from_be_bytes([self.header[2], self.header[3]])
    }

    /// Bytes behind this header.
    #[inline]
    #[must_use]
    pub fn length(&self) -> u16 {
        u16::from_be_bytes([self.header[4], self.header[5]])
    }
}

/// A PPPoE header as a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PppoeRepr {
    /// Code: 0 for session data.
    pub code: u8,
    /// Session identifier.
    pub session_id: u16,
    /// Bytes behind this header.
    pub length: u16,
}

impl PppoeRepr {
    /// # Errors
    /// None at present: every view is a valid value.
    pub fn parse(view: &Pppoe<'_>) -> Result<Self, Malformed> {
        Ok(Self { code: view.code(), session_id: view.session_id(), length: view.length() })
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Appends the header.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[VERSION_AND_TYPE, self.code]);
        out.extend_from_slice(&self.session_id.to_be_bytes());
        out.extend_from_slice(&self.length.to_be_bytes());
    }
}

impl fmt::Display for Pppoe<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code() {
            CODE_SESSION => f.write_str("PPPoE")?,
            code => write!(f, "PPPoE code {code:#04x}")?,
        }
        write!(f, ", session {:#06x}, length {}", self.session_id(), self.length())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_and_tells() {
        let view = Pppoe::new(&[0x11, 0, 0x00, 0x11, 0x00, 0x3e]).unwrap();
        assert_eq!(view.to_string(), "PPPoE, session 0x0011, length 62");
        let view = Pppoe::new(&[0x11, 9, 0, 0, 0, 4]).unwrap();
        assert_eq!(view.to_string(), "PPPoE code 0x09, session 0x0000, length 4");
    }

    #[test]
    fn refuses_what_it_cannot_be() {
        assert_eq!(Pppoe::new(&[0x11; 5]).unwrap_err(), Malformed::PppoeHeaderShort);
        assert_eq!(Pppoe::new(&[0x21; 6]).unwrap_err(), Malformed::PppoeVersionWrong);
    }

    proptest! {
        #[test]
        fn parse_gives_back_what_emit_wrote(code: u8, session_id: u16, length: u16) {
            let value = PppoeRepr { code, session_id, length };
            let mut bytes = Vec::new();
            value.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), value.header_len());
            prop_assert_eq!(PppoeRepr::parse(&Pppoe::new(&bytes).unwrap()), Ok(value));
        }

        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..8)) {
            if let Some(first) = bytes.first_mut() {
                *first = VERSION_AND_TYPE;
            }
            if let Ok(view) = Pppoe::new(&bytes) {
                let _ = (view.to_string(), PppoeRepr::parse(&view));
            }
        }
    }
}
