//! Frames of IEEE 802.11: the MAC header of data frames, and what stands between it and LLC, which
//! is mesh control or the header of an A-MSDU's first subframe. All fields but a subframe's length
//! are little-endian.
//!
//! ```text
//! control (2), duration (2), three addresses (18), sequence control (2)
//! fourth address (6), if to and from a distribution system
//! QoS control (2), in QoS frames; HT control (4), in QoS frames that announce it
//! ```

use std::fmt;

use crate::malformed::Malformed;

mod field {
    pub(super) const SEQUENCE: usize = 22;
}

/// Bytes of frame control.
pub const CONTROL_LEN: usize = 2;
/// Bytes of a data frame's header without its optional fields.
pub const HEADER_LEN: usize = 24;
/// Bytes before an A-MSDU's subframe: two addresses and a length.
pub const SUBFRAME_HEADER_LEN: usize = 14;
/// Bytes of mesh control without further addresses.
pub const MESH_CONTROL_LEN: usize = 6;
/// Bytes of the check sequence that may end a frame.
pub const CHECK_SEQUENCE_LEN: usize = 4;

const ADDRESS_LEN: usize = 6;
const QOS_LEN: usize = 2;
const HT_CONTROL_LEN: usize = 4;

const VERSION_MASK: u16 = 0x0003;
const TYPE_MASK: u16 = 0x000c;
const TYPE_DATA: u16 = 0x0008;
const NO_DATA: u16 = 0x0040;
const QOS: u16 = 0x0080;
const TO_DISTRIBUTION: u16 = 0x0100;
const FROM_DISTRIBUTION: u16 = 0x0200;
const MORE_FRAGMENTS: u16 = 0x0400;
const PROTECTED: u16 = 0x4000;
const ORDER: u16 = 0x8000;
const FRAGMENT_NUMBER_MASK: u16 = 0x000f;
const QOS_AGGREGATE: u16 = 0x0080;
const QOS_MESH_CONTROL: u16 = 0x0100;

/// A frame whose control was read, and whose header if it is a data frame.
#[derive(Clone, Copy, Debug)]
pub struct Wlan<'a> {
    /// Of a data frame its whole header, else its control.
    header: &'a [u8],
    payload: &'a [u8],
    control: u16,
}

impl<'a> Wlan<'a> {
    /// # Errors
    /// [`Malformed::WlanHeaderShort`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let control = *bytes.first_chunk().ok_or(Malformed::WlanHeaderShort)?;
        let control = u16::from_le_bytes(control);
        let (header, payload) =
            bytes.split_at_checked(header_len(control)).ok_or(Malformed::WlanHeaderShort)?;
        Ok(Self { header, payload, control })
    }

    /// Bytes that a view of `bytes` needs, as far as they can tell.
    #[must_use]
    pub fn len_needed(bytes: &[u8]) -> usize {
        bytes.first_chunk().map_or(CONTROL_LEN, |control| header_len(u16::from_le_bytes(*control)))
    }

    /// Frame control: version, type, subtype and flags.
    #[must_use]
    pub fn control(&self) -> u16 {
        self.control
    }

    /// Whether this is a data frame of version 0, with data or without.
    #[must_use]
    pub fn is_data(&self) -> bool {
        is_data(self.control)
    }

    /// Whether this is a data frame whose subtype says that data follows.
    #[must_use]
    pub fn has_data(&self) -> bool {
        self.is_data() && self.control & NO_DATA == 0
    }

    /// Whether what follows is encrypted (the Protected Frame bit).
    #[must_use]
    pub fn is_protected(&self) -> bool {
        self.control & PROTECTED != 0
    }

    /// Whether further fragments follow.
    #[must_use]
    pub fn more_fragments(&self) -> bool {
        self.control & MORE_FRAGMENTS != 0
    }

    /// Fragment number; 0 in frames other than data frames.
    #[must_use]
    pub fn fragment_number(&self) -> u16 {
        self.word(field::SEQUENCE) & FRAGMENT_NUMBER_MASK
    }

    /// Whether the data is an A-MSDU.
    #[must_use]
    pub fn is_aggregate(&self) -> bool {
        self.qos() & QOS_AGGREGATE != 0
    }

    /// Whether mesh control may follow. The bit that says so means something else outside of
    /// meshes, so that `flags`, the first byte that follows, has to fit as well.
    #[must_use]
    pub fn has_mesh_control(&self, flags: u8) -> bool {
        self.may_have_mesh_control() && flags < 3
    }

    /// The same as far as the header can tell.
    #[must_use]
    pub fn may_have_mesh_control(&self) -> bool {
        self.control & FROM_DISTRIBUTION != 0 && self.qos() & QOS_MESH_CONTROL != 0
    }

    /// QoS control; 0 where there is none.
    fn qos(&self) -> u16 {
        if self.is_data() && self.control & QOS != 0 {
            self.word(HEADER_LEN + fourth_len(self.control))
        } else {
            0
        }
    }

    /// Bytes of the header; of frames other than data frames those of their control.
    #[must_use]
    pub fn header_len(&self) -> usize {
        self.header.len()
    }

    /// Captured bytes behind the header.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    fn word(&self, at: usize) -> u16 {
        let word = self.header.get(at..).and_then(<[u8]>::first_chunk);
        word.copied().map_or(0, u16::from_le_bytes)
    }
}

