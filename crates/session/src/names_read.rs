//! Names that packets carry, on their way to people: as text, pseudonyms and counts.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use names::counts::Counts;
use names::found::FlowInfo;
use names::pseudonym::{KEY_LEN_MIN, Pseudonyms};
use store::Count;

use crate::application::Refusal;
use crate::reading::Needs;

/// All of a packet's payload.
pub(crate) const fn needs(stage: &'static str) -> Needs {
    Needs { stage, len: Needs::TRANSPORT_LEN, takes_all: true }
}

/// Reads the key of pseudonyms.
///
/// # Errors
/// [`Refusal`]: a file that cannot be read, or that holds too short a key.
pub(crate) fn read_key(path: &Path) -> Result<Arc<Pseudonyms>, Refusal> {
    let refused = |why: &dyn std::fmt::Display| {
        Refusal::of("hash-names", format_args!("{}: {why}", path.display()))
    };
    let key = std::fs::read(path).map_err(|error| refused(&error))?;
    let pseudonyms = Pseudonyms::new(&key).map_err(|len| {
        refused(&format_args!(
            "a key of {len} bytes; wanted {KEY_LEN_MIN} or more, such as those of \
             `head -c 32 /dev/urandom`"
        ))
    })?;
    Ok(Arc::new(pseudonyms))
}

/// Names as they are written: themselves, or their pseudonyms.
#[derive(Clone, Debug, Default)]
pub(crate) struct Text(Option<Arc<Pseudonyms>>);

impl Text {
    pub(crate) const fn new(pseudonyms: Option<Arc<Pseudonyms>>) -> Self {
        Self(pseudonyms)
    }

    /// A name as it is written.
    pub(crate) fn of(&self, name: Option<&str>) -> Option<String> {
        let name = name?;
        Some(self.0.as_ref().map_or_else(|| name.to_owned(), |pseudonyms| pseudonyms.of(name)))
    }

    /// What a table shows of a flow: its name, else its protocol.
    pub(crate) fn shown(&self, seen: &FlowInfo) -> String {
        let name = self.of(seen.found.as_ref().and_then(|found| found.name()));
        name.unwrap_or_else(|| seen.protocol.map_or("", |protocol| protocol.name()).to_owned())
    }
}

/// What was counted, by name.
pub(crate) fn counts(counts: &Counts) -> [(&'static str, u64); 8] {
    [
        ("tls_hellos", counts.hellos),
        ("quic_hellos", counts.quic_hellos),
        ("http_requests", counts.requests),
        ("dns_queries", counts.queries),
        ("dns_responses", counts.responses),
        ("name_faults", counts.faults().map(|(_, count)| count).sum()),
        ("handshakes_evicted", counts.evicted),
        ("names_dropped", counts.names_dropped),
    ]
}

/// The same while a run goes on.
pub(crate) fn shown(counted: &Counts) -> [Count; 8] {
    let about = "Names found in payload, and reasons for those not read.";
    counts(counted).map(|(name, value)| Count::total(name, about, value))
}

/// What a summary reports of names.
pub(crate) fn lines(counts: &Counts) -> String {
    let Counts { hellos, quic_hellos, requests, queries, responses, .. } = counts;
    let mut lines = format!(
        "names: read from {hellos} TLS hellos, {quic_hellos} QUIC hellos, {requests} HTTP \
         requests, {queries} DNS queries and {responses} responses\n"
    );
    let faults: Vec<_> = counts.faults().map(|(name, count)| format!("{count} {name}")).collect();
    if !faults.is_empty() {
        let _ = writeln!(lines, "names: not read = {}", faults.join(" + "));
    }
    for (count, what) in [
        (counts.evicted, "fragmented handshakes were evicted for others"),
        (counts.answers_forgotten, "DNS answers were evicted before their TTL expired"),
        (counts.names_dropped, "names were dropped to bound memory"),
    ] {
        if count > 0 {
            let _ = writeln!(lines, "names: {count} {what}");
        }
    }
    lines
}
