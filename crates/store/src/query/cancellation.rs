//! Queries that are given up before they are done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether the answer to a query is still wanted. Clones are of the same query: one is kept by whom
/// it is answered to, the others are seen between two chunks of rows or two files.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// The answer is no longer wanted.
    pub fn cancel(&self) {
        self.0.store(true, Relaxed);
    }

    /// Whether the query may end, with whatever it has found.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Relaxed)
    }
}
