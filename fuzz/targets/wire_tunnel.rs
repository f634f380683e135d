//! Headers of tunnels: views, extensions, texts, values and checksums.
//!
//! Input: bytes that every parser of the family takes for its own header.
#![no_main]

use fuzz::promises::{appended, assert_one_line, assert_survives};
use libfuzzer_sys::fuzz_target;
use packet::wire::checksum::checksum;
use packet::wire::erspan::{self, Erspan, ErspanRepr};
use packet::wire::geneve::{self, Geneve, GeneveRepr};
use packet::wire::gre::{Gre, GreRepr};
use packet::wire::gtpu::{Gtpu, GtpuExtensionRepr, GtpuRepr};
use packet::wire::vxlan::{self, Vxlan, VxlanRepr};

fuzz_target!(|bytes: &[u8]| {
    gre(bytes);
    gtpu(bytes);
    vxlan(bytes);
    geneve(bytes);
    erspan(bytes);
});

fn gre(bytes: &[u8]) {
    let Ok(view) = Gre::new(bytes) else { return };
    assert_one_line(&view);
    assert_eq!(view.header_len() + view.payload().len(), bytes.len());
    assert!(view.version() == 1 || view.call_id().is_none());
    assert!(view.version() == 1 || view.acknowledgment_number().is_none());
    let parse = |bytes: &[u8]| GreRepr::parse(&Gre::new(bytes).ok()?);
    assert_survives(parse(bytes), GreRepr::header_len, GreRepr::emit, parse);
    let Some(value) = parse(bytes) else { return };
    let packet = appended(|out| value.emit_packet(view.payload(), out));
    let read = Gre::new(&packet).expect("a header of our own");
    assert_eq!(read.payload(), view.payload());
    assert_eq!(read.checksum().is_some(), view.checksum().is_some());
    if read.checksum().is_some() {
        assert_eq!(checksum(&packet), 0);
    }
}

fn gtpu(bytes: &[u8]) {
    let Ok(view) = Gtpu::new(bytes) else { return };
    assert_one_line(&view);
    assert_eq!(view.header_len() + view.payload().len(), bytes.len());
    for extension in view.extensions() {
        assert!(GtpuExtensionRepr::new(extension.extension_type, extension.content).is_some());
    }
    let parse = |bytes: &[u8]| GtpuRepr::parse(&Gtpu::new(bytes).ok()?);
    let emitted = assert_survives(parse(bytes), GtpuRepr::header_len, GtpuRepr::emit, parse);
    assert!(emitted.is_none() || view.is_user_plane());
}

fn vxlan(bytes: &[u8]) {
    let Ok(view) = Vxlan::new(bytes) else { return };
    assert_one_line(&view);
    assert!(view.vni() <= vxlan::VNI_MAX);
    let parse = |bytes: &[u8]| VxlanRepr::parse(&Vxlan::new(bytes).ok()?);
    let emitted = assert_survives(parse(bytes), VxlanRepr::header_len, VxlanRepr::emit, parse);
    assert_eq!(emitted.is_some(), view.is_vni_valid());
}

fn geneve(bytes: &[u8]) {
    let Ok(view) = Geneve::new(bytes) else { return };
    assert_one_line(&view);
    assert_eq!(view.header_len() + view.payload().len(), bytes.len());
    assert!(view.vni() <= geneve::VNI_MAX && view.options().len() <= geneve::OPTIONS_LEN_MAX);
    let parse = |bytes: &[u8]| GeneveRepr::parse(&Geneve::new(bytes).ok()?);
    let emitted = assert_survives(parse(bytes), GeneveRepr::header_len, GeneveRepr::emit, parse);
    assert_eq!(emitted.is_some(), view.version() == 0 && view.check_options().is_ok());
}

fn erspan(bytes: &[u8]) {
    let Ok(view) = Erspan::new(bytes) else { return };
    assert_one_line(&view);
    assert_eq!(view.header_len() + view.payload().len(), bytes.len());
    assert!(view.session_id() <= erspan::SESSION_ID_MAX && view.vlan() < 4096);
    let parse = |bytes: &[u8]| Some(ErspanRepr::parse(&Erspan::new(bytes).ok()?));
    assert_survives(parse(bytes), ErspanRepr::header_len, ErspanRepr::emit, parse);
}
