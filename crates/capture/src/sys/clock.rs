//! The wall clock, for the ticks of live sources and for programs in the kernel.

use packet::{Span, Timestamp};

/// `CLOCK_REALTIME`, the clock that stamps frames.
#[must_use]
pub fn realtime_now() -> Timestamp {
    now(libc::CLOCK_REALTIME)
}

/// `CLOCK_MONOTONIC`, the clock of programs in the kernel, and of waits: it cannot be set.
#[must_use]
pub fn monotonic_now() -> Timestamp {
    now(libc::CLOCK_MONOTONIC)
}

/// `CLOCK_REALTIME` less the clock of programs in the kernel.
#[must_use]
pub fn realtime_ahead() -> Span {
    ClockOffset::now().ahead
}

/// By how much `CLOCK_REALTIME` is ahead of the clock of programs in the kernel.
///
/// Both run at the same rate: it changes only when the wall clock is set, at a leap second, or
/// while the machine sleeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockOffset {
    /// The difference, wrong by half of the bracket at most.
    pub ahead: Span,
    /// Time between the two readings of one clock that enclose the reading of the other.
    pub bracket: Span,
}

/// A thread that was interrupted in one reading seldom is in the next.
const READINGS_MAX: u32 = 4;

/// Readings that took no longer are not repeated.
const BRACKET_ENOUGH: Span = Span::from_ns(1_000);

impl ClockOffset {
    /// As it is now.
    #[must_use]
    pub fn now() -> Self {
        Self::narrowest(|| Self::of(monotonic_now(), realtime_now(), monotonic_now()))
    }

    /// This one, if it shows that the earlier one is wrong; otherwise the earlier one, so that
    /// times made with it do not step back between two readings of the same difference.
    #[must_use]
    pub fn or_earlier(self, earlier: Self) -> Self {
        let moved_ns = self.ahead.as_ns().abs_diff(earlier.ahead.as_ns());
        if moved_ns > self.bracket.as_ns().unsigned_abs() { self } else { earlier }
    }

    fn of(before: Timestamp, wall: Timestamp, after: Timestamp) -> Self {
        let bracket = after.since(before);
        let middle = before.plus(Span::from_ns(bracket.as_ns() / 2));
        Self { ahead: wall.since(middle), bracket }
    }

    fn narrowest(mut read: impl FnMut() -> Self) -> Self {
        let mut best = read();
        for _ in 1..READINGS_MAX {
            if best.bracket <= BRACKET_ENOUGH {
                break;
            }
            let next = read();
            if next.bracket < best.bracket {
                best = next;
            }
        }
        best
    }
}

/// Whether the wall clock follows another one, as adjtimex(2) reports it, and by how many
/// microseconds it may be wrong at most.
///
/// # Errors
/// The system's, such as a sandbox that does not let the clock be asked.
pub fn discipline() -> std::io::Result<(bool, u64)> {
    // SAFETY: a structure of integers, for which zeros are a value; no mode is set.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: a valid place for the answer; without a mode the clock is only asked.
    let status = unsafe { libc::adjtimex(&raw mut state) };
    if status < 0 {
        return Err(std::io::Error::last_os_error());
    }
    let is_synchronised = status != libc::TIME_ERROR && state.status & libc::STA_UNSYNC == 0;
    Ok((is_synchronised, u64::try_from(state.maxerror).unwrap_or(0)))
}

fn now(clock: libc::clockid_t) -> Timestamp {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place for the answer; the clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    Timestamp::from_parts(now.tv_sec, now.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(ahead_ns: i64, bracket_ns: i64) -> ClockOffset {
        ClockOffset { ahead: Span::from_ns(ahead_ns), bracket: Span::from_ns(bracket_ns) }
    }

    #[test]
    fn the_difference_is_that_of_the_middle_of_two_readings() {
        let [before, wall, after] = [1_000, 9_050, 1_100].map(Timestamp::from_ns);
        assert_eq!(ClockOffset::of(before, wall, after), offset(8_000, 100));
    }

    #[test]
    fn a_reading_that_was_interrupted_is_repeated_and_the_narrowest_counts() {
        let read = |brackets: &[i64]| {
            let mut left = brackets.iter().copied();
            let found = ClockOffset::narrowest(|| offset(7, left.next().unwrap()));
            (found.bracket.as_ns(), left.count())
        };
        assert_eq!(read(&[1_000, 1]), (1_000, 1));
        assert_eq!(read(&[50_000, 60, 1]), (60, 1));
        assert_eq!(read(&[50_000, 9_000, 8_000, 70_000, 1]), (8_000, 1));
    }

    #[test]
    fn an_offset_is_replaced_by_one_that_contradicts_it_alone() {
        let kept = offset(1_000_000, 40);
        assert_eq!(offset(1_000_030, 40).or_earlier(kept), kept);
        assert_eq!(offset(999_970, 50_000).or_earlier(kept), kept);
        let set_back = offset(-5_000_000, 50_000);
        assert_eq!(set_back.or_earlier(kept), set_back);
        // The earlier one was read while the thread was interrupted.
        let better = offset(1_000_000, 40);
        assert_eq!(better.or_earlier(offset(1_020_000, 50_000)), better);
    }

    #[test]
    fn the_offset_of_this_machine_joins_its_clocks() {
        let ahead = ClockOffset::now();
        let (mine, wall) = (monotonic_now().plus(ahead.ahead), realtime_now());
        // A thread may be interrupted here, for long on a busy machine.
        let apart_ns = wall.since(mine).as_ns();
        assert!((-1_000_000..10_000_000_000).contains(&apart_ns), "{apart_ns}");
    }
}
