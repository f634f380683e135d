//! Frames of planned flows: headers by the values of `packet`, so lengths and
//! checksums are right, and sequence numbers that go on.

use std::net::{Ipv4Addr, Ipv6Addr};

use packet::Protocol;
use packet::wire::checksum::PseudoHeader;
use packet::wire::ethernet::{self, EthernetRepr, MacAddress, ether_type};
use packet::wire::ipv4::Ipv4Repr;
use packet::wire::ipv6::Ipv6Repr;
use packet::wire::tcp::{SeqNumber, TcpFlags, TcpRepr};
use packet::wire::tcp_options::TcpOptions;
use packet::wire::udp::UdpRepr;
use packet::wire::vlan::VlanRepr;
use packet::wire::{ipv4, ipv6, tcp, udp, vlan};

use super::plan::{Event, Flow};
use super::random::Random;

/// Bytes of random payload that all frames take theirs from.
const NOISE_LEN: usize = 1 << 20;
const NEAR: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const FAR: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);

/// What a TCP flow has sent so far.
#[derive(Clone, Copy, Default)]
struct Progress {
    is_begun: bool,
    /// Next sequence numbers: of the side that began, of the other.
    next: [u32; 2],
}

/// Makes frames, in order of time.
pub(super) struct FrameMaker {
    flows: Vec<Flow>,
    progress: Vec<Progress>,
    noise: Vec<u8>,
    identification: u16,
}

impl FrameMaker {
    pub(super) fn new(seed: u64, flows: Vec<Flow>) -> Self {
        let mut random = Random::new(!seed);
        let noise = (0..NOISE_LEN / 8).flat_map(|_| random.next().to_le_bytes()).collect();
        let mut starting =
            || Progress { is_begun: false, next: [0; 2].map(|_| low_word(&mut random)) };
        let progress = flows.iter().map(|_| starting()).collect();
        Self { flows, progress, noise, identification: 0 }
    }

    pub(super) fn flow_count(&self) -> usize {
        self.flows.len()
    }

    /// Appends the frame of an event of the flow of this index; its length.
    pub(super) fn make(&mut self, event: &Event, index: u32, out: &mut Vec<u8>) -> u32 {
        let start = out.len();
        let Some(&flow) = self.flows.get(index as usize) else { return 0 };
        self.identification = self.identification.wrapping_add(1);
        let headers_len = headers_len(&flow);
        let payload_len = usize::from(event.len).saturating_sub(headers_len);
        let ip_len = u16::try_from(headers_len - link_len(&flow) + payload_len).unwrap_or(u16::MAX);
        emit_link(&flow, event.is_reverse, out);
        let pseudo = self.emit_network(&flow, event.is_reverse, ip_len, out);
        self.emit_transport(&flow, event, index, (&pseudo, payload_len), out);
        u32::try_from(out.len() - start).unwrap_or(u32::MAX)
    }

    fn emit_network(
        &self,
        flow: &Flow,
        is_reverse: bool,
        ip_len: u16,
        out: &mut Vec<u8>,
    ) -> PseudoHeader {
        let protocol = if flow.is_tcp { Protocol::TCP } else { Protocol::UDP };
        let (source, destination) = ordered(is_reverse, flow.source, flow.destination);
        if flow.is_ipv6 {
            let (source, destination) = (ipv6_address(source), ipv6_address(destination));
            Ipv6Repr {
                traffic_class: 0,
                flow_label: flow.source & ipv6::FLOW_LABEL_MAX,
                payload_length: ip_len - ipv6::HEADER_LEN as u16,
                next_header: protocol,
                hop_limit: 57,
                source,
                destination,
            }
            .emit(out);
            return PseudoHeader::Ipv6(source, destination);
        }
        let (source, destination) = (Ipv4Addr::from(source), Ipv4Addr::from(destination));
        Ipv4Repr {
            type_of_service: 0,
            total_length: ip_len,
            identification: self.identification,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            time_to_live: 57,
            protocol,
            source,
            destination,
            options: Vec::new(),
        }
        .emit(out);
        PseudoHeader::Ipv4(source, destination)
    }