/// Bytes of mesh control whose first byte is `flags`.
#[must_use]
pub fn mesh_control_len(flags: u8) -> usize {
    MESH_CONTROL_LEN + usize::from(flags & 3) * ADDRESS_LEN
}

const fn is_data(control: u16) -> bool {
    control & (VERSION_MASK | TYPE_MASK) == TYPE_DATA
}

const fn fourth_len(control: u16) -> usize {
    let both = TO_DISTRIBUTION | FROM_DISTRIBUTION;
    if control & both == both { ADDRESS_LEN } else { 0 }
}

const fn header_len(control: u16) -> usize {
    if !is_data(control) {
        return CONTROL_LEN;
    }
    let qos_len = match control & (QOS | ORDER) {
        QOS => QOS_LEN,
        // Of frames without QoS this bit is about their order alone.
        0 | ORDER => 0,
        _ => QOS_LEN + HT_CONTROL_LEN,
    };
    HEADER_LEN + fourth_len(control) + qos_len
}

/// The header of a data frame as a value; addresses, duration and further bits are sent as 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WlanRepr {
    /// Whether the frame goes to a distribution system, and whether it comes from one.
    pub distribution: (bool, bool),
    /// Whether what follows is encrypted.
    pub is_protected: bool,
    /// Whether further fragments follow.
    pub more_fragments: bool,
    /// Fragment number; bits above the 4th are not sent.
    pub fragment_number: u16,
    /// In QoS frames whether the data is an A-MSDU, and whether HT control is there.
    pub qos: Option<(bool, bool)>,
}

impl WlanRepr {
    /// The value of a header; `None` for what is no data frame with data.
    #[must_use]
    pub fn parse(view: &Wlan<'_>) -> Option<Self> {
        let has = |flag: u16| view.control & flag != 0;
        view.has_data().then(|| Self {
            distribution: (has(TO_DISTRIBUTION), has(FROM_DISTRIBUTION)),
            is_protected: view.is_protected(),
            more_fragments: view.more_fragments(),
            fragment_number: view.fragment_number(),
            qos: has(QOS).then(|| (view.is_aggregate(), has(ORDER))),
        })
    }

