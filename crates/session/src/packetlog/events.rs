//! What happened to a recorder, as lines of JSON.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use files::FileMode;
use packetlog::log::OLD_EVENTS_NAME;
use packetlog::manager::{Cause, Decision};
use packetlog::own::{Access, append_own};
use serde_json::{Map, Value, json};

use super::LogError;
use super::Tell;
use crate::clock::Clock;

/// What a log's own file of events is like.
#[derive(Clone, Copy, Debug)]
pub struct OfLog {
    /// Who may read it.
    pub access: Access,
    /// Bytes with which it is full. It is then kept under another name while the next one fills,
    /// in place of the one before.
    pub len_max: u64,
}

/// Where events go: to a file, and to standard error if a user watches.
pub struct Events {
    path: PathBuf,
    of_log: Option<OfLog>,
    file: File,
    clock: Clock,
    /// Prints for users, if one watches.
    tell: Option<Tell>,
    /// Events that could not be written.
    lost: u64,
    /// Events that were deleted with the file before the last one.
    deleted: u64,
    /// Why, the first time.
    refusal: Option<io::Error>,
    /// The last line was cut off by a full disk.
    is_torn: bool,
}

fn open(path: &Path, of_log: Option<OfLog>) -> io::Result<File> {
    match of_log {
        Some(OfLog { access, .. }) => append_own(path, access),
        None => files::append(path, FileMode::asked()),
    }
}

impl Events {
    /// Adds to a file.
    /// One in a log's folder is for those who may read the log; one that a user names may be a pipe
    /// or device as well, and is never deleted. Neither is reached by a link.
    pub fn append(
        path: &Path,
        of_log: Option<OfLog>,
        clock: Clock,
        tell: Option<Tell>,
    ) -> Result<Self, LogError> {
        let file = open(path, of_log).map_err(|error| refused(path, &error))?;
        let is_torn = files::ends_torn(path, &file);
        let path = path.to_owned();
        let (lost, deleted, refusal) = (0, 0, None);
        Ok(Self { path, of_log, file, clock, tell, lost, deleted, refusal, is_torn })
    }

    /// Events that could not be written.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Events that were deleted, as their file was full a second time.
    pub const fn deleted(&self) -> u64 {
        self.deleted
    }

    /// An error where events could not be written.
    pub fn complete(&self) -> Result<(), LogError> {
        let Some(refusal) = &self.refusal else { return Ok(()) };
        let (path, lost) = (self.path.display(), self.lost);
        Err(LogError::error(format_args!(
            "{path}: {lost} events could not be written ({refusal}); free some space, or name a \
             file on another disk with --events"
        )))
    }

    /// What the manager decided, and what else is to be known of it.
    pub fn decision(&mut self, decision: &Decision, more: Value) {
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
    pub fn put(&mut self, kind: &str, fields: Value) {
        let event = self.event(kind, fields);
        if let Some(tell) = self.tell {
            tell(&sentence(kind, &event));
        }
        // One write a line: lines of two recorders in one file stay whole. A disk that is full is
        // what is told of here; the recorder goes on.
        let line = format!("{}\n", Value::Object(event));
        if let Err(error) = self.write(line) {
            self.lost += 1;
            self.refusal.get_or_insert(error);
        }
    }

    fn event(&self, kind: &str, fields: Value) -> Map<String, Value> {
        let mut event = Map::new();
        event.insert("time_ns".into(), realtime_ns(self.clock).into());
        event.insert("event".into(), kind.into());
        if let Value::Object(fields) = fields {
            event.extend(fields);
        }
        event
    }

    fn write(&mut self, line: String) -> io::Result<()> {
        let found = self.file.metadata()?;
        let len = found.len().saturating_add(line.len() as u64);
        // A file that was removed would take events and keep none of them.
        if found.nlink() == 0 {
            self.open_again()?;
        } else if self.of_log.is_some_and(|of_log| len > of_log.len_max) && found.len() > 0 {
            self.rotate()?;
        }
        self.append_line(line)
    }

    fn open_again(&mut self) -> io::Result<()> {
        self.file = open(&self.path, self.of_log)?;
        self.is_torn = false;
        Ok(())
    }

    /// Keeps the file under another name, and begins it again with how many events that deleted.
    fn rotate(&mut self) -> io::Result<()> {
        let old = self.path.with_file_name(OLD_EVENTS_NAME);
        let lines = files::open(&old).map(|old| BufReader::new(old).split(b'\n').count());
        match std::fs::rename(&self.path, &old) {
            // It could not be begun again the last time.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            renamed => {
                renamed?;
                self.deleted = self.deleted.saturating_add(lines.unwrap_or(0) as u64);
            }
        }
        self.open_again()?;
        let event = self.event("rotate", json!({"events_deleted": self.deleted}));
        self.append_line(format!("{}\n", Value::Object(event)))
    }

