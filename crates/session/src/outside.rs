//! The world outside event time: captures at their own speed, and how long verdicts took.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use classify::Clock as TakesTime;
use engine::run::Control;
use packet::event_time::{EventTime, STEP_BACK, TimeMove};
use packet::{BATCH_LEN_MAX, Batch, Record, Source, Span, Timestamp};

use crate::clock::Clock;

/// A sleep ends this much late; what is left is waited for awake.
const SLEEP_LATENESS: Duration = Duration::from_micros(300);

/// Sleeping, a stop is noticed within this time.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// A replay waits through a gap of this length between stamps. Over a longer one, as after a clock
/// was set, time moves in one step.
const GAP_MAX: Span = Span::from_seconds(3_600);

/// Stretches of time that are remembered: verdicts are of frames that came a while ago.
const STRETCHES_MAX: usize = 64;

/// Frames between which time has not jumped.
#[derive(Clone, Copy)]
struct Stretch {
    first: Timestamp,
    latest: Timestamp,
    /// When the first was due.
    start: Instant,
}

/// How time has moved so far.
struct Stretches {
    time: EventTime,
    /// The latest last.
    all: VecDeque<Stretch>,
    /// Gaps that were not waited through.
    skipped: u64,
}

/// When a frame of a capture becomes readable.
pub struct Pace {
    factor: f64,
    clock: Clock,
    stretches: Mutex<Stretches>,
}

impl Pace {
    /// So many times as fast as the capture was.
    pub(crate) const fn new(factor: f64, clock: Clock) -> Self {
        let time = EventTime::new(STEP_BACK);
        let stretches = Stretches { time, all: VecDeque::new(), skipped: 0 };
        Self { factor, clock, stretches: Mutex::new(stretches) }
    }

    fn now(&self) -> Instant {
        (self.clock.now)()
    }

    fn stretches(&self) -> MutexGuard<'_, Stretches> {
        self.stretches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When a frame with this stamp is to be handed out, asked in the order of frames; the first
    /// one is now. One without a stamp does not begin time, and waits for nothing.
    fn due(&self, stamp: Timestamp) -> Instant {
        let mut stretches = self.stretches();
        let Stretches { time, all, skipped } = &mut *stretches;
        let Some(last) = all.back_mut() else {
            let start = self.now();
            if stamp != Timestamp::UNKNOWN {
                time.on_packet(stamp);
                all.push_back(Stretch { first: stamp, latest: stamp, start });
            }
            return start;
        };
        if stamp == Timestamp::UNKNOWN {
            return last.start;
        }
        let is_gap = match time.on_packet(stamp) {
            TimeMove::Forward => stamp.since(last.latest) > GAP_MAX,
            TimeMove::Behind(_) => return self.due_in(last, stamp),
            TimeMove::Epoch => false,
        };
        *skipped += u64::from(is_gap);
        if is_gap || stamp < last.latest {
            let start = self.due_in(last, last.latest);
            all.push_back(Stretch { first: stamp, latest: stamp, start });
            if all.len() > STRETCHES_MAX {
                all.pop_front();
            }
            return start;
        }
        last.latest = stamp;
        self.due_in(last, stamp)
    }

    /// When a frame with this stamp was to be handed out, which has been.
    fn was_due(&self, stamp: Timestamp) -> Option<Instant> {
        let stretches = self.stretches();
        let holds = |of: &&Stretch| stamp <= of.latest && of.first.since(stamp) < STEP_BACK;
        let of = stretches.all.iter().rev().find(holds);
        of.or(stretches.all.back()).map(|of| self.due_in(of, stamp))
    }

    fn due_in(&self, stretch: &Stretch, stamp: Timestamp) -> Instant {
        let since = stamp.since(stretch.first).as_ns().max(0);
        #[allow(clippy::cast_precision_loss)]
        let seconds = since as f64 / 1e9 / self.factor;
        let since = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        // What is beyond all time does not hold up what follows.
        stretch.start.checked_add(since).unwrap_or(stretch.start)
    }

    /// What there is to say of gaps that were not waited through.
    pub(crate) fn said(&self) -> Option<String> {
        let skipped = self.stretches().skipped;
        (skipped > 0).then(|| {
            format!(
                "pace: {skipped} gaps of more than {} h between timestamps were not waited through",
                GAP_MAX.as_seconds_f64() / 3_600.0
            )
        })
    }
}

/// Which clock tells how long a verdict took.
#[derive(Clone)]
pub enum Outside {
    /// None: captures are read as fast as that goes.
    None,
    /// From the stamp that the kernel gave a frame: the time in its ring is counted.
    Live(Clock),
    /// From when the replay let a frame out.
    Paced(Arc<Pace>),
}

