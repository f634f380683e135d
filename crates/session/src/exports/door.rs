//! Where rows are handed in, and how a run is refused before it begins.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use capture::live::CutFrames;
use engine::columns::{Columns, Schema};
use engine::flow::pass::LabelKind;
use sink::{Existing, Files, OutputError, OutputFile, Parts, Turn, time_column};
use store::packets::PacketLog;

use super::eve::Eve;
use super::file::TextFile;
use super::ipfix::{Choices, Ipfix};
use super::row::Places;
use super::zeek::{ExtraColumns, Zeek};
use super::{Export, Form, Records, Style, is_collector};
use crate::application::{Opening, Ready, Replacement, Wants, Watchers};
use crate::outlet::{RowsError, TakeRows};
use crate::refusal::Refusal;

/// What the two ends tell each other.
#[derive(Default)]
struct Shared {
    /// Why nothing could be opened.
    failure: Option<RowsError>,
    /// Tells people what happens, where they want to know.
    tell: Option<fn(&str)>,
}

type Said = Arc<Mutex<Shared>>;

/// An application whose rows are exported, and who takes them. Files are opened once the run
/// begins, before anything is read.
#[must_use]
pub fn export(ready: Box<dyn Ready>, export: Export) -> (Box<dyn Ready>, Box<dyn TakeRows>) {
    let said = Said::default();
    let door = Door { export, said: Arc::clone(&said), open: None };
    (Box::new(Exporting { ready, said }), Box::new(door))
}

/// Takes rows and writes them as records, or into many files.
pub struct Door {
    export: Export,
    said: Said,
    open: Option<Open>,
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

fn lock(said: &Said) -> std::sync::MutexGuard<'_, Shared> {
    said.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TakeRows for Door {
    fn begin(&mut self, schema: Schema) {
        match Open::begin(&self.export, schema) {
            Ok(open) => self.open = Some(open),
            Err(failure) => lock(&self.said).failure = Some(failure),
        }
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
        let line = open.finish()?;
        let tell = lock(&self.said).tell.filter(|_| !line.is_empty());
        if let Some(tell) = tell {
            tell(&format!("{}: {line}", self.export.path.display()));
        }
        Ok(())
    }
}

/// An application that does not begin where its rows have nowhere to go.
struct Exporting {
    ready: Box<dyn Ready>,
    said: Said,
}

impl Ready for Exporting {
    fn name(&self) -> &'static str {
        self.ready.name()
    }

    fn is_by_flow(&self) -> bool {
        self.ready.is_by_flow()
    }

    fn has_shares(&self) -> bool {
        self.ready.has_shares()
    }

    fn wants(&self) -> Wants {
        self.ready.wants()
    }

    fn schema(&self, has_capture: bool) -> Schema {
        self.ready.schema(has_capture)
    }

    fn gives(&self) -> Vec<(LabelKind, Vec<String>)> {
        self.ready.gives()
    }

    fn classifies_again(&self) -> bool {
        self.ready.classifies_again()
    }

    fn reads(&self) -> &[PathBuf] {
        self.ready.reads()
    }

    fn log_folder(&self) -> Option<&Path> {
        self.ready.log_folder()
    }

    fn log_search(&self) -> Option<Arc<dyn PacketLog>> {
        self.ready.log_search()
    }

    fn replacement(&self) -> Option<Replacement> {
        self.ready.replacement()
    }

    fn cut_frames(&self) -> Option<CutFrames> {
        self.ready.cut_frames()
    }

    fn escalates(&self) -> bool {
        self.ready.escalates()
    }

    fn has_maps(&self) -> bool {
        self.ready.has_maps()
    }

    fn attaches(&self) -> bool {
        self.ready.attaches()
    }

    fn unsteered(&self) -> Option<&'static str> {
        self.ready.unsteered()
    }

    fn is_in_any_order(&self) -> bool {
        self.ready.is_in_any_order()
    }

    fn open(self: Box<Self>, opening: Opening) -> Result<Watchers, Refusal> {
        {
            let mut said = lock(&self.said);
            said.tell = opening.tell;
            if let Some(failure) = said.failure.take() {
                return Err(refusal(&failure));
            }
        }
        self.ready.open(opening)
    }
}

