//! Disks that fail: nothing is lost without being counted, the cause is named, the rest is there.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use packet::file::Section;
use packetlog::log::{Log, Query, recover, verify};
use packetlog::recorder::{
    Cause, Direct, Disk, PlainDisk, Recorder, RecorderOptions, RecorderReport, RecorderState,
    StoreOutcome, SyncFile, WhenFull,
};

use super::lab::*;
use super::ledger::lines;

pub(super) fn begin_on(options: RecorderOptions, disk: impl Disk + 'static) -> Recorder {
    let section = Section::default();
    let (mut recorder, _) =
        Recorder::create_on(options, &classes(), &section, clock, Some(Box::new(disk))).unwrap();
    recorder.interface(0, &interface());
    recorder
}

/// Stores packets with these numbers; returns how many found no room immediately.
fn store_all(recorder: &mut Recorder, numbers: std::ops::Range<u32>) -> u64 {
    let mut refused = 0;
    for number in numbers {
        let stored = store(recorder, &Packet::numbered(number), number);
        refused += u64::from(stored != StoreOutcome::Yes);
    }
    refused
}

/// Waits until the writer has nothing left to do.
fn wait(recorder: &mut Recorder) {
    recorder.flush();
    let state = recorder.state();
    for _ in 0..60_000 {
        if state.chunks_queued.load(Ordering::Relaxed) == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("the writer does not come to an end");
}

/// All packets are in the log or counted as lost; returns how many are in it.
fn check_sum(folder: &Path, state: &RecorderState, report: &RecorderReport, stored: u64) -> u64 {
    let there = numbers(folder).len() as u64;
    let lost: u64 = report.lost.iter().map(|(_, lost)| lost).sum();
    assert_eq!(there + lost, stored, "{report:?} {:?}", state.last_error());
    assert_eq!(state.packets_written.load(Ordering::Relaxed), there);
    there
}

/// A file system of its own, gone with the value.
struct Mounted(tempfile::TempDir);

impl Mounted {
    /// Memory of so many bytes; `None`, and said aloud, where that is not allowed.
    fn memory(bytes: u64) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        Self::mount(folder, &["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"])
    }

    /// ext4 on a file of so many bytes in `place`.
    fn ext4(place: &Path, bytes: u64) -> Option<Self> {
        let image = place.join("image");
        File::create(&image).unwrap().set_len(bytes).unwrap();
        let made = Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(&image).output();
        if !made.is_ok_and(|made| made.status.success()) {
            println!("skipped: mkfs.ext4 is not installed");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        Self::mount(folder, &["-o", "loop", image.to_str().unwrap()])
    }

    fn mount(folder: tempfile::TempDir, arguments: &[&str]) -> Option<Self> {
        let output = Command::new("mount").args(arguments).arg(folder.path()).output().unwrap();
        if !output.status.success() {
            println!("skipped: cannot mount: {}", String::from_utf8_lossy(&output.stderr));
            return None;
        }
        Some(Self(folder))
    }

    fn remount(&self, how: &str) {
        let how = format!("remount,{how}");
        let done = Command::new("mount").args(["-o", &how]).arg(self.0.path()).status().unwrap();
        assert!(done.success());
    }

    fn log(&self) -> std::path::PathBuf {
        self.0.path().join("log")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// Fills the disk, sees losses, makes room, sees packets stored again.
fn fill_and_free(disk: &Mounted, direct: Direct) {
    let folder = disk.log();
    let ballast = disk.0.path().join("ballast");
    let (mut recorder, _) = begin(RecorderOptions { direct, ..options(&folder) });
    let state = recorder.state();
    assert_eq!(state.is_direct.load(Ordering::Relaxed) == 1, direct == Direct::Always);
    assert_eq!(store_all(&mut recorder, 0..2000), 0);
    wait(&mut recorder);
    assert_eq!(state.lost_total(), 0);
    std::fs::write(&ballast, vec![1; 64 << 20]).unwrap_err();
    store_all(&mut recorder, 2000..20_000);
    wait(&mut recorder);
    let lost = state.lost(Cause::DiskFull);
    assert!(lost > 1000, "{lost} {:?}", state.last_error());
    assert_eq!(lost, state.lost_total());
    assert!(state.errors(Cause::DiskFull) > 0);
    std::fs::remove_file(&ballast).unwrap();
    store_all(&mut recorder, 20_000..21_000);
    wait(&mut recorder);
    assert_eq!(state.lost_total(), lost, "with room again, nothing more is lost");
    let report = recorder.finish().unwrap();
    check_sum(&folder, &state, &report, 21_000);
    let there = numbers(&folder);
    assert!((0..2000).chain(20_000..21_000).all(|number| there.binary_search(&number).is_ok()));
    assert_eq!(recover(&folder).unwrap().faults, 0);
    let stats = Log::open(&folder).unwrap().stats();
    let total = stats.total();
    assert_eq!(total.seen_packets, total.stored_packets + total.lost_packets, "{stats:?}");
    assert_eq!(total.seen_packets, 21_000, "the log tells of what it lost");
}

#[test]
fn a_full_disk_loses_packets_by_count_and_goes_on_with_room() {
    let Some(disk) = Mounted::memory(3 << 20) else { return };
    fill_and_free(&disk, Direct::Never);
}

#[test]
fn a_full_disk_under_direct_writes_does_too() {
    let place = tempfile::tempdir().unwrap();
    let Some(disk) = Mounted::ext4(place.path(), 8 << 20) else { return };
    fill_and_free(&disk, Direct::Always);
}

#[test]
fn a_full_disk_is_freed_of_what_is_unimportant() {
    let Some(disk) = Mounted::memory(3 << 20) else { return };
    let folder = disk.log();
    let options = RecorderOptions {
        when_full: WhenFull::OverwriteUnimportant,
        file_len_max: 256 << 10,
        ..options(&folder)
    };
    let (mut recorder, _) = begin(options);
    let state = recorder.state();
    store_all(&mut recorder, 0..20_000);
    let report = recorder.finish().unwrap();
    assert_eq!(report.lost, [], "{:?}", state.last_error());
    assert!(state.files_overwritten.load(Ordering::Relaxed) > 0);
    let there = numbers(&folder);
    assert!(there.len() < 20_000);
    assert_eq!(there.last(), Some(&19_999));
    let overwritten: u64 = state.overwritten().iter().map(|row| row.overwritten_packets).sum();
    assert_eq!(there.len() as u64 + overwritten, 20_000);
    let report = verify(&folder, &[]).unwrap();
    assert_eq!((report.findings, report.omitted), (vec![], 0), "what was deleted is recorded");
}

#[test]
fn a_full_disk_is_freed_of_the_open_file_if_there_is_no_other() {
    let Some(disk) = Mounted::memory(3 << 20) else { return };
    let folder = disk.log();
    let options = RecorderOptions {
        when_full: WhenFull::OverwriteUnimportant,
        file_len_max: 1 << 30,
        ..options(&folder)
    };
    let (mut recorder, _) = begin(options);
    let state = recorder.state();
    store_all(&mut recorder, 0..40_000);
    let report = recorder.finish().unwrap();
    let there = numbers(&folder);
    assert_eq!(there.last(), Some(&39_999), "{:?}", state.last_error());
    assert!(state.files_overwritten.load(Ordering::Relaxed) > 0);
    // A block each time that the disk is full, and no more.
    let lost: u64 = report.lost.iter().map(|(_, lost)| lost).sum();
    assert!(lost < 5000, "{report:?}");
    let overwritten: u64 = state.overwritten().iter().map(|row| row.overwritten_packets).sum();
    assert_eq!(there.len() as u64 + overwritten + lost, 40_000);
    assert_eq!(verify(&folder, &[]).unwrap().findings, vec![]);
}

#[test]
fn a_read_only_file_system_is_named_and_survived() {
    let Some(disk) = Mounted::memory(8 << 20) else { return };
    let folder = disk.log();
    let (mut recorder, _) = begin(options(&folder));
    let state = recorder.state();
    disk.remount("ro");
    store_all(&mut recorder, 0..3000);
    wait(&mut recorder);
    assert_eq!(state.lost(Cause::ReadOnly), 3000, "{:?}", state.last_error());
    disk.remount("rw");
    store_all(&mut recorder, 3000..4000);
    let report = recorder.finish().unwrap();
    assert_eq!(check_sum(&folder, &state, &report, 4000), 1000);
    assert!(state.last_error().unwrap().contains("Read-only"), "{:?}", state.last_error());
}

#[test]
fn files_deleted_under_us_are_counted_and_the_next_begin() {
    let folder = tempfile::tempdir().unwrap();
    let (mut recorder, _) = begin(options(folder.path()));
    let state = recorder.state();
    store_all(&mut recorder, 0..2000);
    wait(&mut recorder);
    for file in files(folder.path(), "") {
        std::fs::remove_file(file).unwrap();
    }
    store_all(&mut recorder, 2000..4000);
    recorder.finish().unwrap();
    assert_eq!(numbers(folder.path()), (2000..4000).collect::<Vec<_>>());
    assert_eq!(state.files_gone.load(Ordering::Relaxed), 2, "one of each priority");
    assert!(state.errors(Cause::Gone) >= 2);
    let gone: u64 = state.overwritten().iter().map(|row| row.overwritten_packets).sum();
    assert_eq!(gone, 2000);
    let total = Log::open(folder.path()).unwrap().stats().total();
    assert_eq!(total.lost_packets, 2000, "the log tells of what is missing");
}

#[test]
fn a_deleted_index_begins_a_new_file_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (mut recorder, _) = begin(options(folder.path()));
    store_all(&mut recorder, 0..2000);
    wait(&mut recorder);
    for file in files(folder.path(), ".idx") {
        std::fs::remove_file(file).unwrap();
    }
    store_all(&mut recorder, 2000..3000);
    assert_eq!(recorder.finish().unwrap().lost, []);
    assert_eq!(numbers(folder.path()).len(), 3000);
}

#[test]
fn a_folder_that_is_removed_is_made_again_or_named() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("log");
    let (mut recorder, _) = begin(options(&folder));
    let state = recorder.state();
    store_all(&mut recorder, 0..1000);
    wait(&mut recorder);
    std::fs::remove_dir_all(&folder).unwrap();
    store_all(&mut recorder, 1000..2000);
    wait(&mut recorder);
    assert_eq!(numbers(&folder), (1000..2000).collect::<Vec<_>>());
    // A file where the folder was: it cannot be made again.
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::write(&folder, "in the way").unwrap();
    store_all(&mut recorder, 2000..3000);
    let report = recorder.finish().unwrap();
    // What was in the folder went with it, twice.
    assert_eq!(report.lost, [(Cause::Gone, 3000)], "{:?}", state.last_error());
    assert!(state.account_error().is_some());
}

/// A disk that waits for leave.
#[derive(Clone, Default)]
struct Slow(Arc<(Mutex<u64>, Condvar)>);

impl Slow {
    fn let_pass(&self, writes: u64) {
        *self.0.0.lock().unwrap() = writes;
        self.0.1.notify_all();
    }
}

impl Disk for Slow {
    fn write(&mut self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut left = self.0.0.lock().unwrap();
        while *left == 0 {
            left = self.0.1.wait(left).unwrap();
        }
        *left -= 1;
        PlainDisk.write(file, bytes, offset)
    }
}

#[test]
fn a_slow_disk_never_blocks_and_every_packet_without_room_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Slow::default();
    let options = RecorderOptions { waits: false, ..options(folder.path()) };
    let mut recorder = begin_on(options, disk.clone());
    let state = recorder.state();
    let refused = store_all(&mut recorder, 0..20_000);
    assert!(refused > 10_000, "{refused}");
    assert_eq!(state.lost(Cause::WriterBehind), refused);
    assert_eq!(state.chunks_free.load(Ordering::Relaxed), 0);
    disk.let_pass(u64::MAX);
    wait(&mut recorder);
    assert_eq!(store_all(&mut recorder, 20_000..20_500), 0, "room again");
    let report = recorder.finish().unwrap();
    assert_eq!(report.lost, [(Cause::WriterBehind, refused)]);
    check_sum(folder.path(), &state, &report, 20_500);
    let total = Log::open(folder.path()).unwrap().stats().total();
    assert_eq!((total.seen_packets, total.lost_packets), (20_500, refused));
}

