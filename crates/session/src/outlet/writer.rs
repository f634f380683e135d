//! Rows into a file, or into a stream with a reader.

use std::fmt;
use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;

use engine::columns::{Columns, Schema};
use sink::{Format, FormatError, OutputError, OutputFile, WriteError, Writer};
use store::Table;

use crate::drills::SlowDisk;
use crate::networks::Enriching;

/// Why rows cannot be written.
#[derive(Debug)]
pub enum RowsError {
    /// The file cannot be created, or not be given its name.
    Output(OutputError),
    /// What is written does not arrive.
    Write(WriteError),
    /// No format was named.
    Format(FormatError),
    /// What a front door met that shows rows.
    Door(String),
    /// All was handed on, and some of it did not arrive: said at the end, and no reason to stop.
    Lost(String),
}

impl RowsError {
    /// Whether the reader of a pipe has seen enough: no error.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        matches!(self, Self::Write(error) if error.is_broken_pipe())
    }
}

impl fmt::Display for RowsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Output(error) => error.fmt(f),
            Self::Write(error) => error.fmt(f),
            Self::Format(error) => error.fmt(f),
            Self::Door(message) | Self::Lost(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for RowsError {}

impl From<OutputError> for RowsError {
    fn from(error: OutputError) -> Self {
        Self::Output(error)
    }
}

impl From<WriteError> for RowsError {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

impl From<FormatError> for RowsError {
    fn from(error: FormatError) -> Self {
        Self::Format(error)
    }
}

impl From<std::io::Error> for RowsError {
    fn from(error: std::io::Error) -> Self {
        Self::Write(WriteError::Io(error))
    }
}

/// What goes out in one piece.
pub trait Rows: Send + 'static {
    /// How many rows there are.
    fn row_count(&self) -> usize;
}

impl Rows for Columns {
    fn row_count(&self) -> usize {
        Self::row_count(self)
    }
}

/// An application's own values.
impl<T: Send + 'static> Rows for Vec<T> {
    fn row_count(&self) -> usize {
        self.len()
    }
}

/// Who is at the other end of an [`Outlet`](super::Outlet), on a thread of its own.
pub trait Taker<P: Rows>: Sized + Send + 'static {
    /// Takes rows.
    ///
    /// # Errors
    /// [`RowsError`], which ends the run.
    fn take(&mut self, rows: &P) -> Result<(), RowsError>;

    /// Hands on what is held back, so that it outlives this process.
    ///
    /// # Errors
    /// [`RowsError`], which ends the run.
    fn flush_held(&mut self) -> Result<(), RowsError> {
        Ok(())
    }

    /// Finishes a file and goes on in a new one; what is no file goes on.
    ///
    /// # Errors
    /// [`RowsError`], which ends the run.
    fn reopen(self) -> Result<Self, RowsError> {
        Ok(self)
    }

    /// There are no more; a file gets its name.
    ///
    /// # Errors
    /// [`RowsError`]
    fn finish(self) -> Result<(), RowsError>;
}

/// A consumer of rows that go into no single file: a front end, which stores or passes them on, or
/// an export.
pub trait TakeRows: Send {
    /// Says which columns rows will have, before any come, and lends what prints messages for
    /// users, if they want them.
    ///
    /// # Errors
    /// [`RowsError`]: there is no place for rows, so the run does not begin.
    fn begin(&mut self, schema: Schema, tell: Option<fn(&str)>) -> Result<(), RowsError>;

    /// Takes rows. Whoever waits here makes the queue full: see [`WhenBehind`](super::WhenBehind).
    ///
    /// # Errors
    /// [`RowsError`], after which none are handed in.
    fn take(&mut self, rows: &Columns) -> Result<(), RowsError>;

    /// Hands on what is held back, so that it outlives this process.
    ///
    /// # Errors
    /// [`RowsError`], which ends the run.
    fn flush_held(&mut self) -> Result<(), RowsError> {
        Ok(())
    }

    /// Finishes files and goes on in new ones; what is no file goes on.
    ///
    /// # Errors
    /// [`RowsError`], which ends the run.
    fn reopen(&mut self) -> Result<(), RowsError> {
        Ok(())
    }

    /// There are no more.
    ///
    /// # Errors
    /// [`RowsError`]
    fn finish(self: Box<Self>) -> Result<(), RowsError>;
}

