//! Parquet, through the column writers of the `parquet` crate.
//!
//! They are a level below that crate's Arrow writer, which would double what
//! is compiled to save the match at the end of this file.

use std::io;
use std::io::Write;
use std::sync::Arc;

use engine::columns::{Columns, Field, Kind, Schema};
use parquet::basic::{
    Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel,
};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{ColumnPath, SchemaDescPtr, SchemaDescriptor, Type};

use crate::footer;
use crate::rows::{Held, HeldValues, Rows};
use crate::{Format, WriteError};

pub(crate) const CREATED_BY: &str = "wirelens";

pub(crate) struct RowGroups<W: Write + Send> {
    file: SerializedFileWriter<Lent<W>>,
    held: Rows,
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
        Ok(Self { file, held: Rows::new(schema), schema: columns, footed_bytes })
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
        for held in self.held.take() {
            if let Some(column) = group.next_column()? {
                write_column(column, held)?;
            }
        }
        group.close()?;
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
        .set_compression(Compression::ZSTD(ZstdLevel::default()));
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

fn write_column(mut column: SerializedColumnWriter<'_>, held: Held) -> Result<(), ParquetError> {
    // A level says of each row whether it has a value; only values that are there follow.
    let presence = held.presence.as_deref();
    let levels: Option<Vec<i16>> =
        presence.map(|presence| presence.iter().copied().map(i16::from).collect());
    let levels = levels.as_deref();
    match held.values {
        // Parquet keeps unsigned numbers in the signed type of the same bits.
        HeldValues::U64(values) => {
            let values = present(values.into_iter().map(u64::cast_signed), presence);
            column.typed::<Int64Type>().write_batch(&values, levels, None)?;
        }
        HeldValues::U32(values) => {
            let values = present(values.into_iter().map(u32::cast_signed), presence);
            column.typed::<Int32Type>().write_batch(&values, levels, None)?;
        }
        HeldValues::U16(values) => {
            let values = present(values.into_iter().map(i32::from), presence);
            column.typed::<Int32Type>().write_batch(&values, levels, None)?;
        }
        HeldValues::I8(values) => {
            let values = present(values.into_iter().map(i32::from), presence);
            column.typed::<Int32Type>().write_batch(&values, levels, None)?;
        }
        HeldValues::TimestampNs(values) => {
            let values = present(values.into_iter(), presence);
            column.typed::<Int64Type>().write_batch(&values, levels, None)?;
        }
        HeldValues::F64(values) => {
            let values = present(values.into_iter(), presence);
            column.typed::<DoubleType>().write_batch(&values, levels, None)?;
        }
        HeldValues::Text { bytes, ends } | HeldValues::Bytes { bytes, ends } => {
            let all = ByteArray::from(bytes);
            let mut starts = ends.iter().copied();
            starts.next_back();
            let values = starts.zip(ends.iter().skip(1)).map(|(start, end)| {
                all.slice(start.cast_unsigned() as usize, (end - start).cast_unsigned() as usize)
            });
            let values = present(values, presence);
            column.typed::<ByteArrayType>().write_batch(&values, levels, None)?;
        }
    }
    column.close()
}

/// The values that are there.
fn present<T>(values: impl Iterator<Item = T>, presence: Option<&[bool]>) -> Vec<T> {
    match presence {
        None => values.collect(),
        Some(presence) => {
            values.zip(presence).filter(|(_, is_present)| **is_present).map(|(v, _)| v).collect()
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
