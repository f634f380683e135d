//! Panics that are caught, and what they said.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::sync::Once;

/// What a panic said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Panic {
    /// Its message.
    pub message: String,
    /// The file, the line and the column that it came from.
    pub location: String,
}

/// With the word `panicked`, for which people and tests search what a program says.
impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panicked at {}: {}", self.location, self.message)
    }
}

thread_local! {
    /// Whether this thread runs something whose panic is caught.
    static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
    /// Where its last panic came from.
    static LOCATION: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Longer messages are cut: they go to terminals, and into a comment of a capture.
const MESSAGE_LEN_MAX: usize = 512;

/// Only a hook learns where a panic came from. It keeps that, and prints nothing that the
/// supervisor prints better; all panics that are not caught go to the hook before it, and so do
/// those that are where `RUST_BACKTRACE` asks for more.
fn keep_locations() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            let is_watched = IS_WATCHED.try_with(Cell::get).unwrap_or(false);
            if is_watched {
                note(info);
            }
            let wants_more = || Backtrace::capture().status() == BacktraceStatus::Captured;
            if !is_watched || wants_more() {
                before(info);
            }
        }));
    });
}

fn note(info: &PanicHookInfo<'_>) {
    let location = info.location().map(ToString::to_string).unwrap_or_default();
    // A thread that ends has no such place any more, and is not watched.
    let _ = LOCATION.try_with(|kept| kept.replace(location));
}

/// Does something, and returns what its panic said if it panics.
///
/// The caller answers for what `work` was changing: it is to be used no further before it has been
/// brought into order.
///
/// # Errors
/// [`Panic`]
#[inline]
pub fn watched<T>(work: impl FnOnce() -> T) -> Result<T, Panic> {
    let was_watched = IS_WATCHED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    IS_WATCHED.set(was_watched);
    done.map_err(of_payload)
}

/// Has what [`watched`] catches say where it came from. Once is enough.
pub(super) fn prepare() {
    keep_locations();
}

#[cold]
fn of_payload(payload: Box<dyn Any + Send>) -> Panic {
    let text = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => *text,
        (_, Some(text)) => text,
        _ => "(not a text)",
    };
    let is_plain = |letter: &char| !letter.is_control();
    let mut message: String = text.replace('\n', " ").chars().filter(is_plain).collect();
    message.truncate(message.floor_char_boundary(MESSAGE_LEN_MAX));
    // What else a payload may be might panic when it is dropped.
    std::mem::forget(payload);
    let location = LOCATION.with(RefCell::take);
    Panic { message, location }
}
