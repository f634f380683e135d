//! Headers below the network layer: views, texts and values.
//!
//! Input: bytes that every parser of the family takes for its own header.
#![no_main]

use fuzz::promises::{assert_one_line, assert_survives};
use libfuzzer_sys::fuzz_target;
use packet::Malformed;
use packet::wire::cooked::{Cooked, CookedRepr};
use packet::wire::ethernet::{Ethernet, EthernetRepr};
use packet::wire::llc::{Llc, LlcRepr};
use packet::wire::loopback::{Loopback, LoopbackRepr};
use packet::wire::macsec::{Macsec, MacsecRepr};
use packet::wire::mpls::{self, Mpls, MplsRepr};
use packet::wire::nflog::{Nflog, NflogRepr};
use packet::wire::ppi::{Ppi, PpiRepr};
use packet::wire::ppp::{self, Ppp, PppContent, PppRepr};
use packet::wire::pppoe::{Pppoe, PppoeRepr};
use packet::wire::prism::{Prism, PrismRepr};
use packet::wire::radiotap::{Radiotap, RadiotapRepr};
use packet::wire::vlan::{self, Vlan, VlanRepr};
use packet::wire::wlan::{Wlan, WlanRepr};

fuzz_target!(|bytes: &[u8]| {
    ethernet(bytes);
    vlan(bytes);
    llc(bytes);
    mpls(bytes);
    ppp(bytes);
    pppoe(bytes);
    cooked(bytes, |bytes| Cooked::new(bytes));
    cooked(bytes, |bytes| Cooked::new_v2(bytes));
    loopback(bytes);
    nflog(bytes);
    macsec(bytes);
    wlan(bytes);
    radiotap(bytes);
    prism(bytes, |bytes| Prism::new(bytes));
    prism(bytes, |bytes| Prism::new_avs(bytes));
    ppi(bytes);
});

fn ethernet(bytes: &[u8]) {
    let Ok(view) = Ethernet::new(bytes) else { return };
    assert_one_line(&view);
    assert_one_line(&view.source());
    assert_one_line(&view.destination());
    let parse = |bytes: &[u8]| EthernetRepr::parse(&Ethernet::new(bytes).ok()?).ok();
    let emitted =
        assert_survives(parse(bytes), EthernetRepr::header_len, EthernetRepr::emit, parse);
    assert_eq!(emitted.as_deref(), bytes.get(..14));
}

fn vlan(bytes: &[u8]) {
    let Ok(view) = Vlan::new(bytes) else { return };
    assert_one_line(&view);
    assert!(view.identifier() <= vlan::IDENTIFIER_MAX && view.priority() < 8);
    let parse = |bytes: &[u8]| VlanRepr::parse(&Vlan::new(bytes).ok()?).ok();
    let emitted = assert_survives(parse(bytes), VlanRepr::header_len, VlanRepr::emit, parse);
    assert_eq!(emitted.as_deref(), bytes.get(..4));
}

fn llc(bytes: &[u8]) {
    let Ok(view) = Llc::new(bytes) else { return };
    assert_one_line(&view);
    assert!(view.header_len() <= bytes.len());
    assert!(view.ether_type().is_none() || view.snap().is_some());
    let parse = |bytes: &[u8]| LlcRepr::parse(&Llc::new(bytes).ok()?).ok();
    let emitted = assert_survives(parse(bytes), LlcRepr::header_len, LlcRepr::emit, parse);
    assert_eq!(emitted.as_deref(), bytes.get(..view.header_len()));
}

fn mpls(bytes: &[u8]) {
    let Ok(view) = Mpls::new(bytes) else { return };
    assert_one_line(&view);
    assert!(view.label() <= mpls::LABEL_MAX && view.traffic_class() < 8);
    let parse = |bytes: &[u8]| MplsRepr::parse(&Mpls::new(bytes).ok()?).ok();
    let emitted = assert_survives(parse(bytes), MplsRepr::header_len, MplsRepr::emit, parse);
    assert_eq!(emitted.as_deref(), bytes.get(..4));
}

fn ppp(bytes: &[u8]) {
    let Ok(view) = Ppp::new(bytes) else { return };
    assert_one_line(&view);
    assert!((1..=ppp::HEADER_LEN_MAX.min(bytes.len())).contains(&view.header_len()));
    let parse = |bytes: &[u8]| PppRepr::parse(&Ppp::new(bytes).ok()?).ok();
    let emitted = assert_survives(parse(bytes), PppRepr::header_len, PppRepr::emit, parse);
    assert_eq!(emitted.is_some(), matches!(view.content(), PppContent::Protocol(_)));
}

