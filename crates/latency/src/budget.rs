//! What all flows together may keep: a maximum that traffic cannot move.

/// Units of memory that are shared: what one flow takes, no other has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    used: usize,
    max: usize,
}

impl Budget {
    /// So many units.
    #[must_use]
    pub const fn new(max: usize) -> Self {
        Self { used: 0, max }
    }

    /// Takes some units; `false` where there are not as many left, and nothing is taken.
    #[inline]
    pub const fn take(&mut self, count: usize) -> bool {
        let is_left = count <= self.max.saturating_sub(self.used);
        if is_left {
            self.used += count;
        }
        is_left
    }

    /// Gives units back.
    #[inline]
    pub const fn give(&mut self, count: usize) {
        debug_assert!(count <= self.used, "more is given back than was taken");
        self.used = self.used.saturating_sub(count);
    }

    /// Units in use.
    #[must_use]
    pub const fn used(&self) -> usize {
        self.used
    }
}
