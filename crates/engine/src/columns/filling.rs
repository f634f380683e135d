//! Many rows in one call, column by column.

use std::net::IpAddr;

use super::address::AddressText;
use super::{Column, Columns, RowMismatch, Value, Values};

/// Appends rows to columns, one column after the other, in the order of the schema: no value is
/// matched with its kind on its own, as [`Columns::push_row`] has to.
///
/// ```
/// use engine::columns::{Columns, Field, Kind};
///
/// const SCHEMA: &[Field] =
///     &[Field::new("port", Kind::U16, ""), Field::new("bytes", Kind::U64, "")];
/// let mut columns = Columns::new(SCHEMA);
/// let flows = [(80, 1_000), (443, 2_000)];
/// let mut filling = columns.fill(flows.len());
/// filling.u16(flows.iter().map(|flow| flow.0));
/// filling.u64(flows.iter().map(|flow| flow.1));
/// filling.finish().unwrap();
/// assert_eq!(columns.row_count(), 2);
/// ```
#[must_use = "rows count once they are finished"]
pub struct Filling<'a> {
    columns: &'a mut Columns,
    row_count: usize,
    /// The column that is filled next.
    next: usize,
    refused: Option<usize>,
    /// Columns that were left without values.
    blank: Vec<usize>,
}

impl<'a> Filling<'a> {
    pub(super) fn new(columns: &'a mut Columns, row_count: usize) -> Self {
        Self { columns, row_count, next: 0, refused: None, blank: Vec::new() }
    }

    /// Fills the values of the next column, of which all rows have one; false where they are of
    /// another kind.
    #[inline]
    fn next(&mut self, fill: impl FnOnce(&mut Values) -> bool) {
        let row_count = self.row_count;
        let is_filled = self.columns.columns.get_mut(self.next).is_some_and(|column| {
            let Column { values, presence } = column;
            if let Some(presence) = presence {
                presence.resize(presence.len() + row_count, true);
            }
            fill(values)
        });
        if !is_filled {
            self.refused.get_or_insert(self.next);
        }
        self.next += 1;
    }

    /// Counts.
    #[inline]
    pub fn u64(&mut self, values: impl Iterator<Item = u64>) {
        self.next(|into| {
            let Values::U64(into) = into else { return false };
            into.extend(values);
            true
        });
    }

    /// Small numbers.
    #[inline]
    pub fn u16(&mut self, values: impl Iterator<Item = u16>) {
        self.next(|into| {
            let Values::U16(into) = into else { return false };
            into.extend(values);
            true
        });
    }

    /// Small numbers that rows may lack.
    pub fn u16_if_any(&mut self, values: impl Iterator<Item = Option<u16>>) {
        self.next_if_any(values, |into| match into {
            Values::U16(into) => Some(into),
            _ => None,
        });
    }

    /// Stamps that rows may lack.
    pub fn timestamp_ns_if_any(&mut self, values: impl Iterator<Item = Option<i64>>) {
        self.next_if_any(values, |into| match into {
            Values::TimestampNs(into) => Some(into),
            _ => None,
        });
    }

    /// Fills the values of the next column, which rows may lack, where `of_kind` finds its kind.
    #[inline]
    fn next_if_any<T: Default>(
        &mut self,
        values: impl Iterator<Item = Option<T>>,
        of_kind: impl FnOnce(&mut Values) -> Option<&mut Vec<T>>,
    ) {
        let column = self.columns.columns.get_mut(self.next);
        let into = column
            .and_then(|Column { values, presence }| Some((of_kind(values)?, presence.as_mut()?)));
        match into {
            Some((into, presence)) => {
                presence.reserve(self.row_count);
                into.extend(values.map(|value| {
                    presence.push(value.is_some());
                    value.unwrap_or_default()
                }));
            }
            None => drop(self.refused.get_or_insert(self.next)),
        }
        self.next += 1;
    }

