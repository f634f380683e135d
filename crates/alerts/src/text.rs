//! Texts of alerts: templates with columns, and values of packets made harmless.
//!
//! Names and labels come from the traffic, so a sender of packets writes part of an alert.
//! Control characters, and marks that turn the direction of writing, are escaped here once, and
//! lengths are bounded; each destination escapes for its format on top of that.

use std::fmt::Write as _;

use engine::columns::{Columns, Kind, Schema};
use store::query::{Cell, cell};

/// Bytes of one value in a text or label.
pub(crate) const VALUE_LEN_MAX: usize = 256;

/// Bytes of a whole text.
pub(crate) const TEXT_LEN_MAX: usize = 1024;

/// Between the values of a key. No value has it, as it is a control character.
const SEPARATOR: char = '\u{1f}';

/// Appends text without what acts on a terminal or hides something, so many bytes at most.
pub(crate) fn push_clean(into: &mut String, text: &str, len_max: usize) {
    let end = into.len() + len_max;
    for c in text.chars() {
        let is_hidden = matches!(
            c,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
        );
        let len_before = into.len();
        if c.is_control() || is_hidden {
            // Writing to a string cannot fail.
            let _ = write!(into, "\\u{{{:x}}}", u32::from(c));
        } else {
            into.push(c);
        }
        if into.len() > end {
            into.truncate(len_before);
            into.push('…');
            return;
        }
    }
}

/// A number as people read it.
fn push_float(into: &mut String, value: f64) {
    let _ = if value.fract() == 0.0 && value.abs() < 9e15 {
        write!(into, "{value:.0}")
    } else if value.abs() >= 1e-3 && value.abs() < 9e15 {
        let text = format!("{value:.4}");
        write!(into, "{}", text.trim_end_matches('0').trim_end_matches('.'))
    } else {
        write!(into, "{value:e}")
    };
}

/// A value as it is in labels and keys; nothing where it is missing.
pub(crate) fn push_value(into: &mut String, cell: Cell<'_>) {
    let _ = match cell {
        Cell::Null => Ok(()),
        Cell::Integer(value) => write!(into, "{value}"),
        Cell::Float(value) => {
            push_float(into, value);
            Ok(())
        }
        Cell::Time(ns) => write!(into, "{}", packet::Timestamp::from_ns(ns)),
        Cell::Text(text) => {
            push_clean(into, text, VALUE_LEN_MAX);
            Ok(())
        }
        Cell::Bytes(bytes) => bytes.iter().take(64).try_for_each(|byte| write!(into, "{byte:02x}")),
    };
}

/// A value as a text of its own; none where it is missing.
pub(crate) fn value(cell: Cell<'_>) -> Option<String> {
    let mut text = String::new();
    push_value(&mut text, cell);
    (cell != Cell::Null).then_some(text)
}

/// The values of some columns as one text. Different values give different texts.
pub(crate) fn key(columns: &Columns, row: usize, places: &[usize]) -> String {
    let mut key = String::new();
    for &place in places {
        push_value(&mut key, cell(columns, place, row));
        key.push(SEPARATOR);
    }
    key
}

/// A text with placeholders, bound to the columns of a table.
#[derive(Clone, Debug)]
pub(crate) struct Template(Vec<Piece>);

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Column {
        place: usize,
        is_ns: bool,
    },
    /// Value measured by the rule.
    Value,
}

impl Template {
    /// Reads `{column}`, `{value}`, and `{{` or `}}` for braces.
    ///
    /// # Errors
    /// The placeholder that is wrong, and which there are.
    pub(crate) fn new(text: &str, schema: Schema) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            plain.push_str(before);
            if from.starts_with("{{") || from.starts_with("}}") {
                plain.extend(from.chars().next());
                rest = from.get(2..).unwrap_or_default();
                continue;
            }
            let end = from.find('}').filter(|&end| end > 0);
            let end = end.ok_or_else(|| format!("{text:?}: a brace alone; wanted: {{column}}"))?;
            let name = from.get(1..end).unwrap_or_default();
            pieces.push(Piece::Text(std::mem::take(&mut plain)));
            pieces.push(placeholder(name, schema)?);
            rest = from.get(end + 1..).unwrap_or_default();
        }
        plain.push_str(rest);
        pieces.push(Piece::Text(plain));
        Ok(Self(pieces))
    }

    /// The text for a row.
    pub(crate) fn render(&self, columns: &Columns, row: usize, value: Option<f64>) -> String {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::Value => match value {
                    Some(value) => push_float(&mut text, value),
                    None => text.push('-'),
                },
                Piece::Column { place, is_ns } => match cell(columns, *place, row) {
                    Cell::Null => text.push('-'),
                    Cell::Integer(ns) if *is_ns => push_ns(&mut text, ns),
                    cell => push_value(&mut text, cell),
                },
            }
        }
        let mut cut = String::new();
        push_clean(&mut cut, &text, TEXT_LEN_MAX);
        cut
    }
}

