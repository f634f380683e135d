//! Which processor a thread runs on.
//!
//! The paper's kernels have a core each; so the paper's design and the queues
//! are measured with every thread at a fixed place. Wirelens places nothing:
//! its threads run where the system puts them, here as in use.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors this process may use.
#[derive(Clone, Debug)]
pub(crate) struct Processors {
    indices: Vec<usize>,
}

impl Processors {
    /// Those the system lets us use; asked once, before any thread is placed.
    pub(crate) fn available() -> Self {
        let indices = sched_getaffinity(None).map_or_else(
            |_| Vec::new(),
            |set| (0..CpuSet::MAX_CPU).filter(|&index| set.is_set(index)).collect(),
        );
        Self { indices }
    }

    /// How many there are; at least one.
    pub(crate) fn len(&self) -> usize {
        self.indices.len().max(1)
    }

    /// Puts the calling thread on the processor of this number, counted round.
    /// Where the system refuses, the thread stays where it is: slower, not wrong.
    pub(crate) fn place(&self, number: usize) {
        if let Some(&index) = self.indices.get(number % self.len()) {
            let mut set = CpuSet::new();
            set.set(index);
            let _ = sched_setaffinity(None, &set);
        }
    }
}
