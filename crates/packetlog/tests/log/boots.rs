//! What a power cut took of a log is recorded at the next boot, and what was changed is found.

use std::path::{Path, PathBuf};

use packetlog::log::{Finding, compress, recover, verify};
use packetlog::recorder::RecorderOptions;

use super::lab::*;
use super::ledger::{ledger, lines, set_lines, small_files};

/// A log whose second recorder did not end, and its file.
fn cut_off() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    for numbers in [0..3000, 3000..5000] {
        let (mut recorder, _) = begin(boot(folder.path(), "first"));
        for number in numbers {
            let packet = Packet { class: 0, ..Packet::numbered(number) };
            store(&mut recorder, &packet, number);
        }
        recorder.finish().unwrap();
    }
    // The records of its end, and that its file is on the disk, never came there.
    let mut all = lines(folder.path());
    let last = all.iter().rposition(|line| line.contains("\"chunk\":{")).unwrap();
    all.truncate(last + 1);
    set_lines(folder.path(), &all);
    let newest = files(folder.path(), ".pcapng").pop().unwrap();
    (folder, newest)
}

fn boot(folder: &Path, boot: &str) -> RecorderOptions {
    RecorderOptions { boot: boot.into(), ..small_files(folder) }
}

#[test]
fn what_the_disk_had_not_is_lost_after_a_boot_and_removed_without_one() {
    for (next, is_explained) in [("first", false), ("second", true), ("", false)] {
        let (folder, newest) = cut_off();
        let file = std::fs::File::options().write(true).open(&newest).unwrap();
        file.set_len(file.metadata().unwrap().len() / 2).unwrap();
        let before = numbers(folder.path()).len();
        record(boot(folder.path(), next), 8000..8010);
        // The start saves the packets of a torn block as well.
        let left = numbers(folder.path()).len() - 10;
        assert!(left >= before, "{next}: {left} {before}");
        let report = verify(folder.path(), &[]).unwrap();
        assert_eq!(report.findings.is_empty(), is_explained, "{next}: {report:?}");
        assert_eq!(report.lost.len(), usize::from(is_explained), "{next}: {report:?}");
        if let [lost] = &report.lost[..] {
            assert!(newest.ends_with(format!("{}.pcapng", lost.file)));
            assert_eq!(left as u64 + lost.packets, 5000, "{lost:?}");
        }
        // The next boot explains nothing more.
        record(boot(folder.path(), "third"), 8010..8020);
        assert_eq!(verify(folder.path(), &[]).unwrap().lost, report.lost, "{next}");
    }
}

#[test]
fn a_file_that_the_disk_had_is_changed_whatever_the_boot() {
    let (folder, newest) = cut_off();
    let synced = files(folder.path(), ".pcapng").remove(0);
    assert_ne!(synced, newest);
    let mut bytes = std::fs::read(&synced).unwrap();
    bytes[5000] ^= 1;
    std::fs::write(&synced, bytes).unwrap();
    record(boot(folder.path(), "second"), 8000..8010);
    let report = verify(folder.path(), &[]).unwrap();
    assert!(matches!(&report.findings[..], [Finding::Changed(_)]), "{report:?}");
    assert_eq!(report.lost, []);
}

#[test]
fn what_the_disk_never_had_of_the_ledger_is_cut_off() {
    let (folder, _) = cut_off();
    let path = &ledger(folder.path())[0];
    let mut bytes = std::fs::read(path).unwrap();
    let (len, line) = (bytes.len(), lines(folder.path()).pop().unwrap().len());
    bytes[len - line - 1 - 300..][..200].fill(0);
    std::fs::write(path, &bytes).unwrap();
    record(boot(folder.path(), "second"), 8000..8010);
    let report = verify(folder.path(), &[]).unwrap();
    assert_eq!(report.findings, []);
    assert_eq!((report.segments, numbers(folder.path()).len()), (1, 5010));
    // Elsewhere a byte that is changed is damage, as before.
    let (folder, _) = cut_off();
    let mut all = lines(folder.path());
    all[3] = all[3].replace("at", "ta");
    set_lines(folder.path(), &all);
    record(boot(folder.path(), "second"), 8000..8010);
    assert!(!verify(folder.path(), &[]).unwrap().findings.is_empty());
}

#[test]
fn what_root_repairs_is_the_recorders() {
    use std::os::unix::fs::{MetadataExt as _, chown};
    let (folder, newest) = cut_off();
    for path in files(folder.path(), "") {
        // Only root can try it: the tests of the repository also run as other users.
        if chown(&path, Some(65_534), Some(65_534)).is_err() {
            return;
        }
    }
    std::fs::remove_file(newest.with_extension("idx")).unwrap();
    // A damaged record: the next segment is root's to make.
    let mut all = lines(folder.path());
    all[3] = all[3].replace("at", "ta");
    set_lines(folder.path(), &all);
    assert_eq!(recover(folder.path()).unwrap().indexes_made, 1);
    compress(folder.path(), 1, false).unwrap();
    let made = files(folder.path(), "");
    assert!(made.len() > 10 && ledger(folder.path()).len() == 2, "{made:?}");
    for path in made {
        assert_eq!(path.metadata().unwrap().uid(), 65_534, "{path:?}");
    }
}
