//! Parquet, through the column writers of the `parquet` crate.
//!
//! They are a level below that crate's Arrow writer, which would double what
//! is compiled to save the match at the end of this file. Text and counts, which tables of flows
//! are mostly made of, are laid out in [`pages`](crate::pages).

use std::borrow::Cow;
use std::io;
use std::io::Write;
use std::sync::Arc;

use engine::columns::{Columns, Field, Kind, Schema};
use parquet::basic::{Encoding, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{
    SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter,
};
use parquet::schema::types::{ColumnDescPtr, ColumnPath, SchemaDescPtr, SchemaDescriptor, Type};

use crate::footer;
use crate::pages::{Pages, Values};
use crate::rows::{ColumnData, HeldValues, Rows};
use crate::{Format, WriteError};

pub(crate) const CREATED_BY: &str = "wirelens";

pub(crate) struct RowGroups<W: Write + Send> {
    file: SerializedFileWriter<Lent<W>>,
    held: Rows,
    pages: Pages,
    schema: SchemaDescPtr,
    /// Bytes up to the end of the last footer.
    footed_bytes: usize,
}

/// An output that can be taken back. The library's own way of giving it back
/// turns the error of the last flush into text; finishing keeps it an error.
struct Lent<W>(Option<W>);

impl<W: Write + Send> RowGroups<W> {
    pub(crate) fn new(schema: Schema, io: W) -> Result<Self, WriteError> {
        let fields = schema.iter().map(column).collect::<Result<_, _>>();
        let root = fields
            .and_then(|fields| Type::group_type_builder(CREATED_BY).with_fields(fields).build());
        let file = root.and_then(|root| {
            SerializedFileWriter::new(Lent(Some(io)), Arc::new(root), Arc::new(properties(schema)))
        });
        let file = file.map_err(refused)?;
        let columns = Arc::new(SchemaDescriptor::new(file.schema_descr().root_schema_ptr()));
        let footed_bytes = file.bytes_written();
        let (held, pages) = (Rows::new(schema), Pages::new().map_err(refused)?);
        Ok(Self { file, held, pages, schema: columns, footed_bytes })
    }

    pub(crate) fn write(&mut self, rows: &Columns) -> Result<(), WriteError> {
        let mut next = 0;
        while next < rows.row_count() {
            next = self.held.fill(rows, next)?;
            if self.held.is_full() {
                self.flush().map_err(refused)?;
            }
        }
        Ok(())
    }

    /// Ends the row group now, and says of it what a reader must know should
    /// nothing come after it.
    pub(crate) fn flush_held(&mut self) -> Result<(), WriteError> {
        self.flush().map_err(refused)
    }

    fn flush(&mut self) -> Result<(), ParquetError> {
        if self.held.is_empty() {
            return Ok(());
        }
        self.end_group()?;
        let len = self.file.bytes_written() - self.footed_bytes;
        let groups = self.file.flushed_row_groups();
        let (bytes, is_footer) = footer::behind(groups, &self.schema, len)?;
        self.file.write_all(&bytes)?;
        if is_footer {
            self.footed_bytes = self.file.bytes_written();
        }
        Ok(self.file.flush()?)
    }

    /// The output.
    pub(crate) fn io(&self) -> Option<&W> {
        self.file.inner().0.as_ref()
    }

    pub(crate) fn finish(mut self) -> Result<W, WriteError> {
        self.end_group().map_err(refused)?;
        self.file.finish().map_err(refused)?;
        self.file.inner_mut().0.take().ok_or(WriteError::AfterFailure)
    }

    fn end_group(&mut self) -> Result<(), ParquetError> {
        if self.held.is_empty() {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        for (held, column) in self.held.columns().iter().zip(self.schema.columns()) {
            write_column(&mut group, &mut self.pages, column, held)?;
        }
        group.close()?;
        self.held.clear();
        Ok(())
    }
}

impl<W: Write> Write for Lent<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.as_mut().ok_or(io::ErrorKind::NotConnected)?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.as_mut().ok_or(io::ErrorKind::NotConnected)?.flush()
    }
}

