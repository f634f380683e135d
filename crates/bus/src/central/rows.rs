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

/// Characters of names in headers at most.
const NAME_LEN_MAX: usize = 128;

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
