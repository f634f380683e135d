//! Time that each look at it takes further by the same, so that runs of one input are alike.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

static TICKS: AtomicU64 = AtomicU64::new(0);

/// Time since this process began, by how often it was asked for.
#[must_use]
pub fn monotonic() -> Duration {
    Duration::from_micros(TICKS.fetch_add(1, Ordering::Relaxed))
}
