//! Rows held back until there are enough for one row group or record batch.
//!
//! Applications hand over a window's rows at a time, often a dozen; a file of
//! such groups would be mostly headers. What is held is bounded twice: by
//! rows, and by bytes of text.

use std::mem;
use std::ops::Range;

use engine::columns::{Column, Columns, Schema};

use crate::WriteError;

/// Rows in a full group: large enough to compress well, small enough that a
/// reader has something to spread over its threads.
pub(crate) const GROUP_ROWS_MAX: usize = 128 * 1024;

/// Text that makes a group full before its rows do.
const GROUP_TEXT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Rows taken over between two looks at the text held. With it, the text bound
/// may be passed by this many values and no more.
const STEP_ROWS: usize = 1024;

/// One column's values, laid out as the formats want them.
pub(crate) enum Held {
    U64(Vec<u64>),
    U16(Vec<u16>),
    TimestampNs(Vec<i64>),
    F64(Vec<f64>),
    Text { bytes: Vec<u8>, ends: Vec<i32> },
}

/// The rows of one group to be.
pub(crate) struct Rows {
    schema: Schema,
    columns: Vec<Held>,
    row_count: usize,
    text_bytes: usize,
}

impl Rows {
    pub(crate) fn new(schema: Schema) -> Self {
        Self { schema, columns: empty(schema), row_count: 0, text_bytes: 0 }
    }

    /// Takes rows over from `next` on, until the group is full or they are all
    /// taken; says how far it came.
    pub(crate) fn fill(&mut self, rows: &Columns, next: usize) -> Result<usize, WriteError> {
        let mut next = next;
        while next < rows.row_count() && !self.is_full() {
            let step = STEP_ROWS.min(GROUP_ROWS_MAX - self.row_count).min(rows.row_count() - next);
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
        self.row_count >= GROUP_ROWS_MAX || self.text_bytes >= GROUP_TEXT_BYTES_MAX
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.row_count == 0
    }

    /// The rows held, leaving none.
    pub(crate) fn take(&mut self) -> Vec<Held> {
        self.row_count = 0;
        self.text_bytes = 0;
        mem::replace(&mut self.columns, empty(self.schema))
    }
}

impl Held {
    /// How many bytes of text came in, or nothing where they no longer fit.
    fn append(&mut self, column: &Column, rows: Range<usize>) -> Option<usize> {
        match (self, column) {
            (Self::U64(held), Column::U64(values)) => held.extend_from_slice(values.get(rows)?),
            (Self::U16(held), Column::U16(values)) => held.extend_from_slice(values.get(rows)?),
            (Self::TimestampNs(held), Column::TimestampNs(values)) => {
                held.extend_from_slice(values.get(rows)?)
            }
            (Self::F64(held), Column::F64(values)) => held.extend_from_slice(values.get(rows)?),
            (Self::Text { bytes, ends }, Column::Text(values)) => {
                let len_before = bytes.len();
                for row in rows {
                    bytes.extend_from_slice(values.get(row).as_bytes());
                    ends.push(i32::try_from(bytes.len()).ok()?);
                }
                return Some(bytes.len() - len_before);
            }
            // The schemas were compared, so kinds agree.
            _ => return None,
        }
        Some(0)
    }
}

fn empty(schema: Schema) -> Vec<Held> {
    use engine::columns::Kind;
    let held = |kind| match kind {
        Kind::U64 => Held::U64(Vec::new()),
        Kind::U16 => Held::U16(Vec::new()),
        Kind::TimestampNs => Held::TimestampNs(Vec::new()),
        Kind::F64 => Held::F64(Vec::new()),
        // As in Arrow, the first end is the start of the first value.
        Kind::Text => Held::Text { bytes: Vec::new(), ends: vec![0] },
    };
    schema.iter().map(|field| held(field.kind)).collect()
}
