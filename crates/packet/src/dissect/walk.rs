//! The general walk: every header that this project reads, one step each.
//!
//! A step reads the header at `position` and says what comes next. It may not
//! look past `end`, where the enclosing layer ends; bytes before `end` that
//! were not captured make the frame cut, bytes past `end` make it malformed.

mod link;
mod network;
mod radio;
mod transport;
mod tunnel;

use super::{DissectOptions, HEADERS_MAX};
use crate::layers::{Layers, Network, Protocol, Tunnel};
use crate::link::LinkType;
use crate::malformed::Malformed;

/// What lies at the position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    Stop,
    Ethernet,
    /// What this EtherType announces.
    EtherType(u16),
    Llc,
    Mpls,
    /// PPP or Cisco HDLC, with address and control or without.
    Ppp,
    Pppoe,
    Cooked,
    CookedV2,
    Loopback,
    Nflog,
    Radiotap,
    Prism,
    Avs,
    Ppi,
    /// A frame of 802.11.
    Wlan,
    /// The same, its header padded to a multiple of 4 bytes.
    WlanPadded,
    /// IP whose version is given by its first nibble alone.
    RawIp,
    Ipv4,
    Ipv6,
    Gre,
    Erspan,
    Vxlan,
    Geneve,
    Gtpu,
}

struct Walk<'a> {
    frame: &'a [u8],
    /// Start of the header at hand.
    position: usize,
    /// Where the enclosing layer ends, captured or not.
    end: usize,
    /// The enclosing layer is known to continue past `end`, in a later fragment or
    /// in bytes the frame lost: what does not fit is missing, not malformed.
    is_open: bool,
    options: DissectOptions,
    /// EtherType that announced the header at hand; 0 where nothing did.
    ether_type: u16,
    /// The tunnel that was opened last; recorded in `layers` once a network header holds.
    tunnel: Tunnel,
    layers: Layers,
}

#[inline(never)]
pub(super) fn dissect(
    link: LinkType,
    frame: &[u8],
    wire_len: u32,
    options: DissectOptions,
    layers: &mut Layers,
) {
    let mut walk = Walk {
        frame,
        position: 0,
        end: frame.len().max(wire_len as usize),
        is_open: false,
        options,
        ether_type: 0,
        tunnel: Tunnel::None,
        layers: Layers { vlan_id: Layers::NO_VLAN, ..Layers::default() },
    };
    walk.run(first_of(link));
    *layers = walk.layers;
}

/// What frames of this link type begin with.
fn first_of(link: LinkType) -> Next {
    match link {
        LinkType::ETHERNET => Next::Ethernet,
        LinkType::RAW | LinkType::RAW_OLD_12 | LinkType::RAW_OLD_14 => Next::RawIp,
        LinkType::IPV4 => Next::Ipv4,
        LinkType::IPV6 => Next::Ipv6,
        LinkType::NULL | LinkType::LOOP => Next::Loopback,
        LinkType::NFLOG => Next::Nflog,
        LinkType::LINUX_SLL => Next::Cooked,
        LinkType::LINUX_SLL2 => Next::CookedV2,
        LinkType::PPP | LinkType::PPP_HDLC | LinkType::C_HDLC => Next::Ppp,
        LinkType::PPP_ETHER => Next::Pppoe,
        LinkType::IEEE802_11 => Next::Wlan,
        LinkType::IEEE802_11_RADIOTAP => Next::Radiotap,
        LinkType::IEEE802_11_PRISM => Next::Prism,
        LinkType::IEEE802_11_AVS => Next::Avs,
        LinkType::PPI => Next::Ppi,
        _ => Next::Stop,
    }
}

