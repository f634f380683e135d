//! Address resolution (RFC 826): hardware type, protocol type, the lengths of
//! their addresses, operation, then sender's hardware and protocol address and
//! the target's.

use std::fmt;
use std::net::Ipv4Addr;

use crate::malformed::Malformed;
use crate::wire::ethernet::{MacAddress, ether_type};

/// Bytes before the addresses.
pub const HEADER_LEN: usize = 8;
/// Operation "request".
pub const OPERATION_REQUEST: u16 = 1;
/// Operation "reply".
pub const OPERATION_REPLY: u16 = 2;
/// Hardware type of Ethernet.
pub const HARDWARE_ETHERNET: u16 = 1;

/// An ARP packet.
#[derive(Clone, Copy, Debug)]
pub struct Arp<'a> {
    header: &'a [u8; HEADER_LEN],
    addresses: &'a [u8],
}

impl<'a> Arp<'a> {
    /// # Errors
    /// [`Malformed::ArpShort`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, rest) = bytes.split_first_chunk().ok_or(Malformed::ArpShort)?;
        let addresses = rest.get(..Self::addresses_len(header)).ok_or(Malformed::ArpShort)?;
        Ok(Self { header, addresses })
    }

    /// Bytes of the four addresses that `header` announces.
    #[inline]
    #[must_use]
    pub fn addresses_len(header: &[u8; HEADER_LEN]) -> usize {
        2 * (usize::from(header[4]) + usize::from(header[5]))
    }

    /// Hardware type: 1 for Ethernet.
    #[inline]
    #[must_use]
    pub fn hardware_type(&self) -> u16 {
        u16::from_be_bytes([self.header[0], self.header[1]])
    }

    /// EtherType of the protocol whose addresses are resolved.
    #[inline]
    #[must_use]
    pub fn protocol_type(&self) -> u16 {
        u16::from_be_bytes([self.header[2], self.header[3]])
    }

    /// Operation: 1 request, 2 reply.
    #[inline]
    #[must_use]
    pub fn operation(&self) -> u16 {
        u16::from_be_bytes([self.header[6], self.header[7]])
    }

    /// Bytes of the whole packet.
    #[inline]
    #[must_use]
    pub fn packet_len(&self) -> usize {
        HEADER_LEN + self.addresses.len()
    }

    /// Sender's hardware address, as long as the header says.
    #[inline]
    #[must_use]
    pub fn sender_hardware(&self) -> &'a [u8] {
        self.address(0, self.header[4])
    }

    /// Sender's protocol address, as long as the header says.
    #[inline]
    #[must_use]
    pub fn sender_protocol(&self) -> &'a [u8] {
        self.address(usize::from(self.header[4]), self.header[5])
    }

    /// Target's hardware address, as long as the header says.
    #[inline]
    #[must_use]
    pub fn target_hardware(&self) -> &'a [u8] {
        self.address(self.addresses.len() / 2, self.header[4])
    }

    /// Target's protocol address, as long as the header says.
    #[inline]
    #[must_use]
    pub fn target_protocol(&self) -> &'a [u8] {
        self.address(self.addresses.len() / 2 + usize::from(self.header[4]), self.header[5])
    }

    #[inline]
    fn address(&self, at: usize, len: u8) -> &'a [u8] {
        self.addresses.get(at..at + usize::from(len)).unwrap_or_default()
    }
}

/// An ARP packet between Ethernet and IPv4 as a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArpRepr {
    /// Operation.
    pub operation: u16,
    /// Sender's hardware address.
    pub sender_hardware: MacAddress,
    /// Sender's protocol address.
    pub sender_protocol: Ipv4Addr,
    /// Target's hardware address.
    pub target_hardware: MacAddress,
    /// Target's protocol address.
    pub target_protocol: Ipv4Addr,
}

