//! Chooses a queue for each packet by predicted latencies.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use dualq::{Ecn, OfQueue, Queue};
use model::encoder::TrainingSettings;

use crate::history::SentPacket;
use crate::predictor::{Model, ModelError, Predictor};
use crate::steering::time_ns;
use crate::tuning::{TuningError, TuningSettings};

/// When a packet is re-marked. As text: `predicted:3ms`, or `predicted:3ms:0.2` with a limit, or
/// `predicted:3ms:0.2:0.05` with [`Self::recent_min`] as well.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MarkerSettings {
    /// A packet leaves the L4S queue if the classic queue is predicted to be faster by this, in ns.
    pub margin_ns: u64,
    /// Share of L4S packets that are re-marked at most.
    pub share_max: f64,
    /// Without an acknowledgement for this long, packets keep their marking, in ns.
    pub silence_ns: u64,
    /// Share of the last [`RECENT_PACKETS`] L4S packets, each newer one weighing more, for which
    /// the classic queue has to be predicted to be faster. Where that is seldom predicted, as on a
    /// router with coupled queues, most such predictions are errors, and following them costs more
    /// than it gains.
    pub recent_min: f64,
}

impl Default for MarkerSettings {
    fn default() -> Self {
        Self { margin_ns: 3_000_000, share_max: 0.8, silence_ns: 500_000_000, recent_min: 0.03 }
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
            "`{seen}`; wanted: predicted:TIME or predicted:TIME:SHARE such as predicted:3ms:0.8, \
             or predicted:TIME:SHARE:RECENT"
        )
    }
}

impl std::error::Error for MarkerError {}

impl FromStr for MarkerSettings {
    type Err = MarkerError;

    fn from_str(text: &str) -> Result<Self, MarkerError> {
        let refused = || MarkerError(text.to_owned());
        let mut parts = text.strip_prefix("predicted:").ok_or_else(refused)?.split(':');
        let margin_ns = parts.next().and_then(time_ns).ok_or_else(refused)?;
        let mut share = |default: f64| match parts.next() {
            Some(text) => text.parse().ok().filter(|share| (0.0..=1.0).contains(share)),
            None => Some(default),
        };
        let share_max = share(Self::default().share_max).ok_or_else(refused)?;
        let recent_min = share(Self::default().recent_min).ok_or_else(refused)?;
        if parts.next().is_some() {
            return Err(refused());
        }
        Ok(Self { margin_ns, share_max, recent_min, ..Self::default() })
    }
}

impl fmt::Display for MarkerSettings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "predicted:{}ns:{}:{}", self.margin_ns, self.share_max, self.recent_min)
    }
}

/// L4S packets that a marker judged, by outcome:
/// `asked = kept + remarked + rare + silent + unknown + limited + late`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MarkerCounts {
    /// L4S packets.
    pub asked: u64,
    /// Those that the L4S queue was predicted to serve well enough.
    pub kept: u64,
    /// Those that were to be re-marked to Not-ECT.
    pub remarked: u64,
    /// Those that kept their marking since the classic queue was predicted to be faster for too
    /// few of the last packets.
    pub rare: u64,
    /// Those that kept it since acknowledgements had stopped.
    pub silent: u64,
    /// Those that kept it since nothing was acknowledged yet, or the path is one that the model was
    /// not trained for.
    pub unknown: u64,
    /// Those that kept it since the share of re-marked packets was at its limit.
    pub limited: u64,
    /// Those that kept it since the prediction came too late.
    pub late: u64,
}

impl MarkerCounts {
    /// Counts one more.
    pub const fn add(&mut self, verdict: Verdict) {
        self.asked += 1;
        let counter = match verdict {
            Verdict::Kept => &mut self.kept,
            Verdict::Remark => &mut self.remarked,
            Verdict::Rare => &mut self.rare,
            Verdict::Silent => &mut self.silent,
            Verdict::Unknown => &mut self.unknown,
            Verdict::Limited => &mut self.limited,
            Verdict::Late => &mut self.late,
        };
        *counter += 1;
    }
}

/// What is to be done with an L4S packet, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The L4S queue is predicted to serve it well enough.
    Kept,
    /// The classic queue is predicted to be faster by the margin: re-mark it to Not-ECT.
    Remark,
    /// The classic queue is predicted to be faster, but was so for few of the last packets: keep
    /// its marking.
    Rare,
    /// Acknowledgements have stopped: keep its marking.
    Silent,
    /// Nothing was acknowledged yet, or the model was not trained for such a path: keep its
    /// marking.
    Unknown,
    /// As many packets were re-marked as may be: keep its marking.
    Limited,
    /// The prediction came too late to be of use: keep its marking.
    Late,
}

