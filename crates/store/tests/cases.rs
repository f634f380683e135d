//! The cases of the filter language that the page shares: `page/cases/filter.json`.
#![allow(clippy::unwrap_used, clippy::panic)]

use engine::columns::{Columns, Field, Kind, Schema, Value};
use serde_json::Value as Json;
use store::query::Filter;

fn schema(table: &Json) -> Schema {
    let field = |column: &Json| {
        let kind = match column["type"].as_str().unwrap() {
            "text" => Kind::Text,
            "u16" => Kind::U16,
            "u64" => Kind::U64,
            "i8" => Kind::I8,
            "f64" => Kind::F64,
            "timestamp" => Kind::TimestampNs,
            "bytes" => Kind::Bytes,
            other => panic!("{other}"),
        };
        let name: &'static str = column["name"].as_str().unwrap().to_owned().leak();
        Field::new(name, kind, "").nullable()
    };
    let fields: Vec<_> = table["columns"].as_array().unwrap().iter().map(field).collect();
    fields.leak()
}

fn rows(table: &Json, schema: Schema) -> Columns {
    let mut columns = Columns::new(schema);
    for row in table["rows"].as_array().unwrap() {
        let bytes: Vec<Vec<u8>> = row.as_array().unwrap().iter().map(hexadecimal).collect();
        let cells = row.as_array().unwrap().iter().zip(schema).zip(&bytes);
        let values: Vec<_> = cells
            .map(|((cell, field), bytes)| match field.kind {
                _ if cell.is_null() => Value::Null,
                Kind::U16 => Value::U16(cell.as_u64().unwrap().try_into().unwrap()),
                Kind::U64 => Value::U64(cell.as_u64().unwrap()),
                Kind::I8 => Value::I8(cell.as_i64().unwrap().try_into().unwrap()),
                Kind::F64 => Value::F64(cell.as_f64().unwrap()),
                Kind::TimestampNs => Value::TimestampNs(cell.as_str().unwrap().parse().unwrap()),
                Kind::Bytes => Value::Bytes(bytes),
                _ => Value::Str(cell.as_str().unwrap()),
            })
            .collect();
        columns.push_row(&values).unwrap();
    }
    columns
}

fn hexadecimal(cell: &Json) -> Vec<u8> {
    let text = cell.as_str().unwrap_or_default().as_bytes();
    let pairs = text.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap_or_default());
    pairs.map_while(|pair| u8::from_str_radix(pair, 16).ok()).collect()
}

#[test]
fn the_page_and_the_server_read_filters_alike() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../page/cases/filter.json");
    let cases: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut wrong = Vec::new();
    for case in cases["cases"].as_array().unwrap() {
        let table = &cases["tables"][case["table"].as_str().unwrap()];
        let schema = schema(table);
        let text = case["where"].as_str().unwrap();
        let found = match Filter::new(text, schema) {
            Ok(filter) => {
                let rows = rows(table, schema);
                let matches: Vec<_> =
                    (0..rows.row_count()).filter(|&row| filter.has(&rows, row)).collect();
                serde_json::json!(matches)
            }
            Err(error) => serde_json::json!(error.to_string()),
        };
        let is_right = match case["error"].as_str() {
            Some(part) => found.as_str().is_some_and(|error| error.contains(part)),
            None => found == case["matches"],
        };
        if !is_right {
            wrong.push(format!("{case} but {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
