//! Votes: what windows of a flow that follow each other tell together.
//!
//! A network looks at windows of one length. Ten of them, one after the other, tell more than each
//! alone, and less than ten that know nothing of each other: neighbours err together. So many count
//! as their correlation leaves, as in a sample of clusters (Kish's design effect).
//!
//! A model may have an additional network of longer intervals, whose rows are coarser. Its
//! intervals are made of the rows of windows that were read already, and vote as well.

use std::collections::{BTreeMap, HashMap};

use crate::model::{ControlVerdict, Model, Scratch, likeliest};
use crate::{FlowWay, Period, trained};

/// What is known of a flow before some moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowHistory {
    /// So many slots.
    pub slots: usize,
    /// Its connection began with the first of them.
    pub began: bool,
    /// What is known of flows that have been there for long: so many at least.
    pub slots_kept: usize,
}

impl FlowHistory {
    /// Slots that can vote: not those of its beginning, unless there are no others.
    fn usable(self, model: &Model, len: usize) -> usize {
        let settled = trained::settled(model.clock(), self.slots, self.began);
        if settled >= len { settled } else { self.slots }
    }
}

/// What a window showed.
#[derive(Clone, Debug)]
struct Vote {
    /// Of each control the logarithm of its probability.
    told: Vec<f32>,
    /// The same by the longer interval that ends with it, where all of it is known.
    longer: Option<Vec<f32>>,
    /// What longer intervals read of it, until the last of them is reported.
    rows: Vec<f32>,
}

/// Of each flow what its windows showed, by their first slots.
#[derive(Clone, Debug, Default)]
pub struct Votes {
    flows: HashMap<FlowWay, BTreeMap<i64, Vote>>,
    /// Windows that begin before this slot have no vote.
    from: Option<i64>,
}

impl Votes {
    /// Windows before the slot `end` that are known and have not been added yet, in the order in
    /// which they are to be. They begin at whole multiples of their length, so that each is
    /// computed once, however often one asks.
    pub fn wanted(
        &mut self,
        model: &Model,
        way: &FlowWay,
        end: i64,
        known: FlowHistory,
    ) -> Vec<Period> {
        let Some(len) = model.longest(usize::MAX) else { return Vec::new() };
        let usable = known.usable(model, len);
        let first = end.saturating_sub_unsigned(usable as u64);
        let first = self.from.map_or(first, |from| from.max(first));
        let windows = self.flows.entry(*way).or_default();
        if known.began || known.slots < known.slots_kept {
            // What lies before is its beginning, or another connection of the same ends.
            *windows = windows.split_off(&first);
        }
        let starts = starts(model, end).take_while(|&start| start >= first);
        let missing = starts.filter(|start| !windows.contains_key(start));
        let mut missing: Vec<_> = missing.map(|start| Period { start, len }).collect();
        missing.reverse();
        missing
    }

    /// Adds what a window shows.
    pub fn add(
        &mut self,
        model: &Model,
        way: &FlowWay,
        start: i64,
        rows: &[f32],
        scratch: &mut Scratch,
    ) {
        let Some(told) = model.log_probabilities(rows, scratch) else { return };
        let windows = self.flows.entry(*way).or_default();
        let rows = model.longer_rows(rows);
        windows.insert(start, Vote { told, longer: None, rows });
        let Some(rows) = longer_rows(model, windows, start) else { return };
        let longer = model.longer_log_probabilities(&rows, scratch);
        if let Some(vote) = windows.get_mut(&start) {
            vote.longer = longer;
        }
    }

    /// What the windows before the slot `end` tell together; `None` where there is none.
    #[must_use]
    pub fn told(&self, model: &Model, way: &FlowWay, end: i64) -> Option<ControlVerdict> {
        let windows = self.flows.get(way)?;
        let (mut all, mut longer) = (Sum::of(model), Sum::of(model));
        let apart = model.windows_of_longer().unwrap_or(usize::MAX);
        for (at, start) in starts(model, end).enumerate() {
            let Some(vote) = windows.get(&start) else { continue };
            all.add(&vote.told);
            // Longer intervals one after the other, the last of which ends with the last window.
            if let Some(vote) = vote.longer.as_ref().filter(|_| at % apart == 0) {
                longer.add(vote);
            }
        }
        if all.count == 0 {
            return None;
        }
        let slots = model.longest(usize::MAX)?;
        let found = likeliest(&together(model, &all, &longer), 1.0)?;
        ControlVerdict::new(found, slots * usize::from(all.count), model.limits(slots)?)
    }

    /// Up to the slot `end` the queue was unlike those of training, where scores mean nothing:
    /// what was added is forgotten, and of the slots before it nothing is wanted any more, also
    /// where they are still kept when the queue is like those of training again.
    pub fn forget_up_to(&mut self, end: i64) {
        self.flows.clear();
        self.from = Some(end);
    }

    /// Of so many slots before the slot `end` those since the queue was unlike those of training.
    #[must_use]
    pub fn slots_since(&self, end: i64, slots: usize) -> usize {
        let since = |from: i64| usize::try_from(end.saturating_sub(from)).unwrap_or(0);
        self.from.map_or(slots, |from| slots.min(since(from)))
    }

    /// Forgets what no window that ends at the slot `end` or later counts.
    pub fn forget_before(&mut self, model: &Model, end: i64) {
        let Some(first) = starts(model, end).last() else { return };
        self.flows.retain(|_, windows| {
            *windows = windows.split_off(&first);
            !windows.is_empty()
        });
    }
}

/// First slots of the windows that count, the last window first.
fn starts(model: &Model, end: i64) -> impl Iterator<Item = i64> {
    let len = i64::try_from(model.longest(usize::MAX).unwrap_or_default()).unwrap_or(i64::MAX);
    let end = end.div_euclid(len.max(1)).saturating_mul(len);
    let most = i64::from(model.voting().most);
    (1..=most).map(move |back| end.saturating_sub(back.saturating_mul(len)))
}

/// Votes that are added up.
struct Sum {
    sums: Vec<f32>,
    count: u16,
}

impl Sum {
    fn of(model: &Model) -> Self {
        Self { sums: vec![0.0; model.controls().len()], count: 0 }
    }

    fn add(&mut self, vote: &[f32]) {
        self.count += 1;
        self.sums.iter_mut().zip(vote).for_each(|(sum, vote)| *sum += vote);
    }
}

/// A score for each control.
fn together(model: &Model, all: &Sum, longer: &Sum) -> Vec<f32> {
    let voting = model.voting();
    let part = if longer.count == 0 { 1.0 } else { voting.part };
    let (shared, longer_shared) = (voting.shared(all.count), voting.shared(longer.count));
    let score = |(sum, longer): (&f32, &f32)| part * (sum / shared + longer / longer_shared);
    all.sums.iter().zip(&longer.sums).map(score).collect()
}

/// What the longer interval that ends with this window reads, where all its windows are known.
/// Rows of the first of them are read for the last time, as windows come in order.
fn longer_rows(model: &Model, windows: &mut BTreeMap<i64, Vote>, start: i64) -> Option<Vec<f32>> {
    let count = i64::try_from(model.windows_of_longer()?).ok()?;
    let len = i64::try_from(model.longest(usize::MAX)?).ok()?;
    let first = start.saturating_sub(len.saturating_mul(count - 1));
    let mut rows = Vec::new();
    for at in 0..count {
        rows.extend_from_slice(&windows.get(&(first + at * len))?.rows);
    }
    if let Some(vote) = windows.get_mut(&first) {
        vote.rows = Vec::new();
    }
    Some(rows)
}
