//! What is to be scored.

use super::{Forest, RowError};

/// Rows for one forest, in words. Made once and used again, it allocates nothing.
#[derive(Clone, Debug)]
pub struct Rows {
    words: Vec<u32>,
    row_words: usize,
    count: usize,
}

impl Rows {
    /// No rows yet, with room for so many of `forest`.
    #[must_use]
    pub fn for_forest(forest: &Forest, capacity: usize) -> Self {
        let row_words = forest.nodes.row_words();
        Self { words: Vec::with_capacity(row_words * capacity), row_words, count: 0 }
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Forgets all of them and keeps the memory.
    pub fn clear(&mut self) {
        self.words.clear();
        self.count = 0;
    }

    pub(super) const fn row_words(&self) -> usize {
        self.row_words
    }

    pub(super) fn words(&self) -> &[u32] {
        &self.words
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
        rows.count += 1;
        if let Some(row) = rows.words.get_mut(start..) {
            self.number_tests.put(numbers, row);
        }
        Ok(())
    }
}
