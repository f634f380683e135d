//! What earlier recorders left in the folder.

use std::path::Path;

use super::fault::RecorderError;
use super::files::{ClosedFile, Series, file_bytes};
use super::options::RecorderOptions;
use crate::account::{Account, SEQUENCE_MAX};
use crate::index::{ClassRow, add_rows};
use crate::ledger::Journal;
use crate::log::{LogError, LogFile, account_of, adopt, open_files};

/// What is there already.
pub(super) struct Shelf {
    pub(super) series: Vec<Series>,
    /// Bytes of its files.
    pub(super) closed_bytes: u64,
    /// The outcome of the packets of earlier recorders.
    pub(super) account: Account,
    /// The ledger, with what is in the folder.
    pub(super) journal: Journal,
    /// Whether the recorder before ended properly, if there was one.
    pub(super) was_stopped: bool,
}

/// The series of each priority with the files that are there, and the bytes of these. Files of a
/// priority that no class has any more are as dear as the next lower one that some class has.
pub(super) fn read(
    folder: &Path,
    priorities: &[u8],
    options: &RecorderOptions,
    ledger_len: u64,
) -> Result<Shelf, RecorderError> {
    let mut series: Vec<Series> =
        priorities.iter().map(|&priority| Series::new(priority)).collect();
    let files = open_files(folder)?;
    let wrong = |error| LogError { path: folder.into(), error };
    let (access, boot) = (options.access, &options.boot);
    let mut journal = Journal::open(folder, access, ledger_len, boot).map_err(wrong)?;
    let was_stopped = journal.is_new() || journal.state().is_stopped;
    adopt(&mut journal, &files, boot)?;
    let account = account_of(folder, &files, &journal.state().account);
    let mut closed_bytes = 0_u64;
    for file in &files {
        let name = &file.name;
        let bytes = file_bytes(folder, name);
        closed_bytes = closed_bytes.saturating_add(bytes);
        let place = series.iter().rposition(|series| series.priority <= name.priority);
        let Some(series) = series.get_mut(place.unwrap_or(0)) else { continue };
        let closed = closed_file(file, bytes, &mut series.next_sequence);
        if series.priority == name.priority {
            series.next_number = series.next_number.max(name.number.saturating_add(1));
        }
        series.closed.push_back(closed);
    }
    for series in &mut series {
        series.next_sequence = series.next_sequence.max(account.next_of(series.priority));
    }
    Ok(Shelf { series, closed_bytes, account, journal, was_stopped })
}

fn closed_file(file: &LogFile, bytes: u64, next_sequence: &mut u64) -> ClosedFile {
    let mut rows: Vec<ClassRow> = Vec::new();
    let mut last_ns = i64::MIN;
    for record in &file.chunks {
        add_rows(&mut rows, &record.trailer.rows);
        if record.trailer.packet_count > 0 {
            last_ns = last_ns.max(record.trailer.last_ns);
        }
        if record.trailer.sequence <= SEQUENCE_MAX {
            *next_sequence = (*next_sequence).max(record.trailer.sequence + 1);
        }
    }
    ClosedFile { name: file.name.clone(), bytes, last_ns, rows, is_own: false }
}
