//! Rows held back until there are enough for one row group or record batch.
//!
//! Applications hand over a window's rows at a time, often a dozen; a file of
//! such groups would be mostly headers. What is held is bounded three times: by
//! rows, by bytes of text, to which byte columns count, and by bytes of all else, since a row may
//! have thousands of columns.

use std::mem;
use std::ops::Range;

use engine::columns::{Column, Columns, Field, Kind, Schema, Values};

use crate::WriteError;

/// Rows in a full group: large enough to compress well, small enough that a
/// reader has something to spread over its threads.
pub(crate) const GROUP_ROWS_MAX: usize = 128 * 1024;

/// Bytes of values that are not text in a full group.
const GROUP_FIXED_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Text that makes a group full before its rows do.
const GROUP_TEXT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Rows taken over between two looks at the text held. With it, the text bound
/// may be passed by this many values and no more.
const STEP_ROWS: usize = 1024;

/// One column, laid out as the formats want it.
pub(crate) struct ColumnData {
    /// A missing value stands in them as zero or empty text.
    pub(crate) values: HeldValues,
    /// Of a nullable column only: whether each row has a value.
    pub(crate) presence: Option<Vec<bool>>,
}

/// One column's values.
pub(crate) enum HeldValues {
    U64(Vec<u64>),
    U32(Vec<u32>),
    U16(Vec<u16>),
    I8(Vec<i8>),
    TimestampNs(Vec<i64>),
    F64(Vec<f64>),
    Text { bytes: Vec<u8>, ends: Vec<i32> },
    Bytes { bytes: Vec<u8>, ends: Vec<i32> },
}

/// The rows of one group to be.
pub(crate) struct Rows {
    schema: Schema,
    columns: Vec<ColumnData>,
    row_count: usize,
    text_bytes: usize,
    row_count_max: usize,
    text_bytes_max: usize,
}

impl Rows {
    pub(crate) fn new(schema: Schema) -> Self {
        Self::bounded(schema, GROUP_ROWS_MAX, GROUP_TEXT_BYTES_MAX)
    }

    /// Full at so many rows, or so many bytes of text.
    pub(crate) fn bounded(schema: Schema, row_count_max: usize, text_bytes_max: usize) -> Self {
        let columns = empty(schema);
        let row_bytes: usize = schema.iter().map(|field| fixed_bytes(field.kind)).sum();
        let row_count_max = row_count_max.min(GROUP_FIXED_BYTES_MAX / row_bytes.max(1)).max(1);
        Self { schema, columns, row_count: 0, text_bytes: 0, row_count_max, text_bytes_max }
    }

    /// Takes rows over from `next` on, until the group is full or they are all
    /// taken; says how far it came.
    pub(crate) fn fill(&mut self, rows: &Columns, next: usize) -> Result<usize, WriteError> {
        let mut next = next;
        while next < rows.row_count() && !self.is_full() {
            let step =
                STEP_ROWS.min(self.row_count_max - self.row_count).min(rows.row_count() - next);
            for ((held, column), field) in
                self.columns.iter_mut().zip(rows.columns()).zip(self.schema)
            {
                match held.append(column, next..next + step) {
                    Some(text_bytes) => self.text_bytes += text_bytes,
                    None => return Err(WriteError::TextTooLong(field.name)),
                }
            }
            self.row_count += step;
            next += step;
        }
        Ok(next)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.row_count >= self.row_count_max || self.text_bytes >= self.text_bytes_max
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.row_count == 0
    }

    /// The rows held, column by column.
    pub(crate) fn columns(&self) -> &[ColumnData] {
        &self.columns
    }

    /// Forgets the rows and keeps their memory, which the next group needs again.
    pub(crate) fn clear(&mut self) {
        self.row_count = 0;
        self.text_bytes = 0;
        self.columns.iter_mut().for_each(ColumnData::clear);
    }

    /// The rows held, leaving none.
    pub(crate) fn take(&mut self) -> Vec<ColumnData> {
        self.row_count = 0;
        self.text_bytes = 0;
        mem::replace(&mut self.columns, empty(self.schema))
    }
}

