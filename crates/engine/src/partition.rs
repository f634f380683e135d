//! The 64 fixed partitions. Keys belong to partitions and partitions to
//! threads, so the answer is the same whatever the number of threads.

/// How many partitions there are, on every machine and in every run.
pub const PARTITION_COUNT: usize = 64;

/// Bits of a hash that name the partition: the topmost.
pub const PARTITION_BITS: u32 = PARTITION_COUNT.trailing_zeros();

const _: () = assert!(PARTITION_COUNT.is_power_of_two());

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
