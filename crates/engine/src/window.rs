//! Packets and bytes by key and by window of event time.
//!
//! Windows are aligned to the epoch. A window is closed when a packet is seen
//! whose stamp lies more than the lateness allowance past the window's end, or
//! at the end of the input. A packet whose window is closed already is *late*:
//! it is counted in the oldest window that is still open, so that totals hold,
//! and it is counted as late. Both are decided packet by packet in the order
//! of reading, so they are the same on any number of threads.
//!
//! Time is that of [`packet::event_time`]. A packet whose window is closed and that begins an epoch
//! closes all windows; from then on they are counted again, so a window may be there once in each
//! epoch. Windows in which nothing came are none.

use std::collections::VecDeque;

use packet::event_time::STEP_BACK;
use packet::{Batch, EventTime, HashSeed, KeyHash, Span, TimeMove, Timestamp};

use crate::exchange::{Extract, Outlet, Own};
use crate::group::{Grouping, Groups, Order, Outcome, Place};
use crate::remembered::GenerationCache;
use crate::table::Entry as _;

/// How far the stamps of a capture may run backwards before a packet is late.
pub const LATENESS_ALLOWANCE: Span = Span::from_seconds(1);

/// Windows kept open at most for packets out of order; shorter windows get a
/// shorter allowance, so that memory stays bounded.
const OPEN_WINDOWS_MAX: i64 = 64;

/// How far behind the latest stamp a packet of a window of this length may be.
fn allowance(window: Span) -> Span {
    LATENESS_ALLOWANCE.min(Span::from_ns(window.as_ns().saturating_mul(OPEN_WINDOWS_MAX)))
}

/// Windows of this length that are open at the same time, at most: that of the latest stamp, and
/// those that the allowance for late packets reaches: 2 of a second, 65 of a millisecond.
#[must_use]
pub fn open_windows_max(window: Span) -> usize {
    let late = allowance(window).as_ns().unsigned_abs();
    let late = late.div_ceil(window.as_ns().unsigned_abs().max(1));
    usize::try_from(late).unwrap_or(usize::MAX).saturating_add(1)
}

/// The mark that closes all windows, that which begins at the latest stamp included.
const ALL: Timestamp = Timestamp::MAX;

/// One packet on its way to the owner of its key.
#[derive(Clone, Copy, Debug)]
pub struct Item<N, W, V> {
    window_start: Timestamp,
    place: Place<N, W>,
    hash: u64,
    value: V,
}

/// The reading half: finds key and window of each packet.
pub struct WindowExtract<G: Grouping> {
    grouping: G,
    seed: HashSeed,
    window: Span,
    allowance: Span,
    /// Start of the oldest window that is open: everything before is closed.
    open_from: Timestamp,
    time: EventTime,
    late: u64,
    epochs: u64,
    outcome: Outcome,
}

/// The owning half: the open windows of some partitions.
pub struct WindowOwner<G: Grouping> {
    seed: HashSeed,
    key_count_max: usize,
    /// By start, oldest first.
    open: VecDeque<(Timestamp, Groups<G>)>,
    /// What first packets decided, which windows do not end.
    narrow_first: GenerationCache<G::Narrow, bool>,
    wide_first: GenerationCache<G::Wide, bool>,
}

/// Closed windows of one owner, by start.
pub type ClosedWindows<G> = Vec<(Timestamp, Groups<G>)>;

impl<G: Grouping> WindowExtract<G> {
    /// Windows of length `window`, which must be positive.
    #[must_use]
    pub fn new(grouping: G, seed: HashSeed, window: Span) -> Self {
        Self {
            grouping,
            seed,
            window,
            allowance: allowance(window),
            open_from: Timestamp::MIN,
            time: EventTime::new(STEP_BACK),
            late: 0,
            epochs: 0,
            outcome: Outcome::default(),
        }
    }

    /// Outcome of the packets so far, and how many of them were late.
    #[must_use]
    pub const fn so_far(&self) -> (&Outcome, u64) {
        (&self.outcome, self.late)
    }

    /// Epochs after the first.
    #[must_use]
    pub const fn epochs(&self) -> u64 {
        self.epochs
    }

    /// Outcome of the packets, and how many of them were late.
    #[must_use]
    pub fn finish(self) -> (Outcome, u64) {
        (self.outcome, self.late)
    }

    /// The window of a packet, and the windows that it closes: those that start before a time.
    #[inline]
    fn window_of(&mut self, timestamp: Timestamp) -> (Timestamp, Option<Timestamp>) {
        self.time.earn(1);
        let closes = self.move_on(timestamp);
        let start = timestamp.window_start(self.window);
        if start >= self.open_from {
            return (start, closes);
        }
        // In a window that is open no packet is late, however far it is behind.
        if self.time.on_stamp(timestamp) == TimeMove::Epoch {
            self.epochs += 1;
            self.open_from = self.open_from_at(timestamp);
            return (start, Some(ALL));
        }
        self.late += 1;
        (self.open_from, closes)
    }

    /// Time has come so far: the windows that are closed by it.
    #[inline]
    fn move_on(&mut self, time: Timestamp) -> Option<Timestamp> {
        if time <= self.time.latest() {
            return None;
        }
        self.time.on_tick(time);
        let open_from = self.open_from_at(time);
        let is_first = self.open_from == Timestamp::MIN;
        let closes = open_from > self.open_from && !is_first;
        if closes || is_first {
            self.open_from = open_from;
        }
        closes.then_some(open_from)
    }

