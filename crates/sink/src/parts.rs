//! Rows in many files: rotated when each is full, or in folders by time.
//!
//! Folders have Hive's layout, `date=2026-11-25/hour=13/part-00000.parquet`, which DuckDB, Polars,
//! Spark and others read as columns. No part replaces another: a run that continues a folder uses
//! the next free number, and a part that a killed run left unfinished keeps its own.
//!
//! **Bounds.** At most [`OPEN_MAX`] folders have a part that grows, so at most so many row groups
//! are held. A row for another folder has the part finished that was written to longest ago; rows
//! of that folder that come later begin another part there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use engine::columns::{BytesColumn, Column, Columns, Schema, Value, Values};
use engine::event_time::EventTime;
use engine::time::{Span, Timestamp};
use files::FileMode;

use crate::output::partial_name;
use crate::rotation::{ROWS_BACK, Turn, time_column, time_ns};
use crate::{Existing, Format, OutputError, OutputFile, Rotation, WriteError, Writer};

/// Folders that have a part that grows.
pub const OPEN_MAX: usize = 4;

/// Parts that a folder may have before we give up looking for a free number.
const PARTS_MAX: u32 = 1_000_000;

/// Rows written between two looks at a size that is bounded.
const ROWS_PER_LOOK: usize = 64;

const NS_PER_MINUTE: i64 = 60_000_000_000;

/// How long the rows of one folder are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Partition {
    /// `date=…`
    Day,
    /// `date=…/hour=…`
    Hour,
    /// `date=…/hour=…/minute=…`
    Minute,
}

impl Partition {
    const fn length_ns(self) -> i64 {
        match self {
            Self::Day => 24 * 60 * NS_PER_MINUTE,
            Self::Hour => 60 * NS_PER_MINUTE,
            Self::Minute => NS_PER_MINUTE,
        }
    }

    const fn begin_of(self, period: i64) -> Timestamp {
        Timestamp::from_ns(period.saturating_mul(self.length_ns()))
    }

    /// The folder of a period; of rows without a time the one that Hive names so.
    fn folder(self, period: Option<i64>) -> PathBuf {
        const NONE: &str = "__HIVE_DEFAULT_PARTITION__";
        let minutes = period.map(|period| period * (self.length_ns() / NS_PER_MINUTE));
        let date = minutes.map_or_else(|| NONE.to_owned(), |m| date(m.div_euclid(24 * 60)));
        let of_day = minutes.map(|minutes| minutes.rem_euclid(24 * 60));
        let text =
            |value: Option<i64>| value.map_or(NONE.to_owned(), |value| format!("{value:02}"));
        let mut folder = PathBuf::from(format!("date={date}"));
        if self != Self::Day {
            folder.push(format!("hour={}", text(of_day.map(|minutes| minutes / 60))));
        }
        if self == Self::Minute {
            folder.push(format!("minute={}", text(of_day.map(|minutes| minutes % 60))));
        }
        folder
    }
}

