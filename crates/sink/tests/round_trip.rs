//! What is written is read back, format by format, with the libraries that users read with.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::fs::{self, File};
use std::io;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, TimestampNanosecondType, UInt16Type, UInt64Type};
use arrow_schema::{DataType, TimeUnit};
use engine::columns::{Columns, Field, Kind, Schema, Value, Values};
use parquet::basic::{LogicalType, TimeUnit as ParquetUnit};
use parquet::data_type::{
    ByteArrayType, DataType as ParquetType, DoubleType, Int32Type, Int64Type,
};
use parquet::file::reader::{FileReader as _, RowGroupReader, SerializedFileReader};
use sink::{Format, WriteError, Writer};

const SCHEMA: Schema = &[
    Field::new("start_ts_ns", Kind::TimestampNs, ""),
    Field::new("source", Kind::Text, ""),
    Field::new("source_port", Kind::U16, ""),
    Field::new("wire_bytes", Kind::U64, ""),
    Field::new("share", Kind::F64, ""),
];

const START_NS: i64 = 1_700_000_000_123_456_789;

fn rows(range: std::ops::Range<u64>) -> Columns {
    let mut rows = Columns::new(SCHEMA);
    for row in range {
        let source = format!("10.0.{}.{} é\"", row / 256 % 256, row % 256);
        rows.push_row(&[
            Value::TimestampNs(START_NS + row as i64),
            Value::Text(&source),
            Value::U16(u16::MAX - (row % 1000) as u16),
            Value::U64(u64::MAX - row),
            Value::F64(row as f64 / 3.0),
        ])
        .unwrap();
    }
    rows
}

fn written(format: Format, pieces: &[Columns]) -> Vec<u8> {
    let mut writer = Writer::new(format, SCHEMA, Vec::new()).unwrap();
    for piece in pieces {
        writer.write(piece).unwrap();
    }
    writer.finish().unwrap()
}

fn oddities() -> Columns {
    let mut rows = Columns::new(SCHEMA);
    let odd = [
        (i64::MIN, "", 0, 0, f64::NAN),
        (-1, "a,b\"c\r\nd\\\t\u{1}", 65535, u64::MAX, f64::INFINITY),
        (0, "héllo ☃", 80, 9_007_199_254_740_993, -0.0),
        (i64::MAX, " x ", 443, 1, 1e300),
        (1, "x", 1, 1, 5e-324),
    ];
    for (stamp, text, port, count, share) in odd {
        rows.push_row(&[
            Value::TimestampNs(stamp),
            Value::Text(&text),
            Value::U16(port),
            Value::U64(count),
            Value::F64(share),
        ])
        .unwrap();
    }
    rows
}

#[test]
fn csv_to_the_letter() {
    let text = String::from_utf8(written(Format::Csv, &[oddities()])).unwrap();
    let wanted = "start_ts_ns,source,source_port,wire_bytes,share\n\
        -9223372036854775808,,0,0,NaN\n\
        -1,\"a,b\"\"c\r\nd\\\t\u{1}\",65535,18446744073709551615,inf\n\
        0,héllo ☃,80,9007199254740993,-0.0\n\
        9223372036854775807, x ,443,1,1e300\n\
        1,x,1,1,5e-324\n";
    assert_eq!(text, wanted);
}

#[test]
fn jsonl_to_the_letter() {
    let text = String::from_utf8(written(Format::Jsonl, &[oddities()])).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(
        lines[1],
        r#"{"start_ts_ns":-1,"source":"a,b\"c\r\nd\\\t\u0001","source_port":65535,"wire_bytes":18446744073709551615,"share":null}"#
    );
    assert_eq!(
        lines[3],
        r#"{"start_ts_ns":9223372036854775807,"source":" x ","source_port":443,"wire_bytes":1,"share":1e300}"#
    );
}

