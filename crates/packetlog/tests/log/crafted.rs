//! Crafted logs, with checksums that are right: nothing they say is believed that
//! cannot be, nothing panics, and what is whole in them is found.

use std::ops::Range;
use std::path::{Path, PathBuf};

use packet::file::{Section, section_len};
use packetlog::log::{FlowQuery, Log, Query, compress, recover};
use packetlog::recorder::{Recorder, RecorderOptions};

use super::lab::*;

/// A log of both priorities with two chunks of each, small enough to be tried a thousand times.
fn base(is_compressed: bool) -> (tempfile::TempDir, Vec<u32>) {
    base_of(60, is_compressed)
}

fn base_of(count: u32, is_compressed: bool) -> (tempfile::TempDir, Vec<u32>) {
    let folder = tempfile::tempdir().unwrap();
    let (mut recorder, _) = begin(options(folder.path()));
    for number in 0..count {
        store(&mut recorder, &Packet::numbered(number), number);
        if number == count / 2 {
            recorder.flush();
        }
    }
    recorder.finish().unwrap();
    if is_compressed {
        assert_eq!(compress(folder.path(), 1, false).unwrap().file_count, 2);
    }
    let numbers = numbers(folder.path());
    assert_eq!(numbers.len(), count as usize);
    (folder, numbers)
}

fn copy(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.path().join(path.file_name().unwrap())).unwrap();
    }
    to
}

/// Where the records of an index lie.
fn records(index: &[u8]) -> Vec<Range<usize>> {
    let (mut at, mut places) = (0, Vec::new());
    while let Some(len) = index.get(at + 4..at + 8) {
        let len = u32::from_le_bytes(len.try_into().unwrap()) as usize;
        places.push(at..at + len);
        at += len;
    }
    places
}

fn seal(record: &mut [u8]) {
    let (before, sum) = record.split_last_chunk_mut::<4>().unwrap();
    *sum = crc32fast::hash(before).to_le_bytes();
}

/// Everything that reads a log, and what the log is afterwards.
fn walk(folder: &Path) -> (Vec<u32>, usize) {
    let log = Log::open(folder).unwrap();
    let stats = log.stats();
    let _ = (stats.total(), stats.share());
    let faults = log.faults().chain(log.side_faults()).map(ToString::to_string).count();
    let packet = Packet::numbered(10);
    let bytes = packet.bytes(10);
    let record = packet.record(&bytes, 0);
    let (key, _) = packet::FlowKey::from_frame(&packet::Frame::new(&bytes, &record)).unwrap();
    let mut found = Vec::new();
    for query in [
        Query::default(),
        Query { hosts: vec![packet.source.into()], ..Query::default() },
        Query { flow: Some(FlowQuery::Key(key)), ..Query::default() },
        Query { classes: vec!["scan".into()], ..Query::default() },
    ] {
        found.push(ask(folder, &query));
    }
    let numbers: Vec<u32> = found[0].0.iter().map(|got| got.number).collect();
    (numbers, faults + found.iter().map(|(_, report)| report.faults.len()).sum::<usize>())
}

/// What recovering and the next recorder make of it.
fn mend(folder: &Path) {
    recover(folder).unwrap();
    let _ = walk(folder);
    let (mut recorder, _) =
        Recorder::create(options(folder), &classes(), &Section::default(), clock).unwrap();
    store(&mut recorder, &Packet::numbered(100), 100);
    recorder.finish().unwrap();
    assert!(numbers(folder).contains(&100));
}

const EXTREMES: [u64; 9] =
    [0, 1, 4096, u64::MAX, u64::MAX - 4095, i64::MAX as u64, 1 << 63, u32::MAX as u64, 0x8000_0000];

fn each_field_of_the_index(is_compressed: bool, every: usize) {
    let (folder, whole) = base(is_compressed);
    for index in files(folder.path(), ".idx") {
        let bytes = std::fs::read(&index).unwrap();
        let place = records(&bytes).remove(0);
        // From the length on; each number at each of its places, as 4 and as 8 bytes.
        let fields = (8..place.len() - 4).step_by(4).flat_map(|at| [(at, 4), (at, 8)]);
        let tries = fields.filter(|(at, len)| at + len <= place.len() - 4);
        let tries = tries.flat_map(|field| EXTREMES.map(|value| (field, value)));
        for ((at, len), value) in tries.step_by(every) {
            let copied = copy(folder.path());
            let mut wrong = bytes.clone();
            wrong[place.start + at..][..len].copy_from_slice(&value.to_le_bytes()[..len]);
            seal(&mut wrong[place.clone()]);
            std::fs::write(copied.path().join(index.file_name().unwrap()), wrong).unwrap();
            let when = format!("{value:#x} at {at}, {len} bytes");
            let (found, _) = walk(copied.path());
            assert!(found.iter().all(|number| whole.contains(number)), "{when}");
            mend(copied.path());
            let after = numbers(copied.path());
            assert!(whole.iter().all(|number| after.contains(number)), "{when}: {after:?}");
        }
    }
}

