//! What is kept when there is no room for all.

use std::sync::atomic::Ordering;

use packet::Span;
use packet::file::Section;
use packetlog::log::{Log, Query, events_len_max};
use packetlog::recorder::{Cause, ClassInfo, Recorder, RecorderOptions, WhenFull};

use super::lab::*;

/// Bytes of a folder.
fn bytes(folder: &std::path::Path) -> u64 {
    // A file may go while others are counted.
    files(folder, "").iter().map(|file| file.metadata().map_or(0, |file| file.len())).sum()
}

fn scans(folder: &std::path::Path) -> Vec<u32> {
    let query = Query { classes: vec!["scan".into()], ..Query::default() };
    ask(folder, &query).0.iter().map(|got| got.number).collect()
}

/// Stores packets, of a hundred each a block.
fn store_in_blocks(
    recorder: &mut Recorder,
    numbers: std::ops::Range<u32>,
    packet: impl Fn(u32) -> Packet,
) {
    for number in numbers {
        store(recorder, &packet(number), number);
        if number % 100 == 0 {
            recorder.flush();
        }
    }
}

#[test]
fn the_oldest_of_the_least_important_goes_first() {
    let folder = tempfile::tempdir().unwrap();
    let max = 3 << 20;
    let options = RecorderOptions {
        keep_bytes_max: Some(max),
        when_full: WhenFull::OverwriteUnimportant,
        ..options(folder.path())
    };
    let (mut recorder, _) = begin(options);
    let state = recorder.state();
    for number in 0..40_000 {
        store(&mut recorder, &Packet::numbered(number), number);
    }
    let report = recorder.finish().unwrap();
    assert_eq!(report.lost, []);
    assert!(bytes(folder.path()) <= max, "{}", bytes(folder.path()));
    let there = numbers(folder.path());
    let benign: Vec<u32> = there.iter().copied().filter(|number| number % 10 != 0).collect();
    assert_eq!(benign.last(), Some(&39_999));
    let first = benign[0];
    let in_a_row = (first..40_000).filter(|number| number % 10 != 0).count();
    assert_eq!(benign.len(), in_a_row, "from {first} on all of them");
    assert_eq!(scans(folder.path()).len(), 4000, "every scan is there");
    let overwritten = state.overwritten();
    assert_eq!(overwritten.len(), 1, "{overwritten:?}");
    assert_eq!(overwritten[0].overwritten_packets, u64::from(36_000 - benign.len() as u32));
    assert!(state.files_overwritten.load(Ordering::Relaxed) > 3);
}

#[test]
fn nothing_is_overwritten_by_what_is_less_important() {
    let folder = tempfile::tempdir().unwrap();
    let options = RecorderOptions {
        keep_bytes_max: Some(2 << 20),
        when_full: WhenFull::OverwriteUnimportant,
        ..options(folder.path())
    };
    let scan = |number| Packet { class: 1, kept_len: u32::MAX, ..Packet::numbered(number) };
    let (mut recorder, _) = begin(options.clone());
    for number in 0..3000 {
        store(&mut recorder, &scan(number), number);
    }
    assert_eq!(recorder.finish().unwrap().lost, []);
    // Scans made room for scans, and for nothing else.
    let before = scans(folder.path());
    assert!(before.contains(&2999) && before.len() > 1000, "{}", before.len());
    let (mut recorder, _) = begin(options);
    for number in 3000..13_000 {
        store(&mut recorder, &Packet { class: 0, ..Packet::numbered(number) }, number);
    }
    let lost: u64 = recorder.finish().unwrap().lost.iter().map(|(_, lost)| lost).sum();
    assert_eq!(scans(folder.path()), before);
    let stats = Log::open(folder.path()).unwrap().stats();
    let benign = stats.classes.iter().find(|class| class.name == "benign").unwrap().sums;
    assert_eq!(benign.stored_packets + benign.overwritten_packets + lost, 10_000);
    assert!(benign.overwritten_packets + lost > 5000, "{benign:?}");
}

#[test]
fn the_least_important_replaces_its_own_where_others_fill_the_log() {
    for max in [1 << 20, 2 << 20] {
        let folder = tempfile::tempdir().unwrap();
        let options = RecorderOptions {
            keep_bytes_max: Some(max),
            when_full: WhenFull::OverwriteUnimportant,
            ..options(folder.path())
        };
        let (mut recorder, _) = begin(options);
        // Of ten packets nine are scans, many times what the log may have.
        for number in 0..40_000 {
            let class = u16::from(number % 10 != 0);
            let packet = Packet { class, kept_len: u32::MAX, ..Packet::numbered(number) };
            store(&mut recorder, &packet, number);
        }
        assert_eq!(recorder.finish().unwrap().lost, [], "{max}");
        assert!(bytes(folder.path()) <= max, "{}", bytes(folder.path()));
        let there = numbers(folder.path());
        let (benign, scans): (Vec<u32>, Vec<u32>) =
            there.iter().copied().partition(|at| *at % 10 == 0);
        assert_eq!((benign.last(), scans.last()), (Some(&39_990), Some(&39_999)), "{max}");
        assert!(scans.len() > 2 * benign.len(), "{} of {}", scans.len(), benign.len());
        assert!(is_in_a_row(&benign, 10) && scans[0] > 9_000, "{benign:?}");
    }
}

