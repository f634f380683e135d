//! Threads that answer for the stages after the first.
//!
//! Rows of a flow go to the thread that its hash names, over a bounded ring, and answers come back
//! to the thread that keeps the flows, which alone decides. So a flow's packets and requests meet
//! where they lie, and what is said does not depend on how many threads there are.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use engine::ring::{self, CHUNK_LEN};
use model::FirstPackets;

use super::elsewhere::StageOutcome;
use super::undecided::PendingFlow;
use crate::cascade::Cascade;
use crate::evidence::Evidence;
use crate::failures::Failures;
use crate::model::Asking;

/// Rows that wait for a consumer at most, besides those it has in hand: some milliseconds of work.
const RING_CAPACITY: usize = 16 * CHUNK_LEN;

/// A row on its way to a consumer.
struct StageQuery {
    place: u32,
    stage: usize,
    packets: FirstPackets,
    evidence: Evidence,
}

/// The threads, as the one that keeps the flows sees them.
pub(super) struct Consumers {
    rings: Vec<ring::Sender<StageQuery, ()>>,
    answers: Receiver<Vec<StageOutcome>>,
    /// What failed, of all threads.
    failures: Arc<Mutex<Failures>>,
    /// Rows that were sent and not answered.
    asked_count: usize,
    threads: Vec<JoinHandle<()>>,
}

impl Consumers {
    /// Rows under way at most, for one consumer.
    pub(super) const ROWS_MAX: usize = RING_CAPACITY + 2 * CHUNK_LEN;

    /// Starts so many threads.
    pub(super) fn start(cascade: &Arc<Cascade>, count: usize) -> Self {
        let (sender, answers) = mpsc::channel();
        let (mut rings, mut threads) = (Vec::new(), Vec::new());
        let failures = Arc::<Mutex<Failures>>::default();
        for _ in 0..count {
            let (ring, rows) = ring::ring(RING_CAPACITY);
            let (cascade, answers) = (Arc::clone(cascade), sender.clone());
            let failures = Arc::clone(&failures);
            rings.push(ring);
            threads.push(thread::spawn(move || consume(&cascade, rows, &answers, &failures)));
        }
        Self { rings, answers, failures, asked_count: 0, threads }
    }

    /// How many there are.
    pub(super) const fn count(&self) -> usize {
        self.rings.len()
    }

    /// What failed so far.
    pub(super) fn failures(&self) -> Failures {
        lock(&self.failures).clone()
    }

    /// Whether no row is under way.
    pub(super) const fn is_idle(&self) -> bool {
        self.asked_count == 0
    }

    fn ring(&mut self, hash: u64) -> Option<&mut ring::Sender<StageQuery, ()>> {
        let count = self.rings.len() as u64;
        // The topmost bits name a partition; these are others.
        let index = (hash & 0xffff_ffff) % count.max(1);
        self.rings.get_mut(usize::try_from(index).unwrap_or(0))
    }

    /// Sends a row, waiting for room where `waits`; whether it was taken.
    pub(super) fn ask(
        &mut self,
        flow: &PendingFlow,
        place: u32,
        stage: usize,
        waits: bool,
    ) -> bool {
        let Some(ring) = self.ring(flow.hash) else { return false };
        if !waits && !ring.has_room() {
            return false;
        }
        // A consumer leaves early only by a panic, which is told when it is waited for.
        let (packets, evidence) = (flow.packets.clone(), flow.evidence(stage));
        let is_taken = ring.push(StageQuery { place, stage, packets, evidence }).is_ok();
        self.asked_count += usize::from(is_taken);
        is_taken
    }

    /// Sends on what waits for company.
    pub(super) fn flush(&mut self) {
        for ring in &mut self.rings {
            let _ = ring.flush();
        }
    }

    /// Answers that are there; where `waits` and rows are under way, at least one, unless no
    /// consumer is left.
    pub(super) fn take(&mut self, waits: bool, answers: &mut Vec<StageOutcome>) {
        if waits && self.asked_count > 0 {
            match self.answers.recv() {
                Ok(some) => answers.extend(some),
                Err(_) => self.asked_count = 0,
            }
        }
        while let Ok(some) = self.answers.try_recv() {
            answers.extend(some);
        }
        self.asked_count = self.asked_count.saturating_sub(answers.len());
    }
}

impl Drop for Consumers {
    fn drop(&mut self) {
        self.rings.clear();
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join()
                && !thread::panicking()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

fn lock(failures: &Mutex<Failures>) -> MutexGuard<'_, Failures> {
    failures.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A consumer's thread: rows in the order in which they came, those of one stage together.
fn consume(
    cascade: &Cascade,
    mut rows: ring::Receiver<StageQuery, ()>,
    answers: &Sender<Vec<StageOutcome>>,
    failures: &Mutex<Failures>,
) {
    let stages = cascade.stages();
    let mut asking: Vec<_> = stages.iter().map(|stage| Asking::new(stage, CHUNK_LEN)).collect();
    while rows.receive(|rows: &[StageQuery], _| {
        let mut answered = Vec::with_capacity(rows.len());
        for (index, (stage, asking)) in stages.iter().zip(&mut asking).enumerate() {
            let of_stage = || rows.iter().filter(|row| row.stage == index);
            of_stage().for_each(|row| asking.push(stage, &row.packets, row.evidence));
            let mut places = of_stage().map(|row| row.place);
            let failure = asking.answer(stage, |answer| {
                let answer = Some(answer);
                let answered_row = |place| StageOutcome { place, stage: index, answer };
                answered.extend(places.next().map(answered_row));
            });
            if let Some(failure) = failure {
                lock(failures).note(stage.name, failure);
            }
        }
        // Whoever keeps the flows leaves last; if it is gone the run is being abandoned.
        let _ = answers.send(answered);
    }) {}
}