/// A disk whose writes fail now and then: two tries of each that is a multiple of five.
struct Shaky {
    writes: Arc<AtomicU32>,
    fails: u32,
}

impl Disk for Shaky {
    fn write(&mut self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let number = self.writes.fetch_add(1, Ordering::Relaxed);
        if number % 8 < self.fails {
            // Half of it got there.
            PlainDisk.write(file, &bytes[..bytes.len() / 2], offset)?;
            return Err(io::Error::from_raw_os_error(5));
        }
        PlainDisk.write(file, bytes, offset)
    }
}

#[test]
fn writes_that_fail_are_repeated_and_lost_by_count_when_that_fails_too() {
    for (fails, is_lossless) in [(2, true), (5, false)] {
        let folder = tempfile::tempdir().unwrap();
        let disk = Shaky { writes: Arc::default(), fails };
        let mut recorder = begin_on(options(folder.path()), disk);
        let state = recorder.state();
        store_all(&mut recorder, 0..20_000);
        let report = recorder.finish().unwrap();
        let there = check_sum(folder.path(), &state, &report, 20_000);
        assert_eq!(there == 20_000, is_lossless, "{fails}: {report:?}");
        assert!(state.errors(Cause::WriteFailed) > 0);
        assert!(state.last_error().unwrap().contains("p0-") || !is_lossless);
        assert_eq!(Log::open(folder.path()).unwrap().faults().count(), 0, "no hole is left");
    }
}

