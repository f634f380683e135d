//! Walks down trees, convolves and encodes, with the vector instructions of the processor that is
//! there.
//!
//! Each [`Path`] gives the same leaves and sums; which one is taken is no part of any result.

use crate::conv::{self, Convolution};
use crate::encoder::Step;
use crate::path::HELD_WORDS_MAX;
pub use crate::path::Path;
use crate::trees::{
    Column, Four, LANE_COUNT, Lanes, Mask, Places, STRIDE, Split, Tree, descend, follow,
    follow_fours, name, pack,
};

/// Fewer lanes than this are walked one by one: a vector would be mostly empty.
const VECTOR_LANES_MIN: usize = 4;

/// All outputs of a convolution, step by step; `input` has a step of zeros before and behind.
pub(crate) fn convolve(
    path: Path,
    layer: &Convolution,
    input: &[f32],
    output: &mut Vec<[f32; conv::LANES]>,
) {
    #[cfg(target_arch = "x86_64")]
    if path != Path::Portable && path.is_there() {
        // SAFETY: the processor has AVX2, as every one has that has more.
        return unsafe { x86::convolve_avx2(layer, input, output) };
    }
    conv::convolve::<2>(layer, input, output);
}

/// A step of an encoder; sums have one order, and each product is added with one rounding.
pub(crate) fn encode(path: Path, step: Step<'_>) {
    #[cfg(target_arch = "x86_64")]
    if path.is_there() {
        match path {
            // SAFETY: the processor has AVX-512.
            Path::Avx512 | Path::Avx512Vbmi => return unsafe { x86::encode_avx512(step) },
            Path::Avx2 if is_x86_feature_detected!("fma") => {
                // SAFETY: the processor has AVX2 and FMA.
                return unsafe { x86::encode_avx2(step) };
            }
            Path::Avx2 | Path::Portable => {}
        }
    }
    step.compute::<false>();
}

/// For each lane the leaf at which it ends.
#[inline]
pub(crate) fn walk(path: Path, lanes: &Lanes<'_>, leaves: &mut [u32; LANE_COUNT]) {
    #[cfg(target_arch = "x86_64")]
    if lanes.count() >= VECTOR_LANES_MIN && path.is_there() {
        match path {
            Path::Avx512 | Path::Avx512Vbmi => {
                // SAFETY: the processor has AVX-512.
                return unsafe { x86::walk_avx512(lanes, leaves) };
            }
            // SAFETY: the processor has AVX2.
            Path::Avx2 => return unsafe { x86::walk_avx2(lanes, leaves) },
            Path::Portable => {}
        }
    }
    lanes.walk(leaves);
}

/// For each row the number of the leaf of a small tree at which it ends.
#[inline]
pub(crate) fn slice(
    path: Path,
    splits: &[Split],
    bits: &[u64],
    places: &mut Places,
    numbers: &mut [u8; LANE_COUNT],
) {
    #[cfg(target_arch = "x86_64")]
    if path.is_there() {
        match path {
            Path::Avx512 | Path::Avx512Vbmi => {
                // SAFETY: the processor has AVX-512, of words and of bytes.
                return unsafe { x86::slice_avx512(splits, bits, places, numbers) };
            }
            // SAFETY: the processor has AVX2.
            Path::Avx2 => return unsafe { x86::slice_avx2(splits, bits, places, numbers) },
            Path::Portable => {}
        }
    }
    name(descend(splits, bits, places), numbers);
}

/// Packs the bits of a row that masks have into bytes that are zeros.
#[inline]
pub(crate) fn pack_row(path: Path, row: &[u32], masks: &[Mask], packed: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if path == Path::Avx512Vbmi && path.is_there() {
        // SAFETY: the processor has BMI2.
        return unsafe { x86::pack(row, masks, packed) };
    }
    pack(row, masks, packed);
}

