//! Sums by minute and key, for series and groups over long ranges.

use std::collections::{BTreeMap, HashMap};

use engine::columns::{Columns, Field, Kind, Schema, Value};
use store::RowChunk;
use store::query::{Cell, cell, time_column};

pub(crate) const MINUTE_NS: i64 = 60_000_000_000;

/// Tables of sums that a table has.
struct Rule {
    table: &'static str,
    /// Sums for each value of this column.
    key: Option<&'static str>,
    /// Keys of a minute, the largest by the first sum; the rest is together under no key.
    key_count_max: usize,
    sums: &'static [&'static str],
    /// Of these the largest.
    maxima: &'static [&'static str],
}

/// Keys with so few values that sums of a minute keep practically all of them apart.
pub(crate) const FEW_VALUES: [&str; 4] = ["protocol", "app_protocol", "label", "control"];

const FLOW_SUMS: &[&str] = &["src_bytes", "dst_bytes", "src_packets", "dst_packets"];
const LATENCY_MAXIMA: &[&str] = &["rtt_min_ns", "rtt_p50_ns", "rtt_p99_ns", "rtt_max_ns"];

const fn rule(table: &'static str, key: &'static str, key_count_max: usize) -> Rule {
    Rule { table, key: Some(key), key_count_max, sums: FLOW_SUMS, maxima: &[] }
}

/// One line a table of sums. A column that a table lacks is left out, and with a key that it
/// lacks the whole line.
const RULES: &[Rule] = &[
    Rule {
        table: "traffic",
        key: None,
        key_count_max: 0,
        sums: &[
            "packets",
            "bytes",
            "tcp_bytes",
            "udp_bytes",
            "other_bytes",
            "new_flows",
            "ended_flows",
            "dropped_packets",
        ],
        maxima: &["bytes"],
    },
    rule("flows", "protocol", 16),
    rule("flows", "app_protocol", 50),
    rule("flows", "dst_port", 50),
    rule("flows", "src_ip", 50),
    rule("flows", "dst_ip", 50),
    rule("flows", "label", 50),
    rule("classify", "label", 50),
    Rule {
        table: "cca",
        key: Some("control"),
        key_count_max: 50,
        sums: &["ingress_bytes", "egress_bytes"],
        maxima: &[],
    },
    Rule {
        table: "latency",
        key: None,
        key_count_max: 0,
        sums: &["packets", "rtt_count", "unmeasured"],
        maxima: LATENCY_MAXIMA,
    },
];

/// A table of sums: its name is that of its table with `@1m`, and `-KEY` where it has one.
pub(crate) struct Rollup {
    pub(crate) name: String,
    pub(crate) schema: Schema,
    pub(crate) key: Option<usize>,
    /// A column of the table, and whether the largest is wanted in place of the sum.
    pub(crate) measures: Vec<(usize, bool)>,
    key_count_max: usize,
    time: usize,
}

/// The tables of sums of a table. A second table of a kind has a number at its end.
pub(crate) fn rollups(table: &str, schema: Schema) -> Vec<Rollup> {
    let kind = table.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let kind = if kind.len() < table.len() { kind.trim_end_matches('_') } else { table };
    let rules = RULES.iter().filter(|rule| rule.table == table || rule.table == kind);
    rules.filter_map(|rule| Rollup::new(rule, table, schema)).collect()
}