/// A disk that writes, and synchronises complete files in this way, as long as no test holds it.
struct Syncing(fn(&File) -> io::Result<()>, Arc<Mutex<()>>);

impl Disk for Syncing {
    fn write(&mut self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        PlainDisk.write(file, bytes, offset)
    }

    fn syncing(&self) -> SyncFile {
        let (sync, held) = (self.0, Arc::clone(&self.1));
        Box::new(move |file| {
            drop(held.lock());
            sync(file)
        })
    }
}

#[test]
fn files_that_the_disk_does_not_take_are_counted_lost_and_not_asked_for_again() {
    let folder = tempfile::tempdir().unwrap();
    let small = |boot: &str| RecorderOptions {
        file_len_max: 128 << 10,
        boot: boot.into(),
        ..options(folder.path())
    };
    let fails = |_: &File| Err(io::Error::from_raw_os_error(5));
    let mut recorder = begin_on(small("first"), Syncing(fails, Arc::default()));
    let state = recorder.state();
    store_all(&mut recorder, 0..5000);
    let report = recorder.finish().unwrap();
    let count = files(folder.path(), ".pcapng").len() as u64;
    assert!(count > 4, "{count}");
    assert_eq!((state.errors(Cause::WriteFailed), report.files_unsynced), (count, count));
    assert_eq!(report.lost, [(Cause::WriteFailed, 5000)]);
    let error = state.last_error().unwrap();
    assert!(error.starts_with("synchronising ") && error.contains(".pcapng: "), "{error}");
    let ended = format!("\"unsynced\":{count}}}");
    assert!(lines(folder.path()).pop().unwrap().contains(&ended));
    // Under the same boot a disk that says nothing more proves nothing; after another it is read.
    for (boot, left) in [("first", count), ("second", 0)] {
        let report = begin_on(small(boot), PlainDisk).finish().unwrap();
        assert_eq!((report.files_unsynced, report.lost), (left, vec![]), "{boot}");
        let verified = verify(folder.path(), &[]).unwrap();
        assert_eq!((verified.findings, verified.lost), (vec![], vec![]), "{boot}");
    }
}

