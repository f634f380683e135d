//! Steps into tunnels. Until a network header inside holds, `layers` continue
//! describing the outer one.

use super::{Next, Walk};
use crate::layers::Tunnel;
use crate::malformed::Malformed;
use crate::wire::erspan::{self, Erspan};
use crate::wire::ethernet::{self, ether_type};
use crate::wire::geneve::{self, Geneve};
use crate::wire::gre::{self, Gre};
use crate::wire::gtpu::{self, Gtpu};
use crate::wire::vxlan::{self, Vxlan};

impl Walk<'_> {
    pub(super) fn gre(&mut self) -> Next {
        let view = match Gre::new(self.captured()) {
            Ok(view) => view,
            Err(cause) => return self.missing_some(gre::HEADER_LEN, cause),
        };
        self.pass(view.header_len());
        self.tunnel = Tunnel::Gre;
        match (view.version(), view.protocol_type()) {
            // Acknowledgments of enhanced GRE carry nothing.
            _ if self.remaining() == 0 => Next::Stop,
            (0, ether_type::TRANSPARENT_ETHERNET) => Next::Ethernet,
            // Type I of ERSPAN has neither a sequence number nor a header of its own.
            (0, ether_type::ERSPAN) if view.sequence_number().is_none() => {
                self.tunnel = Tunnel::Erspan;
                Next::Ethernet
            }
            (0, ether_type::ERSPAN | ether_type::ERSPAN_III) => Next::Erspan,
            (0, value) => Next::EtherType(value),
            (1, ether_type::PPP) => Next::Ppp,
            _ => Next::Stop,
        }
    }

    pub(super) fn erspan(&mut self) -> Next {
        let view = match Erspan::new(self.captured()) {
            Ok(view) => view,
            Err(cause @ Malformed::ErspanVersionWrong) => return self.fault(cause),
            Err(cause) => return self.missing_some(erspan::HEADER_LEN, cause),
        };
        self.pass(view.header_len());
        self.tunnel = Tunnel::Erspan;
        // The switch cut the frame, whose headers go on telling of the whole.
        self.is_open |= view.is_truncated();
        match view.frame_type() {
            _ if self.remaining() == 0 => Next::Stop,
            erspan::FRAME_ETHERNET => Next::Ethernet,
            erspan::FRAME_IP => Next::RawIp,
            _ => Next::Stop,
        }
    }

    /// At UDP's port, so it may be something else: then it stays UDP.
    pub(super) fn geneve(&mut self) -> Next {
        let bytes = self.captured();
        match bytes {
            [] => return self.missing(1, Malformed::GeneveHeaderShort),
            [first, ..] if first >> 6 != 0 => return Next::Stop,
            [_, _, high, low, ..]
                if u16::from_be_bytes([*high, *low]) < ethernet::ETHER_TYPE_MIN =>
            {
                return Next::Stop;
            }
            [_, _, _, _, ..] => {}
            _ => return self.missing(4, Malformed::GeneveHeaderShort),
        }
        let view = match Geneve::new(bytes) {
            Ok(view) => view,
            Err(cause) => return self.missing_some(geneve::HEADER_LEN, cause),
        };
        if let Err(cause) = view.check_options() {
            return self.fault(cause);
        }
        self.pass(view.header_len());
        self.tunnel = Tunnel::Geneve;
        match view.protocol_type() {
            // Control messages may carry options alone.
            _ if self.remaining() == 0 => Next::Stop,
            ether_type::TRANSPARENT_ETHERNET => Next::Ethernet,
            value => Next::EtherType(value),
        }
    }

    /// At UDP's port, so it may be something else: then it stays UDP.
    pub(super) fn vxlan(&mut self) -> Next {
        const VNI_VALID: u8 = 0x08;
        let bytes = self.captured();
        match bytes.first() {
            None => return self.missing(1, Malformed::VxlanHeaderShort),
            Some(flags) if flags & VNI_VALID == 0 => return Next::Stop,
            Some(_) => {}
        }
        match Vxlan::new(bytes) {
            Ok(_) => {
                self.pass(vxlan::HEADER_LEN);
                self.tunnel = Tunnel::Vxlan;
                Next::Ethernet
            }
            Err(cause) => self.missing(vxlan::HEADER_LEN, cause),
        }
    }

    /// At UDP's port, so it may be something else: then it stays UDP.
    pub(super) fn gtpu(&mut self) -> Next {
        /// Version 1, protocol type GTP.
        const VERSION_AND_TYPE: u8 = 0x30;
        let bytes = self.captured();
        match bytes {
            [] => return self.missing(1, Malformed::GtpuHeaderShort),
            [first, ..] if first & 0xf0 != VERSION_AND_TYPE => return Next::Stop,
            [_] => return self.missing(2, Malformed::GtpuHeaderShort),
            [_, kind, ..] if *kind != gtpu::MESSAGE_GPDU => return Next::Stop,
            _ => {}
        }
        let view = match Gtpu::new(bytes) {
            Ok(view) => view,
            Err(cause) => return self.missing_some(gtpu::HEADER_LEN, cause),
        };
        self.narrow(gtpu::HEADER_LEN + usize::from(view.length()));
        self.pass(view.header_len());
        self.tunnel = Tunnel::Gtpu;
        match self.captured().first() {
            Some(0x40..=0x4f) => Next::Ipv4,
            Some(0x60..=0x6f) => Next::Ipv6,
            None if self.remaining() > 0 => self.missing(1, Malformed::GtpuHeaderShort),
            _ => Next::Stop,
        }
    }
}
