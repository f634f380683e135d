//! The outcome of every packet is known for good: after loss, overwriting and sudden ends.

use std::path::Path;
use std::process::Command;

use packetlog::log::{Log, LogStats};
use packetlog::recorder::{Cause, RecorderOptions, WhenFull};

use super::lab::*;

fn stats(folder: &Path) -> LogStats {
    Log::open(folder).unwrap().stats()
}

/// Packets seen, stored now, lost, overwritten.
fn sums(folder: &Path) -> [u64; 4] {
    let total = stats(folder).total();
    [total.seen_packets, total.stored_packets, total.lost_packets, total.overwritten_packets]
}

#[test]
fn what_was_overwritten_is_not_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..4 {
        let options = RecorderOptions {
            keep_bytes_max: Some(3 << 20),
            when_full: WhenFull::OverwriteUnimportant,
            ..options(folder.path())
        };
        record(options, round * 10_000..(round + 1) * 10_000);
        let [seen, stored, lost, overwritten] = sums(folder.path());
        assert_eq!(seen, u64::from(round + 1) * 10_000);
        assert_eq!(stored, numbers(folder.path()).len() as u64);
        assert_eq!((lost, stored + overwritten), (0, seen));
    }
    let [_, stored, ..] = sums(folder.path());
    assert!(stored < 30_000, "much was overwritten: {stored}");
    let stats = stats(folder.path());
    assert!(stats.is_whole);
    let bytes: Vec<_> = stats.classes.iter().map(|class| class.sums.seen_bytes).collect();
    let wire: u64 = (0..40_000).map(|number| 54 + u64::from(number % 1000_u32)).sum();
    assert_eq!(bytes.iter().sum::<u64>(), wire);
}

#[test]
fn losses_at_the_end_of_the_room_are_in_the_log_itself() {
    let folder = tempfile::tempdir().unwrap();
    let options =
        RecorderOptions { keep_bytes_max: Some(1 << 20), waits: false, ..options(folder.path()) };
    let (mut recorder, _) = begin(options);
    for number in 0..20_000 {
        store(&mut recorder, &Packet::numbered(number), number);
        while recorder.state().chunks_queued.load(std::sync::atomic::Ordering::Relaxed) > 2 {
            std::thread::yield_now();
        }
    }
    let report = recorder.finish().unwrap();
    let [seen, stored, lost, overwritten] = sums(folder.path());
    assert_eq!((seen, stored, overwritten), (20_000, numbers(folder.path()).len() as u64, 0));
    assert_eq!(stored + lost, 20_000);
    assert_eq!(report.lost, [(Cause::LogFull, lost)]);
    assert_eq!(stats(folder.path()).lost, report.lost);
    // The report says of each class what is there, not what was hoped.
    assert_eq!(report.rows.iter().map(|row| row.stored_packets).sum::<u64>(), stored);
    assert_eq!(report.rows.iter().map(|row| row.lost_packets).sum::<u64>(), lost);
}

#[test]
fn a_recording_of_a_capture_ends_where_the_room_does() {
    let folder = tempfile::tempdir().unwrap();
    let (mut recorder, _) = begin(RecorderOptions {
        keep_bytes_max: Some(1 << 20),
        stops: true,
        ..options(folder.path())
    });
    let state = recorder.state();
    for number in 0..20_000 {
        store(&mut recorder, &Packet::numbered(number), number);
        if state.stopped().is_some() {
            break;
        }
    }
    assert_eq!(state.stopped(), Some(Cause::LogFull));
    assert!(state.wanted_bytes.load(std::sync::atomic::Ordering::Relaxed) > 0);
    recorder.finish().unwrap();
    let [seen, stored, lost, _] = sums(folder.path());
    assert_eq!(stored + lost, seen);
    assert!(seen < 20_000 && stored > 1000, "{seen} {stored}");
}

#[test]
fn files_that_somebody_deletes_are_not_called_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (mut recorder, _) = begin(options(folder.path()));
    for number in 0..20_000 {
        store(&mut recorder, &Packet::numbered(number), number);
    }
    recorder.flush();
    let state = recorder.state();
    while state.chunks_queued.load(std::sync::atomic::Ordering::Relaxed) > 0 {
        std::thread::yield_now();
    }
    let first = files(folder.path(), ".pcapng").remove(0);
    std::fs::remove_file(&first).unwrap();
    let report = recorder.finish().unwrap();
    let [seen, stored, lost, overwritten] = sums(folder.path());
    assert!(lost > 0);
    assert_eq!((seen, stored + lost, overwritten), (20_000, 20_000, 0));
    assert_eq!(report.lost, [(Cause::Gone, lost)]);
}

