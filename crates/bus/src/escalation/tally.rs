//! Outcomes of rows that were escalated.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::{Count, Spread};

/// Upper bounds of the time from a row's departure to its answer, in seconds.
const BOUNDS_S: &[f64] = &[
    0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0,
];

/// Trouble is over when rows are answered and nothing has failed for so long: under load some
/// messages are answered and others are not, and each change would be a line.
const CALM: Duration = Duration::from_secs(1);

/// Causes of one trouble that are reported at most: brokers may word theirs as they like.
const CAUSES_MAX: usize = 16;

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
    /// Too many are under way, or it is longer than the broker takes.
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

/// What fails, since all was well.
#[derive(Default)]
struct Trouble {
    /// Each cause once.
    causes: Vec<String>,
    /// Of these the first so many were reported.
    reported_count: usize,
    /// When something failed last.
    failed: Duration,
    /// Whether rows were answered since.
    is_answered: bool,
}

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
    trouble: Mutex<Trouble>,
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
            trouble: Mutex::default(),
            tell,
        }
    }

    pub(super) fn note_rows(&self, outcome: Outcome, count: usize) {
        if let Some(rows) = self.rows.get(outcome as usize) {
            rows.fetch_add(count as u64, Relaxed);
        }
    }

    /// So many messages go out, of which so many were published before.
    pub(super) fn note_messages(&self, count: usize, repeated: usize) {
        self.messages.fetch_add(count as u64, Relaxed);
        self.repeated.fetch_add(repeated as u64, Relaxed);
    }

    pub(super) fn note_unexpected(&self) {
        self.unexpected.fetch_add(1, Relaxed);
    }

    /// A row is under way.
    pub(super) fn note_asked(&self) {
        self.under_way.fetch_add(1, Relaxed);
    }

    /// So many rows have an outcome, after they were under way.
    pub(super) fn note_settled(&self, outcome: Outcome, count: usize) {
        self.note_rows(outcome, count);
        self.under_way.fetch_sub(count as u64, Relaxed);
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

    /// The broker is away; reported immediately, by the thread that drives the connection.
    pub(super) fn note_away(&self, why: &str, now: Duration) {
        if self.is_connected.swap(false, Relaxed) {
            // Each loss of a connection is reported, also where one was before the first answer.
            self.report(now, false);
            *self.lock_trouble() = Trouble::default();
        }
        self.note_trouble(&format!("the broker is away ({why}); earlier models decide"), now);
        self.report(now, false);
    }

    fn lock_trouble(&self) -> MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something fails: each cause is reported once, until all is well again. The threads that
    /// process packets say so here, and [`report`](Self::report) prints.
    pub(super) fn note_trouble(&self, why: &str, now: Duration) {
        let mut trouble = self.lock_trouble();
        trouble.failed = trouble.failed.max(now);
        trouble.is_answered = false;
        if trouble.causes.len() < CAUSES_MAX && !trouble.causes.iter().any(|cause| cause == why) {
            trouble.causes.push(why.to_owned());
        }
    }

    /// Rows are answered.
    pub(super) fn note_well(&self) {
        self.lock_trouble().is_answered = true;
    }

    /// Prints what has failed since the last call, and whether that is over: in the end without
    /// waiting for calm. The lock is not held while it prints, as a terminal may be slow.
    pub(super) fn report(&self, now: Duration, is_last: bool) {
        let (lines, is_over) = {
            let mut trouble = self.lock_trouble();
            let line = |cause: &String| format!("nats: escalations: {cause}");
            let unreported = trouble.causes.iter().skip(trouble.reported_count);
            let lines: Vec<_> = unreported.map(line).collect();
            trouble.reported_count = trouble.causes.len();
            let is_calm = is_last || now.saturating_sub(trouble.failed) >= CALM;
            let is_over = is_calm && trouble.is_answered && !trouble.causes.is_empty();
            if is_over {
                *trouble = Trouble::default();
            }
            (lines, is_over)
        };
        lines.iter().for_each(|line| (self.tell)(line));
        if is_over {
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

#[cfg(test)]
mod tests {
    use super::*;

    static PRINTED: Mutex<Vec<String>> = Mutex::new(Vec::new());

    /// What was printed since the last call, without what all lines begin with.
    fn printed() -> Vec<String> {
        let lines = std::mem::take(&mut *PRINTED.lock().unwrap());
        lines.iter().map(|line| line.trim_start_matches("nats: escalations").to_owned()).collect()
    }

    #[test]
    fn trouble_that_comes_and_goes_is_reported_once_until_it_is_over() {
        let ms = Duration::from_millis;
        let tally = EscalationTally::new(|line| PRINTED.lock().unwrap().push(line.to_owned()));
        tally.note_connected();
        assert_eq!(printed(), [" connected"]);
        // Two causes and answers, all in turn.
        for at in 0..50 {
            tally.note_trouble(if at % 2 == 0 { "late" } else { "busy" }, ms(100 * at));
            tally.note_well();
            tally.report(ms(100 * at + 50), false);
        }
        assert_eq!(printed(), [": late", ": busy"]);
        tally.report(ms(5_899), false);
        assert!(printed().is_empty());
        tally.report(ms(5_900), false);
        assert_eq!(printed(), [" are answered again"]);
        // Nothing is over as long as nothing is answered.
        tally.note_trouble("late", ms(6_000));
        tally.report(ms(9_000), true);
        assert_eq!(printed(), [": late"]);
        // Each loss of the connection is reported, and in the end no calm is waited for.
        for _ in 0..2 {
            tally.note_away("lost", ms(9_000));
            tally.note_away("lost", ms(9_100));
            tally.note_connected();
            let lines = [": the broker is away (lost); earlier models decide", " connected again"];
            assert_eq!(printed(), lines);
        }
        tally.note_well();
        tally.report(ms(9_200), true);
        assert_eq!(printed(), [" are answered again"]);
        // Causes are bounded.
        (0..99).for_each(|at| tally.note_trouble(&at.to_string(), ms(9_300)));
        tally.report(ms(9_300), false);
        assert_eq!(printed().len(), CAUSES_MAX);
    }
}
