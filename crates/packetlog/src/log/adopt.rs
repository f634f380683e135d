//! What is in a log and not in its ledger, or the other way round, is recorded when it is found.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use super::error::LogError;
use super::file::LogFile;
use crate::file_name::file_names;
use crate::index::IndexRecord;
use crate::ledger::{ChunkEntry, Deletion, Entry, FileEntry, Journal, digest};
use crate::own::is_none_of_ours;

/// Brings a ledger up to date with the files of its log: chunks that a killed recorder had no time
/// to record, files that another program deleted. Files that are older than the ledger are listed
/// without their content, since reading all of them may take hours.
///
/// Where the machine was started again since, which `boot` names, the disk may not have all that
/// was recorded: see [`explain`].
///
/// # Errors
/// A file cannot be read.
pub(crate) fn adopt(journal: &mut Journal, files: &[LogFile], boot: &str) -> Result<(), LogError> {
    let is_new = journal.is_new();
    let doubtful = journal.state().doubtful(boot);
    for name in &doubtful {
        let file = files.iter().find(|file| file.name.stem() == *name);
        explain(journal, name, file).map_err(|error| {
            LogError::new(file.map_or(Path::new(name), |file| &file.path), error)
        })?;
    }
    for file in files {
        let wrong = |error| LogError::new(&file.path, error);
        adopt_file(journal, file, is_new).map_err(wrong)?;
    }
    for file in doubtful {
        // It was read after the power cut.
        if journal.state().files.contains_key(&file) {
            journal.put(&Entry::Synced { file });
        }
    }
    let there: BTreeSet<String> = files.iter().map(|file| file.name.stem()).collect();
    let known = journal.state().files.iter();
    let gone: Vec<_> = known
        .filter(|(name, _)| !there.contains(*name))
        .map(|(name, file)| (name.clone(), file.packets, file.end))
        .collect();
    for (file, packets, bytes) in gone {
        journal.put(&Entry::Delete { file, cause: Deletion::Gone, packets, bytes });
    }
    Ok(())
}

/// Compares what was recorded of a file after its synced part with what the power cut left of it.
/// If that is less, or something else, the records no longer hold, and a record says so: otherwise
/// it would look as if a user had changed the file. What is there is then recorded as found.
fn explain(journal: &mut Journal, name: &str, file: Option<&LogFile>) -> io::Result<()> {
    let Some(known) = journal.state().files.get(name).cloned() else { return Ok(()) };
    let mut left = known.synced_part();
    let is_known = |left: &FileEntry| (left.chunks, left.digest) == (known.chunks, known.digest);
    if let Some(file) = file {
        let (start, mut bytes) = (left.end, Vec::new());
        for record in file.chunks.iter().filter(|record| record.offset >= start) {
            if is_known(&left) {
                break;
            }
            if known.is_hole(record.offset, record.offset.saturating_add(record.len.into())) {
                continue;
            }
            if let Some(chunk) = found(file, record, &mut bytes)? {
                left.add(&chunk);
            }
        }
    }
    if !is_known(&left) {
        let chunks = known.chunks.saturating_sub(known.synced.chunks);
        let packets = known.packets.saturating_sub(left.packets);
        journal.put(&Entry::Lost { file: name.to_owned(), chunks, packets });
    }
    Ok(())
}

/// A chunk as it is recorded when it is found; `None` if its bytes cannot be had.
fn found(
    file: &LogFile,
    record: &IndexRecord,
    bytes: &mut Vec<u8>,
) -> io::Result<Option<ChunkEntry>> {
    if file.read_stored(record, bytes)?.is_err() {
        return Ok(None);
    }
    Ok(Some(ChunkEntry {
        file: file.name.stem(),
        offset: record.offset,
        len: record.len.into(),
        packets: record.trailer.packet_count.into(),
        last_ns: record.trailer.last_ns,
        digest: digest(&[bytes]),
        is_found: true,
    }))
}

fn adopt_file(journal: &mut Journal, file: &LogFile, is_new: bool) -> io::Result<()> {
    let name = file.name.stem();
    let known = journal.state().files.get(&name).cloned();
    if known.is_none() && is_new {
        let chunks = file.chunks.iter();
        let packets = chunks.clone().map(|record| u64::from(record.trailer.packet_count)).sum();
        let end = chunks.map(|record| record.offset + u64::from(record.len)).max().unwrap_or(0);
        let chunks = file.chunks.len() as u64;
        journal.put(&Entry::Earlier { file: name, chunks, end, packets });
        return Ok(());
    }
    let end = known.map_or(0, |known| known.end);
    let mut bytes = Vec::new();
    for record in file.chunks.iter().filter(|record| record.offset >= end) {
        if let Some(chunk) = found(file, record, &mut bytes)? {
            journal.put(&Entry::Chunk(chunk));
        }
    }
    Ok(())
}

/// Opens the files of a folder that can be read.
pub(crate) fn open_files(folder: &Path) -> Result<Vec<LogFile>, LogError> {
    let mut files = Vec::new();
    for name in file_names(folder).map_err(|error| LogError::new(folder, error))? {
        match LogFile::open(folder, &name) {
            Ok(file) => files.push(file),
            Err(LogError { error, .. }) if is_none_of_ours(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(files)
}
