//! How a connection stands: whether the broker is reached, and what fails, each reported once.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What fails.
struct Trouble {
    now: Option<String>,
    /// What was reported last, apart from an absence: of several servers each attempt may fail in
    /// its own way, one after the other.
    reported: Option<String>,
}

const NONE: Trouble = Trouble { now: None, reported: None };

/// How a connection stands.
pub(crate) struct LinkStatus {
    is_connected: AtomicBool,
    was_connected: AtomicBool,
    trouble: Mutex<Trouble>,
    tell: fn(&str),
}

impl LinkStatus {
    pub(crate) const fn new(tell: fn(&str)) -> Self {
        let (is_connected, was_connected) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { is_connected, was_connected, trouble: Mutex::new(NONE), tell }
    }

    fn lock_trouble(&self) -> MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The broker is reached; `more` is what else there is to say of that.
    pub(crate) fn note_connected(&self, more: &str) {
        self.is_connected.store(true, Relaxed);
        *self.lock_trouble() = NONE;
        let again = if self.was_connected.swap(true, Relaxed) { " again" } else { "" };
        (self.tell)(&format!("nats: connected{again}{more}"));
    }

    /// The broker is away; whether it was reached before.
    pub(crate) fn note_away(&self, why: &str, more: &str) -> bool {
        let was_connected = self.is_connected.swap(false, Relaxed);
        let before = self.lock_trouble().now.replace(why.to_owned());
        if was_connected || before.is_none() {
            (self.tell)(&format!("nats: the broker is away ({why}){more}"));
        }
        was_connected
    }

    /// Something fails. Reported once, until something else does or all is well again.
    pub(crate) fn note_trouble(&self, why: &str) {
        let before = {
            let mut trouble = self.lock_trouble();
            trouble.now = Some(why.to_owned());
            trouble.reported.replace(why.to_owned())
        };
        if before.as_deref() != Some(why) {
            (self.tell)(&format!("nats: {why}"));
        }
    }

    /// Nothing fails.
    pub(crate) fn note_well(&self) {
        *self.lock_trouble() = NONE;
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.is_connected.load(Relaxed)
    }

    /// What fails.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.lock_trouble().now.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_that_fail_in_turn_are_each_reported_once() {
        static PRINTED: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let status = LinkStatus::new(|line| PRINTED.lock().unwrap().push(line.to_owned()));
        let printed = || std::mem::take(&mut *PRINTED.lock().unwrap());
        status.note_connected("");
        // One server is gone, another refuses.
        for attempt in 0..5 {
            assert_eq!(status.note_away("IO error", ""), attempt == 0);
            status.note_trouble("refused");
        }
        let wanted = ["connected", "the broker is away (IO error)", "refused"];
        assert_eq!(printed(), wanted.map(|line| format!("nats: {line}")));
        status.note_connected("");
        assert_eq!((printed().concat(), status.trouble()), ("nats: connected again".into(), None));
        status.note_trouble("refused");
        assert_eq!(printed(), ["nats: refused"]);
    }
}
