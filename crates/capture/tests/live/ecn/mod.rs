//! The marker at tc egress: what it re-marks, and what it leaves alone.

mod marking;
mod system;

use std::net::SocketAddr;
use std::thread;

use capture::ReadOptions;
use capture::live::LiveOptions;
use capture::tap::{EcnMarker, EcnSettings};
use packet::{OneWayFlow, Protocol, Span};

use crate::lab::{self, Listener, send};

const NOT_ECT: u8 = 0;
const ECT1: u8 = 1;
const ECT0: u8 = 2;
const CE: u8 = 3;

/// Says aloud that a test is skipped where no program can be loaded: a user namespace is not
/// enough for eBPF.
fn is_skipped() -> bool {
    let is_root = lab::run("id", &["-u"]).trim() == "0";
    if !is_root {
        let test = thread::current().name().unwrap_or("ecn").to_owned();
        eprintln!("SKIPPED: {test}: needs root, to load eBPF");
    }
    !is_root
}

fn flow(source: &str, destination: &str, protocol: Protocol) -> OneWayFlow {
    OneWayFlow::new(source.parse().unwrap(), destination.parse().unwrap(), protocol)
}

/// Flows of one pair of hosts, by the port of the sender.
fn tcp4(port: u16) -> OneWayFlow {
    flow(&format!("192.0.2.1:{port}"), "192.0.2.2:443", Protocol::TCP)
}

fn tcp6(port: u16) -> OneWayFlow {
    flow(&format!("[2001:db8::1]:{port}"), "[2001:db8::2]:443", Protocol::TCP)
}

fn octets(end: SocketAddr) -> Vec<u8> {
    match end {
        SocketAddr::V4(end) => end.ip().octets().to_vec(),
        SocketAddr::V6(end) => end.ip().octets().to_vec(),
    }
}

/// The Internet checksum's sum, 0xffff of what holds its own checksum (RFC 1071).
fn sum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).unwrap()
}

/// A packet of a flow with right checksums, behind an Ethernet header.
fn frame(flow: OneWayFlow, ecn: u8, number: u16) -> Vec<u8> {
    let (source, destination) = flow.key.endpoints(flow.direction);
    let source = SocketAddr::new(source.address, source.port);
    let destination = SocketAddr::new(destination.address, destination.port);
    let protocol = flow.key.protocol();
    let mut transport = [source.port().to_be_bytes(), destination.port().to_be_bytes()].concat();
    let checksum_at = if protocol == Protocol::TCP { 16 } else { 6 };
    if protocol == Protocol::TCP {
        transport.extend(u32::from(number).to_be_bytes());
        transport.extend([0, 0, 0, 9, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    } else {
        transport.extend([0, 28, 0, 0]);
    }
    transport.extend([0x5a; 20]);
    let len = u16::try_from(transport.len()).unwrap();
    let ends = [octets(source), octets(destination)].concat();
    let pseudo = [&ends[..], &len.to_be_bytes(), &[0, protocol.0], &transport].concat();
    transport[checksum_at..checksum_at + 2].copy_from_slice(&(!sum(&pseudo)).to_be_bytes());
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    if flow.key.is_ipv6() {
        // A traffic class of which all bits that are not ECN are set, and a flow label.
        frame.extend([0x86, 0xdd, 0x6f, 0xcf | ecn << 4, 0x12, 0x34]);
        frame.extend(len.to_be_bytes());
        frame.extend([protocol.0, 64]);
        frame.extend(&ends);
    } else {
        frame.extend([8, 0, 0x45, 0xfc | ecn]);
        frame.extend((20 + len).to_be_bytes());
        frame.extend(number.to_be_bytes());
        frame.extend([0x40, 0, 64, protocol.0, 0, 0]);
        frame.extend(&ends);
        let checksum = !sum(&frame[14..34]);
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    }
    frame.extend(transport);
    frame
}

/// What a frame must be once it is re-marked.
fn remarked(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if frame[14] >> 4 == 6 {
        frame[15] &= 0xcf;
        return frame;
    }
    frame[15] &= 0xfc;
    frame[24..26].fill(0);
    let checksum = !sum(&frame[14..34]);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame
}

fn listen(interface: &str) -> Listener {
    Listener::open(interface, &LiveOptions::default(), &ReadOptions::default())
}

/// Sends frames on `wl0`; what arrives at `wl1`.
fn pass(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut listener = listen("wl1");
    send("wl0", frames);
    let seen = listener.read(frames.len());
    assert_eq!(seen.len(), frames.len());
    seen.into_iter().map(|seen| seen.bytes).collect()
}

/// Budgets that do not expire during a test.
fn lasting() -> EcnSettings {
    EcnSettings { budget_lasts: Span::from_seconds(3_600), ..EcnSettings::default() }
}

fn attach(settings: EcnSettings) -> EcnMarker {
    EcnMarker::attach("wl0", settings).unwrap()
}
