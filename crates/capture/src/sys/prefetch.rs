//! A hint to the memory system.

/// Asks for the cache line at `offset` of `bytes`, if there is one.
#[inline(always)]
pub fn prefetch(bytes: &[u8], offset: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address is a hint and cannot fault; the
    // address is computed by wrapping, so it need not lie in the slice.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().wrapping_add(offset).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, offset);
}