    fn control(&self) -> u16 {
        let flag = |is_set: bool, flag: u16| if is_set { flag } else { 0 };
        TYPE_DATA
            | flag(self.distribution.0, TO_DISTRIBUTION)
            | flag(self.distribution.1, FROM_DISTRIBUTION)
            | flag(self.is_protected, PROTECTED)
            | flag(self.more_fragments, MORE_FRAGMENTS)
            | flag(self.qos.is_some(), QOS)
            | flag(self.qos.is_some_and(|(_, has_ht_control)| has_ht_control), ORDER)
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub fn header_len(&self) -> usize {
        header_len(self.control())
    }

    /// Appends the header.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.control().to_le_bytes());
        out.resize(start + field::SEQUENCE, 0);
        out.extend_from_slice(&(self.fragment_number & FRAGMENT_NUMBER_MASK).to_le_bytes());
        out.resize(out.len() + fourth_len(self.control()), 0);
        if let Some((is_aggregate, _)) = self.qos {
            let qos = if is_aggregate { QOS_AGGREGATE } else { 0 };
            out.extend_from_slice(&qos.to_le_bytes());
        }
        out.resize(start + self.header_len(), 0);
    }
}

/// `802.11 control 0x4188, data, protected`
impl fmt::Display for Wlan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "802.11 control {:#06x}", self.control)?;
        match (self.is_data(), self.has_data()) {
            (_, true) => f.write_str(", data")?,
            (true, false) => f.write_str(", null")?,
            _ => {}
        }
        if self.is_protected() { f.write_str(", protected") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn control_of(control: u16) -> Vec<u8> {
        let mut bytes = control.to_le_bytes().to_vec();
        bytes.resize(40, 0);
        bytes
    }

    #[test]
    fn headers_are_as_long_as_their_control_says() {
        let cases = [
            (0x0008, 24, "802.11 control 0x0008, data"),
            (0x0308, 30, "802.11 control 0x0308, data"),
            (0x4188, 26, "802.11 control 0x4188, data, protected"),
            (0x8388, 36, "802.11 control 0x8388, data"),
            // The order bit without QoS, no data, a beacon, an acknowledgment, another version.
            (0x8008, 24, "802.11 control 0x8008, data"),
            (0x0148, 24, "802.11 control 0x0148, null"),
            (0x0080, 2, "802.11 control 0x0080"),
            (0x00d4, 2, "802.11 control 0x00d4"),
            (0x0009, 2, "802.11 control 0x0009"),
        ];
        for (control, header_len, text) in cases {
            let bytes = control_of(control);
            let view = Wlan::new(&bytes).unwrap();
            assert_eq!((view.header_len(), view.to_string().as_str()), (header_len, text));
            assert_eq!(Wlan::len_needed(&bytes), header_len);
            let short = Wlan::new(&bytes[..header_len - 1]);
            assert_eq!(short.unwrap_err(), Malformed::WlanHeaderShort);
        }
    }

    #[test]
    fn qos_control_tells_of_aggregates_and_meshes() {
        let mut bytes = control_of(0x0288);
        bytes[22] = 0x35;
        bytes[24..26].copy_from_slice(&[0x80, 0x01]);
        let view = Wlan::new(&bytes).unwrap();
        assert!(view.is_aggregate() && view.has_mesh_control(2));
        assert!(!view.has_mesh_control(3) && !view.has_mesh_control(0xaa));
        assert_eq!((view.fragment_number(), mesh_control_len(2)), (5, 18));
        // To an access point the bit says something else.
        bytes[1] = 1;
        assert!(!Wlan::new(&bytes).unwrap().has_mesh_control(0));
    }

    proptest! {
        #[test]
        fn parse_gives_back_what_emit_wrote(
            distribution: (bool, bool), is_protected: bool, more_fragments: bool,
            fragment_number in 0..16_u16, qos: Option<(bool, bool)>,
        ) {
            let value =
                WlanRepr { distribution, is_protected, more_fragments, fragment_number, qos };
            let mut bytes = Vec::new();
            value.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), value.header_len());
            prop_assert_eq!(WlanRepr::parse(&Wlan::new(&bytes).unwrap()), Some(value));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..48)) {
            if let Ok(view) = Wlan::new(&bytes) {
                prop_assert_eq!(view.header_len() + view.payload().len(), bytes.len());
                let _ = (view.to_string(), WlanRepr::parse(&view), view.has_mesh_control(0));
            }
        }
    }
}
