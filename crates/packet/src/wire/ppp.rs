//! PPP (RFC 1661 §2, RFC 1662 §3.1) and Cisco HDLC. PPP: address 0xff and
//! control 0x03, both of which may be left out, then the protocol in 2 bytes,
//! or in 1 if that byte is odd. Cisco HDLC: address 0x0f or 0x8f, control,
//! EtherType.

use std::fmt;

use crate::malformed::Malformed;

/// Bytes of the longest header.
pub const HEADER_LEN_MAX: usize = 4;
/// Address and control in HDLC-like framing.
pub const ADDRESS_AND_CONTROL: [u8; 2] = [0xff, 0x03];
/// Cisco HDLC address of a unicast frame.
pub const CISCO_UNICAST: u8 = 0x0f;
/// Cisco HDLC address of a broadcast frame.
pub const CISCO_BROADCAST: u8 = 0x8f;

/// PPP protocol numbers that this project reads.
pub mod protocol {
    /// IPv4.
    pub const IPV4: u16 = 0x0021;
    /// IPv6.
    pub const IPV6: u16 = 0x0057;
    /// MPLS.
    pub const MPLS: u16 = 0x0281;
    /// MPLS with an upstream-assigned label.
    pub const MPLS_UPSTREAM: u16 = 0x0283;
}

/// How a header names what follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PppContent {
    /// A PPP protocol number.
    Protocol(u16),
    /// An EtherType, of Cisco HDLC.
    EtherType(u16),
}

/// A PPP or Cisco HDLC header.
#[derive(Clone, Copy, Debug)]
pub struct Ppp {
    content: PppContent,
    header_len: u8,
}

impl Ppp {
    /// # Errors
    /// [`Malformed::PppHeaderShort`].
    #[inline]
    pub fn new(bytes: &[u8]) -> Result<Self, Malformed> {
        if let [CISCO_UNICAST | CISCO_BROADCAST, ..] = *bytes {
            let [_, _, high, low, ..] = *bytes else {
                return Err(Malformed::PppHeaderShort);
            };
            let content = PppContent::EtherType(u16::from_be_bytes([high, low]));
            return Ok(Self { content, header_len: 4 });
        }
        let framed = bytes.starts_with(&ADDRESS_AND_CONTROL);
        let rest = if framed { &bytes[ADDRESS_AND_CONTROL.len()..] } else { bytes };
        let (protocol, protocol_len) = match *rest {
            [low, ..] if low & 1 == 1 => (u16::from(low), 1),
            [high, low, ..] => (u16::from_be_bytes([high, low]), 2),
            _ => return Err(Malformed::PppHeaderShort),
        };
        let header_len = if framed { protocol_len + 2 } else { protocol_len };
        Ok(Self { content: PppContent::Protocol(protocol), header_len })
    }

    /// What follows.
    #[inline]
    #[must_use]
    pub fn content(&self) -> PppContent {
        self.content
    }

    /// Bytes of this header.
    #[inline]
    #[must_use]
    pub fn header_len(&self) -> usize {
        usize::from(self.header_len)
    }
}

/// A PPP header as a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PppRepr {
    /// Whether address and control are written.
    pub framed: bool,
    /// Protocol; valid ones have an even high and an odd low byte (RFC 1661 §2).
    pub protocol: u16,
}

impl PppRepr {
    /// # Errors
    /// [`Malformed::PppHeaderShort`] for Cisco HDLC, which this value does not hold.
    pub fn parse(view: &Ppp) -> Result<Self, Malformed> {
        match view.content() {
            PppContent::Protocol(protocol) => Ok(Self { framed: view.header_len() > 2, protocol }),
            PppContent::EtherType(_) => Err(Malformed::PppHeaderShort),
        }
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub fn header_len(&self) -> usize {
        if self.framed { HEADER_LEN_MAX } else { 2 }
    }

    /// Appends the header, the protocol uncompressed.
    pub fn emit(&self, out: &mut Vec<u8>) {
        if self.framed {
            out.extend_from_slice(&ADDRESS_AND_CONTROL);
        }
        out.extend_from_slice(&self.protocol.to_be_bytes());
    }
}

impl fmt::Display for Ppp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.content {
            PppContent::Protocol(protocol) => write!(f, "PPP protocol {protocol:#06x}"),
            PppContent::EtherType(ether_type) => write!(f, "CHDLC ethertype {ether_type:#06x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_every_abbreviation() {
        let cases: [(&[u8], usize); 4] =
            [(&[0xff, 3, 0, 0x21], 4), (&[0xff, 3, 0x21, 0x45], 3), (&[0, 0x21], 2), (&[0x21], 1)];
        for (bytes, header_len) in cases {
            let view = Ppp::new(bytes).unwrap();
            assert_eq!(view.content(), PppContent::Protocol(protocol::IPV4));
            assert_eq!(view.header_len(), header_len);
            assert_eq!(view.to_string(), "PPP protocol 0x0021");
        }
        let cisco = Ppp::new(&[0x0f, 0, 8, 0]).unwrap();
        assert_eq!((cisco.content(), cisco.header_len()), (PppContent::EtherType(0x0800), 4));
        assert_eq!(cisco.to_string(), "CHDLC ethertype 0x0800");
    }

    #[test]
    fn ends_early() {
        for bytes in [&[][..], &[0], &[0xff, 3], &[0xff, 3, 0], &[0x8f, 0, 8]] {
            assert_eq!(Ppp::new(bytes).unwrap_err(), Malformed::PppHeaderShort);
        }
    }

    proptest! {
        #[test]
        fn parse_gives_back_what_emit_wrote(framed: bool, high: u8, low: u8) {
            let value = PppRepr { framed, protocol: u16::from_be_bytes([high & !1, low | 1]) };
            let mut bytes = Vec::new();
            value.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), value.header_len());
            prop_assert_eq!(PppRepr::parse(&Ppp::new(&bytes).unwrap()), Ok(value));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..6)) {
            if let Ok(view) = Ppp::new(&bytes) {
                prop_assert!(view.header_len() <= bytes.len());
                let _ = (view.to_string(), PppRepr::parse(&view));
            }
        }
    }
}
