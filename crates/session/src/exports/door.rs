//! Where rows are handed in that go into no single file.

use engine::columns::{Columns, Schema};
use sink::{Existing, Files, OutputFile, Parts, Turn, time_column};

use super::eve::Eve;
use super::file::TextFile;
use super::ipfix::{Choices, Ipfix};
use super::row::Places;
use super::zeek::{ExtraColumns, Zeek};
use super::{Export, Form, Records, Style, is_collector};
use crate::outlet::{RowsError, TakeRows};

/// Takes rows and writes them as records, or into many files.
pub struct Door {
    export: Export,
    open: Option<Open>,
    /// Prints for users what was written.
    tell: Option<fn(&str)>,
}

/// What is open.
enum Open {
    Records { places: Places, time: Option<usize>, turn: Turn, records: Box<dyn Records> },
    Files(Box<Files>),
    Parts(Box<Parts>),
}

impl Open {
    fn begin(export: &Export, schema: Schema) -> Result<Self, RowsError> {
        let (path, options, force) = (export.opened_path(), &export.options, export.force);
        let style = match export.form {
            Form::Records(style) => style,
            Form::Rows(format) => {
                if let Some(partition) = options.partition {
                    let (of, size) = (partition.into(), options.rotate_bytes);
                    let parts = Parts::create(path, format, schema, of, size)?;
                    return Ok(Self::Parts(Box::new(parts)));
                }
                let existing = if force { Existing::Replace } else { Existing::Refuse };
                let file = OutputFile::create(path, existing)?;
                let files = Files::create(format, schema, file, export.rotation())?;
                return Ok(Self::Files(Box::new(files)));
            }
        };
        let places = Places::of(schema);
        let (has_macs, has_verdict) = (places.has_macs(), places.has_verdict());
        let added = ExtraColumns { has_macs, has_verdict };
        let records: Box<dyn Records> = match style {
            Style::Eve => Box::new(Eve(TextFile::create(path, force)?)),
            Style::Zeek => Box::new(Zeek::create(path, false, force, added)?),
            Style::ZeekJson => Box::new(Zeek::create(path, true, force, added)?),
            Style::Ipfix => {
                let (is_biflow, enterprise) = (options.biflow, options.enterprise);
                let choices = Choices { is_biflow, enterprise, has_macs, has_verdict };
                Box::new(Ipfix::create(path, force, choices)?)
            }
        };
        let (time, turn) = (time_column(schema), Turn::new(export.rotation()));
        Ok(Self::Records { places, time, turn, records })
    }

    fn take(&mut self, rows: &Columns) -> Result<(), RowsError> {
        let (places, time, turn, records) = match self {
            Self::Files(files) => return Ok(files.write(rows)?),
            Self::Parts(parts) => return Ok(parts.write(rows)?),
            Self::Records { places, time, turn, records } => (places, time, turn, records),
        };
        for row in 0..rows.row_count() {
            let flow = places.row(rows, row);
            if time.is_some() && turn.is_due(records.size_bytes(), flow.last_ns) {
                records.reopen()?;
            }
            records.put(&flow)?;
        }
        Ok(())
    }

    fn flush_held(&mut self) -> Result<(), RowsError> {
        match self {
            Self::Files(files) => files.flush_held()?,
            Self::Parts(parts) => parts.flush_held()?,
            Self::Records { records, .. } => records.write_out()?,
        }
        Ok(())
    }

    fn reopen(&mut self) -> Result<(), RowsError> {
        match self {
            Self::Files(files) => files.reopen()?,
            Self::Parts(parts) => parts.finish_open()?,
            Self::Records { records, .. } => records.reopen()?,
        }
        Ok(())
    }

    /// What is to be said of it.
    fn finish(self) -> Result<String, RowsError> {
        match self {
            Self::Files(files) => {
                let count = files.finish()?;
                Ok(format!("{count} {} written", if count == 1 { "file" } else { "files" }))
            }
            Self::Parts(mut parts) => {
                parts.finish_open()?;
                Ok(format!("{} parts written", parts.finished_count()))
            }
            Self::Records { records, .. } => records.finish(),
        }
    }
}

impl Door {
    /// Files are opened once the run [begins](TakeRows::begin), before anything is read.
    #[must_use]
    pub const fn new(export: Export) -> Self {
        Self { export, open: None, tell: None }
    }

    /// Does something with what is open. Where one of several files cannot be written, the others
    /// get their names with the rows that they have: they would go with this one otherwise.
    fn or_finish(
        &mut self,
        act: impl FnOnce(&mut Open) -> Result<(), RowsError>,
    ) -> Result<(), RowsError> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let done = act(open);
        // A collector that takes no more would be waited for again.
        if done.is_err() && !is_collector(&self.export.path) {
            // The first failure is the one to report.
            let _ = self.open.take().map(Open::finish);
        }
        done
    }
}

