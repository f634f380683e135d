//! Verdicts as events in Suricata's format (EVE): a JSON object per line.
//!
//! What Suricata has a name for is under that name, with its units; what it has none for is in the
//! one object `wirelens`, which is also the type of the event.

use classify::{Cascade, Verdict};
use packet::community_id::CommunityId;

use crate::exports::eve::{Head, head, verdict as says};
use crate::exports::row::VerdictRow;
use crate::exports::text::{Object, suricata_time};

/// The event's type, and the object of what is our own.
const WIRELENS: &str = "wirelens";

/// Appends an event, with the capture it is from where several are read.
pub fn push(text: &mut String, cascade: &Cascade, verdict: &Verdict, capture: Option<&str>) {
    let (source, destination) = verdict.key.endpoints(verdict.direction);
    let ips = [source.address, destination.address].map(|address| address.to_string());
    let (community_id, protocol) = (CommunityId(verdict.key), verdict.key.protocol());
    let (label, guess) = (verdict.label.name(cascade), verdict.label.guess(cascade));
    let mut event = Object::begin(text);
    head(
        &mut event,
        &Head {
            time: verdict.decided,
            first: verdict.first,
            event_type: WIRELENS,
            community_id: &community_id.to_string(),
            capture,
            vlan: None,
            ips: [&ips[0], &ips[1]],
            ports: [source.port, destination.port],
            protocol: &protocol.to_string(),
        },
    );
    event.object(WIRELENS, |wirelens| {
        let confidence = (!verdict.label.is_unknown()).then_some(verdict.confidence);
        says(
            wirelens,
            &VerdictRow {
                label: &label,
                confidence,
                guess: &guess,
                guess_confidence: verdict.confidence,
                stage: verdict.stage_name(),
                packets_used: verdict.packets_used,
                model: cascade.id(),
            },
        );
        wirelens.text("flow_start", &suricata_time(verdict.first));
        wirelens.raw("wait_ns", verdict.wait_ns());
        wirelens.text("cause", verdict.cause.name());
        if let Some(ns) = verdict.latency_ns {
            wirelens.raw("latency_ns", ns);
        }
        if verdict.other_segmentation {
            wirelens.raw("other_segmentation", true);
        }
    });
    event.end();
    text.push('\n');
}
