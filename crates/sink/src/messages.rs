//! Messages of an Arrow stream, checked before the library reads them.
//!
//! A partial file may be damaged or crafted as well as truncated. The library trusts the
//! lengths that a message states where it cuts its buffers from the body, and panics where they do
//! not fit. So each message is first checked here with its own body and the schema; one that does
//! not fit ends the stream, as truncation does.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use arrow_ipc::{MessageHeader, Precision, RecordBatch, Schema, Type};

/// Begins each message.
pub(crate) const MARK: &[u8; 4] = &[0xff; 4];

/// Mark and length of the metadata.
const HEAD_LEN: u64 = 8;
/// The longest metadata that is believed: that of a thousand columns has some 100 kB.
const METADATA_LEN_MAX: u64 = 16 << 20;
/// The largest count of rows in a batch that is believed.
const ROW_COUNT_MAX: i64 = 1 << 40;

/// Bytes of the end of a value.
const END_LEN: u64 = 4;

/// A column as a batch holds it.
#[derive(Clone, Copy)]
enum Column {
    /// Bytes of a value.
    Fixed(u64),
    /// Ends of values, then all values.
    Variable,
}

/// Where the last message ends that the library can be given, from `start` on; `start` itself
/// where the first is no schema of ours.
pub(crate) fn sound_end(file: &File, start: u64, size_bytes: u64) -> io::Result<u64> {
    let mut at = start;
    let mut columns: Option<Vec<Column>> = None;
    while let Some((metadata, body)) = metadata(file, at, size_bytes)? {
        let Ok(message) = arrow_ipc::root_as_message(&metadata) else { break };
        let body_len = u64::try_from(message.bodyLength()).unwrap_or(u64::MAX);
        let Some(end) = body.checked_add(body_len).filter(|&end| end <= size_bytes) else { break };
        let fits = match (&columns, message.header_type()) {
            (None, MessageHeader::Schema) => {
                columns = message.header_as_schema().and_then(columns_of);
                columns.is_some()
            }
            (Some(columns), MessageHeader::RecordBatch) => match message.header_as_record_batch() {
                Some(batch) => batch_fits(&batch, columns, body_len),
                None => false,
            },
            // Ours have no dictionaries, tensors or second schemas.
            _ => false,
        };
        if !fits {
            break;
        }
        at = end;
    }
    Ok(at)
}

/// The metadata of the message at a place, and where its body begins.
fn metadata(file: &File, at: u64, size_bytes: u64) -> io::Result<Option<(Vec<u8>, u64)>> {
    let left = size_bytes.saturating_sub(at);
    if left < HEAD_LEN {
        return Ok(None);
    }
    let mut head = [0; HEAD_LEN as usize];
    file.read_exact_at(&mut head, at)?;
    let [mark @ .., a, b, c, d] = head;
    let len = u64::from(u32::from_le_bytes([a, b, c, d]));
    if mark != *MARK || len == 0 || len > METADATA_LEN_MAX || len > left - HEAD_LEN {
        return Ok(None);
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, at + HEAD_LEN)?;
    Ok(Some((bytes, at + HEAD_LEN + len)))
}

/// The columns of a schema, where all of them are such as we write.
fn columns_of(schema: Schema<'_>) -> Option<Vec<Column>> {
    let mut columns = Vec::new();
    for field in schema.fields()? {
        let has_more = field.dictionary().is_some()
            || field.children().is_some_and(|children| !children.is_empty());
        if has_more {
            return None;
        }
        columns.push(match field.type_type() {
            Type::Int => match field.type_as_int()?.bitWidth() {
                8 => Column::Fixed(1),
                16 => Column::Fixed(2),
                32 => Column::Fixed(4),
                64 => Column::Fixed(8),
                _ => return None,
            },
            Type::FloatingPoint => match field.type_as_floating_point()?.precision() {
                Precision::DOUBLE => Column::Fixed(8),
                Precision::SINGLE => Column::Fixed(4),
                _ => return None,
            },
            Type::Timestamp => Column::Fixed(8),
            Type::Utf8 | Type::Binary => Column::Variable,
            _ => return None,
        });
    }
    Some(columns)
}

/// Whether each buffer of a batch lies in its body, is as long as its rows need, and has whole
/// values.
fn batch_fits(batch: &RecordBatch<'_>, columns: &[Column], body_len: u64) -> bool {
    let (Some(nodes), Some(buffers)) = (batch.nodes(), batch.buffers()) else {
        return columns.is_empty();
    };
    let row_count = batch.length();
    let wanted = columns.iter().map(|column| match column {
        Column::Fixed(_) => 2,
        Column::Variable => 3,
    });
    let is_plain = batch.compression().is_none() && (0..=ROW_COUNT_MAX).contains(&row_count);
    if !is_plain || nodes.len() != columns.len() || buffers.len() != wanted.sum::<usize>() {
        return false;
    }
    let rows = row_count.unsigned_abs();
    let mut next = 0;
    let mut len_of = || {
        let buffer = buffers.get(next);
        next += 1;
        let offset = u64::try_from(buffer.offset()).ok()?;
        let len = u64::try_from(buffer.length()).ok()?;
        (offset.checked_add(len)? <= body_len).then_some(len)
    };
    columns.iter().enumerate().all(|(index, column)| {
        let node = nodes.get(index);
        let (Some(presence_len), Some(first_len)) = (len_of(), len_of()) else { return false };
        let are_nulls = (0..=row_count).contains(&node.null_count());
        let presence = if node.null_count() > 0 { rows.div_ceil(8) } else { 0 };
        let (width, first) = match column {
            Column::Fixed(width) => (*width, rows.saturating_mul(*width)),
            Column::Variable if len_of().is_none() => return false,
            Column::Variable if rows == 0 => (END_LEN, 0),
            Column::Variable => (END_LEN, (rows + 1).saturating_mul(END_LEN)),
        };
        // The library reads all of a buffer as values, and panics at a part of one.
        let is_whole = first_len >= first && first_len.is_multiple_of(width);
        node.length() == row_count && are_nulls && presence_len >= presence && is_whole
    })
}