impl<'a> Walk<'a> {
    fn run(&mut self, first: Next) {
        let mut next = first;
        for _ in 0..HEADERS_MAX {
            next = match next {
                Next::Stop => return,
                Next::Ethernet => self.ethernet(),
                Next::EtherType(ether_type) => self.ether_type(ether_type),
                Next::Llc => self.llc(),
                Next::Mpls => self.mpls(),
                Next::Ppp => self.ppp(),
                Next::Pppoe => self.pppoe(),
                Next::Cooked => self.cooked(false),
                Next::CookedV2 => self.cooked(true),
                Next::Loopback => self.loopback(),
                Next::Nflog => self.nflog(),
                Next::Radiotap => self.radiotap(),
                Next::Prism => self.prism(false),
                Next::Avs => self.prism(true),
                Next::Ppi => self.ppi(),
                Next::Wlan => self.wlan(false),
                Next::WlanPadded => self.wlan(true),
                Next::RawIp => self.raw_ip(),
                Next::Ipv4 => self.ipv4(),
                Next::Ipv6 => self.ipv6(),
                Next::Gre => self.gre(),
                Next::Erspan => self.erspan(),
                Next::Vxlan => self.vxlan(),
                Next::Geneve => self.geneve(),
                Next::Gtpu => self.gtpu(),
            };
        }
        if next != Next::Stop {
            self.fault(Malformed::HeadersTooDeep);
        }
    }

    /// Bytes of the enclosing layer from the position on, as far as they were captured.
    fn captured(&self) -> &'a [u8] {
        let end = self.end.min(self.frame.len());
        self.frame.get(self.position..end).unwrap_or_default()
    }

    /// Bytes of the enclosing layer from the position on, captured or not.
    fn remaining(&self) -> usize {
        self.end.saturating_sub(self.position)
    }

    /// Passes `len` bytes; `end` stays where it is.
    fn pass(&mut self, len: usize) {
        self.position = self.position.saturating_add(len);
    }

    /// Ends the enclosing layer `len` bytes from here, unless it ends before.
    fn narrow(&mut self, len: usize) {
        self.end = self.end.min(self.position.saturating_add(len));
    }

    /// Notes a fault; the first one stays.
    fn fault(&mut self, cause: Malformed) -> Next {
        self.layers.fault.get_or_insert(cause);
        Next::Stop
    }

    /// A header could not be read that needs `len` bytes: malformed if the
    /// enclosing layer has fewer, cut if only the capture has.
    fn missing(&mut self, len: usize, cause: Malformed) -> Next {
        if len > self.remaining() && !self.is_open {
            return self.fault(cause);
        }
        self.layers.flags |= Layers::CUT;
        Next::Stop
    }

    /// As [`missing`](Self::missing), for a header that gives its length only
    /// while it is read and needs `len_min` bytes at least.
    fn missing_some(&mut self, len_min: usize, cause: Malformed) -> Next {
        let is_whole = self.captured().len() == self.remaining();
        self.missing(if is_whole { usize::MAX } else { len_min }, cause)
    }

    /// Notes what announces the next header.
    fn announce(&mut self, ether_type: u16) {
        self.ether_type = ether_type;
        if self.layers.network == Network::None {
            self.layers.ether_type = ether_type;
        }
    }

    /// The network header at the position holds: from here on `layers`
    /// describe it and what it carries. `false` if it lies too deep.
    fn enter_network(&mut self, network: Network, ether_type: u16) -> bool {
        let Ok(offset) = u16::try_from(self.position) else {
            self.fault(Malformed::HeadersTooDeep);
            return false;
        };
        if self.layers.outer_network == Network::None {
            self.layers.outer_network = network;
            self.layers.outer_network_offset = offset;
        }
        self.layers.network = network;
        self.layers.network_offset = offset;
        self.layers.ether_type = ether_type;
        self.layers.tunnel = self.tunnel;
        self.layers.flags &= !Layers::TRANSPORT;
        true
    }

    /// What lies at the position is of `protocol` and not yet read.
    fn enter_transport(&mut self, protocol: Protocol) -> bool {
        self.layers.protocol = protocol;
        self.layers.payload_len = u32::try_from(self.remaining()).unwrap_or(u32::MAX);
        let offset = u16::try_from(self.position);
        self.layers.transport_offset = offset.unwrap_or(u16::MAX);
        self.layers.payload_offset = self.layers.transport_offset;
        if offset.is_err() {
            self.fault(Malformed::HeadersTooDeep);
        }
        offset.is_ok()
    }
}
