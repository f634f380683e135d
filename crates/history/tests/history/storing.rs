use std::fs;

use engine::columns::{Columns, Field, Kind, Schema, Value};
use history::{Ask, History, HistoryError};
use packet::Span;
use store::query::{Filter, TimeRange, cell};
use store::{RowChunk, Store, TableLimits};

use crate::lent::{Folder, HOUR_NS, Run, SCHEMA, START_NS, options, row, texts};

fn rows(numbers: std::ops::Range<u64>, ns: i64) -> impl Iterator<Item = (u64, i64)> {
    numbers.map(move |number| (number, ns + i64::try_from(number).unwrap()))
}

fn wanted(rows: impl Iterator<Item = (u64, i64)>) -> Vec<String> {
    let held: Vec<_> = rows.map(|(number, ns)| RowChunk::own(row(number, Some(ns)))).collect();
    texts(&held)
}

#[test]
fn every_kind_comes_back_in_a_later_run() {
    let folder = Folder::new("kinds");
    let run = Run::new(&folder);
    run.push(rows(0..100, START_NS));
    run.table.push(&row(100, None));
    assert_eq!(run.history.end().row_count, 101);
    drop(run);
    let run = Run::new(&folder);
    assert_eq!(run.history.taken("flows"), 0);
    let mut expected = wanted(rows(0..100, START_NS));
    expected.extend(texts(&[RowChunk::own(row(100, None))]));
    expected.sort();
    assert_eq!(run.all(), expected);
    run.push(rows(200..300, START_NS + HOUR_NS));
    expected.extend(wanted(rows(200..300, START_NS + HOUR_NS)));
    expected.sort();
    assert_eq!(run.all(), expected, "stored rows and those in memory");
    run.history.flush();
    assert_eq!(run.history.taken("flows"), 100);
    assert_eq!(run.all(), expected, "the same once these are stored");
    let state = run.history.end();
    assert_eq!((state.missed, state.damaged_files, state.failed_writes), (0, 0, 0), "{state:?}");
    let flows = state.tables.iter().find(|table| table.name == "flows").unwrap();
    assert_eq!(flows.first_ns, START_NS, "{state:?}");
    assert_eq!(flows.last_ns, START_NS + 99 * HOUR_NS, "the row without a time: when it came");
}

#[test]
fn an_hour_that_is_over_becomes_one_file_with_the_same_rows() {
    let folder = Folder::new("compact");
    let run = Run::new(&folder);
    for start in (0..100).step_by(10) {
        run.push(rows(start..start + 10, START_NS));
        run.history.flush();
    }
    assert_eq!(folder.files_of("flows").len(), 10);
    let before: Vec<_> =
        folder.files_of("flows").into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect();
    run.push(rows(100..110, START_NS + HOUR_NS));
    run.history.flush();
    assert_eq!(folder.files_of("flows").len(), 2, "{:?}", folder.files());
    let mut expected = wanted(rows(0..100, START_NS));
    expected.extend(wanted(rows(100..110, START_NS + HOUR_NS)));
    expected.sort();
    assert_eq!(run.all(), expected);
    drop(run);
    // As if the run had ended between the two steps, and in the middle of a file.
    for (bytes, path) in &before {
        fs::write(path, bytes).unwrap();
    }
    let partial = before[0].1.with_extension("parquet.partial");
    fs::write(&partial, "PAR1").unwrap();
    let run = Run::new(&folder);
    assert_eq!(folder.files_of("flows").len(), 2);
    assert!(!partial.exists());
    assert_eq!(run.all(), expected);
}

#[test]
fn late_rows_do_not_compact_an_hour_again_and_again() {
    let folder = Folder::new("late");
    let run = Run::new(&folder);
    run.push(rows(0..10, START_NS + HOUR_NS));
    let mut most = 0;
    for start in (10..300).step_by(10) {
        run.push(rows(start..start + 10, START_NS));
        run.history.flush();
        most = most.max(folder.files_of("flows").len());
    }
    assert!((4..=11).contains(&most), "{most}");
    assert_eq!(run.all().len(), 300);
}