/// Packets for which the limit on re-marking may be saved up.
const SAVED_MAX: f64 = 64.0;
/// L4S packets after which one weighs 1/e of the newest in what was recently predicted.
pub const RECENT_PACKETS: f64 = 4_096.0;

/// A marker for the packets of one sender: it sees all of them, and re-marks L4S packets alone,
/// from ECT(1) to Not-ECT. It never marks a packet for the L4S queue.
#[derive(Debug)]
pub struct Marker {
    settings: MarkerSettings,
    predictor: Predictor,
    answered_ns: Option<u64>,
    /// Packets that may still be re-marked.
    saved: f64,
    /// Share of the last L4S packets for which the classic queue was predicted to be faster.
    recent: f64,
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
        Ok(Self { settings, predictor, answered_ns: None, saved: 0.0, recent: 0.0, counts })
    }

    /// A packet leaves: with which ECN field, and its number for [`Self::acknowledge`].
    pub fn leave(&mut self, packet: &SentPacket, ecn: Ecn) -> (Ecn, u64) {
        // Classic packets are part of what is learned from, though none is changed.
        let predicted = self.predict(packet);
        if !ecn.is_l4s() {
            return (ecn, self.depart(packet, Queue::Classic));
        }
        match self.judge(packet.at_ns, predicted, false) {
            Verdict::Remark => (Ecn::NotEct, self.depart(packet, Queue::Classic)),
            _ => (ecn, self.depart(packet, Queue::L4s)),
        }
    }

    /// The latency of a packet in each queue, in ns, by what was known before its batch; the first
    /// of the three steps of [`Self::leave`], for who sees packets when they have left.
    pub fn predict(&mut self, packet: &SentPacket) -> Option<OfQueue<u64>> {
        self.predictor.predict(packet)
    }

    /// What is to be done with an L4S packet of which this is predicted. Each
    /// [`Verdict::Remark`] counts as a packet that was re-marked. A prediction that `is_late` is
    /// not followed.
    pub fn judge(&mut self, at_ns: u64, predicted: Option<OfQueue<u64>>, is_late: bool) -> Verdict {
        let MarkerSettings { margin_ns, share_max, silence_ns, recent_min } = self.settings;
        self.saved = (self.saved + share_max).min(SAVED_MAX);
        let is_silent =
            self.answered_ns.is_some_and(|answered| at_ns.saturating_sub(answered) > silence_ns);
        let is_better = |of: OfQueue<u64>| of.l4s >= of.classic.saturating_add(margin_ns);
        if let Some(of) = predicted {
            self.recent += (f64::from(u8::from(is_better(of))) - self.recent) / RECENT_PACKETS;
        }
        let verdict = match predicted {
            None => Verdict::Unknown,
            Some(_) if self.foreign_floor_ns().is_some() => Verdict::Unknown,
            Some(_) if is_silent => Verdict::Silent,
            Some(_) if is_late => Verdict::Late,
            Some(of) if !is_better(of) => Verdict::Kept,
            Some(_) if self.recent < recent_min => Verdict::Rare,
            Some(_) if self.saved < 1.0 => Verdict::Limited,
            Some(_) => Verdict::Remark,
        };
        if verdict == Verdict::Remark {
            self.saved -= 1.0;
        }
        self.counts.add(verdict);
        verdict
    }

    /// The lowest latency of the path, in ns, if the model was trained on none within a fifth of
    /// it. What a model says of such a path is not followed: on a coupled router with a round trip
    /// of 400 ms, one that was trained on 10 to 80 ms had 30 % of the packets leave a queue that
    /// was empty.
    #[must_use]
    pub fn foreign_floor_ns(&self) -> Option<u64> {
        let [low, high] = self.predictor.model().floor_ns()?;
        let floor = self.predictor.history().floor_ns()?;
        let is_known = floor >= low - low / 5 && floor <= high.saturating_add(high / 5);
        (!is_known).then_some(floor)
    }

    /// The packet has left by this queue; its number for [`Self::acknowledge`].
    pub fn depart(&mut self, packet: &SentPacket, queue: Queue) -> u64 {
        self.predictor.leave(packet, queue)
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

    /// Fine-tunes the model from now on, as [`Predictor::tune`], by the squared error alone: a
    /// choice between two queues needs the mean of each. Predictions that were pushed beyond
    /// thresholds, so that sharp changes are found, choose worse.
    ///
    /// # Errors
    /// [`TuningError`]: settings out of range.
    pub fn tune(&mut self, settings: TuningSettings) -> Result<(), TuningError> {
        let training = TrainingSettings { change_share: 0.0, ..settings.training };
        self.predictor.tune(TuningSettings { training, ..settings })
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