    fn emit_transport(
        &mut self,
        flow: &Flow,
        event: &Event,
        index: u32,
        (pseudo, payload_len): (&PseudoHeader, usize),
        out: &mut Vec<u8>,
    ) {
        let noise_at = usize::from(self.identification) * 15 % (NOISE_LEN - 2_048);
        let payload = self.noise.get(noise_at..noise_at + payload_len).unwrap_or_default();
        let (source_port, destination_port) =
            ordered(event.is_reverse, flow.source_port, flow.destination_port);
        if !flow.is_tcp {
            UdpRepr { source_port, destination_port, payload_len: 0 }
                .emit_datagram(pseudo, payload, out);
            return;
        }
        let Some(progress) = self.progress.get_mut(index as usize) else { return };
        let [mut here, there] = progress.next;
        if event.is_reverse {
            here = there;
        }
        let sent = u32::try_from(payload.len()).unwrap_or_default();
        let (flags, acknowledged, taken) = if progress.is_begun {
            (TcpFlags::ACK, progress.next[usize::from(!event.is_reverse)], sent)
        } else {
            (TcpFlags::SYN, 0, sent + 1)
        };
        progress.is_begun = true;
        progress.next[usize::from(event.is_reverse)] = here.wrapping_add(taken);
        TcpRepr {
            source_port,
            destination_port,
            sequence_number: SeqNumber(here),
            acknowledgment_number: SeqNumber(acknowledged),
            flags,
            window: 0xffff,
            urgent_pointer: 0,
            options: TcpOptions::default(),
        }
        .emit_segment(pseudo, payload, out);
    }
}

fn emit_link(flow: &Flow, is_reverse: bool, out: &mut Vec<u8>) {
    let (source, destination) = ordered(is_reverse, NEAR, FAR);
    let network = if flow.is_ipv6 { ether_type::IPV6 } else { ether_type::IPV4 };
    let type_or_length = if flow.vlan.is_some() { ether_type::VLAN } else { network };
    EthernetRepr { destination, source, type_or_length }.emit(out);
    if let Some(identifier) = flow.vlan {
        VlanRepr { identifier, priority: 0, drop_eligible: false, type_or_length: network }
            .emit(out);
    }
}

fn link_len(flow: &Flow) -> usize {
    ethernet::HEADER_LEN + if flow.vlan.is_some() { vlan::HEADER_LEN } else { 0 }
}

fn headers_len(flow: &Flow) -> usize {
    let network = if flow.is_ipv6 { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN };
    let transport = if flow.is_tcp { tcp::HEADER_LEN } else { udp::HEADER_LEN };
    link_len(flow) + network + transport
}

/// Source and destination of a direction.
fn ordered<T>(is_reverse: bool, near: T, far: T) -> (T, T) {
    if is_reverse { (far, near) } else { (near, far) }
}

/// Within 2001:db8::/32, which is for examples (RFC 3849).
fn ipv6_address(side: u32) -> Ipv6Addr {
    let [high, low] = [side >> 16, side & 0xffff].map(|word| u16::try_from(word).unwrap_or(0));
    Ipv6Addr::new(0x2001, 0xdb8, high, low, 0, 0, high, low)
}

#[allow(clippy::cast_possible_truncation)]
fn low_word(random: &mut Random) -> u32 {
    random.next() as u32
}

#[cfg(test)]
mod tests {
    use packet::dissect::{DissectOptions, dissect};
    use packet::wire::ipv4::Ipv4;
    use packet::{Layers, LinkType, Network};

    use super::super::mix::Captures;
    use super::super::plan::{Origin, Plan};
    use super::*;

    /// Two runs of the maker over one plan.
    fn frames() -> Vec<Vec<u8>> {
        let plan = Plan::new(7, 20_000, &Captures::default());
        let mut maker = FrameMaker::new(7, plan.flows);
        let make = |event: &Event| {
            let mut frame = Vec::new();
            if let Origin::Flow(index) = event.origin {
                assert_eq!(maker.make(event, index, &mut frame) as usize, frame.len());
            }
            frame
        };
        plan.events.iter().map(make).collect()
    }

    #[test]
    fn frames_are_whole_and_their_checksums_right() {
        let mut ipv6_count = 0;
        for frame in frames() {
            let wire_len = frame.len() as u32;
            let layers = dissect(LinkType::ETHERNET, &frame, wire_len, DissectOptions::default());
            assert_eq!(layers.fault, None);
            assert!(layers.has(Layers::TRANSPORT) && (60..=1_514).contains(&wire_len));
            let network = &frame[usize::from(layers.network_offset)..];
            let segment = &frame[usize::from(layers.transport_offset)..];
            let pseudo = if layers.network == Network::Ipv4 {
                assert_eq!(packet::wire::checksum::checksum(&network[..20]), 0);
                let header = Ipv4::new(network).unwrap();
                PseudoHeader::Ipv4(header.source(), header.destination())
            } else {
                ipv6_count += 1;
                let header = packet::wire::ipv6::Ipv6::new(network).unwrap();
                PseudoHeader::Ipv6(header.source(), header.destination())
            };
            assert_eq!(pseudo.checksum(layers.protocol, segment), 0);
        }
        assert!((400..2_500).contains(&ipv6_count), "{ipv6_count} of 20000 are IPv6");
    }

    #[test]
    fn a_seed_makes_the_same_bytes_again() {
        assert_eq!(frames(), frames());
    }
}
