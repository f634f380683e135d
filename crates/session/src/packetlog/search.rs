//! A log that is searched while it grows.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use packet::{FlowKey, Frame, Timestamp};
use packetlog::log::{EVENTS_NAME, Log, OLD_EVENTS_NAME, PacketMatch, Query};
use serde_json::{Value, json};
use store::packets::{PacketLog, PacketQuery, PacketRow};

use super::desk::Desk;
use super::flow_named;
use crate::copied::CaptureBuffer;

/// Bytes of packets that are handed out in one piece at most.
const COPY_BYTES_MAX: usize = 64 << 20;

/// Events that a status has at most, the latest.
const EVENTS_MAX: usize = 50;

/// Bytes of the file of events that are read.
const EVENT_BYTES_MAX: u64 = 64 << 10;

/// The log of a run.
#[derive(Clone)]
pub struct LogSearch {
    folder: PathBuf,
    recorder: RecorderPlace,
}

/// Where the recorder of a log is found by others of its run, who need no socket for it: a run that
/// is in its jail may open none.
#[derive(Clone, Default)]
pub struct RecorderPlace(Arc<Mutex<Option<Arc<Desk>>>>);

impl RecorderPlace {
    /// Puts the recorder there for as long as what is returned lives.
    pub(super) fn put(&self, desk: Arc<Desk>) -> RecorderGuard {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(desk);
        RecorderGuard(self.clone())
    }

    fn status(&self) -> Option<Value> {
        let desk = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        desk.map(|desk| desk.status())
    }
}

/// A recorder that has not ended.
pub(super) struct RecorderGuard(RecorderPlace);

impl Drop for RecorderGuard {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// What a flow has to look like, for messages.
pub const FLOW_WANTED: &str = "wanted a Community ID as `wirelens flows` reports it, or \
                               tcp,192.0.2.1,50000,198.51.100.2,443";

fn query(asked: &PacketQuery) -> Result<Query, String> {
    let flow = asked
        .flow
        .as_deref()
        .map(|text| flow_named(text).ok_or_else(|| format!("flow {text:?}: {FLOW_WANTED}")));
    Ok(Query {
        hosts: asked.host.into_iter().collect(),
        flow: flow.transpose()?,
        classes: asked.class.iter().cloned().collect(),
        from: asked.from_ns.map(Timestamp::from_ns),
        to: asked.to_ns.map(Timestamp::from_ns),
    })
}

impl LogSearch {
    /// The log in a folder, without its recorder.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, recorder: RecorderPlace::default() }
    }

    /// The same, whose recorder may be in this place.
    pub(super) fn with_recorder(self, recorder: RecorderPlace) -> Self {
        Self { recorder, ..self }
    }

    /// The latest events of the log: when, and what; none where they are kept elsewhere.
    fn events(&self) -> Vec<Value> {
        let text = [OLD_EVENTS_NAME, EVENTS_NAME].map(|name| {
            // A line that a full disk cut off ends where the next file begins.
            last_bytes(&self.folder.join(name)).unwrap_or_default() + "\n"
        });
        let text = text.concat();
        let events = text.lines().filter_map(|line| {
            let Value::Object(mut event) = serde_json::from_str(line).ok()? else { return None };
            let time = event.remove("time_ns")?.to_string();
            let name = event.remove("event")?;
            let more: Vec<_> = event
                .iter()
                .filter(|(_, value)| !value.as_object().is_some_and(serde_json::Map::is_empty))
                .map(|(key, value)| match value.as_str() {
                    Some(text) => format!("{key} {text}"),
                    None => format!("{key} {value}"),
                })
                .collect();
            let text = format!("{}: {}", name.as_str().unwrap_or_default(), more.join(", "));
            Some(json!({"time": time, "text": text}))
        });
        let events: Vec<_> = events.collect();
        events.iter().rev().take(EVENTS_MAX).rev().cloned().collect()
    }

