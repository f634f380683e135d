//! Rows of files, as columns of a table as it is now.

use std::fs::File;
use std::path::Path;

use engine::columns::{Columns, Field, Filling, Kind, Schema, Value};
use parquet::basic::{LogicalType, TimeUnit, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader as _, RowGroupReader, SerializedFileReader};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescriptor;

use crate::text::TextPages;

/// Rows of a group at most: eight times what is written. A damaged file may state anything.
const GROUP_ROWS_MAX: i64 = 1 << 20;

/// A file that was opened.
pub(crate) struct HistoryFile {
    reader: SerializedFileReader<File>,
    schema: Schema,
    /// Of each column of the schema, its place in the file: names and kinds are the same. What an
    /// earlier version had besides is not read.
    places: Vec<Option<usize>>,
}

impl HistoryFile {
    pub(crate) fn new(path: &Path, schema: Schema) -> Result<Self, String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        let reader = SerializedFileReader::new(file).map_err(|error| error.to_string())?;
        let descriptors = reader.metadata().file_metadata().schema_descr();
        let place = |field: &Field| {
            let is_it = |column: &&ColumnKind<'_>| column.name == field.name;
            let columns = descriptors.columns().iter().enumerate();
            let kinds: Vec<_> =
                columns.filter_map(|(place, column)| ColumnKind::of(column, place)).collect();
            let found = kinds.iter().find(is_it).filter(|found| found.kind == field.kind);
            found.map(|found| found.place)
        };
        let places = schema.iter().map(place).collect();
        Ok(Self { reader, schema, places })
    }

    /// Whether it has the columns of the schema, and no others.
    pub(crate) fn is_same(&self) -> bool {
        let count = self.reader.metadata().file_metadata().schema_descr().num_columns();
        count == self.schema.len() && self.places.iter().all(Option::is_some)
    }

    pub(crate) const fn schema(&self) -> Schema {
        self.schema
    }

    pub(crate) fn group_count(&self) -> usize {
        self.reader.metadata().num_row_groups()
    }

    fn group(&self, group: usize) -> Option<&RowGroupMetaData> {
        self.reader.metadata().row_groups().get(group)
    }

    pub(crate) fn row_count(&self, group: usize) -> usize {
        let count = self.group(group).map_or(0, RowGroupMetaData::num_rows);
        usize::try_from(count).unwrap_or(0)
    }

    /// The least and greatest of a column of stamps in a group; nothing where they are not stated,
    /// or some row has none.
    pub(crate) fn span(&self, group: usize, column: usize) -> Option<(i64, i64)> {
        let place = self.places.get(column).copied().flatten()?;
        let statistics = self.group(group)?.columns().get(place)?.statistics()?;
        let Statistics::Int64(values) = statistics else { return None };
        if statistics.null_count_opt() != Some(0) {
            return None;
        }
        Some((*values.min_opt()?, *values.max_opt()?))
    }

    /// The rows of a group with values in these columns; the others are blank.
    pub(crate) fn read(&self, group: usize, wanted: &[usize]) -> Result<Columns, String> {
        self.read_at(group, wanted, None)
    }

    /// The same of some rows only, in rising order of their places: pages without one are passed
    /// over.
    pub(crate) fn read_at(
        &self,
        group: usize,
        wanted: &[usize],
        places: Option<&[usize]>,
    ) -> Result<Columns, String> {
        let row_count = self.group(group).map_or(0, RowGroupMetaData::num_rows);
        if !(0..=GROUP_ROWS_MAX).contains(&row_count) {
            return Err(format!("a row group of {row_count} rows"));
        }
        let row_count = usize::try_from(row_count).unwrap_or(0);
        let row_count = places.map_or(row_count, <[usize]>::len);
        let reader = self.reader.get_row_group(group).map_err(|error| error.to_string())?;
        let mut columns = Columns::new(self.schema);
        let mut filling = columns.fill(row_count);
        for (at, (field, place)) in self.schema.iter().zip(&self.places).enumerate() {
            match place {
                Some(place) if wanted.contains(&at) => {
                    let reading = Reading { field, row_count, places };
                    reading.fill(&mut filling, reader.as_ref(), *place)?;
                }
                None if field.is_nullable => {
                    filling.if_any(std::iter::repeat_n(None, row_count));
                }
                _ => filling.blank(),
            }
        }
        filling.finish().map_err(|refused| refused.to_string())?;
        Ok(columns)
    }
}

/// What a column of a file holds, in our words.
struct ColumnKind<'a> {
    name: &'a str,
    kind: Kind,
    place: usize,
}

