//! A map of what was used last, within a budget.

use std::collections::HashMap;
use std::hash::Hash;

/// At most so many values, in two generations of half of them: when the younger one is full, the
/// older one is forgotten. Every step takes constant time in the mean.
#[derive(Clone, Debug)]
pub struct Recent<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    generation_len: usize,
}

impl<K: Eq + Hash, V> Recent<K, V> {
    /// Room for so many values.
    #[must_use]
    pub fn new(values_max: usize) -> Self {
        let generation_len = (values_max / 2).max(1);
        Self { young: HashMap::new(), old: HashMap::new(), generation_len }
    }

    /// Whether there is none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.young.is_empty() && self.old.is_empty()
    }

    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Keeps a value in the place of the one of its key, which is returned; calls `on_forgotten`
    /// with each one of another key that has to go for it.
    pub fn insert(&mut self, key: K, value: V, on_forgotten: impl FnMut(V)) -> Option<V> {
        let before = self.old.remove(&key);
        if self.young.len() >= self.generation_len && !self.young.contains_key(&key) {
            std::mem::swap(&mut self.young, &mut self.old);
            self.young.drain().map(|(_, value)| value).for_each(on_forgotten);
        }
        self.young.insert(key, value).or(before)
    }

    /// All values, in no order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.young.values().chain(self.old.values())
    }

    /// The same, to change.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.young.values_mut().chain(self.old.values_mut())
    }

    /// Takes a value out.
    pub fn take(&mut self, key: &K) -> Option<V> {
        self.young.remove(key).or_else(|| self.old.remove(key))
    }

    /// A value, which counts as used where it was about to be forgotten.
    pub fn get(&mut self, key: &K, on_forgotten: impl FnMut(V)) -> Option<&V>
    where
        K: Clone,
    {
        if let Some(value) = self.old.remove(key) {
            self.insert(key.clone(), value, on_forgotten);
        }
        self.young.get(key)
    }
}
