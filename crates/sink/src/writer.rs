//! One writer for all formats.

use std::collections::HashSet;
use std::io::{self, Write};
use std::ptr;

use engine::columns::{Columns, Schema};

use crate::ipc::Ipc;
use crate::lines::Lines;
use crate::row_groups::RowGroups;
use crate::{Format, OutputFile, Piece, WriteError};

/// Writes rows in one of the formats to anything that takes bytes.
///
/// Memory is bounded: text formats hold 64 KiB back, Parquet and Arrow at most
/// 131,072 rows or 64 MiB of text. What was handed to [`write`](Self::write)
/// is all in the output only after [`finish`](Self::finish).
pub struct Writer<W: Write + Send> {
    schema: Schema,
    encoder: Encoder<W>,
    /// A reader waits for each write, as at a pipe.
    at_once: bool,
    failed: bool,
}

enum Encoder<W: Write + Send> {
    Lines(Lines<W>),
    Parquet(Box<RowGroups<W>>),
    Arrow(Ipc<W>),
}

impl<W: Write + Send> Writer<W> {
    /// Writes what a file should hold: rows are gathered into large pieces,
    /// and Arrow has its file layout.
    ///
    /// # Errors
    /// [`WriteError`] where the schema cannot be written or the output refuses the first bytes.
    pub fn new(format: Format, schema: Schema, io: W) -> Result<Self, WriteError> {
        Self::with(format, schema, io, false)
    }

    /// Writes for the reader of a pipe: each [`write`](Self::write)
    /// arrives immediately, and Arrow has its stream layout. Parquet is not
    /// readable before its end, so it is written as [`new`](Self::new) does.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn streaming(format: Format, schema: Schema, io: W) -> Result<Self, WriteError> {
        Self::with(format, schema, io, true)
    }

    fn with(format: Format, schema: Schema, io: W, at_once: bool) -> Result<Self, WriteError> {
        check(schema)?;
        let encoder = match format {
            Format::Csv => Encoder::Lines(Lines::csv(schema, io, at_once)?),
            Format::Jsonl => Encoder::Lines(Lines::jsonl(schema, io, at_once)),
            Format::Parquet => Encoder::Parquet(Box::new(RowGroups::new(schema, io)?)),
            Format::Arrow if at_once => Encoder::Arrow(Ipc::stream(schema, io)?),
            Format::Arrow => Encoder::Arrow(Ipc::file(schema, io)?),
        };
        Ok(Self { schema, encoder, at_once, failed: false })
    }

    /// Appends rows, which must have the writer's schema.
    ///
    /// # Errors
    /// [`WriteError::OtherSchema`] takes nothing and leaves the writer as it
    /// was. After any other, the output is incomplete: no later call succeeds.
    pub fn write(&mut self, rows: &Columns) -> Result<(), WriteError> {
        if self.failed {
            return Err(WriteError::AfterFailure);
        }
        let seen = rows.schema();
        if !ptr::eq(seen, self.schema) && seen != self.schema {
            return Err(WriteError::OtherSchema { wanted: self.schema, seen });
        }
        let written = match &mut self.encoder {
            Encoder::Lines(lines) => lines.write(rows).map_err(WriteError::Io),
            Encoder::Parquet(groups) => groups.write(rows),
            Encoder::Arrow(ipc) => ipc.write(rows),
        };
        self.failed = written.is_err();
        written
    }

    /// Writes the rows held back, so that they outlive this process: lines as
    /// they are, Parquet and Arrow as a row group or batch that ends here. For
    /// output that runs for hours; each call that finds rows costs a file of
    /// many columns some kilobytes.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn flush_held(&mut self) -> Result<(), WriteError> {
        if self.failed {
            return Err(WriteError::AfterFailure);
        }
        let flushed = match &mut self.encoder {
            Encoder::Lines(lines) => lines.flush_held().map_err(WriteError::Io),
            Encoder::Parquet(groups) => groups.flush_held(),
            Encoder::Arrow(ipc) => ipc.flush_held(),
        };
        self.failed = flushed.is_err();
        flushed
    }

    /// Writes what was held back and what the format has at its end, flushes,
    /// and hands the output back.
    ///
    /// # Errors
    /// [`WriteError`] where that fails, or an earlier write had failed.
    pub fn finish(self) -> Result<W, WriteError> {
        if self.failed {
            return Err(WriteError::AfterFailure);
        }
        match self.encoder {
            Encoder::Lines(lines) => lines.finish().map_err(WriteError::Io),
            Encoder::Parquet(groups) => groups.finish(),
            Encoder::Arrow(ipc) => ipc.finish(),
        }
    }

    /// The format written.
    #[must_use]
    pub fn format(&self) -> Format {
        match &self.encoder {
            Encoder::Lines(lines) => lines.format(),
            Encoder::Parquet(_) => Format::Parquet,
            Encoder::Arrow(_) => Format::Arrow,
        }
    }
}

impl Writer<OutputFile> {
    /// [`new`](Self::new) for a file, [`streaming`](Self::streaming) for a pipe or device.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn to_file(
        format: Format,
        schema: Schema,
        mut file: OutputFile,
    ) -> Result<Self, WriteError> {
        file.holds_rows();
        let at_once = file.is_stream();
        Self::with(format, schema, file, at_once)
    }

    /// Bytes written so far; rows of a row group or batch that has not ended are none yet.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        match &self.encoder {
            Encoder::Lines(lines) => {
                let (file, held_len) = lines.io();
                file.written_bytes() + held_len as u64
            }
            Encoder::Parquet(groups) => groups.io().map_or(0, OutputFile::written_bytes),
            Encoder::Arrow(ipc) => ipc.io().written_bytes(),
        }
    }

    /// Finishes the file and continues in a new one, as [`OutputFile::reopen`]
    /// does; a pipe or device gets what was held back and stays.
    ///
    /// # Errors
    /// [`WriteError`] where the file cannot be finished or the new one not begun; what was
    /// finished stays.
    pub fn reopen(mut self) -> Result<(Self, Option<Piece>), WriteError> {
        if self.at_once {
            self.flush_held()?;
            return Ok((self, None));
        }
        let (format, schema) = (self.format(), self.schema);
        let (file, piece) = self.finish()?.reopen().map_err(io::Error::from)?;
        Ok((Self::to_file(format, schema, file)?, Some(piece)))
    }
}

fn check(schema: Schema) -> Result<(), WriteError> {
    if schema.is_empty() {
        return Err(WriteError::NoColumns);
    }
    let mut names = HashSet::with_capacity(schema.len());
    for field in schema {
        if !names.insert(field.name) {
            return Err(WriteError::DuplicateColumn(field.name));
        }
    }
    Ok(())
}
