//! Whole runs, as settings ask for them: whatever packets come, no application has a fault, and
//! each accounts for every packet.

use std::path::Path;
use std::sync::Arc;
use std::sync::LazyLock;
use std::time::Instant;

use packet::Timestamp;
use session::Host;
use session::application::Site;
use session::clock::Clock;
use session::reading::Inputs;
use session::run::{Doors, Jail, Plan, RunError, Session, SessionOutcome, read};

use crate::promises::assert_one_line;
use crate::ticks::monotonic;

static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Clocks that say the same in each run of an input.
pub const CLOCK: Clock = Clock {
    now: || *BEGAN + monotonic(),
    realtime: || Timestamp::from_ns(1_700_000_000_000_000_000),
    monotonic,
};

/// Ends the process if an application had a fault: a caught panic is a finding here.
fn refuse_faults(line: &str) {
    if line.contains("panicked at") {
        eprintln!("{line}");
        std::process::abort();
    }
}

/// A plan of settings, or nothing if they have a mistake, of which each is a line.
#[must_use]
pub fn plan(settings: &str) -> Option<Plan> {
    let site = Site {
        host: &Host::Program,
        environment: |_| None,
        clock: CLOCK,
        is_live: false,
        input: None,
        takes_rows: false,
    };
    match read(Path::new("wirelens.toml"), settings, &|_| (), &site) {
        Ok(plan) => Some(plan),
        Err(mistakes) => {
            assert!(!mistakes.is_empty(), "refused without a reason");
            mistakes.iter().for_each(|mistake| assert_one_line(mistake));
            None
        }
    }
}

/// Runs what settings ask for to the end; nothing where they are refused.
///
/// # Panics
/// Where an application has a fault, or a packet is in no account.
#[must_use]
pub fn run(settings: &str) -> Option<SessionOutcome> {
    let plan = plan(settings)?;
    let mut request = plan.request();
    request.thread_count = plan.run.threads.map(usize::from);
    let inputs = Inputs::find(&request, true, Arc::default()).expect("captures that are there");
    let opened = plan.open(&inputs).expect("captures that can be read");
    let stdout = || std::fs::File::options().write(true).open("/dev/null");
    // As in a process of others, which is not put into a jail.
    let jail = Jail::Foreign;
    let doors = Doors { clock: CLOCK, stdout, tell: None, jail, warn: refuse_faults };
    let begun = Session::begin(plan, inputs, opened, doors, |_, _| ());
    let outcome = match begun.and_then(|session| session.run(|| None, |_| ())) {
        Ok(outcome) => outcome,
        // What an application cannot do with these captures, such as with none of its flows.
        Err(error @ (RunError::Application(..) | RunError::Begin(_) | RunError::Refused(_))) => {
            assert_one_line(&error);
            return None;
        }
        Err(error) => panic!("a run ends with {error}"),
    };
    outcome.account().expect("each packet is accounted for");
    let faulted: u64 = outcome.closings.iter().map(|(_, end)| end.outcome.faulted).sum();
    assert_eq!((faulted, outcome.losses()), (0, Vec::new()), "{}", outcome.lines());
    Some(outcome)
}
