//! Packets and bytes by key and by window of event time.
//!
//! Windows are aligned to the epoch. A window is closed when a packet is seen
//! whose stamp lies more than the lateness allowance past the window's end, or
//! at the end of the input. A packet whose window is closed already is *late*:
//! it is counted in the oldest window that is still open, so that totals hold,
//! and it is counted as late. Both are decided packet by packet in the order
//! of reading, so they are the same on any number of threads.

use std::collections::VecDeque;

use packet::{Batch, HashSeed, KeyHash, Span, Timestamp};

use crate::exchange::{Extract, Outlet, Own};
use crate::group::{Grouping, Groups, Order, Outcome, Place};
use crate::remembered::GenerationCache;
use crate::table::Entry as _;

/// How far the stamps of a capture may run backwards before a packet is late.
pub const LATENESS_ALLOWANCE: Span = Span::from_seconds(1);

/// Windows kept open at most for packets out of order; shorter windows get a
/// shorter allowance, so that memory stays bounded.
const OPEN_WINDOWS_MAX: i64 = 64;

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
    latest: Timestamp,
    late: u64,
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
        let allowance =
            LATENESS_ALLOWANCE.min(Span::from_ns(window.as_ns().saturating_mul(OPEN_WINDOWS_MAX)));
        Self {
            grouping,
            seed,
            window,
            allowance,
            open_from: Timestamp::MIN,
            latest: Timestamp::MIN,
            late: 0,
            outcome: Outcome::default(),
        }
    }

    /// Outcome of the packets so far, and how many of them were late.
    #[must_use]
    pub const fn so_far(&self) -> (&Outcome, u64) {
        (&self.outcome, self.late)
    }

    /// Outcome of the packets, and how many of them were late.
    #[must_use]
    pub fn finish(self) -> (Outcome, u64) {
        (self.outcome, self.late)
    }

    /// The window of a packet; moves time on.
    #[inline]
    fn window_of(&mut self, timestamp: Timestamp) -> (Timestamp, bool) {
        let mut closes = false;
        if timestamp > self.latest {
            self.latest = timestamp;
            let open_from = timestamp.minus(self.allowance).window_start(self.window);
            closes = open_from > self.open_from && self.open_from != Timestamp::MIN;
            if closes || self.open_from == Timestamp::MIN {
                self.open_from = open_from;
            }
        }
        let mut start = timestamp.window_start(self.window);
        if start < self.open_from {
            self.late += 1;
            start = self.open_from;
        }
        (start, closes)
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
            if closes {
                out.mark(self.open_from);
            }
            out.item(hash, Item { window_start, place, hash, value });
        }
        // Where nothing comes, time still closes windows; where nothing has come yet, the
        // marks tell those who show windows that there is nothing in them.
        if let Some(time) = batch.tick
            && self.window_of(time).1
        {
            out.mark(self.open_from);
        }
    }

    fn last_mark(&mut self) -> Timestamp {
        Timestamp::MAX
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
        let closed = self.open.iter().take_while(|(start, _)| *start < open_from).count();
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
