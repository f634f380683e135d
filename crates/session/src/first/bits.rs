//! A row of header bits: its columns, and its values.

use std::io::Write as _;

use engine::columns::{Field, Kind, Schema, Value};
use model::Subscription;

/// What a row is made of.
pub struct Shape<'a> {
    /// Which bits.
    pub subscription: &'a Subscription,
    /// The columns before the bits.
    pub fields: &'a [Field],
    /// Packets side by side, if rows are flows.
    pub depth: Option<usize>,
}

impl Shape<'_> {
    /// Names of the columns of bits.
    #[must_use]
    pub fn bit_columns(&self) -> Vec<String> {
        let Some(depth) = self.depth else { return self.subscription.columns().collect() };
        let of_packet = |number| self.subscription.columns().map(move |name| (number, name));
        (0..depth).flat_map(of_packet).map(|(number, name)| format!("pkt{number}_{name}")).collect()
    }

    /// All columns. Which there are is known once a run, and for as long as it lasts: so the names
    /// live as long as the process does.
    #[must_use]
    pub fn schema(&self) -> Schema {
        let mut fields = self.fields.to_vec();
        fields.extend(self.bit_columns().into_iter().map(|name| {
            Field::new(String::leak(name), Kind::I8, "A bit, or the fill value if there is none.")
        }));
        Vec::leak(fields)
    }

    /// Values of rows, none yet.
    #[must_use]
    pub fn bits(&self) -> Bits {
        let depth = self.depth.unwrap_or(1);
        Bits { subscription: self.subscription.clone(), depth, values: Vec::new() }
    }
}

/// The values of a row.
pub struct Bits {
    subscription: Subscription,
    depth: usize,
    values: Vec<i8>,
}

impl Bits {
    /// The values of a row: the records of its packets, end to end.
    pub fn of(&mut self, records: &[u8]) -> &[i8] {
        self.values.clear();
        let mut packets = records.chunks_exact(self.subscription.layout().record_len());
        for _ in 0..self.depth {
            match packets.next() {
                Some(record) => self.subscription.values(record, &mut self.values),
                None => self.subscription.absent_values(&mut self.values),
            }
        }
        &self.values
    }
}

/// A value as CSV has it. No index has a comma or a quote in it.
pub fn put_csv(out: &mut Vec<u8>, value: Value<'_>) {
    // Writing to a vector cannot fail.
    let _ = match value {
        Value::Str(text) => {
            out.extend_from_slice(text.as_bytes());
            Ok(())
        }
        Value::Text(text) => write!(out, "{text}"),
        Value::Address(address) => write!(out, "{address}"),
        Value::U64(number) => write!(out, "{number}"),
        Value::U32(number) => write!(out, "{number}"),
        Value::U16(number) => write!(out, "{number}"),
        Value::I8(number) => write!(out, "{number}"),
        Value::TimestampNs(number) => write!(out, "{number}"),
        Value::F64(number) => write!(out, "{number}"),
        Value::Null | Value::Bytes(_) => Ok(()),
    };
}
