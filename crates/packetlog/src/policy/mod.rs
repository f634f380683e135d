//! What is kept of which packets, and how that is changed while packets come.
//!
//! A [`Table`] never changes. A change of mode is another table under a higher generation; a
//! recorder that stores packets looks for it once a batch, so no packet is kept by half of one
//! table and half of another, and none is lost.

mod granularity;
mod mode;
mod sampler;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use granularity::{Granularity, GranularityError, Keep, Sample, SampleBy, header_len};
pub use mode::{HEADERS_ONE_IN, Mode, ModeError, PARTIAL_LEN};
pub use sampler::Sampler;

/// What is kept of each class, from one change of mode to the next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// Counts changes of mode, from 1.
    pub generation: u64,
    /// Name of the mode.
    pub mode: String,
    /// By index of the class.
    pub granularities: Vec<Granularity>,
}

impl Table {
    /// What is kept of a class; all of one that it does not know.
    #[inline]
    #[must_use]
    pub fn of(&self, class: u16) -> Granularity {
        self.granularities.get(usize::from(class)).copied().unwrap_or(Granularity::FULL)
    }
}

/// What a manager asks of a component that keeps packets by a table.
///
/// Of the pipeline in user space the [`Switch`] answers it. A half in the kernel, which cuts or
/// samples packets before they are copied, has to answer the same, and nothing else: a table comes
/// whole and under a generation, and holds when the receiver confirms it. How it gets there, as the
/// maps of an XDP program or otherwise, is its own business.
pub trait KernelControl: Send + Sync + std::fmt::Debug {
    /// Asks for another mode; returns the generation under which it will be in force.
    fn ask(&self, mode: &str, granularities: Vec<Granularity>) -> u64;

    /// The generation that packets are kept by; 0 before the first.
    fn in_force(&self) -> u64;

    /// Whether any packet that is kept from now on is kept by `generation` or a later one.
    fn holds(&self, generation: u64) -> bool;
}

/// The table in force, shared by those who change it and those who go by it.
#[derive(Debug)]
pub struct Switch {
    table: Mutex<Arc<Table>>,
    asked: AtomicU64,
    in_force: AtomicU64,
    /// Whether packets are being kept at this moment.
    is_at_work: AtomicBool,
}

impl Switch {
    /// Begins with this mode.
    #[must_use]
    pub fn new(mode: &str, granularities: Vec<Granularity>) -> Self {
        let table = Table { generation: 1, mode: mode.to_owned(), granularities };
        let table = Mutex::new(Arc::new(table));
        let is_at_work = AtomicBool::new(false);
        Self { table, asked: AtomicU64::new(1), in_force: AtomicU64::new(0), is_at_work }
    }

    /// The table that packets are to be kept by from now on.
    #[must_use]
    pub fn table(&self) -> Arc<Table> {
        Arc::clone(&self.lock())
    }

    /// For who stores packets, before each batch: the table, if it is another than that of
    /// `generation`. [`pause`](Self::pause) ends the batch.
    #[inline]
    #[must_use]
    pub fn newer(&self, generation: u64) -> Option<Arc<Table>> {
        // One order over both: who asks for a table either sees that a batch is in hand, or is
        // seen by the next one.
        self.is_at_work.store(true, Ordering::SeqCst);
        if self.asked.load(Ordering::SeqCst) == generation {
            return None;
        }
        let table = self.table();
        self.in_force.store(table.generation, Ordering::Release);
        Some(table)
    }

    /// For who stores packets, after each batch.
    #[inline]
    pub fn pause(&self) {
        self.is_at_work.store(false, Ordering::SeqCst);
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Table>> {
        // A table is replaced whole: what a thread left that fell is a table all the same.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KernelControl for Switch {
    fn ask(&self, mode: &str, granularities: Vec<Granularity>) -> u64 {
        let mut table = self.lock();
        let generation = table.generation + 1;
        *table = Arc::new(Table { generation, mode: mode.to_owned(), granularities });
        self.asked.store(generation, Ordering::SeqCst);
        generation
    }

    fn in_force(&self) -> u64 {
        self.in_force.load(Ordering::Acquire)
    }

    /// It was taken up, or no batch is in hand and the next one takes it up.
    fn holds(&self, generation: u64) -> bool {
        self.in_force() >= generation || !self.is_at_work.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen_once() {
        let switch = Switch::new("default", vec![Granularity::HEADER, Granularity::FULL]);
        let first = switch.newer(0).unwrap();
        assert_eq!((first.generation, switch.in_force()), (1, 1));
        assert!(switch.newer(1).is_none());
        assert_eq!(switch.ask("log-all", vec![Granularity::FULL; 2]), 2);
        assert_eq!(switch.in_force(), 1, "nobody went by it yet");
        assert!(!switch.holds(2), "a batch is in hand");
        switch.pause();
        assert!(switch.holds(2), "the next batch goes by it");
        let second = switch.newer(first.generation).unwrap();
        assert_eq!((second.mode.as_str(), switch.in_force()), ("log-all", 2));
        assert!(switch.newer(second.generation).is_none());
    }

    #[test]
    fn a_class_that_no_table_knows_is_kept_whole() {
        let switch = Switch::new("default", vec![Granularity::HEADER]);
        assert_eq!(switch.table().of(7), Granularity::FULL);
    }
}
