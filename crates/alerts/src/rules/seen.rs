//! Combinations of values that were seen before, bounded.

use std::collections::HashSet;
use std::mem;

/// Two generations: what is seen moves into the younger one; when that is half of the maximum, the
/// older one is forgotten. A combination is thus kept while at most half of the maximum others were
/// seen since, without a list in order of use. Forgetting leads to an alert too many, refusing to
/// learn would lead to none at all once an attacker has filled the set.
pub(crate) struct RecentSet {
    young: HashSet<Box<str>>,
    old: HashSet<Box<str>>,
    half: usize,
    /// Combinations that were forgotten.
    pub forgotten: u64,
}

impl RecentSet {
    pub(crate) fn new(max: usize) -> Self {
        let half = (max / 2).max(1);
        Self { young: HashSet::new(), old: HashSet::new(), half, forgotten: 0 }
    }

    /// Whether a combination is new. From now on it is not.
    pub(crate) fn is_new(&mut self, key: &str) -> bool {
        if self.young.contains(key) {
            return false;
        }
        let is_new = !self.old.remove(key);
        if self.young.len() >= self.half {
            let gone = mem::replace(&mut self.old, mem::take(&mut self.young));
            self.forgotten += gone.len() as u64;
        }
        self.young.insert(key.into());
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_not_new() {
        let mut seen = RecentSet::new(100);
        assert!(seen.is_new("a"));
        assert!(!seen.is_new("a"));
        assert!(seen.is_new("b"));
    }

    #[test]
    fn the_set_is_bounded_and_keeps_what_is_in_use() {
        let mut seen = RecentSet::new(100);
        seen.is_new("used");
        for number in 0..1_000 {
            assert!(seen.is_new(&number.to_string()));
            assert!(!seen.is_new("used"), "{number}");
        }
        assert!(seen.young.len() + seen.old.len() <= 100);
        assert!(seen.is_new("0"));
        assert!(seen.forgotten > 800, "{}", seen.forgotten);
    }
}
