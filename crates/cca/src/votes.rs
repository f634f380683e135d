//! Votes: what windows of a flow that follow each other tell together.
//!
//! A network looks at windows of one length. Ten of them, one after the other, tell more than each
//! alone, and less than ten that know nothing of each other: neighbours err together. So many count
//! as their correlation leaves, as in a sample of clusters (Kish's design effect).

use std::collections::{BTreeMap, HashMap};

use packet::Span;

use crate::model::{Model, Scratch, Told, most_probable};
use crate::{FlowWay, Period};

/// How long networks take a flow for one that begins. They are trained on what comes after it.
const SETTLED: Span = Span::from_seconds(2);

/// What is known of a flow before some moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    /// So many slots.
    pub slots: usize,
    /// Its connection began with the first of them.
    pub began: bool,
    /// What is known of flows that have been there for long: so many at least.
    pub slots_kept: usize,
}

impl Known {
    /// Slots that can vote: not those of its beginning, unless there are no others.
    fn usable(self, model: &Model, len: usize) -> usize {
        let settled = usize::try_from(model.clock().count(SETTLED)).unwrap_or(usize::MAX);
        let beginning = if self.began { settled } else { 0 };
        Some(self.slots.saturating_sub(beginning)).filter(|&left| left >= len).unwrap_or(self.slots)
    }
}

/// Of each flow what its windows told, by their first slots.
#[derive(Clone, Debug, Default)]
pub struct Votes {
    flows: HashMap<FlowWay, BTreeMap<i64, Vec<f32>>>,
}

impl Votes {
    /// Windows before the slot `end` that are known and have not been added yet. They begin at
    /// whole multiples of their length, so that each is computed once, however often one asks.
    pub fn wanted(&mut self, model: &Model, way: &FlowWay, end: i64, known: Known) -> Vec<Period> {
        let Some(len) = model.longest(usize::MAX) else { return Vec::new() };
        let usable = known.usable(model, len);
        let first = end.saturating_sub_unsigned(usable as u64);
        let windows = self.flows.entry(*way).or_default();
        if known.began || known.slots < known.slots_kept {
            // What lies before is its beginning, or another connection of the same ends.
            *windows = windows.split_off(&first);
        }
        let starts = starts(model, end).take_while(|&start| start >= first);
        let missing = starts.filter(|start| !windows.contains_key(start));
        missing.map(|start| Period { start, len }).collect()
    }

    /// Adds what a window tells.
    pub fn add(
        &mut self,
        model: &Model,
        way: &FlowWay,
        start: i64,
        rows: &[f32],
        scratch: &mut Scratch,
    ) {
        if let Some(vote) = model.log_probabilities(rows, scratch) {
            self.flows.entry(*way).or_default().insert(start, vote);
        }
    }

    /// What the windows before the slot `end` tell together; `None` where there is none.
    #[must_use]
    pub fn told(&self, model: &Model, way: &FlowWay, end: i64) -> Option<Told> {
        let windows = self.flows.get(way)?;
        let (mut sums, mut count) = (vec![0.0_f32; model.controls().len()], 0_u16);
        for vote in starts(model, end).filter_map(|start| windows.get(&start)) {
            count += 1;
            sums.iter_mut().zip(vote).for_each(|(sum, vote)| *sum += vote);
        }
        if count == 0 {
            return None;
        }
        let slots = model.longest(usize::MAX)?;
        // Each that is added is worth what it does not share with the others.
        let shared = 1.0 + f32::from(count - 1) * model.voting().correlation;
        let (control, confidence) = most_probable(&sums, shared)?;
        let is_known = confidence >= model.unknown_below(slots)?;
        let control = is_known.then_some(control);
        Some(Told { control, confidence, slots: slots * usize::from(count) })
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
