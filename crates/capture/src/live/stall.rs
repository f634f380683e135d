//! A reader that stops on purpose, so that its ring fills and the kernel drops frames as it does
//! when a reader is too slow.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use packet::Timestamp;

use super::options::{STALL_AFTER, STALL_MAX};
use super::source::{LiveSource, Phase};
use crate::sys::clock::monotonic_now;

/// How often the kernel is asked what it dropped, and how long a stop may go unnoticed.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A stall that is still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stall {
    until_dropped: u64,
    /// By the clock that cannot be set. Known from the first look at the ring on.
    begins: Option<Timestamp>,
}

impl Stall {
    pub(super) const fn new(until_dropped: u64) -> Self {
        Self { until_dropped, begins: None }
    }
}

impl LiveSource {
    /// Stalls where it is time to. The ring is neither read nor given back meanwhile.
    #[inline]
    pub(super) fn stall(&mut self) {
        if self.stall.is_some() {
            self.stall_if_due();
        }
    }

    #[cold]
    fn stall_if_due(&mut self) {
        let Some(stall) = &mut self.stall else { return };
        let now = monotonic_now();
        let begins = *stall.begins.get_or_insert_with(|| now.plus(STALL_AFTER));
        if now < begins || self.phase != Phase::Reading {
            return;
        }
        let until_dropped = stall.until_dropped;
        self.stall = None;
        let ends = now.plus(STALL_MAX);
        while monotonic_now() < ends && !self.options.stop.load(Ordering::Relaxed) {
            thread::sleep(LOOK_EVERY);
            self.refresh();
            if self.report.dropped.ring_full >= until_dropped {
                return;
            }
        }
    }
}