#[test]
fn the_end_waits_for_a_disk_no_longer_than_it_says_and_records_what_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let held = Arc::default();
    let options = RecorderOptions {
        sync_wait: Duration::from_millis(20),
        file_len_max: 128 << 10,
        ..options(folder.path())
    };
    let guard = Mutex::lock(&held).unwrap();
    let mut recorder = begin_on(options, Syncing(File::sync_data, Arc::clone(&held)));
    store_all(&mut recorder, 0..5000);
    let report = recorder.finish().unwrap();
    let count = files(folder.path(), ".pcapng").len() as u64;
    assert_eq!((report.files_unsynced, report.lost), (count, vec![]));
    let ended = format!("\"unsynced\":{count}}}");
    assert!(lines(folder.path()).pop().unwrap().contains(&ended));
    drop(guard);
    assert_eq!(
        begin_on(super::lab::options(folder.path()), PlainDisk).finish().unwrap().files_unsynced,
        1,
        "of the file that the disk was asked for it is not known whether it has it"
    );
}

/// What a descriptor of this process was opened for, as the kernel says it.
fn opened(file: &File) -> String {
    let number = file.as_raw_fd();
    let path = fs::read_link(format!("/proc/self/fd/{number}")).unwrap();
    let flags = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap();
    let flags = flags.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim();
    let is_writable = u32::from_str_radix(flags, 8).unwrap() & 0o3 != 0;
    format!("{} {}", path.display(), if is_writable { "written" } else { "read" })
}

