//! Messages of rows, read back: each object of JSON becomes a row of a table with a column more,
//! the sensor.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use async_nats::Message;
use engine::columns::{Columns, Field, Kind, Schema, Value};
use serde_json::{Map, Value as Json};

use crate::VERSION;
use crate::message::{LEN_MAX, ROWS_MAX, token};

/// The first column of every table here.
pub(super) const SENSOR: Field =
    Field::new("sensor", Kind::Text, "Sensor that published the row, as it names itself.");

/// Bytes of names in headers, and in metrics, at most.
pub(super) const NAME_LEN_MAX: usize = 128;

/// What a message says of its rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Head {
    pub sensor: String,
    pub run: String,
    pub table: String,
    pub rows: Range<u64>,
}

/// Why a message is not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RowFault {
    /// Of another version.
    Version,
    /// Its headers are missing or contradict its subject: a stranger's.
    Headers,
    /// Its rows are none, not as many as it says, or with values of other kinds.
    Rows,
}

impl Head {
    /// Reads the headers. The broker allows subjects and no headers: what these name must agree.
    pub(super) fn read(message: &Message, prefix: &str) -> Result<Self, RowFault> {
        let headers = message.headers.as_ref().ok_or(RowFault::Headers)?;
        let text = |name: &str| headers.get(name).map(|value| value.as_str());
        let number = |name: &str| text(name)?.parse::<u64>().ok();
        if number("Wirelens-Version").ok_or(RowFault::Headers)? != u64::from(VERSION) {
            return Err(RowFault::Version);
        }
        let name = |name: &str| {
            let is_name = |text: &&str| !text.is_empty() && text.len() <= NAME_LEN_MAX;
            text(name).filter(is_name).map(str::to_owned).ok_or(RowFault::Headers)
        };
        let (sensor, run, table) =
            (name("Wirelens-Sensor")?, name("Wirelens-Run")?, name("Wirelens-Table")?);
        let subject = format!("{prefix}.v{VERSION}.rows.{}.{}", token(&sensor), token(&table));
        let (first, count) = number("Wirelens-First-Row")
            .zip(number("Wirelens-Rows"))
            .filter(|&(first, count)| (1..=ROWS_MAX as u64).contains(&count) && first < 1 << 62)
            .ok_or(RowFault::Headers)?;
        if message.subject.as_str() != subject {
            return Err(RowFault::Headers);
        }
        Ok(Self { sensor, run, table, rows: first..first + count })
    }
}

/// Columns of sensors, and of a table here.
type SchemaPair = (Schema, Schema);

/// Those that were asked for: each is made once, as it lives as long as the process.
static SCHEMAS: Mutex<Vec<SchemaPair>> = Mutex::new(Vec::new());

/// The columns of a table here: those of a sensor's, any of which another sensor may not have,
/// behind the sensor.
#[must_use]
pub fn central_schema(of_sensors: Schema) -> Schema {
    let mut schemas = SCHEMAS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, schema)) = schemas.iter().find(|(of, _)| *of == of_sensors) {
        return schema;
    }
    let fields = of_sensors.iter().map(|field| field.nullable());
    let schema: Schema = Box::leak(std::iter::once(SENSOR).chain(fields).collect());
    schemas.push((of_sensors, schema));
    schema
}

/// Appends the rows of a message of which the numbers are in `unseen`, all or none. Columns that
/// the table does not have are left out, and named the first time.
pub(super) fn read_rows(
    head: &Head,
    payload: &[u8],
    unseen: &[Range<u64>],
    into: &mut Columns,
    mut left_out: impl FnMut(&str),
) -> Result<(), RowFault> {
    let schema = into.schema();
    let text = std::str::from_utf8(payload).map_err(|_| RowFault::Rows)?;
    if payload.len() > LEN_MAX {
        return Err(RowFault::Rows);
    }
    let objects: Result<Vec<Map<String, Json>>, _> =
        text.lines().map(serde_json::from_str).collect();
    let objects = objects.map_err(|_| RowFault::Rows)?;
    if objects.len() as u64 != head.rows.end - head.rows.start {
        return Err(RowFault::Rows);
    }
    let mut read = Columns::new(schema);
    for (number, object) in (head.rows.start..).zip(&objects) {
        if !unseen.iter().any(|rows| rows.contains(&number)) {
            continue;
        }
        let bytes: Vec<Option<Vec<u8>>> = schema.iter().map(|field| bytes(field, object)).collect();
        let mut values = vec![Value::Str(&head.sensor)];
        for (field, bytes) in schema.iter().zip(&bytes).skip(1) {
            let json = object.get(field.name).unwrap_or(&Json::Null);
            values.push(value(field.kind, json, bytes.as_deref()).ok_or(RowFault::Rows)?);
        }
        read.push_row(&values).map_err(|_| RowFault::Rows)?;
    }
    if let Some(object) = objects.first() {
        let is_known = |name: &String| schema.iter().any(|field| field.name == name);
        object.keys().filter(|name| !is_known(name)).for_each(|name| left_out(name));
    }
    into.append(&read);
    Ok(())
}