impl ArpRepr {
    /// # Errors
    /// [`Malformed::ArpShort`] unless addresses are of 6 and 4 bytes.
    pub fn parse(view: &Arp<'_>) -> Result<Self, Malformed> {
        let hardware = |bytes: &[u8]| bytes.try_into().map(MacAddress);
        let protocol = |bytes: &[u8]| <[u8; 4]>::try_from(bytes).map(Ipv4Addr::from);
        let short = |_| Malformed::ArpShort;
        Ok(Self {
            operation: view.operation(),
            sender_hardware: hardware(view.sender_hardware()).map_err(short)?,
            sender_protocol: protocol(view.sender_protocol()).map_err(short)?,
            target_hardware: hardware(view.target_hardware()).map_err(short)?,
            target_protocol: protocol(view.target_protocol()).map_err(short)?,
        })
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub fn header_len(&self) -> usize {
        HEADER_LEN + 20
    }

    /// Appends the packet.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&HARDWARE_ETHERNET.to_be_bytes());
        out.extend_from_slice(&ether_type::IPV4.to_be_bytes());
        out.extend_from_slice(&[6, 4]);
        out.extend_from_slice(&self.operation.to_be_bytes());
        out.extend_from_slice(&self.sender_hardware.0);
        out.extend_from_slice(&self.sender_protocol.octets());
        out.extend_from_slice(&self.target_hardware.0);
        out.extend_from_slice(&self.target_protocol.octets());
    }
}

impl fmt::Display for Arp<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.operation(), ArpRepr::parse(self)) {
            (OPERATION_REQUEST, Ok(value)) => {
                write!(f, "ARP, who-has {} tell {}", value.target_protocol, value.sender_protocol)
            }
            (OPERATION_REPLY, Ok(value)) => {
                write!(f, "ARP, {} is-at {}", value.sender_protocol, value.sender_hardware)
            }
            (operation, _) => write!(f, "ARP, operation {operation}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REQUEST: [u8; 28] = [
        0, 1, 8, 0, 6, 4, 0, 1, 2, 0x42, 0xac, 0x11, 0, 2, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0,
        2,
    ];

    #[test]
    fn reads_and_tells() {
        let mut bytes = REQUEST;
        assert_eq!(Arp::new(&bytes).unwrap().to_string(), "ARP, who-has 10.0.0.2 tell 10.0.0.1");
        bytes[7] = 2;
        assert_eq!(Arp::new(&bytes).unwrap().to_string(), "ARP, 10.0.0.1 is-at 02:42:ac:11:00:02");
        bytes[7] = 8;
        assert_eq!(Arp::new(&bytes).unwrap().to_string(), "ARP, operation 8");
    }

    #[test]
    fn ends_before_its_addresses() {
        assert_eq!(Arp::new(&REQUEST[..27]).unwrap_err(), Malformed::ArpShort);
        assert_eq!(Arp::new(&REQUEST[..7]).unwrap_err(), Malformed::ArpShort);
    }

    #[test]
    fn other_address_lengths_are_no_value() {
        let mut bytes = REQUEST;
        bytes[4] = 2;
        let view = Arp::new(&bytes).unwrap();
        assert_eq!((view.sender_hardware(), view.packet_len()), (&[2, 0x42][..], 20));
        assert_eq!(ArpRepr::parse(&view), Err(Malformed::ArpShort));
    }

    proptest! {
        #[test]
        fn parse_gives_back_what_emit_wrote(
            operation: u16, sender_hardware: [u8; 6], sender_protocol: [u8; 4],
            target_hardware: [u8; 6], target_protocol: [u8; 4],
        ) {
            let value = ArpRepr {
                operation,
                sender_hardware: MacAddress(sender_hardware),
                sender_protocol: sender_protocol.into(),
                target_hardware: MacAddress(target_hardware),
                target_protocol: target_protocol.into(),
            };
            let mut bytes = Vec::new();
            value.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), value.header_len());
            prop_assert_eq!(ArpRepr::parse(&Arp::new(&bytes).unwrap()), Ok(value));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(0_u8..16, 0..60)) {
            if let Ok(view) = Arp::new(&bytes) {
                let addresses = [
                    view.sender_hardware(), view.sender_protocol(),
                    view.target_hardware(), view.target_protocol(),
                ];
                prop_assert_eq!(addresses.concat().len() + HEADER_LEN, view.packet_len());
                let _ = (view.to_string(), view.hardware_type(), view.protocol_type());
            }
        }
    }
}
