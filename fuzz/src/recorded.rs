//! A small real log, plain or compressed, for targets that damage it.

use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::OnceLock;

use packet::dissect::{DissectOptions, dissect};
use packet::file::{Interface, Section};
use packet::{FlowKey, Frame, LinkType, Record, Timestamp};
use packetlog::log::{FlowQuery, Log, Query, compress};
use packetlog::recorder::{
    ClassInfo, Direct, Encoding, Recorder, RecorderError, RecorderOptions, WhenFull,
};
use packetlog::{Basis, PacketVerdict};

use crate::place::fresh;
use crate::ticks::monotonic;

/// Files of a log, by name.
pub type Files = Vec<(String, Vec<u8>)>;

/// Packets of it.
pub const PACKETS: u32 = 12;

fn options(folder: &Path, encoding: Encoding) -> RecorderOptions {
    RecorderOptions {
        encoding,
        chunk_len: 64 << 10,
        direct: Direct::Never,
        waits: true,
        ..RecorderOptions::new(folder)
    }
}

/// Ethernet, IPv4 and UDP, from a host of its own.
fn frame(number: u32) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 32, 0, 0, 0, 0, 64];
    bytes.extend([17, 0, 0, 10, 0, 0, number as u8, 192, 168, 0, 1, 4, 0, 0, 53, 0, 12, 0, 0]);
    bytes.extend(number.to_be_bytes());
    bytes
}

fn record_of(bytes: &[u8], number: u32) -> Record {
    let len = bytes.len() as u32;
    Record {
        timestamp: Timestamp::from_ns(1_795_253_400_000_000_000 + i64::from(number)),
        captured_len: len,
        wire_len: len,
        link: LinkType::ETHERNET,
        layers: dissect(LinkType::ETHERNET, bytes, len, DissectOptions::default()),
        ..Record::default()
    }
}

/// Records packets with these numbers into a folder.
///
/// # Panics
/// Where the recorder refuses the folder.
pub fn record(folder: &Path, numbers: Range<u32>, encoding: Encoding) {
    attempt(options(folder, encoding), numbers).expect("a recorder starts on any log");
}

/// The same where the log may have only so many bytes, and the folder may be refused; whether it
/// was not.
#[must_use]
pub fn record_within(folder: &Path, numbers: Range<u32>, bytes_max: u64) -> bool {
    let options = RecorderOptions {
        keep_bytes_max: Some(bytes_max),
        when_full: WhenFull::OverwriteUnimportant,
        ..options(folder, Encoding::Compact)
    };
    attempt(options, numbers).is_ok()
}

fn attempt(options: RecorderOptions, numbers: Range<u32>) -> Result<(), RecorderError> {
    let class = |name: &str, priority| ClassInfo { name: name.into(), priority };
    let classes = [class("benign", 0), class("scan", 1)];
    let (mut recorder, _) = Recorder::create(options, &classes, &Section::default(), monotonic)?;
    recorder.interface(0, &Interface { link: LinkType::ETHERNET, ..Interface::default() });
    for number in numbers.clone() {
        let bytes = frame(number);
        let record = record_of(&bytes, number);
        let frame = Frame::new(&bytes, &record);
        let flow = FlowKey::from_frame(&frame);
        let class = (number % 2) as u16;
        let judged = PacketVerdict { class, confidence: 0.5, basis: Basis::Flow, flow };
        recorder.store(&frame, u32::MAX, &judged);
        if number == numbers.start + 5 {
            recorder.flush();
        }
    }
    let report = recorder.finish()?;
    let _ = report.rows;
    Ok(())
}

/// The files of a folder.
///
/// # Panics
/// Where one cannot be read.
#[must_use]
pub fn read(folder: &Path) -> Files {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut files: Files = entries
        .map(|entry| {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, std::fs::read(&path).expect("a file"))
        })
        .collect();
    files.sort();
    files
}

/// The log in each encoding, plain and compressed.
///
/// # Panics
/// Where there is no room for it.
#[must_use]
pub fn base() -> &'static [[Files; 2]; 2] {
    static BASE: OnceLock<[[Files; 2]; 2]> = OnceLock::new();
    BASE.get_or_init(|| {
        [Encoding::Pcapng, Encoding::Compact].map(|encoding| {
            let folder = fresh("recorded");
            record(&folder, 0..PACKETS, encoding);
            let plain = read(&folder);
            compress(&folder, 1, false).expect("room for a compressed log");
            [plain, read(&folder)]
        })
    })
}

/// Everything that reads a log; the number of packets in it.
///
/// # Panics
/// Where something is found that should not be.
#[must_use]
pub fn walk(folder: &Path) -> u64 {
    let log = Log::open(folder).expect("a folder that can be read");
    let stats = log.stats();
    let _ = (stats.total(), stats.share());
    for fault in log.faults().chain(log.side_faults()) {
        assert!(!fault.to_string().contains('\n'));
    }
    let bytes = frame(3);
    let wanted = record_of(&bytes, 3);
    let (key, _) = FlowKey::from_frame(&Frame::new(&bytes, &wanted)).expect("a flow");
    let stamp = wanted.timestamp;
    let mut counts = Vec::new();
    for query in [
        Query::default(),
        Query { hosts: vec![[10, 0, 0, 3].into()], ..Query::default() },
        Query { flow: Some(FlowQuery::Key(key)), ..Query::default() },
        Query { from: Some(stamp), to: Some(stamp), ..Query::default() },
    ] {
        let mut count = 0;
        let report = log.query(&query, &mut |_| {
            count += 1;
            ControlFlow::Continue(())
        });
        report.expect("files that can be read");
        counts.push(count);
    }
    assert!(counts.iter().all(|&count| count <= counts[0]));
    counts[0]
}