fn pppoe(bytes: &[u8]) {
    let Ok(view) = Pppoe::new(bytes) else { return };
    assert_one_line(&view);
    let parse = |bytes: &[u8]| PppoeRepr::parse(&Pppoe::new(bytes).ok()?).ok();
    let emitted = assert_survives(parse(bytes), PppoeRepr::header_len, PppoeRepr::emit, parse);
    assert_eq!(emitted.as_deref(), bytes.get(..6));
}

fn cooked(bytes: &[u8], new: fn(&[u8]) -> Result<Cooked<'_>, Malformed>) {
    let Ok(view) = new(bytes) else { return };
    assert_one_line(&view);
    assert!(view.header_len() <= bytes.len() && view.address().len() <= 8);
    let parse = |bytes: &[u8]| CookedRepr::parse(&new(bytes).ok()?).ok();
    assert_survives(parse(bytes), CookedRepr::header_len, CookedRepr::emit, parse);
}

fn loopback(bytes: &[u8]) {
    let Ok(view) = Loopback::new(bytes) else { return };
    assert_one_line(&view);
    assert!(!(view.is_ipv4() && view.is_ipv6()));
    let parse = |bytes: &[u8]| LoopbackRepr::parse(&Loopback::new(bytes).ok()?).ok();
    assert_survives(parse(bytes), LoopbackRepr::header_len, LoopbackRepr::emit, parse);
}

fn nflog(bytes: &[u8]) {
    let Ok(view) = Nflog::new(bytes) else { return };
    assert_one_line(&view);
    if let Ok(Some(range)) = view.packet() {
        assert!(range.start <= bytes.len() && range.start <= range.end);
    }
    let parse = |bytes: &[u8]| NflogRepr::parse(&Nflog::new(bytes).ok()?).ok();
    assert_survives(parse(bytes), NflogRepr::header_len, NflogRepr::emit, parse);
    let _ = view.ether_type();
}

fn macsec(bytes: &[u8]) {
    let Ok(view) = Macsec::new(bytes) else { return };
    assert_one_line(&view);
    assert!(view.header_len() <= bytes.len() && view.short_length() < 64);
    let parse = |bytes: &[u8]| Some(MacsecRepr::parse(&Macsec::new(bytes).ok()?));
    assert_survives(parse(bytes), MacsecRepr::header_len, MacsecRepr::emit, parse);
}

fn wlan(bytes: &[u8]) {
    let Ok(view) = Wlan::new(bytes) else { return };
    assert_one_line(&view);
    assert_eq!(view.header_len() + view.payload().len(), bytes.len());
    assert_eq!(Wlan::len_needed(bytes), view.header_len());
    assert!(view.is_data() || !view.is_aggregate() && !view.may_have_mesh_control());
    let parse = |bytes: &[u8]| WlanRepr::parse(&Wlan::new(bytes).ok()?);
    assert_survives(parse(bytes), WlanRepr::header_len, WlanRepr::emit, parse);
}

fn radiotap(bytes: &[u8]) {
    let Ok(view) = Radiotap::new(bytes) else { return };
    assert_one_line(&view);
    assert_eq!(view.header_len() + view.payload().len(), bytes.len());
    let parse = |bytes: &[u8]| Some(RadiotapRepr::parse(&Radiotap::new(bytes).ok()?));
    assert_survives(parse(bytes), RadiotapRepr::header_len, RadiotapRepr::emit, parse);
}

fn prism(bytes: &[u8], new: fn(&[u8]) -> Result<Prism<'_>, Malformed>) {
    let Ok(view) = new(bytes) else { return };
    assert_one_line(&view);
    assert_eq!(view.header_len() + view.payload().len(), bytes.len());
    let parse = |bytes: &[u8]| Some(PrismRepr::parse(&Prism::new(bytes).ok()?));
    assert_survives(parse(bytes), PrismRepr::header_len, PrismRepr::emit, parse);
}

fn ppi(bytes: &[u8]) {
    let Ok(view) = Ppi::new(bytes) else { return };
    assert_one_line(&view);
    assert_eq!(view.header_len() + view.payload().len(), bytes.len());
    let parse = |bytes: &[u8]| Some(PpiRepr::parse(&Ppi::new(bytes).ok()?));
    assert_survives(parse(bytes), PpiRepr::header_len, PpiRepr::emit, parse);
}