    /// Any values that rows may lack.
    #[inline]
    pub fn if_any<'v>(&mut self, mut values: impl Iterator<Item = Option<Value<'v>>>) {
        let column = self.columns.columns.get_mut(self.next);
        if !column.is_some_and(|column| values.all(|value| column.push(value.into()))) {
            self.refused.get_or_insert(self.next);
        }
        self.next += 1;
    }

    /// Addresses as text.
    #[inline]
    pub fn addresses(&mut self, mut addresses: impl Iterator<Item = IpAddr>) {
        self.next(|into| {
            let Values::Text(into) = into else { return false };
            addresses.all(|address| into.push_str(AddressText::new(address).as_str()))
        });
    }

    /// Texts.
    #[inline]
    pub fn texts<T: AsRef<str>>(&mut self, mut texts: impl Iterator<Item = T>) {
        self.next(|into| {
            let Values::Text(into) = into else { return false };
            texts.all(|text| into.push_str(text.as_ref()))
        });
    }

    /// The values of the only row in the columns that come next.
    pub fn rest(&mut self, values: &[Value<'_>]) {
        for value in values {
            self.if_any(std::iter::once(Some(*value)));
        }
    }

    /// Leaves the next column without values, of rows that had none before: a file of many columns
    /// is read for a few. Its numbers and stamps are then missing in every row, its text is empty;
    /// rows of such columns are examined, and neither appended nor picked.
    pub fn blank(&mut self) {
        self.blank.push(self.next);
        self.next += 1;
    }

    /// All columns are filled.
    ///
    /// # Errors
    /// [`RowMismatch`] where one of them has another kind, or another number of rows; then none of
    /// the rows is taken in.
    pub fn finish(self) -> Result<(), RowMismatch> {
        let Self { columns, row_count, next, refused, blank } = self;
        let wanted = columns.row_count + row_count;
        let is_short = |(at, column): (usize, &Column)| {
            let wanted = if blank.contains(&at) { 0 } else { wanted };
            column.values.len() != wanted
                || column.presence.as_ref().is_some_and(|presence| presence.len() != wanted)
        };
        let refused = refused
            .or_else(|| (next != columns.columns.len()).then_some(next.min(columns.columns.len())))
            .or_else(|| columns.columns.iter().enumerate().position(is_short));
        match refused {
            None => {
                columns.row_count = wanted;
                Ok(())
            }
            Some(column) => {
                let row_count = columns.row_count;
                columns.columns.iter_mut().for_each(|column| column.truncate(row_count));
                Err(RowMismatch { column })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Field, Kind, Schema};
    use super::*;

    const SCHEMA: Schema = &[
        Field::new("source", Kind::Text, ""),
        Field::new("packets", Kind::U64, ""),
        Field::new("port", Kind::U16, "").nullable(),
    ];

    #[test]
    fn columns_filled_at_once_are_those_of_rows() {
        let address = |last: u8| IpAddr::from([192, 0, 2, last]);
        let mut rows = Columns::new(SCHEMA);
        for row in 0..9_u8 {
            let port = (row % 3 > 0).then_some(Value::U16(row.into()));
            rows.push_row(&[Value::Address(address(row)), Value::U64(row.into()), port.into()])
                .unwrap();
        }
        let mut filled = Columns::new(SCHEMA);
        for range in [0..4_u8, 4..4, 4..9] {
            let mut filling = filled.fill(range.len());
            filling.addresses(range.clone().map(address));
            filling.u64(range.clone().map(u64::from));
            filling.u16_if_any(range.map(|row| (row % 3 > 0).then_some(row.into())));
            filling.finish().unwrap();
        }
        assert_eq!(filled, rows);
    }

    #[test]
    fn a_blank_column_has_no_values() {
        let mut columns = Columns::new(SCHEMA);
        let mut filling = columns.fill(2);
        filling.blank();
        filling.u64([3, 4].into_iter());
        filling.blank();
        filling.finish().unwrap();
        assert_eq!(columns.row_count(), 2);
        let [source, packets, port] = columns.columns() else { panic!("three columns") };
        assert_eq!(*packets.values(), Values::U64(vec![3, 4]));
        assert!(matches!(port.value(1), Value::Null));
        assert!(matches!(source.value(1), Value::Str("")));
        let mut filling = columns.fill(1);
        filling.blank();
        filling.u64([3].into_iter());
        filling.u16([3].into_iter());
        assert!(filling.finish().is_err(), "rows that some columns do not have");
    }

    #[test]
    fn columns_of_another_kind_or_length_take_nothing() {
        let mut columns = Columns::new(SCHEMA);
        let mut filling = columns.fill(1);
        filling.texts(["a"].iter());
        filling.u16([1].into_iter());
        filling.u16_if_any([None].into_iter());
        assert_eq!(filling.finish(), Err(RowMismatch { column: 1 }));
        let mut filling = columns.fill(2);
        filling.texts(["a", "b"].iter());
        filling.u64([1].into_iter());
        filling.u16_if_any([None, None].into_iter());
        assert_eq!(filling.finish(), Err(RowMismatch { column: 1 }));
        let mut filling = columns.fill(1);
        filling.texts(["a"].iter());
        assert_eq!(filling.finish(), Err(RowMismatch { column: 1 }));
        assert_eq!(columns, Columns::new(SCHEMA));
    }
}