impl<'a> ColumnKind<'a> {
    fn of(column: &'a ColumnDescriptor, place: usize) -> Option<Self> {
        if column.max_rep_level() > 0 || column.max_def_level() > 1 {
            return None;
        }
        let logical = column.logical_type_ref();
        let kind = match (column.physical_type(), logical) {
            (Physical::INT64, Some(logical)) if *logical == LogicalType::integer(64, false) => {
                Kind::U64
            }
            (Physical::INT64, Some(logical))
                if *logical == LogicalType::timestamp(true, TimeUnit::NANOS) =>
            {
                Kind::TimestampNs
            }
            (Physical::INT32, Some(logical)) => {
                let kinds = [((32, false), Kind::U32), ((16, false), Kind::U16)];
                let mut kinds = kinds.into_iter().chain([((8, true), Kind::I8)]);
                let is_it = |bits: (i8, bool)| *logical == LogicalType::integer(bits.0, bits.1);
                kinds.find(|(bits, _)| is_it(*bits)).map(|(_, kind)| kind)?
            }
            (Physical::DOUBLE, None) => Kind::F64,
            (Physical::BYTE_ARRAY, Some(LogicalType::String)) => Kind::Text,
            (Physical::BYTE_ARRAY, None) => Kind::Bytes,
            _ => return None,
        };
        Some(Self { name: column.name(), kind, place })
    }
}

/// One column of a row group.
struct Reading<'a> {
    field: &'a Field,
    row_count: usize,
    /// Only these rows, which are so many.
    places: Option<&'a [usize]>,
}

impl Reading<'_> {
    fn fill(
        &self,
        filling: &mut Filling<'_>,
        group: &dyn RowGroupReader,
        place: usize,
    ) -> Result<(), String> {
        if self.field.kind == Kind::Text
            && self.places.is_none()
            && self.text(filling, group, place)
        {
            return Ok(());
        }
        let reader = group.get_column_reader(place).map_err(|error| error.to_string())?;
        match (reader, self.field.kind) {
            (ColumnReader::Int64ColumnReader(reader), Kind::U64) => {
                let found = self.found(reader)?;
                if found.presence.is_none() && !self.field.is_nullable {
                    filling.u64(found.values.iter().map(|value| value.cast_unsigned()));
                } else {
                    found
                        .put(filling, self.field, |value| Ok(Value::U64(value.cast_unsigned())))?;
                }
            }
            (ColumnReader::Int64ColumnReader(reader), _) => {
                let found = self.found(reader)?;
                found.put(filling, self.field, |value| Ok(Value::TimestampNs(*value)))?;
            }
            (ColumnReader::Int32ColumnReader(reader), kind) => {
                let found = self.found(reader)?;
                found.put(filling, self.field, |value| small(kind, *value))?;
            }
            (ColumnReader::DoubleColumnReader(reader), _) => {
                let found = self.found(reader)?;
                found.put(filling, self.field, |value| Ok(Value::F64(*value)))?;
            }
            (ColumnReader::ByteArrayColumnReader(reader), Kind::Text) => {
                let found = self.found(reader)?;
                found.put(filling, self.field, |value: &ByteArray| {
                    let text = str::from_utf8(value.data());
                    text.map(Value::Str).map_err(|error| error.to_string())
                })?;
            }
            (ColumnReader::ByteArrayColumnReader(reader), _) => {
                let found = self.found(reader)?;
                found
                    .put(filling, self.field, |value: &ByteArray| Ok(Value::Bytes(value.data())))?;
            }
            _ => return Err(format!("column {} has another kind", self.field.name)),
        }
        Ok(())
    }

    /// False where the library has to read it.
    fn text(&self, filling: &mut Filling<'_>, group: &dyn RowGroupReader, place: usize) -> bool {
        let column = group.metadata().columns().get(place);
        let is_optional = column.is_some_and(|column| column.column_descr().max_def_level() > 0);
        let Ok(mut reader) = group.get_column_page_reader(place) else { return false };
        let Some(pages) = TextPages::read(reader.as_mut()) else { return false };
        let Some(texts) = pages.texts(self.row_count, is_optional) else { return false };
        if self.field.is_nullable {
            filling.if_any(texts.iter().map(|text| text.map(Value::Str)));
        } else {
            filling.texts(texts.iter().map(|text| text.unwrap_or_default()));
        }
        true
    }

    /// All values of the column, those of rows that have one.
    fn found<T: DataType>(
        &self,
        mut reader: ColumnReaderImpl<T>,
    ) -> Result<ColumnValues<T::T>, String> {
        let mut values = Vec::with_capacity(self.row_count);
        let mut levels: Vec<i16> = Vec::new();
        let ends_early = || format!("column {} ends early", self.field.name);
        let mut read = |reader: &mut ColumnReaderImpl<T>, count: usize| {
            let mut left = count;
            while left > 0 {
                let more = reader.read_records(left, Some(&mut levels), None, &mut values);
                match more.map_err(|error| error.to_string())?.0 {
                    0 => return Err(ends_early()),
                    more => left -= more.min(left),
                }
            }
            Ok(())
        };
        match self.places {
            None => read(&mut reader, self.row_count)?,
            Some(places) => {
                let mut at = 0;
                for &place in places {
                    let gap = place.saturating_sub(at);
                    let passed = reader.skip_records(gap).map_err(|error| error.to_string())?;
                    if passed < gap {
                        return Err(ends_early());
                    }
                    read(&mut reader, 1)?;
                    at = place + 1;
                }
            }
        }
        // A column of which every row has a value has no levels.
        let presence = (!levels.is_empty()).then(|| {
            let is_present = |level: &i16| *level > 0;
            levels.iter().map(is_present).collect::<Vec<_>>()
        });
        let count =
            |presence: &Vec<bool>| presence.iter().filter(|is_present| **is_present).count();
        let wanted = presence.as_ref().map_or(self.row_count, count);
        let row_count = presence.as_ref().map_or(self.row_count, Vec::len);
        if values.len() != wanted || row_count != self.row_count {
            return Err(format!("column {} has other rows", self.field.name));
        }
        Ok(ColumnValues { values, presence })
    }
}

