//! What happened to a recorder, as lines of JSON.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use packetlog::manager::{Cause, Decision};
use packetlog::own::{Access, append_own};
use serde_json::{Map, Value, json};

use crate::failure::Failure;

/// Where events go: to a file, and to standard error where somebody watches.
pub(crate) struct Events {
    file: File,
    is_told: bool,
    /// Events that could not be written.
    lost: u64,
}

impl Events {
    /// Adds to a file.
    /// One in a log's folder, for whoever may read the log, is never reached by a link; one that a
    /// user names may be whatever that name is.
    pub(crate) fn append(
        path: &Path,
        of_log: Option<Access>,
        is_told: bool,
    ) -> Result<Self, Failure> {
        let file = match of_log {
            Some(access) => append_own(path, access),
            None => OpenOptions::new().create(true).append(true).open(path),
        };
        let file =
            file.map_err(|error| Failure::error(format_args!("{}: {error}", path.display())))?;
        Ok(Self { file, is_told, lost: 0 })
    }

    /// Events that could not be written.
    pub(crate) const fn lost(&self) -> u64 {
        self.lost
    }

    /// What the manager decided, and what else is to be known of it.
    pub(crate) fn decision(&mut self, decision: &Decision, more: Value) {
        let (kind, mut fields) = match decision {
            Decision::Warn { cause: Cause::Shortage(of), seen, limit } => {
                ("shortage", json!({"resource": of.name(), "seen": seen, "limit": limit}))
            }
            Decision::Warn { cause: Cause::Recovered(of), seen, limit } => {
                ("recovered", json!({"resource": of.name(), "seen": seen, "limit": limit}))
            }
            Decision::Warn { cause: Cause::Operator, .. } => return,
            Decision::Switch { cause, from, to } => {
                ("mode", json!({"from": from, "to": to, "cause": cause_name(*cause)}))
            }
            Decision::Overwrite { begins } => ("overwrite", json!({"begins": begins})),
        };
        if let (Value::Object(more), Value::Object(fields)) = (more, &mut fields) {
            fields.extend(more);
        }
        self.put(kind, fields);
    }

    /// Any other event.
    pub(crate) fn put(&mut self, kind: &str, fields: Value) {
        let mut event = Map::new();
        event.insert("time_ns".into(), realtime_ns().into());
        event.insert("event".into(), kind.into());
        if let Value::Object(fields) = fields {
            event.extend(fields);
        }
        if self.is_told {
            eprintln!("wirelens: {}", sentence(kind, &event));
        }
        // One write a line: lines of two recorders in one file stay whole. A disk that is full is
        // what is told of here; the recorder goes on.
        let line = format!("{}\n", Value::Object(event));
        if self.file.write_all(line.as_bytes()).is_err() {
            self.lost += 1;
        }
    }
}

fn cause_name(cause: Cause) -> String {
    match cause {
        Cause::Operator => String::from("operator"),
        Cause::Shortage(of) => format!("{of}"),
        Cause::Recovered(of) => format!("{of} recovered"),
    }
}

/// The same for people.
fn sentence(kind: &str, event: &Map<String, Value>) -> String {
    let of = |name: &str| match event.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    match kind {
        "shortage" => {
            let (resource, seen, limit) = (of("resource"), of("seen"), of("limit"));
            let why = event.get("error").map(|_| format!(": {}", of("error"))).unwrap_or_default();
            format!("{resource} runs short: {seen} (limit {limit}){why}")
        }
        "recovered" => format!("{} has recovered: {}", of("resource"), of("seen")),
        "mode" => format!("mode {} instead of {}: {}", of("to"), of("from"), of("cause")),
        "overwrite" if of("begins") == "true" => "unimportant data is overwritten".to_owned(),
        "overwrite" => "unimportant data is no longer overwritten".to_owned(),
        _ => {
            let rest: Vec<_> = event
                .iter()
                .filter(|(name, _)| !matches!(name.as_str(), "time_ns" | "event"))
                .map(|(name, _)| format!("{name} {}", of(name)))
                .collect();
            format!("{kind}: {}", rest.join(", "))
        }
    }
}

/// Wall-clock time, for who reads events beside other logs.
#[allow(clippy::disallowed_methods)]
pub(crate) fn realtime_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use packetlog::manager::Shortage;

    use super::*;

    #[test]
    fn each_decision_is_a_line_with_its_cause() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut events = Events::append(&path, Some(Access::Owner), false).unwrap();
        let cause = Cause::Shortage(Shortage::Queue);
        events.decision(&Decision::Warn { cause, seen: 0.9, limit: 0.75 }, Value::Null);
        let (from, to) = ("default".to_owned(), "log-sampled".to_owned());
        let more = json!({"generation": 2, "took_us": 5});
        events.decision(&Decision::Switch { cause, from, to }, more);
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["event"], "shortage");
        assert_eq!(lines[0]["resource"], "queue");
        assert_eq!((&lines[1]["to"], &lines[1]["cause"]), (&json!("log-sampled"), &json!("queue")));
        assert_eq!((&lines[1]["generation"], &lines[1]["took_us"]), (&json!(2), &json!(5)));
        let loss = json!({"resource": "log_loss", "seen": 7, "limit": 1, "error": "x: read-only"});
        let Value::Object(loss) = loss else { unreachable!() };
        assert_eq!(sentence("shortage", &loss), "log_loss runs short: 7 (limit 1): x: read-only");
        assert!(lines[1]["time_ns"].as_u64().unwrap() > 0);
    }
}
