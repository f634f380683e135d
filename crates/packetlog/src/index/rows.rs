//! The outcome of the packets of a class.

use super::bytes::Numbers;

/// The outcome of the packets of one class while a chunk was filled.
///
/// `seen = stored + lost + passed over`: what was passed over, because the policy keeps nothing
/// of it, is the difference. What was overwritten was in another chunk, which is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClassRow {
    /// The class; [`ClassRow::UNKNOWN`] for numbers that no class has.
    pub class: u16,
    /// Packets that came.
    pub seen_packets: u64,
    /// Their bytes on the wire.
    pub seen_bytes: u64,
    /// Packets that are in the chunk.
    pub stored_packets: u64,
    /// Their bytes on the wire.
    pub stored_bytes: u64,
    /// Their bytes that were kept.
    pub kept_bytes: u64,
    /// Packets that were to be stored and are not.
    pub lost_packets: u64,
    /// Packets of earlier files that were deleted to make room, or by others.
    pub overwritten_packets: u64,
    /// Their bytes that had been kept.
    pub overwritten_bytes: u64,
}

impl ClassRow {
    /// Stands for every class number that was not named.
    pub const UNKNOWN: u16 = u16::MAX;
    /// Bytes of a row in a file.
    pub(crate) const LEN: usize = 72;

    /// Whether there is nothing to say.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self { class: self.class, ..Self::default() }
    }

    pub(crate) fn add(&mut self, more: &Self) {
        let pairs = [
            (&mut self.seen_packets, more.seen_packets),
            (&mut self.seen_bytes, more.seen_bytes),
            (&mut self.stored_packets, more.stored_packets),
            (&mut self.stored_bytes, more.stored_bytes),
            (&mut self.kept_bytes, more.kept_bytes),
            (&mut self.lost_packets, more.lost_packets),
            (&mut self.overwritten_packets, more.overwritten_packets),
            (&mut self.overwritten_bytes, more.overwritten_bytes),
        ];
        for (sum, number) in pairs {
            *sum = sum.saturating_add(number);
        }
    }

    /// What rows say together. Those of a file are its own, also where they are no recorder's.
    pub(crate) fn total(rows: &[Self]) -> Self {
        let mut total = Self::default();
        rows.iter().for_each(|row| total.add(row));
        total
    }

    /// What is more here than in `other`.
    pub(crate) const fn minus(mut self, other: &Self) -> Self {
        self.seen_packets = self.seen_packets.saturating_sub(other.seen_packets);
        self.seen_bytes = self.seen_bytes.saturating_sub(other.seen_bytes);
        self.stored_packets = self.stored_packets.saturating_sub(other.stored_packets);
        self.stored_bytes = self.stored_bytes.saturating_sub(other.stored_bytes);
        self.kept_bytes = self.kept_bytes.saturating_sub(other.kept_bytes);
        self.lost_packets = self.lost_packets.saturating_sub(other.lost_packets);
        self.overwritten_packets =
            self.overwritten_packets.saturating_sub(other.overwritten_packets);
        self.overwritten_bytes = self.overwritten_bytes.saturating_sub(other.overwritten_bytes);
        self
    }

    /// The row of a chunk that could not be stored: its packets are lost.
    pub(crate) const fn into_lost(mut self) -> Self {
        self.lost_packets = self.lost_packets.saturating_add(self.stored_packets);
        (self.stored_packets, self.stored_bytes, self.kept_bytes) = (0, 0, 0);
        self
    }

    /// The row where some of the packets that were taken as stored are lost.
    pub(crate) fn without_stored(mut self, lost: &Self) -> Self {
        let packets = lost.stored_packets.min(self.stored_packets);
        self.stored_packets -= packets;
        self.lost_packets = self.lost_packets.saturating_add(packets);
        self.stored_bytes = self.stored_bytes.saturating_sub(lost.stored_bytes);
        self.kept_bytes = self.kept_bytes.saturating_sub(lost.kept_bytes);
        self
    }

    /// What is to be said of stored packets whose file is gone.
    pub(crate) fn as_overwritten(&self) -> Self {
        Self {
            class: self.class,
            overwritten_packets: self.stored_packets,
            overwritten_bytes: self.kept_bytes,
            ..Self::default()
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.class.to_le_bytes());
        out.extend_from_slice(&[0; 6]);
        let numbers = [
            self.seen_packets,
            self.seen_bytes,
            self.stored_packets,
            self.stored_bytes,
            self.kept_bytes,
            self.lost_packets,
            self.overwritten_packets,
            self.overwritten_bytes,
        ];
        for number in numbers {
            out.extend_from_slice(&number.to_le_bytes());
        }
    }

    pub(crate) fn read(numbers: &mut Numbers<'_>) -> Option<Self> {
        let class = numbers.u16()?;
        numbers.u16()?;
        numbers.u32()?;
        Some(Self {
            class,
            seen_packets: numbers.u64()?,
            seen_bytes: numbers.u64()?,
            stored_packets: numbers.u64()?,
            stored_bytes: numbers.u64()?,
            kept_bytes: numbers.u64()?,
            lost_packets: numbers.u64()?,
            overwritten_packets: numbers.u64()?,
            overwritten_bytes: numbers.u64()?,
        })
    }
}

/// Adds a row to those that are there, by class.
pub(crate) fn add_row(rows: &mut Vec<ClassRow>, more: &ClassRow) {
    match rows.iter_mut().find(|row| row.class == more.class) {
        Some(row) => row.add(more),
        None => rows.push(*more),
    }
}

/// Adds rows to those that are there, by class.
pub(crate) fn add_rows(rows: &mut Vec<ClassRow>, more: &[ClassRow]) {
    for row in more {
        add_row(rows, row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_of_rows_that_someone_else_wrote_ends_at_the_largest_number() {
        let row = |class, packets| ClassRow {
            class,
            stored_packets: packets,
            kept_bytes: 1 << 63,
            ..ClassRow::default()
        };
        let total = ClassRow::total(&[row(0, 3), row(1, 4), row(2, 0)]);
        assert_eq!((total.stored_packets, total.kept_bytes), (7, u64::MAX));
    }
}
