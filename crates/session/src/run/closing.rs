//! Applications at the end of a run.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use engine::flow::pass::watched;
use engine::group::Outcome;
use packet::must;

use super::faults::Supervision;
use super::passes::{PassResults, RunResults};
use super::seat::{NO_APPLICATION, Seat};
use super::session::RunError;
use crate::application::{Closing, Refusal, Watcher};

/// What applications say at the end, by their places in the settings; and what failed first.
pub(super) fn close(
    passed: RunResults,
    names: &[&'static str],
    supervision: &Supervision,
) -> (Vec<(usize, Closing)>, Option<RunError>) {
    let RunResults { looked, refusals } = passed;
    let name = |place: usize| must(names.get(place).copied(), "an application has its name");
    let mut closings = Vec::new();
    let mut refused = refusals;
    for PassResults { seats, flows } in looked {
        let mut first: BTreeMap<usize, (Box<dyn Watcher>, Outcome)> = BTreeMap::new();
        for Seat { place, watcher, .. } in seats {
            // It has found nothing that could be reported, and no other is of its kind.
            if place == NO_APPLICATION {
                continue;
            }
            let (watcher, lost) = watcher.into_parts();
            match first.entry(place) {
                Entry::Vacant(entry) => {
                    entry.insert((watcher, lost));
                }
                Entry::Occupied(mut entry) => {
                    let (first, lost_first) = entry.get_mut();
                    lost_first.fold(&lost);
                    let folded = watched(|| first.fold(watcher));
                    let folded = folded.unwrap_or_else(|panic| Err(Refusal::new(panic)));
                    refused.extend(folded.err().map(|error| (place, error)));
                }
            }
        }
        for (place, watcher) in first {
            let whose = (place, name(place).unwrap_or("run"));
            match supervision.close(whose, watcher, &flows) {
                Ok(closing) => closings.push((place, closing)),
                Err(refusal) => refused.push((place, refusal)),
            }
        }
    }
    closings.sort_by_key(|(place, _)| *place);
    refused.sort_by_key(|(place, _)| *place);
    let failure = refused.into_iter().next();
    let failure = failure
        .map(|(place, refusal)| RunError::Application(name(place).unwrap_or("run"), refusal));
    (closings, failure)
}
