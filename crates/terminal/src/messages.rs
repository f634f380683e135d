//! Messages that would otherwise be written over the screen.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Messages that are kept: the last ones.
const MESSAGES_MAX: usize = 100;

/// Bytes of one that are kept.
const MESSAGE_LEN_MAX: usize = 1_000;

/// Messages for people, put in by any thread while the view is shown. The last 100 are kept; the
/// screen Health lists them, and every screen shows the last until a key is pressed.
#[derive(Clone, Default)]
pub struct Messages(Arc<Mutex<MessageLog>>);

#[derive(Default)]
struct MessageLog {
    /// Messages that were put in so far.
    count: u64,
    last: VecDeque<String>,
}

impl Messages {
    /// Puts one in; the oldest goes where there are too many.
    pub fn put(&self, text: &str) {
        let mut kept = self.lock();
        if kept.last.len() >= MESSAGES_MAX {
            kept.last.pop_front();
        }
        let is_within = |&(at, c): &(usize, char)| at + c.len_utf8() <= MESSAGE_LEN_MAX;
        let text = text.trim().char_indices().take_while(is_within).map(|(_, c)| c).collect();
        kept.last.push_back(text);
        kept.count += 1;
    }

    /// How many were put in so far, and those that are kept, the last one last.
    pub(crate) fn all(&self) -> (u64, Vec<String>) {
        let kept = self.lock();
        (kept.count, kept.last.iter().cloned().collect())
    }

    fn lock(&self) -> MutexGuard<'_, MessageLog> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_messages_are_kept_and_all_are_counted() {
        let messages = Messages::default();
        (0..150).for_each(|at| messages.put(&format!("{at}\n")));
        let (count, kept) = messages.all();
        assert_eq!((count, kept.len()), (150, MESSAGES_MAX));
        assert_eq!(kept.last().unwrap(), "149");
        messages.put(&"é".repeat(2_000));
        assert_eq!(messages.all().1.last().unwrap().len(), MESSAGE_LEN_MAX);
    }
}