impl TakeRows for Door {
    fn begin(&mut self, schema: Schema, tell: Option<fn(&str)>) -> Result<(), RowsError> {
        self.open = Some(Open::begin(&self.export, schema)?);
        self.tell = tell;
        Ok(())
    }

    fn take(&mut self, rows: &Columns) -> Result<(), RowsError> {
        self.or_finish(|open| open.take(rows))
    }

    fn flush_held(&mut self) -> Result<(), RowsError> {
        self.or_finish(Open::flush_held)
    }

    fn reopen(&mut self) -> Result<(), RowsError> {
        self.or_finish(Open::reopen)
    }

    fn finish(self: Box<Self>) -> Result<(), RowsError> {
        let Some(open) = self.open else { return Ok(()) };
        let line = open.finish().map_err(|error| match error {
            RowsError::Lost(what) => {
                RowsError::Lost(format!("{}: {what}", self.export.path.display()))
            }
            error => error,
        })?;
        if let Some(tell) = self.tell.filter(|_| !line.is_empty()) {
            tell(&format!("{}: {line}", self.export.path.display()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::Command;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Instant;

    use engine::columns::{Field, Kind, Value};
    use engine::run::Control;
    use sink::Format;

    use super::super::{Options, Partition};
    use super::*;
    use crate::outlet::{RowsWriter, WhenBehind, begin};

    const SCHEMA: Schema = &[
        Field::new("community_id", Kind::Text, "A flow."),
        Field::new("last_ns", Kind::TimestampNs, "When it ended."),
    ];

    fn door(path: &std::path::Path, style: Style) -> Door {
        let (path, form, force) = (path.to_owned(), Form::Records(style), false);
        let export = Export { path, form, force, options: Options::default() };
        Door::new(export)
    }

    fn rows(count: usize) -> Columns {
        rows_at(std::iter::repeat_n(1, count))
    }

    fn rows_at(times: impl IntoIterator<Item = i64>) -> Columns {
        let mut rows = Columns::new(SCHEMA);
        for time in times {
            rows.push_row(&[Value::Str("1:abc="), Value::TimestampNs(time)]).unwrap();
        }
        rows
    }

    #[test]
    fn a_reader_that_is_slow_costs_rows_of_an_interface_and_each_is_counted() {
        let home = tempfile::tempdir().unwrap();
        let pipe = home.path().join("eve");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let (go, stuck) = mpsc::channel::<()>();
        let reading = thread::spawn({
            let pipe = pipe.clone();
            move || {
                let mut pipe = std::fs::File::open(pipe).unwrap();
                let _ = stuck.recv();
                let mut text = String::new();
                pipe.read_to_string(&mut text).unwrap();
                text.lines().count() as u64
            }
        });
        let writer = RowsWriter::to_door(SCHEMA, Box::new(door(&pipe, Style::Eve)), None).unwrap();
        let control = Arc::new(Control::default());
        #[allow(clippy::disallowed_methods)]
        let now = Instant::now;
        let (outlet, writer) = begin("flows", writer, WhenBehind::Drop, now, control);
        (0..100).for_each(|_| outlet.put(rows(2000)));
        drop(go);
        drop(outlet);
        let counts = [&writer.counts().received, &writer.counts().dropped]
            .map(|count| count.load(Ordering::Relaxed));
        let dropped = writer.finish().unwrap();
        assert_eq!(counts, [200_000, dropped]);
        assert!(dropped > 0);
        assert_eq!(reading.join().unwrap(), 200_000 - dropped);
    }

    #[test]
    fn where_one_part_cannot_be_begun_the_others_keep_their_rows() {
        const HOUR: i64 = 3_600_000_000_000;
        let home = tempfile::tempdir().unwrap();
        let day = home.path().join("date=1970-01-01");
        let options = Options { partition: Some(Partition::Hour), ..Options::default() };
        let (path, form, force) = (home.path().to_owned(), Form::Rows(Format::Csv), false);
        let export = Export { path, form, force, options };
        let mut door = Door::new(export);
        door.begin(SCHEMA, None).unwrap();
        door.take(&rows_at([0, HOUR])).unwrap();
        // What stands there is no folder, which root cannot ignore as it can permissions.
        std::fs::write(day.join("hour=02"), "").unwrap();
        assert!(door.take(&rows_at([2 * HOUR])).is_err());
        drop(door);
        for hour in ["hour=00", "hour=01"] {
            let part = std::fs::read_to_string(day.join(hour).join("part-00000.csv")).unwrap();
            assert_eq!(part.lines().count(), 2, "{hour}");
        }
    }

    #[test]
    fn what_cannot_be_opened_is_said_before_anything_is_read() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("eve.json");
        std::fs::write(&path, "mine").unwrap();
        let mut door = door(&path, Style::Eve);
        let failure = door.begin(SCHEMA, None).unwrap_err();
        assert!(failure.to_string().contains("exists already"));
        assert!(RowsWriter::to_door(SCHEMA, Box::new(door), None).is_err());
        assert_eq!(std::fs::read_to_string(path).unwrap(), "mine");
    }
}