/// Values of a column.
struct ColumnValues<T> {
    values: Vec<T>,
    presence: Option<Vec<bool>>,
}

impl<T> ColumnValues<T> {
    fn put<'a>(
        &'a self,
        filling: &mut Filling<'_>,
        field: &Field,
        value: impl Fn(&'a T) -> Result<Value<'a>, String>,
    ) -> Result<(), String> {
        let mut wrong = None;
        let mut one = |found: &'a T| match value(found) {
            Ok(value) => Some(value),
            Err(why) => {
                wrong.get_or_insert(why);
                Some(blank(field.kind))
            }
        };
        match &self.presence {
            None => filling.if_any(self.values.iter().map(&mut one)),
            Some(presence) => {
                let mut values = self.values.iter();
                // A column that may no longer lack values gets what stands in their place.
                let none = (!field.is_nullable).then(|| blank(field.kind));
                filling.if_any(presence.iter().map(|is_present| {
                    if *is_present { values.next().and_then(&mut one) } else { none }
                }));
            }
        }
        wrong.map_or(Ok(()), |why| Err(format!("column {}: {why}", field.name)))
    }
}

fn small<'a>(kind: Kind, value: i32) -> Result<Value<'a>, String> {
    let wrong = |_| format!("{value} is too large");
    match kind {
        Kind::U16 => u16::try_from(value).map(Value::U16).map_err(wrong),
        Kind::I8 => i8::try_from(value).map(Value::I8).map_err(wrong),
        _ => Ok(Value::U32(value.cast_unsigned())),
    }
}

const fn blank<'a>(kind: Kind) -> Value<'a> {
    match kind {
        Kind::U64 => Value::U64(0),
        Kind::U32 => Value::U32(0),
        Kind::U16 => Value::U16(0),
        Kind::I8 => Value::I8(0),
        Kind::TimestampNs => Value::TimestampNs(0),
        Kind::F64 => Value::F64(0.0),
        Kind::Text => Value::Str(""),
        Kind::Bytes => Value::Bytes(&[]),
    }
}

/// The rows at these places, of which some columns may be blank.
pub(crate) fn picked(from: &Columns, places: &[usize]) -> Result<Columns, String> {
    let mut picked = Columns::new(from.schema());
    let mut filling = picked.fill(places.len());
    for (field, column) in from.schema().iter().zip(from.columns()) {
        if is_blank(column.values()) && from.row_count() > 0 {
            filling.blank();
            continue;
        }
        filling.if_any(places.iter().map(|&place| match column.value(place) {
            Value::Null => (!field.is_nullable).then(|| blank(field.kind)),
            value => Some(value),
        }));
    }
    filling.finish().map_err(|refused| refused.to_string())?;
    Ok(picked)
}

fn is_blank(values: &engine::columns::Values) -> bool {
    use engine::columns::Values;
    match values {
        Values::U64(values) => values.is_empty(),
        Values::U32(values) => values.is_empty(),
        Values::U16(values) => values.is_empty(),
        Values::I8(values) => values.is_empty(),
        Values::TimestampNs(values) => values.is_empty(),
        Values::F64(values) => values.is_empty(),
        Values::Text(values) => values.offsets().len() < 2,
        Values::Bytes(values) => values.offsets().len() < 2,
    }
}
