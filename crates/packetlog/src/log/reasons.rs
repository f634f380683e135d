//! Why packets were marked, as the files next to those of the log say it.

use std::io::Read as _;

use packet::community_id::community_digest;
use packet::{FlowKey, Protocol, Span};

use super::Log;
use super::error::LogFault;
use super::file::LogFile;
use super::query::{FlowQuery, Query};
use crate::index::{ChunkFault, WHY_SUFFIX};
use crate::own::open_own;
use crate::reasons::{Ends, Evidence, Reader, Reason, WHY_LEN_MAX, words};

/// A column that decided, with its name.
#[derive(Clone, PartialEq, Debug)]
pub struct StoredEvidence {
    /// The column.
    pub name: String,
    /// Its value, and the threshold that this passed.
    pub evidence: Evidence,
}

impl StoredEvidence {
    /// In words.
    #[must_use]
    pub fn words(&self) -> String {
        words(&self.name, &self.evidence)
    }
}

/// A reason with names in place of numbers.
#[derive(Clone, PartialEq, Debug)]
pub struct StoredReason {
    /// As it was made.
    pub reason: Reason,
    /// The name of its class.
    pub class: String,
    /// The columns that decided, the strongest first.
    pub evidence: Vec<StoredEvidence>,
    /// What sums of flows and hosts cover; nothing where they have no end.
    pub window: Option<Span>,
}

impl Reason {
    /// The flow, where its packet has one.
    #[must_use]
    pub fn flow(&self) -> Option<FlowKey> {
        let Ends { source, destination, source_port, destination_port, protocol } = self.ends?;
        let protocol: Protocol = protocol?;
        let found =
            FlowKey::from_tuple(source, destination, source_port, destination_port, protocol);
        Some(found.0)
    }

    fn is_asked_for(&self, query: &Query) -> bool {
        let is_timely = query.from.is_none_or(|from| self.time >= from)
            && query.to.is_none_or(|to| self.time < to);
        let of_host = |ends: Ends| {
            query.hosts.contains(&ends.source) || query.hosts.contains(&ends.destination)
        };
        let of_flow = |flow: FlowKey| match &query.flow {
            None => true,
            Some(FlowQuery::Key(key)) => *key == flow,
            Some(FlowQuery::CommunityId(digest)) => community_digest(&flow, 0) == *digest,
        };
        is_timely
            && (query.hosts.is_empty() || self.ends.is_some_and(of_host))
            && (query.flow.is_none() || self.flow().is_some_and(of_flow))
    }
}

/// What was read of reasons.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReasonsReport {
    /// Files with reasons.
    pub file_count: u64,
    /// What of them is damaged.
    pub faults: Vec<LogFault>,
}

impl Log {
    /// Hands over the reasons that are asked for, file by file.
    pub fn reasons(&self, query: &Query, mut each: impl FnMut(StoredReason)) -> ReasonsReport {
        let mut report = ReasonsReport::default();
        let mut bytes = Vec::new();
        for file in &self.files {
            let path = file.name.path(&self.folder, WHY_SUFFIX);
            let Ok(opened) = open_own(&path) else { continue };
            bytes.clear();
            if opened.take(WHY_LEN_MAX).read_to_end(&mut bytes).is_err() {
                continue;
            }
            report.file_count += 1;
            let mut reader = Reader::new(&bytes);
            while let Some(reason) = reader.next() {
                if reason.is_asked_for(query) {
                    let stored = stored(reason, file, &reader);
                    if query.classes.is_empty() || query.classes.contains(&stored.class) {
                        each(stored);
                    }
                }
            }
            if reader.damaged > 0 {
                let fault = ChunkFault::Reasons { places: reader.damaged };
                report.faults.push(LogFault { path, offset: 0, len: 0, fault });
            }
        }
        report
    }
}

fn stored(reason: Reason, file: &LogFile, reader: &Reader<'_>) -> StoredReason {
    let evidence = reason.evidence.iter().flatten().map(|evidence| StoredEvidence {
        name: reader.names.of(evidence.column).to_owned(),
        evidence: *evidence,
    });
    StoredReason {
        class: file.class_name(reason.class).to_owned(),
        evidence: evidence.collect(),
        window: reader.names.window,
        reason,
    }
}
