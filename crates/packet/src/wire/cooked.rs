//! Linux cooked capture, versions 1 and 2 (`LINKTYPE_LINUX_SLL`, `_SLL2`): the
//! header that `any` gives. Version 1, 16 bytes: packet type, ARP hardware
//! type, address length, address in 8 bytes, protocol. Version 2, 20 bytes:
//! protocol, 2 reserved, interface index, ARP hardware type, packet type,
//! address length, address in 8 bytes.

use std::fmt;

use crate::malformed::Malformed;

/// Bytes of version 1.
pub const HEADER_LEN: usize = 16;
/// Bytes of version 2.
pub const HEADER_LEN_V2: usize = 20;
/// `protocol` of a frame that begins with an LLC header (`LINUX_SLL_P_802_2`).
pub const PROTOCOL_LLC: u16 = 4;
/// Packet type of what this host sent.
pub const PACKET_TYPE_OUTGOING: u16 = 4;

/// A cooked header of either version.
#[derive(Clone, Copy, Debug)]
pub enum Cooked<'a> {
    /// Version 1.
    V1(&'a [u8; HEADER_LEN]),
    /// Version 2.
    V2(&'a [u8; HEADER_LEN_V2]),
}

impl<'a> Cooked<'a> {
    /// Of version 1.
    ///
    /// # Errors
    /// [`Malformed::CookedHeaderShort`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        bytes.first_chunk().map(Self::V1).ok_or(Malformed::CookedHeaderShort)
    }

    /// Of version 2.
    ///
    /// # Errors
    /// [`Malformed::CookedHeaderShort`].
    #[inline]
    pub fn new_v2(bytes: &'a [u8]) -> Result<Self, Malformed> {
        bytes.first_chunk().map(Self::V2).ok_or(Malformed::CookedHeaderShort)
    }

    /// EtherType, or below 0x0600 one of Linux' own numbers.
    #[inline]
    #[must_use]
    pub fn protocol(&self) -> u16 {
        match self {
            Self::V1(header) => u16::from_be_bytes([header[14], header[15]]),
            Self::V2(header) => u16::from_be_bytes([header[0], header[1]]),
        }
    }

    /// Who it was for: 0 this host, 1 broadcast, 2 multicast, 3 another host, 4 sent by this host.
    #[inline]
    #[must_use]
    pub fn packet_type(&self) -> u16 {
        match self {
            Self::V1(header) => u16::from_be_bytes([header[0], header[1]]),
            Self::V2(header) => u16::from(header[10]),
        }
    }

    /// ARP hardware type of the interface.
    #[inline]
    #[must_use]
    pub fn hardware_type(&self) -> u16 {
        match self {
            Self::V1(header) => u16::from_be_bytes([header[2], header[3]]),
            Self::V2(header) => u16::from_be_bytes([header[8], header[9]]),
        }
    }

    /// Index of the interface; version 1 has none.
    #[inline]
    #[must_use]
    pub fn interface_index(&self) -> Option<u32> {
        match **self.v2()? {
            [_, _, _, _, a, b, c, d, ..] => Some(u32::from_be_bytes([a, b, c, d])),
        }
    }

    /// Sender's link address; a longer one is cut to 8 bytes.
    #[inline]
    #[must_use]
    pub fn address(&self) -> &'a [u8] {
        let (len, field) = match self {
            Self::V1(header) => (u16::from_be_bytes([header[4], header[5]]), &header[6..14]),
            Self::V2(header) => (u16::from(header[11]), &header[12..20]),
        };
        field.get(..usize::from(len)).unwrap_or(field)
    }

    /// Bytes of this header.
    #[inline]
    #[must_use]
    pub fn header_len(&self) -> usize {
        match self {
            Self::V1(_) => HEADER_LEN,
            Self::V2(_) => HEADER_LEN_V2,
        }
    }

    fn v2(&self) -> Option<&&'a [u8; HEADER_LEN_V2]> {
        match self {
            Self::V1(_) => None,
            Self::V2(header) => Some(header),
        }
    }
}

/// A cooked header as a value; version 2 where `interface_index` is given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CookedRepr {
    /// EtherType, or one of Linux' own numbers.
    pub protocol: u16,
    /// Who it was for; version 2 emits the low byte.
    pub packet_type: u16,
    /// ARP hardware type.
    pub hardware_type: u16,
    /// Index of the interface.
    pub interface_index: Option<u32>,
    /// Sender's link address; 8 bytes are emitted at most.
    pub address: Vec<u8>,
}