impl TakesTime for Outside {
    fn latency_ns(&self, stamp: Timestamp) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Live(clock) => u64::try_from((clock.realtime)().since(stamp).as_ns()).ok(),
            // When it was to come is not known.
            Self::Paced(_) if stamp == Timestamp::UNKNOWN => None,
            Self::Paced(pace) => {
                let late = pace.now().checked_duration_since(pace.was_due(stamp)?)?;
                u64::try_from(late.as_nanos()).ok()
            }
        }
    }
}

/// Frames of a batch, copied: a batch of a capture that is mostly silent lasts for minutes.
pub(crate) struct Piece {
    bytes: Vec<u8>,
    records: Vec<Record>,
}

/// Copies a source to its end, or until nobody takes pieces any more; how many frames were read.
///
/// It is a thread of its own: reading stalls where a capture comes from a disk, a replay must not.
pub(crate) fn read_ahead(source: &mut impl Source, to: &SyncSender<Piece>) -> u64 {
    let mut count = 0;
    while let Some(batch) = source.next_batch() {
        let mut piece = Piece { bytes: Vec::new(), records: Vec::with_capacity(BATCH_LEN_MAX) };
        for frame in batch.frames() {
            // A batch of frames is far below 4 GiB.
            let offset = u32::try_from(piece.bytes.len()).unwrap_or(u32::MAX);
            piece.bytes.extend_from_slice(frame.bytes);
            piece.records.push(Record { offset, ..*frame.record });
        }
        count += piece.records.len() as u64;
        if to.send(piece).is_err() {
            break;
        }
    }
    count
}

/// Hands out frames that were read ahead when their time has come.
pub(crate) struct PacedFrames<'a> {
    ahead: Receiver<Piece>,
    pace: &'a Pace,
    control: &'a Control,
    bytes: Vec<u8>,
    records: Vec<Record>,
    /// The first that has not been handed out.
    next: usize,
    handed: u64,
}

impl<'a> PacedFrames<'a> {
    /// None handed out yet.
    pub(crate) fn new(ahead: Receiver<Piece>, pace: &'a Pace, control: &'a Control) -> Self {
        let (bytes, records) = (Vec::new(), Vec::new());
        Self { ahead, pace, control, bytes, records, next: 0, handed: 0 }
    }

    /// Frames that were handed out. Others were read if the run was stopped.
    pub(crate) const fn handed(&self) -> u64 {
        self.handed
    }

    /// Takes the next frames.
    fn fetch(&mut self) -> Option<()> {
        let piece = self.ahead.recv().ok()?;
        (self.bytes, self.records, self.next) = (piece.bytes, piece.records, 0);
        Some(())
    }

    fn due(&self, index: usize) -> Option<Instant> {
        self.records.get(index).map(|record| self.pace.due(record.timestamp))
    }

    fn wait_until(&self, due: Instant) {
        loop {
            let left = due.saturating_duration_since(self.pace.now());
            if left.is_zero() || self.control.is_stopped() {
                return;
            }
            match left.checked_sub(SLEEP_LATENESS) {
                Some(sleep) => thread::sleep(sleep.min(SLEEP_MAX)),
                None => std::hint::spin_loop(),
            }
        }
    }
}