/// A day since the epoch as `2026-11-25`, by Howard Hinnant's `civil_from_days`.
fn date(days: i64) -> String {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// A part that grows.
struct Part {
    period: Option<i64>,
    writer: Writer<OutputFile>,
    /// When it was written to last, in calls.
    used: u64,
}

/// Rows in folders by time.
pub struct Parts {
    folder: PathBuf,
    format: Format,
    schema: Schema,
    partition: Partition,
    size_bytes_max: Option<u64>,
    time: Option<usize>,
    open: Vec<Part>,
    calls: u64,
    /// The time of rows, which says when a folder is over.
    now: EventTime,
    finished: u64,
}

impl Parts {
    /// Begins in a folder, which is made where it is not there.
    ///
    /// # Errors
    /// [`WriteError`] where the folder cannot be made, or rows have no time.
    pub fn create(
        folder: &Path,
        format: Format,
        schema: Schema,
        partition: Partition,
        size_bytes: Option<u64>,
    ) -> Result<Self, WriteError> {
        let time = time_column(schema);
        if time.is_none() {
            return Err(no_time("its rows have no time; leave the partition out"));
        }
        make_folder(folder)?;
        Ok(Self {
            folder: folder.to_owned(),
            format,
            schema,
            partition,
            size_bytes_max: size_bytes,
            time,
            open: Vec::new(),
            calls: 0,
            now: EventTime::new(ROWS_BACK),
            finished: 0,
        })
    }

    /// Parts that have their names.
    #[must_use]
    pub const fn finished_count(&self) -> u64 {
        self.finished
    }

    /// Appends rows, each to the part of its time.
    ///
    /// # Errors
    /// [`WriteError`], after which the part at fault is gone.
    pub fn write(&mut self, rows: &Columns) -> Result<(), WriteError> {
        let length = self.partition.length_ns();
        let column = self.time;
        let period = |row| time_ns(rows, column, row).map(|time| time.div_euclid(length));
        let mut begin = 0;
        while begin < rows.row_count() {
            let of = period(begin);
            let same = (begin + 1..rows.row_count()).find(|&row| period(row) != of);
            let end = same.unwrap_or(rows.row_count());
            let end =
                if self.size_bytes_max.is_some() { end.min(begin + ROWS_PER_LOOK) } else { end };
            if begin == 0 && end == rows.row_count() {
                self.put(of, rows)?;
            } else {
                self.put(of, &cut(rows, begin, end)?)?;
            }
            begin = end;
        }
        self.retire()
    }

    fn put(&mut self, period: Option<i64>, rows: &Columns) -> Result<(), WriteError> {
        self.calls += 1;
        if let Some(period) = period {
            self.now.on_packet(self.partition.begin_of(period));
        }
        let at = match self.open.iter().position(|part| part.period == period) {
            Some(at) => at,
            None => self.begin(period)?,
        };
        let Some(part) = self.open.get_mut(at) else { return Ok(()) };
        part.used = self.calls;
        part.writer.write(rows)?;
        if self.size_bytes_max.is_some_and(|max| part.writer.written_bytes() >= max) {
            let part = self.open.swap_remove(at);
            self.end(part)?;
        }
        Ok(())
    }

    fn begin(&mut self, period: Option<i64>) -> Result<usize, WriteError> {
        if self.open.len() >= OPEN_MAX {
            let oldest = self.open.iter().enumerate().min_by_key(|(_, part)| part.used);
            if let Some((at, _)) = oldest {
                let part = self.open.swap_remove(at);
                self.end(part)?;
            }
        }
        let folder = self.folder.join(self.partition.folder(period));
        make_folder(&folder)?;
        let file = next_part(&folder, self.format)?;
        let writer = Writer::to_file(self.format, self.schema, file)?;
        self.open.push(Part { period, writer, used: 0 });
        Ok(self.open.len() - 1)
    }

    /// Finishes parts whose time is over, so that readers see them: two periods behind the latest.
    fn retire(&mut self) -> Result<(), WriteError> {
        let Some(latest) = Some(self.now.latest()).filter(|&latest| latest != Timestamp::MIN)
        else {
            return Ok(());
        };
        let partition = self.partition;
        let before = latest.minus(Span::from_ns(partition.length_ns()));
        let is_over = |part: &Part| part.period.is_none_or(|at| partition.begin_of(at) < before);
        while let Some(at) = self.open.iter().position(is_over) {
            let part = self.open.swap_remove(at);
            self.end(part)?;
        }
        Ok(())
    }

    fn end(&mut self, part: Part) -> Result<(), WriteError> {
        let file = part.writer.finish()?;
        file.finish().map_err(io::Error::from)?;
        self.finished += 1;
        Ok(())
    }

    /// Hands on the rows held back, as [`Writer::flush_held`] does.
    ///
    /// # Errors
    /// [`WriteError`]
    pub fn flush_held(&mut self) -> Result<(), WriteError> {
        self.open.iter_mut().try_for_each(|part| part.writer.flush_held())
    }

    /// Gives all parts their names, also where one cannot get its own; what comes begins new ones.
    ///
    /// # Errors
    /// [`WriteError`], the first of them.
    pub fn finish_open(&mut self) -> Result<(), WriteError> {
        let mut all = Ok(());
        while let Some(part) = self.open.pop() {
            let ended = self.end(part);
            all = all.and(ended);
        }
        all
    }
}

fn no_time(message: &str) -> WriteError {
    io::Error::new(io::ErrorKind::InvalidInput, message).into()
}

fn make_folder(folder: &Path) -> Result<(), WriteError> {
    files::create_folder(folder, FileMode::asked()).map_err(|source| {
        io::Error::from(OutputError::Create { path: folder.to_owned(), source }).into()
    })
}

/// The first part without a name in the folder, which no other run is about to give one.
fn next_part(folder: &Path, format: Format) -> Result<OutputFile, WriteError> {
    let suffix = format.suffixes().first().copied().unwrap_or_default();
    for number in 0..PARTS_MAX {
        let path = folder.join(format!("part-{number:05}.{suffix}"));
        // A killed run may have left it, with rows that can be recovered: a new output of this name
        // would remove it.
        if fs::symlink_metadata(partial_name(&path)).is_ok() {
            continue;
        }
        match OutputFile::create(&path, Existing::Refuse) {
            Err(OutputError::Exists(_) | OutputError::Busy { .. }) => {}
            other => return Ok(other.map_err(io::Error::from)?),
        }
    }
    Err(io::Error::other(format!("{}: a million parts are there", folder.display())).into())
}

/// Some rows of many.
fn cut(rows: &Columns, begin: usize, end: usize) -> Result<Columns, WriteError> {
    let mut some = Columns::new(rows.schema());
    let mut values = Vec::with_capacity(rows.columns().len());
    for row in begin..end {
        values.clear();
        values.extend(rows.columns().iter().map(|column| value(column, row)));
        some.push_row(&values).map_err(|error| io::Error::other(error.to_string()))?;
    }
    Ok(some)
}

fn value(column: &Column, row: usize) -> Value<'_> {
    fn of<T: Copy>(values: &[T], row: usize) -> Option<T> {
        values.get(row).copied()
    }
    if column.is_null(row) {
        return Value::Null;
    }
    let value = match column.values() {
        Values::U64(values) => of(values, row).map(Value::U64),
        Values::U32(values) => of(values, row).map(Value::U32),
        Values::U16(values) => of(values, row).map(Value::U16),
        Values::I8(values) => of(values, row).map(Value::I8),
        Values::TimestampNs(values) => of(values, row).map(Value::TimestampNs),
        Values::F64(values) => of(values, row).map(Value::F64),
        Values::Text(values) => Some(Value::Str(values.get(row))),
        Values::Bytes(values) => Some(Value::Bytes(BytesColumn::get(values, row))),
    };
    value.into()
}

