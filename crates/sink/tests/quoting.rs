//! Whatever text a row holds, an RFC 4180 reader and a JSON reader get it back.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use engine::columns::{Columns, Field, Kind, Schema, Value};
use proptest::prelude::*;
use sink::{Format, Writer};

const ONE: Schema = &[Field::new("a", Kind::Text, "")];
const TWO: Schema = &[Field::new("odd, \"name\"", Kind::Text, ""), Field::new("b", Kind::Text, "")];

/// Mostly the characters that matter, some of any kind.
fn texts() -> impl Strategy<Value = String> {
    let odd = vec!['"', ',', '\n', '\r', '\\', ' ', 'a', '\0', '\u{7f}', '☃'];
    let chars = prop_oneof![
        4 => proptest::sample::select(odd),
        1 => any::<char>(),
    ];
    proptest::collection::vec(chars, 0..8).prop_map(String::from_iter)
}

fn written(format: Format, schema: Schema, records: &[Vec<String>]) -> String {
    let mut rows = Columns::new(schema);
    for record in records {
        let values: Vec<Value<'_>> = record.iter().map(|text| Value::Text(text)).collect();
        rows.push_row(&values).unwrap();
    }
    let mut writer = Writer::new(format, schema, Vec::new()).unwrap();
    writer.write(&rows).unwrap();
    String::from_utf8(writer.finish().unwrap()).unwrap()
}

/// RFC 4180 with LF line ends, as strict as can be; an empty line is no record, as readers have it.
fn read_csv(text: &str) -> Vec<Vec<String>> {
    let mut chars = text.chars().peekable();
    let mut records = Vec::new();
    while chars.peek().is_some() {
        let mut record = Vec::new();
        loop {
            let mut value = String::new();
            if chars.next_if_eq(&'"').is_some() {
                loop {
                    match chars.next().expect("a quote is closed") {
                        '"' if chars.next_if_eq(&'"').is_some() => value.push('"'),
                        '"' => break,
                        other => value.push(other),
                    }
                }
            } else {
                while let Some(char) = chars.next_if(|char| !matches!(char, ',' | '\n')) {
                    assert!(!matches!(char, '"' | '\r'), "unquoted {char:?}");
                    value.push(char);
                }
                assert!(
                    chars.peek() != Some(&'\n') || !value.is_empty() || !record.is_empty(),
                    "empty line"
                );
            }
            record.push(value);
            match chars.next() {
                Some(',') => {}
                Some('\n') => break,
                other => panic!("{other:?} after a value"),
            }
        }
        records.push(record);
    }
    records
}

/// The strings of one JSON object, keys and values alike.
fn read_json_strings(line: &str) -> Vec<String> {
    let mut chars = line.chars();
    let mut strings = Vec::new();
    while let Some(char) = chars.next() {
        if char != '"' {
            assert!("{}:,".contains(char), "{char:?} outside a string");
            continue;
        }
        let mut text = String::new();
        loop {
            match chars.next().expect("a string is closed") {
                '"' => break,
                '\\' => text.push(match chars.next().expect("an escape has a letter") {
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    'u' => {
                        let digits: String = chars.by_ref().take(4).collect();
                        char::from_u32(u32::from_str_radix(&digits, 16).unwrap()).unwrap()
                    }
                    same @ ('"' | '\\') => same,
                    other => panic!("\\{other} is no JSON escape"),
                }),
                char => {
                    assert!(char >= ' ', "{char:?} must be escaped");
                    text.push(char);
                }
            }
        }
        strings.push(text);
    }
    strings
}

/// Records of so many texts.
fn records(width: usize) -> impl Strategy<Value = Vec<Vec<String>>> {
    proptest::collection::vec(proptest::collection::vec(texts(), width), 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn csv_reads_back(records in records(2)) {
        let mut wanted = vec![vec!["odd, \"name\"".to_owned(), "b".to_owned()]];
        wanted.extend(records.clone());
        prop_assert_eq!(read_csv(&written(Format::Csv, TWO, &records)), wanted);
    }

    #[test]
    fn csv_of_one_column_reads_back(records in records(1)) {
        let mut wanted = vec![vec!["a".to_owned()]];
        wanted.extend(records.clone());
        prop_assert_eq!(read_csv(&written(Format::Csv, ONE, &records)), wanted);
    }

    #[test]
    fn jsonl_reads_back(record in proptest::collection::vec(texts(), 2)) {
        let text = written(Format::Jsonl, TWO, std::slice::from_ref(&record));
        prop_assert_eq!(text.matches('\n').count(), 1);
        let [first, second] = [&record[0], &record[1]].map(Clone::clone);
        let wanted = vec!["odd, \"name\"".to_owned(), first, "b".to_owned(), second];
        prop_assert_eq!(read_json_strings(text.trim_end_matches('\n')), wanted);
    }
}