/// Whether each is so much more than the one before.
fn is_in_a_row(numbers: &[u32], step: u32) -> bool {
    numbers.windows(2).all(|pair| pair[1] == pair[0] + step)
}

#[test]
fn a_small_log_of_one_class_keeps_its_newest_packets_and_its_maximum() {
    for max in [200 << 10, 272 << 10, 400 << 10] {
        let folder = tempfile::tempdir().unwrap();
        let options = RecorderOptions {
            keep_bytes_max: Some(max),
            when_full: WhenFull::OverwriteUnimportant,
            ..options(folder.path())
        };
        let (mut recorder, _) = begin(options);
        for number in 0..10_000 {
            store(&mut recorder, &Packet { class: 0, ..Packet::numbered(number) }, number);
        }
        assert_eq!(recorder.finish().unwrap().lost, [], "{max}");
        assert!(bytes(folder.path()) <= max, "{}", bytes(folder.path()));
        assert_eq!(numbers(folder.path()).last(), Some(&9999), "{max}");
    }
}

#[test]
fn a_log_that_may_not_overwrite_stops_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let max = 1 << 20;
    let (mut recorder, _) =
        begin(RecorderOptions { keep_bytes_max: Some(max), ..options(folder.path()) });
    let state = recorder.state();
    for number in 0..20_000 {
        store(&mut recorder, &Packet::numbered(number), number);
    }
    let report = recorder.finish().unwrap();
    let [(Cause::LogFull, lost)] = report.lost[..] else { panic!("{report:?}") };
    let there = numbers(folder.path());
    assert_eq!(there.len() as u64 + lost, 20_000);
    assert_eq!(there[..1000], (0..1000).collect::<Vec<_>>());
    assert!(bytes(folder.path()) <= max);
    assert_eq!(state.last_error().unwrap(), "the log has reached its maximum of 1048576 bytes");
}

#[test]
fn what_is_too_old_goes_and_one_stamp_from_the_future_deletes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let options = RecorderOptions {
        keep_age_max: Some(Span::from_seconds(5)),
        file_span_max: Some(Span::from_seconds(1)),
        ..options(folder.path())
    };
    let (mut recorder, _) = begin(options);
    for number in 0..3000 {
        store(&mut recorder, &Packet::numbered(number), number);
    }
    let future = Packet { ns: i64::MAX / 2, class: 0, ..Packet::numbered(3000) };
    recorder.flush();
    store(&mut recorder, &future, 3000);
    recorder.flush();
    for number in 3001..4000 {
        store(&mut recorder, &Packet::numbered(number), number);
    }
    recorder.flush();
    let state = recorder.state();
    while state.chunks_queued.load(Ordering::Relaxed) > 0 {
        std::thread::yield_now();
    }
    assert_eq!(numbers(folder.path()).len(), 4000, "four seconds are within five");
    store_in_blocks(&mut recorder, 4000..20_000, Packet::numbered);
    recorder.finish().unwrap();
    let there = numbers(folder.path());
    assert!(there.contains(&15_000) && !there.contains(&9000), "{:?}", there.first());
}

#[test]
fn a_stamp_from_the_future_keeps_no_other_file() {
    let folder = tempfile::tempdir().unwrap();
    let options = RecorderOptions {
        keep_age_max: Some(Span::from_seconds(5)),
        file_span_max: Some(Span::from_seconds(1)),
        ..options(folder.path())
    };
    let (mut recorder, _) = begin(options);
    let future = Packet { ns: i64::MAX / 2, class: 0, ..Packet::numbered(0) };
    store(&mut recorder, &future, 0);
    recorder.flush();
    let benign = |number| Packet { class: 0, ..Packet::numbered(number) };
    store_in_blocks(&mut recorder, 1..20_000, benign);
    recorder.finish().unwrap();
    let there = numbers(folder.path());
    assert_eq!(there[0], 0, "its own file is there");
    assert!(there[1] > 12_000 && there.contains(&15_001), "{}", there[1]);
}

#[test]
fn a_class_that_is_quiet_is_not_kept_longer_than_others() {
    let folder = tempfile::tempdir().unwrap();
    let options =
        RecorderOptions { keep_age_max: Some(Span::from_seconds(5)), ..options(folder.path()) };
    let (mut recorder, _) = begin(options);
    let state = recorder.state();
    let first_are_scans =
        |number| Packet { class: u16::from(number < 50), ..Packet::numbered(number) };
    store_in_blocks(&mut recorder, 0..20_000, first_are_scans);
    recorder.finish().unwrap();
    assert!(scans(folder.path()).is_empty());
    let overwritten: u64 = state.overwritten().iter().map(|row| row.overwritten_packets).sum();
    assert_eq!(numbers(folder.path()).len() as u64 + overwritten, 20_000);
}

