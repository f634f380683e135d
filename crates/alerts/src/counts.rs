//! What the thread that looks at rows counts, for `/metrics`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use store::Count;

use crate::indicators::Lists;
use crate::notify::Feed;

/// Numbers that one thread writes and others read.
#[derive(Default)]
pub(crate) struct Tally {
    pub rows_read: AtomicU64,
    /// Rows that were evicted before they were examined.
    pub rows_missed: AtomicU64,
    pub fired: AtomicU64,
    pub resolved: AtomicU64,
    pub active: AtomicU64,
    /// What bounds of rules left out.
    pub left_out: AtomicU64,
    pub hits: AtomicU64,
}

/// Everything that is counted, when someone asks.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn counts(tally: &Tally, feeds: &[Arc<Feed>], lists: &Lists) -> Vec<Count> {
    let get = |number: &AtomicU64| number.load(Relaxed);
    let left_out = "Keys, groups and combinations dropped at the limits of rules.";
    let mut counts = vec![
        Count::total("rows_read", "Rows evaluated by rules.", get(&tally.rows_read)),
        Count::total(
            "rows_missed",
            "Rows evicted before rules evaluated them.",
            get(&tally.rows_missed),
        ),
        Count::total("fired", "Alerts that fired.", get(&tally.fired)),
        Count::total("resolved", "Alerts that were resolved.", get(&tally.resolved)),
        Count::gauge("active", "Active alerts.", get(&tally.active) as f64),
        Count::total("rules_left_out", left_out, get(&tally.left_out)),
        Count::total("indicator_hits", "Rows with an indicator.", get(&tally.hits)),
    ];
    for state in feeds.iter().map(|feed| feed.state()) {
        let of = |count: Count| count.with("notify", state.name.clone());
        counts.extend([
            of(Count::total("notify_delivered", "Alerts delivered.", state.delivered)),
            of(Count::total("notify_failed", "Alerts not delivered.", state.failed)),
            of(Count::total("notify_retried", "Deliveries retried.", state.retried)),
            of(Count::total(
                "notify_dropped",
                "Alerts dropped because the queue was full.",
                state.dropped,
            )),
            of(Count::total("notify_held_back", "Alerts over the rate limit.", state.held_back)),
            of(Count::gauge("notify_waiting", "Alerts waiting.", state.waiting as f64)),
            of(Count::gauge(
                "notify_delay_seconds",
                "Time from finding an alert to its delivery, of the last one.",
                state.delay.as_secs_f64(),
            )),
        ]);
    }
    for state in lists.states() {
        let of = |count: Count| count.with("list", state.name.clone());
        let account = &state.account;
        counts.extend([
            of(Count::gauge("indicators", "Entries loaded.", account.entries as f64)),
            of(Count::gauge("indicators_bad_lines", "Bad lines.", account.bad_lines as f64)),
            of(Count::gauge(
                "indicators_left_out",
                "Entries over the limit.",
                account.left_out as f64,
            )),
            of(Count::gauge("indicators_bytes", "Their memory.", account.byte_count as f64)),
            of(Count::total("indicators_reloads", "Files reloaded.", state.reloads)),
            of(Count::total(
                "indicators_failures",
                "Files that could not be reloaded.",
                state.failures,
            )),
        ]);
    }
    counts
}
