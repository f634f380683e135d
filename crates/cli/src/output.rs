//! Where rows go: a table on standard output, or a format to a file or standard output.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;

use engine::columns::{Columns, Schema};
use sink::{Existing, Format, OutputFile, Writer};

use crate::args::{OutputArguments, OutputFormat};
use crate::failure::Failure;

/// How results are to be shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Show {
    /// As a table that the command draws itself.
    Table,
    /// As rows in a format.
    Rows(Format),
}

/// An open output for rows.
pub(crate) enum Rows {
    File(Box<Writer<OutputFile>>),
    Stdout(Box<Writer<File>>),
}

impl From<OutputFormat> for Show {
    fn from(format: OutputFormat) -> Self {
        match format {
            OutputFormat::Table => Self::Table,
            OutputFormat::Csv => Self::Rows(Format::Csv),
            OutputFormat::Jsonl => Self::Rows(Format::Jsonl),
            OutputFormat::Parquet => Self::Rows(Format::Parquet),
            OutputFormat::Arrow => Self::Rows(Format::Arrow),
        }
    }
}

/// How results are to be shown, from what was typed.
pub(crate) fn show(arguments: &OutputArguments) -> Result<Show, Failure> {
    match (arguments.format, &arguments.output) {
        (Some(OutputFormat::Table), Some(_)) => Err(Failure::usage(
            "--format table goes to the terminal; with -o choose csv, jsonl, parquet or arrow",
        )),
        (Some(format), _) => Ok(format.into()),
        (None, Some(path)) => Ok(Show::Rows(Format::from_suffix(path)?)),
        (None, None) => Ok(Show::Table),
    }
}

/// Opens the output for rows, before any work is done for it.
pub(crate) fn create(
    arguments: &OutputArguments,
    format: Format,
    schema: Schema,
) -> Result<Rows, Failure> {
    if let Some(path) = &arguments.output {
        let existing = if arguments.force { Existing::Replace } else { Existing::Refuse };
        let file = OutputFile::create(path, existing)?;
        return Ok(Rows::File(Box::new(Writer::to_file(format, schema, file)?)));
    }
    // A file of our own over the same descriptor: the standard handle would
    // flush at each line end.
    let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    Ok(Rows::Stdout(Box::new(Writer::streaming(format, schema, stdout)?)))
}

impl Rows {
    pub(crate) fn write(&mut self, rows: &Columns) -> Result<(), Failure> {
        match self {
            Self::File(writer) => writer.write(rows)?,
            Self::Stdout(writer) => writer.write(rows)?,
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<(), Failure> {
        match self {
            Self::File(writer) => {
                writer.finish()?.finish()?;
            }
            Self::Stdout(writer) => {
                writer.finish()?.flush()?;
            }
        }
        Ok(())
    }
}
