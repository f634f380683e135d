//! VXLAN (RFC 7348): flags, 24 reserved bits, a 24-bit network identifier and
//! 8 reserved bits, over UDP; an Ethernet frame follows.

use std::fmt;

use crate::malformed::Malformed;

mod field {
    pub(super) const FLAGS: usize = 0;
    pub(super) const VNI: usize = 4;
}

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;
/// The UDP destination port that IANA assigned.
pub const PORT: u16 = 4789;
/// The largest network identifier.
pub const VNI_MAX: u32 = (1 << 24) - 1;

const FLAG_VNI_VALID: u8 = 0x08;

/// A VXLAN packet, header checked.
#[derive(Clone, Copy, Debug)]
pub struct Vxlan<'a> {
    header: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
}

impl<'a> Vxlan<'a> {
    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    /// [`Malformed::VxlanHeaderShort`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, payload) =
            bytes.split_first_chunk::<HEADER_LEN>().ok_or(Malformed::VxlanHeaderShort)?;
        Ok(Self { header, payload })
    }

    /// Flags; only [`is_vni_valid`](Self::is_vni_valid) is defined by RFC 7348.
    #[inline]
    #[must_use]
    pub fn flags(&self) -> u8 {
        self.header[field::FLAGS]
    }

    /// Whether the I flag is set, as RFC 7348 §5 demands.
    #[inline]
    #[must_use]
    pub fn is_vni_valid(&self) -> bool {
        self.flags() & FLAG_VNI_VALID != 0
    }

    /// VXLAN network identifier, 24 bits.
    #[inline]
    #[must_use]
    pub fn vni(&self) -> u32 {
        let at = field::VNI;
        u32::from_be_bytes([0, self.header[at], self.header[at + 1], self.header[at + 2]])
    }

    /// Captured bytes of the inner Ethernet frame.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A VXLAN header as a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VxlanRepr {
    /// VXLAN network identifier; bits above the 24th are not sent.
    pub vni: u32,
}

impl VxlanRepr {
    /// The value of a header, or `None` where it names no network.
    #[must_use]
    pub fn parse(vxlan: &Vxlan<'_>) -> Option<Self> {
        vxlan.is_vni_valid().then(|| Self { vni: vxlan.vni() })
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Appends the header.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[FLAG_VNI_VALID, 0, 0, 0]);
        out.extend_from_slice(&((self.vni & VNI_MAX) << 8).to_be_bytes());
    }
}

/// `VXLAN, flags [I] (0x08), vni 100`
impl fmt::Display for Vxlan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = if self.is_vni_valid() { "I" } else { "." };
        write!(f, "VXLAN, flags [{letter}] ({:#04x}), vni {}", self.flags(), self.vni())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Crafted with Scapy 2.6, text as tcpdump shows it; the start of a frame follows.
    const BYTES: [u8; 10] = [0x08, 0x00, 0x00, 0x00, 0x12, 0x34, 0x56, 0x00, 0x02, 0x00];

    #[test]
    fn reads_and_tells() {
        let vxlan = Vxlan::new(&BYTES).unwrap();
        assert!(vxlan.is_vni_valid());
        assert_eq!((vxlan.vni(), vxlan.payload()), (0x12_3456, &[0x02, 0x00][..]));
        assert_eq!(vxlan.to_string(), "VXLAN, flags [I] (0x08), vni 1193046");
    }

    #[test]
    fn without_the_flag_no_network_is_named() {
        let vxlan = Vxlan::new(&[0; 8]).unwrap();
        assert!(!vxlan.is_vni_valid());
        assert_eq!(VxlanRepr::parse(&vxlan), None);
        assert_eq!(vxlan.to_string(), "VXLAN, flags [.] (0x00), vni 0");
    }

    #[test]
    fn refuses_what_it_cannot_be() {
        assert_eq!(Vxlan::new(&BYTES[..7]).unwrap_err(), Malformed::VxlanHeaderShort);
    }

    proptest! {
        #[test]
        fn parse_gives_back_what_emit_wrote(vni in 0..=VNI_MAX) {
            let value = VxlanRepr { vni };
            let mut bytes = Vec::new();
            value.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), value.header_len());
            prop_assert_eq!(VxlanRepr::parse(&Vxlan::new(&bytes).unwrap()), Some(value));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            if let Ok(vxlan) = Vxlan::new(&bytes) {
                prop_assert!(vxlan.vni() <= VNI_MAX);
                let _ = (vxlan.to_string(), vxlan.payload());
            }
        }
    }
}