#[test]
fn a_file_deleted_while_nobody_records_counts_as_deleted() {
    let folder = tempfile::tempdir().unwrap();
    record(options(folder.path()), 0..10_000);
    for file in files(folder.path(), "") {
        if file.file_name().unwrap().to_str().unwrap().starts_with("p0-") {
            std::fs::remove_file(file).unwrap();
        }
    }
    assert_eq!(sums(folder.path()), [10_000, 1000, 0, 9000]);
    record(options(folder.path()), 10_000..20_000);
    assert_eq!(sums(folder.path()), [20_000, 11_000, 0, 9000]);
}

/// As a version without ledgers would have left it: the account is all that is known.
fn remove_ledger(folder: &Path) {
    for path in files(folder, ".jsonl") {
        std::fs::remove_file(path).unwrap();
    }
}

/// The child: loses and stores until it is killed.
const FOLDER: &str = "WIRELENS_ACCOUNT_FOLDER";

#[test]
fn a_killed_recorder_has_told_the_disk_of_its_losses() {
    if let Ok(folder) = std::env::var(FOLDER) {
        let options = RecorderOptions {
            keep_bytes_max: Some(1 << 20),
            waits: false,
            ..options(folder.as_ref())
        };
        let (mut recorder, _) = begin(options);
        for number in 0..20_000 {
            store(&mut recorder, &Packet::numbered(number), number);
            while recorder.state().chunks_queued.load(std::sync::atomic::Ordering::Relaxed) > 2 {
                std::thread::yield_now();
            }
        }
        recorder.flush();
        // Long enough for the writer to be idle once.
        std::thread::sleep(std::time::Duration::from_millis(700));
        std::process::abort();
    }
    let folder = tempfile::tempdir().unwrap();
    let name = "account::a_killed_recorder_has_told_the_disk_of_its_losses";
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env(FOLDER, folder.path())
        .output()
        .unwrap();
    assert!(!ended.status.success());
    let [seen, stored, lost, _] = sums(folder.path());
    assert_eq!((seen, stored + lost), (20_000, 20_000));
    assert_eq!(stored, numbers(folder.path()).len() as u64);
    // The next recorder goes on from there, and so do its sums.
    let options = RecorderOptions {
        keep_bytes_max: Some(1 << 20),
        when_full: WhenFull::OverwriteUnimportant,
        ..options(folder.path())
    };
    record(options, 20_000..21_000);
    let [seen, stored, lost_now, overwritten] = sums(folder.path());
    assert_eq!((seen, lost_now), (21_000, lost));
    assert_eq!(stored + lost + overwritten, seen);
}

#[test]
fn chunks_behind_the_account_are_counted_in_once() {
    let folder = tempfile::tempdir().unwrap();
    record(options(folder.path()), 0..5000);
    let account = folder.path().join("account");
    let before = std::fs::read(&account).unwrap();
    record(options(folder.path()), 5000..10_000);
    let after = sums(folder.path());
    assert_eq!(after, [10_000, 10_000, 0, 0]);
    // As if the second recorder had been killed before it wrote its account.
    std::fs::write(&account, before).unwrap();
    assert_eq!(sums(folder.path()), after);
    record(options(folder.path()), 10_000..11_000);
    assert_eq!(sums(folder.path()), [11_000, 11_000, 0, 0]);
}

#[test]
fn a_log_without_an_account_says_so_and_gets_one() {
    let folder = tempfile::tempdir().unwrap();
    record(options(folder.path()), 0..5000);
    std::fs::remove_file(folder.path().join("account")).unwrap();
    remove_ledger(folder.path());
    assert!(!stats(folder.path()).is_whole);
    assert_eq!(sums(folder.path()), [5000, 5000, 0, 0]);
    record(options(folder.path()), 5000..6000);
    assert!(stats(folder.path()).is_whole);
    assert_eq!(sums(folder.path()), [6000, 6000, 0, 0]);
}

#[test]
fn an_account_that_is_damaged_is_named() {
    let folder = tempfile::tempdir().unwrap();
    record(options(folder.path()), 0..1000);
    std::fs::write(folder.path().join("account"), "spoilt").unwrap();
    remove_ledger(folder.path());
    let log = Log::open(folder.path()).unwrap();
    let faults: Vec<_> = log.side_faults().map(ToString::to_string).collect();
    assert!(faults.len() == 1 && faults[0].contains("/account: neither"), "{faults:?}");
    assert!(!log.stats().is_whole);
}
