//! What was done to a queue and why, as lines of JSON.

use std::collections::VecDeque;
use std::io::Write;

use packet::Timestamp;
use serde_json::{Map, Value};

use super::ActError;

/// Events that a view shows.
const RECENT_COUNT: usize = 4;

/// Where events go.
pub(super) struct Events {
    /// Nowhere, where a person looks at the latest alone.
    out: Option<Box<dyn Write + Send>>,
    is_dry: bool,
    recent: VecDeque<String>,
}

impl Events {
    pub(super) const fn new(out: Option<Box<dyn Write + Send>>, is_dry: bool) -> Self {
        Self { out, is_dry, recent: VecDeque::new() }
    }

    /// Tells of one.
    pub(super) fn put(
        &mut self,
        time: Timestamp,
        event: &str,
        cause: &str,
        fields: Value,
    ) -> Result<(), ActError> {
        let mut line = Map::new();
        line.insert("time_ns".into(), time.as_ns().into());
        line.insert("event".into(), event.into());
        line.insert("cause".into(), cause.into());
        if self.is_dry {
            line.insert("dry_run".into(), true.into());
        }
        if let Value::Object(fields) = fields {
            line.extend(fields);
        }
        if self.recent.len() == RECENT_COUNT {
            self.recent.pop_front();
        }
        self.recent.push_back(sentence(event, cause, &line));
        let line = format!("{}\n", Value::Object(line));
        match &mut self.out {
            Some(out) => out.write_all(line.as_bytes()).map_err(ActError::Events),
            None => Ok(()),
        }
    }

    /// The latest since the last time, for people.
    pub(super) fn take_recent(&mut self) -> impl Iterator<Item = String> {
        self.recent.drain(..)
    }
}

fn sentence(event: &str, cause: &str, line: &Map<String, Value>) -> String {
    let of = |name: &str| line.get(name).and_then(Value::as_str).unwrap_or_default();
    match event {
        "move" => format!("{}: {} instead of {}: {cause}", of("flow"), of("to"), of("from")),
        "leave" => format!("{}: leaves {}: {cause}", of("flow"), of("from")),
        _ => format!("{event}: {cause}"),
    }
}
