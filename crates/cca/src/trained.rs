//! What a model was trained on, compared with what two taps measure of a queue: beyond it no
//! control is named, however sure the network is.
//!
//! Two taps see data and no acknowledgements. They show how many flows share the queue, how fast it
//! empties and how long packets wait in it. The round trip without the queue they do not show.

use packet::{SlotClock, Span};

/// What was seen may lie this much beyond: a link of 100 Mbit/s is seen to carry 97.
const TOLERANCE: f64 = 1.25;

/// A flow that brings less of what comes to the queue does not compete for it.
pub(crate) const SHARE_MIN: f64 = 1e-3;

/// A link's rate is the highest over so long: a queue that empties now and then is slower on
/// average.
pub(crate) const RATE_OVER: Span = Span::from_ns(100_000_000);

/// What is examined to compare: the last second, or the period where that is longer.
pub const LOOKED_AT: Span = Span::from_seconds(1);

/// Of a queue, what two taps show.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct QueueConditions {
    /// Flows that compete for it.
    pub flows: usize,
    /// Bits a second that left it, of whole frames.
    pub rate_bit: f64,
    /// The longest that a packet was seen to take from tap to tap.
    pub delay_max: Option<Span>,
    /// There may be more flows and packets than were seen.
    pub is_part: bool,
}

/// From what to what training went.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TrainingConditions {
    /// Flows that compete for the queue.
    pub flows: [usize; 2],
    /// Bits a second of the link.
    pub rate_bit: [f64; 2],
    /// Seconds that the whole queue takes to empty.
    pub queue_s: [f64; 2],
    /// Seconds of a round trip without the queue; two taps do not show it.
    pub rtt_s: [f64; 2],
}

/// From what to what training of a model of one tap went.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FlowTrainingConditions {
    /// Bits a second of a flow that were acknowledged.
    pub rate_bit: [f64; 2],
    /// Its mean round trip with the queues in it, in seconds.
    pub rtt_s: [f64; 2],
}

impl FlowTrainingConditions {
    /// What is outside of it.
    #[must_use]
    pub fn outside(&self, rate_bit: f64, rtt_s: f64) -> Option<UnnamedReason> {
        let is_outside = |[low, high]: [f64; 2], seen: f64| !(low..=high).contains(&seen);
        if is_outside(self.rtt_s, rtt_s) {
            return Some(UnnamedReason::Rtt);
        }
        is_outside(self.rate_bit, rate_bit).then_some(UnnamedReason::Rate)
    }
}

/// Why no control is named.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum UnnamedReason {
    /// No control is probable enough.
    Unsure,
    /// It is most probably none of those that the model names.
    Other,
    /// Fewer or more flows share the queue than in training.
    Flows,
    /// The link is slower or faster than in training.
    Rate,
    /// Packets wait longer than the queues of training hold them.
    Queue,
    /// The round trip is shorter or longer than in training.
    Rtt,
}

impl UnnamedReason {
    /// For columns and counters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unsure => "unsure",
            Self::Other => "other",
            Self::Flows => "flows",
            Self::Rate => "rate",
            Self::Queue => "queue",
            Self::Rtt => "rtt",
        }
    }

    /// The networks' scores say so, not the queue or the flow: probabilities mean something.
    #[must_use]
    pub const fn is_of_scores(self) -> bool {
        matches!(self, Self::Unsure | Self::Other)
    }

    /// For people.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Unsure => "not confident enough",
            Self::Other => "another congestion control",
            Self::Flows => "number of flows outside training",
            Self::Rate => "rate outside training",
            Self::Queue => "queue outside training",
            Self::Rtt => "round trip outside training",
        }
    }
}

