//! Walks down trees with the vector instructions of the processor that is there.
//!
//! Each way gives the same leaves; which one is taken is no part of any result.

use crate::trees::{Columns, LANE_COUNT, Lanes, Places, ROW_COUNT, STRIDE, Split, descend, name};

/// A way to walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Path {
    /// Eight walks in turns, on any processor.
    Portable,
    /// Vectors of eight walks.
    Avx2,
    /// Vectors of sixteen walks.
    Avx512,
}

impl Path {
    /// All, from the simplest on.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// The word for it in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// Whether this processor has it.
    #[must_use]
    pub fn is_there(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        match self {
            Self::Portable => true,
            Self::Avx2 => is_x86_feature_detected!("avx2"),
            Self::Avx512 => is_x86_feature_detected!("avx512f"),
        }
        #[cfg(not(target_arch = "x86_64"))]
        matches!(self, Self::Portable)
    }

    /// Whether one row of so many words goes down many trees sooner than many rows down one.
    pub(crate) const fn prefers_one_row(self, row_words: usize) -> bool {
        matches!(self, Self::Avx512) && row_words <= HELD_WORDS_MAX
    }

    pub(crate) fn has_bytes(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self == Self::Avx512
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("bmi2");
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// The fastest that this processor has.
    #[must_use]
    pub fn best() -> Self {
        let there = Self::ALL.into_iter().rev().find(|path| path.is_there());
        there.unwrap_or(Self::Portable)
    }
}

/// Fewer lanes than this are walked one by one: a vector would be mostly empty.
const VECTOR_LANES_MIN: usize = 4;

/// Words of a row that three registers of AVX-512 hold: of one packet it has 36.
const HELD_WORDS_MAX: usize = 48;

/// For each lane the leaf at which it ends.
#[inline]
pub(crate) fn walk(path: Path, lanes: &Lanes<'_>, leaves: &mut [u32; LANE_COUNT]) {
    #[cfg(target_arch = "x86_64")]
    if lanes.count() >= VECTOR_LANES_MIN && path.is_there() {
        match path {
            // SAFETY: the processor has AVX-512.
            Path::Avx512 => return unsafe { x86::walk_avx512(lanes, leaves) },
            // SAFETY: the processor has AVX2.
            Path::Avx2 => return unsafe { x86::walk_avx2(lanes, leaves) },
            Path::Portable => {}
        }
    }
    lanes.walk(leaves);
}

/// For each row the number of the leaf to which it comes.
#[inline]
pub(crate) fn slice(
    path: Path,
    splits: &[Split],
    bits: &[u64],
    places: &mut Places,
    ids: &mut [u8; ROW_COUNT],
) {
    #[cfg(target_arch = "x86_64")]
    if path.is_there() {
        match path {
            // SAFETY: the processor has AVX-512.
            Path::Avx512 => return unsafe { x86::slice_avx512(splits, bits, places, ids) },
            // SAFETY: the processor has AVX2.
            Path::Avx2 => return unsafe { x86::slice_avx2(splits, bits, places, ids) },
            Path::Portable => {}
        }
    }
    slice_portable(splits, bits, places, ids);
}

/// Asks memory for what will be read soon.
#[inline]
pub(crate) fn fetch<T>(items: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for line in items.chunks((64 / size_of::<T>()).max(1)) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, of an address that is valid.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
}

pub(crate) fn pack(row: &[u32], masks: &[u64], bytes: &mut [u8]) {
    unsafe { x86::pack(row, masks, bytes) }
}

pub(crate) fn one_row(
    trees: &[Columns],
    pages: &[[u8; 128]],
    bytes: &[u8],
    doublings: u32,
    ids: &mut [u8; 64],
) {
    unsafe {
        match doublings {
            0..=3 => x86::one_row::<3>(trees, pages, bytes, ids),
            4 => x86::one_row::<4>(trees, pages, bytes, ids),
            5 => x86::one_row::<5>(trees, pages, bytes, ids),
            _ => x86::one_row::<7>(trees, pages, bytes, ids),
        }
    }
}

#[inline(never)]
fn slice_portable(splits: &[Split], bits: &[u64], places: &mut Places, ids: &mut [u8; ROW_COUNT]) {
    descend(splits, bits, places);
    let leaf_count = splits.len() + 1;
    name(&places[..leaf_count.next_multiple_of(STRIDE)], ids);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Columns, Places, ROW_COUNT, STRIDE, Split, descend, name};

