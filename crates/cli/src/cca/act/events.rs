//! What was done to a queue and why, as lines of JSON.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;

use packet::Timestamp;
use serde_json::{Map, Value};

use crate::failure::Failure;

/// Events that a view shows.
const RECENT_COUNT: usize = 4;

/// Where events go.
pub(super) struct Events {
    file: Option<File>,
    is_told: bool,
    is_dry: bool,
    recent: VecDeque<String>,
}

impl Events {
    /// To a file, or to standard error; but not over a view that a person looks at.
    pub(super) fn open(path: Option<&Path>, has_view: bool, is_dry: bool) -> Result<Self, Failure> {
        let open = |path: &Path| {
            let file = OpenOptions::new().create(true).append(true).open(path);
            file.map_err(|error| Failure::error(format_args!("{}: {error}", path.display())))
        };
        let file = path.map(open).transpose()?;
        let is_told = file.is_none() && !(has_view && std::io::stderr().is_terminal());
        Ok(Self { file, is_told, is_dry, recent: VecDeque::new() })
    }

    /// Tells of one.
    pub(super) fn put(
        &mut self,
        time: Timestamp,
        event: &str,
        cause: &str,
        fields: Value,
    ) -> Result<(), Failure> {
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
        match &mut self.file {
            Some(file) => file
                .write_all(line.as_bytes())
                .map_err(|error| Failure::error(format_args!("--act-events: {error}"))),
            None if self.is_told => {
                // Where nobody hears there is nobody to tell that.
                let _ = std::io::stderr().lock().write_all(line.as_bytes());
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The latest, for people.
    pub(super) fn recent(&self) -> impl Iterator<Item = &str> {
        self.recent.iter().map(String::as_str)
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
