//! Steps into tunnels. Until a network header inside holds, `layers` go on
//! describing the outer one.

use super::{Next, Walk};
use crate::layers::Tunnel;
use crate::malformed::Malformed;
use crate::wire::ethernet::ether_type;
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
            (0, value) => Next::EtherType(value),
            (1, ether_type::PPP) => Next::Ppp,
            _ => Next::Stop,
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
