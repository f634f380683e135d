//! Rows on their way to files.

use std::collections::BTreeMap;
use std::path::Path;

use engine::columns::{Columns, Schema};
use files::FileMode;
use sink::{Existing, Format, OutputError, OutputFile, Writer};
use store::RowChunk;
use store::query::{cell, time_column};

use crate::hour::Hour;
use crate::index::StoredFile;

/// Rows of one hour, in pieces.
pub(crate) struct Batch<'a> {
    pieces: Vec<Piece<'a>>,
    first_ns: i64,
    last_ns: i64,
}

enum Piece<'a> {
    /// All of these.
    Whole(&'a Columns),
    /// Some of these.
    Some(&'a Columns, Vec<usize>),
}

/// Rows of one hour among others.
struct Places {
    rows: Vec<usize>,
    first_ns: i64,
    last_ns: i64,
}

/// Puts rows apart by the hour of their time; those that have none go to the hour of `now_ns`.
pub(crate) fn split(held: &[RowChunk], schema: Schema, now_ns: i64) -> BTreeMap<Hour, Batch<'_>> {
    let time = time_column(schema);
    let mut batches: BTreeMap<Hour, Batch<'_>> = BTreeMap::new();
    for columns in held.iter().map(RowChunk::columns) {
        let mut of_hours: BTreeMap<Hour, Places> = BTreeMap::new();
        for row in 0..columns.row_count() {
            let ns = time.and_then(|time| cell(columns, time, row).time()).unwrap_or(now_ns);
            let none = || Places { rows: Vec::new(), first_ns: ns, last_ns: ns };
            let places = of_hours.entry(Hour::of(ns)).or_insert_with(none);
            places.rows.push(row);
            places.first_ns = places.first_ns.min(ns);
            places.last_ns = places.last_ns.max(ns);
        }
        for (hour, Places { rows, first_ns, last_ns }) in of_hours {
            let none = || Batch { pieces: Vec::new(), first_ns, last_ns };
            let batch = batches.entry(hour).or_insert_with(none);
            batch.first_ns = batch.first_ns.min(first_ns);
            batch.last_ns = batch.last_ns.max(last_ns);
            batch.pieces.push(if rows.len() == columns.row_count() {
                Piece::Whole(columns)
            } else {
                Piece::Some(columns, rows)
            });
        }
    }
    batches
}

impl Batch<'_> {
    /// Writes them as a file of this number.
    pub(crate) fn write(
        &self,
        root: &Path,
        table: &str,
        hour: Hour,
        schema: Schema,
        number: u64,
    ) -> Result<StoredFile, String> {
        let pieces = self.pieces.iter().map(|piece| match piece {
            Piece::Whole(columns) => Ok(ColumnsCow::Other(columns)),
            Piece::Some(columns, places) => Ok(ColumnsCow::Own(columns.picked(places))),
        });
        let file = StoredFile {
            hour,
            numbers: (number, number),
            first_ns: self.first_ns,
            last_ns: self.last_ns,
            byte_count: 0,
        };
        write(root, table, file, schema, pieces, OutputFile::finish)
    }
}

/// Rows to write.
pub(crate) enum ColumnsCow<'a> {
    /// Held elsewhere.
    Other(&'a Columns),
    /// Made for it.
    Own(Columns),
}

/// Writes pieces of rows as one file, which `finish` gives its name once it is complete.
pub(crate) fn write<'a>(
    root: &Path,
    table: &str,
    file: StoredFile,
    schema: Schema,
    pieces: impl Iterator<Item = Result<ColumnsCow<'a>, String>>,
    finish: fn(OutputFile) -> Result<u64, OutputError>,
) -> Result<StoredFile, String> {
    let path = file.path(root, table);
    if let Some(folder) = path.parent() {
        let refused = |source| format!("cannot make folder `{}`: {source}", folder.display());
        files::create_folder(folder, FileMode::asked()).map_err(refused)?;
    }
    let output = OutputFile::create(&path, Existing::Replace).map_err(|error| error.to_string())?;
    // Not `to_file`: of a full disk it would leave the unfinished rows, which a later flush writes.
    let refused = |error: sink::WriteError| error.to_string();
    let mut writer = Writer::new(Format::Parquet, schema, output).map_err(refused)?;
    for piece in pieces {
        match piece? {
            ColumnsCow::Other(columns) => writer.write(columns),
            ColumnsCow::Own(columns) => writer.write(&columns),
        }
        .map_err(refused)?;
    }
    let output = writer.finish().map_err(refused)?;
    let byte_count = finish(output).map_err(|error| error.to_string())?;
    Ok(StoredFile { byte_count, ..file })
}