#[test]
fn hours_go_by_age() {
    let folder = Folder::new("age");
    let mut options = options(&folder);
    options.keep = Span::from_seconds(2 * 3_600);
    let run = Run::with(options, SCHEMA, TableLimits::default());
    for hour in 0..6 {
        run.push(rows(0..10, START_NS + hour * HOUR_NS));
    }
    run.history.flush();
    assert_eq!(run.all().len(), 30);
    let state = run.history.state();
    assert_eq!((state.evicted_hours, state.missed), (3, 0), "{state:?}");
    let left = folder.path().join("flows/date=2025-11-25/hour=13");
    assert!(!left.exists(), "an empty folder goes too");
    run.push(rows(0..1, START_NS + 90_000 * HOUR_NS));
    run.history.flush();
    assert_eq!(
        run.all().len(),
        1,
        "a stamp from the future removes what the clock does, and not itself"
    );
}

#[test]
fn the_oldest_hours_go_for_space() {
    let folder = Folder::new("space");
    let mut options = options(&folder);
    options.keep_bytes = 60_000;
    let run = Run::with(options, SCHEMA, TableLimits::default());
    for hour in 0..20 {
        run.push(rows(0..50, START_NS + hour * HOUR_NS));
        run.history.flush();
        let state = run.history.state();
        assert!(state.byte_count <= 60_000, "{state:?}");
        let files = folder.files();
        let sizes = files.iter().map(|path| fs::metadata(path).unwrap().len());
        assert_eq!(state.byte_count, sizes.sum::<u64>());
    }
    let state = run.history.state();
    assert!(state.evicted_hours > 5, "{state:?}");
    let flows = state.tables.iter().find(|table| table.name == "flows").unwrap();
    assert_eq!(flows.last_ns, START_NS + 19 * HOUR_NS + 49, "the newest are there");
    for _ in 0..60 {
        run.push(rows(0..50, START_NS + 30 * HOUR_NS));
        run.history.flush();
        assert!(run.history.state().byte_count <= 60_000, "within one hour too");
    }
}

#[test]
fn an_hour_larger_than_what_may_be_kept_goes_file_by_file() {
    let folder = Folder::new("large");
    let mut options = options(&folder);
    options.keep_bytes = 60_000;
    let run = Run::with(options, SCHEMA, TableLimits::default());
    for start in (0..2_000).step_by(50) {
        run.push(rows(start..start + 50, START_NS));
        run.history.flush();
    }
    let before = run.history.state();
    assert!(before.byte_count > 50_000, "{before:?}");
    run.push(rows(2_000..2_050, START_NS + HOUR_NS));
    run.history.flush();
    let state = run.history.state();
    assert!((50_000..=60_000).contains(&state.byte_count), "{state:?}");
    assert_eq!((state.evicted_hours, state.missed), (0, 0), "{state:?}");
    let mut newest = wanted(rows(1_950..2_000, START_NS));
    newest.extend(wanted(rows(2_000..2_050, START_NS + HOUR_NS)));
    let all = run.all();
    assert!(newest.iter().all(|row| all.contains(row)), "the rows before the change of the hour");
    assert!(folder.files_of("flows").len() > 2, "not compacted: {:?}", folder.files());
}

#[test]
fn rows_wait_rather_than_leave_memory_before_they_are_stored() {
    let folder = Folder::new("waiting");
    let limits = TableLimits { row_count: 5_000, ..TableLimits::default() };
    let run = Run::with(options(&folder), SCHEMA, limits);
    for start in (0..20_000).step_by(500) {
        run.push(rows(start..start + 500, START_NS));
    }
    let state = run.history.end();
    assert_eq!((state.row_count, state.missed), (20_000, 0), "{state:?}");
    assert_eq!(run.all().len(), 20_000);
}

#[test]
fn rows_that_left_memory_because_they_could_not_be_stored_are_counted() {
    let folder = Folder::new("missed");
    let limits = TableLimits { row_count: 5_000, ..TableLimits::default() };
    let run = Run::with(options(&folder), SCHEMA, limits);
    let in_the_way = folder.path().join("flows@1m-dst_port");
    fs::write(&in_the_way, "").unwrap();
    run.push(rows(0..10, START_NS));
    run.history.flush();
    for start in (0..20_000).step_by(500) {
        run.push(rows(start..start + 500, START_NS));
    }
    fs::remove_file(&in_the_way).unwrap();
    let state = run.history.end();
    assert_eq!(state.row_count + state.missed, 20_010, "{state:?}");
    assert!(state.missed >= 14_000, "{state:?}");
    assert_eq!(run.all().len() as u64, state.row_count);
}

