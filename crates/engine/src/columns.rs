//! Rows on their way out: the one type that applications fill and sinks write.

mod address;
mod bytes;
mod filling;
mod joined;
mod kept;
mod text;

use std::fmt;
use std::net::IpAddr;

use address::AddressText;
pub use bytes::BytesColumn;
pub use filling::Filling;
pub use joined::joined;
pub use text::TextColumn;

/// What a column holds. Every kind is typed to the end: a stamp stays
/// nanoseconds, a count stays an integer, in every format that has the type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Unsigned 64-bit count.
    U64,
    /// Unsigned 32-bit number, such as a packet's length.
    U32,
    /// Unsigned 16-bit number, such as a port.
    U16,
    /// Signed 8-bit number, such as a bit that may be missing.
    I8,
    /// Nanoseconds since the epoch, UTC.
    TimestampNs,
    /// A 64-bit float.
    F64,
    /// UTF-8 text.
    Text,
    /// Bytes as they were seen, such as a packet's first; hexadecimal where only text can stand.
    Bytes,
}

/// One column's name and meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Field {
    /// Name in the output, `snake_case`, unit last.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// One sentence for the reference pages.
    pub about: &'static str,
    /// Whether a row may have no value here. Zero, empty text and no value are three things.
    pub is_nullable: bool,
}

/// The columns an application declares, in order.
pub type Schema = &'static [Field];

/// The values of one column. A missing value stands in them as zero, empty
/// text or no bytes, so that rows keep their places.
#[derive(Clone, PartialEq, Debug)]
pub enum Values {
    /// [`Kind::U64`].
    U64(Vec<u64>),
    /// [`Kind::U32`].
    U32(Vec<u32>),
    /// [`Kind::U16`].
    U16(Vec<u16>),
    /// [`Kind::I8`].
    I8(Vec<i8>),
    /// [`Kind::TimestampNs`].
    TimestampNs(Vec<i64>),
    /// [`Kind::F64`].
    F64(Vec<f64>),
    /// [`Kind::Text`].
    Text(TextColumn),
    /// [`Kind::Bytes`].
    Bytes(BytesColumn),
}

/// One column: its values, and which of them are missing.
#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    values: Values,
    /// Of a nullable column only: whether each row has a value.
    presence: Option<Vec<bool>>,
}

/// One value on its way into a row.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// No value; only where [`Field::is_nullable`] is set.
    Null,
    /// For [`Kind::U64`].
    U64(u64),
    /// For [`Kind::U32`].
    U32(u32),
    /// For [`Kind::U16`].
    U16(u16),
    /// For [`Kind::I8`].
    I8(i8),
    /// For [`Kind::TimestampNs`].
    TimestampNs(i64),
    /// For [`Kind::F64`].
    F64(f64),
    /// For [`Kind::Text`]: text that is there already.
    Str(&'a str),
    /// For [`Kind::Text`]: an address as text, sooner than it would display itself.
    Address(IpAddr),
    /// For [`Kind::Text`]: anything that can be displayed, without a string in between.
    Text(&'a dyn fmt::Display),
    /// For [`Kind::Bytes`].
    Bytes(&'a [u8]),
}

/// Some rows under one schema, column by column.
#[derive(Clone, PartialEq, Debug)]
pub struct Columns {
    schema: Schema,
    columns: Vec<Column>,
    row_count: usize,
}

/// Values and schema disagree, a value is missing that must be there, or one batch of rows
/// holds over 4 GiB of text or bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowMismatch {
    /// The column at fault.
    pub column: usize,
}

impl Field {
    /// A column of which every row has a value.
    #[must_use]
    pub const fn new(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, kind, about, is_nullable: false }
    }

    /// The same column, of which rows may have no value.
    #[must_use]
    pub const fn nullable(self) -> Self {
        Self { is_nullable: true, ..self }
    }
}

/// No value where there is none: `count.map(Value::U64).into()`.
impl From<Option<Self>> for Value<'_> {
    fn from(value: Option<Self>) -> Self {
        value.unwrap_or(Value::Null)
    }
}

