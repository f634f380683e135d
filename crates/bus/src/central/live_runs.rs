//! Runs that publish under one name, as far as several do so at the same time.

use std::collections::VecDeque;
use std::time::Duration;

/// Runs of a name that are distinguished from new ones.
const RUNS_MAX: usize = 8;

/// A run that is replaced may send its last metrics after the first ones of the next; one that
/// comes back more often than that has not been replaced.
const RETURNS_MIN: u32 = 2;

/// Runs of a sensor by metrics that came as they were sent: stored rows of the past say nothing of
/// who publishes now.
#[derive(Default)]
pub(super) struct LiveRuns {
    /// The latest is the last.
    runs: VecDeque<String>,
    /// How often one came that another had followed.
    returns: u32,
    returned: Duration,
}

impl LiveRuns {
    /// Whether metrics of this run came before.
    pub(super) fn has(&self, run: &str) -> bool {
        self.runs.iter().any(|known| known == run)
    }

    /// Metrics of a run come; the other run, where it shows just now that several publish.
    pub(super) fn hear(&mut self, run: &str, now: Duration) -> Option<String> {
        if self.runs.back().is_some_and(|latest| latest == run) {
            return None;
        }
        let was_shared = self.is_shared();
        if let Some(at) = self.runs.iter().position(|known| known == run) {
            self.runs.remove(at);
            (self.returns, self.returned) = (self.returns.saturating_add(1), now);
        } else if self.runs.len() == RUNS_MAX {
            self.runs.pop_front();
        }
        let other = self.runs.back().cloned();
        self.runs.push_back(run.to_owned());
        other.filter(|_| self.is_shared() && !was_shared)
    }

    /// Whether several publish.
    pub(super) const fn is_shared(&self) -> bool {
        self.returns >= RETURNS_MIN
    }

    /// Where none has come back for so long, one publishes: whether that is new.
    pub(super) fn look(&mut self, calm: Duration, now: Duration) -> bool {
        let is_calm = self.returns > 0 && now.saturating_sub(self.returned) >= calm;
        let is_over = is_calm && self.is_shared();
        if is_calm {
            self.returns = 0;
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Duration = Duration::from_secs(30);

    /// Metrics of these runs, ten seconds apart: after which of them several publish.
    fn heard(runs: &mut LiveRuns, names: &str) -> Vec<usize> {
        let at = |at: usize| Duration::from_secs(10 * at as u64);
        let names = names.split(' ').enumerate();
        names.filter_map(|(place, run)| runs.hear(run, at(place)).map(|_| place)).collect()
    }

    #[test]
    fn runs_that_alternate_share_a_name_and_runs_that_follow_do_not() {
        for (names, wanted) in [
            ("a", &[] as &[usize]),
            ("a a b b c d e f g h i j a b", &[]),
            // The last metrics of a run come late.
            ("a b a b", &[3]),
            ("a b a", &[]),
            ("a a b b a a b b a b", &[6]),
            // Of three.
            ("a b c a b c", &[4]),
        ] {
            let mut runs = LiveRuns::default();
            assert_eq!(heard(&mut runs, names), wanted, "{names}");
            assert!(runs.runs.len() <= RUNS_MAX);
        }
    }

    #[test]
    fn a_name_that_one_has_given_up_is_no_longer_shared() {
        let mut runs = LiveRuns::default();
        assert_eq!(heard(&mut runs, "a b a b"), [3]);
        assert!(runs.is_shared() && !runs.look(CALM, Duration::from_secs(59)));
        assert!(runs.look(CALM, Duration::from_secs(60)) && !runs.is_shared());
        assert!(!runs.look(CALM, Duration::from_secs(90)));
        assert_eq!(heard(&mut runs, "a b"), [1], "again");
    }
}