/// Rows in one file after the other, as each is full.
pub struct Files {
    writer: Option<Writer<OutputFile>>,
    turn: Turn,
    looks_at_size: bool,
    time: Option<usize>,
    finished: u64,
}

impl Files {
    /// Begins with a file; those that follow are `NAME-1.SUFFIX`, `NAME-2.SUFFIX`, whichever names
    /// are free.
    ///
    /// # Errors
    /// [`WriteError`], also where files are to end by time and rows have none.
    pub fn create(
        format: Format,
        schema: Schema,
        file: OutputFile,
        rotation: Rotation,
    ) -> Result<Self, WriteError> {
        let time = time_column(schema);
        if time.is_none() && rotation.period_ns.is_some() {
            return Err(no_time(
                "its rows have no time; leave rotate-time out, or rotate by bytes",
            ));
        }
        let writer = Some(Writer::to_file(format, schema, file)?);
        let (turn, looks_at_size) = (Turn::new(rotation), rotation.size_bytes.is_some());
        Ok(Self { writer, turn, looks_at_size, time, finished: 0 })
    }

    /// Files that have their names.
    #[must_use]
    pub const fn finished_count(&self) -> u64 {
        self.finished
    }

    /// Appends rows; at a period's border they are divided.
    ///
    /// # Errors
    /// [`WriteError`]
    pub fn write(&mut self, rows: &Columns) -> Result<(), WriteError> {
        let mut begin = 0;
        for row in 0..rows.row_count() {
            if self.looks_at_size && row - begin >= ROWS_PER_LOOK {
                self.put(rows, begin, row)?;
                begin = row;
            }
            let size_bytes = if row == begin { self.written_bytes() } else { 0 };
            if self.turn.is_due(size_bytes, time_ns(rows, self.time, row)) {
                self.put(rows, begin, row)?;
                begin = row;
                self.reopen()?;
            }
        }
        self.put(rows, begin, rows.row_count())
    }

