//! Messages that wait for the threads of a worker, and which of them a thread scores together.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::Subject;
use bytes::Bytes;

/// Messages that wait for a thread at most.
pub(super) const WAITING_MAX: usize = 1024;

/// A batch that waits for more does so for this part of its oldest message's time to live at most.
const WAIT_PART: u32 = 8;

/// A batch of what waits anyway is scored within this part of the time to live of its first
/// message, as far as the batch before shows: its first rows have their answers with its last.
const SCORE_PART: u32 = 32;

/// Rows of several messages that a thread scores together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchOptions {
    /// So many at most, unless a message alone has more.
    pub rows_max: usize,
    /// Whether a batch that is not full waits for more: until the oldest of its messages has used
    /// up an eighth of its time to live. That is for cards, where a call costs as much as hundreds
    /// of rows.
    pub waits: bool,
}

/// A message that waits for a thread.
pub(super) struct Job {
    pub(super) reply: Subject,
    pub(super) bytes: Bytes,
    pub(super) came: Duration,
    pub(super) time_to_live: Duration,
    pub(super) row_count: usize,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    has_ended: bool,
}

/// Messages that wait for threads.
pub(super) struct Jobs {
    batch: BatchOptions,
    thread_count: usize,
    waiting: Mutex<Waiting>,
    more: Condvar,
}