/// Rows on their way into a file or a stream, or to a front end.
pub enum RowsWriter {
    /// A file that gets its name when it is complete.
    File(Box<Writer<OutputFile>>),
    /// What a door lends, such as standard output.
    Stream(Box<Writer<File>>),
    /// A front end takes them.
    Door(Box<dyn TakeRows>),
    /// They are kept for those who look while the run goes on, and go on from there if there is
    /// a file for them.
    Shown(Arc<Table>, Option<Box<RowsWriter>>),
    /// They get what is known of their addresses, and go on.
    Enriched(Enriching, Box<RowsWriter>),
    /// They go on after a while: a drill.
    Slow(SlowDisk, Box<RowsWriter>),
}

impl RowsWriter {
    /// Into a file.
    ///
    /// # Errors
    /// [`RowsError`]
    pub fn to_file(format: Format, schema: Schema, file: OutputFile) -> Result<Self, RowsError> {
        Ok(Self::File(Box::new(Writer::to_file(format, schema, file)?)))
    }

    /// Into a stream.
    ///
    /// # Errors
    /// [`RowsError`]
    pub fn to_stream(format: Format, schema: Schema, stream: File) -> Result<Self, RowsError> {
        Ok(Self::Stream(Box::new(Writer::streaming(format, schema, stream)?)))
    }

    /// To who takes them instead.
    ///
    /// # Errors
    /// [`RowsError`]
    pub fn to_door(
        schema: Schema,
        mut door: Box<dyn TakeRows>,
        tell: Option<fn(&str)>,
    ) -> Result<Self, RowsError> {
        door.begin(schema, tell)?;
        Ok(Self::Door(door))
    }
}

impl Taker<Columns> for RowsWriter {
    fn take(&mut self, rows: &Columns) -> Result<(), RowsError> {
        match self {
            Self::File(writer) => writer.write(rows)?,
            Self::Stream(writer) => writer.write(rows)?,
            Self::Door(door) => door.take(rows)?,
            Self::Enriched(enriching, writer) => {
                let rows = enriching
                    .rows(rows)
                    .map_err(|refused| RowsError::Door(format!("[networks]: {refused}")))?;
                return writer.take(&rows);
            }
            Self::Slow(disk, writer) => {
                disk.wait();
                return writer.take(rows);
            }
            Self::Shown(table, writer) => {
                table.push(rows);
                return writer.as_mut().map_or(Ok(()), |writer| writer.take(rows));
            }
        }
        Ok(())
    }

    fn flush_held(&mut self) -> Result<(), RowsError> {
        match self {
            Self::File(writer) => writer.flush_held()?,
            Self::Stream(writer) => writer.flush_held()?,
            Self::Door(door) => door.flush_held()?,
            Self::Shown(_, Some(writer)) | Self::Enriched(_, writer) | Self::Slow(_, writer) => {
                writer.flush_held()?;
            }
            Self::Shown(_, None) => {}
        }
        Ok(())
    }

    fn reopen(self) -> Result<Self, RowsError> {
        match self {
            Self::File(writer) => {
                let (writer, _) = writer.reopen()?;
                Ok(Self::File(Box::new(writer)))
            }
            Self::Shown(table, Some(writer)) => {
                Ok(Self::Shown(table, Some(Box::new(writer.reopen()?))))
            }
            Self::Enriched(enriching, writer) => {
                Ok(Self::Enriched(enriching, Box::new(writer.reopen()?)))
            }
            Self::Slow(disk, writer) => Ok(Self::Slow(disk, Box::new(writer.reopen()?))),
            Self::Door(mut door) => {
                door.reopen()?;
                Ok(Self::Door(door))
            }
            other @ (Self::Stream(_) | Self::Shown(_, None)) => Ok(other),
        }
    }

    fn finish(self) -> Result<(), RowsError> {
        match self {
            Self::File(writer) => {
                writer.finish()?.finish()?;
            }
            Self::Stream(writer) => {
                writer.finish()?.flush()?;
            }
            Self::Door(door) => door.finish()?,
            Self::Shown(_, writer) => return writer.map_or(Ok(()), |writer| writer.finish()),
            Self::Enriched(_, writer) | Self::Slow(_, writer) => return writer.finish(),
        }
        Ok(())
    }
}