impl Rollup {
    fn new(rule: &Rule, table: &str, schema: Schema) -> Option<Self> {
        let place = |name: &str| schema.iter().position(|field| field.name == name);
        let time = time_column(schema)?;
        let key = match rule.key {
            Some(name) => Some(place(name)?),
            None => None,
        };
        let of = |names: &[&str], is_max| -> Vec<(usize, bool)> {
            names.iter().filter_map(|name| Some((place(name)?, is_max))).collect()
        };
        let measures = [of(rule.sums, false), of(rule.maxima, true)].concat();
        let mut fields = vec![
            Field::new("start_ns", Kind::TimestampNs, "Start of the minute."),
            Field::new("rows", Kind::U64, "Rows of the minute."),
        ];
        let key_field = key.and_then(|key| schema.get(key));
        fields.extend(
            key_field.map(|field| Field::new(field.name, field.kind, field.about).nullable()),
        );
        for &(column, is_max) in &measures {
            let field = schema.get(column)?;
            // One text for a column of a run: schemas live as long as it does.
            let name = if is_max { format!("max_{}", field.name).leak() } else { field.name };
            // A sum of small numbers is no small number.
            let kind = if field.kind == Kind::F64 { Kind::F64 } else { Kind::U64 };
            fields.push(Field::new(name, kind, field.about).nullable());
        }
        let name = match rule.key {
            Some(key) => format!("{table}@1m-{key}"),
            None => format!("{table}@1m"),
        };
        let schema = Vec::leak(fields);
        Some(Self { name, schema, key, measures, key_count_max: rule.key_count_max, time })
    }

    /// The sums of some rows. Those of a minute whose rows come in several calls are several rows,
    /// which add up.
    pub(crate) fn sums(&self, held: &[RowChunk]) -> Columns {
        let mut minutes: BTreeMap<i64, HashMap<KeyOf, Sums>> = BTreeMap::new();
        for columns in held.iter().map(RowChunk::columns) {
            for row in 0..columns.row_count() {
                let Some(ns) = cell(columns, self.time, row).time() else { continue };
                let minute = ns.div_euclid(MINUTE_NS).saturating_mul(MINUTE_NS);
                let key = self.key.map_or(KeyOf::Rest, |key| KeyOf::of(cell(columns, key, row)));
                let sums = minutes.entry(minute).or_default().entry(key);
                let none = || Sums { row_count: 0, values: vec![None; self.measures.len()] };
                let sums = sums.or_insert_with(none);
                sums.row_count += 1;
                for (sum, &(column, is_max)) in sums.values.iter_mut().zip(&self.measures) {
                    Number::of(cell(columns, column, row)).into_iter().for_each(|value| {
                        *sum = Some(sum.map_or(value, |sum| sum.with(value, is_max)));
                    });
                }
            }
        }
        let mut rows = Columns::new(self.schema);
        for (minute, keys) in minutes {
            self.put(minute, self.largest(keys), &mut rows);
        }
        rows
    }

    fn largest(&self, keys: HashMap<KeyOf, Sums>) -> Vec<(KeyOf, Sums)> {
        let mut keys: Vec<_> = keys.into_iter().collect();
        let size = |sums: &Sums| {
            let first = sums.values.first().copied().flatten();
            first.map_or(0.0, Number::as_f64)
        };
        keys.sort_by(|one, other| {
            let by_size = size(&other.1).total_cmp(&size(&one.1));
            by_size.then_with(|| one.0.cmp(&other.0))
        });
        let rest = keys.split_off(self.key_count_max.max(1).min(keys.len()));
        for (_, sums) in rest {
            match keys.iter_mut().find(|(key, _)| *key == KeyOf::Rest) {
                Some((_, sum)) => sum.add(&sums, &self.measures),
                None => keys.push((KeyOf::Rest, sums)),
            }
        }
        keys
    }

