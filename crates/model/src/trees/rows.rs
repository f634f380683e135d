//! What is to be scored.

use super::{Forest, RowError};

/// Rows that a new one is compared with: of a flood, whose flows begin alike, between others.
const COMPARED: usize = 4;

/// Rows for one forest, in words. Made once and used again, it allocates nothing.
///
/// Rows between which no tree distinguishes are kept and scored once, if few others are between
/// them: in a flood, thousands of flows begin with the same packet but for its addresses.
#[derive(Clone, Debug)]
pub struct Rows {
    words: Vec<u32>,
    row_words: usize,
    /// Of each row which of those that are kept it is like.
    kept: Vec<u32>,
}

impl Rows {
    /// No rows yet, with room for so many of `forest`.
    #[must_use]
    pub fn for_forest(forest: &Forest, capacity: usize) -> Self {
        let row_words = forest.nodes.row_words();
        let words = Vec::with_capacity(row_words * capacity);
        Self { words, row_words, kept: Vec::with_capacity(capacity) }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Forgets all of them and keeps the memory.
    pub fn clear(&mut self) {
        self.words.clear();
        self.kept.clear();
    }

    pub(super) const fn row_words(&self) -> usize {
        self.row_words
    }

    /// The rows that are kept.
    pub(super) fn words(&self) -> &[u32] {
        &self.words
    }

    /// Copies what was made of each row that is kept, so many values, to all rows like it.
    pub(super) fn repeat(&self, values: &mut [f64], value_count: usize) {
        // From the last row to the first: a row is like itself or one before it, of which the
        // values are then still there.
        for (row, &kept) in self.kept.iter().enumerate().rev() {
            let from = kept as usize * value_count;
            values.copy_within(from..from + value_count, row * value_count);
        }
    }

    /// Keeps the row that begins here, unless it is like one of the last.
    fn keep(&mut self, start: usize, are_alike: impl Fn(&[u32], &[u32]) -> bool) {
        let (before, row) = self.words.split_at(start);
        let count = before.len() / self.row_words;
        let mut last = before.chunks_exact(self.row_words).rev().take(COMPARED);
        let like = last.position(|before| are_alike(before, row));
        if like.is_some() {
            self.words.truncate(start);
        }
        let kept = like.map_or(count, |back| count - 1 - back);
        self.kept.push(u32::try_from(kept).unwrap_or_default());
    }
}

impl Forest {
    /// Copies a row: the records of a flow's first packets, one behind the other. Packets that are
    /// not there are left out at the end, or zeros: every bit of them is absent.
    ///
    /// # Errors
    /// [`RowError`], where the row is not one of this forest's; then it is not added.
    #[inline]
    pub fn push(&self, rows: &mut Rows, records: &[u8]) -> Result<(), RowError> {
        self.push_with(rows, records, &[])
    }

    /// The same with the numbers in addition to records.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_with(
        &self,
        rows: &mut Rows,
        records: &[u8],
        numbers: &[f64],
    ) -> Result<(), RowError> {
        let wanted = self.records_len();
        if rows.row_words != self.nodes.row_words() {
            return Err(RowError::OtherForest);
        }
        if records.len() > wanted {
            return Err(RowError::RecordsLen { seen: records.len(), wanted });
        }
        if numbers.len() != self.numbers.len() {
            return Err(RowError::NumberCount { seen: numbers.len(), wanted: self.numbers.len() });
        }
        let start = rows.words.len();
        let (words, rest) = records.as_chunks();
        rows.words.extend(words.iter().map(|&word| u32::from_le_bytes(word)));
        let mut last = [0; 4];
        last.iter_mut().zip(rest).for_each(|(to, &from)| *to = from);
        if !rest.is_empty() {
            rows.words.push(u32::from_le_bytes(last));
        }
        rows.words.resize(start + rows.row_words, 0);
        if let Some(row) = rows.words.get_mut(start..) {
            self.number_tests.put(numbers, row);
        }
        rows.keep(start, |one, other| self.nodes.are_alike(one, other));
        Ok(())
    }
}
