//! How far stamps reach: the one rule by which the times of packets become work or memory.
//!
//! Who writes a capture, or sets the clock of a tap, chooses the stamps: one packet of the year
//! 2106 among others of today, each packet a year after the one before, each a year before it.
//! Everything that has windows, periods or timeouts goes by an [`EventTime`], which keeps three
//! promises:
//!
//! 1. **A jump forward is a silence.** Time moves there in one step, whatever its length. What
//!    would have ended in the silence ends; periods in which nothing came are not visited, and have
//!    no rows.
//! 2. **A step back begins an epoch.** A packet that is [`STEP_BACK`] or more behind the latest
//!    stamp means that the clock was set, or that the latest stamp was wrong. What is open ends,
//!    windows start again, and time continues from there, so no stamp can stop time for those after
//!    it. Each epoch is counted. Less than that is a late packet, which moves nothing.
//! 3. **Work is paid for by packets.** A packet moves time once, forward or back. What a step costs
//!    grows with what is remembered, so steps are rationed: [`EPOCHS_FREE`] of them, and one more
//!    with every [`PACKETS_PER_EPOCH`] packets. A packet that is as far behind when there is none
//!    left is late, like one that is a little behind. So time that a wrong stamp has stopped
//!    continues after at most so many packets.
//!
//! It depends on the order of packets alone, so it is the same on any number of threads.

use crate::time::{Span, Timestamp};

/// A packet this far behind the latest stamp begins an epoch, unless an application has a time of
/// its own after which what it remembers means nothing: the default idle timeout of flows.
pub const STEP_BACK: Span = Span::from_seconds(120);

/// Epochs that may follow each other immediately.
pub const EPOCHS_FREE: u32 = 16;

/// Packets for which one more epoch is allowed.
pub const PACKETS_PER_EPOCH: u32 = 1 << 16;

/// What a stamp does to time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeMove {
    /// It is the latest so far, or equal to it.
    Forward,
    /// It is so much behind the latest, and moves nothing.
    Behind(Span),
    /// An epoch begins with it.
    Epoch,
}

/// Event time of one stream of packets.
#[derive(Clone, Copy, Debug)]
pub struct EventTime {
    latest: Timestamp,
    step_back: Span,
    epochs_left: u32,
    packets: u32,
}

impl EventTime {
    /// Before the first packet. `step_back` is how far behind the latest stamp an epoch begins;
    /// mostly [`STEP_BACK`].
    #[must_use]
    pub const fn new(step_back: Span) -> Self {
        Self { latest: Timestamp::MIN, step_back, epochs_left: EPOCHS_FREE, packets: 0 }
    }

    /// The latest stamp of this epoch; [`Timestamp::MIN`] before the first.
    #[inline]
    #[must_use]
    pub const fn latest(&self) -> Timestamp {
        self.latest
    }

    /// So many packets have come that moved time forward or not at all: for callers that call
    /// [`on_stamp`](Self::on_stamp) for some packets only.
    #[inline]
    pub const fn earn(&mut self, packets: u32) {
        self.packets = self.packets.saturating_add(packets);
        if self.packets >= PACKETS_PER_EPOCH {
            self.refill();
        }
    }

    #[cold]
    const fn refill(&mut self) {
        let left = self.epochs_left.saturating_add(self.packets / PACKETS_PER_EPOCH);
        self.epochs_left = if left < EPOCHS_FREE { left } else { EPOCHS_FREE };
        self.packets %= PACKETS_PER_EPOCH;
    }

    /// A packet, which is counted, has this stamp. A packet without one moves nothing.
    #[inline]
    pub fn on_packet(&mut self, stamp: Timestamp) -> TimeMove {
        self.earn(1);
        self.on_stamp(stamp)
    }