    fn put(&mut self, rows: &Columns, begin: usize, end: usize) -> Result<(), WriteError> {
        let Some(writer) = &mut self.writer else { return Err(WriteError::AfterFailure) };
        match (begin, end) {
            (begin, end) if begin == end => Ok(()),
            (0, end) if end == rows.row_count() => writer.write(rows),
            (begin, end) => writer.write(&cut(rows, begin, end)?),
        }
    }

    fn written_bytes(&self) -> u64 {
        self.writer.as_ref().map_or(0, Writer::written_bytes)
    }

    /// Finishes the file and continues in the next.
    ///
    /// # Errors
    /// [`WriteError`]
    pub fn reopen(&mut self) -> Result<(), WriteError> {
        let Some(writer) = self.writer.take() else { return Err(WriteError::AfterFailure) };
        let (writer, piece) = writer.reopen()?;
        self.finished += u64::from(piece.is_some());
        self.writer = Some(writer);
        Ok(())
    }

    /// As [`Writer::flush_held`].
    ///
    /// # Errors
    /// [`WriteError`]
    pub fn flush_held(&mut self) -> Result<(), WriteError> {
        self.writer.as_mut().map_or(Ok(()), Writer::flush_held)
    }

    /// Gives the last file its name.
    ///
    /// # Errors
    /// [`WriteError`]
    pub fn finish(self) -> Result<u64, WriteError> {
        let Some(writer) = self.writer else { return Err(WriteError::AfterFailure) };
        writer.finish()?.finish().map_err(io::Error::from)?;
        Ok(self.finished + 1)
    }
}

#[cfg(test)]
mod tests {
    use engine::columns::{Field, Kind};

    use super::*;

    const SCHEMA: Schema = &[
        Field::new("number", Kind::U64, "A number."),
        Field::new("last_ns", Kind::TimestampNs, "When."),
    ];
    const HOUR: i64 = 60 * NS_PER_MINUTE;

    fn rows(times: impl IntoIterator<Item = i64>) -> Columns {
        let mut rows = Columns::new(SCHEMA);
        for (number, time) in times.into_iter().enumerate() {
            rows.push_row(&[Value::U64(number as u64), Value::TimestampNs(time)]).unwrap();
        }
        rows
    }