    fn put(&self, minute: i64, keys: Vec<(KeyOf, Sums)>, rows: &mut Columns) {
        for (key, sums) in keys {
            let mut values = vec![Value::TimestampNs(minute), Value::U64(sums.row_count)];
            let kinds = self.schema.iter().skip(2).map(|field| field.kind);
            let mut kinds = kinds.peekable();
            if self.key.is_some() {
                values.push(match (&key, kinds.next()) {
                    (KeyOf::Text(text), _) => Value::Str(text),
                    (KeyOf::Number(value), Some(kind)) => Number::Integer(*value).value(kind),
                    _ => Value::Null,
                });
            }
            let sums = sums.values.iter().zip(kinds);
            values.extend(sums.map(|(sum, kind)| sum.map_or(Value::Null, |sum| sum.value(kind))));
            let is_taken = rows.push_row(&values);
            debug_assert!(is_taken.is_ok(), "the values are of the kinds of the schema");
        }
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum KeyOf {
    /// No value, and all beyond the limit.
    Rest,
    Number(i128),
    Text(String),
}

impl KeyOf {
    fn of(cell: Cell<'_>) -> Self {
        match cell {
            Cell::Integer(value) => Self::Number(value),
            Cell::Text(text) => Self::Text(text.to_owned()),
            _ => Self::Rest,
        }
    }
}

struct Sums {
    row_count: u64,
    values: Vec<Option<Number>>,
}

impl Sums {
    fn add(&mut self, other: &Self, measures: &[(usize, bool)]) {
        self.row_count += other.row_count;
        for ((sum, other), &(_, is_max)) in self.values.iter_mut().zip(&other.values).zip(measures)
        {
            if let Some(value) = *other {
                *sum = Some(sum.map_or(value, |sum| sum.with(value, is_max)));
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Number {
    Integer(i128),
    Float(f64),
}

impl Number {
    const fn of(cell: Cell<'_>) -> Option<Self> {
        match cell {
            Cell::Integer(value) => Some(Self::Integer(value)),
            Cell::Float(value) => Some(Self::Float(value)),
            _ => None,
        }
    }

    fn with(self, other: Self, is_max: bool) -> Self {
        match (self, other) {
            (Self::Integer(one), Self::Integer(other)) if is_max => Self::Integer(one.max(other)),
            (Self::Integer(one), Self::Integer(other)) => Self::Integer(one.saturating_add(other)),
            (one, other) if is_max => Self::Float(one.as_f64().max(other.as_f64())),
            (one, other) => Self::Float(one.as_f64() + other.as_f64()),
        }
    }

    #[allow(clippy::cast_precision_loss)]
    const fn as_f64(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    /// As a column of this kind has it; the largest number that there is where it is larger.
    fn value<'a>(self, kind: Kind) -> Value<'a> {
        match (self, kind) {
            (Self::Integer(value), Kind::U64) => {
                Value::U64(u64::try_from(value.max(0)).unwrap_or(u64::MAX))
            }
            (Self::Integer(value), Kind::U32) => {
                Value::U32(u32::try_from(value.max(0)).unwrap_or(u32::MAX))
            }
            (Self::Integer(value), Kind::U16) => {
                Value::U16(u16::try_from(value.max(0)).unwrap_or(u16::MAX))
            }
            (value, Kind::F64) => Value::F64(value.as_f64()),
            _ => Value::Null,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: Schema = &[
        Field::new("dst_port", Kind::U16, ""),
        Field::new("last_ns", Kind::TimestampNs, "").nullable(),
        Field::new("src_bytes", Kind::U64, ""),
    ];

    #[test]
    fn keys_beyond_the_largest_are_together() {
        let mut rows = Columns::new(SCHEMA);
        for at in 0..3_000_u16 {
            let (port, time) = (at % 100, i64::from(at / 1_500) * MINUTE_NS);
            let bytes = Value::U64(u64::from(port) + 1);
            rows.push_row(&[Value::U16(port), Value::TimestampNs(time), bytes]).unwrap();
        }
        rows.push_row(&[Value::U16(1), Value::Null, Value::U64(1)]).unwrap();
        let all = rollups("flows_2", SCHEMA);
        let [rollup] = &all[..] else { panic!("by port alone: {}", all.len()) };
        assert_eq!(rollup.name, "flows_2@1m-dst_port");
        let sums = rollup.sums(&[RowChunk::own(rows)]);
        assert_eq!(sums.row_count(), 2 * 51);
        let of = |column, row| cell(&sums, column, row);
        let total = |column| (0..102).filter_map(|row| of(column, row).number()).sum::<f64>();
        assert_eq!((total(1), total(3)), (3_000.0, 30.0 * 5_050.0));
        assert_eq!((of(2, 0), of(3, 0)), (Cell::Integer(99), Cell::Integer(1_500)));
        assert_eq!((of(2, 50), of(1, 50), of(3, 50)), {
            (Cell::Null, Cell::Integer(750), Cell::Integer(15 * 1_275))
        });
        assert!(rollups("l4s", SCHEMA).is_empty(), "it has no rule");
    }
}
