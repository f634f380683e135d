//! What crosses the boundary: texts, handles and panics.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work`; a panic is answered with the default. What it was changing belongs to a handle
/// whose caller gets no error: counts of a router that no longer add up show it.
pub(crate) fn guarded<T: Default>(work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_default()
}

/// The text at `pointer`; empty where it is null, and `None` where it is not UTF-8.
///
/// # Safety
/// `pointer` is null or at a text that ends with a zero byte and stays as it is during `'a`.
unsafe fn text<'a>(pointer: *const c_char) -> Option<&'a str> {
    if pointer.is_null() {
        return Some("");
    }
    // SAFETY: not null, and the caller promises the rest.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().ok()
}

/// Writes as much of `message` as fits, and a zero byte.
///
/// # Safety
/// `to` is null or at `len` bytes that may be written.
pub(crate) unsafe fn write_text(message: &str, to: *mut c_char, len: usize) {
    let Some(room) = len.checked_sub(1).filter(|_| !to.is_null()) else { return };
    let bytes = message.as_bytes();
    let count = bytes.len().min(room);
    // SAFETY: `count` bytes of a slice, to the caller's `len` bytes, of which there are more;
    // a string that is borrowed here cannot overlap bytes that the caller lets us write.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast::<u8>(), count) };
    // SAFETY: `count` is at most `len - 1`.
    let end = unsafe { to.add(count) };
    // SAFETY: within the caller's bytes, as above.
    unsafe { end.write(0) };
}

/// Makes a handle from a text. Null where `make` refuses it; `error` then says why.
///
/// # Safety
/// `written` is null or a text that ends with a zero byte; `error` is null or at `error_len`
/// bytes that may be written.
pub(crate) unsafe fn handle<T, E: fmt::Display>(
    written: *const c_char,
    (error, error_len): (*mut c_char, usize),
    make: impl FnOnce(&str) -> Result<T, E>,
) -> *mut T {
    // SAFETY: as the caller promises; it is not used after this call.
    let written = unsafe { text(written) };
    let made = guarded(|| {
        written.map(|written| make(written).map(Box::new).map_err(|refused| refused.to_string()))
    });
    let refused = match made {
        Some(Ok(value)) => return Box::into_raw(value),
        Some(Err(refused)) => refused,
        None => "wanted a text in UTF-8".to_owned(),
    };
    // SAFETY: as the caller promises.
    unsafe { write_text(&refused, error, error_len) };
    std::ptr::null_mut()
}

/// Frees a handle; null is nothing to free.
///
/// # Safety
/// `pointer` is null or from [`handle`], and is not used again.
pub(crate) unsafe fn free<T>(pointer: *mut T) {
    if !pointer.is_null() {
        // SAFETY: made by `Box::into_raw` in `handle`, and the caller gives it up.
        drop(unsafe { Box::from_raw(pointer) });
    }
}

/// Writes a value to where the caller wants it; null is nowhere.
///
/// # Safety
/// `to` is null or at room for a `T`.
pub(crate) unsafe fn put<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: not null, and the caller promises the room.
        unsafe { to.write(value) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_at_the_boundary() {
        assert_eq!(guarded(|| 7), 7);
        assert_eq!(guarded(|| -> Option<u64> { panic!("shown to a test") }), None);
        let refused = |_: &str| -> Result<u64, String> { panic!("shown to a test") };
        let mut said = [1; 40];
        // SAFETY: no text, and as many bytes as are said.
        let made = unsafe { handle(std::ptr::null(), (said.as_mut_ptr(), 40), refused) };
        assert!(made.is_null() && said.contains(&0));
    }
}