    fn files(folder: &Path) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(inner) = folders.pop() {
            for entry in fs::read_dir(inner).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => {
                        let name = path.strip_prefix(folder).unwrap();
                        found.push(name.to_str().unwrap().to_owned());
                    }
                }
            }
        }
        found.sort();
        found
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let day = |text: &str, days| assert_eq!(date(days), text);
        day("1970-01-01", 0);
        day("1969-12-31", -1);
        day("2000-02-29", 11_016);
        day("2026-11-25", 20_782);
    }

    #[test]
    fn rows_lie_in_the_folder_of_their_hour() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("flows");
        let mut parts = Parts::create(&folder, Format::Csv, SCHEMA, Partition::Hour, None).unwrap();
        parts.write(&rows([HOUR, 2 * HOUR - 1, 2 * HOUR, HOUR])).unwrap();
        parts.write(&rows([30 * HOUR])).unwrap();
        parts.finish_open().unwrap();
        assert_eq!(parts.finished_count(), 3);
        let names = [
            "date=1970-01-01/hour=01/part-00000.csv",
            "date=1970-01-01/hour=02/part-00000.csv",
            "date=1970-01-02/hour=06/part-00000.csv",
        ];
        assert_eq!(files(&folder), names);
        let first = fs::read_to_string(folder.join(names[0])).unwrap();
        assert_eq!(first.lines().count(), 4);
    }

    #[test]
    fn another_run_adds_parts_and_replaces_none() {
        let home = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let mut parts =
                Parts::create(home.path(), Format::Csv, SCHEMA, Partition::Day, Some(16)).unwrap();
            parts.write(&rows([0])).unwrap();
            parts.write(&rows([0])).unwrap();
            parts.finish_open().unwrap();
        }
        let names: Vec<_> =
            (0..4).map(|part| format!("date=1970-01-01/part-0000{part}.csv")).collect();
        assert_eq!(files(home.path()), names);
    }

    #[test]
    fn what_a_killed_run_left_stays_and_can_be_recovered() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("date=1970-01-01");
        fs::create_dir(&folder).unwrap();
        let left = folder.join("part-00000.csv.partial");
        fs::write(&left, "number,last_ns\n7,1\n8").unwrap();
        let mut parts =
            Parts::create(home.path(), Format::Csv, SCHEMA, Partition::Day, None).unwrap();
        parts.write(&rows([0])).unwrap();
        parts.finish_open().unwrap();
        let names = ["date=1970-01-01/part-00000.csv.partial", "date=1970-01-01/part-00001.csv"];
        assert_eq!(files(home.path()), names);
        let target = folder.join("part-00000.csv");
        let recovered = crate::recover(&left, &target, Existing::Refuse).unwrap();
        assert_eq!(recovered.row_count, 1);
        assert_eq!(fs::read_to_string(&target).unwrap(), "number,last_ns\n7,1\n");
    }

    #[test]
    fn few_folders_have_a_part_that_grows() {
        let home = tempfile::tempdir().unwrap();
        let mut parts =
            Parts::create(home.path(), Format::Csv, SCHEMA, Partition::Minute, None).unwrap();
        for minute in (0..20).rev() {
            parts.write(&rows([minute * NS_PER_MINUTE])).unwrap();
            assert!(parts.open.len() <= OPEN_MAX);
        }
        parts.finish_open().unwrap();
        assert_eq!(files(home.path()).len(), 20);
    }

    #[test]
    fn a_part_that_cannot_get_its_name_takes_no_other_with_it() {
        let home = tempfile::tempdir().unwrap();
        let mut parts =
            Parts::create(home.path(), Format::Csv, SCHEMA, Partition::Hour, None).unwrap();
        parts.write(&rows([HOUR, 2 * HOUR])).unwrap();
        let gone = "date=1970-01-01/hour=02/part-00000.csv.partial";
        fs::remove_file(home.path().join(gone)).unwrap();
        assert!(parts.finish_open().unwrap_err().to_string().contains("is gone"));
        drop(parts);
        assert_eq!(files(home.path()), ["date=1970-01-01/hour=01/part-00000.csv"]);
    }

    #[test]
    fn rows_without_a_time_are_not_rotated_by_time() {
        const TIMELESS: Schema = &[Field::new("number", Kind::U64, "A number.")];
        let home = tempfile::tempdir().unwrap();
        let begin = |rotation| {
            let file = OutputFile::create(&home.path().join("rows.csv"), Existing::Refuse).unwrap();
            Files::create(Format::Csv, TIMELESS, file, rotation).map(drop)
        };
        let by_time = Rotation { size_bytes: None, period_ns: Some(100) };
        assert!(begin(by_time).unwrap_err().to_string().contains("leave rotate-time out"));
        begin(Rotation { size_bytes: Some(100), period_ns: None }).unwrap();
        assert_eq!(files(home.path()), [""; 0]);
    }

    #[test]
    fn rows_are_divided_at_the_border_of_a_period() {
        let home = tempfile::tempdir().unwrap();
        let file = OutputFile::create(&home.path().join("rows.csv"), Existing::Refuse).unwrap();
        let rotation = Rotation { size_bytes: None, period_ns: Some(100) };
        let mut out = Files::create(Format::Csv, SCHEMA, file, rotation).unwrap();
        out.write(&rows([1, 99, 100, 150])).unwrap();
        out.write(&rows([200])).unwrap();
        assert_eq!(out.finish().unwrap(), 3);
        assert_eq!(files(home.path()), ["rows-1.csv", "rows-2.csv", "rows.csv"]);
        let first = fs::read_to_string(home.path().join("rows.csv")).unwrap();
        assert_eq!(first, "number,last_ns\n0,1\n1,99\n");
    }
}