impl ColumnData {
    fn new(field: &Field) -> Self {
        let values = match field.kind {
            Kind::U64 => HeldValues::U64(Vec::new()),
            Kind::U32 => HeldValues::U32(Vec::new()),
            Kind::U16 => HeldValues::U16(Vec::new()),
            Kind::I8 => HeldValues::I8(Vec::new()),
            Kind::TimestampNs => HeldValues::TimestampNs(Vec::new()),
            Kind::F64 => HeldValues::F64(Vec::new()),
            // As in Arrow, the first end is the start of the first value.
            Kind::Text => HeldValues::Text { bytes: Vec::new(), ends: vec![0] },
            Kind::Bytes => HeldValues::Bytes { bytes: Vec::new(), ends: vec![0] },
        };
        Self { values, presence: field.is_nullable.then(Vec::new) }
    }

    fn clear(&mut self) {
        self.values.clear();
        if let Some(presence) = &mut self.presence {
            presence.clear();
        }
    }

    /// How many bytes of text came in, or nothing where they no longer fit.
    fn append(&mut self, column: &Column, rows: Range<usize>) -> Option<usize> {
        if let (Some(held), Some(presence)) = (&mut self.presence, column.presence()) {
            held.extend_from_slice(presence.get(rows.clone())?);
        }
        self.values.append(column.values(), rows)
    }
}

impl HeldValues {
    fn clear(&mut self) {
        match self {
            Self::U64(held) => held.clear(),
            Self::U32(held) => held.clear(),
            Self::U16(held) => held.clear(),
            Self::I8(held) => held.clear(),
            Self::TimestampNs(held) => held.clear(),
            Self::F64(held) => held.clear(),
            Self::Text { bytes, ends } | Self::Bytes { bytes, ends } => {
                bytes.clear();
                ends.truncate(1);
            }
        }
    }

    fn append(&mut self, values: &Values, rows: Range<usize>) -> Option<usize> {
        match (self, values) {
            (Self::U64(held), Values::U64(values)) => held.extend_from_slice(values.get(rows)?),
            (Self::U32(held), Values::U32(values)) => held.extend_from_slice(values.get(rows)?),
            (Self::U16(held), Values::U16(values)) => held.extend_from_slice(values.get(rows)?),
            (Self::I8(held), Values::I8(values)) => held.extend_from_slice(values.get(rows)?),
            (Self::TimestampNs(held), Values::TimestampNs(values)) => {
                held.extend_from_slice(values.get(rows)?)
            }
            (Self::F64(held), Values::F64(values)) => held.extend_from_slice(values.get(rows)?),
            (Self::Text { bytes, ends }, Values::Text(values)) => {
                return append_bytes(
                    bytes,
                    ends,
                    values.bytes().as_bytes(),
                    values.offsets().get(rows.start..=rows.end)?,
                );
            }
            (Self::Bytes { bytes, ends }, Values::Bytes(values)) => {
                return append_bytes(
                    bytes,
                    ends,
                    values.bytes(),
                    values.offsets().get(rows.start..=rows.end)?,
                );
            }
            // The schemas were compared, so kinds agree.
            _ => return None,
        }
        Some(0)
    }
}

/// Appends the values between `offsets` of `values`.
fn append_bytes(
    bytes: &mut Vec<u8>,
    ends: &mut Vec<i32>,
    values: &[u8],
    offsets: &[u32],
) -> Option<usize> {
    let (&first, &last) = (offsets.first()?, offsets.last()?);
    let held = u32::try_from(bytes.len()).ok()?;
    // Ends only rise, so if the last one fits they all do.
    i32::try_from(held.checked_add(last - first)?).ok()?;
    bytes.extend_from_slice(values.get(first as usize..last as usize)?);
    ends.extend(offsets.iter().skip(1).map(|end| (held + (end - first)).cast_signed()));
    Some((last - first) as usize)
}

/// Bytes that a value takes besides its text.
const fn fixed_bytes(kind: Kind) -> usize {
    match kind {
        Kind::U64 | Kind::TimestampNs | Kind::F64 => 8,
        Kind::U32 | Kind::Text | Kind::Bytes => 4,
        Kind::U16 => 2,
        Kind::I8 => 1,
    }
}

fn empty(schema: Schema) -> Vec<ColumnData> {
    schema.iter().map(ColumnData::new).collect()
}
