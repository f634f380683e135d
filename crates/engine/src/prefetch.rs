//! Hints to the memory system. Nothing here changes what a program computes.

/// Asks for the cache line of `target` ahead of its use.
#[inline(always)]
pub fn prefetch<T>(target: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address is a hint; the reference makes it a valid one.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(target).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = target;
}

/// Asks for every cache line of `target`, which may begin within one.
#[inline(always)]
pub fn prefetch_all<T>(target: &T) {
    const LINE_LEN: usize = 64;
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = std::ptr::from_ref(target).cast::<i8>();
        let end = size_of::<T>().saturating_sub(1);
        for at in (0..end).step_by(LINE_LEN).chain([end]) {
            // SAFETY: a prefetch of any address is a hint, and this one is within the reference's.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(at)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (target, LINE_LEN);
}

/// Asks for huge pages under a large buffer that is about to be filled: random
/// access to a table of many megabytes otherwise misses the TLB each time.
/// Takes the spare capacity, so that the pages are not touched yet.
pub fn prefer_huge_pages<T>(buffer: &mut Vec<T>) {
    const PAGE_LEN: usize = 4096;
    const HUGE_PAGE_LEN: usize = 2 << 20;
    let spare = buffer.spare_capacity_mut();
    let len = size_of_val(spare);
    if len < HUGE_PAGE_LEN {
        return;
    }
    let start = spare.as_mut_ptr().cast::<u8>();
    let skipped = start.align_offset(PAGE_LEN);
    if skipped >= len {
        return;
    }
    let whole_pages_len = (len - skipped) / PAGE_LEN * PAGE_LEN;
    let aligned = start.wrapping_add(skipped);
    #[cfg(target_os = "linux")]
    // SAFETY: the range lies inside this vector's own allocation and is page
    // aligned; MADV_HUGEPAGE changes how it is mapped, not what it holds.
    unsafe {
        // A kernel without huge pages refuses; ordinary pages are as correct.
        libc::madvise(aligned.cast(), whole_pages_len, libc::MADV_HUGEPAGE);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (aligned, whole_pages_len);
}
