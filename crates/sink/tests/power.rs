//! A run ends, or the power fails, after any of its operations on the disk: no file has a name that
//! says more than is in it unless the power failed, rows that were flushed are recovered, and
//! nothing panics over what is left.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]
// A test that is skipped says so.
#![allow(clippy::print_stdout)]

use std::path::{Path, PathBuf};

use engine::columns::{Columns, Field, Kind, Schema, Value};
use sink::{Existing, Format, OutputFile, RecoverError, Writer, recover};
use testkit::disk::{Cut, Recording};

const SCHEMA: Schema = &[Field::new("number", Kind::U64, ""), Field::new("text", Kind::Text, "")];
const FOLDER: &str = "WIRELENS_SINK_FOLDER";
const FORMAT: &str = "WIRELENS_SINK_FORMAT";
/// Rows between two flushes, and flushes.
const STEP: u64 = 40;
const STEPS: u64 = 12;

fn rows(range: std::ops::Range<u64>) -> Columns {
    let mut rows = Columns::new(SCHEMA);
    for number in range {
        rows.push_row(&[Value::U64(number), Value::Str(&format!("row \"{number}\"\n"))]).unwrap();
    }
    rows
}

/// The child: two outputs, the second in place of the first.
fn write_in(folder: &Path, format: Format) {
    for _ in 0..2 {
        let path = folder.join("rows.out");
        let file = OutputFile::create(&path, Existing::Replace).unwrap();
        let mut writer = Writer::to_file(format, SCHEMA, file).unwrap();
        for step in 0..STEPS {
            writer.write(&rows(step * STEP..(step + 1) * STEP)).unwrap();
            writer.flush_held().unwrap();
            println!("flushed {}", (step + 1) * STEP);
        }
        writer.finish().unwrap().finish().unwrap();
        println!("complete");
    }
}

/// The rows of a file, saved next to it.
fn saved(left: &Path, saved: &Path, when: &str) -> u64 {
    match recover(left, saved, Existing::Replace) {
        Ok(recovered) => recovered.row_count,
        Err(RecoverError::Output(error)) => panic!("{when}: {error}"),
        Err(_) => 0,
    }
}

fn at_every_operation(test: &str) {
    if let Ok(folder) = std::env::var(FOLDER) {
        let format = std::env::var(FORMAT).unwrap().parse().unwrap();
        return write_in(&PathBuf::from(folder), format);
    }
    for format in Format::ALL {
        let home = tempfile::tempdir().unwrap();
        let place = home.path().join("disk");
        std::fs::create_dir(&place).unwrap();
        let name = format.to_string();
        let environment = [(FOLDER, place.to_str().unwrap()), (FORMAT, name.as_str())];
        let recording = Recording::of_test(test, &environment, &place).unwrap();
        let Some(recording) = recording else {
            println!("skipped: strace is not installed");
            return;
        };
        let count = recording.operations().len();
        assert!(recording.said(count).contains("complete\n") && count > 50, "{count}");
        for done in 0..=count {
            for cut in [Cut::Killed, Cut::Torn, Cut::Power(2 * done as u64)] {
                let folder = tempfile::tempdir().unwrap();
                recording.after(done, cut).write_to(folder.path()).unwrap();
                let at = |name: &str| folder.path().join(name);
                let (out, partial, copy) = (at("rows.out"), at("rows.out.partial"), at("saved"));
                let copy = copy.with_extension(format.suffixes().first().unwrap());
                let when = format!("{format}: {cut:?} after {done}");
                let said = recording.said(done);
                // Of the output that is being written: after `complete` the next one begins.
                let last =
                    said.lines().rfind(|line| line.starts_with("flushed ") || *line == "complete");
                let flushed = last.and_then(|line| line.strip_prefix("flushed "));
                let flushed = flushed.map_or(0, |number| number.parse::<u64>().unwrap());
                let left = if partial.exists() { saved(&partial, &copy, &when) } else { 0 };
                if cut == Cut::Killed && partial.exists() {
                    assert!(left >= flushed, "{when}: {left} of {flushed}");
                }
                if cut == Cut::Killed && out.exists() {
                    assert_eq!(saved(&out, &copy, &when), STEP * STEPS, "{when}");
                }
                // The next run starts, whatever is there.
                write_again(&out, format);
                assert_eq!(saved(&out, &copy, &when), STEP * STEPS, "{when}");
                assert!(!partial.exists(), "{when}");
            }
        }
    }
}

fn write_again(path: &Path, format: Format) {
    let file = OutputFile::create(path, Existing::Replace).unwrap();
    let mut writer = Writer::to_file(format, SCHEMA, file).unwrap();
    writer.write(&rows(0..STEP * STEPS)).unwrap();
    writer.finish().unwrap().finish().unwrap();
}

#[test]
fn what_is_left_after_any_operation_is_read_and_the_next_run_starts() {
    at_every_operation("what_is_left_after_any_operation_is_read_and_the_next_run_starts");
}