#[test]
fn rows_that_cannot_be_written_are_tried_again() {
    let folder = Folder::new("refused");
    let run = Run::new(&folder);
    // A table of sums that cannot be written: what was written of the rows before goes.
    let in_the_way = folder.path().join("flows@1m-dst_port");
    fs::write(&in_the_way, "").unwrap();
    run.push(rows(0..10, START_NS));
    run.history.flush();
    let state = run.history.state();
    assert_eq!((state.failed_writes, state.row_count, state.missed), (1, 0, 0), "{state:?}");
    assert!(state.trouble.unwrap().contains("flows@1m-dst_port"));
    assert_eq!((run.all().len(), folder.files_of("flows").len()), (10, 0));
    fs::remove_file(&in_the_way).unwrap();
    run.history.flush();
    assert_eq!((run.history.state().row_count, run.all().len()), (10, 10));
}

#[test]
fn columns_come_and_go_between_versions() {
    const OLD: Schema = &[
        Field::new("gone", Kind::Text, ""),
        Field::new("score", Kind::U64, "a float by now"),
        Field::new("src_bytes", Kind::U64, "").nullable(),
        Field::new("dst_bytes", Kind::U64, "may lack values by now"),
        Field::new("last_ns", Kind::TimestampNs, ""),
    ];
    let folder = Folder::new("versions");
    let old = Run::with(options(&folder), OLD, TableLimits::default());
    let mut rows = Columns::new(OLD);
    let time = Value::TimestampNs(START_NS);
    rows.push_row(&[Value::Str("a"), Value::U64(1), Value::Null, Value::U64(7), time]).unwrap();
    old.table.push(&rows);
    drop(old);
    let run = Run::new(&folder);
    run.push([(1, START_NS + 1)]);
    run.history.flush();
    run.push([(2, START_NS + HOUR_NS)]);
    run.history.flush();
    assert_eq!(folder.files_of("flows").len(), 3, "files of other columns stay apart");
    let filter = Filter::all();
    let range = TimeRange { from_ns: None, to_ns: Some(START_NS + 1) };
    let ask = Ask { range, filter: &filter, columns: None };
    let found = run.history.stored("flows", SCHEMA, &ask);
    let [held] = &found.chunks[..] else { panic!("one file: {}", found.chunks.len()) };
    let place = |name: &str| SCHEMA.iter().position(|field| field.name == name).unwrap();
    let of = |name: &str| format!("{:?}", cell(held.columns(), place(name), 0));
    assert_eq!([of("dst_bytes"), of("src_bytes")], ["Integer(7)", "Integer(0)"]);
    assert_eq!([of("score"), of("app_protocol"), of("dst_port")], ["Null"; 3]);
    assert_eq!(of("community_id"), "Text(\"\")");
}

#[test]
fn two_runs_do_not_write_one_folder() {
    let folder = Folder::new("busy");
    let first = Run::new(&folder);
    let error = History::begin(options(&folder), Store::new()).err().unwrap();
    assert!(matches!(error, HistoryError::Busy { .. }));
    let said = error.to_string();
    assert!(said.contains(&format!("is in use by process {}", std::process::id())), "{said}");
    drop(first);
    assert!(History::begin(options(&folder), Store::new()).is_ok());
    fs::write(folder.path().join("file"), "").unwrap();
    let mut options = options(&folder);
    options.folder = folder.path().join("file");
    let said = History::begin(options, Store::new()).err().unwrap().to_string();
    assert!(said.contains("cannot be used"), "{said}");
}

#[test]
fn a_damaged_file_is_counted_once_and_passed_over() {
    let folder = Folder::new("damaged");
    let run = Run::new(&folder);
    for hour in 0..3 {
        run.push(rows(0..10, START_NS + hour * HOUR_NS));
        run.history.flush();
    }
    drop(run);
    let damaged = &folder.files_of("flows")[1];
    let sound = fs::read(damaged).unwrap();
    fs::write(damaged, &sound[..sound.len() / 2]).unwrap();
    let run = Run::new(&folder);
    assert_eq!((run.all().len(), run.all().len()), (20, 20));
    let state = run.history.state();
    assert_eq!(state.damaged_files, 1);
    assert!(state.trouble.unwrap().contains(damaged.to_str().unwrap()));
    drop(run);
    // Whatever is in a file, a query ends and the others are found.
    for at in (0..sound.len()).step_by(sound.len() / 150) {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x55;
        fs::write(damaged, &bytes).unwrap();
        assert!(Run::new(&folder).all().len() >= 20);
    }
}
