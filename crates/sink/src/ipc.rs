//! Arrow IPC, in both layouts: *file* (with a table of contents at its end, to
//! be mapped into memory) and *stream* (readable while it grows, for pipes).

use std::io::{BufWriter, Write};
use std::sync::Arc;

use arrow_array::types::{
    Float64Type, Int8Type, TimestampNanosecondType, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, BinaryArray, PrimitiveArray, RecordBatch, StringArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{ArrowError, DataType, Field, SchemaRef, TimeUnit};
use engine::columns::{Columns, Kind, Schema};

use crate::rows::{ColumnData, HeldValues, Rows};
use crate::{Format, WriteError};

const UTC: &str = "UTC";

pub(crate) struct Ipc<W: Write> {
    layout: Layout<W>,
    schema: SchemaRef,
    held: Rows,
}

enum Layout<W: Write> {
    File(Box<FileWriter<BufWriter<W>>>),
    Stream(Box<StreamWriter<BufWriter<W>>>),
}

impl<W: Write> Ipc<W> {
    pub(crate) fn file(schema: Schema, io: W) -> Result<Self, WriteError> {
        let fields = Arc::new(arrow_schema(schema));
        let layout =
            Layout::File(Box::new(FileWriter::try_new_buffered(io, &fields).map_err(refused)?));
        Ok(Self { layout, schema: fields, held: Rows::new(schema) })
    }

    pub(crate) fn stream(schema: Schema, io: W) -> Result<Self, WriteError> {
        let fields = Arc::new(arrow_schema(schema));
        let mut writer = StreamWriter::try_new_buffered(io, &fields).map_err(refused)?;
        writer.flush().map_err(refused)?;
        Ok(Self {
            layout: Layout::Stream(Box::new(writer)),
            schema: fields,
            held: Rows::new(schema),
        })
    }

    pub(crate) fn write(&mut self, rows: &Columns) -> Result<(), WriteError> {
        let mut next = 0;
        while next < rows.row_count() {
            next = self.held.fill(rows, next)?;
            if self.held.is_full() {
                self.flush_held()?;
            }
        }
        if let Layout::Stream(_) = self.layout {
            self.flush_held()?;
        }
        Ok(())
    }

    /// Ends the batch now. What precedes a file's table of contents is a stream,
    /// so that even a file that never gets one can be read up to here.
    pub(crate) fn flush_held(&mut self) -> Result<(), WriteError> {
        self.end_batch()?;
        match &mut self.layout {
            Layout::File(writer) => writer.flush(),
            Layout::Stream(writer) => writer.flush(),
        }
        .map_err(refused)
    }

    /// The output.
    pub(crate) fn io(&self) -> &W {
        match &self.layout {
            Layout::File(writer) => writer.get_ref().get_ref(),
            Layout::Stream(writer) => writer.get_ref().get_ref(),
        }
    }

    pub(crate) fn finish(mut self) -> Result<W, WriteError> {
        self.end_batch()?;
        // Finishing flushes, so that taking the buffer off has nothing left to write.
        let buffer = match self.layout {
            Layout::File(mut writer) => writer.finish().and_then(|()| writer.into_inner()),
            Layout::Stream(mut writer) => writer.finish().and_then(|()| writer.into_inner()),
        };
        buffer.map_err(refused)?.into_inner().map_err(|error| WriteError::Io(error.into_error()))
    }

    fn end_batch(&mut self) -> Result<(), WriteError> {
        if self.held.is_empty() {
            return Ok(());
        }
        let arrays = self.held.take().into_iter().map(array).collect::<Result<_, _>>();
        let batch = arrays
            .and_then(|arrays| RecordBatch::try_new(Arc::clone(&self.schema), arrays))
            .map_err(refused)?;
        match &mut self.layout {
            Layout::File(writer) => writer.write(&batch),
            Layout::Stream(writer) => writer.write(&batch),
        }
        .map_err(refused)
    }
}

pub(crate) fn arrow_schema(schema: Schema) -> arrow_schema::Schema {
    let data_type = |kind| match kind {
        Kind::U64 => DataType::UInt64,
        Kind::U32 => DataType::UInt32,
        Kind::U16 => DataType::UInt16,
        Kind::I8 => DataType::Int8,
        Kind::TimestampNs => DataType::Timestamp(TimeUnit::Nanosecond, Some(UTC.into())),
        Kind::F64 => DataType::Float64,
        Kind::Text => DataType::Utf8,
        Kind::Bytes => DataType::Binary,
    };
    let field = |field: &engine::columns::Field| {
        Field::new(field.name, data_type(field.kind), field.is_nullable)
    };
    arrow_schema::Schema::new(schema.iter().map(field).collect::<Vec<_>>())
}

/// Without copying: the vectors become Arrow's buffers.
pub(crate) fn array(held: ColumnData) -> Result<ArrayRef, ArrowError> {
    let nulls = held.presence.map(|presence| NullBuffer::new(BooleanBuffer::from(presence)));
    Ok(match held.values {
        HeldValues::U64(values) => {
            Arc::new(PrimitiveArray::<UInt64Type>::try_new(values.into(), nulls)?)
        }
        HeldValues::U32(values) => {
            Arc::new(PrimitiveArray::<UInt32Type>::try_new(values.into(), nulls)?)
        }
        HeldValues::U16(values) => {
            Arc::new(PrimitiveArray::<UInt16Type>::try_new(values.into(), nulls)?)
        }
        HeldValues::I8(values) => {
            Arc::new(PrimitiveArray::<Int8Type>::try_new(values.into(), nulls)?)
        }
        HeldValues::TimestampNs(values) => {
            let stamps = PrimitiveArray::<TimestampNanosecondType>::try_new(values.into(), nulls)?;
            Arc::new(stamps.with_timezone(UTC))
        }
        HeldValues::F64(values) => {
            Arc::new(PrimitiveArray::<Float64Type>::try_new(values.into(), nulls)?)
        }
        HeldValues::Text { bytes, ends } => {
            let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
            Arc::new(StringArray::try_new(ends, Buffer::from_vec(bytes), nulls)?)
        }
        HeldValues::Bytes { bytes, ends } => {
            let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
            Arc::new(BinaryArray::try_new(ends, Buffer::from_vec(bytes), nulls)?)
        }
    })
}

pub(crate) fn refused(error: ArrowError) -> WriteError {
    match error {
        ArrowError::IoError(_, error) => WriteError::Io(error),
        other => WriteError::Encoding { format: Format::Arrow, cause: other.to_string() },
    }
}
