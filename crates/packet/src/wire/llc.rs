//! Logical link control (IEEE 802.2): destination and source service access
//! point, control. SNAP (RFC 1042) adds 3 bytes of organisation and 2 bytes of
//! protocol where both points are 0xaa and control is 0x03.

use std::fmt;

use crate::malformed::Malformed;

/// Bytes of LLC with one byte of control, the least there is.
pub const HEADER_LEN: usize = 3;
/// Bytes of LLC and SNAP.
pub const SNAP_HEADER_LEN: usize = 8;
/// Service access point of SNAP.
pub const SAP_SNAP: u8 = 0xaa;
/// Service access point of IPv4 without SNAP.
pub const SAP_IPV4: u8 = 0x06;
/// Control of an unnumbered information frame.
pub const CONTROL_UNNUMBERED: u8 = 0x03;
/// Organisation whose protocol numbers are EtherTypes.
pub const ORGANISATION_ETHER_TYPE: u32 = 0;
/// Organisation of bridged EtherTypes (IEEE 802.1H); numbers as above.
pub const ORGANISATION_BRIDGED: u32 = 0x00_00f8;

/// An LLC header, with SNAP where it announces one.
#[derive(Clone, Copy, Debug)]
pub struct Llc<'a> {
    header: &'a [u8; HEADER_LEN],
    snap: Option<&'a [u8; SNAP_HEADER_LEN]>,
}

impl<'a> Llc<'a> {
    /// # Errors
    /// [`Malformed::LlcHeaderShort`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let header: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or(Malformed::LlcHeaderShort)?;
        let snap = if *header == [SAP_SNAP, SAP_SNAP, CONTROL_UNNUMBERED] {
            Some(bytes.first_chunk().ok_or(Malformed::LlcHeaderShort)?)
        } else {
            None
        };
        Ok(Self { header, snap })
    }

    /// Destination service access point.
    #[inline]
    #[must_use]
    pub fn destination_sap(&self) -> u8 {
        self.header[0]
    }

    /// Source service access point.
    #[inline]
    #[must_use]
    pub fn source_sap(&self) -> u8 {
        self.header[1]
    }

    /// Control, its first byte.
    #[inline]
    #[must_use]
    pub fn control(&self) -> u8 {
        self.header[2]
    }

    /// SNAP's organisation and protocol.
    #[inline]
    #[must_use]
    pub fn snap(&self) -> Option<(u32, u16)> {
        let [_, _, _, a, b, c, d, e] = *self.snap?;
        Some((u32::from_be_bytes([0, a, b, c]), u16::from_be_bytes([d, e])))
    }

    /// The EtherType, where SNAP carries one.
    #[inline]
    #[must_use]
    pub fn ether_type(&self) -> Option<u16> {
        match self.snap()? {
            (ORGANISATION_ETHER_TYPE | ORGANISATION_BRIDGED, protocol) => Some(protocol),
            _ => None,
        }
    }

    /// Bytes of LLC, with SNAP where there is one.
    #[inline]
    #[must_use]
    pub fn header_len(&self) -> usize {
        if self.snap.is_some() { SNAP_HEADER_LEN } else { HEADER_LEN }
    }
}

/// An LLC header as a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LlcRepr {
    /// LLC with one byte of control.
    Plain {
        /// Destination service access point.
        destination_sap: u8,
        /// Source service access point.
        source_sap: u8,
        /// Control.
        control: u8,
    },
    /// LLC and SNAP.
    Snap {
        /// Organisation; the high byte is not emitted.
        organisation: u32,
        /// Protocol.
        protocol: u16,
    },
}

impl LlcRepr {
    /// # Errors
    /// None at present: every view is a valid value.
    pub fn parse(view: &Llc<'_>) -> Result<Self, Malformed> {
        Ok(match view.snap() {
            Some((organisation, protocol)) => Self::Snap { organisation, protocol },
            None => Self::Plain {
                destination_sap: view.destination_sap(),
                source_sap: view.source_sap(),
                control: view.control(),
            },
        })
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub fn header_len(&self) -> usize {
        match self {
            Self::Plain { .. } => HEADER_LEN,
            Self::Snap { .. } => SNAP_HEADER_LEN,
        }
    }

    /// Appends the header.
    pub fn emit(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Plain { destination_sap, source_sap, control } => {
                out.extend_from_slice(&[destination_sap, source_sap, control]);
            }
            Self::Snap { organisation, protocol } => {
                let [_, a, b, c] = organisation.to_be_bytes();
                out.extend_from_slice(&[SAP_SNAP, SAP_SNAP, CONTROL_UNNUMBERED, a, b, c]);
                out.extend_from_slice(&protocol.to_be_bytes());
            }
        }
    }
}

impl fmt::Display for Llc<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((organisation, protocol)) = self.snap() {
            return write!(f, "SNAP, oui {organisation:#08x}, ethertype {protocol:#06x}");
        }
        write!(
            f,
            "LLC, dsap {:#04x} ssap {:#04x} ctrl {:#04x}",
            self.destination_sap(),
            self.source_sap(),
            self.control()
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn snap_of_organisation_zero_names_an_ether_type() {
        let view = Llc::new(&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]).unwrap();
        assert_eq!((view.ether_type(), view.header_len()), (Some(0x0800), 8));
        assert_eq!(view.to_string(), "SNAP, oui 0x000000, ethertype 0x0800");
        // Cisco discovery protocol: Cisco's organisation, not an EtherType.
        let view = Llc::new(&[0xaa, 0xaa, 3, 0, 0, 0x0c, 0x20, 0]).unwrap();
        assert_eq!((view.snap(), view.ether_type()), (Some((0x0c, 0x2000)), None));
    }

    #[test]
    fn spanning_tree_has_no_snap() {
        let view = Llc::new(&[0x42, 0x42, 3, 0]).unwrap();
        assert_eq!((view.snap(), view.header_len()), (None, 3));
        assert_eq!(view.to_string(), "LLC, dsap 0x42 ssap 0x42 ctrl 0x03");
    }

    #[test]
    fn ends_early() {
        assert_eq!(Llc::new(&[0x42, 0x42]).unwrap_err(), Malformed::LlcHeaderShort);
        let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8];
        assert_eq!(Llc::new(&snap).unwrap_err(), Malformed::LlcHeaderShort);
    }

    proptest! {
        #[test]
        fn parse_gives_back_what_emit_wrote(
            value in prop_oneof![
                (any::<u8>(), any::<u8>(), 4_u8..).prop_map(|saps| {
            let (destination_sap, source_sap, control) = saps;
                    LlcRepr::Plain { destination_sap, source_sap, control }
                }),
                (0_u32..1 << 24, any::<u16>())
                    .prop_map(|(organisation, protocol)| LlcRepr::Snap { organisation, protocol }),
            ],
        ) {
            let mut bytes = Vec::new();
            value.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), value.header_len());
            prop_assert_eq!(LlcRepr::parse(&Llc::new(&bytes).unwrap()), Ok(value));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            if let Ok(view) = Llc::new(&bytes) {
                let _ = (view.to_string(), LlcRepr::parse(&view), view.ether_type());
            }
        }
    }
}