/// In words that hold for arguments and for settings.
fn refusal(failure: &RowsError) -> Refusal {
    match failure {
        RowsError::Output(OutputError::Exists(path)) => Refusal::of(
            "output",
            format_args!(
                "`{}` exists already; give force to replace it, or another name",
                path.display()
            ),
        ),
        other => Refusal::of("output", other),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::Command;
    use std::sync::atomic::Ordering;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Instant;

    use engine::columns::{Field, Kind, Value};
    use engine::run::Control;
    use sink::Format;
    use store::packets::{PacketQuery, PacketRow};

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
        Door { export, said: Said::default(), open: None }
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
        let writer = RowsWriter::to_door(SCHEMA, Box::new(door(&pipe, Style::Eve)));
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
        let mut door = Door { export, said: Said::default(), open: None };
        door.begin(SCHEMA);
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

    /// An application that is other than most in all that it says before it begins.
    struct Unusual(Vec<PathBuf>);

    impl Ready for Unusual {
        fn name(&self) -> &'static str {
            "unusual"
        }

        fn is_by_flow(&self) -> bool {
            true
        }

        fn has_shares(&self) -> bool {
            false
        }

        fn wants(&self) -> Wants {
            Wants::flows(crate::flows::NEEDS)
        }

        fn schema(&self, _: bool) -> Schema {
            SCHEMA
        }

        fn gives(&self) -> Vec<(LabelKind, Vec<String>)> {
            vec![(LabelKind::Service, Vec::new())]
        }

        fn classifies_again(&self) -> bool {
            true
        }

        fn reads(&self) -> &[PathBuf] {
            &self.0
        }

        fn log_folder(&self) -> Option<&Path> {
            Some(Path::new("log"))
        }

        fn log_search(&self) -> Option<Arc<dyn PacketLog>> {
            Some(Arc::new(NoLog))
        }

        fn unsteered(&self) -> Option<&'static str> {
            Some("it is unusual")
        }

        fn is_in_any_order(&self) -> bool {
            true
        }

        fn replacement(&self) -> Option<Replacement> {
            Some(Arc::new(()))
        }

        fn cut_frames(&self) -> Option<CutFrames> {
            Some(CutFrames { secret: 7, hand_over: None })
        }

        fn escalates(&self) -> bool {
            true
        }

        fn has_maps(&self) -> bool {
            true
        }

        fn open(self: Box<Self>, _: Opening) -> Result<Watchers, Refusal> {
            Ok(Watchers::default())
        }
    }

    struct NoLog;

    impl PacketLog for NoLog {
        fn status(&self) -> Result<String, String> {
            Ok(String::new())
        }

        fn rows(&self, _: &PacketQuery, _: usize) -> Result<(Vec<PacketRow>, bool), String> {
            Ok((Vec::new(), false))
        }

        fn pcapng(&self, _: &PacketQuery) -> Result<Vec<u8>, String> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn an_application_whose_rows_are_exported_says_all_that_it_says_alone() {
        let says = |ready: &dyn Ready| {
            (
                (ready.name(), ready.is_by_flow(), ready.has_shares(), ready.classifies_again()),
                (ready.gives(), ready.reads().to_vec(), ready.log_folder().map(Path::to_owned)),
                (ready.log_search().is_some(), ready.unsteered(), ready.is_in_any_order()),
                (ready.replacement().is_some(), ready.escalates(), ready.has_maps()),
                (ready.cut_frames().map(|cut| cut.secret), ready.attaches()),
            )
        };
        let unusual = || Box::new(Unusual(vec![PathBuf::from("model")]));
        let (path, options) = (PathBuf::from("unusual"), Options::default());
        let export = Export { path, form: Form::Rows(Format::Csv), force: false, options };
        let (exporting, _) = super::export(unusual(), export);
        assert_eq!(says(&*exporting), says(&*unusual()));
    }

    #[test]
    fn what_cannot_be_opened_is_told_to_the_other_end() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("eve.json");
        std::fs::write(&path, "mine").unwrap();
        let mut door = door(&path, Style::Eve);
        door.begin(SCHEMA);
        let failure = lock(&door.said).failure.take().unwrap();
        assert!(refusal(&failure).to_string().contains("exists already"));
        door.take(&rows(1)).unwrap();
        Box::new(door).finish().unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "mine");
    }
}
