//! Byte order of a file or section.

/// Which end of a number comes first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl std::fmt::Display for ByteOrder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Little => "little-endian",
            Self::Big => "big-endian",
        })
    }
}

impl ByteOrder {
    /// The 32-bit number at `at`; 0 past the end. Callers have checked the length,
    /// so that with a constant `at` and a sized array the test folds away.
    #[inline(always)]
    pub(super) fn u32_at(self, bytes: &[u8], at: usize) -> u32 {
        let word = bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
        match self {
            Self::Little => u32::from_le_bytes(word),
            Self::Big => u32::from_be_bytes(word),
        }
    }

    /// The 16-bit number at `at`; 0 past the end.
    #[inline(always)]
    pub(super) fn u16_at(self, bytes: &[u8], at: usize) -> u16 {
        let word = bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
        match self {
            Self::Little => u16::from_le_bytes(word),
            Self::Big => u16::from_be_bytes(word),
        }
    }

    /// The 64-bit number at the start of `bytes`, where it is that long.
    pub(super) fn u64_of(self, bytes: &[u8]) -> Option<u64> {
        let word = *bytes.first_chunk()?;
        Some(match self {
            Self::Little => u64::from_le_bytes(word),
            Self::Big => u64::from_be_bytes(word),
        })
    }

    /// pcapng's 64-bit stamps: two 32-bit words, the high one first in either order.
    #[inline(always)]
    pub(super) fn ticks_at(self, bytes: &[u8], at: usize) -> u64 {
        let high = u64::from(self.u32_at(bytes, at));
        let low = u64::from(self.u32_at(bytes, at.wrapping_add(4)));
        high << 32 | low
    }
}
