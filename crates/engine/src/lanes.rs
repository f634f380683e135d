//! One stream, examined by several threads, in order where order matters.
//!
//! A [`Lane`] takes in every item of a stream, in order; lanes run side by side, and each may name
//! others that have to be done with an item before it. Any thread takes the lane that is furthest
//! behind: threads are busy however unequal lanes are, and what a lane sees does not depend on how
//! many threads there are.
//!
//! **Bounds.** As many items are read ahead as are said; who reads waits while the first of them is
//! still needed. An item that all are done with is handed back to be refilled.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::run::{shard, spawn};

/// What is done with each item of a stream.
pub trait Lane<T>: Send {
    /// Takes in the next item.
    fn on_item(&mut self, item: &T);
}

/// A lane, and the places of those that go before it.
pub struct LaneNode<L> {
    /// What is done.
    pub lane: L,
    /// Lanes that have to be done with an item before this one; they stand before it.
    pub after: Vec<usize>,
}

/// Where all lanes are.
struct Board<T> {
    /// The number of the first item that is kept.
    first: u64,
    items: VecDeque<Arc<T>>,
    /// Of each lane: the item that it takes next.
    next: Vec<u64>,
    /// Of each lane: whether a thread is at it.
    is_busy: Vec<bool>,
    /// Items that are refilled.
    spare: Vec<T>,
    /// Whether the stream has ended.
    has_ended: bool,
    /// Whether a thread has panicked.
    has_failed: bool,
}

/// What all threads share.
struct Shared<L, T> {
    lanes: Vec<LaneNode<Mutex<L>>>,
    board: Mutex<Board<T>>,
    changed: Condvar,
}

impl<T> Board<T> {
    /// The lane that is furthest behind among those that have an item, and the item.
    fn ready<L>(&self, lanes: &[LaneNode<L>]) -> Option<(usize, Arc<T>)> {
        let last = self.first + self.items.len() as u64;
        let of = |lane: usize| self.next.get(lane).copied().unwrap_or_default();
        let is_ready = |&lane: &usize| {
            let next = of(lane);
            let is_free = !self.is_busy.get(lane).copied().unwrap_or(true);
            let after = lanes.get(lane).map_or(&[][..], |placed| &placed.after);
            is_free && next < last && after.iter().all(|&before| of(before) > next)
        };
        let lane = (0..lanes.len()).filter(is_ready).min_by_key(|&lane| of(lane))?;
        let at = usize::try_from(of(lane) - self.first).ok()?;
        self.items.get(at).map(|item| (lane, Arc::clone(item)))
    }

    fn is_over(&self) -> bool {
        self.has_failed || self.has_ended && self.items.is_empty()
    }

    /// A lane is done with its item.
    fn advance(&mut self, lane: usize) {
        if let (Some(next), Some(is_busy)) = (self.next.get_mut(lane), self.is_busy.get_mut(lane)) {
            *next += 1;
            *is_busy = false;
        }
        while self.next.iter().all(|&next| next > self.first)
            && let Some(item) = self.items.pop_front()
        {
            self.first += 1;
            self.spare.extend(Arc::into_inner(item));
        }
    }
}

impl<L: Lane<T>, T: Send + Sync> Shared<L, T> {
    fn board(&self) -> MutexGuard<'_, Board<T>> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a lane take in its next item.
    fn turn(&self, mut board: MutexGuard<'_, Board<T>>, (lane, item): (usize, Arc<T>)) {
        if let Some(is_busy) = board.is_busy.get_mut(lane) {
            *is_busy = true;
        }
        drop(board);
        if let Some(placed) = self.lanes.get(lane) {
            // A lane is given to one thread at a time, so the lock is never waited for.
            placed.lane.lock().unwrap_or_else(PoisonError::into_inner).on_item(&item);
        }
        drop(item);
        self.board().advance(lane);
        self.changed.notify_all();
    }

    fn wait<'a>(&self, board: MutexGuard<'a, Board<T>>) -> MutexGuard<'a, Board<T>> {
        self.changed.wait(board).unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes whatever lane has something to do, until all are done.
    fn work(&self) {
        let _guard = PanicGuard(self);
        let mut board = self.board();
        while !board.is_over() {
            match board.ready(&self.lanes) {
                Some(ready) => {
                    self.turn(board, ready);
                    board = self.board();
                }
                None => board = self.wait(board),
            }
        }
    }

    /// The same, and reads.
    fn read(&self, ahead_max: usize, mut next: impl FnMut(Option<T>) -> Option<T>) {
        let _guard = PanicGuard(self);
        let mut board = self.board();
        while !board.is_over() {
            let ready = board.ready(&self.lanes);
            let waiting_count = board.items.len();
            // Others have something to do while there is something.
            let is_short = waiting_count < ahead_max.div_ceil(2);
            if !board.has_ended && (is_short || ready.is_none() && waiting_count < ahead_max) {
                drop(ready);
                let spare = board.spare.pop();
                drop(board);
                let item = next(spare);
                board = self.board();
                match item {
                    Some(item) => board.items.push_back(Arc::new(item)),
                    None => board.has_ended = true,
                }
                self.changed.notify_all();
                continue;
            }
            match ready {
                Some(ready) => {
                    self.turn(board, ready);
                    board = self.board();
                }
                None => board = self.wait(board),
            }
        }
    }
}

