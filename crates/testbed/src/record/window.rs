//! Between which moments packets count: for a tap that writes them and a program in the kernel
//! that counts them, though neither is told at the same time as the other.
//!
//! Both go by the stamps of packets, and both are told before the moment comes.

use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use capture::sys::clock::realtime_now;
use capture::tap::Moment;
use packet::{Span, Timestamp};

use crate::sys::time::monotonic_ns;

/// The moment is so far ahead that everybody has been told when it comes. Where somebody was
/// not, on a busy machine, another moment is chosen.
const LEAD: Duration = Duration::from_millis(10);

/// A packet is stamped when it arrives, and shown when its turn has come: by then it was.
const SHOWN_AFTER: Duration = Duration::from_millis(20);

/// Stamps that count: from the start on, before the stop.
#[derive(Debug)]
pub(super) struct Window {
    start_ns: AtomicI64,
    stop_ns: AtomicI64,
}

impl Default for Window {
    /// Nothing counts before it is told.
    fn default() -> Self {
        Self { start_ns: AtomicI64::new(i64::MAX), stop_ns: AtomicI64::new(i64::MAX) }
    }
}

impl Window {
    /// Whether what has this stamp counts.
    #[inline]
    pub(super) fn holds(&self, stamp: Timestamp) -> bool {
        let stamp_ns = stamp.as_ns();
        stamp_ns >= self.start_ns.load(Ordering::Relaxed)
            && stamp_ns < self.stop_ns.load(Ordering::Relaxed)
    }

    /// When it began, and when it ended.
    pub(super) fn bounds(&self) -> (Timestamp, Timestamp) {
        let bound = |ns: &AtomicI64| Timestamp::from_ns(ns.load(Ordering::Relaxed));
        (bound(&self.start_ns), bound(&self.stop_ns))
    }

    /// Begins, here and where `tell` tells it; everything that is stamped after the return
    /// counts.
    pub(super) fn begin<E>(
        &self,
        mut tell: impl FnMut(Moment) -> Result<(), E>,
    ) -> Result<Moment, E> {
        loop {
            let start = moment_after(LEAD);
            self.start_ns.store(start.realtime.as_ns(), Ordering::Relaxed);
            tell(start)?;
            if realtime_now() < start.realtime {
                thread::sleep(LEAD);
                return Ok(start);
            }
        }
    }

    /// Ends, here and where `tell` tells it; on return everything that counts has been shown.
    pub(super) fn end<E>(&self, mut tell: impl FnMut(Moment) -> Result<(), E>) -> Result<(), E> {
        loop {
            let stop = moment_after(LEAD);
            self.stop_ns.store(stop.realtime.as_ns(), Ordering::Relaxed);
            tell(stop)?;
            if realtime_now() < stop.realtime {
                thread::sleep(LEAD + SHOWN_AFTER);
                return Ok(());
            }
        }
    }
}

fn moment_after(lead: Duration) -> Moment {
    let lead_ns = lead.as_nanos() as u64;
    Moment {
        realtime: realtime_now().plus(Span::from_ns(lead_ns.cast_signed())),
        monotonic_ns: monotonic_ns().saturating_add(lead_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_that_passed_while_it_was_told_is_not_used() {
        let window = Window::default();
        let mut told = Vec::new();
        let start = window.begin(|moment| {
            if told.is_empty() {
                thread::sleep(2 * LEAD);
            }
            told.push(moment);
            Ok::<_, ()>(())
        });
        assert_eq!(told.len(), 2);
        assert_eq!(start, Ok(told[1]));
        assert_eq!(window.bounds().0, told[1].realtime);
    }

    #[test]
    fn what_is_stamped_from_start_to_stop_counts() {
        let window = Window::default();
        assert!(!window.holds(realtime_now()));
        let before = realtime_now();
        window.begin(|_| Ok::<_, ()>(())).unwrap();
        let inside = realtime_now();
        window.end(|_| Ok::<_, ()>(())).unwrap();
        assert!(!window.holds(before) && window.holds(inside) && !window.holds(realtime_now()));
        let (began, ended) = window.bounds();
        assert!(window.holds(began) && !window.holds(ended));
    }
}
