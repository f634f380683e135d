//! A run ends, or the power fails, after any of its operations on the disk.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use testkit::disk::{Cut, Recording};

use crate::lent::{Folder, HOUR_NS, Run, START_NS};

const FOLDER: &str = "WIRELENS_HISTORY_FOLDER";
const TEST: &str = "power::no_row_is_there_twice_and_none_that_the_disk_had_is_lost";
/// Rows of the first hour.
const COUNT: u64 = 30;

fn push(run: &Run, numbers: std::ops::Range<u64>, ns: i64) {
    run.push(numbers.map(|number| (number, ns + i64::try_from(number).unwrap())));
}

/// Waits until the disk has everything below a folder.
fn sync_all(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sync_all(&path);
        } else {
            File::open(path).unwrap().sync_all().unwrap();
        }
    }
    File::open(folder).unwrap().sync_all().unwrap();
}

/// The child: an hour in several files that have been on the disk for long, then the next hour,
/// with which the first becomes one file.
fn store_in(folder: &Path) {
    let kept = Folder::at(folder.to_owned());
    let run = Run::new(&kept);
    for start in (0..COUNT).step_by(10) {
        push(&run, start..start + 10, START_NS);
        run.history.flush();
        println!("flushed {}", start + 10);
    }
    sync_all(folder.parent().unwrap());
    println!("synchronised");
    push(&run, COUNT..COUNT + 10, START_NS + HOUR_NS);
    run.history.flush();
    println!("flushed {}", COUNT + 10);
    drop(run);
    std::mem::forget(kept);
}

#[test]
fn no_row_is_there_twice_and_none_that_the_disk_had_is_lost() {
    if let Ok(folder) = std::env::var(FOLDER) {
        return store_in(&PathBuf::from(folder));
    }
    let place = Folder::new("power-recorded");
    fs::create_dir_all(place.path()).unwrap();
    let log = place.path().join("history");
    let environment = [(FOLDER, log.to_str().unwrap())];
    let recording = Recording::of_test(TEST, &environment, place.path()).unwrap();
    let Some(recording) = recording else {
        println!("skipped: strace is not installed");
        return;
    };
    let count = recording.operations().len();
    let synchronised = (0..count).find(|&done| recording.said(done).contains("synchronised"));
    let synchronised = synchronised.unwrap();
    assert!(
        count > synchronised + 50,
        "{count} operations, {synchronised} before the disk has all"
    );
    for done in 0..=count {
        let power = (0..3).map(|seed| Cut::Power(seed * 1_000_003 + done as u64));
        let power = power.filter(|_| done >= synchronised);
        for cut in [Cut::Killed, Cut::Torn].into_iter().chain(power) {
            let folder = Folder::new("power");
            fs::create_dir_all(folder.path()).unwrap();
            recording.after(done, cut).write_to(folder.path()).unwrap();
            let when = format!("{cut:?} after {done}");
            let kept = Folder::at(folder.path().join("history"));
            let run = Run::new(&kept);
            push(&run, 1000..1010, START_NS + 2 * HOUR_NS);
            run.history.flush();
            let all = run.all();
            let mut once = all.clone();
            once.dedup();
            assert_eq!(all.len(), once.len(), "{when}: a row is there twice");
            let said = recording.said(done);
            let flushed = said.lines().rfind(|line| line.starts_with("flushed "));
            let flushed = flushed.map_or(0, |line| line[8..].parse::<usize>().unwrap());
            let wanted = if matches!(cut, Cut::Power(_)) { COUNT as usize } else { flushed };
            assert!(all.len() >= wanted + 10, "{when}: {} of {wanted} rows and ten", all.len());
            assert_eq!(run.history.end().failed_writes, 0, "{when}");
        }
    }
}