/// For each small tree the number of the leaf at which a packed row ends. The root's next is a
/// leaf after so many doublings.
#[inline]
pub(crate) fn whole_trees(
    path: Path,
    (trees, pages): (&[Tree], &[Column]),
    packed: &[u8],
    doublings: u32,
    numbers: &mut [u8; LANE_COUNT],
) {
    #[cfg(target_arch = "x86_64")]
    if path == Path::Avx512Vbmi && path.is_there() {
        let x86 = match doublings {
            0..=3 => x86::whole_trees::<3>,
            4 => x86::whole_trees::<4>,
            5 => x86::whole_trees::<5>,
            _ => x86::whole_trees::<7>,
        };
        // SAFETY: the processor has AVX-512, of bytes as well, and VBMI.
        return unsafe { x86(trees, pages, packed, numbers) };
    }
    follow(trees, pages, packed, numbers);
}

/// The same for trees of sixteen splits at most, four together.
#[inline]
pub(crate) fn fours(
    path: Path,
    (trees, far): (&[Four], &[u64]),
    packed: &[u8],
    doublings: u32,
    numbers: &mut [u8; LANE_COUNT],
) {
    #[cfg(target_arch = "x86_64")]
    if path == Path::Avx512Vbmi && path.is_there() {
        let x86 = match (doublings, packed.len() / crate::trees::PAGE_LEN) {
            (0..=3, 1) => x86::fours::<3, 1>,
            (0..=3, 2) => x86::fours::<3, 2>,
            (0..=3, _) => x86::fours::<3, 4>,
            (_, 1) => x86::fours::<4, 1>,
            (_, 2) => x86::fours::<4, 2>,
            (_, _) => x86::fours::<4, 4>,
        };
        // SAFETY: the processor has AVX-512, of bytes as well, and VBMI.
        return unsafe { x86(trees, far, packed, numbers) };
    }
    follow_fours(trees, far, packed, numbers);
}

