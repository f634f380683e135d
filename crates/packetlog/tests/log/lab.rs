//! Frames to record, and logs to look into.

use std::net::Ipv4Addr;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use packet::dissect::{DissectOptions, dissect};
use packet::file::{Interface, Section};
use packet::{Direction, FlowKey, Frame, LinkType, Record, Timestamp};
use packetlog::log::{Log, Query, QueryReport, RecoveryReport};
use packetlog::recorder::{ClassInfo, Direct, Recorder, RecorderOptions, StoreOutcome};
use packetlog::{Basis, PacketVerdict};

/// When the first packet is: 2026-11-21T09:30:00Z.
pub(crate) const START_NS: i64 = 1_795_253_400_000_000_000;

/// A clock that ticks a microsecond each time it is asked.
pub(crate) fn clock() -> Duration {
    static TICKS: AtomicU64 = AtomicU64::new(0);
    Duration::from_micros(TICKS.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn classes() -> Vec<ClassInfo> {
    let class = |name: &str, priority| ClassInfo { name: name.into(), priority };
    vec![class("benign", 0), class("scan", 1), class("flood", 1)]
}

/// Small chunks and files, written plainly.
pub(crate) fn options(folder: &Path) -> RecorderOptions {
    RecorderOptions {
        chunk_len: 64 << 10,
        file_len_max: 1 << 20,
        direct: Direct::Never,
        waits: true,
        ..RecorderOptions::new(folder)
    }
}

/// A packet to record.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Packet {
    pub(crate) ns: i64,
    pub(crate) source: Ipv4Addr,
    pub(crate) destination: Ipv4Addr,
    pub(crate) port: u16,
    pub(crate) class: u16,
    pub(crate) payload_len: usize,
    pub(crate) kept_len: u32,
}

impl Packet {
    /// The `number`th of a log: a millisecond after the one before, from one of 50 hosts to one
    /// of 200; of ten one is a scan.
    pub(crate) fn numbered(number: u32) -> Self {
        Self {
            ns: START_NS + i64::from(number) * 1_000_000,
            source: Ipv4Addr::from(0x0a00_0000 + number % 50),
            destination: Ipv4Addr::from(0xc0a8_0000 + number % 200),
            port: 1024 + (number % 7) as u16,
            class: u16::from(number.is_multiple_of(10)),
            payload_len: (number % 1000) as usize,
            kept_len: if number.is_multiple_of(10) { u32::MAX } else { 54 },
        }
    }

    /// The frame: Ethernet, IPv4, TCP, and a payload that begins with the packet's number.
    pub(crate) fn bytes(&self, number: u32) -> Vec<u8> {
        let total_len = (40 + self.payload_len) as u16;
        let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        bytes.extend([0x45, 0]);
        bytes.extend(total_len.to_be_bytes());
        bytes.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        bytes.extend(self.source.octets());
        bytes.extend(self.destination.octets());
        bytes.extend(self.port.to_be_bytes());
        bytes.extend(443_u16.to_be_bytes());
        bytes.extend(number.to_be_bytes());
        bytes.extend([0, 0, 0, 0, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
        bytes.extend((0..self.payload_len).map(|at| (at as u32 ^ number) as u8));
        bytes
    }

    pub(crate) fn record(&self, bytes: &[u8], interface: u16) -> Record {
        let wire_len = bytes.len() as u32;
        Record {
            timestamp: Timestamp::from_ns(self.ns),
            captured_len: wire_len,
            wire_len,
            interface,
            link: LinkType::ETHERNET,
            direction: Direction::Inbound,
            layers: dissect(LinkType::ETHERNET, bytes, wire_len, DissectOptions::default()),
            ..Record::default()
        }
    }
}

/// Stores the `number`th packet, and says the outcome of it.
pub(crate) fn store(recorder: &mut Recorder, packet: &Packet, number: u32) -> StoreOutcome {
    let bytes = packet.bytes(number);
    let record = packet.record(&bytes, 0);
    let frame = Frame::new(&bytes, &record);
    let flow = FlowKey::from_frame(&frame);
    let judged = PacketVerdict { class: packet.class, confidence: 0.75, basis: Basis::Flow, flow };
    recorder.store(&frame, packet.kept_len, &judged)
}

pub(crate) fn begin(options: RecorderOptions) -> (Recorder, RecoveryReport) {
    let section = Section { application: "wirelens test".into(), ..Section::default() };
    let (mut recorder, recovered) = Recorder::create(options, &classes(), &section, clock).unwrap();
    recorder.interface(0, &interface());
    (recorder, recovered)
}

pub(crate) fn interface() -> Interface {
    Interface { link: LinkType::ETHERNET, name: "eth0".into(), ..Interface::default() }
}

/// Records packets with these numbers.
pub(crate) fn record(options: RecorderOptions, numbers: std::ops::Range<u32>) {
    let (mut recorder, _) = begin(options);
    for number in numbers {
        assert_eq!(store(&mut recorder, &Packet::numbered(number), number), StoreOutcome::Yes);
    }
    let report = recorder.finish().unwrap();
    assert_eq!(report.lost, []);
}

/// What a log holds of a packet: its number, from the TCP sequence number, and what was kept.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct LogPacket {
    pub(crate) number: u32,
    pub(crate) ns: i64,
    pub(crate) wire_len: u32,
    pub(crate) bytes: Vec<u8>,
    pub(crate) class: String,
}

/// All that a query finds.
pub(crate) fn ask(folder: &Path, query: &Query) -> (Vec<LogPacket>, QueryReport) {
    let log = Log::open(folder).unwrap();
    let mut got = Vec::new();
    let report = log.query(query, &mut |found| {
        let number = found.bytes.get(38..).and_then(|from| from.first_chunk());
        // A packet that somebody made up may be too short for one.
        let number = number.map_or(u32::MAX, |bytes| u32::from_be_bytes(*bytes));
        got.push(LogPacket {
            number,
            ns: found.record.timestamp.as_ns(),
            wire_len: found.record.wire_len,
            bytes: found.bytes.to_vec(),
            class: found.class.to_owned(),
        });
        ControlFlow::Continue(())
    });
    (got, report.unwrap())
}

/// The numbers of all packets of a log, in order.
pub(crate) fn numbers(folder: &Path) -> Vec<u32> {
    let mut numbers: Vec<u32> =
        ask(folder, &Query::default()).0.iter().map(|got| got.number).collect();
    numbers.sort_unstable();
    numbers
}

/// The files of a folder with this ending, in order.
pub(crate) fn files(folder: &Path, ending: &str) -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().ends_with(ending))
        .collect();
    files.sort();
    files
}

/// Whether a program is there; a test that needs it and has it not says so.
pub(crate) fn has(program: &str) -> bool {
    let found = std::process::Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("skipped: {program} is not installed");
    }
    found
}
