//! A disk that fails one of several writes on their way leaves a hole, which the ledger explains.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use packetlog::log::{FailedWrite, Finding, Log, compress, recover, verify};
use packetlog::recorder::{Cause, Disk, PlainDisk, RecorderOptions, StoreOutcome, SyncFile};

use super::faults::begin_on;
use super::lab::*;
use super::ledger::copy;

/// A disk with four writes on their way that never takes those to these places, except so many of
/// their bytes, and synchronises files in this way.
struct Spotty(&'static [u64], usize, fn(&File) -> io::Result<()>);

impl Disk for Spotty {
    fn write(&mut self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        if !self.0.contains(&offset) {
            return PlainDisk.write(file, bytes, offset);
        }
        PlainDisk.write(file, &bytes[..bytes.len().min(self.1)], offset)?;
        Err(io::Error::from_raw_os_error(5))
    }

    fn depth(&self) -> usize {
        4
    }

    fn syncing(&self) -> SyncFile {
        Box::new(self.2)
    }
}

/// Places that fail: the first of a file, or two with chunks around them.
const SPOTS: [&[u64]; 2] = [&[0], &[64 << 10, 128 << 10]];

/// With a small ledger.
fn small(folder: &Path, boot: &str) -> RecorderOptions {
    RecorderOptions { keep_bytes_max: Some(4 << 20), boot: boot.into(), ..options(folder) }
}

/// A log whose disk failed, and how many packets are counted as lost.
fn spotty(
    folder: &Path,
    spots: &'static [u64],
    taken: usize,
    sync: fn(&File) -> io::Result<()>,
) -> u64 {
    let mut recorder = begin_on(small(folder, "first"), Spotty(spots, taken, sync));
    for number in 0..6000 {
        let packet = Packet { class: 0, kept_len: 54, ..Packet::numbered(number) };
        assert_eq!(store(&mut recorder, &packet, number), StoreOutcome::Yes);
    }
    let report = recorder.finish().unwrap();
    let [(Cause::WriteFailed, lost)] = report.lost[..] else { panic!("{report:?}") };
    lost
}

/// Nothing of a log was changed, and these writes failed, of no more packets than are lost.
fn check(folder: &Path, lost: u64, when: &str) -> Vec<FailedWrite> {
    let report = verify(folder, &[]).unwrap();
    assert_eq!((report.findings, report.lost), (vec![], vec![]), "{when}");
    assert!(report.failed.iter().all(|failed| failed.cause == "write_failed"), "{when}");
    let packets: u64 = report.failed.iter().map(|failed| failed.packets).sum();
    assert!(packets > 500 && packets <= lost, "{when}: {packets} {lost}");
    report.failed
}

#[test]
fn a_hole_of_a_failed_write_is_recorded_and_is_no_change_before_and_after_a_repair() {
    let cases = SPOTS.into_iter().flat_map(|spots| [0, 20_000, 1 << 20].map(|len| (spots, len)));
    for (spots, taken) in cases {
        let packed = tempfile::tempdir().unwrap();
        let lost = spotty(packed.path(), spots, taken, File::sync_data);
        let folder = copy(packed.path());
        let folder = folder.path();
        let when = format!("{spots:?} {taken}");
        let failed = check(folder, lost, &when);
        assert!(failed.iter().all(|failed| spots.contains(&failed.place.offset)), "{failed:?}");
        compress(packed.path(), 1, false).unwrap();
        assert_eq!(check(packed.path(), lost, &when), failed, "compressed");
        let repaired = recover(folder).unwrap();
        assert_eq!((repaired.packets_saved, repaired.faults), (0, 0), "they are counted as lost");
        assert_eq!(Log::open(folder).unwrap().faults().count(), 0);
        assert_eq!(check(folder, lost, &when), failed, "repaired");
        // All that is left of the records are the sums of the next segment.
        for number in 6000..6100 {
            record(small(folder, "first"), number..number + 1);
            if files(folder, ".jsonl").len() > 1 {
                break;
            }
        }
        fs::remove_file(folder.join("ledger-000001.jsonl")).unwrap();
        assert_eq!(check(folder, lost, &when), failed, "in the sums");
    }
}

#[test]
fn a_hole_outlives_a_power_cut_that_takes_nothing() {
    for spots in SPOTS {
        let folder = tempfile::tempdir().unwrap();
        let fails = |_: &File| Err(io::Error::from_raw_os_error(5));
        let lost = spotty(folder.path(), spots, 20_000, fails);
        let failed = check(folder.path(), lost, "as recorded");
        // The disk may have lost anything, so all is read, and repaired, at this start.
        record(small(folder.path(), "second"), 6000..6100);
        assert_eq!(check(folder.path(), lost, "after another boot"), failed);
    }
}

#[test]
fn a_hole_that_no_recorder_recorded_is_found_next_to_one_that_it_did() {
    let original = tempfile::tempdir().unwrap();
    spotty(original.path(), SPOTS[1], 0, File::sync_data);
    let failed = verify(original.path(), &[]).unwrap().failed;
    let name = format!("{}.pcapng", failed[0].place.file);
    let (first, hole, last) = (0..64 << 10, 64 << 10..128 << 10, 192 << 10..256 << 10);
    // A block of zeros before or behind it, and a block of another place in it.
    for (to, from) in [(&first, None), (&last, None), (&hole, Some(&last))] {
        let folder = copy(original.path());
        let mut bytes = fs::read(folder.path().join(&name)).unwrap();
        match from {
            None => bytes[to.clone()].fill(0),
            Some(from) => bytes.copy_within(from.clone(), to.start),
        }
        fs::write(folder.path().join(&name), &bytes).unwrap();
        let found = verify(folder.path(), &[]).unwrap().findings;
        assert!(!found.is_empty(), "{to:?}");
        let added = found.iter().any(|found| matches!(found, Finding::Added(_)));
        assert_eq!(added, from.is_some(), "{found:?}");
        recover(folder.path()).unwrap();
        assert!(!verify(folder.path(), &[]).unwrap().findings.is_empty(), "{to:?}, repaired");
    }
}