impl Source for PacedFrames<'_> {
    fn next_batch(&mut self) -> Option<Batch<'_>> {
        if self.next >= self.records.len() {
            self.fetch()?;
        }
        let first = self.next;
        if let Some(due) = self.due(first) {
            self.wait_until(due);
        }
        if self.control.is_stopped() {
            return None;
        }
        let time = self.pace.now();
        self.next = first + 1;
        while self.due(self.next).is_some_and(|due| due <= time) {
            self.next += 1;
        }
        let records = self.records.get(first..self.next.min(self.records.len()));
        self.handed += records.map_or(0, <[Record]>::len) as u64;
        Some(Batch { bytes: &self.bytes, records: records.unwrap_or_default(), tick: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::disallowed_methods)]
    const CLOCK: Clock =
        Clock { now: Instant::now, realtime: || Timestamp::UNKNOWN, monotonic: || Duration::ZERO };

    /// Frames of one byte, their number, some at a time and a second apart.
    struct Seconds {
        bytes: Vec<u8>,
        records: Vec<Record>,
    }

    impl Source for Seconds {
        fn next_batch(&mut self) -> Option<Batch<'_>> {
            let number = *self.bytes.last()? + 1;
            if number >= 100 {
                return None;
            }
            // What lies before the frames is not theirs.
            self.bytes = vec![0, 0, number, number + 1, number + 2];
            let record = |place: u8| Record {
                timestamp: Timestamp::from_parts((number + place).into(), 0),
                offset: 2 + u32::from(place),
                captured_len: 1,
                ..Record::default()
            };
            self.records = (0..3).map(record).collect();
            Some(Batch { bytes: &self.bytes, records: &self.records, tick: None })
        }
    }

    /// All of them, read ahead.
    fn seconds() -> Receiver<Piece> {
        let (to, ahead) = std::sync::mpsc::sync_channel(100);
        let mut source = Seconds { bytes: vec![0], records: Vec::new() };
        assert_eq!(read_ahead(&mut source, &to), 99);
        ahead
    }

    #[test]
    fn every_frame_is_handed_out_once_and_in_order() {
        let (pace, control) = (Pace::new(1e6, CLOCK), Control::default());
        let mut paced = PacedFrames::new(seconds(), &pace, &control);
        let mut seen = Vec::new();
        while let Some(batch) = paced.next_batch() {
            for frame in batch.frames() {
                // Nobody sees a frame before its time has come.
                assert!(pace.due(frame.record.timestamp) <= pace.now());
                seen.extend_from_slice(frame.bytes);
            }
        }
        assert_eq!(seen, (1..=99).collect::<Vec<u8>>());
        assert_eq!(paced.handed(), 99);
    }

    #[test]
    fn a_stop_leaves_what_was_not_handed_out() {
        let (pace, control) = (Pace::new(1.0, CLOCK), Control::default());
        let mut paced = PacedFrames::new(seconds(), &pace, &control);
        assert_eq!(paced.next_batch().map(|batch| batch.records.len()), Some(1));
        control.stop();
        assert!(paced.next_batch().is_none());
        assert_eq!(paced.handed(), 1);
    }

    #[test]
    fn a_frame_is_due_when_the_factor_says() {
        let pace = Pace::new(2.0, CLOCK);
        let first = Timestamp::from_parts(1_000, 0);
        let start = pace.due(first);
        let half = pace.due(Timestamp::from_parts(1_001, 0)).duration_since(start);
        assert_eq!(half, Duration::from_millis(500));
        // Stamps that run backwards, or beyond all time, hold nothing up.
        assert_eq!(pace.due(Timestamp::UNKNOWN), start);
        assert_eq!(pace.due(Timestamp::from_parts(999, 0)), start);
    }

    #[test]
    fn a_jump_of_the_clock_is_one_step_and_time_continues_from_there() {
        const YEAR_S: i64 = 365 * 86_400;
        let pace = Pace::new(1.0, CLOCK);
        let at = |seconds| Timestamp::from_parts(seconds, 0);
        let start = pace.due(at(1_000));
        let due_s = |stamp: i64| pace.due(at(stamp)).duration_since(start).as_secs();
        assert_eq!([1_002, 4_602].map(due_s), [2, 3_602], "a gap of an hour is waited through");
        assert_eq!(pace.said(), None);
        // Asked twice of one frame, as where the next batch begins with it.
        let jump = [YEAR_S, YEAR_S, YEAR_S + 5, YEAR_S + 4];
        assert_eq!(jump.map(due_s), [3_602, 3_602, 3_607, 3_606]);
        // The clock is set back.
        assert_eq!([4_603, 4_603, 4_605].map(due_s), [3_607, 3_607, 3_609]);
        // Verdicts are of frames before it, too.
        let was_due_s = |stamp| pace.was_due(at(stamp)).unwrap().duration_since(start).as_secs();
        assert_eq!([1_002, YEAR_S + 5, 4_605].map(was_due_s), [2, 3_607, 3_609]);
        assert!(pace.said().unwrap().contains("pace: 1 gaps of more than 1 h"));
    }

    #[test]
    fn frames_after_a_jump_of_years_are_handed_out() {
        let frame = |seconds| Record {
            timestamp: Timestamp::from_parts(seconds, 0),
            captured_len: 1,
            ..Record::default()
        };
        let (to, ahead) = std::sync::mpsc::sync_channel(1);
        let records = [0, 0, 2_000_000_000, 2_000_000_001, 1].map(frame).to_vec();
        to.send(Piece { bytes: vec![0], records }).unwrap();
        drop(to);
        let (pace, control) = (Pace::new(100.0, CLOCK), Control::default());
        let mut paced = PacedFrames::new(ahead, &pace, &control);
        while paced.next_batch().is_some() {}
        assert_eq!(paced.handed(), 5);
    }

    #[test]
    fn a_frame_without_a_stamp_does_not_begin_time() {
        let pace = Arc::new(Pace::new(1.0, CLOCK));
        assert!(pace.due(Timestamp::UNKNOWN) <= pace.now());
        let start = pace.due(Timestamp::from_parts(1_700_000_000, 0));
        assert!(start <= pace.now());
        let next = pace.due(Timestamp::from_parts(1_700_000_001, 0));
        assert_eq!(next.duration_since(start), Duration::from_secs(1));
        assert_eq!(Outside::Paced(pace).latency_ns(Timestamp::UNKNOWN), None);
    }
}
