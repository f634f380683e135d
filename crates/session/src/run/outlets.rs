//! Where the rows of an application go, opened and finished.

use sink::{Existing, OutputError, OutputFile};

use super::outputs::OutputSettings;
use super::session::{Doors, RunError};
use crate::application::Refusal;
use crate::outlet::{OutletWriter, RowsError, RowsWriter, TakeRows};
use crate::toml_text::Mistake;

/// Where an application's rows go.
pub(super) enum RowsTo {
    File(OutputSettings),
    Door(Box<dyn TakeRows>),
}

impl RowsTo {
    pub(super) fn of(
        door: Option<Box<dyn TakeRows>>,
        output: Option<OutputSettings>,
    ) -> Option<Self> {
        door.map(Self::Door).or(output.map(Self::File))
    }
}

pub(super) fn open_rows(
    to: RowsTo,
    schema: engine::columns::Schema,
    doors: Doors,
) -> Result<RowsWriter, RowsError> {
    let output = match to {
        RowsTo::Door(door) => return Ok(RowsWriter::to_door(schema, door)),
        RowsTo::File(output) => output,
    };
    if output.is_stdout() {
        return RowsWriter::to_stream(output.format, schema, (doors.stdout)()?);
    }
    let existing = if output.force { Existing::Replace } else { Existing::Refuse };
    let file = OutputFile::create(&output.path, existing)?;
    RowsWriter::to_file(output.format, schema, file)
}

/// Waits until all rows are written; the first that failed is why the run did.
pub(super) fn finish_rows(
    writers: Vec<OutletWriter>,
    failure: &mut Option<RunError>,
) -> Vec<(&'static str, u64)> {
    let mut dropped = Vec::new();
    for writer in writers {
        let name = writer.name();
        match writer.finish() {
            Ok(0) => {}
            Ok(count) => dropped.push((name, count)),
            // What could not be written explains what applications say.
            Err(error) => *failure = Some(RunError::Rows(name, error)),
        }
    }
    dropped
}

/// Why an application cannot begin, in the words of settings if it is in some.
pub(super) fn wrong(place: Option<&Mistake>, name: &str, refusal: Refusal) -> RunError {
    match place {
        Some(place) => RunError::Begin(place.with(format_args!("[{name}] {refusal}"))),
        None => RunError::Refused(refusal),
    }
}

/// The same of a file, in the words of settings.
pub(super) fn wrong_rows(
    place: Option<&Mistake>,
    name: &'static str,
    error: RowsError,
) -> RunError {
    match (place, error) {
        (Some(_), RowsError::Output(OutputError::Exists(path))) => {
            let path = path.display();
            let try_this = "give force = true to replace it, or another name";
            let exists = Refusal::of("output", format_args!("{path} exists already; {try_this}"));
            wrong(place, name, exists)
        }
        (Some(_), error) if !error.is_enough() => wrong(place, name, Refusal::new(error)),
        (_, error) => RunError::Rows(name, error),
    }
}