    #[target_feature(enable = "bmi2")]
    pub(super) fn pack(row: &[u32], masks: &[u64], bytes: &mut [u8]) {
        let (mut waiting, mut count, mut at) = (0_u64, 0_u32, 0);
        for (index, &mask) in masks.iter().enumerate() {
            let low = row.get(index * 2).copied().unwrap_or(0);
            let high = row.get(index * 2 + 1).copied().unwrap_or(0);
            let word = _pext_u64(u64::from(low) | u64::from(high) << 32, mask);
            waiting |= word << count;
            let more = mask.count_ones();
            if count + more >= 64 {
                bytes[at..at + 8].copy_from_slice(&waiting.to_le_bytes());
                at += 8;
                // A shift by 64 is none.
                waiting = if count == 0 { 0 } else { word >> (64 - count) };
                count = count + more - 64;
            } else {
                count += more;
            }
        }
        bytes[at..at + 8].copy_from_slice(&waiting.to_le_bytes());
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(bytes: &[u8]) -> __m512i {
        let bytes = &bytes[..64];
        // SAFETY: 64 bytes.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) fn one_row<const DOUBLINGS: usize>(
        trees: &[Columns],
        pages: &[[u8; 128]],
        bytes: &[u8],
        ids: &mut [u8; 64],
    ) {
        let (low, high) = (load(bytes), load(&bytes[64..]));
        for (index, (tree, id)) in trees.iter().zip(ids).enumerate() {
            let mut next = [_mm512_setzero_si512(); 2];
            for half in 0..2 {
                let at = half * 64;
                let byte = load(&tree.byte[at..]);
                let mut found = _mm512_permutex2var_epi8(low, byte, high);
                if let Some(pages) = pages.get(index) {
                    let page = load(&pages[at..]);
                    for (number, bytes) in bytes.chunks_exact(128).enumerate().skip(1) {
                        let is_there = _mm512_cmpeq_epi8_mask(page, _mm512_set1_epi8(number as i8));
                        let other = _mm512_permutex2var_epi8(load(bytes), byte, load(&bytes[64..]));
                        found = _mm512_mask_mov_epi8(found, is_there, other);
                    }
                }
                let is_right = _mm512_test_epi8_mask(found, load(&tree.mask[at..]));
                next[half] =
                    _mm512_mask_mov_epi8(load(&tree.left[at..]), is_right, load(&tree.right[at..]));
            }
            let [mut first, mut second] = next;
            for _ in 1..DOUBLINGS {
                let (a, b) = (_mm512_movepi8_mask(first), _mm512_movepi8_mask(second));
                let new = _mm512_mask2_permutex2var_epi8(first, first, a, second);
                second = _mm512_mask2_permutex2var_epi8(first, second, b, second);
                first = new;
            }
            let a = _mm512_movepi8_mask(first);
            first = _mm512_mask2_permutex2var_epi8(first, first, a, second);
            *id = _mm512_cvtsi512_si32(first) as u8;
        }
    }

    #[target_feature(enable = "avx2,bmi1,bmi2")]
    pub(super) fn slice_avx2(
        splits: &[Split],
        bits: &[u64],
        places: &mut Places,
        ids: &mut [u8; ROW_COUNT],
    ) {
        descend(splits, bits, places);
        let leaf_count = splits.len() + 1;
        name(&places[..leaf_count.next_multiple_of(STRIDE)], ids);
    }

    #[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2")]
    pub(super) fn slice_avx512(
        splits: &[Split],
        bits: &[u64],
        places: &mut Places,
        ids: &mut [u8; ROW_COUNT],
    ) {
        descend(splits, bits, places);
        let leaf_count = splits.len() + 1;
        let zero = _mm512_setzero_si512();
        let mut all = zero;
        let mut planes = [zero; 8];
        let count = leaf_count.div_ceil(STRIDE);
        if count == 16 {
            let z = |at: usize| {
                let from = &places[at * 8..][..8];
                // SAFETY: eight words.
                unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
            };
            let or = |a, b| _mm512_or_si512(a, b);
            let mut quads = [zero; 4];
            for quad in 0..4 {
                let (a, b, c, d) = (z(quad * 4), z(quad * 4 + 1), z(quad * 4 + 2), z(quad * 4 + 3));
                let cd = or(c, d);
                planes[3] = or(planes[3], or(b, d));
                planes[4] = or(planes[4], cd);
                quads[quad] = or(or(a, b), cd);
            }
            let high = or(quads[2], quads[3]);
            planes[5] = or(quads[1], quads[3]);
            planes[6] = high;
            all = or(or(quads[0], quads[1]), high);
        } else {
            for (index, eight) in places.as_chunks::<STRIDE>().0.iter().take(count).enumerate() {
                // SAFETY: eight words.
                let eight = unsafe { _mm512_loadu_si512(eight.as_ptr().cast()) };
                all = _mm512_or_si512(all, eight);
                for bit in 0..4 {
                    let mask = if index >> bit & 1 == 1 { u8::MAX } else { 0 };
                    planes[3 + bit] =
                        _mm512_mask_or_epi64(planes[3 + bit], mask, planes[3 + bit], eight);
                }
            }
        }
        planes[0] = _mm512_maskz_mov_epi64(0b1010_1010, all);
        planes[1] = _mm512_maskz_mov_epi64(0b1100_1100, all);
        planes[2] = _mm512_maskz_mov_epi64(0b1111_0000, all);
        // Eight vectors to one that has of each the sum of its lanes.
        let pair = |a, b| _mm512_or_si512(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
        let (p01, p23) = (pair(planes[0], planes[1]), pair(planes[2], planes[3]));
        let (p45, p67) = (pair(planes[4], planes[5]), pair(planes[6], planes[7]));
        let quad = |a, b| {
            _mm512_or_si512(
                _mm512_shuffle_i64x2::<0b10_00_10_00>(a, b),
                _mm512_shuffle_i64x2::<0b11_01_11_01>(a, b),
            )
        };
        let (p0123, p4567) = (quad(p01, p23), quad(p45, p67));
        let words = quad(p0123, p4567);
        let mut planes = [0_u64; 8];
        // SAFETY: eight words.
        unsafe { _mm512_storeu_si512(planes.as_mut_ptr().cast(), words) };
        let mut names = zero;
        for (bit, plane) in planes[..7].iter().enumerate() {
            names = _mm512_mask_add_epi8(names, *plane, names, _mm512_set1_epi8(1 << bit));
        }
        // SAFETY: 64 bytes.
        unsafe { _mm512_storeu_si512(ids.as_mut_ptr().cast(), names) };
    }

    use super::{HELD_WORDS_MAX, LANE_COUNT, Lanes};
    use crate::trees::LEAF;

    /// Sixteen numbers of an array of sixteens.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn sixteen(from: &[u32; LANE_COUNT], vector: usize) -> __m512i {
        let from = &from[vector * 16..][..16];
        // SAFETY: sixteen words are there; the load asks for no alignment.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn walk_avx512(lanes: &Lanes<'_>, leaves: &mut [u32; LANE_COUNT]) {
        if lanes.rows().len() <= HELD_WORDS_MAX {
            let held = Held::new(lanes.rows());
            walk_sixteens(lanes, leaves, |_, word| held.get(word));
        } else {
            let rows = lanes.rows().as_ptr();
            walk_sixteens(lanes, leaves, |is_split, word| {
                let none = _mm512_setzero_si512();
                // SAFETY: a split asks for a bit of a row, and every lane's row is whole.
                unsafe { _mm512_mask_i32gather_epi32::<4>(none, is_split, word, rows.cast()) }
            });
        }
    }

    /// All words of a row of one packet: registers answer sooner than memory, of which a vector
    /// asks sixteen times.
    #[derive(Clone, Copy)]
    struct Held([__m512i; 3]);

    impl Held {
        #[inline]
        #[target_feature(enable = "avx512f")]
        fn new(words: &[u32]) -> Self {
            let mut padded = [0; LANE_COUNT];
            padded.iter_mut().zip(words).for_each(|(to, &word)| *to = word);
            Self([sixteen(&padded, 0), sixteen(&padded, 1), sixteen(&padded, 2)])
        }

        /// The words of these indices, all below 48.
        #[inline]
        #[target_feature(enable = "avx512f")]
        fn get(self, index: __m512i) -> __m512i {
            let Self([first, second, third]) = self;
            let low = _mm512_permutex2var_epi32(first, index, second);
            let is_third = _mm512_cmpgt_epi32_mask(index, _mm512_set1_epi32(31));
            _mm512_mask_permutexvar_epi32(low, is_third, index, third)
        }
    }

    /// `row_words` gives the words of these indices; of lanes that are at a leaf, any.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn walk_sixteens(
        lanes: &Lanes<'_>,
        leaves: &mut [u32; LANE_COUNT],
        row_words: impl Fn(u16, __m512i) -> __m512i + Copy,
    ) {
        let mut first = 0;
        while first < lanes.count().div_ceil(16) {
            if lanes.count() - first * 16 > 16 {
                vectors_avx512::<2>(lanes, first, leaves, row_words);
                first += 2;
            } else {
                vectors_avx512::<1>(lanes, first, leaves, row_words);
                first += 1;
            }
        }
    }