    /// A stamp is seen of a packet that was counted, or of none.
    #[inline]
    pub fn on_stamp(&mut self, stamp: Timestamp) -> TimeMove {
        if stamp >= self.latest {
            self.latest = stamp;
            return TimeMove::Forward;
        }
        self.behind(stamp)
    }

    #[cold]
    fn behind(&mut self, stamp: Timestamp) -> TimeMove {
        let behind = self.latest.since(stamp);
        if stamp == Timestamp::UNKNOWN || behind < self.step_back || self.epochs_left == 0 {
            return TimeMove::Behind(behind);
        }
        self.epochs_left -= 1;
        self.latest = stamp;
        TimeMove::Epoch
    }

    /// The link is silent, and time is known to have come this far. It never sets time back.
    #[inline]
    pub fn on_tick(&mut self, time: Timestamp) {
        self.latest = self.latest.max(time);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_parts(seconds, 0)
    }

    #[test]
    fn a_packet_of_the_next_century_does_not_stop_time() {
        let mut time = EventTime::new(STEP_BACK);
        assert_eq!(time.on_packet(at(1_700_000_000)), TimeMove::Forward);
        assert_eq!(time.on_packet(at(4_300_000_000)), TimeMove::Forward);
        assert_eq!(time.on_packet(at(1_700_000_001)), TimeMove::Epoch);
        assert_eq!(time.on_packet(at(1_700_000_002)), TimeMove::Forward);
        assert_eq!(time.on_packet(at(1_700_000_000)), TimeMove::Behind(Span::from_seconds(2)));
        assert_eq!(time.latest(), at(1_700_000_002));
    }

    #[test]
    fn a_packet_without_a_stamp_moves_nothing() {
        let mut time = EventTime::new(STEP_BACK);
        time.on_packet(at(5));
        assert!(matches!(time.on_packet(Timestamp::UNKNOWN), TimeMove::Behind(_)));
        assert_eq!(time.latest(), at(5));
    }

    #[test]
    fn steps_are_rationed_and_time_goes_on_after_so_many_packets() {
        let mut time = EventTime::new(STEP_BACK);
        let mut epochs = 0;
        for _ in 0..1_000 {
            time.on_packet(at(4_000_000_000));
            epochs += u32::from(time.on_packet(at(0)) == TimeMove::Epoch);
        }
        assert_eq!(epochs, EPOCHS_FREE);
        // Stopped at the wrong stamp: no longer than this.
        time.on_packet(at(4_000_000_000));
        let waited = (1..).find(|_| time.on_packet(at(0)) == TimeMove::Epoch).unwrap_or(u32::MAX);
        assert!(waited <= PACKETS_PER_EPOCH, "{waited}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn time_is_the_latest_stamp_of_its_epoch_and_epochs_are_bounded(
            stamps in prop::collection::vec(
                prop_oneof![
                    any::<i64>(), 0_i64..1_000, Just(i64::MIN), Just(i64::MAX),
                    (0_i64..3).prop_map(|years| years * 31_536_000_000_000_000),
                ],
                1..400,
            ),
            step_back_ns in prop::sample::select(vec![STEP_BACK.as_ns(), 1, i64::MAX]),
        ) {
            let step_back = Span::from_ns(step_back_ns);
            let mut time = EventTime::new(step_back);
            let (mut epochs, mut latest) = (0_u32, Timestamp::MIN);
            for stamp in stamps.into_iter().map(Timestamp::from_ns) {
                match time.on_packet(stamp) {
                    TimeMove::Forward => {
                        prop_assert!(stamp >= latest);
                        latest = stamp;
                    }
                    TimeMove::Behind(behind) => prop_assert_eq!(behind, latest.since(stamp)),
                    TimeMove::Epoch => {
                        prop_assert!(latest.since(stamp) >= step_back);
                        latest = stamp;
                        epochs += 1;
                    }
                }
                prop_assert_eq!(time.latest(), latest);
            }
            prop_assert!(epochs <= EPOCHS_FREE);
        }
    }
}
