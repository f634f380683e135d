//! Verdicts that a program in the kernel gave, taken from in front of the packets.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use packet::{Batch, CutNote, FlowKey, HashSeed, Record};

use super::{IntegerClassifier, IntegerModel};
use crate::classifier::ClassifierCounts;
use crate::judged::{Basis, PacketVerdict};
use crate::pipeline::Judge;

/// Packets by who classified them.
#[derive(Debug, Default)]
pub struct VerdictTally {
    /// The program in the kernel.
    pub by_kernel: AtomicU64,
    /// User space: the program leaves some kinds of packets alone.
    pub by_user: AtomicU64,
}

/// A model that is to replace the one in force; the thread that judges takes it up.
#[derive(Debug, Default)]
pub struct NextModel {
    is_there: AtomicBool,
    model: Mutex<Option<Arc<IntegerModel>>>,
}

impl NextModel {
    /// Offers a model, in place of one that was not taken up yet.
    pub fn put(&self, model: Arc<IntegerModel>) {
        *self.model.lock().unwrap_or_else(PoisonError::into_inner) = Some(model);
        self.is_there.store(true, Ordering::Release);
    }

    fn take(&self) -> Option<Arc<IntegerModel>> {
        if !self.is_there.swap(false, Ordering::Acquire) {
            return None;
        }
        self.model.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Reads verdicts, and judges packets that have none.
///
/// The program and user space have sketches of their own. What the program leaves alone are
/// packets of other flows than those that it judges, but they may be of the same hosts.
pub struct KernelVerdicts {
    secret: u64,
    whole: IntegerClassifier,
    judged_whole: Vec<PacketVerdict>,
    counts: ClassifierCounts,
    tally: Arc<VerdictTally>,
    next: Arc<NextModel>,
}

impl KernelVerdicts {
    /// Before the first packet. The secret is that of the program.
    #[must_use]
    pub fn new(model: Arc<IntegerModel>, seed: HashSeed, secret: u64) -> Self {
        Self {
            secret,
            whole: IntegerClassifier::new(model, seed),
            judged_whole: Vec::new(),
            counts: ClassifierCounts::default(),
            tally: Arc::default(),
            next: Arc::default(),
        }
    }

    /// Who classified how many packets; read while they come.
    #[must_use]
    pub fn tally(&self) -> Arc<VerdictTally> {
        Arc::clone(&self.tally)
    }

    /// Where a model is put that is to replace the one in force.
    #[must_use]
    pub fn next(&self) -> Arc<NextModel> {
        Arc::clone(&self.next)
    }

    /// The outcome of packets so far.
    #[must_use]
    pub fn counts(&self) -> ClassifierCounts {
        self.counts.clone()
    }

    fn judge_whole(&mut self, batch: &Batch<'_>, records: &[Record]) {
        if records.is_empty() {
            return;
        }
        self.whole.judge(&Batch { records, tick: None, ..*batch }, &mut self.judged_whole);
    }
}

impl Judge for KernelVerdicts {
    #[allow(clippy::cast_precision_loss)]
    fn judge(&mut self, batch: &Batch<'_>, judged: &mut Vec<PacketVerdict>) {
        judged.clear();
        if let Some(model) = self.next.take() {
            self.whole.put_model(model);
        }
        let (mut begin, mut by_kernel) = (0, 0);
        for (at, frame) in batch.frames().enumerate() {
            let Some(note) = CutNote::before(frame.record, batch, self.secret) else {
                continue;
            };
            self.judge_whole(batch, batch.records.get(begin..at).unwrap_or_default());
            judged.append(&mut self.judged_whole);
            begin = at + 1;
            by_kernel += 1;
            judged.push(PacketVerdict {
                class: note.class,
                confidence: note.class_weight as f32 / note.all_weight.max(1) as f32,
                basis: if note.is_by_flow { Basis::Flow } else { Basis::Packet },
                flow: FlowKey::from_frame(&frame),
            });
        }
        self.judge_whole(batch, batch.records.get(begin..).unwrap_or_default());
        judged.append(&mut self.judged_whole);
        let by_flow = judged.iter().filter(|judged| judged.basis == Basis::Flow).count() as u64;
        self.counts.by_flow += by_flow;
        self.counts.by_packet += judged.len() as u64 - by_flow;
        self.counts.without_key +=
            judged.iter().filter(|judged| judged.flow.is_none()).count() as u64;
        let add = |counter: &AtomicU64, more| {
            // One thread adds.
            counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        };
        add(&self.tally.by_kernel, by_kernel);
        add(&self.tally.by_user, judged.len() as u64 - by_kernel);
    }
}