#[test]
fn whatever_an_index_says_nothing_panics_and_all_is_found_once_it_is_put_right() {
    each_field_of_the_index(false, 11);
}

#[test]
fn whatever_the_index_of_a_compressed_file_says_neither() {
    each_field_of_the_index(true, 13);
}

/// The record of the first chunk, changed; what is found before it is repaired, and faults.
fn with(is_compressed: bool, at: usize, value: u64) -> (tempfile::TempDir, Vec<u32>, Vec<String>) {
    let (folder, _) = base(is_compressed);
    let index = files(folder.path(), ".idx").remove(0);
    let mut bytes = std::fs::read(&index).unwrap();
    for place in records(&bytes) {
        bytes[place.start + at..][..8].copy_from_slice(&value.to_le_bytes());
        seal(&mut bytes[place]);
    }
    if is_compressed {
        bytes.extend([1, 2, 3, 4]);
    }
    std::fs::write(&index, bytes).unwrap();
    let log = Log::open(folder.path()).unwrap();
    let faults = log.side_faults().map(ToString::to_string).collect();
    let packet = Packet::numbered(11);
    let query = Query { hosts: vec![packet.source.into()], ..Query::default() };
    let found = ask(folder.path(), &query).0.iter().map(|got| got.number).collect();
    (folder, found, faults)
}

#[test]
fn hashes_that_cannot_be_where_the_index_says_are_named_and_done_without() {
    let (_folder, found, faults) = with(false, 32, u64::MAX);
    assert!(found.contains(&11), "{found:?}");
    assert!(faults.len() == 1 && faults[0].contains(".keys: damaged hashes of 2"), "{faults:?}");
}

#[test]
fn chunks_that_cannot_be_where_the_index_says_are_found_in_the_file() {
    let (folder, found, faults) = with(true, 8, 0xffff_ffff_ffff_f000);
    assert!(found.contains(&11), "{found:?}");
    assert!(faults.len() == 1 && faults[0].contains(".idx: 3 damaged records"), "{faults:?}");
    mend(folder.path());
    assert_eq!(Log::open(folder.path()).unwrap().side_faults().count(), 0);
    assert_eq!(numbers(folder.path()).len(), 61);
}

#[test]
fn an_index_that_points_beside_the_chunks_is_made_anew() {
    for is_compressed in [false, true] {
        // The length of a chunk, or of its frame, is another that could be.
        let (folder, whole) = base_of(300, is_compressed);
        let index = files(folder.path(), ".idx").remove(0);
        let mut bytes = std::fs::read(&index).unwrap();
        let place = records(&bytes).remove(0);
        let at = place.start + if is_compressed { 20 } else { 16 };
        let len = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let less = if is_compressed { len - 1 } else { 4096 };
        assert!(less < len);
        bytes[at..at + 4].copy_from_slice(&less.to_le_bytes());
        seal(&mut bytes[place]);
        std::fs::write(&index, bytes).unwrap();
        let recovered = recover(folder.path()).unwrap();
        assert_eq!(recovered.indexes_made, 1, "{is_compressed}: {recovered:?}");
        assert_eq!(numbers(folder.path()), whole, "{is_compressed}");
    }
}

#[test]
fn whatever_a_chunk_says_under_a_right_checksum_nothing_panics() {
    let (folder, _) = base(false);
    let file = files(folder.path(), ".pcapng").remove(0);
    let bytes = std::fs::read(&file).unwrap();
    let (head, len) = section_len(&bytes).unwrap();
    let chunk = head + len as usize;
    let trailer = chunk - u32::from_le_bytes(bytes[chunk - 4..chunk].try_into().unwrap()) as usize;
    let packets = (0..trailer).step_by(4).filter(|at| *at < 400).step_by(3);
    for at in packets.chain((trailer..trailer + 132).step_by(4)) {
        for value in [0, u64::MAX, i64::MAX as u64, 0x8000_0000] {
            let copied = copy(folder.path());
            let mut wrong = bytes.clone();
            wrong[at..at + 8].copy_from_slice(&value.to_le_bytes());
            let sum = crc32fast::hash(&wrong[..chunk - 12]);
            wrong[chunk - 12..chunk - 8].copy_from_slice(&sum.to_le_bytes());
            let name = file.file_name().unwrap();
            std::fs::write(copied.path().join(name), wrong).unwrap();
            std::fs::remove_file(copied.path().join(name).with_extension("idx")).unwrap();
            let _ = walk(copied.path());
            mend(copied.path());
        }
    }
}

