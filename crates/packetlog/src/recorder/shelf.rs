//! What earlier recorders left in the folder.

use std::path::Path;

use super::fault::RecorderError;
use super::files::{ClosedFile, FileName, Series, file_bytes, file_names};
use crate::index::{ClassRow, add_rows};
use crate::log::{LogError, LogFile};

/// The series of each priority with the files that are there, and the bytes of these. Files of a
/// priority that no class has any more are as dear as the next lower one that some class has.
pub(super) fn read(folder: &Path, priorities: &[u8]) -> Result<(Vec<Series>, u64), RecorderError> {
    let mut series: Vec<Series> =
        priorities.iter().map(|&priority| Series::new(priority)).collect();
    let names = file_names(folder).map_err(|error| LogError { path: folder.into(), error })?;
    let mut closed_bytes = 0;
    for name in &names {
        let bytes = file_bytes(folder, name);
        closed_bytes += bytes;
        let place = series.iter().rposition(|series| series.priority <= name.priority);
        let Some(series) = series.get_mut(place.unwrap_or(0)) else { continue };
        let closed = closed_file(folder, name, bytes, &mut series.next_sequence)?;
        if series.priority == name.priority {
            series.next_number = series.next_number.max(name.number.saturating_add(1));
        }
        series.closed.push_back(closed);
    }
    Ok((series, closed_bytes))
}

fn closed_file(
    folder: &Path,
    name: &FileName,
    bytes: u64,
    next_sequence: &mut u64,
) -> Result<ClosedFile, LogError> {
    let file = LogFile::open(folder, name)?;
    let mut rows: Vec<ClassRow> = Vec::new();
    let mut last_ns = i64::MIN;
    for record in &file.chunks {
        add_rows(&mut rows, &record.trailer.rows);
        if record.trailer.packet_count > 0 {
            last_ns = last_ns.max(record.trailer.last_ns);
        }
        *next_sequence = (*next_sequence).max(record.trailer.sequence.saturating_add(1));
    }
    Ok(ClosedFile { name: name.clone(), bytes, last_ns, rows })
}
