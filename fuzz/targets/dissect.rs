//! Finding headers: no frame panics, the fast path finds what the walk finds,
//! offsets lie where they must, and what was cut off is never called malformed.
//!
//! Input: link type, then options (2 bits) and what the capture tells of the
//! length on the wire (6 bits), then the frame.
#![no_main]

use fuzz::input::Input;
use libfuzzer_sys::fuzz_target;
use packet::dissect::{DissectOptions, dissect, dissect_into, dissect_slowly};
use packet::{Layers, LinkType, Malformed, Network, Tunnel};

const LINKS: [LinkType; 21] = [
    LinkType::ETHERNET,
    LinkType::RAW,
    LinkType::RAW_OLD_12,
    LinkType::RAW_OLD_14,
    LinkType::IPV4,
    LinkType::IPV6,
    LinkType::NULL,
    LinkType::LOOP,
    LinkType::LINUX_SLL,
    LinkType::LINUX_SLL2,
    LinkType::PPP,
    LinkType::PPP_HDLC,
    LinkType::C_HDLC,
    LinkType::PPP_ETHER,
    LinkType::IEEE802_11,
    LinkType(65_535),
    LinkType::IEEE802_11_RADIOTAP,
    LinkType::IEEE802_11_PRISM,
    LinkType::IEEE802_11_AVS,
    LinkType::PPI,
    LinkType::NFLOG,
];

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let link = LINKS[usize::from(input.u8()) % LINKS.len()];
    let choice = input.u8();
    let options = DissectOptions { decapsulate: choice & 1 == 0, transport: choice & 2 == 0 };
    let frame = input.rest();
    let len = frame.len() as u32;
    let wire_len = match choice >> 2 {
        0..32 => len,
        delta @ 32..48 => len + u32::from(delta - 31),
        // Damaged files tell less than was captured.
        delta @ 48..62 => len.saturating_sub(u32::from(delta - 47)),
        62 => u32::from(u16::MAX) + len,
        _ => u32::MAX,
    };
    let layers = dissect(link, frame, wire_len, options);
    assert_eq!(layers, dissect_slowly(link, frame, wire_len, options));
    let mut dirty = Layers { flags: u8::MAX, payload_len: 1, ..Layers::default() };
    dissect_into(link, frame, wire_len, options, &mut dirty);
    assert_eq!(layers, dirty);
    check_place(frame, wire_len, layers);
    check_options(layers, options);
    check_cut(link, frame, wire_len.max(len), options);
});

/// Where headers may lie.
fn check_place(frame: &[u8], wire_len: u32, layers: Layers) {
    let end = frame.len().max(wire_len as usize);
    let [outer, network, transport, payload] = [
        layers.outer_network_offset,
        layers.network_offset,
        layers.transport_offset,
        layers.payload_offset,
    ]
    .map(usize::from);
    assert_eq!(layers.network == Network::None, layers.outer_network == Network::None);
    assert!(outer <= network && transport <= payload, "{layers:?}");
    let header_len = match layers.network {
        Network::None => {
            assert_eq!((network, transport, layers.payload_len), (0, 0, 0), "{layers:?}");
            return;
        }
        Network::Arp => 8,
        Network::Ipv4 => 20,
        Network::Ipv6 => 40,
    };
    assert!(network + header_len <= frame.len(), "{layers:?}");
    assert!(network + header_len <= transport, "{layers:?}");
    if layers.fault != Some(Malformed::HeadersTooDeep) {
        // A header that was cut may reach past all that is known of the frame.
        let is_inside = payload + layers.payload_len as usize <= end;
        assert!(is_inside || layers.is_cut() && layers.payload_len == 0, "{layers:?}");
        assert!(transport <= frame.len() || layers.is_cut(), "{layers:?}");
    }
    if layers.has(Layers::TRANSPORT) {
        assert!(payload <= frame.len() && transport < payload && layers.is_ip(), "{layers:?}");
    }
}

/// What the flags may say.
fn check_options(layers: Layers, options: DissectOptions) {
    assert!(options.transport || !layers.has(Layers::TRANSPORT));
    assert!(options.decapsulate || layers.tunnel == Tunnel::None);
    assert!(!layers.has(Layers::LATER_FRAGMENT) || layers.has(Layers::FRAGMENT));
    assert!(layers.vlan().is_none_or(|identifier| identifier < 4096));
    if layers.tunnel == Tunnel::None {
        assert_eq!(layers.outer_network, layers.network);
        assert_eq!(layers.outer_network_offset, layers.network_offset);
    }
    if let Some(fault) = layers.fault {
        assert!(!fault.to_string().is_empty());
    }
}

/// A frame that was cut has no fault that the whole frame does not have.
fn check_cut(link: LinkType, frame: &[u8], wire_len: u32, options: DissectOptions) {
    let whole = dissect(link, frame, wire_len, options);
    // Below MPLS labels a guess by bytes further on tells what follows.
    if whole.has(Layers::MPLS) {
        return;
    }
    let len = frame.len();
    for cut_len in [len / 4, len / 2, len.saturating_sub(9), len.saturating_sub(1)] {
        let cut = dissect(link, &frame[..cut_len], wire_len, options);
        assert!(
            cut.fault.is_none() || cut.fault == whole.fault,
            "cut to {cut_len}: {cut:?}, whole: {whole:?}"
        );
    }
}
