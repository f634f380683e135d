//! Metadata of a Parquet file's row groups, written while the file still grows.
//!
//! Parquet has its table of contents at the end, so a file whose writer was
//! killed would hold rows that no reader can find. So each row group is followed
//! by one of two records, which readers of the finished file never read,
//! because they go by offsets:
//!
//! - a complete *footer*, by which the file can be opened as it is;
//! - or a *note*: the footer of a file that had this row group alone, ended by
//!   a mark of its own, so that no reader takes that group for the whole file.
//!
//! A footer grows with the file, a note does not. A footer is written once
//! sixteen times its length has come since the last; so all of them together
//! are a sixteenth of the file at most. Notes lead back from the end, since
//! each group begins where the one before was noted: [`read_back`].

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use parquet::errors::ParquetError;
use parquet::file::metadata::{
    FileMetaData, ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::schema::types::SchemaDescPtr;

/// At both ends of a Parquet file.
pub(crate) const MAGIC: &[u8; 4] = b"PAR1";

/// Ends a note.
const NOTE_MAGIC: &[u8; 4] = b"WLRG";

/// Length of the metadata, then the magic.
const TRAILER_LEN: u64 = 8;

/// Bytes written for each byte of footers, at least.
const SHARE: usize = 16;

/// How many bytes the search for the end of the last group takes in at a time.
const SEARCH_STEP: u64 = 1 << 20;

const VERSION: i32 = 1;

/// What to write behind the newest of `groups`, `len` bytes after the last footer.
/// True where it is a footer.
pub(crate) fn behind(
    groups: &[RowGroupMetaData],
    schema: &SchemaDescPtr,
    len: usize,
) -> Result<(Vec<u8>, bool), ParquetError> {
    let newest = groups.last().map(std::slice::from_ref).unwrap_or_default();
    let mut note = footer(newest, schema)?;
    // Not less than the footer's length: each note repeats the schema.
    let footer_len_max = note.len() * groups.len();
    if len >= footer_len_max.saturating_mul(SHARE) {
        return Ok((if groups.len() == 1 { note } else { footer(groups, schema)? }, true));
    }
    let end = note.len().saturating_sub(NOTE_MAGIC.len());
    note.truncate(end);
    note.extend_from_slice(NOTE_MAGIC);
    Ok((note, false))
}

/// The end of a file with these row groups, from the metadata to the magic.
pub(crate) fn footer(
    groups: &[RowGroupMetaData],
    schema: &SchemaDescPtr,
) -> Result<Vec<u8>, ParquetError> {
    // A file that is recovered may state anything.
    let row_count = groups.iter().fold(0, |sum: i64, group| sum.saturating_add(group.num_rows()));
    let created_by = Some(crate::row_groups::CREATED_BY.to_owned());
    let file =
        FileMetaData::new(VERSION, row_count, created_by, None, SchemaDescPtr::clone(schema), None);
    let mut bytes = Vec::new();
    let metadata = ParquetMetaData::new(file, groups.to_vec());
    ParquetMetaDataWriter::new(&mut bytes, &metadata).finish()?;
    Ok(bytes)
}

/// The row groups of a file that was left unfinished.
pub(crate) struct ReadBack {
    pub(crate) schema: SchemaDescPtr,
    /// In the order of the file.
    pub(crate) groups: Vec<RowGroupMetaData>,
    /// Where the last complete one is noted, its note or footer included.
    pub(crate) end: u64,
}

/// Finds what is complete in a file, from its end; nothing where no group is.
pub(crate) fn read_back(file: &File) -> io::Result<Option<ReadBack>> {
    let Some(mut end) = last_end(file)? else { return Ok(None) };
    let mut back: Option<ReadBack> = None;
    // Newest first.
    let mut groups = Vec::new();
    while let Some(found) = ending_at(file, end)? {
        groups.extend(found.metadata.row_groups().iter().rev().cloned());
        back.get_or_insert_with(|| ReadBack {
            schema: found.metadata.file_metadata().schema_descr_ptr(),
            groups: Vec::new(),
            end,
        });
        if !found.is_note || found.data.start <= MAGIC.len() as u64 {
            groups.reverse();
            return Ok(back.map(|back| ReadBack { groups, ..back }));
        }
        end = found.data.start;
    }
    Ok(None)
}

/// A footer or note that was read.
struct FooterNote {
    metadata: ParquetMetaData,
    is_note: bool,
    /// Positions of the row groups that it describes.
    data: Range<u64>,
}

/// Where the last footer or note ends that can be read.
fn last_end(file: &File) -> io::Result<Option<u64>> {
    let mut to = file.metadata()?.len();
    while to >= TRAILER_LEN {
        let from = to.saturating_sub(SEARCH_STEP);
        let mut bytes = vec![0; (to - from) as usize];
        file.read_exact_at(&mut bytes, from)?;
        for (index, window) in bytes.windows(MAGIC.len()).enumerate().rev() {
            let end = from + (index + MAGIC.len()) as u64;
            if (window == MAGIC || window == NOTE_MAGIC) && ending_at(file, end)?.is_some() {
                return Ok(Some(end));
            }
        }
        if from == 0 {
            break;
        }
        // A magic may lie across two steps.
        to = from + MAGIC.len() as u64 - 1;
    }
    Ok(None)
}

/// The footer or note that ends there, if what stands there is one: any four
/// bytes may look like a magic, so what is before them must make sense.
fn ending_at(file: &File, end: u64) -> io::Result<Option<FooterNote>> {
    let mut trailer = [0; TRAILER_LEN as usize];
    let Some(trailer_start) = end.checked_sub(TRAILER_LEN) else { return Ok(None) };
    file.read_exact_at(&mut trailer, trailer_start)?;
    let [a, b, c, d, magic @ ..] = trailer;
    let is_note = magic == *NOTE_MAGIC;
    let len = u64::from(u32::from_le_bytes([a, b, c, d]));
    let start = trailer_start.checked_sub(len).filter(|&start| start >= MAGIC.len() as u64);
    let (Some(start), true) = (start, is_note || magic == *MAGIC) else { return Ok(None) };
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, start)?;
    let Ok(metadata) = ParquetMetaDataReader::decode_metadata(&bytes) else { return Ok(None) };
    let columns = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    let data = columns
        .map(|column| (column.data_page_offset(), column.dictionary_page_offset()))
        .map(|(data, dictionary)| dictionary.unwrap_or(data).min(data))
        .min()
        .and_then(|first| u64::try_from(first).ok());
    Ok(data.filter(|&first| first >= MAGIC.len() as u64 && first < start).map(|first| FooterNote {
        metadata,
        is_note,
        data: first..start,
    }))
}
