//! How the C library's allocator gets memory for large blocks (`mallopt(3)`).

/// Blocks of so many bytes and more have a mapping of their own.
const MAPPED_FROM_BYTES: libc::c_int = 1 << 20;

/// From here on large blocks are mapped, and go back to the kernel when they are freed.
///
/// By default glibc raises its limit to the size of each such block that is freed, up to 32 MiB.
/// From then on large blocks lie in its arenas among small ones, and what is free between them
/// stays resident: a run that keeps the same tables for days would still grow.
pub fn map() {
    // SAFETY: sets a number of the allocator under its own lock, and reads no memory of ours.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM_BYTES) };
}
