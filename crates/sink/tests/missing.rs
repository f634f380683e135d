//! Missing values: in every format, told from zero and from empty text.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::fs::{self, File};
use std::io;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{TimestampNanosecondType, UInt64Type};
use engine::columns::{Columns, Field, Kind, Schema, Value};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::RowAccessor as _;
use sink::{Format, Writer};

const SCHEMA: Schema = &[
    Field::new("row", Kind::U16, ""),
    Field::new("stamp_ns", Kind::TimestampNs, "").nullable(),
    Field::new("count", Kind::U64, "").nullable(),
    Field::new("share", Kind::F64, "").nullable(),
    Field::new("name", Kind::Text, "").nullable(),
];

/// Rows of which each value is missing in one and there in another.
fn rows() -> Columns {
    let mut rows = Columns::new(SCHEMA);
    let [stamp, count] = [Value::TimestampNs(0), Value::U64(0)];
    let [share, name, empty] = [Value::F64(0.5), Value::Str("x"), Value::Str("")];
    for (row, values) in [
        [stamp, count, share, name],
        [Value::Null; 4],
        [stamp, Value::Null, Value::Null, empty],
        [Value::Null, count, share, Value::Null],
    ]
    .into_iter()
    .enumerate()
    {
        let [stamp, count, share, name] = values;
        rows.push_row(&[Value::U16(row as u16), stamp, count, share, name]).unwrap();
    }
    rows
}

fn written(format: Format) -> Vec<u8> {
    let mut writer = Writer::new(format, SCHEMA, Vec::new()).unwrap();
    // Twice, so that what is held back is appended to.
    writer.write(&rows()).unwrap();
    writer.write(&rows()).unwrap();
    writer.finish().unwrap()
}

#[test]
fn csv_leaves_them_empty_and_quotes_empty_text() {
    let lines = "0,0,0,0.5,x\n1,,,,\n2,0,,,\"\"\n3,,0,0.5,\n";
    let wanted = format!("row,stamp_ns,count,share,name\n{lines}{lines}");
    assert_eq!(String::from_utf8(written(Format::Csv)).unwrap(), wanted);
}

#[test]
fn csv_of_one_column_keeps_the_line() {
    const ONE: Schema = &[Field::new("a", Kind::U64, "").nullable()];
    let mut rows = Columns::new(ONE);
    rows.push_row(&[Value::Null]).unwrap();
    let mut writer = Writer::new(Format::Csv, ONE, Vec::new()).unwrap();
    writer.write(&rows).unwrap();
    assert_eq!(writer.finish().unwrap(), b"a\n\"\"\n");
}

#[test]
fn jsonl_says_null() {
    let text = String::from_utf8(written(Format::Jsonl)).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1], r#"{"row":1,"stamp_ns":null,"count":null,"share":null,"name":null}"#);
    assert_eq!(lines[6], r#"{"row":2,"stamp_ns":0,"count":null,"share":null,"name":""}"#);
}

#[test]
fn arrow_marks_them() {
    let bytes = io::Cursor::new(written(Format::Arrow));
    let mut reader = arrow_ipc::reader::FileReader::try_new(bytes, None).unwrap();
    let batch = reader.next().unwrap().unwrap();
    let nullable: Vec<bool> =
        batch.schema().fields().iter().map(|field| field.is_nullable()).collect();
    assert_eq!(nullable, [false, true, true, true, true]);
    let stamps = batch.column(1).as_primitive::<TimestampNanosecondType>();
    let counts = batch.column(2).as_primitive::<UInt64Type>();
    let names = batch.column(4).as_string::<i32>();
    let is_null = |array: &dyn arrow_array::Array| -> Vec<bool> {
        (0..4).map(|row| array.is_null(row)).collect()
    };
    assert_eq!(is_null(stamps), [false, true, false, true]);
    assert_eq!(is_null(counts), [false, true, true, false]);
    assert_eq!(is_null(names), [false, true, false, true]);
    assert_eq!((names.value(0), names.value(2)), ("x", ""));
}

#[test]
fn parquet_leaves_them_out() {
    let path = format!("{}/missing.parquet", env!("CARGO_TARGET_TMPDIR"));
    fs::write(&path, written(Format::Parquet)).unwrap();
    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 8);
    let texts = |column| rows.iter().map(move |row| row.get_string(column).ok().cloned());
    let names: Vec<Option<String>> = texts(4).collect();
    let [x, empty] = [Some(String::from("x")), Some(String::new())];
    assert_eq!(names[..4], [x, None, empty, None]);
    assert_eq!(names[..4], names[4..]);
    let counts: Vec<Option<u64>> = rows.iter().map(|row| row.get_ulong(2).ok()).collect();
    assert_eq!(counts[4..], [Some(0), None, None, Some(0)]);
    fs::remove_file(&path).unwrap();
}
