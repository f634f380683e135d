//! A log compared with its ledger, as lines for users.

use std::fmt::Write as _;
use std::path::PathBuf;

use packetlog::ledger::{Head, read_heads};
use packetlog::log::VerifyReport;

use super::LogError;

/// Heads that a user names, and those in files of `--anchor` or any other text.
///
/// # Errors
/// [`LogError::Usage`]: a file cannot be read, or there is no head in it.
pub fn anchors(heads: &[Head], paths: &[PathBuf]) -> Result<Vec<Head>, LogError> {
    let mut all = heads.to_vec();
    for path in paths {
        let name = path.display();
        let text = std::fs::read(path).map_err(|error| {
            LogError::usage(format_args!("{name}: {error}; give a file of `record --anchor`"))
        })?;
        let read = read_heads(&String::from_utf8_lossy(&text));
        if read.is_empty() {
            return Err(LogError::usage(format_args!(
                "{name}: no head of a ledger in it; wanted NUMBER:HASH, as `record --anchor` and \
                 `verify --head` write it"
            )));
        }
        all.extend(read);
    }
    Ok(all)
}

/// Whether nothing was changed or removed, and an anchor confirms it if any was given.
#[must_use]
pub fn is_confirmed(report: &VerifyReport, anchors: &[Head]) -> bool {
    let is_anchored = anchors.is_empty() || report.anchored.is_some();
    report.records.is_some() && report.findings.is_empty() && is_anchored
}

/// What was compared, what was found, and what remains unproven.
#[must_use]
pub fn verified_lines(report: &VerifyReport, anchors: &[Head]) -> String {
    let Some((first, head)) = report.records else {
        return String::from(
            "no ledger: this log was recorded by a version without one, or its ledger was \
             removed; the next recorder begins one\n",
        );
    };
    let mut text = String::new();
    let _ = writeln!(
        text,
        "ledger: records {first} to {} in {} files; the log has {} files with {} recorded blocks",
        head.number, report.segments, report.files, report.chunks
    );
    let _ = writeln!(text, "head: {head}");
    for finding in &report.findings {
        let _ = writeln!(text, "{finding}");
    }
    // A power cut, and who removes a block and then has the machine boot, look alike.
    let but = match report.lost.iter().map(|lost| lost.packets).sum::<u64>() {
        0 => String::new(),
        packets => format!(" but {packets} packets that a power cut is recorded to have taken"),
    };
    let verdict = match (report.findings.len(), report.anchored) {
        (0, Some(anchored)) => {
            format!(
                "nothing was changed or removed{but} up to record {}, which is anchored",
                anchored.number
            )
        }
        (0, None) => format!("nothing was changed or removed{but}, as far as the ledger shows"),
        (1, _) => String::from("1 finding"),
        (count, _) => format!("{count} findings"),
    };
    let _ = writeln!(text, "{verdict}");
    for failed in &report.failed {
        let _ = writeln!(
            text,
            "failed write: {}, with {} packets, which are counted as lost ({})",
            failed.place, failed.packets, failed.cause
        );
    }
    unproven(&mut text, report, anchors, head);
    text
}

/// What a user who can write to the folder can have changed without a trace, and what is not known.
fn unproven(text: &mut String, report: &VerifyReport, anchors: &[Head], head: Head) {
    let mut line = |count: u64, what: &str| {
        if count > 0 {
            let _ = writeln!(text, "unproven: {count} {what}");
        }
    };
    match report.anchored {
        Some(anchored) => line(
            head.number.saturating_sub(anchored.number),
            "records after the last anchored one: a user who can write to the folder can rewrite \
             them with their blocks, or cut them off",
        ),
        None if anchors.is_empty() => line(
            head.number,
            "records, all: no anchor was given, so a user who can write to the folder can have \
             rewritten log and ledger together",
        ),
        None => {
            line(head.number, "records, all: no given anchor is among the records that are there")
        }
    }
    line(
        report.anchors_before,
        "anchors are older than the oldest record, and confirm nothing here; a later one covers \
         them",
    );
    line(report.chunks_earlier, "blocks are older than the ledger: their content is not recorded");
    line(
        report.chunks_found,
        "blocks were recorded at the next start, as the recorder that wrote them was killed: \
         their content is known from then on",
    );
    line(
        report.chunks_unrecorded,
        "blocks are not recorded yet: a recorder is running, or was killed",
    );
    line(report.omitted, "records could not be written, as the disk took none");
    line(report.unclean, "recorders did not end properly: what they had in memory is lost");
    for lost in &report.lost {
        let _ = writeln!(
            text,
            "unproven: {}: {} blocks were not on the disk as recorded when the power failed, and \
             {} packets of them are not there (record {}); `record --sync` prevents this",
            lost.file, lost.chunks, lost.packets, lost.number
        );
    }
}

#[cfg(test)]
mod tests {
    use packetlog::log::{FailedWrite, Place};

    use super::*;

    #[test]
    fn a_report_says_what_is_proven_and_what_is_not() {
        let head = Head { number: 9, ..Head::default() };
        let anchored = Head { number: 7, ..Head::default() };
        let mut report = VerifyReport { records: Some((1, head)), ..VerifyReport::default() };
        let lines = verified_lines(&report, &[]);
        assert!(lines.contains("unproven: 9 records, all: no anchor was given"), "{lines}");
        assert!(is_confirmed(&report, &[]) && !is_confirmed(&report, &[anchored]));
        report.anchored = Some(anchored);
        let lines = verified_lines(&report, &[anchored]);
        assert!(lines.contains("up to record 7, which is anchored\n"), "{lines}");
        assert!(lines.contains("unproven: 2 records after the last anchored one"), "{lines}");
        assert!(is_confirmed(&report, &[anchored]));
        let place = Place { file: String::from("p0-x-000001"), offset: 4096, len: 8192 };
        let cause = String::from("write_failed");
        report.failed.push(FailedWrite { place, packets: 7, cause });
        let lines = verified_lines(&report, &[anchored]);
        let failed = "failed write: p0-x-000001: 8192 bytes at 4096, with 7 packets, which are \
                      counted as lost (write_failed)\n";
        assert!(lines.contains(failed) && lines.contains("nothing was changed"), "{lines}");
        assert!(is_confirmed(&report, &[anchored]));
        let none = VerifyReport::default();
        assert!(verified_lines(&none, &[]).starts_with("no ledger") && !is_confirmed(&none, &[]));
    }

    #[test]
    fn a_file_without_a_head_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("heads");
        std::fs::write(&path, "nothing 1:2\n").unwrap();
        let refused = anchors(&[], std::slice::from_ref(&path)).unwrap_err().to_string();
        assert!(refused.contains("no head of a ledger in it"), "{refused}");
        let head = Head { number: 3, hash: [7; 32] };
        std::fs::write(&path, format!("2026 wirelens packetlog {head}\n")).unwrap();
        assert_eq!(anchors(&[head], &[path]), Ok(vec![head, head]));
    }
}