impl TrainingConditions {
    /// The first thing that is outside of it.
    #[must_use]
    pub fn outside(&self, seen: &QueueConditions) -> Option<UnnamedReason> {
        let [fewest, most] = self.flows;
        let [slowest, fastest] = self.rate_bit;
        let [_, longest_s] = self.queue_s;
        if !seen.is_part && seen.flows < fewest || seen.flows > most {
            return Some(UnnamedReason::Flows);
        }
        let is_slow = !seen.is_part && seen.rate_bit < slowest / TOLERANCE;
        if is_slow || seen.rate_bit > fastest * TOLERANCE {
            return Some(UnnamedReason::Rate);
        }
        let delay_s = seen.delay_max.map_or(0.0, Span::as_seconds_f64);
        (delay_s > longest_s * TOLERANCE).then_some(UnnamedReason::Queue)
    }
}

/// How long networks take a flow for one that begins. They are trained on what comes after it.
pub const SETTLED: Span = Span::from_seconds(2);

/// Of so many slots for which a flow is known those that are like what networks are trained on: if
/// its connection began with the first of them, not those of its beginning.
#[must_use]
pub fn settled(clock: SlotClock, slots: usize, began: bool) -> usize {
    if began { slots.saturating_sub(slots_of(clock, SETTLED)) } else { slots }
}

/// Whether what came so many slots after a flow began is of its beginning.
pub(crate) fn is_beginning(clock: SlotClock, slots: i64) -> bool {
    slots <= clock.count(SETTLED)
}

/// Slots of so long, at least one.
pub(crate) fn slots_of(clock: SlotClock, span: Span) -> usize {
    usize::try_from(clock.count(span)).unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRAINED: TrainingConditions = TrainingConditions {
        flows: [3, 81],
        rate_bit: [100e6, 100e6],
        queue_s: [0.025, 0.2],
        rtt_s: [0.005, 0.06],
    };

    #[test]
    fn a_flow_outside_of_training_is_named() {
        let trained = FlowTrainingConditions { rate_bit: [1e6, 1e8], rtt_s: [0.01, 0.5] };
        assert_eq!(trained.outside(1e6, 0.5), None);
        assert_eq!(trained.outside(9e5, 0.1), Some(UnnamedReason::Rate));
        assert_eq!(trained.outside(2e8, 0.1), Some(UnnamedReason::Rate));
        assert_eq!(trained.outside(2e8, 0.001), Some(UnnamedReason::Rtt));
        assert_eq!(trained.outside(1e7, f64::NAN), Some(UnnamedReason::Rtt));
    }

    #[test]
    fn the_beginning_of_a_connection_is_not_what_was_trained_on() {
        let clock = SlotClock::new(Span::from_ns(1_000_000));
        assert_eq!([1_999, 2_001].map(|slots| settled(clock, slots, true)), [0, 1]);
        assert_eq!(settled(clock, 1_999, false), 1_999);
    }

    #[test]
    fn what_is_outside_of_training_is_named() {
        let wait = |ms: i64| Some(Span::from_ns(ms * 1_000_000));
        let seen =
            QueueConditions { flows: 4, rate_bit: 97e6, delay_max: wait(190), is_part: false };
        assert_eq!(TRAINED.outside(&seen), None);
        assert_eq!(
            TRAINED.outside(&QueueConditions { flows: 1, ..seen }),
            Some(UnnamedReason::Flows)
        );
        assert_eq!(
            TRAINED.outside(&QueueConditions { flows: 82, ..seen }),
            Some(UnnamedReason::Flows)
        );
        assert_eq!(
            TRAINED.outside(&QueueConditions { rate_bit: 20e6, ..seen }),
            Some(UnnamedReason::Rate)
        );
        assert_eq!(
            TRAINED.outside(&QueueConditions { rate_bit: 1e9, ..seen }),
            Some(UnnamedReason::Rate)
        );
        let long = QueueConditions { delay_max: wait(260), ..seen };
        assert_eq!(TRAINED.outside(&long), Some(UnnamedReason::Queue));
        assert_eq!(TRAINED.outside(&QueueConditions { delay_max: None, ..seen }), None);
        // Of the heaviest alone it is not known how many there are, nor what all of them bring.
        let part = QueueConditions { flows: 1, rate_bit: 20e6, is_part: true, ..seen };
        assert_eq!(TRAINED.outside(&part), None);
    }
}
