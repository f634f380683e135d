//! ERSPAN, mirrored frames within GRE (draft-foschiano-erspan-03). Type I has no header of its own;
//! type II has 8 bytes and says version 1; type III has 12 bytes, says version 2, and has 8 more
//! where the O bit announces a platform-specific subheader.
//!
//! ```text
//! |  Ver  |         VLAN          | COS |BSO|T|    session ID     |
//! II:  |      reserved         |              index              |
//! III: |                       timestamp                         |
//!      |   security group tag      |P|   FT    |   Hw ID   |D|Gra|O|
//! ```

use std::fmt;

use crate::malformed::Malformed;

mod field {
    pub(super) const VLAN: usize = 0;
    pub(super) const SESSION: usize = 2;
    pub(super) const FRAME_TYPE: usize = 10;
}

/// Bytes of type II's header, the shortest there is.
pub const HEADER_LEN: usize = 8;
/// Bytes of type III's header without its subheader.
pub const HEADER_LEN_III: usize = 12;
/// Bytes of the platform-specific subheader.
pub const SUBHEADER_LEN: usize = 8;
/// The largest session identifier.
pub const SESSION_ID_MAX: u16 = (1 << 10) - 1;
/// Frame type of Ethernet, in type III.
pub const FRAME_ETHERNET: u8 = 0;
/// Frame type of IP, in type III.
pub const FRAME_IP: u8 = 2;

const VERSION_II: u8 = 1;
const VERSION_III: u8 = 2;
const VLAN_MASK: u16 = 0x0fff;
const TRUNCATED: u16 = 0x0400;
const FRAME_TYPE_SHIFT: u16 = 10;
const FRAME_TYPE_MASK: u8 = 0x1f;
const HAS_SUBHEADER: u16 = 0x0001;

/// A header of type II or III with the frame behind it, lengths checked.
#[derive(Clone, Copy, Debug)]
pub struct Erspan<'a> {
    header: &'a [u8],
    payload: &'a [u8],
    /// The first two words.
    words: [u16; 2],
    /// The word with the frame type; 0 in type II.
    last: u16,
}

impl<'a> Erspan<'a> {
    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    /// [`Malformed::ErspanVersionWrong`] or [`Malformed::ErspanHeaderShort`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let [first, ..] = bytes.first_chunk::<HEADER_LEN>().ok_or(Malformed::ErspanHeaderShort)?;
        let word = |at: usize| {
            let word = bytes.get(at..).and_then(<[u8]>::first_chunk);
            word.copied().map(u16::from_be_bytes).ok_or(Malformed::ErspanHeaderShort)
        };
        let (header_len, last) = match first >> 4 {
            VERSION_II => (HEADER_LEN, 0),
            VERSION_III => {
                let last = word(field::FRAME_TYPE)?;
                let subheader_len = if last & HAS_SUBHEADER == 0 { 0 } else { SUBHEADER_LEN };
                (HEADER_LEN_III + subheader_len, last)
            }
            _ => return Err(Malformed::ErspanVersionWrong),
        };
        let words = [word(field::VLAN)?, word(field::SESSION)?];
        let (header, payload) =
            bytes.split_at_checked(header_len).ok_or(Malformed::ErspanHeaderShort)?;
        Ok(Self { header, payload, words, last })
    }

    /// Version: 1 in type II, 2 in type III.
    #[must_use]
    pub fn version(&self) -> u8 {
        (self.words[0] >> 12).to_le_bytes()[0]
    }

    /// VLAN of the mirrored frame, as the switch gives it.
    #[must_use]
    pub fn vlan(&self) -> u16 {
        self.words[0] & VLAN_MASK
    }

    /// Session that mirrors.
    #[must_use]
    pub fn session_id(&self) -> u16 {
        self.words[1] & SESSION_ID_MAX
    }

    /// Whether the switch cut the frame.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.words[1] & TRUNCATED != 0
    }

    /// What the mirrored frame begins with: 0 Ethernet, always so in type II; 2 IP.
    #[must_use]
    pub fn frame_type(&self) -> u8 {
        (self.last >> FRAME_TYPE_SHIFT).to_le_bytes()[0] & FRAME_TYPE_MASK
    }

    /// Whether a platform-specific subheader is there.
    #[must_use]
    pub fn has_subheader(&self) -> bool {
        self.last & HAS_SUBHEADER != 0
    }

    /// Bytes of the header, subheader included.
    #[must_use]
    pub fn header_len(&self) -> usize {
        self.header.len()
    }

    /// Captured bytes of the mirrored frame.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A header of type II or III as a value; class, index, timestamp and group tag are sent as 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErspanRepr {
    /// VLAN of the mirrored frame; bits above the 12th are not sent.
    pub vlan: u16,
    /// Session; bits above the 10th are not sent.
    pub session_id: u16,
    /// Whether the frame was cut.
    pub is_truncated: bool,
    /// Type III: frame type, 5 bits of it, and whether there is a subheader. Type II has neither.
    pub third: Option<(u8, bool)>,
}

