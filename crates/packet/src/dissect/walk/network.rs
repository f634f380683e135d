//! Steps of the network layer.

use super::{Next, Walk};
use crate::dissect::HEADERS_MAX;
use crate::layers::{Layers, Network, Protocol};
use crate::malformed::Malformed;
use crate::wire::arp::{self, Arp};
use crate::wire::ethernet::ether_type;
use crate::wire::ipv4::{self, Ipv4};
use crate::wire::ipv6::{self, Ipv6};
use crate::wire::ipv6_extension::{AH_HEADER_LEN_MIN, HEADER_LEN_MIN, Ipv6Extension, Ipv6Fragment};

impl Walk<'_> {
    pub(super) fn arp(&mut self) -> Next {
        let bytes = self.captured();
        match Arp::new(bytes) {
            Ok(view) => {
                if self.enter_network(Network::Arp, self.ether_type) {
                    self.pass(view.packet_len());
                    self.narrow(0);
                    self.enter_transport(Protocol::default());
                }
                Next::Stop
            }
            Err(cause) => {
                let addresses_len = bytes.first_chunk().map_or(0, Arp::addresses_len);
                self.missing(arp::HEADER_LEN + addresses_len, cause)
            }
        }
    }

    pub(super) fn ipv4(&mut self) -> Next {
        let view = match Ipv4::new(self.captured()) {
            Ok(view) => view,
            Err(cause @ Malformed::Ipv4HeaderShort) => {
                return self.missing(ipv4::HEADER_LEN, cause);
            }
            Err(cause) => return self.fault(cause),
        };
        let (remaining, header_len) = (self.remaining(), view.header_len());
        if header_len > remaining && !self.is_open {
            return self.fault(Malformed::Ipv4HeaderLengthLong);
        }
        let total_len = match usize::from(view.total_length()) {
            // The interface will cut this into segments and write their lengths.
            0 if remaining > header_len => remaining,
            0 => return self.fault(Malformed::Ipv4TotalLengthSmall),
            total_len => total_len,
        };
        if !self.enter_network(Network::Ipv4, ether_type::IPV4) {
            return Next::Stop;
        }
        self.bound(total_len, Malformed::Ipv4TotalLengthLong);
        let is_cut = self.captured().len() < header_len;
        self.pass(header_len);
        if !self.enter_transport(view.protocol()) {
            return Next::Stop;
        }
        if view.is_fragment() {
            self.fragment(view.fragment_offset(), view.more_fragments());
        }
        if is_cut {
            self.layers.flags |= Layers::CUT;
            return Next::Stop;
        }
        if let Err(cause) = view.check_options() {
            self.fault(cause);
        }
        if self.layers.has(Layers::LATER_FRAGMENT) {
            return Next::Stop;
        }
        self.upper(view.protocol())
    }

    pub(super) fn ipv6(&mut self) -> Next {
        let view = match Ipv6::new(self.captured()) {
            Ok(view) => view,
            Err(cause @ Malformed::Ipv6HeaderShort) => {
                return self.missing(ipv6::HEADER_LEN, cause);
            }
            Err(cause) => return self.fault(cause),
        };
        let total_len = match (view.payload_length(), view.next_header()) {
            (0, Protocol::IPV6_NO_NEXT) => ipv6::HEADER_LEN,
            // A jumbogram, or one that the interface will cut into segments.
            (0, _) => self.remaining(),
            (payload_len, _) => ipv6::HEADER_LEN + usize::from(payload_len),
        };
        if !self.enter_network(Network::Ipv6, ether_type::IPV6) {
            return Next::Stop;
        }
        self.bound(total_len, Malformed::Ipv6PayloadLengthLong);
        self.pass(ipv6::HEADER_LEN);
        self.upper(view.next_header())
    }

    /// Ends the enclosing layer where the IP header at the position says. An
    /// end past the enclosing one is a fault, reported once: what is missing
    /// inside is missing for the same reason.
    fn bound(&mut self, total_len: usize, cause: Malformed) {
        let fits = total_len <= self.remaining();
        if !fits && !self.is_open {
            self.fault(cause);
        }
        self.is_open = !fits;
        self.narrow(total_len);
    }

    fn fragment(&mut self, offset: u16, more_fragments: bool) {
        self.layers.flags |= Layers::FRAGMENT;
        if offset != 0 {
            self.layers.flags |= Layers::LATER_FRAGMENT;
        }
        self.is_open |= more_fragments;
    }

    /// Passes extension headers. IPv4 knows one of them, the authentication header.
    fn upper(&mut self, first: Protocol) -> Next {
        let mut protocol = first;
        for _ in 0..=HEADERS_MAX {
            if !self.enter_transport(protocol) {
                return Next::Stop;
            }
            let is_extension = match self.layers.network {
                Network::Ipv6 => Ipv6Extension::is_extension(protocol),
                _ => protocol == Protocol::AH,
            };
            if !is_extension {
                return self.transport(protocol);
            }
            match self.extension(protocol) {
                Ok(next) => protocol = next,
                Err(stop) => return stop,
            }
        }
        self.fault(Malformed::Ipv6ExtensionsTooMany)
    }

    fn extension(&mut self, protocol: Protocol) -> Result<Protocol, Next> {
        let bytes = self.captured();
        let view = Ipv6Extension::new(protocol, bytes)
            .map_err(|cause| self.missing(HEADER_LEN_MIN, cause))?;
        let (next, header_len) = (view.next_header(), view.header_len());
        if protocol == Protocol::AH && header_len < AH_HEADER_LEN_MIN {
            return Err(self.fault(Malformed::Ipv6ExtensionShort));
        }
        if bytes.len() < header_len {
            return Err(self.missing(header_len, Malformed::Ipv6ExtensionShort));
        }
        if next == Protocol::IPV6_NO_NEXT
            && matches!(protocol, Protocol::MOBILITY | Protocol::HIP | Protocol::SHIM6)
        {
            // The header itself is what the packet is about.
            return Err(Next::Stop);
        }
        self.pass(header_len);
        if protocol == Protocol::IPV6_FRAGMENT
            && let Ok(fragment) = Ipv6Fragment::new(bytes)
            && fragment.is_fragment()
        {
            self.fragment(fragment.fragment_offset(), fragment.more_fragments());
            if self.layers.has(Layers::LATER_FRAGMENT) {
                self.enter_transport(next);
                return Err(Next::Stop);
            }
        }
        Ok(next)
    }
}
