//! Headers of the network layer: views, options, texts and values.
//!
//! Input: bytes that every parser of the family takes for its own header.
#![no_main]

use fuzz::promises::{assert_one_line, assert_survives};
use libfuzzer_sys::fuzz_target;
use packet::Protocol;
use packet::wire::arp::{Arp, ArpRepr};
use packet::wire::checksum::checksum;
use packet::wire::ipv4::{Ipv4, Ipv4Repr};
use packet::wire::ipv4_options::Ipv4Options;
use packet::wire::ipv6::{self, Ipv6, Ipv6Repr};
use packet::wire::ipv6_extension::{Ipv6Extension, Ipv6ExtensionRepr, Ipv6Fragment};

fuzz_target!(|bytes: &[u8]| {
    arp(bytes);
    ipv4(bytes);
    ipv4_options(bytes);
    ipv6(bytes);
    (0..=u8::MAX).map(Protocol).for_each(|protocol| ipv6_extension(protocol, bytes));
    ipv6_fragment(bytes);
});

fn arp(bytes: &[u8]) {
    let Ok(view) = Arp::new(bytes) else { return };
    assert_one_line(&view);
    assert!(view.packet_len() <= bytes.len());
    assert_eq!(view.sender_hardware().len(), view.target_hardware().len());
    assert_eq!(view.sender_protocol().len(), view.target_protocol().len());
    let addresses = [
        view.sender_hardware(),
        view.sender_protocol(),
        view.target_hardware(),
        view.target_protocol(),
    ];
    assert_eq!(addresses.concat(), bytes[8..view.packet_len()]);
    let parse = |bytes: &[u8]| ArpRepr::parse(&Arp::new(bytes).ok()?).ok();
    assert_survives(parse(bytes), ArpRepr::header_len, ArpRepr::emit, parse);
}

fn ipv4(bytes: &[u8]) {
    let Ok(view) = Ipv4::new(bytes) else { return };
    assert_one_line(&view);
    assert!((20..=60).contains(&view.header_len()));
    assert!(view.option_bytes().len() <= view.header_len() - 20);
    assert_eq!(view.dscp() << 2 | view.ecn(), bytes[1]);
    let is_sound = view.header_len() <= bytes.len() && view.check_options().is_ok();
    let parse = |bytes: &[u8]| Ipv4Repr::parse(&Ipv4::new(bytes).ok()?).ok();
    let emitted = assert_survives(parse(bytes), Ipv4Repr::header_len, Ipv4Repr::emit, parse);
    assert_eq!(emitted.is_some(), is_sound);
    if let Some(emitted) = emitted {
        assert_eq!(checksum(&emitted), 0);
        assert_eq!(emitted.len(), view.header_len());
    }
}

fn ipv4_options(bytes: &[u8]) {
    let mut taken = 0;
    let mut is_over = false;
    for option in Ipv4Options::new(bytes) {
        assert!(!is_over, "options go on after a wrong one");
        match option {
            Ok(option) => taken += 2 + option.content.len(),
            Err(_) => is_over = true,
        }
    }
    assert!(taken <= bytes.len());
}

fn ipv6(bytes: &[u8]) {
    let Ok(view) = Ipv6::new(bytes) else { return };
    assert_one_line(&view);
    assert!(view.flow_label() <= ipv6::FLOW_LABEL_MAX);
    assert_eq!(view.dscp() << 2 | view.ecn(), view.traffic_class());
    let parse = |bytes: &[u8]| Ipv6Repr::parse(&Ipv6::new(bytes).ok()?).ok();
    let emitted = assert_survives(parse(bytes), Ipv6Repr::header_len, Ipv6Repr::emit, parse);
    assert_eq!(emitted.as_deref(), bytes.get(..40));
}

fn ipv6_extension(protocol: Protocol, bytes: &[u8]) {
    let Ok(view) = Ipv6Extension::new(protocol, bytes) else { return };
    assert!((8..=2048).contains(&view.header_len()));
    if !Ipv6Extension::is_extension(protocol) {
        return;
    }
    assert_one_line(&view);
    let parse =
        |bytes: &[u8]| Ipv6ExtensionRepr::parse(&Ipv6Extension::new(protocol, bytes).ok()?).ok();
    let (header_len, emit) = (Ipv6ExtensionRepr::header_len, Ipv6ExtensionRepr::emit);
    let emitted = assert_survives(parse(bytes), header_len, emit, parse);
    if protocol != Protocol::IPV6_FRAGMENT && protocol != Protocol::AH {
        assert_eq!(emitted.as_deref(), bytes.get(..view.header_len()));
    }
}

fn ipv6_fragment(bytes: &[u8]) {
    let Ok(view) = Ipv6Fragment::new(bytes) else { return };
    assert_one_line(&view);
    assert_eq!(view.fragment_offset() % 8, 0);
    assert_eq!(view.is_fragment(), view.more_fragments() || view.fragment_offset() > 0);
    let same = Ipv6Extension::new(Protocol::IPV6_FRAGMENT, bytes).expect("more than two bytes");
    assert_eq!(same.next_header(), view.next_header());
}
