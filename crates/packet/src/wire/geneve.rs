//! Geneve (RFC 8926), over UDP: a header of 8 bytes, options of up to 252 bytes, then a frame or
//! packet whose EtherType the header names. Clouds mirror and forward traffic in it.
//!
//! ```text
//! |Ver| Opt Len |O|C|   reserved    |         protocol type         |
//! |   virtual network identifier, 24 bits         |   reserved      |
//! |   options: class (16), type (8), reserved (3), words (5), data  |
//! ```

use std::fmt;

use crate::malformed::Malformed;

mod field {
    pub(super) const LENGTH: usize = 0;
    pub(super) const FLAGS: usize = 1;
    pub(super) const PROTOCOL_TYPE: usize = 2;
    pub(super) const VNI: usize = 4;
    /// Within an option.
    pub(super) const OPTION_WORDS: usize = 3;
}

/// Bytes of the header without options.
pub const HEADER_LEN: usize = 8;
/// The most bytes of options that a header can announce.
pub const OPTIONS_LEN_MAX: usize = 63 * 4;
/// The UDP destination port that IANA assigned.
pub const PORT: u16 = 6081;
/// The largest network identifier.
pub const VNI_MAX: u32 = (1 << 24) - 1;

const OPTION_WORDS_MASK: u8 = 0x3f;
const FLAG_CONTROL: u8 = 0x80;
const FLAG_CRITICAL: u8 = 0x40;
const OPTION_HEADER_LEN: usize = 4;
const OPTION_DATA_WORDS_MASK: u8 = 0x1f;

/// A Geneve packet, length of the header checked.
#[derive(Clone, Copy, Debug)]
pub struct Geneve<'a> {
    header: &'a [u8; HEADER_LEN],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Geneve<'a> {
    /// Reads the header at the start of `bytes`. The layout of versions above 0 is not defined: ask
    /// [`version`](Self::version) before going on.
    ///
    /// # Errors
    /// [`Malformed::GeneveHeaderShort`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, rest) =
            bytes.split_first_chunk::<HEADER_LEN>().ok_or(Malformed::GeneveHeaderShort)?;
        let options_len = usize::from(header[field::LENGTH] & OPTION_WORDS_MASK) * 4;
        let (options, payload) =
            rest.split_at_checked(options_len).ok_or(Malformed::GeneveHeaderShort)?;
        Ok(Self { header, options, payload })
    }

    /// Version; 0 is the only one.
    #[inline]
    #[must_use]
    pub fn version(&self) -> u8 {
        self.header[field::LENGTH] >> 6
    }

    /// Whether this is a control message (the O bit).
    #[inline]
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.header[field::FLAGS] & FLAG_CONTROL != 0
    }

    /// Whether an option has to be understood by the tunnel's end (the C bit).
    #[inline]
    #[must_use]
    pub fn has_critical_options(&self) -> bool {
        self.header[field::FLAGS] & FLAG_CRITICAL != 0
    }

    /// EtherType of what is carried; 0x6558 is Ethernet.
    #[inline]
    #[must_use]
    pub fn protocol_type(&self) -> u16 {
        let at = field::PROTOCOL_TYPE;
        u16::from_be_bytes([self.header[at], self.header[at + 1]])
    }

    /// Virtual network identifier, 24 bits.
    #[inline]
    #[must_use]
    pub fn vni(&self) -> u32 {
        let at = field::VNI;
        u32::from_be_bytes([0, self.header[at], self.header[at + 1], self.header[at + 2]])
    }

    /// Bytes of the header, options included.
    #[inline]
    #[must_use]
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// Bytes of the options.
    #[inline]
    #[must_use]
    pub fn options(&self) -> &'a [u8] {
        self.options
    }

    /// Checks that the options end where the header says.
    ///
    /// # Errors
    /// [`Malformed::GeneveOptionWrong`].
    pub fn check_options(&self) -> Result<(), Malformed> {
        check_options(self.options)
    }

    /// Captured bytes behind the header.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// Bounded by the header: each turn takes at least four of at most 252 bytes.
fn check_options(options: &[u8]) -> Result<(), Malformed> {
    let mut rest = options;
    while !rest.is_empty() {
        let words = rest.get(field::OPTION_WORDS).ok_or(Malformed::GeneveOptionWrong)?;
        let len = OPTION_HEADER_LEN + usize::from(words & OPTION_DATA_WORDS_MASK) * 4;
        rest = rest.get(len..).ok_or(Malformed::GeneveOptionWrong)?;
    }
    Ok(())
}

/// A Geneve header as a value.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GeneveRepr {
    /// Whether this is a control message.
    pub is_control: bool,
    /// Whether an option has to be understood.
    pub has_critical_options: bool,
    /// EtherType of what is carried.
    pub protocol_type: u16,
    /// Virtual network identifier; bits above the 24th are not sent.
    pub vni: u32,
    /// Options as they are sent: whole options, at most [`OPTIONS_LEN_MAX`] bytes of them.
    pub options: Vec<u8>,
}

