//! A recorder ends, or the power fails, after any of its operations on the disk: what it had
//! acknowledged is there, the next one starts, and nothing looks like tampering.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use packet::file::Section;
use packetlog::ledger::read_heads;
use packetlog::log::{Log, Query, recover, verify};
use packetlog::recorder::{Encoding, Recorder, RecorderOptions, WhenFull};
use testkit::disk::{Cut, Operation, Recording};

use super::lab::*;

/// Says in the child's environment where to record.
const FOLDER: &str = "WIRELENS_POWER_FOLDER";
/// Power cuts tried after each operation; set to more for a longer run.
const CUTS: &str = "WIRELENS_POWER_CUTS";
/// Packets of a recording, and how many come between two that are waited for.
const PACKETS: u32 = 2400;
const STEP: u32 = 300;
/// The number of the first packet of the next recorder.
const NEXT: u32 = 1_000_000;

/// How a log is recorded.
type Way = fn(RecorderOptions) -> RecorderOptions;

fn with(folder: &Path, way: Way, boot: &str) -> RecorderOptions {
    way(RecorderOptions {
        file_len_max: 128 << 10,
        anchor: Some(folder.join("heads/heads")),
        boot: boot.into(),
        ..options(&folder.join("log"))
    })
}

fn begin_in(folder: &Path, way: Way, boot: &str) -> Recorder {
    let made = Recorder::create(with(folder, way, boot), &classes(), &Section::default(), clock);
    let (mut recorder, _) = made.unwrap();
    recorder.interface(0, &interface());
    recorder
}

/// The child: records, and prints how many packets were acknowledged of each priority.
fn record_in(folder: &Path, way: Way) {
    let mut recorder = begin_in(folder, way, "first");
    let state = recorder.state();
    for number in 0..PACKETS {
        store(&mut recorder, &Packet::numbered(number), number);
        if number % STEP == STEP - 1 {
            recorder.flush();
            while state.chunks_queued.load(Ordering::Relaxed) > 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            let of = |stream: usize| state.streams()[stream].packets.load(Ordering::Relaxed);
            println!("acknowledged {} {}", of(0), of(1));
        }
    }
    recorder.finish().unwrap();
}

/// The numbers of packets that were acknowledged, by the last line of what the child said.
fn acknowledged(said: &str) -> BTreeSet<u32> {
    let line = said.lines().rfind(|line| line.starts_with("acknowledged "));
    let counts = line.unwrap_or("acknowledged 0 0").split(' ').skip(1);
    let counts: Vec<usize> = counts.map(|count| count.parse().unwrap()).collect();
    let of = |class: u16, count: usize| {
        (0..PACKETS).filter(move |&number| Packet::numbered(number).class == class).take(count)
    };
    of(0, counts[0]).chain(of(1, counts[1])).collect()
}

/// All packets of a log, each as it was and once.
fn there(folder: &Path, when: &str) -> BTreeSet<u32> {
    let (got, _) = ask(folder, &Query::default());
    let numbers: BTreeSet<u32> = got.iter().map(|got| got.number).collect();
    assert_eq!(numbers.len(), got.len(), "{when}: no packet is there twice");
    for got in &got {
        let packet = Packet::numbered(got.number);
        let bytes = packet.bytes(got.number);
        let kept = &bytes[..bytes.len().min(packet.kept_len as usize)];
        assert!(got.bytes == kept, "{when}: packet {}", got.number);
    }
    numbers
}

/// What must hold of a folder that was left.
fn check(folder: &Path, way: Way, wanted: &BTreeSet<u32>, is_cut: bool, when: &str) -> u64 {
    let log = folder.join("log");
    if log.is_dir() {
        let left = there(&log, when);
        assert!(wanted.is_subset(&left), "{when}: acknowledged, and not there as it was left");
    }
    std::fs::create_dir_all(folder.join("heads")).unwrap();
    let mut recorder = begin_in(folder, way, if is_cut { "second" } else { "first" });
    for number in NEXT..NEXT + 20 {
        store(&mut recorder, &Packet::numbered(number), number);
    }
    let report = recorder.finish().unwrap();
    assert_eq!(report.lost, [], "{when}");
    let now = there(&log, when);
    assert!(wanted.is_subset(&now), "{when}: acknowledged, and not there after a start");
    assert!(now.contains(&NEXT), "{when}");
    let opened = Log::open(&log).unwrap();
    assert_eq!(opened.faults().count(), 0, "{when}");
    let heads = std::fs::read_to_string(folder.join("heads/heads")).unwrap();
    let verified = verify(&log, &read_heads(&heads)).unwrap();
    assert_eq!(verified.findings, [], "{when}");
    assert!(verified.anchored.is_some() && verified.is_stopped, "{when}: {verified:?}");
    assert!(is_cut || verified.lost.is_empty(), "{when}: {verified:?}");
    let again = recover(&log).unwrap();
    assert_eq!((again.indexes_made, again.chunks_mended, again.faults), (0, 0, 0), "{when}");
    verified.lost.iter().map(|lost| lost.chunks).sum()
}

