//! What is reported: an alert, its row in the table `alerts`, and its JSON.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::columns::{Columns, Field, Kind, Schema, Value};
use packet::Timestamp;
use serde_json::{Map, Value as Json};
use store::query::{Cell, cell};

/// Whether an alert begins or ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It is active.
    Firing,
    /// It is no longer.
    Resolved,
}

impl State {
    /// Its name, as in Alertmanager.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Firing => "firing",
            Self::Resolved => "resolved",
        }
    }
}

/// The columns of the table `alerts`.
pub const SCHEMA: Schema = &[
    Field::new(
        "time_ns",
        Kind::TimestampNs,
        "Event time at which it fired or was resolved; empty if the capture has no timestamps.",
    )
    .nullable(),
    Field::new("name", Kind::Text, "Name of the rule or of the list of indicators."),
    Field::new("state", Kind::Text, "`firing` or `resolved`."),
    Field::new("severity", Kind::Text, "Its label `severity`."),
    Field::new("table", Kind::Text, "Table of the row."),
    Field::new("community_id", Kind::Text, "Flow, if the row has one.").nullable(),
    Field::new("host", Kind::Text, "Host or source, if the row has one.").nullable(),
    Field::new("value", Kind::F64, "Value measured by the rule.").nullable(),
    Field::new("text", Kind::Text, "Text of the alert."),
    Field::new("labels", Kind::Text, "Its labels, as JSON."),
    Field::new("first_ns", Kind::TimestampNs, "Event time of the first row that matched.")
        .nullable(),
    Field::new("rows", Kind::U64, "Matching rows so far."),
];

/// An alert that fires or is resolved.
#[derive(Clone, PartialEq, Debug)]
pub struct Alert {
    /// Distinguishes alerts of a run; an alert and its resolution have the same.
    pub id: u64,
    /// Name of the rule or of the list of indicators.
    pub name: Arc<str>,
    /// Whether it begins or ends.
    pub state: State,
    /// Event time when it fired or was resolved.
    pub time: Timestamp,
    /// Event time of the first row that matched.
    pub first: Timestamp,
    /// Event time when it fired.
    pub fired: Timestamp,
    /// Its label `severity`.
    pub severity: Arc<str>,
    /// Table of the row.
    pub table: Arc<str>,
    /// The flow.
    pub community_id: Option<String>,
    /// The host or the source.
    pub host: Option<String>,
    /// The ends of the flow, where the row has them.
    pub flow: Option<Box<AlertFlow>>,
    /// Value measured by the rule.
    pub value: Option<f64>,
    /// What it says: bounded, without control characters.
    pub text: String,
    /// All labels with `alertname`, `severity` and the columns of the key.
    pub labels: BTreeMap<String, String>,
    /// Further texts.
    pub annotations: BTreeMap<String, String>,
    /// Matching rows so far.
    pub rows: u64,
}

/// A flow that an alert is about, as its row has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AlertFlow {
    /// Source and destination.
    pub ips: [String; 2],
    /// Their ports; of ICMP type and code.
    pub ports: [u16; 2],
    /// IP protocol by name, or its number.
    pub protocol: String,
    /// When it began.
    pub first: Timestamp,
}

/// Where rows have the ends of a flow.
#[derive(Clone, Copy)]
pub(crate) struct FlowColumns {
    ips: [usize; 2],
    ports: [usize; 2],
    protocol: usize,
    first: usize,
}

impl FlowColumns {
    /// By the columns of a table, if it has all of them.
    pub(crate) fn find(place: impl Fn(&str) -> Option<usize>) -> Option<Self> {
        Some(Self {
            ips: [place("src_ip")?, place("dst_ip")?],
            ports: [place("src_port")?, place("dst_port")?],
            protocol: place("protocol")?,
            first: place("first_ns")?,
        })
    }

    pub(crate) fn read(&self, rows: &Columns, row: usize) -> Option<Box<AlertFlow>> {
        let text = |place| cell(rows, place, row).text().map(str::to_owned);
        let port = |place| match cell(rows, place, row) {
            Cell::Integer(port) => u16::try_from(port).ok(),
            _ => None,
        };
        let Self { ips: [source, destination], ports: [from, to], protocol, first } = *self;
        let first = cell(rows, first, row).time().map_or(Timestamp::UNKNOWN, Timestamp::from_ns);
        Some(Box::new(AlertFlow {
            ips: [text(source)?, text(destination)?],
            ports: [port(from)?, port(to)?],
            protocol: text(protocol)?,
            first,
        }))
    }
}

/// A number that no alert of this process had before.
pub(crate) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Nothing for a time that is not known.
pub(crate) fn known(time: Timestamp) -> Option<Timestamp> {
    (time != Timestamp::UNKNOWN).then_some(time)
}