impl CookedRepr {
    /// # Errors
    /// None at present: every view is a valid value.
    pub fn parse(view: &Cooked<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            protocol: view.protocol(),
            packet_type: view.packet_type(),
            hardware_type: view.hardware_type(),
            interface_index: view.interface_index(),
            address: view.address().to_vec(),
        })
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub fn header_len(&self) -> usize {
        if self.interface_index.is_some() { HEADER_LEN_V2 } else { HEADER_LEN }
    }

    /// Appends the header.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let mut address = [0; 8];
        let mut address_len = 0_u8;
        for (to, from) in address.iter_mut().zip(&self.address) {
            *to = *from;
            address_len += 1;
        }
        if let Some(interface_index) = self.interface_index {
            out.extend_from_slice(&self.protocol.to_be_bytes());
            out.extend_from_slice(&[0, 0]);
            out.extend_from_slice(&interface_index.to_be_bytes());
            out.extend_from_slice(&self.hardware_type.to_be_bytes());
            out.extend_from_slice(&[self.packet_type.to_be_bytes()[1], address_len]);
            out.extend_from_slice(&address);
        } else {
            out.extend_from_slice(&self.packet_type.to_be_bytes());
            out.extend_from_slice(&self.hardware_type.to_be_bytes());
            out.extend_from_slice(&u16::from(address_len).to_be_bytes());
            out.extend_from_slice(&address);
            out.extend_from_slice(&self.protocol.to_be_bytes());
        }
    }
}

impl fmt::Display for Cooked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.packet_type() {
            0 => "In",
            1 => "B",
            2 => "M",
            3 => "P",
            PACKET_TYPE_OUTGOING => "Out",
            _ => "?",
        })?;
        if let Some(index) = self.interface_index() {
            write!(f, ", ifindex {index}")?;
        }
        write!(f, ", ethertype {:#06x}", self.protocol())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const V1: [u8; 16] = [0, 4, 0, 1, 0, 6, 2, 0x42, 0xac, 0x11, 0, 2, 0, 0, 8, 0];
    const V2: [u8; 20] =
        [0x86, 0xdd, 0, 0, 0, 0, 0, 3, 0, 1, 4, 6, 2, 0x42, 0xac, 0x11, 0, 2, 0, 0];

    #[test]
    fn reads_and_tells_both_versions() {
        let view = Cooked::new(&V1).unwrap();
        assert_eq!(view.to_string(), "Out, ethertype 0x0800");
        assert_eq!((view.address(), view.hardware_type()), (&[2, 0x42, 0xac, 0x11, 0, 2][..], 1));
        let view = Cooked::new_v2(&V2).unwrap();
        assert_eq!(view.to_string(), "Out, ifindex 3, ethertype 0x86dd");
        assert_eq!((view.address(), view.hardware_type()), (&[2, 0x42, 0xac, 0x11, 0, 2][..], 1));
    }

    #[test]
    fn a_long_address_is_cut() {
        let mut bytes = V2;
        bytes[11] = 12;
        assert_eq!(Cooked::new_v2(&bytes).unwrap().address().len(), 8);
    }

    #[test]
    fn ends_early() {
        assert_eq!(Cooked::new(&V1[..15]).unwrap_err(), Malformed::CookedHeaderShort);
        assert_eq!(Cooked::new_v2(&V2[..19]).unwrap_err(), Malformed::CookedHeaderShort);
    }

    proptest! {
        #[test]
        fn parse_gives_back_what_emit_wrote(
            protocol: u16, packet_type in 0_u16..256, hardware_type: u16,
            interface_index: Option<u32>, address in prop::collection::vec(any::<u8>(), 0..=8),
        ) {
            let value =
                CookedRepr { protocol, packet_type, hardware_type, interface_index, address };
            let mut bytes = Vec::new();
            value.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), value.header_len());
            let view = if interface_index.is_some() {
                Cooked::new_v2(&bytes)
            } else {
                Cooked::new(&bytes)
            };
            prop_assert_eq!(CookedRepr::parse(&view.unwrap()), Ok(value));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..24)) {
            for view in [Cooked::new(&bytes), Cooked::new_v2(&bytes)].into_iter().flatten() {
                let _ = (view.to_string(), CookedRepr::parse(&view));
            }
        }
    }
}
