//! A model that predicts latencies, and its use for the packets of one sender.

use std::sync::Arc;

use dualq::{OfQueue, Queue};
use model::encoder::{EncoderState, HeadScratch};

use crate::history::{Follow, History, HistorySettings, Leaving, QUERY_LEN, Query, TOKEN_LEN};
use crate::tuning::{Tuner, TuningError, TuningSettings};

mod file;

pub use file::{FILE_LEN_MAX, FORMAT, Model, ModelError};

/// What a network's output is in ms.
const UNIT_NS: f64 = 100e6;
/// No latency is predicted that is longer: 60 s.
const LATENCY_MAX_NS: f64 = 60e9;

/// Predicts the latency of each packet that leaves a sender, for both queues.
///
/// A prediction depends on the acknowledgements before the packet's batch alone
/// ([`History`]). Memory is bounded by the settings.
#[derive(Debug)]
pub struct Predictor {
    model: Arc<Model>,
    history: History,
    state: EncoderState,
    scratch: HeadScratch,
    /// The encoder's output for the newest token; zeros before the first.
    newest: Vec<f32>,
    encoded: Vec<f32>,
    tuner: Option<Box<Tuner>>,
}

impl Predictor {
    /// Begins without packets.
    ///
    /// # Errors
    /// [`ModelError`]: none for a model that was read; it is checked again here.
    pub fn new(model: Arc<Model>, settings: HistorySettings) -> Result<Self, ModelError> {
        let shape = model.encoder().shape();
        let state = EncoderState::new(shape, model.window()).map_err(ModelError::of_encoder)?;
        let scratch = HeadScratch::new(model.head());
        let history = History::new(settings);
        let newest = vec![0.0; shape.width];
        Ok(Self { model, history, state, scratch, newest, encoded: Vec::new(), tuner: None })
    }

    /// Fine-tunes the model from now on, at intervals; without this nothing is recorded.
    ///
    /// # Errors
    /// [`TuningError`]: settings out of range.
    pub fn tune(&mut self, settings: TuningSettings) -> Result<(), TuningError> {
        self.tuner = Some(Box::new(Tuner::new(settings, self.newest.len())?));
        Ok(())
    }

    /// What fine-tunes the model, if anything does.
    #[must_use]
    pub fn tuner(&self) -> Option<&Tuner> {
        self.tuner.as_deref()
    }

    /// The model that predicts now.
    #[must_use]
    pub const fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// What the sender knows.
    #[must_use]
    pub const fn history(&self) -> &History {
        &self.history
    }

    /// Another model of the same shape from now on, such as one that was fine-tuned: what was
    /// encoded stays, since only linear layers differ. A model of another window or shape begins
    /// with the next tokens. A tuning of the model before that has not ended is stopped.
    pub fn exchange(&mut self, model: Arc<Model>) {
        if let Some(tuner) = &mut self.tuner {
            tuner.stop();
            // Outputs of another encoder are nothing to learn from.
            if model.encoder() != self.model.encoder() || model.window() != self.model.window() {
                tuner.recorder_mut().clear(model.encoder().shape().width);
            }
        }
        self.replace(model);
    }

    fn replace(&mut self, model: Arc<Model>) {
        let shape = model.encoder().shape();
        let is_same =
            shape == self.model.encoder().shape() && model.window() == self.model.window();
        if !is_same && let Ok(state) = EncoderState::new(shape, model.window()) {
            self.state = state;
            self.newest = vec![0.0; shape.width];
        }
        self.scratch = HeadScratch::new(model.head());
        self.model = model;
    }

    /// The latency of a packet that is about to leave by each queue, in ns; none before the first
    /// acknowledgement.
    pub fn predict(&mut self, packet: &Leaving) -> Option<OfQueue<u64>> {
        if self.history.advance(packet.at_ns) {
            self.encode();
            let head = self.model.head();
            let tuned = self.tuner.as_mut().and_then(|tuner| tuner.poll(packet.at_ns, head));
            if let Some(head) = tuned {
                self.replace(Arc::new(self.model.with_head(head)));
            }
        }
        let of = |queue| self.history.query(packet, queue);
        let queries = OfQueue { l4s: of(Queue::L4s), classic: of(Queue::Classic) };
        let mut values = [0.0; 2 * QUERY_LEN];
        let both = queries.l4s.values.iter().chain(&queries.classic.values);
        values.iter_mut().zip(both).for_each(|(to, from)| *to = *from);
        let mut scores = [0.0; 2];
        self.model.head().score(&mut self.scratch, &self.newest, &values, &mut scores).ok()?;
        let [l4s, classic] = scores;
        Some(OfQueue {
            l4s: latency_ns(&queries.l4s, l4s)?,
            classic: latency_ns(&queries.classic, classic)?,
        })
    }

    /// The packet leaves by this queue; its number.
    pub fn leave(&mut self, packet: &Leaving, queue: Queue) -> u64 {
        let Some(tuner) = &mut self.tuner else { return self.history.leave(packet, queue) };
        let query = self.history.query(packet, queue);
        let number = self.history.leave(packet, queue);
        tuner.recorder_mut().leave(number, packet, &self.newest, &query);
        number
    }

    /// A packet was acknowledged, as [`History::acknowledge`] has it.
    pub fn acknowledge(&mut self, number: u64, at_ns: u64, latency_ns: Option<u64>) {
        self.history.acknowledge(number, at_ns, latency_ns);
        if let Some(tuner) = &mut self.tuner {
            tuner.recorder_mut().acknowledge(number, at_ns, latency_ns);
        }
    }

    fn encode(&mut self) {
        let tokens = self.history.tokens();
        let width = self.newest.len();
        self.encoded.resize(tokens.len() * width, 0.0);
        let appended =
            self.model.encoder().append(&mut self.state, tokens.as_flattened(), &mut self.encoded);
        if appended.is_ok()
            && let Some(last) = self.encoded.rchunks(width).next()
        {
            self.newest.copy_from_slice(last);
            if let Some(tuner) = &mut self.tuner {
                tuner.recorder_mut().renew();
            }
        }
    }
}

/// Predictions along a trace, one for each packet.
#[derive(Debug)]
pub struct Predictions {
    /// What predicts.
    pub predictor: Predictor,
    /// What was predicted so far.
    pub found: Vec<Option<OfQueue<u64>>>,
}

impl Follow for Predictions {
    fn acknowledge(&mut self, number: u64, at_ns: u64, latency_ns: Option<u64>) {
        self.predictor.acknowledge(number, at_ns, latency_ns);
    }

    fn leave(&mut self, packet: &Leaving, queue: Queue) -> u64 {
        self.found.push(self.predictor.predict(packet));
        self.predictor.leave(packet, queue)
    }
}

/// Base and what the network adds.
fn latency_ns(query: &Query, score: f32) -> Option<u64> {
    let base_ns = query.base_ns? as f64;
    // An overflow of the network is no prediction.
    let added_ns = f64::from(score) * UNIT_NS;
    added_ns.is_finite().then(|| (base_ns + added_ns).clamp(0.0, LATENCY_MAX_NS).round() as u64)
}

const _: () = assert!(TOKEN_LEN <= model::encoder::TOKEN_LEN_MAX);

#[cfg(test)]
pub(crate) mod tests;