    fn append_line(&mut self, mut line: String) -> io::Result<()> {
        if self.is_torn {
            line.insert(0, '\n');
        }
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            match self.file.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(len) => {
                    rest = rest.get(len..).unwrap_or_default();
                    self.is_torn = !rest.is_empty();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn refused(path: &Path, error: &io::Error) -> LogError {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "create its folder first (mkdir -p)",
        _ => "name a file that you may write to with --events",
    };
    LogError::error(format_args!("{}: {error}; {hint}", path.display()))
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
            format!("resource pressure: {resource} {seen} (limit {limit}){why}")
        }
        "recovered" => format!("{} has recovered: {}", of("resource"), of("seen")),
        "mode" => format!("mode {} instead of {}: {}", of("to"), of("from"), of("cause")),
        "overwrite" if of("begins") == "true" => "low-priority data is overwritten".to_owned(),
        "overwrite" => "low-priority data is no longer overwritten".to_owned(),
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
fn realtime_ns(clock: Clock) -> u64 {
    u64::try_from((clock.realtime)().as_ns()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use packetlog::manager::Shortage;

    use super::*;

    #[allow(clippy::disallowed_methods)]
    const CLOCK: Clock = Clock {
        now: Instant::now,
        realtime: || packet::Timestamp::from_ns(1),
        monotonic: || Duration::ZERO,
    };

    #[test]
    fn each_decision_is_a_line_with_its_cause() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let of_log = OfLog { access: Access::Owner, len_max: 1 << 20 };
        let mut events = Events::append(&path, Some(of_log), CLOCK, None).unwrap();
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
        assert_eq!(
            sentence("shortage", &loss),
            "resource pressure: log_loss 7 (limit 1): x: read-only"
        );
        assert!(lines[1]["time_ns"].as_u64().unwrap() > 0);
    }

    /// The numbers of the events in a file, except those that say that it was begun again.
    fn numbers(path: &Path) -> Vec<u64> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter_map(|event| event["number"].as_u64()).collect()
    }

    #[test]
    fn a_logs_own_file_is_begun_again_when_it_is_full_and_what_that_deletes_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) =
            (folder.path().join("events.jsonl"), folder.path().join("events.jsonl.1"));
        let of_log = OfLog { access: Access::Owner, len_max: 4096 };
        let (mut deleted, mut rotations) = (0, 0);
        for run in 0..4 {
            let mut events = Events::append(&path, Some(of_log), CLOCK, None).unwrap();
            for number in run * 100..(run + 1) * 100 {
                events.put("any", json!({"number": number}));
                let both = [&path, &old].map(|path| path.metadata().map_or(0, |file| file.len()));
                assert!(both.iter().all(|len| *len <= 4096), "{both:?}");
            }
            assert_eq!(events.lost(), 0);
            deleted += events.deleted();
            rotations += u64::from(events.deleted() > 0);
            let there = [numbers(&old), numbers(&path)].concat();
            let newest: Vec<u64> = (0..(run + 1) * 100).collect();
            assert!(newest.ends_with(&there) && there.len() > 50, "{there:?}");
        }
        assert!(deleted > 200 && rotations > 1, "{deleted} {rotations}");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("{\"event\":\"rotate\",\"events_deleted\":"), "{text}");
        // One that a user named grows as any log of theirs.
        let named = folder.path().join("named");
        let mut events = Events::append(&named, None, CLOCK, None).unwrap();
        (0..400).for_each(|number| events.put("any", json!({"number": number})));
        assert_eq!((numbers(&named).len(), events.deleted()), (400, 0));
    }

    #[test]
    fn a_file_that_cannot_be_begun_again_loses_events_by_count_and_does_not_grow() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        std::fs::create_dir(folder.path().join("events.jsonl.1")).unwrap();
        let of_log = OfLog { access: Access::Owner, len_max: 4096 };
        let mut events = Events::append(&path, Some(of_log), CLOCK, None).unwrap();
        (0..400).for_each(|number| events.put("any", json!({"number": number})));
        assert!(path.metadata().unwrap().len() <= 4096);
        assert_eq!(numbers(&path).len() as u64 + events.lost(), 400);
        assert!(events.lost() > 0 && events.complete().is_err());
        std::fs::remove_dir(folder.path().join("events.jsonl.1")).unwrap();
        events.put("any", json!({"number": 400}));
        assert_eq!(numbers(&path), [400]);
    }
}