/// Reads batches back into our own columns, having checked their types.
fn from_arrow(batches: impl Iterator<Item = RecordBatch>) -> (Columns, usize) {
    let mut rows = Columns::new(SCHEMA);
    let mut batch_count = 0;
    for batch in batches {
        batch_count += 1;
        let schema = batch.schema();
        let types: Vec<_> = schema.fields().iter().map(|field| field.data_type().clone()).collect();
        assert_eq!(
            types,
            [
                DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
                DataType::Utf8,
                DataType::UInt16,
                DataType::UInt64,
                DataType::Float64,
            ]
        );
        assert!(schema.fields().iter().all(|field| !field.is_nullable()));
        let stamps = batch.column(0).as_primitive::<TimestampNanosecondType>();
        let texts = batch.column(1).as_string::<i32>();
        let ports = batch.column(2).as_primitive::<UInt16Type>();
        let counts = batch.column(3).as_primitive::<UInt64Type>();
        let shares = batch.column(4).as_primitive::<Float64Type>();
        for row in 0..stamps.len() {
            rows.push_row(&[
                Value::TimestampNs(stamps.value(row)),
                Value::Text(&texts.value(row)),
                Value::U16(ports.value(row)),
                Value::U64(counts.value(row)),
                Value::F64(shares.value(row)),
            ])
            .unwrap();
        }
    }
    (rows, batch_count)
}

#[test]
fn arrow_file_comes_back_in_few_batches() {
    let pieces: Vec<Columns> =
        (0..200).map(|piece| rows(piece * 1000..(piece + 1) * 1000)).collect();
    let bytes = written(Format::Arrow, &pieces);
    let reader = arrow_ipc::reader::FileReader::try_new(io::Cursor::new(bytes), None).unwrap();
    let (back, batch_count) = from_arrow(reader.map(Result::unwrap));
    assert_eq!(back, rows(0..200_000));
    assert_eq!(batch_count, 2, "128 Ki rows and the rest");
}

#[test]
fn arrow_stream_comes_batch_by_batch() {
    let mut bytes = Vec::new();
    let mut writer = Writer::streaming(Format::Arrow, SCHEMA, &mut bytes).unwrap();
    for piece in 0..3 {
        writer.write(&rows(piece * 10..(piece + 1) * 10)).unwrap();
    }
    writer.write(&Columns::new(SCHEMA)).unwrap();
    writer.finish().unwrap();
    let reader = arrow_ipc::reader::StreamReader::try_new(io::Cursor::new(bytes), None).unwrap();
    let (back, batch_count) = from_arrow(reader.map(Result::unwrap));
    assert_eq!(back, rows(0..30));
    assert_eq!(batch_count, 3);
}

fn read_column<T: ParquetType>(group: &dyn RowGroupReader, column: usize) -> Vec<T::T> {
    let reader = group.get_column_reader(column).unwrap();
    let mut reader = parquet::column::reader::get_typed_column_reader::<T>(reader);
    let mut values = Vec::new();
    let row_count = group.metadata().num_rows() as usize;
    while values.len() < row_count {
        let (_, read, _) = reader.read_records(row_count, None, None, &mut values).unwrap();
        assert!(read > 0);
    }
    values
}

fn from_parquet(name: &str, bytes: &[u8]) -> (Columns, SerializedFileReader<File>) {
    let path = format!("{}/{name}", env!("CARGO_TARGET_TMPDIR"));
    fs::write(&path, bytes).unwrap();
    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let mut rows = Columns::new(SCHEMA);
    for index in 0..reader.num_row_groups() {
        let group = reader.get_row_group(index).unwrap();
        let stamps = read_column::<Int64Type>(&*group, 0);
        let texts = read_column::<ByteArrayType>(&*group, 1);
        let ports = read_column::<Int32Type>(&*group, 2);
        let counts = read_column::<Int64Type>(&*group, 3);
        let shares = read_column::<DoubleType>(&*group, 4);
        for row in 0..stamps.len() {
            rows.push_row(&[
                Value::TimestampNs(stamps[row]),
                Value::Text(&texts[row].as_utf8().unwrap()),
                Value::U16(u16::try_from(ports[row]).unwrap()),
                Value::U64(counts[row].cast_unsigned()),
                Value::F64(shares[row]),
            ])
            .unwrap();
        }
    }
    fs::remove_file(&path).unwrap();
    (rows, reader)
}

