//! Rows that are kept: appended to others, picked from others, measured.

use super::{Column, Columns, Value, Values};

impl Columns {
    /// Appends the rows of another piece of the same columns; of others none.
    pub fn append(&mut self, added: &Self) {
        if added.schema == self.schema {
            added.each(0..added.row_count, |row| self.push_row(row).is_ok());
        }
    }

    /// The rows at these places, in this order; places that there are not are left out.
    #[must_use]
    pub fn picked(&self, places: &[usize]) -> Self {
        let mut picked = Self::new(self.schema);
        let places = places.iter().copied().filter(|&place| place < self.row_count);
        self.each(places, |row| picked.push_row(row).is_ok());
        picked
    }

    /// Bytes that the values take in memory.
    #[must_use]
    pub fn byte_count(&self) -> usize {
        let of = |column: &Column| {
            let presence = column.presence.as_ref().map_or(0, Vec::len);
            presence
                + match &column.values {
                    Values::U64(values) => size_of_val(values.as_slice()),
                    Values::U32(values) => size_of_val(values.as_slice()),
                    Values::U16(values) => size_of_val(values.as_slice()),
                    Values::I8(values) => size_of_val(values.as_slice()),
                    Values::TimestampNs(values) => size_of_val(values.as_slice()),
                    Values::F64(values) => size_of_val(values.as_slice()),
                    Values::Text(values) => values.bytes().len() + 4 * values.offsets().len(),
                    Values::Bytes(values) => values.bytes().len() + 4 * values.offsets().len(),
                }
        };
        self.columns.iter().map(of).sum()
    }

    /// Hands on rows until one is refused, which only one beyond 4 GiB of text is.
    fn each(
        &self,
        places: impl Iterator<Item = usize>,
        mut take: impl FnMut(&[Value<'_>]) -> bool,
    ) {
        let mut row = Vec::with_capacity(self.columns.len());
        for place in places {
            row.clear();
            row.extend(self.columns.iter().map(|column| column.value(place)));
            if !take(&row) {
                return;
            }
        }
    }
}

impl Column {
    /// The value of a row; none past the end.
    #[must_use]
    pub fn value(&self, row: usize) -> Value<'_> {
        if self.is_null(row) {
            return Value::Null;
        }
        let value = match &self.values {
            Values::U64(values) => values.get(row).map(|&value| Value::U64(value)),
            Values::U32(values) => values.get(row).map(|&value| Value::U32(value)),
            Values::U16(values) => values.get(row).map(|&value| Value::U16(value)),
            Values::I8(values) => values.get(row).map(|&value| Value::I8(value)),
            Values::TimestampNs(values) => values.get(row).map(|&value| Value::TimestampNs(value)),
            Values::F64(values) => values.get(row).map(|&value| Value::F64(value)),
            Values::Text(values) => Some(Value::Str(values.get(row))),
            Values::Bytes(values) => Some(Value::Bytes(values.get(row))),
        };
        value.into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Field, Kind, Schema};
    use super::*;

    const SCHEMA: Schema = &[
        Field::new("name", Kind::Text, ""),
        Field::new("bytes", Kind::U64, "").nullable(),
        Field::new("start", Kind::Bytes, ""),
    ];

    #[test]
    fn rows_are_picked_and_appended_with_what_is_missing() {
        let mut rows = Columns::new(SCHEMA);
        for at in 0..4_u64 {
            let bytes = Some(at).filter(|at| at % 2 == 0).map(Value::U64);
            let name = at.to_string();
            rows.push_row(&[Value::Str(&name), bytes.into(), Value::Bytes(&[1, 2])]).unwrap();
        }
        let mut picked = rows.picked(&[3, 0, 9]);
        assert_eq!(picked.row_count(), 2);
        assert!(picked.columns()[1].is_null(0) && !picked.columns()[1].is_null(1));
        picked.append(&rows);
        assert_eq!(picked.row_count(), 6);
        assert_eq!(picked.picked(&[2, 3, 4, 5]), rows);
        assert!(rows.byte_count() >= 4 * (1 + 8 + 2));
    }
}