#[test]
fn a_compressed_log_keeps_its_maximum() {
    let folder = tempfile::tempdir().unwrap();
    let max = 2 << 20;
    let options = RecorderOptions {
        keep_bytes_max: Some(max),
        when_full: WhenFull::OverwriteUnimportant,
        compress: Some(3),
        ..options(folder.path())
    };
    let (mut recorder, _) = begin(options);
    let state = recorder.state();
    for number in 0..60_000 {
        let packet = Packet { class: 0, kept_len: 200, ..Packet::numbered(number) };
        store(&mut recorder, &packet, number);
        if number % 2000 == 0 {
            // Until files that are closed are smaller: deleted before, they are as they were.
            recorder.flush();
            for _ in 0..10_000 {
                if files(folder.path(), ".pcapng").len() <= 1 {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            assert!(bytes(folder.path()) <= max, "{number}: {}", bytes(folder.path()));
        }
    }
    assert_eq!(recorder.finish().unwrap().lost, []);
    assert!(bytes(folder.path()) <= max, "{}", bytes(folder.path()));
    assert!(state.files_overwritten.load(Ordering::Relaxed) > 20);
    assert!(state.bytes_saved.load(Ordering::Relaxed) > 0);
    // What is counted is what is there, but for the ledger, which is counted as it may become.
    let counted = state.log_bytes.load(Ordering::Relaxed);
    assert!(counted.abs_diff(bytes(folder.path())) < max / 4, "{counted}");
}

#[test]
fn blocks_of_a_small_log_are_small_enough_for_it() {
    for max in [512 << 10, 4 << 20] {
        let folder = tempfile::tempdir().unwrap();
        let options = RecorderOptions {
            keep_bytes_max: Some(max),
            when_full: WhenFull::OverwriteUnimportant,
            chunk_len: 4 << 20,
            file_len_max: 1 << 30,
            ..options(folder.path())
        };
        let (mut recorder, _) = begin(options);
        for number in 0..40_000 {
            let packet = Packet { kept_len: u32::MAX, ..Packet::numbered(number) };
            store(&mut recorder, &packet, number);
        }
        assert_eq!(recorder.finish().unwrap().lost, [], "{max}");
        assert!(bytes(folder.path()) <= max, "{}", bytes(folder.path()));
        assert_eq!(numbers(folder.path()).last(), Some(&39_999));
    }
}

#[test]
fn a_log_goes_on_where_the_last_recorder_ended() {
    let folder = tempfile::tempdir().unwrap();
    let max = 4 << 20;
    for round in 0..4 {
        let options = RecorderOptions {
            keep_bytes_max: Some(max),
            when_full: WhenFull::OverwriteUnimportant,
            ..options(folder.path())
        };
        record(options, round * 10_000..(round + 1) * 10_000);
    }
    assert!(bytes(folder.path()) <= max);
    let there = numbers(folder.path());
    assert_eq!(there.last(), Some(&39_999));
    let names = files(folder.path(), ".pcapng");
    let unique: std::collections::HashSet<_> = names.iter().collect();
    assert_eq!(unique.len(), names.len());
}

#[test]
fn files_of_a_priority_that_is_gone_make_room_too() {
    let folder = tempfile::tempdir().unwrap();
    record(options(folder.path()), 0..20_000);
    let mut recorded = files(folder.path(), ".pcapng").into_iter();
    let scans = recorded.find(|path| path.to_str().unwrap().contains("/p1-")).unwrap();
    let class = ClassInfo { name: "all".into(), priority: 0 };
    let options = RecorderOptions {
        keep_bytes_max: Some(1 << 20),
        when_full: WhenFull::OverwriteUnimportant,
        ..options(folder.path())
    };
    let (mut recorder, _) =
        Recorder::create(options, &[class], &Section::default(), clock).unwrap();
    for number in 20_000..22_000 {
        store(&mut recorder, &Packet { class: 0, ..Packet::numbered(number) }, number);
    }
    assert_eq!(recorder.finish().unwrap().lost, []);
    assert!(!scans.exists());
    assert!(bytes(folder.path()) <= 1 << 20);
}

#[test]
fn both_files_of_events_count_towards_what_the_log_may_have() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("events.jsonl"), vec![b' '; 100 << 10]).unwrap();
    std::fs::write(folder.path().join("events.jsonl.1"), vec![b' '; 200 << 10]).unwrap();
    let options = RecorderOptions {
        keep_bytes_max: Some(1 << 20),
        when_full: WhenFull::OverwriteUnimportant,
        ..options(folder.path())
    };
    record(options, 0..20_000);
    let stats = Log::open(folder.path()).unwrap().stats();
    assert_eq!(stats.event_bytes, 300 << 10);
    let bytes = bytes(folder.path());
    assert!(bytes > 700 << 10 && bytes <= 1 << 20, "{bytes}");
    assert_eq!(events_len_max(None), 4 << 20);
    assert_eq!([1 << 20, 1 << 30].map(|max| events_len_max(Some(max))), [16 << 10, 4 << 20]);
}
