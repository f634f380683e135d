//! Text values of one column.

use std::fmt;

/// Text values end to end in one buffer, as Arrow keeps them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextColumn {
    bytes: String,
    /// One more than there are values; the first is 0.
    offsets: Vec<u32>,
}

impl Default for TextColumn {
    fn default() -> Self {
        Self { bytes: String::new(), offsets: vec![0] }
    }
}

impl TextColumn {
    /// Appends what `value` displays as. False when the buffer is full at 4 GiB.
    pub fn push(&mut self, value: &dyn fmt::Display) -> bool {
        use fmt::Write as _;
        let kept_len = self.bytes.len();
        let written = write!(self.bytes, "{value}");
        self.end(kept_len, written.is_ok())
    }

    /// Appends `value`. False when the buffer is full at 4 GiB.
    #[inline]
    pub fn push_str(&mut self, value: &str) -> bool {
        let kept_len = self.bytes.len();
        self.bytes.push_str(value);
        self.end(kept_len, true)
    }

    #[inline]
    fn end(&mut self, kept_len: usize, is_written: bool) -> bool {
        match u32::try_from(self.bytes.len()) {
            Ok(end) if is_written => {
                self.offsets.push(end);
                true
            }
            _ => {
                self.bytes.truncate(kept_len);
                false
            }
        }
    }

    /// The values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.offsets
            .windows(2)
            .map(|ends| self.bytes.get(ends[0] as usize..ends[1] as usize).unwrap_or_default())
    }

    /// The value of one row, or empty text past the end.
    #[must_use]
    #[inline]
    pub fn get(&self, row: usize) -> &str {
        match (self.offsets.get(row), self.offsets.get(row + 1)) {
            (Some(&start), Some(&end)) => {
                self.bytes.get(start as usize..end as usize).unwrap_or_default()
            }
            _ => "",
        }
    }

    /// All values end to end.
    #[must_use]
    pub fn bytes(&self) -> &str {
        &self.bytes
    }

    /// Where in [`bytes`](Self::bytes) each value begins, and where the last one ends.
    #[must_use]
    pub fn offsets(&self) -> &[u32] {
        &self.offsets
    }

    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets the values from row `len` on.
    pub(super) fn truncate(&mut self, len: usize) {
        self.offsets.truncate(len + 1);
        let end = self.offsets.last().copied().unwrap_or(0);
        self.bytes.truncate(end as usize);
    }
}
