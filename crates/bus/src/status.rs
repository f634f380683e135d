//! How a connection stands: whether the broker is reached, and what fails, each reported once.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How a connection stands.
pub(crate) struct LinkStatus {
    is_connected: AtomicBool,
    was_connected: AtomicBool,
    trouble: Mutex<Option<String>>,
    tell: fn(&str),
}

impl LinkStatus {
    pub(crate) const fn new(tell: fn(&str)) -> Self {
        let (is_connected, was_connected) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { is_connected, was_connected, trouble: Mutex::new(None), tell }
    }

    fn lock_trouble(&self) -> MutexGuard<'_, Option<String>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The broker is reached; `more` is what else there is to say of that.
    pub(crate) fn note_connected(&self, more: &str) {
        self.is_connected.store(true, Relaxed);
        *self.lock_trouble() = None;
        let again = if self.was_connected.swap(true, Relaxed) { " again" } else { "" };
        (self.tell)(&format!("nats: connected{again}{more}"));
    }

    /// The broker is away; whether it was reached before.
    pub(crate) fn note_away(&self, why: &str, more: &str) -> bool {
        let was_connected = self.is_connected.swap(false, Relaxed);
        let before = self.lock_trouble().replace(why.to_owned());
        if was_connected || before.is_none() {
            (self.tell)(&format!("nats: the broker is away ({why}){more}"));
        }
        was_connected
    }

    /// Something fails. Reported once, until something else does or all is well again.
    pub(crate) fn note_trouble(&self, why: &str) {
        let before = self.lock_trouble().replace(why.to_owned());
        if before.as_deref() != Some(why) {
            (self.tell)(&format!("nats: {why}"));
        }
    }

    /// Nothing fails.
    pub(crate) fn note_well(&self) {
        *self.lock_trouble() = None;
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.is_connected.load(Relaxed)
    }

    /// What fails.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.lock_trouble().clone()
    }
}
