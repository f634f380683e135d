//! Messages with rows: what they are called and what is in them.

use async_nats::HeaderMap;
use bytes::Bytes;
use engine::columns::Columns;
use sink::{Format, Writer};

use crate::{Options, VERSION};

/// Rows in one message at most.
pub(crate) const ROWS_MAX: usize = 256;

/// Bytes of one message at most, where the broker allows as many; rows of flows fill a quarter.
pub(crate) const LEN_MAX: usize = 256 << 10;

/// Rows on their way.
#[derive(Clone, Debug)]
pub(crate) struct RowMessage {
    pub table: String,
    /// The number of the first row, counted from 0 in this run.
    pub first: u64,
    pub row_count: u64,
    pub payload: Bytes,
}

fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "-_".contains(letter)
}

/// Whether a text is a word of subjects as it is.
#[must_use]
pub fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_plain)
}

/// A word of subjects: what has a meaning there becomes `_`.
pub(crate) fn token(name: &str) -> String {
    let plain = |letter: char| if is_plain(letter) { letter } else { '_' };
    let word: String = name.chars().map(plain).collect();
    if word.is_empty() { String::from("_") } else { word }
}

/// Which rows the stream takes, of every sensor.
pub(crate) fn all_rows(prefix: &str) -> String {
    format!("{prefix}.v{VERSION}.rows.>")
}

/// Where metrics go.
pub(crate) fn metrics_subject(options: &Options) -> String {
    format!("{}.v{VERSION}.metrics.{}", options.prefix, token(&options.sensor))
}

/// The name of the stream.
pub(crate) fn stream_name(prefix: &str) -> String {
    token(prefix).to_ascii_uppercase()
}

impl RowMessage {
    pub(crate) fn subject(&self, options: &Options) -> String {
        let (sensor, table) = (token(&options.sensor), token(&self.table));
        format!("{}.v{VERSION}.rows.{sensor}.{table}", options.prefix)
    }

    /// Its first and its second half, for a stream that takes no message as long as this; itself
    /// where it has one row.
    pub(crate) fn halves(mut self) -> Result<[Self; 2], Self> {
        let row_count = self.row_count / 2;
        let wanted = usize::try_from(row_count).unwrap_or(usize::MAX);
        // A row is a line, as JSON has none of its own.
        let is_end = |&(_, byte): &(usize, &u8)| *byte == b'\n';
        let last = wanted.checked_sub(1).and_then(|before| {
            self.payload.iter().enumerate().filter(is_end).nth(before).map(|(at, _)| at)
        });
        let Some(last) = last else { return Err(self) };
        let payload = self.payload.split_to(last + 1);
        let half = Self { table: self.table.clone(), first: self.first, row_count, payload };
        self.first += row_count;
        self.row_count -= row_count;
        Ok([half, self])
    }

    /// The same for every attempt, so that the broker keeps one: by sensor, run, table and row.
    fn id(&self, options: &Options) -> String {
        let Options { sensor, run, .. } = options;
        format!("{}/{run}/{}/{}", token(sensor), self.table, self.first)
    }

    /// What readers need besides the rows, by name.
    pub(crate) fn headers(&self, options: &Options) -> [(&'static str, String); 7] {
        [
            ("Nats-Msg-Id", self.id(options)),
            ("Wirelens-Version", VERSION.to_string()),
            ("Wirelens-Sensor", options.sensor.clone()),
            ("Wirelens-Run", options.run.clone()),
            ("Wirelens-Table", self.table.clone()),
            ("Wirelens-First-Row", self.first.to_string()),
            ("Wirelens-Rows", self.row_count.to_string()),
        ]
    }
}

/// Headers as they are sent. A line's end in a value would begin another header.
pub(crate) fn header_map(headers: &[(&'static str, String)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, text) in headers {
        map.insert(*name, text.replace(['\r', '\n'], " "));
    }
    map
}

/// Rows as JSON lines, those that `--format jsonl` writes.
pub(crate) fn json_lines(rows: &Columns) -> Option<Vec<u8>> {
    let mut writer = Writer::new(Format::Jsonl, rows.schema(), Vec::new()).ok()?;
    writer.write(rows).ok()?;
    writer.finish().ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use engine::columns::{Field, Kind, Value};

    use super::*;

    const SCHEMA: &[Field] = &[
        Field::new("label", Kind::Text, "What it is."),
        Field::new("first_ns", Kind::TimestampNs, "When."),
    ];

    #[test]
    fn a_message_is_as_specified() {
        let options = Options {
            link: crate::Link::default(),
            prefix: "wirelens".into(),
            sensor: "roof.east 1".into(),
            run: "18a4f0".into(),
            keep: Duration::ZERO,
            keep_bytes: 0,
            metrics_every: Duration::ZERO,
            waits: false,
            realtime_ns: || 0,
            monotonic: || Duration::ZERO,
            tell: |_| {},
        };
        let mut rows = Columns::new(SCHEMA);
        rows.push_row(&[Value::Str("a \"web\"\nsite"), Value::TimestampNs(7)]).unwrap();
        rows.push_row(&[Value::Str("dns"), Value::TimestampNs(8)]).unwrap();
        let payload = json_lines(&rows).unwrap().into();
        let message = RowMessage { table: "classify".into(), first: 512, row_count: 2, payload };
        let headers: Vec<String> = message
            .headers(&options)
            .iter()
            .map(|(name, text)| format!("{name}: {text}"))
            .collect();
        let seen = format!(
            "{}\n{}\n\n{}",
            message.subject(&options),
            headers.join("\n"),
            String::from_utf8_lossy(&message.payload)
        );
        assert_eq!(seen, include_str!("../golden/rows.txt"));
    }

    #[test]
    fn a_message_has_halves_down_to_its_rows() {
        let lines = ["{\"a\":1}\n", "{\"a\":\"\\n\"}\n", "{}\n", "{\"a\":2}\n", "{}\n"];
        let payload = lines.concat().into();
        let whole = RowMessage { table: "flows".into(), first: 7, row_count: 5, payload };
        let (mut waiting, mut single) = (vec![whole], Vec::new());
        while let Some(message) = waiting.pop() {
            match message.halves() {
                Ok([first, second]) => waiting.extend([second, first]),
                Err(one) => single.push(one),
            }
        }
        let numbers: Vec<_> = single.iter().map(|one| (one.first, one.row_count)).collect();
        assert_eq!(numbers, [(7, 1), (8, 1), (9, 1), (10, 1), (11, 1)]);
        assert!(single.iter().zip(lines).all(|(one, line)| one.payload == line.as_bytes()));
    }

    #[test]
    fn headers_cannot_be_forged_by_a_name() {
        let map = header_map(&[("Wirelens-Sensor", String::from("x\r\nNats-Msg-Id: y"))]);
        assert_eq!(map.get("Wirelens-Sensor").unwrap().as_str(), "x  Nats-Msg-Id: y");
        assert_eq!(map.len(), 1);
    }

    #[test]
    fn names_are_words_of_subjects() {
        assert_eq!(token("roof.east *>1"), "roof_east___1");
        assert_eq!(token(""), "_");
        assert_eq!((all_rows("a"), stream_name("a.b")), ("a.v1.rows.>".into(), "A_B".into()));
    }
}