/// Informs the other threads if one panics, so that they do not wait for it.
struct PanicGuard<'a, L: Lane<T>, T: Send + Sync>(&'a Shared<L, T>);

impl<L: Lane<T>, T: Send + Sync> Drop for PanicGuard<'_, L, T> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.board().has_failed = true;
            self.0.changed.notify_all();
        }
    }
}

/// Runs lanes over a stream on `thread_count` threads, of which the calling one also reads: `next`
/// fills an item, one that was used before where there is one, until the stream ends. At most
/// `ahead_max` are kept. Returns the lanes.
pub fn run_lanes<L, T>(
    lanes: Vec<LaneNode<L>>,
    thread_count: usize,
    ahead_max: usize,
    next: impl FnMut(Option<T>) -> Option<T>,
) -> Vec<L>
where
    L: Lane<T>,
    T: Send + Sync,
{
    let count = lanes.len();
    let in_order = |(at, placed): (usize, &LaneNode<L>)| placed.after.iter().all(|&one| one < at);
    debug_assert!(lanes.iter().enumerate().all(in_order), "lanes wait for those before them");
    let lanes = lanes.into_iter();
    let lanes = lanes.map(|LaneNode { lane, after }| LaneNode { lane: Mutex::new(lane), after });
    let shared = Shared {
        lanes: lanes.collect(),
        board: Mutex::new(Board {
            first: 0,
            items: VecDeque::new(),
            next: vec![0; count],
            is_busy: vec![false; count],
            spare: Vec::new(),
            has_ended: false,
            has_failed: false,
        }),
        changed: Condvar::new(),
    };
    thread::scope(|scope| {
        let helpers: Vec<_> =
            (1..thread_count).map(|at| spawn(scope, shard(at), || shared.work())).collect();
        shared.read(ahead_max.max(1), next);
        for helper in helpers {
            if let Err(panic) = helper.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
    let lanes = shared.lanes.into_iter().map(|placed| placed.lane);
    lanes.map(|lane| lane.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use proptest::prelude::*;

    use super::*;

    /// Notes what it takes in, and how far those were that go before it.
    struct Noting<'a> {
        seen: Vec<u64>,
        done: &'a [AtomicU64],
        place: usize,
        after: Vec<usize>,
        work: u32,
    }

    impl Lane<u64> for Noting<'_> {
        fn on_item(&mut self, &item: &u64) {
            for &one in &self.after {
                assert!(self.done[one].load(Ordering::SeqCst) > item, "waits for lane {one}");
            }
            (0..self.work).for_each(|_| thread::yield_now());
            self.seen.push(item);
            self.done[self.place].fetch_add(1, Ordering::SeqCst);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_lane_takes_in_all_in_order(
            work in prop::collection::vec(0u32..4, 1..7),
            item_count in 0u64..60,
            thread_count in 1usize..6,
            ahead_max in 1usize..6,
        ) {
            let done: Vec<_> = work.iter().map(|_| AtomicU64::new(0)).collect();
            let lanes = work.iter().enumerate().map(|(place, &work)| {
                // Each third waits for those before it.
                let after: Vec<_> = if place % 3 == 2 { (0..place).collect() } else { vec![] };
                let seen = Vec::new();
                let lane = Noting { seen, done: &done, place, after: after.clone(), work };
                LaneNode { lane, after }
            });
            let (mut made, mut filled) = (0, 0);
            let lanes = run_lanes(lanes.collect(), thread_count, ahead_max, |spare| {
                made += u64::from(spare.is_none() && filled < item_count);
                filled += 1;
                (filled <= item_count).then(|| filled - 1)
            });
            prop_assert!(made <= ahead_max as u64, "{made} items were made");
            for lane in lanes {
                prop_assert_eq!(lane.seen, (0..item_count).collect::<Vec<_>>());
            }
        }
    }

    struct Fails;

    impl Lane<u64> for Fails {
        fn on_item(&mut self, &item: &u64) {
            assert!(item < 3, "as planned");
        }
    }

    #[test]
    fn a_panic_ends_all() {
        let lanes = (0..3).map(|_| LaneNode { lane: Fails, after: vec![] }).collect();
        let mut item = 0;
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            run_lanes(lanes, 3, 4, |_| {
                item += 1;
                Some(item)
            });
        }));
        assert!(ran.is_err());
    }
}
