//! Ways to walk down trees, by the vector instructions that a processor has.

/// Words of a row that three registers of AVX-512 hold: of one packet it has 36.
pub(crate) const HELD_WORDS_MAX: usize = 48;

/// A way to walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Path {
    /// Eight walks in turns, on any processor.
    Portable,
    /// Vectors of eight walks.
    Avx2,
    /// Vectors of sixteen walks.
    Avx512,
    /// The same, and bytes looked up in registers.
    Avx512Vbmi,
}

impl Path {
    /// All, from the simplest on.
    pub const ALL: [Self; 4] = [Self::Portable, Self::Avx2, Self::Avx512, Self::Avx512Vbmi];

    /// The word for it in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Avx512Vbmi => "avx512-vbmi",
        }
    }

    /// Whether this processor has it.
    #[must_use]
    pub fn is_there(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        match self {
            Self::Portable => true,
            Self::Avx2 => is_x86_feature_detected!("avx2"),
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")
            }
            Self::Avx512Vbmi => {
                Self::Avx512.is_there()
                    && is_x86_feature_detected!("avx512vbmi")
                    && is_x86_feature_detected!("bmi2")
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        matches!(self, Self::Portable)
    }

    /// Whether it answers all splits of a small tree in one step.
    pub(crate) const fn looks_up_bytes(self) -> bool {
        matches!(self, Self::Avx512Vbmi)
    }

    /// Whether one row of so many words goes down many trees sooner than many rows down one.
    pub(crate) const fn prefers_one_row(self, row_words: usize) -> bool {
        matches!(self, Self::Avx512 | Self::Avx512Vbmi) && row_words <= HELD_WORDS_MAX
    }

    /// The fastest that this processor has.
    #[must_use]
    pub fn best() -> Self {
        let there = Self::ALL.into_iter().rev().find(|path| path.is_there());
        there.unwrap_or(Self::Portable)
    }
}
