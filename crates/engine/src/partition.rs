//! The 64 fixed partitions. Keys belong to partitions and partitions to
//! threads, so the answer is the same whatever the number of threads.

/// How many partitions there are, on every machine and in every run.
pub const PARTITION_COUNT: usize = 64;

/// Bits of a hash that name the partition: the topmost.
pub const PARTITION_BITS: u32 = PARTITION_COUNT.trailing_zeros();

const _: () = assert!(PARTITION_COUNT.is_power_of_two());

/// Some of the partitions: those that one of several runs over the same packets keeps.
///
/// With one seed, all shares together keep what one run keeps, tables and their caps included:
/// those are of partitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartitionShare {
    index: usize,
    count: usize,
}

/// One of the 64 partitions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Partition(u8);

impl Partition {
    /// The partition of a key with this hash.
    #[inline]
    #[must_use]
    pub const fn of_hash(hash: u64) -> Self {
        Self((hash >> (u64::BITS - PARTITION_BITS)) as u8)
    }

    /// Its number, below [`PARTITION_COUNT`].
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The owner among `owner_count` threads. Neighbouring partitions have
    /// different owners; the remainder of 64 is spread one by one.
    #[inline]
    #[must_use]
    pub const fn owner(self, owner_count: usize) -> usize {
        if owner_count == 0 { 0 } else { self.index() % owner_count }
    }
}

impl PartitionShare {
    /// Every partition.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// One of `count` shares; none where there is no such share, or where it would be empty.
    #[must_use]
    pub const fn new(index: usize, count: usize) -> Option<Self> {
        if index < count && count <= PARTITION_COUNT { Some(Self { index, count }) } else { None }
    }

    /// Whether it is every partition.
    #[inline]
    #[must_use]
    pub const fn is_whole(self) -> bool {
        self.count == 1
    }

    /// Whether the partition of a key with this hash is in it.
    #[inline]
    #[must_use]
    pub const fn has(self, hash: u64) -> bool {
        self.count == 1 || Partition::of_hash(hash).owner(self.count) == self.index
    }
}

impl Default for PartitionShare {
    fn default() -> Self {
        Self::WHOLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_partition_is_in_one_share() {
        for count in 1..=PARTITION_COUNT {
            let shares: Vec<_> =
                (0..count).filter_map(|at| PartitionShare::new(at, count)).collect();
            assert_eq!(shares.len(), count);
            for partition in 0..PARTITION_COUNT as u64 {
                let hash = partition << (u64::BITS - PARTITION_BITS);
                assert_eq!(shares.iter().filter(|share| share.has(hash)).count(), 1);
            }
        }
        for (index, count) in [(0, 0), (1, 1), (0, PARTITION_COUNT + 1)] {
            assert_eq!(PartitionShare::new(index, count), None);
        }
    }
}
