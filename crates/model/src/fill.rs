//! Frames into compact records.
//!
//! Which bytes are a packet's header bytes is decided here, by these rules:
//!
//! - Headers are those that the record of the frame gives: behind VLAN tags, and innermost or
//!   outermost as it was dissected.
//! - IPv4 is as long as it says, IPv6 is its 40 fixed bytes; transport headers lie behind IPv4
//!   options and IPv6 extension headers.
//! - TCP is 20 bytes, or as long as it says where that is more. It ends where the packet ends:
//!   padding of the link is no header.
//! - Bytes that the capture cut off are absent, those before them are not.
//! - A later fragment has no transport header and no payload.
//! - The payload is what follows a transport header that was read, within the packet.
//! - ICMP is protocol 1; `ICMPv6` is another protocol.
//! - Under [`Identity::Masked`] fewer of them, as [`identity`](crate::identity) lists them.

use packet::{Frame, Layers, Network, Protocol, flow_key};

use crate::block::Block;
use crate::identity::{Identity, View, headers, payload as listed};
use crate::layout::{Layout, PLAIN_RECORD_LEN};

/// The header bytes of one frame, as far as they were captured; empty where there are none.
#[derive(Clone, Copy, Default)]
struct Found<'a> {
    ipv4: &'a [u8],
    transport: &'a [u8],
    protocol: Protocol,
}

const IPV4_LEN_MAX: usize = Block::Ipv4.size_bytes() as usize;
const IPV6_LEN: usize = Block::Ipv6.size_bytes() as usize;
const TCP_LEN_MIN: usize = 20;
const UDP_LEN: usize = Block::Udp.size_bytes() as usize;
const ICMP_LEN: usize = Block::Icmp.size_bytes() as usize;

/// At most the first `len` bytes.
#[inline(always)]
fn first(bytes: &[u8], len: usize) -> &[u8] {
    bytes.get(..len).unwrap_or(bytes)
}

impl<'a> Found<'a> {
    #[inline(always)]
    fn of(frame: &Frame<'a>) -> Self {
        let layers = &frame.record.layers;
        let ipv4 = if layers.network == Network::Ipv4 { ipv4(frame) } else { &[] };
        let (transport, protocol) = transport(frame).unwrap_or_default();
        Self { ipv4, transport, protocol }
    }
}

#[inline(always)]
fn ipv4<'a>(frame: &Frame<'a>) -> &'a [u8] {
    let bytes = frame.from_offset(frame.record.layers.network_offset);
    let header_len = bytes.first().map_or(0, |byte| usize::from(byte & 15) * 4);
    first(bytes, header_len)
}

/// The transport header and its protocol, where the packet has one that has a block.
#[inline(always)]
fn transport<'a>(frame: &Frame<'a>) -> Option<(&'a [u8], Protocol)> {
    let layers = &frame.record.layers;
    if !layers.is_ip() || layers.has(Layers::LATER_FRAGMENT) {
        return None;
    }
    let protocol = layers.protocol;
    if !matches!(protocol, Protocol::TCP | Protocol::UDP | Protocol::ICMP) {
        return None;
    }
    // With the transport header read or not, the payload ends where the packet does.
    let end = usize::from(layers.payload_offset).saturating_add(layers.payload_len as usize);
    let bytes = first(frame.bytes, end).get(usize::from(layers.transport_offset)..)?;
    let header_len = match protocol {
        Protocol::TCP => {
            let words = bytes.get(12).map_or(0, |byte| usize::from(byte >> 4));
            TCP_LEN_MIN.max(words * 4)
        }
        Protocol::UDP => UDP_LEN,
        _ => ICMP_LEN,
    };
    Some((first(bytes, header_len), protocol))
}

fn payload<'a>(frame: &Frame<'a>) -> &'a [u8] {
    let layers = &frame.record.layers;
    if !layers.is_ip() || !layers.has(Layers::TRANSPORT) || layers.has(Layers::LATER_FRAGMENT) {
        return &[];
    }
    first(frame.from_offset(layers.payload_offset), layers.payload_len as usize)
}

/// Copies a header; those of usual length without a call.
#[inline(always)]
fn copy<const LEN: usize>(to: &mut [u8; LEN], from: &[u8]) {
    if let Ok(bytes) = <&[u8; 20]>::try_from(from)
        && let Some(place) = to.first_chunk_mut()
    {
        *place = *bytes;
    } else if let Ok(bytes) = <&[u8; 32]>::try_from(from)
        && let Some(place) = to.first_chunk_mut()
    {
        *place = *bytes;
    } else if let Some(place) = to.get_mut(..from.len()) {
        place.copy_from_slice(from);
    }
}

/// A one for each of `len` bytes from `offset` on, from the highest bit down.
#[inline(always)]
const fn ones(offset: usize, len: usize) -> u128 {
    if len == 0 { 0 } else { (u128::MAX << (128 - len)) >> offset }
}

