//! Bytes and 32-bit numbers: as they are in the binary formats, as text that says them in others.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::fs::{self, File};
use std::io;

use arrow_array::cast::AsArray as _;
use arrow_array::types::UInt32Type;
use arrow_schema::DataType;
use engine::columns::{Columns, Field, Kind, Schema, Value};
use parquet::basic::LogicalType;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::RowAccessor as _;
use sink::{Format, Writer};

const SCHEMA: Schema = &[
    Field::new("len", Kind::U32, "").nullable(),
    Field::new("frame", Kind::Bytes, ""),
    Field::new("payload", Kind::Bytes, "").nullable(),
];

/// No text in any encoding.
const FRAME: &[u8] = &[0, 255, 0x80, b'"', b','];

fn written(format: Format) -> Vec<u8> {
    let mut rows = Columns::new(SCHEMA);
    for values in [
        [Value::U32(u32::MAX), Value::Bytes(FRAME), Value::Bytes(b"")],
        [Value::Null, Value::Bytes(b""), Value::Null],
    ] {
        rows.push_row(&values).unwrap();
    }
    let mut writer = Writer::new(format, SCHEMA, Vec::new()).unwrap();
    writer.write(&rows).unwrap();
    writer.write(&rows).unwrap();
    writer.finish().unwrap()
}

#[test]
fn text_formats_say_them_in_hexadecimal() {
    let lines = "4294967295,00ff80222c,\"\"\n,,\n";
    let wanted = format!("len,frame,payload\n{lines}{lines}");
    assert_eq!(String::from_utf8(written(Format::Csv)).unwrap(), wanted);
    let lines = "{\"len\":4294967295,\"frame\":\"00ff80222c\",\"payload\":\"\"}\n\
        {\"len\":null,\"frame\":\"\",\"payload\":null}\n";
    let wanted = format!("{lines}{lines}");
    assert_eq!(String::from_utf8(written(Format::Jsonl)).unwrap(), wanted);
}

#[test]
fn arrow_has_them_as_they_are() {
    let bytes = io::Cursor::new(written(Format::Arrow));
    let mut reader = arrow_ipc::reader::FileReader::try_new(bytes, None).unwrap();
    let batch = reader.next().unwrap().unwrap();
    assert_eq!(batch.column(0).data_type(), &DataType::UInt32);
    let lens: Vec<_> = batch.column(0).as_primitive::<UInt32Type>().iter().collect();
    assert_eq!(lens, [Some(u32::MAX), None, Some(u32::MAX), None]);
    let frames: Vec<_> = batch.column(1).as_binary::<i32>().iter().collect();
    assert_eq!(frames, [Some(FRAME), Some(b""), Some(FRAME), Some(b"")]);
    let payloads: Vec<_> = batch.column(2).as_binary::<i32>().iter().collect();
    assert_eq!(payloads, [Some(&b""[..]), None, Some(b""), None]);
}

#[test]
fn parquet_has_them_as_they_are() {
    let path = format!("{}/bytes.parquet", env!("CARGO_TARGET_TMPDIR"));
    fs::write(&path, written(Format::Parquet)).unwrap();
    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let columns = reader.metadata().file_metadata().schema_descr();
    assert_eq!(columns.column(0).logical_type_ref(), Some(&LogicalType::integer(32, false)));
    assert_eq!(columns.column(1).logical_type_ref(), None);
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 4);
    assert_eq!(rows[2].get_uint(0).unwrap(), u32::MAX);
    assert_eq!(rows[2].get_bytes(1).unwrap().data(), FRAME);
    assert_eq!(rows[2].get_bytes(2).unwrap().data(), b"");
    assert!(rows[3].get_bytes(1).unwrap().data().is_empty());
    assert!(rows[3].get_bytes(2).is_err() && rows[3].get_uint(0).is_err(), "they are missing");
    fs::remove_file(&path).unwrap();
}
