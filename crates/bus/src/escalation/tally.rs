//! Outcomes of rows that were escalated.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use store::{Count, Spread};

/// Upper bounds of the time from a row's departure to its answer, in seconds.
const BOUNDS_S: &[f64] = &[
    0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0,
];

/// Outcomes of rows, each of which has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(super) enum Outcome {
    Answered,
    /// No answer within the deadline.
    Late,
    /// No worker has this model.
    NoWorker,
    /// A worker has no room.
    Busy,
    /// A worker says that these are no rows of its model, or its answer is none.
    Refused,
    /// Too many are under way.
    NoRoom,
    /// The broker is away.
    Away,
}

const OUTCOMES: [(Outcome, &str); 7] = [
    (Outcome::Answered, "answered"),
    (Outcome::Late, "late"),
    (Outcome::NoWorker, "no_worker"),
    (Outcome::Busy, "busy"),
    (Outcome::Refused, "refused"),
    (Outcome::NoRoom, "no_room"),
    (Outcome::Away, "away"),
];

pub(super) struct EscalationTally {
    rows: [AtomicU64; OUTCOMES.len()],
    messages: AtomicU64,
    repeated: AtomicU64,
    /// Answers that nothing waits for: late, repeated or a stranger's.
    unexpected: AtomicU64,
    under_way: AtomicU64,
    is_connected: AtomicBool,
    was_connected: AtomicBool,
    /// From departure to answer, by bound, and the sum in nanoseconds.
    times: [AtomicU64; BOUNDS_S.len() + 1],
    time_ns: AtomicU64,
    /// The same without the time at the worker: what the broker and both ends add.
    transit: [AtomicU64; BOUNDS_S.len() + 1],
    transit_ns: AtomicU64,
    trouble: Mutex<Option<String>>,
    tell: fn(&str),
}

fn zeros<const N: usize>() -> [AtomicU64; N] {
    std::array::from_fn(|_| AtomicU64::new(0))
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl EscalationTally {
    pub(super) fn new(tell: fn(&str)) -> Self {
        Self {
            rows: zeros(),
            messages: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
            unexpected: AtomicU64::new(0),
            under_way: AtomicU64::new(0),
            is_connected: AtomicBool::new(false),
            was_connected: AtomicBool::new(false),
            times: zeros(),
            time_ns: AtomicU64::new(0),
            transit: zeros(),
            transit_ns: AtomicU64::new(0),
            trouble: Mutex::new(None),
            tell,
        }
    }

    pub(super) fn note_rows(&self, outcome: Outcome, count: usize) {
        if let Some(rows) = self.rows.get(outcome as usize) {
            rows.fetch_add(count as u64, Relaxed);
        }
    }

    pub(super) fn note_message(&self, is_repeated: bool) {
        self.messages.fetch_add(1, Relaxed);
        self.repeated.fetch_add(u64::from(is_repeated), Relaxed);
    }

    pub(super) fn note_unexpected(&self) {
        self.unexpected.fetch_add(1, Relaxed);
    }

    pub(super) fn note_under_way(&self, more: usize, fewer: usize) {
        self.under_way.fetch_add(more as u64, Relaxed);
        self.under_way.fetch_sub(fewer as u64, Relaxed);
    }

    /// So many rows were answered after this time, of which they were `spent` at a worker.
    pub(super) fn note_times(&self, took: Duration, spent: Duration, count: usize) {
        for (time, buckets, sum) in [
            (took, &self.times, &self.time_ns),
            (took.saturating_sub(spent), &self.transit, &self.transit_ns),
        ] {
            let at = BOUNDS_S.partition_point(|&bound| bound < time.as_secs_f64());
            if let Some(bucket) = buckets.get(at) {
                bucket.fetch_add(count as u64, Relaxed);
            }
            sum.fetch_add(ns(time).saturating_mul(count as u64), Relaxed);
        }
    }

    pub(super) fn note_connected(&self) {
        // Who opens the connection knows before the connection itself says so.
        if self.is_connected.swap(true, Relaxed) {
            return;
        }
        let again = if self.was_connected.swap(true, Relaxed) { " again" } else { "" };
        (self.tell)(&format!("nats: escalations connected{again}"));
    }

    pub(super) fn note_away(&self, why: &str) {
        self.is_connected.store(false, Relaxed);
        self.note_trouble(&format!("the broker is away ({why}); earlier models decide"));
    }

    /// Something fails. Reported once, until something else does or all is well again.
    pub(super) fn note_trouble(&self, why: &str) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if trouble.replace(why.to_owned()).as_deref() != Some(why) {
            (self.tell)(&format!("nats: escalations: {why}"));
        }
    }

    /// Rows are answered.
    pub(super) fn note_well(&self) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if trouble.take().is_some() {
            (self.tell)("nats: escalations are answered again");
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.is_connected.load(Relaxed)
    }

    #[allow(clippy::cast_precision_loss)]
    pub(super) fn counts(&self) -> Vec<Count> {
        let of = |counter: &AtomicU64| counter.load(Relaxed);
        let mut made: Vec<_> = OUTCOMES
            .iter()
            .zip(&self.rows)
            .map(|((_, word), count)| {
                let about = "Rows for stages of workers, by outcome.";
                Count::total("rows", about, of(count)).with("outcome", *word)
            })
            .collect();
        let is_connected = f64::from(u8::from(self.is_connected()));
        let spread = |buckets: &[AtomicU64], sum: &AtomicU64| Spread {
            bounds: BOUNDS_S,
            counts: buckets.iter().map(of).collect(),
            sum: of(sum) as f64 / 1e9,
        };
        made.extend([
            Count::gauge("connected", "1 while the broker is reached, otherwise 0.", is_connected),
            Count::gauge("rows_under_way", "Rows without an outcome.", of(&self.under_way) as f64),
            Count::total("messages", "Messages with rows.", of(&self.messages)),
            Count::total(
                "messages_repeated",
                "Messages with rows that were published again without an answer.",
                of(&self.repeated),
            ),
            Count::total(
                "answers_unexpected",
                "Answers that nothing waited for: late, repeated, damaged or of strangers.",
                of(&self.unexpected),
            ),
            Count::histogram(
                "answer_seconds",
                "Time from the departure of a row to its answer.",
                spread(&self.times, &self.time_ns),
            ),
            Count::histogram(
                "transit_seconds",
                "The same without the time at the worker.",
                spread(&self.transit, &self.transit_ns),
            ),
        ]);
        made
    }
}