/// Asks memory for what will be read soon.
#[inline]
pub(crate) fn fetch<T>(items: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for line in items.chunks((64 / size_of::<T>()).max(1)) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint changes nothing, and the slice makes the address a valid one.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{
        Column, Convolution, Four, HELD_WORDS_MAX, LANE_COUNT, Lanes, Mask, Places, STRIDE, Split,
        Step, Tree, descend, name,
    };
    use crate::conv;
    use crate::trees::{LEAF, LEAF_BYTE, PAGE_LEN, TOGETHER};

    /// Seven groups of two steps are fourteen of sixteen registers.
    #[target_feature(enable = "avx2")]
    pub(super) fn convolve_avx2(
        layer: &Convolution,
        input: &[f32],
        output: &mut Vec<[f32; conv::LANES]>,
    ) {
        conv::convolve::<7>(layer, input, output);
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn encode_avx2(step: Step<'_>) {
        step.compute::<false>();
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn encode_avx512(step: Step<'_>) {
        step.compute::<true>();
    }

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

    /// Some vectors of lanes together, so that each waits for memory while the others do.
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

    #[target_feature(enable = "avx2")]
    pub(super) fn slice_avx2(
        splits: &[Split],
        bits: &[u64],
        places: &mut Places,
        numbers: &mut [u8; LANE_COUNT],
    ) {
        name(descend(splits, bits, places), numbers);
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn slice_avx512(
        splits: &[Split],
        bits: &[u64],
        places: &mut Places,
        numbers: &mut [u8; LANE_COUNT],
    ) {
        name_avx512(descend(splits, bits, places), numbers);
    }

    /// As [`name`]: the planes are found side by side, and numbers put together from them by
    /// masked additions.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn name_avx512(leaves: &[u64], numbers: &mut [u8; LANE_COUNT]) {
        let zero = _mm512_setzero_si512();
        let (mut all, mut planes) = (zero, [zero; 8]);
        for (index, four) in leaves.chunks(4 * STRIDE).enumerate() {
            let eight = |at: usize| words(four.get(at * STRIDE..).unwrap_or_default());
            let (first, second, third, fourth) = (eight(0), eight(1), eight(2), eight(3));
            let later = _mm512_or_si512(third, fourth);
            planes[3] = _mm512_or_si512(planes[3], _mm512_or_si512(second, fourth));
            planes[4] = _mm512_or_si512(planes[4], later);
            let any = _mm512_or_si512(_mm512_or_si512(first, second), later);
            all = _mm512_or_si512(all, any);
            let (is_odd, is_late) = ((index & 1) as u8 * 0xff, (index >> 1 & 1) as u8 * 0xff);
            planes[5] = _mm512_mask_or_epi64(planes[5], is_odd, planes[5], any);
            planes[6] = _mm512_mask_or_epi64(planes[6], is_late, planes[6], any);
        }
        planes[0] = _mm512_maskz_mov_epi64(0b1010_1010, all);
        planes[1] = _mm512_maskz_mov_epi64(0b1100_1100, all);
        planes[2] = _mm512_maskz_mov_epi64(0b1111_0000, all);
        let (planes, mut words) = (any_of_each(planes), [0_u64; 8]);
        // SAFETY: eight words are there; the store asks for no alignment.
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), planes) };
        let mut found = zero;
        for (bit, &plane) in words[..7].iter().enumerate() {
            found = _mm512_mask_add_epi8(found, plane, found, _mm512_set1_epi8(1 << bit));
        }
        // SAFETY: 64 bytes are there; the store asks for no alignment.
        unsafe { _mm512_storeu_si512(numbers.as_mut_ptr().cast(), found) };
    }

    /// Up to eight words; where there are fewer, zeros follow.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn words(from: &[u64]) -> __m512i {
        let mask = ((1_u16 << from.len().min(8)) - 1) as u8;
        // SAFETY: words that are not there are masked.
        unsafe { _mm512_maskz_loadu_epi64(mask, from.as_ptr().cast()) }
    }

    /// In word `n` all words of vector `n`, by *or*.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn any_of_each(vectors: [__m512i; 8]) -> __m512i {
        let pair = |at: usize| {
            let (even, odd) = (vectors[at], vectors[at + 1]);
            _mm512_or_si512(_mm512_unpacklo_epi64(even, odd), _mm512_unpackhi_epi64(even, odd))
        };
        let halves = |first, second| {
            let even = _mm512_shuffle_i64x2::<0b10_00_10_00>(first, second);
            _mm512_or_si512(even, _mm512_shuffle_i64x2::<0b11_01_11_01>(first, second))
        };
        halves(halves(pair(0), pair(2)), halves(pair(4), pair(6)))
    }

    #[target_feature(enable = "bmi2")]
    pub(super) fn pack(row: &[u32], masks: &[Mask], packed: &mut [u8]) {
        let mut eights = packed.as_chunks_mut::<8>().0.iter_mut();
        let (mut waiting, mut count) = (0_u64, 0);
        for &Mask { column, bits: mask } in masks {
            let column = column as usize;
            let word = |at: usize| row.get(at).copied().map_or(0, u64::from);
            let found = _pext_u64(word(column * 2) | word(column * 2 + 1) << 32, mask);
            waiting |= found << count;
            count += mask.count_ones();
            if count >= 64 {
                count -= 64;
                if let Some(eight) = eights.next() {
                    *eight = waiting.to_le_bytes();
                }
                // What did not fit, which is nothing where all did.
                waiting = found.checked_shr(mask.count_ones() - count).unwrap_or(0);
            }
        }
        if let Some(eight) = eights.next() {
            *eight = waiting.to_le_bytes();
        }
    }

    /// 64 bytes of a longer array.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn bytes(from: &[u8], at: usize) -> __m512i {
        let from = &from[at..][..64];
        // SAFETY: 64 bytes are there; the load asks for no alignment.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) fn whole_trees<const DOUBLINGS: usize>(
        trees: &[Tree],
        pages: &[Column],
        packed: &[u8],
        numbers: &mut [u8; LANE_COUNT],
    ) {
        let page = (bytes(packed, 0), bytes(packed, 64));
        for (index, (tree, number)) in trees.iter().zip(numbers).enumerate() {
            let next = |at: usize| {
                let place = bytes(&tree.bytes, at);
                let mut found = _mm512_permutex2var_epi8(page.0, place, page.1);
                if let Some(pages) = pages.get(index) {
                    found = other_pages(bytes(pages, at), packed, place, found);
                }
                let is_right = _mm512_test_epi8_mask(found, bytes(&tree.bits, at));
                let left = bytes(&tree.left, at);
                _mm512_mask_mov_epi8(left, is_right, bytes(&tree.right, at))
            };
            let (mut first, mut second) = (next(0), next(64));
            // The number of a split has the highest bit, and a look-up makes no use of that; a
            // leaf stays what it is.
            for _ in 1..DOUBLINGS {
                let (goes_on, also) = (_mm512_movepi8_mask(first), _mm512_movepi8_mask(second));
                let then = _mm512_mask2_permutex2var_epi8(first, first, goes_on, second);
                second = _mm512_mask2_permutex2var_epi8(first, second, also, second);
                first = then;
            }
            let goes_on = _mm512_movepi8_mask(first);
            let last = _mm512_mask2_permutex2var_epi8(first, first, goes_on, second);
            *number = _mm512_cvtsi512_si32(last) as u8;
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) fn fours<const DOUBLINGS: usize, const PAGES: usize>(
        fours: &[Four],
        far: &[u64],
        packed: &[u8],
        numbers: &mut [u8; LANE_COUNT],
    ) {
        let page = |at: usize| {
            let at = at.min(PAGES - 1) * PAGE_LEN;
            (bytes(packed, at), bytes(packed, at + 64))
        };
        let pages = [page(0), page(1), page(2), page(3)];
        let look_up = |at: usize, place| {
            let (low, high) = pages[at];
            _mm512_permutex2var_epi8(low, place, high)
        };
        let leaf = _mm512_set1_epi8(LEAF_BYTE.cast_signed());
        let roots = _mm512_set1_epi32(0x3020_1000);
        let each = fours.iter().zip(numbers.as_chunks_mut::<TOGETHER>().0);
        for (index, (four, to)) in each.enumerate() {
            let place = bytes(&four.bytes, 0);
            let mut found = look_up(0, place);
            if PAGES > 1 {
                // The highest bit of a place makes no difference to a look-up.
                let is_second = _mm512_movepi8_mask(place);
                found = _mm512_mask_mov_epi8(found, is_second, look_up(1, place));
                if PAGES > 2 {
                    let is_far = far.get(index).copied().unwrap_or(0);
                    let third = look_up(2, place);
                    let there = _mm512_mask_mov_epi8(third, is_second, look_up(3, place));
                    found = _mm512_mask_mov_epi8(found, is_far, there);
                }
            }
            let is_right = _mm512_test_epi8_mask(found, bytes(&four.bits, 0));
            let left = bytes(&four.left, 0);
            let mut next = _mm512_mask_mov_epi8(left, is_right, bytes(&four.right, 0));
            for _ in 0..DOUBLINGS {
                let goes_on = _mm512_testn_epi8_mask(next, leaf);
                next = _mm512_mask_shuffle_epi8(next, goes_on, next, next);
            }
            let four = _mm512_permutexvar_epi8(roots, _mm512_andnot_si512(leaf, next));
            *to = _mm512_cvtsi512_si32(four).to_le_bytes();
        }
    }

    /// What was found on the first page, or of each split what is on its own.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn other_pages(pages: __m512i, packed: &[u8], place: __m512i, found: __m512i) -> __m512i {
        let mut found = found;
        for (number, page) in packed.chunks_exact(PAGE_LEN).enumerate().skip(1) {
            let is_here = _mm512_cmpeq_epi8_mask(pages, _mm512_set1_epi8(number as i8));
            let here = _mm512_permutex2var_epi8(bytes(page, 0), place, bytes(page, 64));
            found = _mm512_mask_mov_epi8(found, is_here, here);
        }
        found
    }
}
