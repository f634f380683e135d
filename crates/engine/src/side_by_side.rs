//! Runs order-keeping work on several sources at once, each alone on a thread.
//!
//! For sources that share a link: the kernel gives both directions of a flow to
//! one of them, so nothing has to cross between threads. Which source that is,
//! and so in which part a flow is found, differs from run to run; what a part
//! says does not, as long as no cap is touched.

use std::sync::mpsc;
use std::thread;

use packet::Source;

use crate::exchange::{Extract, Own, drive_in_place};
use crate::run::Control;

/// Parts that wait for the thread that takes them, of all sources together.
const PARTS_WAITING_MAX: usize = 64;

/// Runs each source with an extract and an owner of its own. `on_part` receives
/// their parts on the calling thread as they come. Returns the sources and
/// extracts as they ended, in the order of the sources.
pub fn side_by_side<S, E, O>(
    sources: Vec<S>,
    make_extract: impl Fn() -> E + Sync,
    make_owner: impl Fn() -> O + Sync,
    control: &Control,
    mut on_part: impl FnMut(O::Part),
) -> Vec<(S, E)>
where
    S: Source + Send,
    E: Extract + Send,
    O: Own<E::Item, E::Mark>,
{
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel(PARTS_WAITING_MAX);
        let workers: Vec<_> = sources
            .into_iter()
            .map(|mut source| {
                let (mut extract, owner, sender) = (make_extract(), make_owner(), sender.clone());
                scope.spawn(move || {
                    drive_in_place(&mut source, &mut extract, owner, control, |part| {
                        // The taker leaves last; if it is gone the run is being abandoned.
                        let _ = sender.send(part);
                    });
                    (source, extract)
                })
            })
            .collect();
        drop(sender);
        receiver.iter().for_each(&mut on_part);
        let finished = workers.into_iter().map(|worker| match worker.join() {
            Ok(finished) => finished,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        finished.collect()
    })
}