/// Zstandard at level 1: a quarter smaller than Snappy, about as fast,
/// and already compiled for compressed captures. Stamps mostly rise, so they
/// are kept as differences.
fn properties(schema: Schema) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_created_by(CREATED_BY.to_owned())
        .set_compression(Pages::compression());
    for field in schema.iter().filter(|field| field.kind == Kind::TimestampNs) {
        let path = ColumnPath::from(field.name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}

fn column(field: &Field) -> Result<Arc<Type>, ParquetError> {
    let (physical, logical) = match field.kind {
        Kind::U64 => (Physical::INT64, Some(LogicalType::integer(64, false))),
        Kind::U32 => (Physical::INT32, Some(LogicalType::integer(32, false))),
        Kind::U16 => (Physical::INT32, Some(LogicalType::integer(16, false))),
        Kind::I8 => (Physical::INT32, Some(LogicalType::integer(8, true))),
        Kind::TimestampNs => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::NANOS))),
        Kind::F64 => (Physical::DOUBLE, None),
        Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Kind::Bytes => (Physical::BYTE_ARRAY, None),
    };
    let repetition = if field.is_nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    let column = Type::primitive_type_builder(field.name, physical)
        .with_repetition(repetition)
        .with_logical_type(logical)
        .build()?;
    Ok(Arc::new(column))
}

fn write_column<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    pages: &mut Pages,
    column: &ColumnDescPtr,
    held: &ColumnData,
) -> Result<(), ParquetError> {
    let presence = held.presence.as_deref();
    let mut laid = |values: &Values<'_>| pages.write(group, Arc::clone(column), values, presence);
    match &held.values {
        HeldValues::Text { bytes, ends } | HeldValues::Bytes { bytes, ends } => {
            let Some((&first, rest)) = ends.split_first().filter(|_| presence.is_some()) else {
                return laid(&Values::Texts(bytes, ends));
            };
            // A missing text is empty: those that are there still lie end to end.
            let present = present(rest, presence);
            let ends: Vec<i32> = std::iter::once(first).chain(present.iter().copied()).collect();
            laid(&Values::Texts(bytes, &ends))
        }
        HeldValues::U64(values) => laid(&Values::U64(&present(values, presence))),
        HeldValues::U16(values) => laid(&Values::U16(&present(values, presence))),
        values => match group.next_column()? {
            Some(column) => write_others(column, values, presence),
            None => Ok(()),
        },
    }
}

/// By the column writers of the library.
fn write_others(
    mut column: SerializedColumnWriter<'_>,
    values: &HeldValues,
    presence: Option<&[bool]>,
) -> Result<(), ParquetError> {
    // A level says of each row whether it has a value; only values that are there follow.
    let levels: Option<Vec<i16>> =
        presence.map(|presence| presence.iter().copied().map(i16::from).collect());
    let levels = levels.as_deref();
    match values {
        HeldValues::U32(values) => {
            // Parquet keeps unsigned numbers in the signed type of the same bits.
            let values: Vec<i32> =
                present(values, presence).iter().map(|value| value.cast_signed()).collect();
            column.typed::<Int32Type>().write_batch(&values, levels, None)?;
        }
        HeldValues::I8(values) => {
            let values: Vec<i32> =
                present(values, presence).iter().copied().map(i32::from).collect();
            column.typed::<Int32Type>().write_batch(&values, levels, None)?;
        }
        HeldValues::TimestampNs(values) => {
            column.typed::<Int64Type>().write_batch(&present(values, presence), levels, None)?;
        }
        HeldValues::F64(values) => {
            column.typed::<DoubleType>().write_batch(&present(values, presence), levels, None)?;
        }
        HeldValues::U64(_)
        | HeldValues::U16(_)
        | HeldValues::Text { .. }
        | HeldValues::Bytes { .. } => {}
    }
    column.close()
}

/// The values that are there.
fn present<'a, T: Copy>(values: &'a [T], presence: Option<&[bool]>) -> Cow<'a, [T]> {
    match presence {
        None => Cow::Borrowed(values),
        Some(presence) => {
            let of = values.iter().zip(presence);
            Cow::Owned(of.filter(|(_, is_present)| **is_present).map(|(value, _)| *value).collect())
        }
    }
}

fn refused(error: ParquetError) -> WriteError {
    let error = match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(inner) => return WriteError::Io(*inner),
            Err(inner) => ParquetError::External(inner),
        },
        other => other,
    };
    WriteError::Encoding { format: Format::Parquet, cause: error.to_string() }
}