fn placeholder(name: &str, schema: Schema) -> Result<Piece, String> {
    let found = (0..).zip(schema).find(|(_, field)| field.name == name);
    match found {
        Some((place, field)) => {
            let is_ns = field.name.ends_with("_ns") && field.kind != Kind::TimestampNs;
            Ok(Piece::Column { place, is_ns })
        }
        None if name == "value" => Ok(Piece::Value),
        None => {
            let names: Vec<_> = schema.iter().map(|field| field.name).collect();
            Err(format!("{{{name}}} is not a column; the table has: {}", names.join(", ")))
        }
    }
}

/// A length of time with its unit.
#[allow(clippy::cast_precision_loss)]
fn push_ns(into: &mut String, ns: i128) {
    let value = ns as f64;
    let (value, unit) = match ns.unsigned_abs() {
        0..1_000 => (value, "ns"),
        1_000..1_000_000 => (value / 1e3, "us"),
        1_000_000..1_000_000_000 => (value / 1e6, "ms"),
        _ => (value / 1e9, "s"),
    };
    let text = format!("{value:.2}");
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    let _ = write!(into, "{text} {unit}");
}

#[cfg(test)]
mod tests {
    use engine::columns::{Field, Value};

    use super::*;

    const SCHEMA: Schema = &[
        Field::new("src_ip", Kind::Text, ""),
        Field::new("rtt_ns", Kind::U64, "").nullable(),
        Field::new("share", Kind::F64, ""),
    ];

    fn rows(text: &str, ns: Option<u64>, share: f64) -> Columns {
        let mut rows = Columns::new(SCHEMA);
        rows.push_row(&[Value::Str(text), ns.map(Value::U64).into(), Value::F64(share)]).unwrap();
        rows
    }

    #[test]
    fn placeholders_become_values() {
        let template = Template::new("{src_ip}: {rtt_ns}, {{{share}}} {value}", SCHEMA).unwrap();
        let told = template.render(&rows("10.0.0.1", Some(153_400_000), 0.25), 0, Some(1e9));
        assert_eq!(told, "10.0.0.1: 153.4 ms, {0.25} 1000000000");
        let told = template.render(&rows("a", None, 3.0), 0, None);
        assert_eq!(told, "a: -, {3} -");
        for (bad, wanted) in [("{dst}", "src_ip"), ("{", "brace"), ("a } b", "brace")] {
            assert!(Template::new(bad, SCHEMA).unwrap_err().contains(wanted), "{bad}");
        }
    }

    #[test]
    fn hostile_text_is_escaped_and_cut() {
        let template = Template::new("{src_ip}", SCHEMA).unwrap();
        let told = template.render(&rows("a\n<\u{1b}[31m\u{202e}\0é", None, 0.0), 0, None);
        assert_eq!(told, "a\\u{a}<\\u{1b}[31m\\u{202e}\\u{0}é");
        let long = template.render(&rows(&"é".repeat(9_999), None, 0.0), 0, None);
        assert!(long.len() <= VALUE_LEN_MAX + 3 && long.ends_with('…'), "{}", long.len());
        let many = Template::new(&"{src_ip}".repeat(99), SCHEMA).unwrap();
        assert!(many.render(&rows(&"\n".repeat(99), None, 0.0), 0, None).len() <= TEXT_LEN_MAX + 3);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_template_or_refused(text in "[{}a-z_é ]{0,12}") {
            if let Ok(template) = Template::new(&text, SCHEMA) {
                template.render(&rows("a", Some(1), 0.5), 0, None);
            }
        }

        #[test]
        fn clean_text_has_nothing_that_acts(text in proptest::prelude::any::<String>()) {
            let mut cleaned = String::new();
            push_clean(&mut cleaned, &text, 40);
            let acts = |c: char| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c);
            proptest::prop_assert!(!cleaned.chars().any(acts));
            proptest::prop_assert!(cleaned.len() <= 43);
        }
    }

    #[test]
    fn keys_of_different_values_differ() {
        let one = key(&rows("a\u{1f}", None, 1.0), 0, &[0, 1]);
        let other = key(&rows("a", None, 1.0), 0, &[0, 1]);
        assert_ne!(one, other);
        assert_eq!(value(Cell::Null), None);
        assert_eq!(value(Cell::Integer(3)).as_deref(), Some("3"));
    }
}
