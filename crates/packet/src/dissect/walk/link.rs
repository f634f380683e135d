//! Steps below the network layer.

use super::{Next, Walk};
use crate::layers::{Layers, Network};
use crate::malformed::Malformed;
use crate::wire::cooked::{self, Cooked};
use crate::wire::ethernet::{self, Ethernet, ether_type};
use crate::wire::ipv4::Ipv4;
use crate::wire::ipv6::{self, Ipv6};
use crate::wire::llc::{self, Llc};
use crate::wire::loopback::{self, Loopback};
use crate::wire::macsec::{self, Macsec};
use crate::wire::mpls::{self, Mpls};
use crate::wire::nflog::{self, Nflog};
use crate::wire::ppp::{self, Ppp, PppContent};
use crate::wire::pppoe::{self, Pppoe};
use crate::wire::vlan::{self, Vlan};

impl Walk<'_> {
    pub(super) fn ethernet(&mut self) -> Next {
        match Ethernet::new(self.captured()) {
            Ok(view) => {
                self.pass(ethernet::HEADER_LEN);
                self.type_or_length(view.type_or_length())
            }
            Err(cause) => self.missing(ethernet::HEADER_LEN, cause),
        }
    }

    /// Either an EtherType or, up to 1,500, the length of an LLC frame.
    fn type_or_length(&mut self, value: u16) -> Next {
        if value <= ethernet::LENGTH_MAX {
            self.narrow(usize::from(value));
            return Next::Llc;
        }
        self.announce(value);
        Next::EtherType(value)
    }

    pub(super) fn ether_type(&mut self, value: u16) -> Next {
        self.announce(value);
        match value {
            ether_type::IPV4 => self.ipv4(),
            ether_type::IPV6 => self.ipv6(),
            ether_type::ARP | ether_type::RARP => self.arp(),
            ether_type::VLAN | ether_type::SERVICE_VLAN | ether_type::STACKED_VLAN_OLD => {
                self.vlan()
            }
            ether_type::MPLS | ether_type::MPLS_UPSTREAM => self.mpls(),
            ether_type::PPPOE_SESSION => self.pppoe(),
            ether_type::MACSEC => self.macsec(),
            _ => Next::Stop,
        }
    }

    fn vlan(&mut self) -> Next {
        match Vlan::new(self.captured()) {
            Ok(view) => {
                // The outermost tag of the frame itself, not of a frame in a tunnel.
                if self.layers.network == Network::None && self.layers.vlan().is_none() {
                    self.layers.vlan_id = view.identifier();
                }
                self.pass(vlan::HEADER_LEN);
                self.type_or_length(view.type_or_length())
            }
            Err(cause) => self.missing(vlan::HEADER_LEN, cause),
        }
    }

    /// With integrity alone an EtherType follows in the clear. Nothing says how long the check
    /// value at the end is: it is taken for the standard's, where the tag does not tell more.
    fn macsec(&mut self) -> Next {
        let view = match Macsec::new(self.captured()) {
            Ok(view) => view,
            Err(cause @ Malformed::MacsecVersionWrong) => return self.fault(cause),
            Err(cause) => return self.missing_some(macsec::HEADER_LEN, cause),
        };
        self.pass(view.header_len());
        if view.is_encrypted() || view.is_changed() {
            self.layers.flags |= Layers::ENCRYPTED;
            return Next::Stop;
        }
        self.narrow(match usize::from(view.short_length()) {
            0 => self.remaining().saturating_sub(macsec::CHECK_VALUE_LEN),
            len => len,
        });
        match self.captured().first_chunk() {
            Some(&ether_type) => {
                self.pass(ether_type.len());
                self.type_or_length(u16::from_be_bytes(ether_type))
            }
            None => self.missing(2, Malformed::MacsecTagShort),
        }
    }

    pub(super) fn llc(&mut self) -> Next {
        self.announce(0);
        match Llc::new(self.captured()) {
            Ok(view) => {
                self.pass(view.header_len());
                match view.ether_type() {
                    Some(value) => Next::EtherType(value),
                    None if view.destination_sap() == llc::SAP_IPV4 => Next::Ipv4,
                    None => Next::Stop,
                }
            }
            Err(cause) => self.missing_some(llc::HEADER_LEN, cause),
        }
    }

    pub(super) fn mpls(&mut self) -> Next {
        let view = match Mpls::new(self.captured()) {
            Ok(view) => view,
            Err(cause) => return self.missing(mpls::HEADER_LEN, cause),
        };
        self.layers.flags |= Layers::MPLS;
        self.pass(mpls::HEADER_LEN);
        if view.is_bottom() { self.below_mpls() } else { Next::Mpls }
    }

    /// Labels do not say what they carry. As every reader does, take the first
    /// nibble for a version; else take Ethernet, behind a control word or without
    /// one, where its EtherType makes sense. A guess is never a fault.
    fn below_mpls(&mut self) -> Next {
        let bytes = self.captured();
        match bytes.first() {
            None if self.remaining() == 0 => Next::Stop,
            None => self.missing(1, Malformed::MplsStackShort),
            // The first byte of an Ethernet address may look like a version (RFC 4928 §3).
            Some(0x40..=0x4f | 0x60..=0x6f) if is_ethernet(Some(bytes)) && !self.may_be_ip() => {
                Next::Ethernet
            }
            Some(0x40..=0x4f) => Next::Ipv4,
            Some(0x60..=0x6f) => Next::Ipv6,
            Some(first) => {
                let control_word_len = mpls::CONTROL_WORD_LEN;
                if first >> 4 == 0 && is_ethernet(bytes.get(control_word_len..)) {
                    self.pass(control_word_len);
                    Next::Ethernet
                } else if is_ethernet(Some(bytes)) {
                    Next::Ethernet
                } else {
                    Next::Stop
                }
            }
        }
    }

    /// Whether the lengths of an IP header at the position can be true.
    fn may_be_ip(&self) -> bool {
        let bytes = self.captured();
        let len = match bytes.first() {
            Some(0x40..=0x4f) => {
                Ipv4::new(bytes).map(|view| view.header_len().max(usize::from(view.total_length())))
            }
            _ => Ipv6::new(bytes).map(|view| ipv6::HEADER_LEN + usize::from(view.payload_length())),
        };
        match len {
            Ok(len) => len <= self.remaining() || self.is_open,
            Err(cause) => matches!(cause, Malformed::Ipv4HeaderShort | Malformed::Ipv6HeaderShort),
        }
    }

    pub(super) fn pppoe(&mut self) -> Next {
        match Pppoe::new(self.captured()) {
            Ok(view) => {
                self.layers.flags |= Layers::PPPOE;
                self.pass(pppoe::HEADER_LEN);
                self.narrow(usize::from(view.length()));
                if view.code() == pppoe::CODE_SESSION { Next::Ppp } else { Next::Stop }
            }
            Err(cause @ Malformed::PppoeVersionWrong) => self.fault(cause),
            Err(cause) => self.missing(pppoe::HEADER_LEN, cause),
        }
    }

    pub(super) fn ppp(&mut self) -> Next {
        let view = match Ppp::new(self.captured()) {
            Ok(view) => view,
            Err(cause) => return self.missing_some(1, cause),
        };
        self.pass(view.header_len());
        match view.content() {
            PppContent::Protocol(ppp::protocol::IPV4) => Next::Ipv4,
            PppContent::Protocol(ppp::protocol::IPV6) => Next::Ipv6,
            PppContent::Protocol(ppp::protocol::MPLS | ppp::protocol::MPLS_UPSTREAM) => Next::Mpls,
            // On this link the number of RARP is Cisco's SLARP.
            PppContent::Protocol(_) | PppContent::EtherType(ether_type::RARP) => Next::Stop,
            PppContent::EtherType(value) => Next::EtherType(value),
        }
    }

    pub(super) fn cooked(&mut self, is_v2: bool) -> Next {
        let bytes = self.captured();
        let (view, header_len) = if is_v2 {
            (Cooked::new_v2(bytes), cooked::HEADER_LEN_V2)
        } else {
            (Cooked::new(bytes), cooked::HEADER_LEN)
        };
        match view {
            Ok(view) => {
                self.pass(header_len);
                match view.protocol() {
                    cooked::PROTOCOL_LLC => Next::Llc,
                    value if value >= ethernet::ETHER_TYPE_MIN => Next::EtherType(value),
                    _ => Next::Stop,
                }
            }
            Err(cause) => self.missing(header_len, cause),
        }
    }

    pub(super) fn loopback(&mut self) -> Next {
        match Loopback::new(self.captured()) {
            Ok(view) => {
                self.pass(loopback::HEADER_LEN);
                if view.is_ipv4() {
                    Next::Ipv4
                } else if view.is_ipv6() {
                    Next::Ipv6
                } else {
                    Next::Stop
                }
            }
            Err(cause) => self.missing(loopback::HEADER_LEN, cause),
        }
    }

    /// The packet begins at its network header; only bridges log other protocols than IP.
    pub(super) fn nflog(&mut self) -> Next {
        let view = match Nflog::new(self.captured()) {
            Ok(view) => view,
            Err(cause) => return self.missing(nflog::HEADER_LEN, cause),
        };
        let packet = match view.packet() {
            Ok(Some(packet)) => packet,
            // Attributes may go on behind what was captured.
            Ok(None) if self.captured().len() < self.remaining() => {
                self.layers.flags |= Layers::CUT;
                return Next::Stop;
            }
            Ok(None) => return Next::Stop,
            Err(cause) => return self.missing_some(nflog::HEADER_LEN, cause),
        };
        self.pass(packet.start);
        self.narrow(packet.len());
        match (view.family(), view.ether_type()) {
            (nflog::FAMILY_IPV4, _) => Next::Ipv4,
            (nflog::FAMILY_IPV6, _) => Next::Ipv6,
            (_, Some(value)) => Next::EtherType(value),
            (_, None) => Next::Stop,
        }
    }

    pub(super) fn raw_ip(&mut self) -> Next {
        match self.captured().first() {
            Some(0x40..=0x4f) => Next::Ipv4,
            Some(0x60..=0x6f) => Next::Ipv6,
            Some(_) => self.fault(Malformed::RawVersionWrong),
            None => self.missing(1, Malformed::RawVersionWrong),
        }
    }
}

/// Whether `bytes` look like Ethernet that carries something this project reads.
fn is_ethernet(bytes: Option<&[u8]>) -> bool {
    bytes.and_then(|bytes| Ethernet::new(bytes).ok()).is_some_and(|view| {
        matches!(
            view.type_or_length(),
            ether_type::IPV4
                | ether_type::IPV6
                | ether_type::ARP
                | ether_type::VLAN
                | ether_type::SERVICE_VLAN
                | ether_type::MPLS
                | ether_type::PPPOE_SESSION
        )
    })
}
