//! Where rows go: a table on standard output, or a format to a file or standard output.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::os::fd::AsFd as _;

use comfy_table::Table;
use engine::columns::{Columns, Schema};
use session::exports::{Export, Form, Options};
use sink::{Existing, Format, OutputFile, Writer};

use crate::args::{AnyFormat, FlowsOutputArguments, OutputArguments, OutputFormat};
use crate::failure::Failure;
use crate::table;

/// How results are to be shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Show {
    /// As a table that the command draws itself.
    Table,
    /// As rows in a format.
    Rows(Format),
}

impl Show {
    const fn format(self) -> Option<Format> {
        if let Self::Rows(format) = self { Some(format) } else { None }
    }
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
        (Some(format), Some(_)) => Ok(format.into()),
        (Some(format), None) => to_stdout(format.into()),
        (None, Some(path)) => Ok(Show::Rows(Format::from_suffix(path)?)),
        (None, None) => Ok(Show::Table),
    }
}

/// How flows are to be shown, and what is more than one file of rows.
pub(crate) fn flows(
    arguments: &FlowsOutputArguments,
) -> Result<(Show, OutputArguments, Option<Export>), Failure> {
    let FlowsOutputArguments { output, format, force, partition, file_mode, .. } = arguments;
    let FlowsOutputArguments { rotate_bytes, rotate_time, biflow, enterprise, .. } = *arguments;
    let plain = format.and_then(AnyFormat::plain);
    let (output, force, file_mode) = (output.clone(), *force, *file_mode);
    let rows = OutputArguments { output: output.clone(), format: plain, force, file_mode };
    let options = Options { partition: *partition, rotate_bytes, rotate_time, biflow, enterprise };
    if plain == Some(OutputFormat::Table) || output.is_none() && format.is_none() {
        return match options.first_given() {
            None => Ok((show(&rows)?, rows, None)),
            Some(key) => Err(Failure::usage(format_args!(
                "--{key}: a table on the terminal has none; give -o, or --format"
            ))),
        };
    }
    let asked = format.and_then(|format| match format {
        AnyFormat::Of(style) => Some(Form::Records(style)),
        AnyFormat::Plain(plain) => Show::from(plain).format().map(Form::Rows),
    });
    let path = output.clone().unwrap_or_else(|| "-".into());
    let form = Export::form(&path, asked, &options)?;
    let is_stdout = path.as_os_str() == "-";
    let export = Export { path, form, force, options };
    export.check().map_err(|refusal| Failure::usage(format_args!("--{refusal}")))?;
    let format = if let Form::Rows(format) = form { format } else { Format::Jsonl };
    let show = Show::Rows(format);
    let show = if is_stdout { to_stdout(show)? } else { show };
    Ok((show, rows, Some(export).filter(Export::is_needed)))
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

/// Refuses to write bytes onto a terminal that are no text.
fn to_stdout(show: Show) -> Result<Show, Failure> {
    match show {
        Show::Rows(format @ (Format::Parquet | Format::Arrow)) if io::stdout().is_terminal() => {
            let name = format.name();
            Err(Failure::usage(format_args!(
                "--format {name} is binary and standard output is a terminal; give -o FILE, or \
                 send it to a file or a pipe"
            )))
        }
        show => Ok(show),
    }
}

/// Prints rows: as a table as they are, else in a format.
pub(crate) fn list(rows: &Columns, format: OutputFormat) -> Result<(), Failure> {
    let mut text = Vec::new();
    if let Show::Rows(format) = to_stdout(format.into())? {
        let mut writer = Writer::streaming(format, rows.schema(), io::stdout())?;
        writer.write(rows)?;
        writer.finish()?;
        return Ok(());
    }
    let mut writer = Writer::new(Format::Csv, rows.schema(), &mut text)?;
    writer.write(rows)?;
    writer.finish()?;
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    // No value here holds a comma.
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.lines().map(|line| line.split(','));
    table.set_header(lines.next().into_iter().flatten());
    table.add_rows(lines);
    let least = ["community_id", "first_ns", "last_ns"];
    Ok(writeln!(io::stdout(), "{}", table::fitted(&mut table, &least))?)
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