#[test]
fn parquet_comes_back_in_bounded_row_groups() {
    let bytes = written(Format::Parquet, &[rows(0..100_000), rows(100_000..300_000)]);
    let (back, reader) = from_parquet("bounded.parquet", &bytes);
    assert_eq!(back, rows(0..300_000));
    let metadata = reader.metadata();
    let sizes: Vec<i64> = metadata.row_groups().iter().map(|group| group.num_rows()).collect();
    assert_eq!(sizes, [131_072, 131_072, 37_856]);
    let file = metadata.file_metadata();
    assert_eq!(file.created_by(), Some("wirelens"));
    let logical: Vec<_> = file
        .schema_descr()
        .columns()
        .iter()
        .map(|column| column.logical_type_ref().cloned())
        .collect();
    assert_eq!(
        logical,
        [
            Some(LogicalType::timestamp(true, ParquetUnit::NANOS)),
            Some(LogicalType::String),
            Some(LogicalType::integer(16, false)),
            Some(LogicalType::integer(64, false)),
            None,
        ]
    );
}

#[test]
fn odd_values_survive_the_binary_formats() {
    let wanted = oddities();
    let bits = |rows: &Columns| {
        let Values::F64(values) = rows.columns()[4].values() else {
            panic!("the last column is of floats")
        };
        values.iter().map(|value| value.to_bits()).collect::<Vec<u64>>()
    };
    let (parquet, _) = from_parquet("odd.parquet", &written(Format::Parquet, &[oddities()]));
    let bytes = written(Format::Arrow, &[oddities()]);
    let reader = arrow_ipc::reader::FileReader::try_new(io::Cursor::new(bytes), None).unwrap();
    let (arrow, _) = from_arrow(reader.map(Result::unwrap));
    for back in [parquet, arrow] {
        assert_eq!(back.columns()[..4], wanted.columns()[..4]);
        assert_eq!(bits(&back), bits(&wanted));
    }
}

#[test]
fn no_rows_make_a_readable_file() {
    assert_eq!(written(Format::Csv, &[]), b"start_ts_ns,source,source_port,wire_bytes,share\n");
    assert_eq!(written(Format::Jsonl, &[]), b"");
    let (rows, reader) = from_parquet("empty.parquet", &written(Format::Parquet, &[]));
    assert_eq!((rows.row_count(), reader.num_row_groups()), (0, 0));
    let bytes = written(Format::Arrow, &[Columns::new(SCHEMA)]);
    let reader = arrow_ipc::reader::FileReader::try_new(io::Cursor::new(bytes), None).unwrap();
    assert_eq!(reader.num_batches(), 0);
}

#[test]
fn much_text_ends_a_group_early() {
    let line = "x".repeat(100_000);
    let mut wide = Columns::new(SCHEMA);
    for row in 0..2_048 {
        wide.push_row(&[
            Value::TimestampNs(0),
            Value::Text(&line),
            Value::U16(0),
            Value::U64(row),
            Value::F64(0.0),
        ])
        .unwrap();
    }
    let (back, reader) = from_parquet("wide.parquet", &written(Format::Parquet, &[wide.clone()]));
    assert!(back == wide);
    assert_eq!(reader.num_row_groups(), 2);
}

#[test]
fn schemas_that_cannot_be_written_are_refused() {
    const TWICE: Schema = &[Field::new("a", Kind::U64, ""), Field::new("a", Kind::U16, "")];
    for format in Format::ALL {
        assert!(matches!(Writer::new(format, &[], Vec::new()), Err(WriteError::NoColumns)));
        assert!(matches!(
            Writer::new(format, TWICE, Vec::new()),
            Err(WriteError::DuplicateColumn("a"))
        ));
    }
    const OTHER: Schema = &[Field::new("b", Kind::U64, "")];
    let mut writer = Writer::new(Format::Csv, SCHEMA, Vec::new()).unwrap();
    let error = writer.write(&Columns::new(OTHER)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "rows with the columns `b` were written to an output made for \
         `start_ts_ns,source,source_port,wire_bytes,share`; write each kind of row to an output of \
         its own"
    );
    writer.write(&rows(0..1)).unwrap();
    writer.finish().unwrap();
}
