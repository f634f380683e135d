//! The time by which packets are followed: it never goes back, whatever their stamps do.

use packet::Timestamp;

/// Stamps of several processors differ by less; what goes back further is a clock that was set.
const DISORDER_NS: i64 = 10_000_000;

/// Time that continues if a clock was set back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Time {
    /// None before the first packet.
    now_ns: Option<i64>,
    /// What is added to stamps.
    shift_ns: i64,
    /// Times that the clock was set back.
    pub(super) steps: u64,
}

impl Time {
    /// A packet was stamped so; now.
    pub(super) fn at(&mut self, stamp: Timestamp) -> u64 {
        let stamp_ns = stamp.as_ns();
        let mut at_ns = stamp_ns.saturating_add(self.shift_ns);
        if let Some(now_ns) = self.now_ns {
            if at_ns < now_ns.saturating_sub(DISORDER_NS) {
                self.steps += 1;
                self.shift_ns = now_ns.saturating_sub(stamp_ns);
            }
            at_ns = at_ns.max(now_ns);
        }
        self.now_ns = Some(at_ns);
        self.now()
    }

    /// The time of the newest packet.
    pub(super) fn now(&self) -> u64 {
        self.now_ns.map_or(0, |now_ns| u64::try_from(now_ns).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_where_a_clock_was_set_back() {
        let mut time = Time::default();
        let mut at = |ms: i64| time.at(Timestamp::from_ns(ms * 1_000_000)) / 1_000_000;
        assert_eq!([at(100), at(98), at(105)], [100, 100, 105]);
        // An hour back, and on from there.
        assert_eq!([at(5), at(6), at(9)], [105, 106, 109]);
        assert_eq!(time.steps, 1);
    }
}