/// A folder in memory, where there is one: a test makes thousands of files.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

fn at_every_operation(test: &str, way: Way) {
    if let Ok(folder) = std::env::var(FOLDER) {
        return record_in(&PathBuf::from(folder), way);
    }
    let home = folder();
    let place = home.path().join("disk");
    std::fs::create_dir_all(place.join("heads")).unwrap();
    let environment = [(FOLDER, place.to_str().unwrap())];
    let recording = Recording::of_test(test, &environment, &place).unwrap();
    let Some(recording) = recording else {
        println!("skipped: strace is not installed");
        return;
    };
    let options = with(&place, way, "");
    let cuts: u64 = std::env::var(CUTS).map_or(2, |text| text.parse().unwrap());
    let count = recording.operations().len();
    assert!(count > 100 && recording.said(count).contains("acknowledged 1"), "{count}");
    let is_deletion = |operation: &&Operation| match operation {
        Operation::Remove(path) => path.to_string_lossy().ends_with(".pcapng"),
        _ => false,
    };
    let deletions = recording.operations().iter().filter(is_deletion).count();
    assert_eq!(deletions > 0, options.keep_bytes_max.is_some(), "{deletions}");
    let (mut states, mut lost) = (0, 0);
    for done in 0..=count {
        let acknowledged = acknowledged(&recording.said(done));
        let power = (0..cuts).map(|seed| Cut::Power(seed * 1_000_003 + done as u64));
        for cut in [Cut::Killed, Cut::Torn].into_iter().chain(power) {
            let state = recording.after(done, cut);
            let folder = folder();
            state.write_to(folder.path()).unwrap();
            let is_cut = matches!(cut, Cut::Power(_));
            let is_promised = options.keep_bytes_max.is_none() && (options.sync || !is_cut);
            let wanted = if is_promised { acknowledged.clone() } else { BTreeSet::new() };
            let last = recording.operations().get(done.wrapping_sub(1)).map(Operation::to_string);
            let when = format!("{cut:?} after {done}: {last:?}");
            lost += check(folder.path(), way, &wanted, is_cut, &when);
            states += 1;
        }
    }
    println!("{count} operations, {states} states, {lost} blocks lost to power cuts");
    let may_lose = !options.sync;
    assert!(may_lose == (lost > 0), "{lost} blocks lost, and `--sync` decides whether any may be");
}

#[test]
fn a_power_cut_is_explained_and_the_next_recorder_starts() {
    at_every_operation("power::a_power_cut_is_explained_and_the_next_recorder_starts", |way| way);
}

#[test]
fn what_was_acknowledged_with_sync_outlives_a_power_cut() {
    let sync = |way| RecorderOptions { sync: true, ..way };
    at_every_operation("power::what_was_acknowledged_with_sync_outlives_a_power_cut", sync);
}

#[test]
fn a_power_cut_while_files_are_deleted_and_compressed_is_explained() {
    let small = |way| RecorderOptions {
        compress: Some(1),
        keep_bytes_max: Some(300 << 10),
        when_full: WhenFull::OverwriteUnimportant,
        ..way
    };
    at_every_operation(
        "power::a_power_cut_while_files_are_deleted_and_compressed_is_explained",
        small,
    );
}

#[test]
fn a_power_cut_among_compact_blocks_is_explained() {
    let compact = |way| RecorderOptions { encoding: Encoding::Compact, ..way };
    at_every_operation("power::a_power_cut_among_compact_blocks_is_explained", compact);
}
