//! What a relay with queues has to say of them.

use ::testbed::relay::BottleneckReport;
use ::testbed::trace::{FlowReport, TraceReport};
use dualq::{Counts, Queue};
use serde_json::{Value, json};

use super::relay::lateness_json;

pub(super) fn report_json(report: &BottleneckReport) -> Value {
    json!({
        "settings": report.settings.router.to_string(),
        "rate_bits": report.settings.rate_bits,
        "seed": report.seed,
        "start_ns": report.start_ns,
        "end_ns": report.end_ns,
        "used_ns": report.used_ns,
        "l4s": queue_json(report, Queue::L4s),
        "classic": queue_json(report, Queue::Classic),
    })
}

fn queue_json(report: &BottleneckReport, queue: Queue) -> Value {
    let counts: &Counts = report.counts.of(queue);
    json!({
        "received": counts.received,
        "sent": counts.sent,
        "sent_bytes": counts.sent_bytes,
        "dropped_full": counts.dropped_full,
        "dropped_early": counts.dropped_early,
        "dropped_late": counts.dropped_late,
        "marked_pi": counts.marked_pi,
        "marked_threshold": counts.marked_threshold,
        "waiting": counts.waiting,
        "wait_us": lateness_json(report.waits.of(queue)),
    })
}

pub(super) fn trace_json(trace: &TraceReport) -> Value {
    let followed = &trace.followed;
    json!({
        "records": followed.records,
        "unacknowledged": followed.unacknowledged,
        "beyond": followed.beyond,
        "entries": trace.entries,
        "lost": trace.lost,
        "flows": followed.flows.iter().map(flow_json).collect::<Vec<_>>(),
    })
}

fn flow_json(flow: &FlowReport) -> Value {
    json!({
        "source": flow.source.ip().to_string(),
        "source_port": flow.source.port(),
        "target": flow.target.ip().to_string(),
        "target_port": flow.target.port(),
        "protocol": flow.protocol,
        "packets": flow.packets,
    })
}
