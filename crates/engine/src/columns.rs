//! Rows on their way out: the one type that applications fill and sinks write.

use std::fmt;

/// What a column holds. Every kind is typed to the end: a stamp stays
/// nanoseconds, a count stays an integer, in every format that has the type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Unsigned 64-bit count.
    U64,
    /// Unsigned 16-bit number, such as a port.
    U16,
    /// Nanoseconds since the epoch, UTC.
    TimestampNs,
    /// A 64-bit float.
    F64,
    /// UTF-8 text.
    Text,
}

/// One column's name and meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// Name in the output, `snake_case`, unit last.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// One sentence for the reference pages.
    pub about: &'static str,
}

/// The columns an application declares, in order.
pub type Schema = &'static [Field];

/// The values of one column.
#[derive(Clone, PartialEq, Debug)]
pub enum Column {
    /// [`Kind::U64`].
    U64(Vec<u64>),
    /// [`Kind::U16`].
    U16(Vec<u16>),
    /// [`Kind::TimestampNs`].
    TimestampNs(Vec<i64>),
    /// [`Kind::F64`].
    F64(Vec<f64>),
    /// [`Kind::Text`].
    Text(TextColumn),
}

/// Text values end to end in one buffer, as Arrow keeps them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextColumn {
    bytes: String,
    /// One more than there are values; the first is 0.
    offsets: Vec<u32>,
}

/// One value on its way into a row.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// For [`Kind::U64`].
    U64(u64),
    /// For [`Kind::U16`].
    U16(u16),
    /// For [`Kind::TimestampNs`].
    TimestampNs(i64),
    /// For [`Kind::F64`].
    F64(f64),
    /// For [`Kind::Text`]: anything that can be displayed, without a string in between.
    Text(&'a dyn fmt::Display),
}

/// Some rows under one schema, column by column.
#[derive(Clone, PartialEq, Debug)]
pub struct Columns {
    schema: Schema,
    columns: Vec<Column>,
    row_count: usize,
}

/// Values and schema disagree, or one batch of rows holds over 4 GiB of text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowRefused {
    /// The column at fault.
    pub column: usize,
}

impl Default for TextColumn {
    fn default() -> Self {
        Self { bytes: String::new(), offsets: vec![0] }
    }
}

impl TextColumn {
    /// Appends what `value` displays as. False when the buffer is full at 4 GiB.
    pub fn push(&mut self, value: &dyn fmt::Display) -> bool {
        use fmt::Write as _;
        let kept_len = self.bytes.len();
        let written = write!(self.bytes, "{value}");
        match (written, u32::try_from(self.bytes.len())) {
            (Ok(()), Ok(end)) => {
                self.offsets.push(end);
                true
            }
            _ => {
                self.bytes.truncate(kept_len);
                false
            }
        }
    }

    /// The values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.offsets
            .windows(2)
            .map(|ends| self.bytes.get(ends[0] as usize..ends[1] as usize).unwrap_or_default())
    }

    /// The value of one row, or empty text past the end.
    #[must_use]
    pub fn get(&self, row: usize) -> &str {
        match (self.offsets.get(row), self.offsets.get(row + 1)) {
            (Some(&start), Some(&end)) => {
                self.bytes.get(start as usize..end as usize).unwrap_or_default()
            }
            _ => "",
        }
    }

    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Column {
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::U64 => Self::U64(Vec::new()),
            Kind::U16 => Self::U16(Vec::new()),
            Kind::TimestampNs => Self::TimestampNs(Vec::new()),
            Kind::F64 => Self::F64(Vec::new()),
            Kind::Text => Self::Text(TextColumn::default()),
        }
    }

    fn push(&mut self, value: Value<'_>) -> bool {
        match (self, value) {
            (Self::U64(values), Value::U64(value)) => values.push(value),
            (Self::U16(values), Value::U16(value)) => values.push(value),
            (Self::TimestampNs(values), Value::TimestampNs(value)) => values.push(value),
            (Self::F64(values), Value::F64(value)) => values.push(value),
            (Self::Text(values), Value::Text(value)) => return values.push(value),
            _ => return false,
        }
        true
    }

    fn truncate(&mut self, len: usize) {
        match self {
            Self::U64(values) => values.truncate(len),
            Self::U16(values) => values.truncate(len),
            Self::TimestampNs(values) => values.truncate(len),
            Self::F64(values) => values.truncate(len),
            Self::Text(values) => {
                values.offsets.truncate(len + 1);
                let end = values.offsets.last().copied().unwrap_or(0);
                values.bytes.truncate(end as usize);
            }
        }
    }
}

impl Columns {
    /// No rows yet.
    #[must_use]
    pub fn new(schema: Schema) -> Self {
        let columns = schema.iter().map(|field| Column::new(field.kind)).collect();
        Self { schema, columns, row_count: 0 }
    }

    /// Appends one row; its values stand in the order of the schema.
    ///
    /// # Errors
    /// [`RowRefused`] where a value's kind is not its column's; the row is left out whole.
    pub fn push_row(&mut self, values: &[Value<'_>]) -> Result<(), RowRefused> {
        let fits = values.len() == self.columns.len();
        let refused = if fits {
            self.columns.iter_mut().zip(values).position(|(column, &value)| !column.push(value))
        } else {
            Some(values.len().min(self.columns.len()))
        };
        if let Some(column) = refused {
            for filled in &mut self.columns {
                filled.truncate(self.row_count);
            }
            return Err(RowRefused { column });
        }
        self.row_count += 1;
        Ok(())
    }

    /// The declared columns.
    #[must_use]
    pub fn schema(&self) -> Schema {
        self.schema
    }

    /// The values, in the order of the schema.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// How many rows there are.
    #[must_use]
    pub fn row_count(&self) -> usize {
        self.row_count
    }
}

impl fmt::Display for RowRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a row's value {} is not of the kind that its column declares", self.column)
    }
}

impl std::error::Error for RowRefused {}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: Schema = &[
        Field { name: "source", kind: Kind::Text, about: "" },
        Field { name: "packets", kind: Kind::U64, about: "" },
    ];

    #[test]
    fn rows_become_columns() {
        let mut rows = Columns::new(SCHEMA);
        rows.push_row(&[Value::Text(&"10.0.0.1"), Value::U64(3)]).unwrap();
        rows.push_row(&[Value::Text(&""), Value::U64(4)]).unwrap();
        let Column::Text(text) = &rows.columns()[0] else { panic!("first column is text") };
        assert_eq!(text.iter().collect::<Vec<_>>(), ["10.0.0.1", ""]);
        assert_eq!(rows.columns()[1], Column::U64(vec![3, 4]));
    }

    #[test]
    fn a_refused_row_leaves_no_trace() {
        let mut rows = Columns::new(SCHEMA);
        let refused = rows.push_row(&[Value::Text(&"10.0.0.1"), Value::U16(3)]);
        assert_eq!(refused, Err(RowRefused { column: 1 }));
        assert_eq!(rows, Columns::new(SCHEMA));
        assert!(rows.push_row(&[]).is_err());
    }
}