impl GeneveRepr {
    /// The value of a header; `None` for another version or options that do not fit.
    #[must_use]
    pub fn parse(geneve: &Geneve<'_>) -> Option<Self> {
        if geneve.version() != 0 || geneve.check_options().is_err() {
            return None;
        }
        Some(Self {
            is_control: geneve.is_control(),
            has_critical_options: geneve.has_critical_options(),
            protocol_type: geneve.protocol_type(),
            vni: geneve.vni(),
            options: geneve.options.to_vec(),
        })
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.sent_options().len()
    }

    /// Whole words, and no more than the header can announce.
    fn sent_options(&self) -> &[u8] {
        let len = self.options.len().min(OPTIONS_LEN_MAX) / 4 * 4;
        self.options.get(..len).unwrap_or_default()
    }

    /// Appends the header.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let options = self.sent_options();
        let words = u8::try_from(options.len() / 4).unwrap_or_default();
        let control = if self.is_control { FLAG_CONTROL } else { 0 };
        let critical = if self.has_critical_options { FLAG_CRITICAL } else { 0 };
        out.extend_from_slice(&[words, control | critical]);
        out.extend_from_slice(&self.protocol_type.to_be_bytes());
        out.extend_from_slice(&((self.vni & VNI_MAX) << 8).to_be_bytes());
        out.extend_from_slice(options);
    }
}

/// `Geneve, flags [C] (0x40), vni 0xa, proto 0x6558, options [8 bytes]`
impl fmt::Display for Geneve<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let control = if self.is_control() { "O" } else { "" };
        let critical = if self.has_critical_options() { "C" } else { "" };
        let flags = self.header[field::FLAGS];
        write!(f, "Geneve, flags [{control}{critical}] ({flags:#04x}), vni {:#x}", self.vni())?;
        write!(f, ", proto {:#06x}", self.protocol_type())?;
        match self.options.len() {
            0 => Ok(()),
            len => write!(f, ", options [{len} bytes]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As a gateway load balancer sends it: three options of class 0x0108, then IPv4.
    const BYTES: [u8; 42] = [
        0x08, 0x00, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x08, 0x01, 0x02, 1, 2, 3, 4, 5, 6,
        7, 8, 0x01, 0x08, 0x02, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0x01, 0x08, 0x03, 0x01, 9, 9, 9, 9,
        0x45, 0x00,
    ];

    #[test]
    fn reads_and_tells() {
        let geneve = Geneve::new(&BYTES).unwrap();
        assert_eq!((geneve.version(), geneve.protocol_type(), geneve.vni()), (0, 0x0800, 0));
        assert_eq!((geneve.header_len(), geneve.payload()), (40, &[0x45, 0][..]));
        assert_eq!(geneve.check_options(), Ok(()));
        let text = "Geneve, flags [] (0x00), vni 0x0, proto 0x0800, options [32 bytes]";
        assert_eq!(geneve.to_string(), text);
        let bytes = [0x00, 0xc0, 0x65, 0x58, 0x00, 0x00, 0x0a, 0xff];
        let text = "Geneve, flags [OC] (0xc0), vni 0xa, proto 0x6558";
        assert_eq!(Geneve::new(&bytes).unwrap().to_string(), text);
    }

    #[test]
    fn refuses_what_it_cannot_be() {
        for len in 0..40 {
            let refused = Geneve::new(&BYTES[..len]).unwrap_err();
            assert_eq!(refused, Malformed::GeneveHeaderShort);
        }
    }

    #[test]
    fn an_option_that_ends_behind_the_header_is_wrong() {
        let mut bytes = BYTES;
        bytes[35] = 2;
        let geneve = Geneve::new(&bytes).unwrap();
        assert_eq!(geneve.check_options(), Err(Malformed::GeneveOptionWrong));
        assert_eq!(GeneveRepr::parse(&geneve), None);
        bytes[0] = 0x48;
        assert_eq!(Geneve::new(&bytes).unwrap().version(), 1);
    }

    proptest! {
        #[test]
        fn parse_gives_back_what_emit_wrote(
            is_control: bool, has_critical_options: bool, protocol_type: u16, vni in 0..=VNI_MAX,
            option_words in prop::collection::vec(0_u8..8, 0..7),
        ) {
            let option = |&words: &u8| [vec![1, 2, 3, words], vec![7; usize::from(words) * 4]];
            let options = option_words.iter().flat_map(option).flatten().collect();
            let value =
                GeneveRepr { is_control, has_critical_options, protocol_type, vni, options };
            let mut bytes = Vec::new();
            value.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), value.header_len());
            prop_assert_eq!(GeneveRepr::parse(&Geneve::new(&bytes).unwrap()), Some(value));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(geneve) = Geneve::new(&bytes) {
                prop_assert_eq!(geneve.header_len() + geneve.payload().len(), bytes.len());
                let _ = (geneve.to_string(), geneve.check_options(), GeneveRepr::parse(&geneve));
            }
        }
    }
}
