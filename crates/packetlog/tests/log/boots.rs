//! What a power cut took of a log is recorded at the next boot, and what was changed is found.

use std::path::{Path, PathBuf};

use packetlog::log::{Finding, compress, recover, verify};
use packetlog::own::boot_id;
use packetlog::recorder::RecorderOptions;

use super::lab::*;
use super::ledger::{content, ledger, lines, sealed, set_lines, small_files};

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

/// Adds records to a ledger as a user can who knows its format.
fn forge(folder: &Path, contents: &[String]) {
    let lines = lines(folder);
    let mut all: Vec<String> = lines.iter().map(|line| content(line)).collect();
    all.extend_from_slice(contents);
    set_lines(folder, &sealed(&all));
}

fn start(boot: &str) -> String {
    format!(
        "\"start\":{{\"account\":\"\",\"boot\":\"{boot}\",\"clean\":false,\"sync\":false,\
         \"version\":\"0\"}}"
    )
}

#[test]
fn a_power_cut_within_one_boot_is_a_finding_also_behind_a_start_of_another() {
    for others in [vec![], vec![start("other")]] {
        let (folder, newest) = cut_off();
        let name = newest.file_stem().unwrap().to_str().unwrap();
        let mut forged =
            vec![format!("\"lost\":{{\"chunks\":9,\"file\":\"{name}\",\"packets\":70}}")];
        forged.extend(others);
        forge(folder.path(), &forged);
        let file = std::fs::File::options().write(true).open(&newest).unwrap();
        file.set_len(64 << 10).unwrap();
        record(boot(folder.path(), "first"), 8000..8010);
        let report = verify(folder.path(), &[]).unwrap();
        let is_denied =
            |found: &Finding| matches!(found, Finding::NoPowerCut(lost) if lost.packets == 70);
        assert!(report.findings.iter().any(is_denied), "{report:?}");
        assert_eq!(report.lost, []);
        let text = report.findings.iter().map(Finding::to_string).collect::<String>();
        assert!(text.contains("70 packets are recorded as lost in a power cut, which"), "{text}");
        // After a boot it is one that may have been.
        let (folder, _) = cut_off();
        forge(folder.path(), &forged);
        record(boot(folder.path(), "second"), 8000..8010);
        let report = verify(folder.path(), &[]).unwrap();
        assert!(!report.findings.iter().any(is_denied) && report.lost.len() == 1, "{report:?}");
    }
}

#[test]
fn a_power_cut_is_denied_before_the_next_start_too_and_by_a_ledger_without_boots() {
    for boot in [boot_id(), String::new()] {
        let folder = tempfile::tempdir().unwrap();
        record(RecorderOptions { boot, ..small_files(folder.path()) }, 0..3000);
        let lost = "\"lost\":{\"chunks\":0,\"file\":\"none\",\"packets\":0}";
        forge(folder.path(), &[lost.to_owned()]);
        let findings = verify(folder.path(), &[]).unwrap().findings;
        assert!(matches!(&findings[..], [Finding::NoPowerCut(_)]), "{findings:?}");
    }
}

#[test]
fn zeros_in_a_ledger_are_cut_off_after_a_boot_and_are_a_finding_without_one() {
    for (next, is_cut) in [("first", false), ("second", true), ("", false)] {
        // In its last record, or instead of all of the next segment.
        for is_segment in [false, true] {
            let (folder, _) = cut_off();
            let first = &ledger(folder.path())[0];
            if is_segment {
                std::fs::write(folder.path().join("ledger-000002.jsonl"), [0; 8192]).unwrap();
            } else {
                let mut bytes = std::fs::read(first).unwrap();
                let len = bytes.len();
                bytes[len - 100..].fill(0);
                std::fs::write(first, bytes).unwrap();
            }
            record(boot(folder.path(), next), 8000..8010);
            let report = verify(folder.path(), &[]).unwrap();
            let text = report.findings.iter().map(Finding::to_string).collect::<String>();
            assert_eq!(text.is_empty(), is_cut, "{next} {is_segment}: {report:?}");
            assert_eq!(text.contains("only a power cut leaves them"), !is_cut, "{text}");
            assert_eq!(report.segments == 1, is_cut, "{next} {is_segment}");
            assert_eq!(numbers(folder.path()).len(), 5010);
        }
    }
}

#[test]
fn files_are_offered_to_the_disk_until_it_has_all_and_none_is_doubted_after_that() {
    let folder = tempfile::tempdir().unwrap();
    let sync_wait = std::time::Duration::from_secs(600);
    let one = |boot| RecorderOptions { file_len_max: 64 << 10, sync_wait, ..boot };
    let (mut recorder, _) = begin(one(boot(folder.path(), "first")));
    for number in 0..200_000 {
        store(&mut recorder, &Packet { class: 0, ..Packet::numbered(number) }, number);
    }
    recorder.finish().unwrap();
    let count = files(folder.path(), ".pcapng").len();
    assert!(count > 300, "{count}");
    // As a version left it that did not say what the disk has.
    let synced = |line: &String| line.contains("\"synced\":{");
    let earlier: Vec<String> = lines(folder.path())
        .iter()
        .filter(|line| !synced(line))
        .map(|line| content(line))
        .collect();
    set_lines(folder.path(), &sealed(&earlier));
    let report = begin(one(boot(folder.path(), "first"))).0.finish().unwrap();
    assert_eq!(report.files_unsynced, 0);
    assert_eq!(lines(folder.path()).iter().filter(|line| synced(line)).count(), count);
    assert!(lines(folder.path()).pop().unwrap().contains("\"unsynced\":0}"));
    let removed = files(folder.path(), ".pcapng").remove(count - 2);
    std::fs::remove_file(&removed).unwrap();
    record(one(boot(folder.path(), "second")), 900_000..900_010);
    let report = verify(folder.path(), &[]).unwrap();
    assert_eq!(report.lost, []);
    assert!(matches!(&report.findings[..], [Finding::Gone { .. }]), "{:?}", report.findings);
}

#[test]
fn a_file_that_is_deleted_while_a_recorder_runs_is_gone_whatever_the_next_boot() {
    let (folder, newest) = cut_off();
    let (recorder, _) = begin(boot(folder.path(), "first"));
    std::fs::remove_file(&newest).unwrap();
    recorder.finish().unwrap();
    record(boot(folder.path(), "second"), 8000..8010);
    let report = verify(folder.path(), &[]).unwrap();
    assert!(matches!(&report.findings[..], [Finding::Gone { .. }]), "{:?}", report.findings);
    assert_eq!(report.lost, []);
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
