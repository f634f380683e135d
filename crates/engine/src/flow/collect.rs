//! What is made of flows that have ended: all of them, or the largest.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::record::FlowRecord;

/// Takes in ended flows with what was kept for them.
pub trait Collect<S>: Send {
    /// What is handed over at a mark.
    type Part: Send;

    /// Every flow is wanted: those that are left at the end are handed over
    /// in their table, and not offered.
    const WANTS_ALL: bool;

    /// Takes in a flow of `packets` and `bytes`; the rest is made only where it is wanted.
    fn offer(&mut self, packets: u64, bytes: u64, make: impl FnOnce() -> Option<(FlowRecord, S)>);

    /// Hands over what was collected; `is_last`: nothing more will come.
    fn take(&mut self, is_last: bool) -> Self::Part;
}

/// Every flow, at each mark those that ended before it.
#[derive(Debug)]
pub struct AllFlows<S> {
    ended: Vec<(FlowRecord, S)>,
}

impl<S> Default for AllFlows<S> {
    fn default() -> Self {
        Self { ended: Vec::new() }
    }
}

impl<S: Send> Collect<S> for AllFlows<S> {
    type Part = Vec<(FlowRecord, S)>;
    const WANTS_ALL: bool = true;

    #[inline]
    fn offer(&mut self, _: u64, _: u64, make: impl FnOnce() -> Option<(FlowRecord, S)>) {
        self.ended.extend(make());
    }

    fn take(&mut self, _: bool) -> Self::Part {
        std::mem::take(&mut self.ended)
    }
}

/// The flows of most bytes or packets, at the last mark. Ties are broken by
/// what the flows are, so that every run reports the same ones.
/// `T` is kept with each.
#[derive(Debug)]
pub struct Heaviest<T = ()> {
    flow_count: usize,
    by_packets: bool,
    heap: BinaryHeap<Reverse<Ranked<T>>>,
    least: (u64, u64),
}

#[derive(Debug)]
struct Ranked<T> {
    rank: (u64, u64),
    record: FlowRecord,
    beside: T,
}

impl<T> Ranked<T> {
    fn order(&self) -> impl Ord + use<T> {
        (self.rank, Reverse(self.record.order()))
    }
}

impl<T> PartialEq for Ranked<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl<T> Eq for Ranked<T> {}
impl<T> PartialOrd for Ranked<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Ranked<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

impl<T> Heaviest<T> {
    /// The `flow_count` flows of most bytes, or of most packets.
    #[must_use]
    pub fn new(flow_count: usize, by_packets: bool) -> Self {
        Self { flow_count, by_packets, heap: BinaryHeap::new(), least: (0, 0) }
    }

    /// Takes in a flow.
    #[inline]
    pub fn add(
        &mut self,
        packets: u64,
        bytes: u64,
        make: impl FnOnce() -> Option<(FlowRecord, T)>,
    ) {
        let rank = if self.by_packets { (packets, bytes) } else { (bytes, packets) };
        if rank < self.least {
            return;
        }
        let Some((record, beside)) = make() else { return };
        self.heap.push(Reverse(Ranked { rank, record, beside }));
        if self.heap.len() > self.flow_count {
            self.heap.pop();
            self.least = self.heap.peek().map_or((0, 0), |Reverse(flow)| flow.rank);
        }
    }

    /// The flows, heaviest first.
    #[must_use]
    pub fn take_sorted(&mut self) -> Vec<(FlowRecord, T)> {
        let heap = std::mem::take(&mut self.heap).into_sorted_vec();
        heap.into_iter().map(|Reverse(flow)| (flow.record, flow.beside)).collect()
    }
}

impl Heaviest {
    /// The flows with nothing kept with them, heaviest first.
    #[must_use]
    pub fn take_records(&mut self) -> Vec<FlowRecord> {
        self.take_sorted().into_iter().map(|(record, ())| record).collect()
    }
}

impl<S: Send> Collect<S> for Heaviest {
    type Part = Vec<FlowRecord>;
    const WANTS_ALL: bool = false;

    #[inline]
    fn offer(&mut self, packets: u64, bytes: u64, make: impl FnOnce() -> Option<(FlowRecord, S)>) {
        self.add(packets, bytes, || make().map(|(record, _)| (record, ())));
    }

    fn take(&mut self, is_last: bool) -> Vec<FlowRecord> {
        if is_last { self.take_records() } else { Vec::new() }
    }
}
