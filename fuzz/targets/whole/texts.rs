//! What a killed run left behind: unfinished rows become a file that is read, or are refused.
//!
//! Input: a byte that chooses the format, then a file; or with the upper bit set changes of four
//! bytes (place, and value) in the beginning of a file that was written here.

use std::fs;
use std::sync::OnceLock;

use engine::columns::{Columns, Field, Kind, Schema, Value};
use fuzz::input::Input;
use fuzz::outputs::{Form, check};
use fuzz::place::fresh;
use fuzz::promises::assert_one_line;
use sink::{Existing, Format, Writer, recover as recover_rows};

const FORMATS: [(Format, Form); 4] = [
    (Format::Jsonl, Form::Any),
    (Format::Csv, Form::Any),
    (Format::Arrow, Form::Any),
    (Format::Parquet, Form::Any),
];

const SCHEMA: Schema = &[
    Field::new("count", Kind::U64, ""),
    Field::new("time_ns", Kind::TimestampNs, "").nullable(),
    Field::new("share", Kind::F64, "").nullable(),
    Field::new("name", Kind::Text, ""),
    Field::new("bytes", Kind::Bytes, "").nullable(),
];

/// A file of some rows in each format.
fn written() -> &'static [Vec<u8>; 4] {
    static WRITTEN: OnceLock<[Vec<u8>; 4]> = OnceLock::new();
    WRITTEN.get_or_init(|| {
        FORMATS.map(|(format, _)| {
            let path = fresh("rows").join("rows");
            let file = fs::File::create(&path).expect("room for a file");
            let mut writer = Writer::new(format, SCHEMA, file).expect("a writer");
            for number in 0..20 {
                let mut rows = Columns::new(SCHEMA);
                let name = format!("name, \"{number}\"");
                let values = [
                    Value::U64(number),
                    Value::TimestampNs(number.cast_signed()),
                    Value::Null,
                    Value::Str(&name),
                    Value::Bytes(&[1, 2, 3]),
                ];
                rows.push_row(&values).expect("a row");
                writer.write(&rows).expect("room for rows");
            }
            writer.finish().expect("room for rows");
            fs::read(&path).expect("a file")
        })
    })
}

pub(crate) fn recover(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let choice = input.u8();
    let at = usize::from(choice & 3);
    let (format, wanted) = FORMATS[at];
    let mut file = if choice & 0x80 == 0 { input.rest().to_vec() } else { written()[at].clone() };
    if choice & 0x80 != 0 {
        file.truncate(usize::from(input.u16()));
        while !input.is_empty() {
            let (place, value) = (usize::from(input.u16()), input.u16());
            let len = file.len().max(1);
            for (byte, value) in file.iter_mut().skip(place % len).zip(value.to_be_bytes()) {
                *byte = value;
            }
        }
    }
    let folder = fresh("recover");
    let partial = folder.join("rows.partial");
    fs::write(&partial, &file).expect("room for a file");
    let target = folder.join(format!("rows.{}", format.name()));
    match recover_rows(&partial, &target, Existing::Replace) {
        Ok(report) => assert!(report.row_count > 0 && check(&target, wanted) > 0),
        Err(error) => assert_one_line(&error),
    }
    assert_eq!(fs::read(&partial).expect("the file as it was"), file);
    let _ = fs::remove_dir_all(&folder);
}
