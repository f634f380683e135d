//! Rows that are taken slowly hold up captures, whatever way these are read: nothing is dropped,
//! and each packet is processed, malformed, or lost to a fault that is counted.
//!
//! The same on interfaces: `crates/capture/tests/live/overload.rs` and `tests/test_drills.py`.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use engine::columns::{Columns, Schema};
use packet::Timestamp;
use session::Host;
use session::application::Site;
use session::clock::Clock;
use session::outlet::{RowsError, TakeRows};
use session::reading::Inputs;
use session::run::{Doors, InputSettings, Jail, Session, SessionOutcome, read};

#[allow(clippy::disallowed_methods)]
const CLOCK: Clock =
    Clock { now: Instant::now, realtime: || Timestamp::from_ns(1), monotonic: || Duration::ZERO };

const SETTINGS: &str = "[run]\nseed = 1\nquarantine = \"\"\n";
const TABLES: &str = "[flows]\n[top]\nby = \"flow\"\nrows = 0\nwindow = \"20ms\"\n[latency]\n";

/// A consumer that is slower than any disk.
struct SlowDoor(Arc<AtomicU64>);

impl TakeRows for SlowDoor {
    fn begin(&mut self, _: Schema, _: Option<fn(&str)>) -> Result<(), RowsError> {
        Ok(())
    }

    fn take(&mut self, rows: &Columns) -> Result<(), RowsError> {
        thread::sleep(Duration::from_millis(3));
        self.0.fetch_add(rows.row_count() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), RowsError> {
        Ok(())
    }
}

fn demo() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/demo.pcapng")
}

/// What is left of a run over captures on so many threads, and how many rows were taken.
fn ran(settings: &str, captures: &[PathBuf], thread_count: usize) -> (SessionOutcome, u64) {
    let instead = |input: &mut InputSettings| input.take_instead(captures, &[], None);
    let site = Site {
        host: &Host::Program,
        environment: |_| None,
        clock: CLOCK,
        is_live: false,
        input: None,
        takes_rows: true,
    };
    let mut plan = read(Path::new("test.toml"), settings, &instead, &site).ok().unwrap();
    let rows = Arc::<AtomicU64>::default();
    for planned in plan.applications.iter_mut().filter(|planned| planned.wants_door) {
        planned.door = Some(Box::new(SlowDoor(Arc::clone(&rows))));
    }
    let mut request = plan.request();
    request.thread_count = Some(thread_count);
    let inputs = Inputs::find(&request, true, Arc::default()).unwrap();
    let opened = plan.open(&inputs).unwrap();
    let stdout = || Err(std::io::ErrorKind::Unsupported.into());
    let doors = Doors { clock: CLOCK, stdout, tell: None, jail: Jail::Foreign, warn: |_| () };
    let session = Session::begin(plan, inputs, opened, doors, |_, _| ()).unwrap();
    (session.run(|| None, |_| ()).unwrap(), rows.load(Ordering::Relaxed))
}

#[test]
fn captures_wait_for_whoever_takes_rows_and_lose_nothing() {
    let mut found = Vec::new();
    for (captures, thread_count) in
        [(vec![demo()], 1), (vec![demo()], 3), (vec![demo(), demo()], 1), (vec![demo(), demo()], 3)]
    {
        let (outcome, rows) = ran(&format!("{SETTINGS}{TABLES}"), &captures, thread_count);
        let received = &outcome.received;
        assert_eq!(received.report.dropped.total(), 0);
        assert_eq!(received.report.received, 4_944 * captures.len() as u64);
        assert_eq!(outcome.closings.len(), 3);
        for (name, closing) in &outcome.closings {
            assert_eq!(received.account_for(&closing.outcome), Ok(()), "{name}");
            assert_eq!(closing.outcome.faulted, 0, "{name}");
        }
        assert_eq!(outcome.dropped, [], "no row either");
        found.push(rows);
    }
    assert!(found[0] > 1_000, "{found:?}");
    assert_eq!(
        (found[0], found[2]),
        (found[1], found[3]),
        "as many rows on each number of threads"
    );
}

#[test]
fn packets_that_a_fault_costs_are_in_the_account() {
    for thread_count in [1, 3] {
        let simulate = "simulate = [\"fault=latency@500\", \"full-table=64\"]\n";
        let (outcome, _) = ran(&format!("{SETTINGS}{simulate}{TABLES}"), &[demo()], thread_count);
        let mut faulted = Vec::new();
        for (name, closing) in &outcome.closings {
            assert_eq!(outcome.received.account_for(&closing.outcome), Ok(()), "{name}");
            if closing.outcome.faulted > 0 {
                faulted.push(*name);
            }
        }
        assert_eq!(faulted, ["latency"], "on {thread_count} threads");
    }
}
