//! A small real log, plain or compressed, whose index, hashes, account and chunks say something
//! else under checksums that are right: nothing panics, and what is in the file is found once the
//! log is put right.
//!
//! Input: a byte whose lowest bit chooses the compressed form, then changes of twelve bytes: which
//! file, how many bytes, where (two), and the value (eight).
#![no_main]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fuzz::input::Input;
use libfuzzer_sys::fuzz_target;
use packet::dissect::{DissectOptions, dissect};
use packet::file::{Interface, Section, section_len};
use packet::{FlowKey, Frame, LinkType, Record, Timestamp};
use packetlog::log::{FlowQuery, Log, Query, compress, recover};
use packetlog::recorder::{ClassInfo, Direct, Encoding, Recorder, RecorderOptions};
use packetlog::{Basis, PacketVerdict};

/// Files of a log, by name.
type Files = Vec<(String, Vec<u8>)>;

const PACKETS: u32 = 12;
const CHANGES_MAX: usize = 8;

fn clock() -> Duration {
    static TICKS: AtomicU64 = AtomicU64::new(0);
    Duration::from_micros(TICKS.fetch_add(1, Ordering::Relaxed))
}

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
fn record(folder: &Path, numbers: std::ops::Range<u32>, encoding: Encoding) {
    let class = |name: &str, priority| ClassInfo { name: name.into(), priority };
    let classes = [class("benign", 0), class("scan", 1)];
    let made = Recorder::create(options(folder, encoding), &classes, &Section::default(), clock);
    let (mut recorder, _) = made.expect("a recorder starts on any log");
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
    recorder.finish().expect("a thread that ends");
}

fn read(folder: &Path) -> Files {
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

fn place() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    place.join(format!("wirelens-fuzz-packetlog-side-{}", std::process::id()))
}

fn fresh() -> PathBuf {
    let folder = place();
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// The log in each encoding, plain and compressed.
fn base() -> &'static [[Files; 2]; 2] {
    static BASE: OnceLock<[[Files; 2]; 2]> = OnceLock::new();
    BASE.get_or_init(|| {
        [Encoding::Pcapng, Encoding::Compact].map(|encoding| {
            let folder = fresh();
            record(&folder, 0..PACKETS, encoding);
            let plain = read(&folder);
            compress(&folder, 1, false).expect("room for a compressed log");
            [plain, read(&folder)]
        })
    })
}

/// Puts right the checksums of a file of this name.
fn seal(name: &str, bytes: &mut [u8], before: &[u8]) {
    if name.ends_with(".idx") {
        // Where records were: a length that was changed is tried under a right checksum, too.
        let mut at = 0;
        while let Some(len) = before.get(at + 4..).and_then(<[u8]>::first_chunk::<4>) {
            let len = u32::from_le_bytes(*len) as usize;
            let Some(record) = bytes.get_mut(at..at + len) else { return };
            let Some((head, sum)) = record.split_last_chunk_mut::<4>() else { return };
            *sum = crc32fast::hash(head).to_le_bytes();
            at += len;
        }
    } else if name.ends_with(".pcapng") {
        let mut at = 0;
        while let Some((head, len)) = before.get(at..).and_then(section_len) {
            let end = at + head + len as usize;
            let Some(chunk) = bytes.get_mut(at..end) else { return };
            let Some((body, tail)) = chunk.split_last_chunk_mut::<12>() else { return };
            tail[..4].copy_from_slice(&crc32fast::hash(body).to_le_bytes());
            at = end;
        }
    } else if name == "account" {
        let half = bytes.len() / 2;
        for slot in bytes.chunks_mut(half.max(24)) {
            let Some((head, text)) = slot.split_at_mut_checked(24) else { return };
            let len = u32::from_le_bytes([head[16], head[17], head[18], head[19]]) as usize;
            let mut sum = crc32fast::Hasher::new();
            sum.update(&head[8..20]);
            sum.update(text.get(..len).unwrap_or_default());
            head[20..24].copy_from_slice(&sum.finalize().to_le_bytes());
        }
    }
}

/// Everything that reads a log; the number of packets in it.
fn walk(folder: &Path) -> u64 {
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

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let which = usize::from(input.u8());
    let mut files = base()[which >> 1 & 1][which & 1].clone();
    let before = files.clone();
    let mut is_data_whole = true;
    for _ in 0..CHANGES_MAX {
        if input.is_empty() {
            break;
        }
        let (file, width, at) = (input.u8(), input.u8(), input.u16());
        let value = input.u64().to_le_bytes();
        let index = usize::from(file) % files.len();
        let (name, bytes) = &mut files[index];
        let width = [1, 2, 4, 8][usize::from(width) % 4];
        let at = usize::from(at) % bytes.len().max(1);
        let Some(field) = bytes.get_mut(at..at + width) else { continue };
        field.copy_from_slice(&value[..width]);
        is_data_whole &= !name.contains(".pcapng");
    }
    let folder = fresh();
    for ((name, bytes), (_, before)) in files.iter_mut().zip(&before) {
        seal(name, bytes, before);
        std::fs::write(folder.join(name), bytes).expect("room for a file");
    }
    walk(&folder);
    recover(&folder).expect("a folder that can be written");
    let found = walk(&folder);
    assert!(!is_data_whole || found == u64::from(PACKETS), "{found} packets are found");
    record(&folder, PACKETS..PACKETS + 2, Encoding::Compact);
    assert!(walk(&folder) >= found + 2);
    let _ = std::fs::remove_dir_all(&folder);
});