#[test]
fn sequence_and_file_numbers_at_their_end_do_not_end_a_recorder() {
    let (folder, _) = base(false);
    for index in files(folder.path(), ".idx") {
        let mut bytes = std::fs::read(&index).unwrap();
        for place in records(&bytes) {
            bytes[place.start + 56..][..8].copy_from_slice(&u64::MAX.to_le_bytes());
            seal(&mut bytes[place]);
        }
        std::fs::write(&index, bytes).unwrap();
    }
    let stem = format!("p0-20261121T093000Z-{}", u64::MAX);
    std::fs::write(folder.path().join(format!("{stem}.pcapng")), "").unwrap();
    record(options(folder.path()), 60..100);
    assert_eq!(numbers(folder.path()).len(), 100);
}

#[test]
fn names_in_a_log_do_not_reach_a_terminal_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    record(options(folder.path()), 0..100);
    for file in files(folder.path(), ".pcapng") {
        let mut bytes = std::fs::read(&file).unwrap();
        let at = bytes.windows(6).position(|window| window == b"benign").unwrap();
        bytes[at] = 0x1b;
        let (head, len) = section_len(&bytes).unwrap();
        let chunk = head + len as usize;
        let sum = crc32fast::hash(&bytes[..chunk - 12]);
        bytes[chunk - 12..chunk - 8].copy_from_slice(&sum.to_le_bytes());
        std::fs::write(&file, bytes).unwrap();
    }
    std::fs::remove_file(folder.path().join("account")).unwrap();
    let stats = Log::open(folder.path()).unwrap().stats();
    assert!(stats.classes.iter().any(|class| class.name == " enign"), "{stats:?}");
}

#[test]
fn packets_of_another_kind_of_file_are_no_chunk() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p0-20261121T093000Z-000000.pcapng");
    // A trailer behind it would be where blocks begin.
    let mut frame = Packet::numbered(1).bytes(1);
    frame.resize(frame.len().next_multiple_of(4), 0);
    let len = u32::try_from(frame.len()).unwrap();
    let header = [0xa1b2_3c4d_u32, 4 << 16 | 2, 0, 0, 65_535, 1, 1, 0, len, len];
    let mut bytes: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend_from_slice(&frame);
    std::fs::write(&file, bytes).unwrap();
    let first = recover(folder.path()).unwrap();
    assert_eq!((first.chunks_mended, first.packets_saved), (0, 0));
    let again = recover(folder.path()).unwrap();
    assert_eq!((again.chunks_mended, again.indexes_made, again.bytes_lost), (0, 0, 0));
}

#[test]
fn links_that_somebody_put_into_a_log_are_not_followed() {
    let (folder, whole) = base(false);
    let outside = tempfile::tempdir().unwrap();
    let victim = outside.path().join("victim");
    let text = "0123456789".repeat(1000);
    std::fs::write(&victim, &text).unwrap();
    let link = |name: &str| {
        let path = folder.path().join(name);
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        path
    };
    let stem = "p0-20261121T093000Z-000500";
    let links: Vec<PathBuf> = [".pcapng", ".idx", ".keys"]
        .iter()
        .map(|suffix| link(&format!("{stem}{suffix}")))
        .collect();
    link("account.partial");
    link("probe-1.partial");
    let log = Log::open(folder.path()).unwrap();
    let faults: Vec<_> = log.side_faults().map(ToString::to_string).collect();
    assert!(faults.len() == 1 && faults[0].contains("000500.pcapng: a link"), "{faults:?}");
    assert_eq!(numbers(folder.path()), whole);
    recover(folder.path()).unwrap();
    record(RecorderOptions { compress: Some(1), ..options(folder.path()) }, 60..200);
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), text);
    assert!(links[0].is_symlink());
    assert_eq!(numbers(folder.path()).len(), 200);
}

#[test]
fn a_log_is_its_owners_alone_unless_its_group_is_asked_in() {
    use std::os::unix::fs::PermissionsExt as _;
    for (access, of_folder, of_file) in [
        (packetlog::own::Access::Owner, 0o700, 0o600),
        (packetlog::own::Access::Group, 0o750, 0o640),
    ] {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("log");
        record(RecorderOptions { access, ..options(&folder) }, 0..1000);
        compress(&folder, 1, false).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), of_folder);
        for file in files(&folder, "") {
            let is_lock = file.ends_with("recorder.lock");
            let of_file = if is_lock { 0o600 } else { of_file };
            assert_eq!(mode(&file), of_file, "{}", file.display());
        }
    }
}
