//! Filters of the page and the API: refused in words, or asked of any row.
//!
//! Input: the filter; what follows a zero byte is the text of a row.
#![no_main]

use std::hint::black_box;

use engine::columns::{Columns, Field, Kind, Schema, Value};
use libfuzzer_sys::fuzz_target;
use store::query::Filter;

const SCHEMA: Schema = &[
    Field::new("src_ip", Kind::Text, ""),
    Field::new("dst_ip", Kind::Text, ""),
    Field::new("dst_port", Kind::U16, ""),
    Field::new("src_bytes", Kind::U64, ""),
    Field::new("dst_bytes", Kind::U64, ""),
    Field::new("first_ns", Kind::TimestampNs, "").nullable(),
    Field::new("rtt_s", Kind::F64, ""),
    Field::new("start", Kind::Bytes, ""),
];

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let (filter, row) = text.split_once('\0').unwrap_or((&text, "10.0.0.1"));
    let Ok(filter) = Filter::new(filter, SCHEMA) else { return };
    let mut rows = Columns::new(SCHEMA);
    rows.push_row(&[
        Value::Str(row),
        Value::Str("2001:db8::1"),
        Value::U16(443),
        Value::U64(u64::MAX),
        Value::U64(u64::MAX),
        Value::Null,
        Value::F64(f64::NAN),
        Value::Bytes(row.as_bytes()),
    ])
    .expect("values are those of the schema");
    black_box(filter.has(&rows, 0));
});