    /// Some vectors of lanes at once, so that each waits for memory while the others do.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn vectors_avx512<const COUNT: usize>(
        lanes: &Lanes<'_>,
        first: usize,
        leaves: &mut [u32; LANE_COUNT],
        row_words: impl Fn(u16, __m512i) -> __m512i,
    ) {
        let nodes = lanes.nodes().words().as_ptr();
        let width = _mm_cvtsi32_si128(lanes.nodes().test_width().cast_signed());
        let mask = _mm512_set1_epi32((1_i32 << lanes.nodes().test_width()) - 1);
        let (one, low, zero) =
            (_mm512_set1_epi32(1), _mm512_set1_epi32(31), _mm512_setzero_si512());
        let (mut bases, mut starts, mut words) = ([zero; COUNT], [zero; COUNT], [zero; COUNT]);
        for at in 0..COUNT {
            bases[at] = sixteen(lanes.bases(), first + at);
            starts[at] = sixteen(lanes.starts(), first + at);
            let root = _mm512_add_epi32(bases[at], one);
            // SAFETY: behind each base stands a root of these nodes, as `Lanes` promises.
            words[at] = unsafe { _mm512_i32gather_epi32::<4>(root, nodes.cast()) };
        }
        loop {
            let mut is_any_split = 0;
            for at in 0..COUNT {
                let node = words[at];
                let is_split = _mm512_cmpge_epi32_mask(node, zero);
                is_any_split |= is_split;
                let bit = _mm512_and_si512(node, mask);
                let word = _mm512_add_epi32(_mm512_srli_epi32::<5>(bit), starts[at]);
                let word = row_words(is_split, word);
                let word = _mm512_srlv_epi32(word, _mm512_and_si512(bit, low));
                let pair = _mm512_slli_epi32::<1>(_mm512_srl_epi32(node, width));
                let is_right = _mm512_and_si512(word, one);
                let next = _mm512_add_epi32(_mm512_add_epi32(bases[at], pair), is_right);
                // SAFETY: both children of a split of these nodes are among them.
                words[at] =
                    unsafe { _mm512_mask_i32gather_epi32::<4>(node, is_split, next, nodes.cast()) };
            }
            if is_any_split == 0 {
                break;
            }
        }
        for (at, word) in words.into_iter().enumerate() {
            let leaf = _mm512_andnot_si512(_mm512_set1_epi32(LEAF.cast_signed()), word);
            let to = &mut leaves[(first + at) * 16..][..16];
            // SAFETY: sixteen words are there; the store asks for no alignment.
            unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), leaf) };
        }
    }

    /// Eight numbers of an array of eights.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn eight(from: &[u32; LANE_COUNT], vector: usize) -> __m256i {
        let from = &from[vector * 8..][..8];
        // SAFETY: eight words are there; the load asks for no alignment.
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn walk_avx2(lanes: &Lanes<'_>, leaves: &mut [u32; LANE_COUNT]) {
        let mut first = 0;
        while first < lanes.count().div_ceil(8) {
            if lanes.count() - first * 8 > 24 {
                vectors_avx2::<4>(lanes, first, leaves);
                first += 4;
            } else {
                vectors_avx2::<1>(lanes, first, leaves);
                first += 1;
            }
        }
    }

    /// As with AVX-512; a lane is a split while its highest bit is not set.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn vectors_avx2<const COUNT: usize>(
        lanes: &Lanes<'_>,
        first: usize,
        leaves: &mut [u32; LANE_COUNT],
    ) {
        let (nodes, rows) = (lanes.nodes().words().as_ptr(), lanes.rows().as_ptr());
        let width = _mm_cvtsi32_si128(lanes.nodes().test_width().cast_signed());
        let mask = _mm256_set1_epi32((1_i32 << lanes.nodes().test_width()) - 1);
        let (one, low, zero) =
            (_mm256_set1_epi32(1), _mm256_set1_epi32(31), _mm256_setzero_si256());
        let (mut bases, mut starts, mut words) = ([zero; COUNT], [zero; COUNT], [zero; COUNT]);
        for at in 0..COUNT {
            bases[at] = eight(lanes.bases(), first + at);
            starts[at] = eight(lanes.starts(), first + at);
            let root = _mm256_add_epi32(bases[at], one);
            // SAFETY: behind each base stands a root of these nodes, as `Lanes` promises.
            words[at] = unsafe { _mm256_i32gather_epi32::<4>(nodes.cast(), root) };
        }
        loop {
            let mut is_any_split = 0;
            for at in 0..COUNT {
                let node = words[at];
                let is_split = _mm256_cmpgt_epi32(node, _mm256_set1_epi32(-1));
                is_any_split |= _mm256_movemask_epi8(is_split);
                let bit = _mm256_and_si256(node, mask);
                let word = _mm256_add_epi32(_mm256_srli_epi32::<5>(bit), starts[at]);
                // SAFETY: a split asks for a bit of a row, and every lane's row is whole.
                let word =
                    unsafe { _mm256_mask_i32gather_epi32::<4>(zero, rows.cast(), word, is_split) };
                let word = _mm256_srlv_epi32(word, _mm256_and_si256(bit, low));
                let pair = _mm256_slli_epi32::<1>(_mm256_srl_epi32(node, width));
                let is_right = _mm256_and_si256(word, one);
                let next = _mm256_add_epi32(_mm256_add_epi32(bases[at], pair), is_right);
                // SAFETY: both children of a split of these nodes are among them.
                words[at] =
                    unsafe { _mm256_mask_i32gather_epi32::<4>(node, nodes.cast(), next, is_split) };
            }
            if is_any_split == 0 {
                break;
            }
        }
        for (at, word) in words.into_iter().enumerate() {
            let leaf = _mm256_andnot_si256(_mm256_set1_epi32(LEAF.cast_signed()), word);
            let to = &mut leaves[(first + at) * 8..][..8];
            // SAFETY: eight words are there; the store asks for no alignment.
            unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), leaf) };
        }
    }
}
