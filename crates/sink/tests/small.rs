//! Columns of small signed numbers, and matrices of them.

#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::io;
use std::path::Path;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int8Type;
use engine::columns::{Columns, Field, Kind, Schema, Value};
use parquet::basic::LogicalType;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::RowAccessor as _;
use sink::{Existing, Format, MatrixWriter, OutputFile, Writer};

const SCHEMA: Schema =
    &[Field::new("bit", Kind::I8, ""), Field::new("other", Kind::I8, "").nullable()];

fn written(format: Format) -> Vec<u8> {
    let mut rows = Columns::new(SCHEMA);
    for value in [-1, 0, 1, i8::MIN, i8::MAX] {
        let other = if value == 0 { Value::Null } else { Value::I8(value) };
        rows.push_row(&[Value::I8(value), other]).unwrap();
    }
    let mut writer = Writer::new(format, SCHEMA, Vec::new()).unwrap();
    writer.write(&rows).unwrap();
    writer.finish().unwrap()
}

#[test]
fn small_numbers_keep_their_sign_in_every_format() {
    let text = |format| String::from_utf8(written(format)).unwrap();
    assert_eq!(text(Format::Csv), "bit,other\n-1,-1\n0,\n1,1\n-128,-128\n127,127\n");
    assert!(
        text(Format::Jsonl).starts_with("{\"bit\":-1,\"other\":-1}\n{\"bit\":0,\"other\":null}")
    );
    let bytes = io::Cursor::new(written(Format::Arrow));
    let batch =
        arrow_ipc::reader::FileReader::try_new(bytes, None).unwrap().next().unwrap().unwrap();
    let bits: Vec<_> = batch.column(0).as_primitive::<Int8Type>().values().to_vec();
    assert_eq!(bits, [-1, 0, 1, i8::MIN, i8::MAX]);
    assert!(batch.column(1).as_primitive::<Int8Type>().iter().nth(1).unwrap().is_none());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("small.parquet");
    fs::write(&path, written(Format::Parquet)).unwrap();
    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let schema = reader.metadata().file_metadata().schema_descr();
    assert_eq!(schema.column(0).logical_type_ref(), Some(&LogicalType::integer(8, true)));
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert_eq!((rows[3].get_byte(0).unwrap(), rows[4].get_byte(1).unwrap()), (i8::MIN, i8::MAX));
    fs::remove_file(&path).unwrap();
}

#[test]
fn a_matrix_says_at_its_beginning_what_was_known_at_its_end() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("matrix.npy");
    let file = OutputFile::create(&path, Existing::Replace).unwrap();
    let mut writer = MatrixWriter::new(file, 3).unwrap();
    writer.write(&[-1, 0, 1, 2, 3, 4]).unwrap();
    assert_eq!(writer.write(&[5]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    writer.write(&[7; 300]).unwrap();
    assert_eq!(writer.finish().unwrap(), 128 + 306);
    let bytes = fs::read(&path).unwrap();
    assert!(str::from_utf8(&bytes[10..128]).unwrap().contains("'shape': (102, 3), }"));
    assert_eq!(bytes[128..134], [255, 0, 1, 2, 3, 4]);
    fs::remove_file(&path).unwrap();
}

#[test]
fn a_pipe_has_no_beginning_to_go_back_to() {
    let mut file = OutputFile::create(Path::new("/dev/null"), Existing::Refuse).unwrap();
    assert!(file.is_stream());
    assert!(file.rewrite_start(b"x").is_err());
}
