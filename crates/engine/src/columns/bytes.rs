//! Byte values of one column.

/// Byte values end to end in one buffer, as Arrow keeps them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BytesColumn {
    bytes: Vec<u8>,
    /// One more than there are values; the first is 0.
    offsets: Vec<u32>,
}

impl Default for BytesColumn {
    fn default() -> Self {
        Self { bytes: Vec::new(), offsets: vec![0] }
    }
}

impl BytesColumn {
    /// Appends `value`. False when the buffer is full at 4 GiB.
    #[inline]
    pub fn push(&mut self, value: &[u8]) -> bool {
        let Ok(end) = u32::try_from(self.bytes.len() + value.len()) else { return false };
        self.bytes.extend_from_slice(value);
        self.offsets.push(end);
        true
    }

    /// The value of one row, or no bytes past the end.
    #[must_use]
    #[inline]
    pub fn get(&self, row: usize) -> &[u8] {
        match (self.offsets.get(row), self.offsets.get(row + 1)) {
            (Some(&start), Some(&end)) => {
                self.bytes.get(start as usize..end as usize).unwrap_or_default()
            }
            _ => &[],
        }
    }

    /// All values end to end.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where in [`bytes`](Self::bytes) each value begins, and where the last one ends.
    #[must_use]
    pub fn offsets(&self) -> &[u32] {
        &self.offsets
    }

    /// Forgets the values from row `len` on.
    pub(super) fn truncate(&mut self, len: usize) {
        self.offsets.truncate(len + 1);
        let end = self.offsets.last().copied().unwrap_or(0);
        self.bytes.truncate(end as usize);
    }
}