impl Layout {
    /// Writes the header bits of `frame` over `record`, of [`record_len`](Self::record_len)
    /// bytes. False where the frame holds no IP header, or the record has another length: then
    /// the record says of every byte that it is absent.
    ///
    /// Never reads outside the frame, whatever its layers say.
    #[inline]
    pub fn fill(self, frame: &Frame<'_>, record: &mut [u8]) -> bool {
        if self.is_plain()
            && let Ok(record) = <&mut [u8; PLAIN_RECORD_LEN]>::try_from(&mut *record)
        {
            return fill_plain(frame, record);
        }
        self.fill_any(frame, record)
    }

    fn fill_any(self, frame: &Frame<'_>, record: &mut [u8]) -> bool {
        record.fill(0);
        let layers = &frame.record.layers;
        if record.len() != self.record_len() || !layers.is_ip() {
            return false;
        }
        if self.identity() == Identity::Masked {
            self.fill_masked(frame, record);
            return true;
        }
        let found = Found::of(frame);
        self.put(record, Block::Ipv4, found.ipv4);
        if layers.network == Network::Ipv6 {
            self.put(
                record,
                Block::Ipv6,
                first(frame.from_offset(layers.network_offset), IPV6_LEN),
            );
        }
        match found.protocol {
            Protocol::TCP => self.put(record, Block::Tcp, found.transport),
            Protocol::UDP => self.put(record, Block::Udp, found.transport),
            Protocol::ICMP => self.put(record, Block::Icmp, found.transport),
            _ => {}
        }
        self.put(record, Block::Payload, payload(frame));
        true
    }

    /// The same where only fields that tell no unit and no network are features.
    fn fill_masked(self, frame: &Frame<'_>, record: &mut [u8]) {
        let layers = &frame.record.layers;
        let found = Found::of(frame);
        self.view(record, Block::Ipv4, |view| headers::ipv4(view, found.ipv4));
        if layers.network == Network::Ipv6 {
            let bytes = first(frame.from_offset(layers.network_offset), IPV6_LEN);
            self.view(record, Block::Ipv6, |view| headers::ipv6(view, bytes));
        }
        match found.protocol {
            Protocol::TCP => {
                self.view(record, Block::Tcp, |view| headers::tcp(view, found.transport));
            }
            Protocol::UDP => {
                self.view(record, Block::Udp, |view| headers::udp(view, found.transport));
            }
            Protocol::ICMP => {
                self.view(record, Block::Icmp, |view| headers::icmp(view, found.transport));
            }
            _ => {}
        }
        if layers.has(Layers::TRANSPORT) && !layers.has(Layers::LATER_FRAGMENT) {
            let (header, bytes) = (frame.from_offset(layers.transport_offset), payload(frame));
            let ports = flow_key::ports(frame);
            self.view(record, Block::Payload, |view| {
                listed::put(view, layers.protocol, ports, header, bytes);
            });
        }
    }

    /// Lets a block be written, if it is there.
    fn view(self, record: &mut [u8], block: Block, write: impl FnOnce(&mut View<'_>)) {
        if self.has(block)
            && let Some((data, presence)) = record.split_at_mut_checked(self.data_len())
        {
            let len = usize::from(self.len(block));
            write(&mut View::new(data, presence, self.offset(block), len));
        }
    }

    /// Copies what there is of a block, and says of each byte that it is there.
    fn put(self, record: &mut [u8], block: Block, bytes: &[u8]) {
        let bytes = first(bytes, usize::from(self.len(block)));
        let (start, data_len) = (self.offset(block), self.data_len());
        let Some((data, presence)) = record.split_at_mut_checked(data_len) else { return };
        if let Some(place) = data.get_mut(start..start + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        for index in start..start + bytes.len() {
            if let Some(byte) = presence.get_mut(index / 8) {
                *byte |= 0x80 >> (index % 8);
            }
        }
    }
}

/// IPv4, TCP and UDP: offsets are constants, and presence is one number.
#[inline(always)]
fn fill_plain(frame: &Frame<'_>, record: &mut [u8; PLAIN_RECORD_LEN]) -> bool {
    const TCP: usize = IPV4_LEN_MAX;
    const UDP: usize = TCP + Block::Tcp.size_bytes() as usize;
    const PRESENCE: usize = UDP + UDP_LEN;
    *record = [0; PLAIN_RECORD_LEN];
    if !frame.record.layers.is_ip() {
        return false;
    }
    let Found { ipv4, transport, protocol } = Found::of(frame);
    let (data, presence) = record.split_at_mut(PRESENCE);
    let (ip_place, rest) = data.split_at_mut(TCP);
    let (tcp_place, udp_place) = rest.split_at_mut(UDP - TCP);
    let mut present = ones(0, ipv4.len());
    if let Ok(place) = <&mut [u8; IPV4_LEN_MAX]>::try_from(ip_place) {
        copy(place, ipv4);
    }
    match protocol {
        Protocol::TCP => {
            present |= ones(TCP, transport.len());
            if let Ok(place) = <&mut [u8; UDP - TCP]>::try_from(tcp_place) {
                copy(place, transport);
            }
        }
        Protocol::UDP => {
            present |= ones(UDP, transport.len());
            if let Some(place) = udp_place.get_mut(..transport.len()) {
                place.copy_from_slice(transport);
            }
        }
        _ => {}
    }
    presence.copy_from_slice(&present.to_be_bytes());
    true
}

#[cfg(test)]
#[path = "fill_tests.rs"]
mod tests;