impl ErspanRepr {
    /// The value of a header.
    #[must_use]
    pub fn parse(view: &Erspan<'_>) -> Self {
        let third = (view.frame_type(), view.has_subheader());
        Self {
            vlan: view.vlan(),
            session_id: view.session_id(),
            is_truncated: view.is_truncated(),
            third: (view.version() == VERSION_III).then_some(third),
        }
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub fn header_len(&self) -> usize {
        match self.third {
            None => HEADER_LEN,
            Some((_, false)) => HEADER_LEN_III,
            Some((_, true)) => HEADER_LEN_III + SUBHEADER_LEN,
        }
    }

    /// Appends the header.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let version = if self.third.is_some() { VERSION_III } else { VERSION_II };
        let truncated = if self.is_truncated { TRUNCATED } else { 0 };
        let first = u16::from(version) << 12 | self.vlan & VLAN_MASK;
        let second = truncated | self.session_id & SESSION_ID_MAX;
        out.extend_from_slice(&first.to_be_bytes());
        out.extend_from_slice(&second.to_be_bytes());
        if let Some((frame_type, has_subheader)) = self.third {
            out.extend_from_slice(&[0; 6]);
            let frame_type = u16::from(frame_type & FRAME_TYPE_MASK) << FRAME_TYPE_SHIFT;
            out.extend_from_slice(&(frame_type | u16::from(has_subheader)).to_be_bytes());
        }
        out.resize(start + self.header_len(), 0);
    }
}

/// `ERSPAN type II, vlan 7, session 100`
impl fmt::Display for Erspan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.version() == VERSION_III { "III" } else { "II" };
        write!(f, "ERSPAN type {name}, vlan {}, session {}", self.vlan(), self.session_id())?;
        if self.is_truncated() { f.write_str(", truncated") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: [u8; 10] = [0x10, 0x07, 0x04, 0x64, 0, 0, 0, 0, 0x02, 0x00];
    const THIRD: [u8; 21] =
        [0x20, 0x07, 0, 0x64, 0, 0, 0, 1, 0, 0, 0x08, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0x45];

    #[test]
    fn reads_and_tells() {
        let view = Erspan::new(&SECOND).unwrap();
        assert_eq!((view.version(), view.vlan(), view.session_id()), (1, 7, 100));
        assert_eq!((view.header_len(), view.payload()), (8, &[2, 0][..]));
        assert_eq!(view.to_string(), "ERSPAN type II, vlan 7, session 100, truncated");
        let view = Erspan::new(&THIRD).unwrap();
        assert_eq!((view.version(), view.frame_type()), (2, FRAME_IP));
        assert_eq!((view.header_len(), view.payload()), (20, &[0x45][..]));
        assert_eq!(view.to_string(), "ERSPAN type III, vlan 7, session 100");
    }

    #[test]
    fn refuses_what_it_cannot_be() {
        for (bytes, len) in [(&SECOND[..], 8), (&THIRD, 20)] {
            for len in 0..len {
                let refused = Erspan::new(&bytes[..len]).unwrap_err();
                assert_eq!(refused, Malformed::ErspanHeaderShort);
            }
        }
        assert_eq!(Erspan::new(&[0x30; 20]).unwrap_err(), Malformed::ErspanVersionWrong);
    }

    proptest! {
        #[test]
        fn parse_gives_back_what_emit_wrote(
            vlan in 0..4096_u16, session_id in 0..=SESSION_ID_MAX, is_truncated: bool,
            third in prop::option::of((0..32_u8, any::<bool>())),
        ) {
            let value = ErspanRepr { vlan, session_id, is_truncated, third };
            let mut bytes = Vec::new();
            value.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), value.header_len());
            prop_assert_eq!(ErspanRepr::parse(&Erspan::new(&bytes).unwrap()), value);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..24)) {
            if let Ok(view) = Erspan::new(&bytes) {
                prop_assert_eq!(view.header_len() + view.payload().len(), bytes.len());
                let _ = (view.to_string(), ErspanRepr::parse(&view));
            }
        }
    }
}