impl Jobs {
    pub(super) fn new(batch: BatchOptions, thread_count: usize) -> Self {
        let (waiting, more) = (Mutex::default(), Condvar::new());
        Self { batch, thread_count: thread_count.max(1), waiting, more }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn len(&self) -> usize {
        self.lock().jobs.len()
    }

    /// Whether there was room. No thread hears of it before [`wake`](Self::wake).
    pub(super) fn push(&self, job: Job) -> bool {
        let mut waiting = self.lock();
        let has_room = waiting.jobs.len() < WAITING_MAX;
        if has_room {
            waiting.jobs.push_back(job);
        }
        has_room
    }

    /// Wakes threads for so many messages.
    pub(super) fn wake(&self, count: usize) {
        match count {
            1 => self.more.notify_one(),
            _ => self.more.notify_all(),
        }
    }

    pub(super) fn end(&self) {
        self.lock().has_ended = true;
        self.more.notify_all();
    }

    /// Waits for messages, and takes those that are scored together; none where there will be no
    /// more. A row took this time in the batch before.
    ///
    /// The oldest is next, unless it has used up half of its time. Then more comes than can be
    /// answered, and in the order of arrival each would be scored when its time is over: the newest
    /// is next, which can still be in time, and the oldest again once it is late for certain.
    pub(super) fn take(&self, row_time: Duration, now: impl Fn() -> Duration) -> Vec<Job> {
        let mut waiting = self.lock();
        while waiting.jobs.is_empty() && !waiting.has_ended {
            waiting = self.more.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        match next(&mut waiting.jobs, now(), usize::MAX) {
            None => Vec::new(),
            Some(first) if self.batch.waits => self.fill(first, waiting, now),
            Some(first) => self.share(first, &mut waiting.jobs, row_time, now()),
        }
    }

    /// A message with others that wait as well. What came together is shared among threads.
    fn share(
        &self,
        first: Job,
        waiting: &mut VecDeque<Job>,
        row_time: Duration,
        now: Duration,
    ) -> Vec<Job> {
        let count_max = (waiting.len() + 1).div_ceil(self.thread_count);
        let in_time = (first.time_to_live / SCORE_PART).as_nanos() / row_time.as_nanos().max(1);
        let rows_max = usize::try_from(in_time).unwrap_or(usize::MAX).min(self.batch.rows_max);
        let mut room = rows_max.saturating_sub(first.row_count);
        let mut batch = vec![first];
        while batch.len() < count_max
            && let Some(job) = next(waiting, now, room)
        {
            room -= job.row_count;
            batch.push(job);
        }
        batch
    }

    /// A message with others until there are enough, or the first has waited long enough.
    fn fill(
        &self,
        first: Job,
        mut waiting: MutexGuard<'_, Waiting>,
        now: impl Fn() -> Duration,
    ) -> Vec<Job> {
        let until = first.came + first.time_to_live / WAIT_PART;
        let mut room = self.batch.rows_max.saturating_sub(first.row_count);
        let mut batch = vec![first];
        loop {
            while let Some(job) = next(&mut waiting.jobs, now(), room) {
                room -= job.row_count;
                batch.push(job);
            }
            let left = until.saturating_sub(now());
            if !waiting.jobs.is_empty() || waiting.has_ended || room == 0 || left.is_zero() {
                return batch;
            }
            let woken = self.more.wait_timeout(waiting, left);
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The message that is next, as [`Jobs::take`] says, if it has no more rows than there is room for.
fn next(waiting: &mut VecDeque<Job>, now: Duration, room: usize) -> Option<Job> {
    let oldest = waiting.front()?;
    let age = now.saturating_sub(oldest.came);
    let is_behind = age >= oldest.time_to_live / 2 && age <= oldest.time_to_live;
    let fits = |job: &mut Job| job.row_count <= room;
    if is_behind { waiting.pop_back_if(fits) } else { waiting.pop_front_if(fits) }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn jobs(rows_max: usize, waits: bool, thread_count: usize) -> Jobs {
        Jobs::new(BatchOptions { rows_max, waits }, thread_count)
    }

    fn job(name: &str, came_ms: u64, row_count: usize) -> Job {
        let (came, time_to_live) = (Duration::from_millis(came_ms), Duration::from_millis(80));
        Job { reply: Subject::from(name), bytes: Bytes::new(), came, time_to_live, row_count }
    }

    fn push(jobs: &Jobs, wanted: &[(&str, usize)]) {
        for &(name, row_count) in wanted {
            assert!(jobs.push(job(name, 0, row_count)));
        }
    }

    fn names(batch: Vec<Job>) -> Vec<String> {
        batch.iter().map(|job| job.reply.to_string()).collect()
    }

    fn now(ms: u64) -> impl Fn() -> Duration {
        move || Duration::from_millis(ms)
    }

    #[test]
    fn the_newest_comes_first_where_the_oldest_is_behind() {
        let jobs = jobs(1, false, 1);
        for at in 0..10 {
            let time_to_live = Duration::from_millis(100);
            assert!(jobs.push(Job { time_to_live, ..job(&at.to_string(), at, 1) }));
        }
        let next = |at_ms| names(jobs.take(Duration::ZERO, now(at_ms))).concat();
        // In time, behind, and late.
        assert_eq!([next(10), next(50)], ["0", "1"]);
        assert_eq!([next(52), next(52), next(102)], ["9", "8", "7"]);
        assert_eq!([next(103), next(103), next(104)], ["2", "6", "3"]);
        jobs.end();
        assert_eq!([next(0), next(0)], ["4", "5"]);
        assert!(jobs.take(Duration::ZERO, now(0)).is_empty());
    }

    #[test]
    fn what_waits_is_taken_together_up_to_a_share_and_a_time() {
        let take = |jobs: &Jobs, row_us| names(jobs.take(Duration::from_micros(row_us), now(1)));
        let one = jobs(8, false, 1);
        push(&one, &[("a", 3), ("b", 4), ("c", 4), ("d", 9), ("e", 4), ("f", 4)]);
        // Nothing waits until a batch is full; one that is larger than a batch is one.
        assert_eq!(take(&one, 0), ["a", "b"]);
        assert_eq!(take(&one, 0), ["c"]);
        assert_eq!(take(&one, 0), ["d"]);
        // Seven rows have the thirty-second part of 80 ms, and eight have not.
        assert_eq!(take(&one, 350), ["e"]);
        assert_eq!(take(&one, 0), ["f"]);
        let three = jobs(64, false, 3);
        push(&three, &[("a", 1), ("b", 1), ("c", 1), ("d", 1)]);
        assert_eq!(take(&three, 0), ["a", "b"]);
        assert_eq!(take(&three, 0), ["c"]);
        assert_eq!(take(&three, 0), ["d"]);
    }

    #[test]
    fn a_batch_leaves_when_it_is_full_or_has_waited_long_enough() {
        let jobs = jobs(8, true, 1);
        push(&jobs, &[("a", 3), ("b", 4), ("c", 4), ("d", 9), ("e", 1)]);
        let take = |at_ms| names(jobs.take(Duration::ZERO, now(at_ms)));
        // Full, though there is time; one that is larger than a batch is one.
        assert_eq!(take(1), ["a", "b"]);
        assert_eq!(take(1), ["c"]);
        assert_eq!(take(1), ["d"]);
        // Not full, and an eighth of its time is over.
        assert_eq!(take(10), ["e"]);
        jobs.end();
        assert!(take(11).is_empty());
    }

    #[test]
    fn a_batch_waits_for_what_comes() {
        let jobs = jobs(2, true, 1);
        push(&jobs, &[("a", 1)]);
        let found = thread::scope(|scope| {
            // No time passes, so that it is what comes that ends the wait.
            let taken = scope.spawn(|| jobs.take(Duration::ZERO, now(0)));
            thread::sleep(Duration::from_millis(2));
            push(&jobs, &[("b", 1)]);
            jobs.wake(1);
            taken.join().unwrap()
        });
        assert_eq!(found.len(), 2);
    }
}