/// A value of JSON as one of this kind; nothing where it is none.
fn value<'a>(kind: Kind, json: &'a Json, bytes: Option<&'a [u8]>) -> Option<Value<'a>> {
    if json.is_null() {
        return Some(Value::Null);
    }
    match kind {
        Kind::U64 => json.as_u64().map(Value::U64),
        Kind::U32 => json.as_u64()?.try_into().ok().map(Value::U32),
        Kind::U16 => json.as_u64()?.try_into().ok().map(Value::U16),
        Kind::I8 => json.as_i64()?.try_into().ok().map(Value::I8),
        Kind::TimestampNs => json.as_i64().map(Value::TimestampNs),
        Kind::F64 => json.as_f64().map(Value::F64),
        Kind::Text => json.as_str().map(Value::Str),
        Kind::Bytes => bytes.map(Value::Bytes),
    }
}

/// Of a column of bytes what its hexadecimal text says.
fn bytes(field: &Field, object: &Map<String, Json>) -> Option<Vec<u8>> {
    if field.kind != Kind::Bytes {
        return None;
    }
    let text = object.get(field.name)?.as_str()?.as_bytes();
    let digit = |at: usize| char::from(*text.get(at)?).to_digit(16);
    let byte = |at| u8::try_from(digit(at)? << 4 | digit(at + 1)?).ok();
    (0..text.len()).step_by(2).map(byte).collect()
}

#[cfg(test)]
// Ranges are values here.
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use super::*;
    use crate::message::json_lines;

    const KINDS: Schema = &[
        Field::new("u64", Kind::U64, ""),
        Field::new("u32", Kind::U32, ""),
        Field::new("u16", Kind::U16, "").nullable(),
        Field::new("i8", Kind::I8, ""),
        Field::new("time_ns", Kind::TimestampNs, "").nullable(),
        Field::new("f64", Kind::F64, "").nullable(),
        Field::new("text", Kind::Text, ""),
        Field::new("bytes", Kind::Bytes, "").nullable(),
    ];

    fn head(count: u64) -> Head {
        let [sensor, run, table] = ["roof east", "18a4f0", "kinds"].map(String::from);
        Head { sensor, run, table, rows: 5..5 + count }
    }

    fn values() -> [[Value<'static>; 8]; 3] {
        let null = Value::Null;
        [
            [
                Value::U64(u64::MAX),
                Value::U32(u32::MAX),
                Value::U16(u16::MAX),
                Value::I8(i8::MIN),
                Value::TimestampNs(i64::MIN),
                Value::F64(-1.5e-300),
                Value::Str("\"a\"\n\u{1f4a1}\u{0}\\"),
                Value::Bytes(&[0, 1, 0xfe, 0xff]),
            ],
            [Value::U64(0), Value::U32(0), null, Value::I8(0), null, null, Value::Str(""), null],
            [
                Value::U64(1 << 53 | 1),
                Value::U32(1),
                Value::U16(1),
                Value::I8(i8::MAX),
                Value::TimestampNs(i64::MAX),
                Value::F64(0.1),
                Value::Str("x"),
                Value::Bytes(&[]),
            ],
        ]
    }

    #[test]
    fn what_a_sensor_writes_is_read_back_to_the_digit() {
        let schema = central_schema(KINDS);
        let (mut sent, mut wanted) = (Columns::new(KINDS), Columns::new(schema));
        for row in values() {
            sent.push_row(&row).unwrap();
            let with_sensor: Vec<_> = std::iter::once(Value::Str("roof east")).chain(row).collect();
            wanted.push_row(&with_sensor).unwrap();
        }
        let payload = json_lines(&sent).unwrap();
        let mut read = Columns::new(schema);
        let never = |name: &str| panic!("{name}");
        read_rows(&head(3), &payload, &[5..8], &mut read, never).unwrap();
        assert_eq!(read, wanted);
        // Of rows of which some came before, the others.
        let mut rest = Columns::new(schema);
        read_rows(&head(3), &payload, &[4..6, 7..9], &mut rest, never).unwrap();
        assert_eq!(rest, wanted.picked(&[0, 2]));
        // The same columns are made once.
        assert!(std::ptr::eq(central_schema(KINDS), schema));
    }

    #[test]
    fn a_message_with_a_row_that_is_none_has_no_row() {
        let schema = central_schema(KINDS);
        let mut read = Columns::new(schema);
        for (count, text) in [
            (2, "{\"u64\":1}\n"),
            (1, "{\"u64\":1}\n{\"u64\":2}\n"),
            (2, "{\"u64\":1}\n{\"u64\":1.5}\n"),
            (2, "{\"u64\":1}\n{\"u16\":65536}\n"),
            (2, "{\"u64\":1}\n{\"i8\":-129}\n"),
            (2, "{\"u64\":1}\n{\"text\":1}\n"),
            (2, "{\"u64\":1}\n{\"bytes\":\"0g\"}\n"),
            (2, "{\"u64\":1}\n{\"bytes\":\"012\"}\n"),
            (2, "{\"u64\":1}\n{\"time_ns\":\"1\"}\n"),
            (1, "{\"u64\":1"),
            (1, ""),
        ] {
            let found = read_rows(&head(count), text.as_bytes(), &[0..99], &mut read, |_| ());
            assert_eq!((found, read.row_count()), (Err(RowFault::Rows), 0), "{text}");
        }
        let mut left_out = Vec::new();
        let text = b"{\"colour\":1,\"u64\":7}\n";
        read_rows(&head(1), text, &[5..6], &mut read, |name| left_out.push(name.to_owned()))
            .unwrap();
        assert_eq!((left_out, read.row_count()), (vec![String::from("colour")], 1));
    }
}
