//! Chooses a queue for each packet by predicted latencies.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use dualq::{Ecn, Queue};

use crate::history::Leaving;
use crate::predictor::{Model, ModelError, Predictor};
use crate::steering::time_ns;
use crate::tuning::{TuningError, TuningSettings};

/// When a packet is re-marked. As text: `predicted:1ms`, or `predicted:1ms:0.2` with a limit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MarkerSettings {
    /// A packet leaves the L4S queue if the classic queue is predicted to be faster by this, in ns.
    pub margin_ns: u64,
    /// Share of L4S packets that are re-marked at most.
    pub share_max: f64,
    /// Without an acknowledgement for this long, packets keep their marking, in ns.
    pub silence_ns: u64,
}

impl Default for MarkerSettings {
    fn default() -> Self {
        Self { margin_ns: 1_000_000, share_max: 0.3, silence_ns: 500_000_000 }
    }
}

/// Text that is no setting of a marker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MarkerError(String);

impl fmt::Display for MarkerError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(seen) = self;
        write!(
            out,
            "`{seen}`; wanted: predicted:TIME or predicted:TIME:SHARE such as predicted:1ms:0.3"
        )
    }
}

impl std::error::Error for MarkerError {}

impl FromStr for MarkerSettings {
    type Err = MarkerError;

    fn from_str(text: &str) -> Result<Self, MarkerError> {
        let refused = || MarkerError(text.to_owned());
        let rest = text.strip_prefix("predicted:").ok_or_else(refused)?;
        let (margin, share) =
            rest.split_once(':').map_or((rest, None), |(margin, share)| (margin, Some(share)));
        let margin_ns = time_ns(margin).ok_or_else(refused)?;
        let share_max = match share {
            Some(share) => share.parse().map_err(|_| refused())?,
            None => Self::default().share_max,
        };
        if !(0.0..=1.0).contains(&share_max) {
            return Err(refused());
        }
        Ok(Self { margin_ns, share_max, ..Self::default() })
    }
}

impl fmt::Display for MarkerSettings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "predicted:{}ns:{}", self.margin_ns, self.share_max)
    }
}

/// L4S packets that a marker saw, by outcome:
/// `asked = kept + remarked + silent + unknown + limited`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MarkerCounts {
    /// L4S packets.
    pub asked: u64,
    /// Those that the L4S queue was predicted to serve well enough.
    pub kept: u64,
    /// Those that were re-marked to Not-ECT.
    pub remarked: u64,
    /// Those that kept their marking since acknowledgements had stopped.
    pub silent: u64,
    /// Those that kept it since nothing was acknowledged yet.
    pub unknown: u64,
    /// Those that kept it since the share of re-marked packets was at its limit.
    pub limited: u64,
}

/// Packets for which the limit on re-marking may be saved up.
const SAVED_MAX: f64 = 64.0;

/// A marker for the packets of one sender: it sees all of them, and re-marks L4S packets alone,
/// from ECT(1) to Not-ECT. It never marks a packet for the L4S queue.
#[derive(Debug)]
pub struct Marker {
    settings: MarkerSettings,
    predictor: Predictor,
    answered_ns: Option<u64>,
    /// Packets that may still be re-marked.
    saved: f64,
    counts: MarkerCounts,
}

impl Marker {
    /// Begins without packets.
    ///
    /// # Errors
    /// [`ModelError`] as [`Predictor::new`].
    pub fn new(model: Arc<Model>, settings: MarkerSettings) -> Result<Self, ModelError> {
        let settings_of_model = model.settings();
        let predictor = Predictor::new(model, settings_of_model)?;
        let counts = MarkerCounts::default();
        Ok(Self { settings, predictor, answered_ns: None, saved: 0.0, counts })
    }

    /// A packet leaves: with which ECN field, and its number for [`Self::acknowledge`].
    pub fn leave(&mut self, packet: &Leaving, ecn: Ecn) -> (Ecn, u64) {
        // Classic packets are part of what is learned from, though none is changed.
        let queue = if ecn.is_l4s() { Queue::L4s } else { Queue::Classic };
        let predicted = self.predictor.predict(packet);
        if !ecn.is_l4s() {
            return (ecn, self.predictor.leave(packet, queue));
        }
        self.counts.asked += 1;
        self.saved = (self.saved + self.settings.share_max).min(SAVED_MAX);
        let is_silent = self
            .answered_ns
            .is_some_and(|at_ns| packet.at_ns.saturating_sub(at_ns) > self.settings.silence_ns);
        let counter = match predicted {
            None => &mut self.counts.unknown,
            Some(_) if is_silent => &mut self.counts.silent,
            Some(of) if of.l4s < of.classic.saturating_add(self.settings.margin_ns) => {
                &mut self.counts.kept
            }
            Some(_) if self.saved < 1.0 => &mut self.counts.limited,
            Some(_) => {
                self.saved -= 1.0;
                self.counts.remarked += 1;
                return (Ecn::NotEct, self.predictor.leave(packet, Queue::Classic));
            }
        };
        *counter += 1;
        (ecn, self.predictor.leave(packet, queue))
    }

    /// A packet was acknowledged; without a latency where it is not known which copy was.
    pub fn acknowledge(&mut self, number: u64, at_ns: u64, latency_ns: Option<u64>) {
        self.answered_ns = Some(at_ns);
        self.predictor.acknowledge(number, at_ns, latency_ns);
    }

    /// Another model from now on.
    ///
    /// # Errors
    /// [`ModelError`] as [`Predictor::exchange`].
    pub fn exchange(&mut self, model: Arc<Model>) -> Result<(), ModelError> {
        self.predictor.exchange(model)
    }

    /// Fine-tunes the model from now on, as [`Predictor::tune`].
    ///
    /// # Errors
    /// [`TuningError`]: settings out of range.
    pub fn tune(&mut self, settings: TuningSettings) -> Result<(), TuningError> {
        self.predictor.tune(settings)
    }

    /// What happened to L4S packets.
    #[must_use]
    pub const fn counts(&self) -> MarkerCounts {
        self.counts
    }

    /// What the sender knows.
    #[must_use]
    pub const fn predictor(&self) -> &Predictor {
        &self.predictor
    }
}

#[cfg(test)]
mod tests;
