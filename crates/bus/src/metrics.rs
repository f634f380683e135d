//! Counts of a run as a message.

use serde_json::{Map, Value as Json, json};
use store::{CountKind, Store};

use crate::{Options, VERSION};

/// All counts, as JSON.
pub(crate) fn message(options: &Options, store: &Store, number: u64) -> Vec<u8> {
    let mut counts = Vec::new();
    for (application, of_application) in store.counts() {
        for count in of_application {
            let labels: Map<String, Json> = count
                .labels
                .iter()
                .map(|(name, text)| ((*name).into(), text.clone().into()))
                .collect();
            // A histogram has buckets, which only a scrape needs.
            if matches!(count.kind, CountKind::Histogram) {
                continue;
            }
            counts.push(json!({
                "application": application,
                "name": count.name,
                "labels": labels,
                "value": count.value,
            }));
        }
    }
    let Options { sensor, run, realtime_ns, .. } = options;
    let message = json!({
        "version": VERSION,
        "sensor": sensor,
        "run": run,
        "number": number,
        "time_ns": store.time_ns(),
        "clock_ns": realtime_ns(),
        "counts": counts,
    });
    message.to_string().into_bytes()
}