#[test]
fn the_disk_is_asked_for_packets_by_the_descriptor_that_wrote_them() {
    let folder = tempfile::tempdir().unwrap();
    let by_another = |file: &File| {
        let is_other = opened(file).ends_with(".pcapng read");
        if is_other { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
    };
    let small = || RecorderOptions { file_len_max: 128 << 10, ..options(folder.path()) };
    let mut recorder = begin_on(small(), Syncing(by_another, Arc::default()));
    store_all(&mut recorder, 0..5000);
    let report = recorder.finish().unwrap();
    assert_eq!((report.files_unsynced, report.lost), (0, vec![]));
}

#[test]
fn files_that_wait_for_the_disk_give_their_room_back_when_they_are_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let held = Arc::default();
    let options = RecorderOptions {
        sync_wait: Duration::from_millis(20),
        file_len_max: 128 << 10,
        keep_bytes_max: Some(1 << 20),
        when_full: WhenFull::OverwriteUnimportant,
        ..options(folder.path())
    };
    let guard = Mutex::lock(&held).unwrap();
    let mut recorder = begin_on(options, Syncing(File::sync_data, Arc::clone(&held)));
    let state = recorder.state();
    store_all(&mut recorder, 0..40_000);
    wait(&mut recorder);
    let overwritten = state.files_overwritten.load(Ordering::Relaxed);
    assert!(overwritten > 4, "{overwritten}");
    let place = folder.path().to_str().unwrap();
    let descriptors = fs::read_dir("/proc/self/fd").unwrap();
    let links = descriptors.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    let deleted = links.filter(|link| {
        let link = link.to_str().unwrap_or_default();
        link.starts_with(place) && link.ends_with(" (deleted)")
    });
    // The one that the disk was asked for.
    assert!(deleted.count() <= 1);
    recorder.finish().unwrap();
    drop(guard);
}

#[test]
fn a_corrupt_chunk_is_passed_over_named_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    record(options(folder.path()), 0..10_000);
    let file = files(folder.path(), ".pcapng").remove(0);
    let handle = OpenOptions::new().read(true).write(true).open(&file).unwrap();
    let mut byte = [0];
    handle.read_exact_at(&mut byte, 2 * 65_536 + 30_000).unwrap();
    handle.write_all_at(&[byte[0] ^ 0x40], 2 * 65_536 + 30_000).unwrap();
    for when in ["as it is", "put right"] {
        let (got, report) = ask(folder.path(), &Query::default());
        assert_eq!(report.faults.len(), 1, "{when}");
        let fault = report.faults[0].to_string();
        assert!(fault.contains("p0-") && fault.contains("at 131072: checksum"), "{fault}");
        assert!(got.len() > 9000 && got.len() < 10_000, "{when}: {}", got.len());
        // A chunk that was acknowledged is evidence: nobody changes it.
        assert_eq!(recover(folder.path()).unwrap().packets_saved, 0);
    }
}

#[test]
fn what_cannot_be_is_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let create = |options: RecorderOptions| {
        Recorder::create(options, &classes(), &Section::default(), clock).unwrap_err().to_string()
    };
    assert!(create(options(&file)).contains("file: "));
    let odd = RecorderOptions { chunk_len: 100_000, ..options(folder.path()) };
    assert_eq!(create(odd), "block-bytes: wanted a multiple of 4096 from 65536 to 16777216");
    let none = Recorder::create(options(folder.path()), &[], &Section::default(), clock);
    assert_eq!(none.unwrap_err().to_string(), "classes: wanted 1 to 800 of them");
    assert!(Log::open(folder.path().join("nowhere")).unwrap_err().to_string().contains("nowhere"));
}

#[test]
fn two_recorders_do_not_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (mut recorder, _) = begin(options(folder.path()));
    let create = || {
        Recorder::create(options(folder.path()), &classes(), &Section::default(), clock)
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    assert!(create().unwrap_err().contains("another recorder is running here"));
    assert!(recover(folder.path()).unwrap_err().to_string().contains("another recorder"));
    store_all(&mut recorder, 0..10);
    recorder.finish().unwrap();
    assert_eq!(create(), Ok(()));
    assert_eq!(numbers(folder.path()).len(), 10);
}