fn ns(time: Timestamp) -> Option<i64> {
    known(time).map(Timestamp::as_ns)
}

impl Alert {
    /// The same, resolved.
    pub(crate) fn resolved(&self, time: Timestamp, rows: u64) -> Self {
        Self { state: State::Resolved, time, rows, ..self.clone() }
    }

    /// Appends its row.
    pub(crate) fn push(&self, into: &mut Columns) {
        let time = |time| ns(time).map(Value::TimestampNs).into();
        let labels = self.labels_json();
        let pushed = into.push_row(&[
            time(self.time),
            Value::Str(&self.name),
            Value::Str(self.state.name()),
            Value::Str(&self.severity),
            Value::Str(&self.table),
            self.community_id.as_deref().map(Value::Str).into(),
            self.host.as_deref().map(Value::Str).into(),
            self.value.filter(|value| value.is_finite()).map(Value::F64).into(),
            Value::Str(&self.text),
            Value::Str(&labels),
            time(self.first),
            Value::U64(self.rows),
        ]);
        debug_assert!(pushed.is_ok(), "an alert's row has the columns of its schema");
    }

    /// Its labels as JSON.
    pub(crate) fn labels_json(&self) -> String {
        Json::from(object(&self.labels)).to_string()
    }

    /// Labels and annotations as Alertmanager has them: the text is `summary`.
    pub(crate) fn annotations_json(&self) -> Json {
        let mut all = object(&self.annotations);
        all.entry("summary").or_insert_with(|| self.text.clone().into());
        if let Some(value) = self.value {
            all.entry("value").or_insert_with(|| value.to_string().into());
        }
        if let Some(id) = &self.community_id {
            all.entry("community_id").or_insert_with(|| id.clone().into());
        }
        all.into()
    }

    /// One object, its keys in the order of the table's columns, with labels and annotations as
    /// objects. A time is integer nanoseconds, as in every JSON line of Wirelens.
    #[must_use]
    pub fn json(&self) -> String {
        let pairs: [(&str, Json); 13] = [
            ("time_ns", ns(self.time).into()),
            ("name", (&*self.name).into()),
            ("state", self.state.name().into()),
            ("severity", (&*self.severity).into()),
            ("table", (&*self.table).into()),
            ("community_id", self.community_id.clone().into()),
            ("host", self.host.clone().into()),
            ("value", self.value.into()),
            ("text", self.text.clone().into()),
            ("labels", object(&self.labels).into()),
            ("annotations", object(&self.annotations).into()),
            ("first_ns", ns(self.first).into()),
            ("rows", self.rows.into()),
        ];
        let pairs: Vec<_> = pairs.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        format!("{{{}}}", pairs.join(","))
    }
}

pub(crate) fn object(map: &BTreeMap<String, String>) -> Map<String, Json> {
    map.iter().map(|(name, value)| (name.clone(), Json::from(value.clone()))).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An alert to deliver.
    pub(crate) fn sample(id: u64) -> Alert {
        let labels = [("alertname", "drops"), ("severity", "critical"), ("src_ip", "192.0.2.1")];
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Alert {
            id,
            name: "drops".into(),
            state: State::Firing,
            time: Timestamp::from_ns(1_772_359_200_123_456_789),
            first: Timestamp::from_ns(1_772_359_190_000_000_000),
            fired: Timestamp::from_ns(1_772_359_200_123_456_789),
            severity: "critical".into(),
            table: "traffic".into(),
            community_id: Some("1:abc=".into()),
            host: Some("192.0.2.1".into()),
            flow: None,
            value: Some(0.5),
            text: "quoted \" ] \\ é".into(),
            labels: labels.into(),
            annotations: BTreeMap::new(),
            rows: 3,
        }
    }

    #[test]
    fn an_alert_has_a_row_and_json() {
        let mut rows = Columns::new(SCHEMA);
        let alert = sample(1);
        alert.push(&mut rows);
        Alert { time: Timestamp::UNKNOWN, value: None, ..alert.clone() }.push(&mut rows);
        assert_eq!(rows.row_count(), 2);
        assert!(rows.columns()[0].is_null(1) && !rows.columns()[0].is_null(0));
        let json = alert.json();
        assert!(json.starts_with("{\"time_ns\":1772359200123456789,\"name\":\"drops\","), "{json}");
        let json: Json = serde_json::from_str(&json).unwrap();
        assert_eq!(json["time_ns"], 1_772_359_200_123_456_789_i64);
        assert_eq!(json["labels"]["severity"], "critical");
        assert_eq!(alert.annotations_json()["summary"], "quoted \" ] \\ é");
    }
}
