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
        RowsTo::Door(door) => return RowsWriter::to_door(schema, door, doors.tell),
        RowsTo::File(output) => output,
    };
    if output.is_stdout() {
        return RowsWriter::to_stream(output.format, schema, (doors.stdout)()?);
    }
    let existing = if output.force { Existing::Replace } else { Existing::Refuse };
    let file = OutputFile::create(&output.path, existing)?;
    RowsWriter::to_file(output.format, schema, file)
}

/// Rows of an application that were dropped.
pub(super) struct DroppedRows {
    /// The application's place in the run: several may have one name.
    pub place: usize,
    pub name: &'static str,
    pub count: u64,
}

/// Waits until all rows are written, of writers by the places of their applications; the first that
/// could not be is why the run failed. With those that were dropped, what did not arrive.
pub(super) fn finish_rows(
    writers: Vec<(usize, OutletWriter)>,
    failure: &mut Option<RunError>,
) -> (Vec<DroppedRows>, Vec<String>) {
    let (mut dropped, mut lost) = (Vec::new(), Vec::new());
    for (place, writer) in writers {
        let name = writer.name();
        match writer.finish() {
            Ok(0) => {}
            Ok(count) => dropped.push(DroppedRows { place, name, count }),
            Err(RowsError::Lost(what)) => lost.push(format!("{name}: {what}")),
            Err(error) if explains(&error, failure.as_ref()) => {
                *failure = Some(RunError::Rows(name, error));
            }
            Err(_) => {}
        }
    }
    (dropped, lost)
}

/// Whether rows that could not be written are why the run failed, rather than what failed before.
/// They explain what applications say. A reader that has seen enough explains nothing: a run that
/// failed would end as if all was well.
fn explains(error: &RowsError, before: Option<&RunError>) -> bool {
    match before {
        None => true,
        Some(RunError::Rows(_, before)) => before.is_enough() && !error.is_enough(),
        Some(_) => !error.is_enough(),
    }
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

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};
    use std::sync::mpsc;
    use std::time::Instant;

    use engine::columns::{Columns, Field, Kind, Schema, Value};

    use super::*;
    use crate::outlet::{Outlet, Stuck, WhenBehind, begin};

    const SCHEMA: Schema = &[Field::new("number", Kind::U64, "A number.")];

    #[test]
    fn rows_that_are_dropped_are_those_of_one_of_two_applications_of_a_name() {
        let (go, stuck) = mpsc::channel();
        let rows = RowsWriter::to_door(SCHEMA, Box::new(Stuck(stuck)), None).unwrap();
        let other = RowsWriter::to_door(SCHEMA, Box::new(Stuck(mpsc::channel().1)), None).unwrap();
        #[allow(clippy::disallowed_methods)]
        let now = Instant::now;
        let top = |rows| begin("top", rows, WhenBehind::Drop, now, Default::default());
        let begun: [(Outlet, OutletWriter); 2] = [top(other), top(rows)];
        let [(quick, first), (slow, second)] = begun;
        let mut row = Columns::new(SCHEMA);
        row.push_row(&[Value::U64(1)]).unwrap();
        quick.put(row.clone());
        (0..100).for_each(|_| slow.put(row.clone()));
        drop((go, quick, slow));
        let mut failure = None;
        let (dropped, lost) = finish_rows(vec![(0, first), (1, second)], &mut failure);
        assert!(failure.is_none() && lost.is_empty());
        let dropped: Vec<_> =
            dropped.iter().map(|one| (one.place, one.name, one.count > 50)).collect();
        assert_eq!(dropped, [(1, "top", true)]);
    }

    /// Takes all rows, and learns at the end that some did not arrive.
    struct Lossy;

    impl TakeRows for Lossy {
        fn begin(&mut self, _: Schema, _: Option<fn(&str)>) -> Result<(), RowsError> {
            Ok(())
        }

        fn take(&mut self, _: &Columns) -> Result<(), RowsError> {
            Ok(())
        }

        fn finish(self: Box<Self>) -> Result<(), RowsError> {
            Err(RowsError::Lost(String::from("2 of 3 messages")))
        }
    }

    #[test]
    fn what_did_not_arrive_is_a_loss_and_ends_no_run() {
        let rows = RowsWriter::to_door(SCHEMA, Box::new(Lossy), None).unwrap();
        let control = std::sync::Arc::<engine::run::Control>::default();
        #[allow(clippy::disallowed_methods)]
        let now = Instant::now;
        let (outlet, writer): (Outlet, OutletWriter) =
            begin("flows", rows, WhenBehind::Wait, now, control.clone());
        drop(outlet);
        let mut failure = None;
        let (dropped, lost) = finish_rows(vec![(0, writer)], &mut failure);
        assert!(failure.is_none() && dropped.is_empty() && !control.is_stopped());
        assert_eq!(lost, ["flows: 2 of 3 messages"]);
    }

    #[test]
    fn a_reader_that_has_seen_enough_hides_no_failure() {
        let closed = || RowsError::from(Error::from(ErrorKind::BrokenPipe));
        let full = || RowsError::from(Error::from(ErrorKind::StorageFull));
        let rows = |error| RunError::Rows("flows", error);
        let application = RunError::Application("packetlog", Refusal::new("its disk is full"));
        assert!(explains(&closed(), None) && explains(&full(), None));
        assert!(explains(&full(), Some(&rows(closed()))));
        assert!(explains(&full(), Some(&application)));
        assert!(!explains(&full(), Some(&rows(full()))), "the first is the one to report");
        assert!(!explains(&closed(), Some(&rows(full()))));
        assert!(!explains(&closed(), Some(&rows(closed()))));
        assert!(!explains(&closed(), Some(&application)));
    }
}