    const fn open_from_at(&self, time: Timestamp) -> Timestamp {
        time.minus(self.allowance).window_start(self.window)
    }
}

impl<G: Grouping> Extract for WindowExtract<G> {
    type Item = Item<G::Narrow, G::Wide, G::Value>;
    /// Windows that start before this are closed.
    type Mark = Timestamp;

    fn extract(&mut self, batch: &Batch<'_>, out: &mut impl Outlet<Self::Item, Self::Mark>) {
        for frame in batch.frames() {
            let (place, value) = self.grouping.place(&frame, Order::default());
            let hash = match place {
                Place::Narrow(key) => key.key_hash(self.seed),
                Place::Wide(key) => key.key_hash(self.seed),
                Place::Absent => {
                    self.outcome.add_absent(&frame);
                    continue;
                }
            };
            self.outcome.keyed += 1;
            let (window_start, closes) = self.window_of(frame.record.timestamp);
            if let Some(before) = closes {
                out.mark(before);
            }
            out.item(hash, Item { window_start, place, hash, value });
        }
        // Where nothing comes, time still closes windows; where nothing has come yet, the
        // marks tell those who show windows that there is nothing in them.
        if let Some(before) = batch.tick.and_then(|time| self.move_on(time)) {
            out.mark(before);
        }
    }

    fn last_mark(&mut self) -> Timestamp {
        ALL
    }
}

impl<G: Grouping> WindowOwner<G> {
    /// No window yet; at most `key_count_max` keys of each width in each.
    #[must_use]
    pub fn new(seed: HashSeed, key_count_max: usize) -> Self {
        Self {
            seed,
            key_count_max,
            open: VecDeque::new(),
            narrow_first: GenerationCache::new(),
            wide_first: GenerationCache::new(),
        }
    }

    #[inline]
    fn groups_of(&mut self, window_start: Timestamp) -> Option<&mut Groups<G>> {
        // Nearly every packet belongs to the newest window or the one before.
        let newer = self.open.iter().rev().take_while(|(start, _)| *start > window_start).count();
        let at = self.open.len() - newer;
        if at == 0 || self.open.get(at - 1).is_none_or(|(start, _)| *start != window_start) {
            self.open.insert(at, (window_start, Groups::new(self.seed, self.key_count_max)));
            return self.open.get_mut(at).map(|(_, groups)| groups);
        }
        self.open.get_mut(at - 1).map(|(_, groups)| groups)
    }

    /// What its key's first packet decided holds for every one, in whatever window it is. How many
    /// keys were forgotten for it.
    #[inline]
    fn recall(&mut self, item: &mut Item<G::Narrow, G::Wide, G::Value>) -> u64 {
        let Some(own) = item.value.decided() else { return 0 };
        let (decided, forgotten) = match item.place {
            Place::Narrow(key) => self.narrow_first.first(item.hash, key, own),
            Place::Wide(key) => self.wide_first.first(item.hash, key, own),
            Place::Absent => return 0,
        };
        item.value.decide(decided);
        forgotten
    }
}

impl<G: Grouping> Own<Item<G::Narrow, G::Wide, G::Value>, Timestamp> for WindowOwner<G> {
    type Part = ClosedWindows<G>;

    #[inline]
    fn on_item(&mut self, mut item: Item<G::Narrow, G::Wide, G::Value>) {
        let forgotten = self.recall(&mut item);
        let Some(groups) = self.groups_of(item.window_start) else { return };
        match item.place {
            Place::Narrow(key) => groups.narrow.add(item.hash, key, &item.value),
            Place::Wide(key) => groups.wide.add(item.hash, key, &item.value),
            Place::Absent => {}
        }
        groups.forgotten += forgotten;
    }

    fn on_mark(&mut self, open_from: Timestamp) -> ClosedWindows<G> {
        let is_closed = |start: Timestamp| start < open_from || open_from == ALL;
        let closed = self.open.iter().take_while(|(start, _)| is_closed(*start)).count();
        self.open.drain(..closed).collect()
    }
}

/// Folds the parts of all owners into whole windows, oldest first.
#[must_use]
pub fn fold_windows<G: Grouping>(parts: Vec<ClosedWindows<G>>) -> ClosedWindows<G> {
    let mut windows: std::collections::BTreeMap<Timestamp, Groups<G>> =
        std::collections::BTreeMap::new();
    for (start, groups) in parts.into_iter().flatten() {
        match windows.entry(start) {
            std::collections::btree_map::Entry::Vacant(vacant) => {
                vacant.insert(groups);
            }
            std::collections::btree_map::Entry::Occupied(mut occupied) => {
                occupied.get_mut().fold(&groups);
            }
        }
    }
    windows.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::grouping::BySource;

    #[test]
    fn as_many_windows_are_open_as_is_said() {
        for (window_ms, most) in [(1, 65), (15, 65), (16, 64), (700, 3), (1_000, 2), (3_000, 2)] {
            let window = Span::from_ns(window_ms * 1_000_000);
            let mut extract = WindowExtract::new(BySource, HashSeed::new(1), window);
            let (mut open, mut found) = (BTreeSet::new(), 0);
            // A packet each half millisecond, so that no window is empty.
            for at in 0..20_000 {
                let time = Timestamp::from_parts(1_000, 0).plus(Span::from_ns(at * 500_000));
                let (start, closed) = extract.window_of(time);
                open.retain(|&start| closed.is_none_or(|before| start >= before));
                open.insert(start);
                found = found.max(open.len());
            }
            assert_eq!((found, open_windows_max(window)), (most, most), "{window_ms} ms");
        }
    }
}