    /// Hands what is found to `take` until that has enough.
    ///
    /// # Errors
    /// Why the log cannot be read, or what is wrong with the question.
    fn each(
        &self,
        asked: &PacketQuery,
        mut take: impl FnMut(&PacketMatch<'_>) -> ControlFlow<()>,
    ) -> Result<(), String> {
        let query = query(asked)?;
        let log = Log::open(&self.folder).map_err(|error| error.to_string())?;
        let plan = log.find(&query);
        let is_over = || asked.cancellation.is_cancelled();
        let read = log.read_until(&query, &plan, &is_over, &mut |found| {
            if is_over() { ControlFlow::Break(()) } else { take(found) }
        });
        read.map(|_| ()).map_err(|error| error.to_string())
    }
}

impl PacketLog for LogSearch {
    fn status(&self) -> Result<String, String> {
        let stats = Log::open(&self.folder).map_err(|error| error.to_string())?.stats();
        let classes: Vec<_> = stats
            .classes
            .iter()
            .map(|class| {
                let sums = &class.sums;
                json!({
                    "class": class.name,
                    "seen_packets": sums.seen_packets,
                    "seen_bytes": sums.seen_bytes,
                    "kept_packets": sums.stored_packets.saturating_add(sums.overwritten_packets),
                    "kept_bytes": sums.kept_bytes,
                    "stored_packets": sums.stored_packets,
                    "lost_packets": sums.lost_packets,
                })
            })
            .collect();
        let total = stats.total();
        // What the recorder would say, where it has ended.
        let written = || {
            let kept = total.stored_packets.saturating_add(total.overwritten_packets);
            let passed_over =
                total.seen_packets.saturating_sub(kept).saturating_sub(total.lost_packets);
            json!({
                "packets": {
                    "seen": total.seen_packets, "kept": kept, "waiting": 0,
                    "passed_over": passed_over, "lost": total.lost_packets,
                },
                "bytes": {
                    "seen": total.seen_bytes,
                    "kept": total.kept_bytes.saturating_add(total.overwritten_bytes),
                },
            })
        };
        let mut status = self.recorder.status().unwrap_or_else(written);
        if let Value::Object(status) = &mut status {
            let folder = self.folder.display().to_string();
            status.insert("folder".into(), folder.into());
            status.entry("mode").or_insert_with(|| "none: the recorder has ended".into());
            status.insert("events".into(), self.events().into());
            status.insert("classes".into(), classes.into());
            status.insert("stored_bytes".into(), stats.bytes.into());
            status.insert("file_count".into(), stats.file_count.into());
        }
        Ok(status.to_string())
    }

    fn rows(&self, asked: &PacketQuery, limit: usize) -> Result<(Vec<PacketRow>, bool), String> {
        let (mut rows, mut is_cut) = (Vec::new(), false);
        self.each(asked, |found| {
            if rows.len() >= limit {
                is_cut = true;
                return ControlFlow::Break(());
            }
            let frame = Frame::new(found.bytes, found.record);
            let ends = FlowKey::from_frame(&frame).map(|(key, direction)| {
                let (source, destination) = key.endpoints(direction);
                let ends = [source, destination].map(|end| (end.address, end.port));
                (ends, key.protocol().to_string())
            });
            rows.push(PacketRow {
                time_ns: found.record.timestamp.as_ns(),
                ends,
                wire_len: found.record.wire_len,
                kept_len: u32::try_from(found.bytes.len()).unwrap_or(u32::MAX),
                class: found.class.to_owned(),
            });
            ControlFlow::Continue(())
        })?;
        Ok((rows, is_cut))
    }

    fn pcapng(&self, asked: &PacketQuery) -> Result<Vec<u8>, String> {
        let mut copied = CaptureBuffer::new();
        let (mut bytes, mut failure) = (Vec::new(), None);
        self.each(asked, |found| {
            let comment = comment(found);
            let interface = (found.record.interface, found.interface);
            let put = copied.frame(interface, found.record, found.bytes, comment.as_deref());
            let written = put
                .map_err(|error| error.to_string())
                .and_then(|()| copied.write(&mut bytes).map_err(|error| error.to_string()));
            let too_large = || {
                String::from(
                    "more than 64 MiB; narrow the search, or use `wirelens packetlog query -w`",
                )
            };
            let is_large = bytes.len() > COPY_BYTES_MAX;
            failure = written.err().or_else(|| is_large.then(too_large));
            if failure.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        match failure {
            Some(failure) => Err(failure),
            None => {
                // Of a log without such packets the head alone is written.
                copied.write(&mut bytes).map_err(|error| error.to_string())?;
                Ok(bytes)
            }
        }
    }
}

/// The end of a file, from the beginning of a line on.
fn last_bytes(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let start = file.metadata()?.len().saturating_sub(EVENT_BYTES_MAX);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(EVENT_BYTES_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let whole = if start == 0 { Some(&*text) } else { text.split_once('\n').map(|(_, rest)| rest) };
    Ok(whole.unwrap_or_default().to_owned())
}

/// What is noted of a packet, for its comment.
#[must_use]
pub fn comment(found: &PacketMatch<'_>) -> Option<String> {
    let is_noted = found.note.class > 0;
    is_noted.then(|| format!("wirelens: {} {:.3}", found.class, found.note.confidence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_events_are_those_of_both_files_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let line = |number: u32| format!("{{\"time_ns\":{number},\"event\":\"any\"}}\n");
        let lines = |numbers: std::ops::Range<u32>| numbers.map(line).collect::<String>();
        // The last line of the older file was cut off by a full disk.
        let old = lines(0..100) + "{\"time_ns\":";
        std::fs::write(folder.path().join("events.jsonl.1"), old).unwrap();
        std::fs::write(folder.path().join("events.jsonl"), lines(100..103)).unwrap();
        let events = LogSearch::new(folder.path().to_owned()).events();
        let times: Vec<_> = events.iter().map(|event| event["time"].as_str().unwrap()).collect();
        let wanted: Vec<_> = (53..103).map(|number| number.to_string()).collect();
        assert_eq!(times, wanted);
    }
}
