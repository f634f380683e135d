//! A model that predicts latencies, and its use for the packets of one sender.

use std::sync::Arc;

use crate::history::{Follow, History, HistorySettings, QUERY_LEN, Query, SentPacket, TOKEN_LEN};
use crate::tuning::{Tuner, TuningError, TuningSettings};
use dualq::{OfQueue, Queue};

mod file;
mod served;

pub use file::{FILE_LEN_MAX, FORMAT, FORMAT_ONNX, Model, ModelError};
use served::NetworkState;
pub use served::{ExternalNetwork, Score};

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
    served: NetworkState,
    tuner: Option<Box<Tuner>>,
    failed: Option<NetworkFailures>,
}

/// Predictions that are missing because the library that runs a network failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NetworkFailures {
    /// Packets without a prediction.
    pub packets: u64,
    /// What the library said first.
    pub first: ModelError,
}

impl Predictor {
    /// Begins without packets.
    ///
    /// # Errors
    /// [`ModelError`]: none for a model of our own that was read, which is checked again here; of
    /// one that others run, what they say.
    pub fn new(model: Arc<Model>, settings: HistorySettings) -> Result<Self, ModelError> {
        let (served, history) = (NetworkState::new(&model)?, History::new(settings));
        Ok(Self { model, history, served, tuner: None, failed: None })
    }

    /// Fine-tunes the model from now on, at intervals; without this nothing is recorded.
    ///
    /// # Errors
    /// [`TuningError`]: settings out of range, or a model that others run.
    pub fn tune(&mut self, settings: TuningSettings) -> Result<(), TuningError> {
        let tuner = Tuner::new(settings, self.served.output().len())?;
        if self.model.head().is_none() {
            return Err(TuningError::new(
                "a model in ONNX cannot be fine-tuned; wanted: a causal network, which \
                 `wirelens train l4s` trains by default",
            ));
        }
        self.tuner = Some(Box::new(tuner));
        Ok(())
    }

    /// What fine-tunes the model, if anything does.
    #[must_use]
    pub fn tuner(&self) -> Option<&Tuner> {
        self.tuner.as_deref()
    }

    /// Failures of a network that others run, if there were any.
    #[must_use]
    pub const fn failed(&self) -> Option<&NetworkFailures> {
        self.failed.as_ref()
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
    /// with the next tokens. A tuning of the model before that has not ended is stopped, and one
    /// that others run is not fine-tuned any more.
    ///
    /// # Errors
    /// [`ModelError`] as in [`Self::new`]; the model before stays.
    pub fn exchange(&mut self, model: Arc<Model>) -> Result<(), ModelError> {
        if !served::goes_on(&self.model, &model) {
            self.served = NetworkState::new(&model)?;
        }
        self.served.renew_head(&model);
        if let Some(tuner) = &mut self.tuner {
            tuner.stop();
            match model.encoder() {
                None => self.tuner = None,
                // Outputs of another encoder are nothing to learn from.
                encoder @ Some(_)
                    if encoder != self.model.encoder() || model.window() != self.model.window() =>
                {
                    tuner.recorder_mut().clear(self.served.output().len());
                }
                Some(_) => {}
            }
        }
        self.model = model;
        Ok(())
    }

    /// The latency of a packet that is about to leave by each queue, in ns; none before the first
    /// acknowledgement, and where the network fails ([`Self::failed`]).
    pub fn predict(&mut self, packet: &SentPacket) -> Option<OfQueue<u64>> {
        if self.history.advance(packet.at_ns) {
            self.encode();
            let tuner = self.tuner.as_mut().zip(self.model.head());
            if let Some(head) = tuner.and_then(|(tuner, head)| tuner.poll(packet.at_ns, head)) {
                self.model = Arc::new(self.model.with_head(head));
                self.served.renew_head(&self.model);
            }
        }
        let of = |queue| self.history.query(packet, queue);
        let queries = OfQueue { l4s: of(Queue::L4s), classic: of(Queue::Classic) };
        let mut values = [0.0; 2 * QUERY_LEN];
        let both = queries.l4s.values.iter().chain(&queries.classic.values);
        values.iter_mut().zip(both).for_each(|(to, from)| *to = *from);
        let mut scores = [0.0; 2];
        queries.l4s.base_ns?;
        match self.served.score(&self.model, &values, &mut scores) {
            Ok(scored) => scored?,
            Err(first) => {
                self.failed.get_or_insert(NetworkFailures { packets: 0, first }).packets += 1;
                return None;
            }
        }
        let [l4s, classic] = scores;
        Some(OfQueue {
            l4s: latency_ns(&queries.l4s, l4s)?,
            classic: latency_ns(&queries.classic, classic)?,
        })
    }

    /// The packet leaves by this queue; its number.
    pub fn leave(&mut self, packet: &SentPacket, queue: Queue) -> u64 {
        let Some(tuner) = &mut self.tuner else { return self.history.leave(packet, queue) };
        let query = self.history.query(packet, queue);
        let number = self.history.leave(packet, queue);
        tuner.recorder_mut().leave(number, packet, self.served.output(), &query);
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
        let is_new = self.served.take(&self.model, self.history.tokens());
        if is_new && let Some(tuner) = &mut self.tuner {
            tuner.recorder_mut().renew();
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

    fn leave(&mut self, packet: &SentPacket, queue: Queue) -> u64 {
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
