//! Folders, tables and rows for the tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine::columns::{Columns, Field, Kind, Schema, Value};
use history::{Ask, History, HistoryOptions};
use packet::Span;
use store::query::{Filter, TimeRange, cell};
use store::{RowChunk, Store, Table, TableLimits};

pub(crate) const HOUR_NS: i64 = 3_600_000_000_000;

/// 13:00 UTC.
pub(crate) const START_NS: i64 = 1_764_075_600_000_000_000;

const fn count(name: &'static str) -> Field {
    Field::new(name, Kind::U64, "")
}

pub(crate) const SCHEMA: Schema = &[
    Field::new("community_id", Kind::Text, ""),
    Field::new("src_ip", Kind::Text, ""),
    Field::new("dst_port", Kind::U16, ""),
    Field::new("first_ns", Kind::TimestampNs, "").nullable(),
    Field::new("last_ns", Kind::TimestampNs, "").nullable(),
    count("src_bytes"),
    count("dst_bytes").nullable(),
    Field::new("size", Kind::U32, "").nullable(),
    Field::new("bit", Kind::I8, "").nullable(),
    Field::new("score", Kind::F64, "").nullable(),
    Field::new("start", Kind::Bytes, ""),
    Field::new("app_protocol", Kind::Text, "").nullable(),
];

/// A folder that goes when it is dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("wirelens-history-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    /// One that is there, or will be.
    pub(crate) const fn at(path: PathBuf) -> Self {
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Every file in it, but the lock.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut folders = vec![self.0.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.file_name().unwrap() != "history.lock" {
                    files.push(path);
                }
            }
        }
        files.sort();
        files
    }

    /// Those of a table.
    pub(crate) fn files_of(&self, table: &str) -> Vec<PathBuf> {
        let folder = self.0.join(table);
        self.files().into_iter().filter(|path| path.starts_with(&folder)).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn options(folder: &Folder) -> HistoryOptions {
    let (path, week) = (folder.path().to_owned(), Span::from_seconds(7 * 86_400));
    let mut options = HistoryOptions::new(path, week, 2 << 30, || START_NS + 99 * HOUR_NS);
    options.flush_every = Duration::from_secs(3_600);
    options
}

/// A run with one table.
pub(crate) struct Run {
    pub(crate) history: History,
    pub(crate) table: Arc<Table>,
}

impl Run {
    pub(crate) fn new(folder: &Folder) -> Self {
        Self::with(options(folder), SCHEMA, TableLimits::default())
    }

    pub(crate) fn with(options: HistoryOptions, schema: Schema, limits: TableLimits) -> Self {
        let store = Store::new();
        let table = store.add("flows", "", schema, limits);
        Self { history: History::begin(options, store).unwrap(), table }
    }

    pub(crate) fn push(&self, rows: impl IntoIterator<Item = (u64, i64)>) {
        for (number, ns) in rows {
            self.table.push(&row(number, Some(ns)));
        }
    }

    /// All rows, in no order.
    pub(crate) fn all(&self) -> Vec<String> {
        let filter = Filter::all();
        let ask = Ask { range: TimeRange::default(), filter: &filter, columns: None };
        texts(&self.history.chunks(&self.table, &ask).chunks)
    }
}

/// A row that is like no other; every third lacks what may be missing.
pub(crate) fn row(number: u64, ns: Option<i64>) -> Columns {
    let mut rows = Columns::new(SCHEMA);
    let id = format!("1:{number}");
    let ip = format!("192.0.2.{}", number % 7);
    let is_there = !number.is_multiple_of(3);
    let or_null = |value| if is_there { value } else { Value::Null };
    let small = u8::try_from(number % 256).unwrap();
    let values = [
        Value::Str(&id),
        Value::Str(&ip),
        Value::U16(443 + u16::from(small % 5)),
        ns.map(|ns| Value::TimestampNs(ns - 1)).into(),
        ns.map(Value::TimestampNs).into(),
        Value::U64(u64::MAX - number),
        or_null(Value::U64((1 << 53) + 1 + number)),
        or_null(Value::U32(u32::MAX - u32::from(small))),
        or_null(Value::I8(-1)),
        or_null(Value::F64(f64::from(small) / 3.0)),
        Value::Bytes(&[small, 0, 255]),
        or_null(Value::Str("tls")),
    ];
    rows.push_row(&values).unwrap();
    rows
}

/// Rows in words, in order of the words.
pub(crate) fn texts(chunks: &[RowChunk]) -> Vec<String> {
    let mut texts = Vec::new();
    for columns in chunks.iter().map(RowChunk::columns) {
        for row in 0..columns.row_count() {
            texts.push(text(columns, row));
        }
    }
    texts.sort();
    texts
}

pub(crate) fn text(columns: &Columns, row: usize) -> String {
    let cells = (0..columns.schema().len()).map(|at| cell(columns, at, row));
    format!("{:?}", cells.collect::<Vec<_>>())
}