impl Values {
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::U64 => Self::U64(Vec::new()),
            Kind::U32 => Self::U32(Vec::new()),
            Kind::U16 => Self::U16(Vec::new()),
            Kind::I8 => Self::I8(Vec::new()),
            Kind::TimestampNs => Self::TimestampNs(Vec::new()),
            Kind::F64 => Self::F64(Vec::new()),
            Kind::Text => Self::Text(TextColumn::default()),
            Kind::Bytes => Self::Bytes(BytesColumn::default()),
        }
    }

    #[inline]
    fn push(&mut self, value: Value<'_>) -> bool {
        match (self, value) {
            (Self::U64(values), Value::U64(value)) => values.push(value),
            (Self::U32(values), Value::U32(value)) => values.push(value),
            (Self::U16(values), Value::U16(value)) => values.push(value),
            (Self::I8(values), Value::I8(value)) => values.push(value),
            (Self::TimestampNs(values), Value::TimestampNs(value)) => values.push(value),
            (Self::F64(values), Value::F64(value)) => values.push(value),
            (Self::Text(values), Value::Str(value)) => return values.push_str(value),
            (Self::Text(values), Value::Address(value)) => {
                return values.push_str(AddressText::new(value).as_str());
            }
            (Self::Text(values), Value::Text(value)) => return values.push(value),
            (Self::Bytes(values), Value::Bytes(value)) => return values.push(value),
            _ => return false,
        }
        true
    }

    fn len(&self) -> usize {
        match self {
            Self::U64(values) => values.len(),
            Self::U32(values) => values.len(),
            Self::U16(values) => values.len(),
            Self::I8(values) => values.len(),
            Self::TimestampNs(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::Text(values) => values.len(),
            Self::Bytes(values) => values.offsets().len() - 1,
        }
    }

    /// What stands where no value is.
    fn push_blank(&mut self) -> bool {
        match self {
            Self::U64(values) => values.push(0),
            Self::U32(values) => values.push(0),
            Self::U16(values) => values.push(0),
            Self::I8(values) => values.push(0),
            Self::TimestampNs(values) => values.push(0),
            Self::F64(values) => values.push(0.0),
            Self::Text(values) => return values.push_str(""),
            Self::Bytes(values) => return values.push(&[]),
        }
        true
    }

    fn truncate(&mut self, len: usize) {
        match self {
            Self::U64(values) => values.truncate(len),
            Self::U32(values) => values.truncate(len),
            Self::U16(values) => values.truncate(len),
            Self::I8(values) => values.truncate(len),
            Self::TimestampNs(values) => values.truncate(len),
            Self::F64(values) => values.truncate(len),
            Self::Text(values) => values.truncate(len),
            Self::Bytes(values) => values.truncate(len),
        }
    }
}

impl Column {
    fn new(field: &Field) -> Self {
        let presence = field.is_nullable.then(Vec::new);
        Self { values: Values::new(field.kind), presence }
    }

    #[inline]
    fn push(&mut self, value: Value<'_>) -> bool {
        let Some(presence) = &mut self.presence else { return self.values.push(value) };
        let is_present = !matches!(value, Value::Null);
        presence.push(is_present);
        if is_present { self.values.push(value) } else { self.values.push_blank() }
    }

    fn truncate(&mut self, len: usize) {
        self.values.truncate(len);
        if let Some(presence) = &mut self.presence {
            presence.truncate(len);
        }
    }

    /// The values, missing ones as zero or empty text.
    #[must_use]
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Whether each row has a value; `None` where every row has.
    #[must_use]
    pub fn presence(&self) -> Option<&[bool]> {
        self.presence.as_deref()
    }

    /// Whether this row has no value.
    #[must_use]
    #[inline]
    pub fn is_null(&self, row: usize) -> bool {
        self.presence.as_ref().is_some_and(|presence| presence.get(row) == Some(&false))
    }
}

impl Columns {
    /// No rows yet.
    #[must_use]
    pub fn new(schema: Schema) -> Self {
        let columns = schema.iter().map(Column::new).collect();
        Self { schema, columns, row_count: 0 }
    }

    /// Appends one row; its values stand in the order of the schema. Nothing is
    /// allocated for it beyond what columns grow by: fill an array on the stack,
    /// and [`clear`](Self::clear) instead of starting again.
    ///
    /// # Errors
    /// [`RowMismatch`] where a value's kind is not its column's, or none is there and one must
    /// be; the row is left out whole.
    pub fn push_row(&mut self, values: &[Value<'_>]) -> Result<(), RowMismatch> {
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
            return Err(RowMismatch { column });
        }
        self.row_count += 1;
        Ok(())
    }

