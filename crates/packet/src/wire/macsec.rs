//! MACsec's tag (IEEE 802.1AE): what follows EtherType 0x88E5. With integrity alone the frame
//! continues in the clear behind it, with an EtherType of its own, and ends in a check value.
//!
//! ```text
//! |V|ES|SC|SCB|E|C|AN |  0 0 | short length |   packet number, 32 bits   |
//! |   secure channel identifier, 64 bits, if SC                          |
//! ```

use std::fmt;

use crate::malformed::Malformed;

mod field {
    pub(super) const CONTROL: usize = 0;
    pub(super) const SHORT_LENGTH: usize = 1;
}

/// Bytes of the tag without a secure channel identifier, EtherType not counted.
pub const HEADER_LEN: usize = 6;
/// Bytes of the secure channel identifier.
pub const CHANNEL_LEN: usize = 8;
/// Bytes of the integrity check value of the default cipher suites, behind the frame.
pub const CHECK_VALUE_LEN: usize = 16;

const VERSION: u8 = 0x80;
const HAS_CHANNEL: u8 = 0x20;
const ENCRYPTED: u8 = 0x08;
const CHANGED: u8 = 0x04;
const ASSOCIATION_MASK: u8 = 0x03;
const SHORT_LENGTH_MASK: u8 = 0x3f;

/// A tag with what follows it, length checked.
#[derive(Clone, Copy, Debug)]
pub struct Macsec<'a> {
    header: &'a [u8; HEADER_LEN],
    channel: Option<&'a [u8; CHANNEL_LEN]>,
}

impl<'a> Macsec<'a> {
    /// # Errors
    /// [`Malformed::MacsecVersionWrong`] or [`Malformed::MacsecTagShort`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, rest) =
            bytes.split_first_chunk::<HEADER_LEN>().ok_or(Malformed::MacsecTagShort)?;
        if header[field::CONTROL] & VERSION != 0 {
            return Err(Malformed::MacsecVersionWrong);
        }
        let channel = if header[field::CONTROL] & HAS_CHANNEL == 0 {
            None
        } else {
            Some(rest.first_chunk().ok_or(Malformed::MacsecTagShort)?)
        };
        Ok(Self { header, channel })
    }

    /// Association number, 2 bits.
    #[must_use]
    pub fn association(&self) -> u8 {
        self.header[field::CONTROL] & ASSOCIATION_MASK
    }

    /// Whether what follows is encrypted (the E bit).
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.header[field::CONTROL] & ENCRYPTED != 0
    }

    /// Whether what follows is not as it was sent (the C bit), encrypted or not.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.header[field::CONTROL] & CHANGED != 0
    }

    /// Bytes between the tag and the check value if they are fewer than 48, else 0.
    #[must_use]
    pub fn short_length(&self) -> u8 {
        self.header[field::SHORT_LENGTH] & SHORT_LENGTH_MASK
    }

    /// Packet number, its low 32 bits.
    #[must_use]
    pub fn packet_number(&self) -> u32 {
        let [_, _, a, b, c, d] = *self.header;
        u32::from_be_bytes([a, b, c, d])
    }

    /// Secure channel identifier, if there is one.
    #[must_use]
    pub fn channel(&self) -> Option<u64> {
        self.channel.copied().map(u64::from_be_bytes)
    }

    /// Bytes of the tag, with its channel identifier.
    #[must_use]
    pub fn header_len(&self) -> usize {
        if self.channel.is_some() { HEADER_LEN + CHANNEL_LEN } else { HEADER_LEN }
    }
}

/// A tag as a value; the ES and SCB bits are not represented.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MacsecRepr {
    /// Association number; bits above the second are not sent.
    pub association: u8,
    /// Whether what follows is encrypted.
    pub is_encrypted: bool,
    /// Whether what follows is not as it was sent.
    pub is_changed: bool,
    /// Bytes between tag and check value, or 0; bits above the 6th are not sent.
    pub short_length: u8,
    /// Packet number.
    pub packet_number: u32,
    /// Secure channel identifier.
    pub channel: Option<u64>,
}

impl MacsecRepr {
    /// The value of a tag.
    #[must_use]
    pub fn parse(view: &Macsec<'_>) -> Self {
        Self {
            association: view.association(),
            is_encrypted: view.is_encrypted(),
            is_changed: view.is_changed(),
            short_length: view.short_length(),
            packet_number: view.packet_number(),
            channel: view.channel(),
        }
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        if self.channel.is_some() { HEADER_LEN + CHANNEL_LEN } else { HEADER_LEN }
    }

    /// Appends the tag, without the EtherType before it.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let control = flag(self.channel.is_some(), HAS_CHANNEL)
            | flag(self.is_encrypted, ENCRYPTED)
            | flag(self.is_changed, CHANGED)
            | self.association & ASSOCIATION_MASK;
        out.extend_from_slice(&[control, self.short_length & SHORT_LENGTH_MASK]);
        out.extend_from_slice(&self.packet_number.to_be_bytes());
        if let Some(channel) = self.channel {
            out.extend_from_slice(&channel.to_be_bytes());
        }
    }
}

/// `MACsec, an 0, pn 7, encrypted`
impl fmt::Display for Macsec<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MACsec, an {}, pn {}", self.association(), self.packet_number())?;
        if let Some(channel) = self.channel() {
            write!(f, ", sci {channel:#018x}")?;
        }
        match (self.is_encrypted(), self.is_changed()) {
            (true, _) => f.write_str(", encrypted"),
            (false, true) => f.write_str(", changed"),
            (false, false) => f.write_str(", integrity"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BYTES: [u8; 14] = [0x2c, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 1, 0, 1];

    #[test]
    fn reads_and_tells() {
        let view = Macsec::new(&BYTES).unwrap();
        assert!(view.is_encrypted() && view.is_changed());
        assert_eq!((view.header_len(), view.channel()), (14, Some(0x0200_0000_0001_0001)));
        assert_eq!(view.to_string(), "MACsec, an 0, pn 7, sci 0x0200000000010001, encrypted");
        let view = Macsec::new(&[0x01, 46, 0, 0, 0, 7]).unwrap();
        assert_eq!((view.header_len(), view.short_length(), view.association()), (6, 46, 1));
        assert_eq!(view.to_string(), "MACsec, an 1, pn 7, integrity");
    }

    #[test]
    fn refuses_what_it_cannot_be() {
        for len in 0..14 {
            assert_eq!(Macsec::new(&BYTES[..len]).unwrap_err(), Malformed::MacsecTagShort);
        }
        assert_eq!(Macsec::new(&[0x80; 14]).unwrap_err(), Malformed::MacsecVersionWrong);
    }

    proptest! {
        #[test]
        fn parse_gives_back_what_emit_wrote(
            association in 0..4_u8, is_encrypted: bool, is_changed: bool, short_length in 0..64_u8,
            packet_number: u32, channel: Option<u64>,
        ) {
            let value = MacsecRepr {
                association, is_encrypted, is_changed, short_length, packet_number, channel,
            };
            let mut bytes = Vec::new();
            value.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), value.header_len());
            prop_assert_eq!(MacsecRepr::parse(&Macsec::new(&bytes).unwrap()), value);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..24)) {
            if let Ok(view) = Macsec::new(&bytes) {
                let _ = (view.to_string(), MacsecRepr::parse(&view));
            }
        }
    }
}