    /// Begins to append so many rows, column by column.
    pub fn fill(&mut self, row_count: usize) -> Filling<'_> {
        Filling::new(self, row_count)
    }

    /// These rows with more columns of the same rows behind theirs.
    ///
    /// # Errors
    /// [`RowMismatch`] where these are not the columns of `schema`, or not as many rows.
    pub fn beside(&self, more: Self, schema: Schema) -> Result<Self, RowMismatch> {
        let mut fields = self.schema.iter().chain(more.schema);
        let differs = schema.iter().position(|field| fields.next() != Some(field));
        let differs = differs.or_else(|| fields.next().map(|_| schema.len()));
        if let Some(column) = differs {
            return Err(RowMismatch { column });
        }
        if more.row_count != self.row_count {
            return Err(RowMismatch { column: self.schema.len() });
        }
        let columns = self.columns.iter().cloned().chain(more.columns).collect();
        Ok(Self { schema, columns, row_count: self.row_count })
    }

    /// Forgets the rows and keeps the memory.
    pub fn clear(&mut self) {
        for column in &mut self.columns {
            column.truncate(0);
        }
        self.row_count = 0;
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

impl fmt::Display for RowMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a row's value {} is not what its column declares", self.column)
    }
}

impl std::error::Error for RowMismatch {}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: Schema = &[
        Field::new("source", Kind::Text, ""),
        Field::new("packets", Kind::U64, ""),
        Field::new("port", Kind::U16, "").nullable(),
    ];

    #[test]
    fn rows_become_columns() {
        let mut rows = Columns::new(SCHEMA);
        let address = Value::Address([10, 0, 0, 1].into());
        rows.push_row(&[address, Value::U64(3), Value::U16(5)]).unwrap();
        rows.push_row(&[Value::Str(""), Value::U64(4), Value::Null]).unwrap();
        rows.push_row(&[Value::Text(&7), Value::U64(4), None.into()]).unwrap();
        let [source, packets, port] = rows.columns() else { panic!("three columns") };
        let Values::Text(text) = source.values() else { panic!("first column is text") };
        assert_eq!(text.iter().collect::<Vec<_>>(), ["10.0.0.1", "", "7"]);
        assert_eq!(*packets.values(), Values::U64(vec![3, 4, 4]));
        assert_eq!(*port.values(), Values::U16(vec![5, 0, 0]));
        assert_eq!(port.presence(), Some(&[true, false, false][..]));
        assert_eq!([source.is_null(1), port.is_null(0), port.is_null(1)], [false, false, true]);
        rows.clear();
        assert_eq!(rows, Columns::new(SCHEMA));
    }

    #[test]
    fn columns_of_the_same_rows_go_side_by_side() {
        const MORE: Schema = &[Field::new("asn", Kind::U32, "").nullable()];
        const BOTH: Schema = &[SCHEMA[0], SCHEMA[1], SCHEMA[2], MORE[0]];
        let (mut rows, mut more) = (Columns::new(SCHEMA), Columns::new(MORE));
        rows.push_row(&[Value::Str("a"), Value::U64(3), Value::Null]).unwrap();
        assert!(rows.beside(more.clone(), BOTH).is_err(), "a row is missing");
        more.push_row(&[Value::U32(64_496)]).unwrap();
        let mut wanted = Columns::new(BOTH);
        let row = [Value::Str("a"), Value::U64(3), Value::Null, Value::U32(64_496)];
        wanted.push_row(&row).unwrap();
        assert_eq!(rows.beside(more.clone(), BOTH), Ok(wanted));
        assert!(rows.beside(more.clone(), SCHEMA).is_err());
        assert!(more.beside(rows, BOTH).is_err(), "in this order");
    }

    #[test]
    fn a_refused_row_leaves_no_trace() {
        let mut rows = Columns::new(SCHEMA);
        let refused = rows.push_row(&[Value::Str("a"), Value::U16(3), Value::Null]);
        assert_eq!(refused, Err(RowMismatch { column: 1 }));
        let refused = rows.push_row(&[Value::Str("a"), Value::U64(3), Value::Str("b")]);
        assert_eq!(refused, Err(RowMismatch { column: 2 }));
        assert_eq!(rows, Columns::new(SCHEMA));
        assert!(rows.push_row(&[]).is_err());
    }

    #[test]
    fn a_missing_value_must_have_been_declared() {
        let mut rows = Columns::new(SCHEMA);
        let refused = rows.push_row(&[Value::Null, Value::U64(3), Value::U16(3)]);
        assert_eq!(refused, Err(RowMismatch { column: 0 }));
        assert_eq!(
            RowMismatch { column: 0 }.to_string(),
            "a row's value 0 is not what its column declares"
        );
    }
}
