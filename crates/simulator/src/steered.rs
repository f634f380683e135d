//! What chooses the queue of each packet of sender 1.

use std::io;
use std::sync::Arc;

use dualq::{Ecn, Queue, State};
use l4s::history::SentPacket;
use l4s::{Control, Marker, MarkerCounts, Model, Steering, Tuner, TuningCounts, TuningSettings};

use crate::scenario::SteeringPolicy;

/// The model of a scenario whose packets are steered by predictions.
#[derive(Clone, Debug)]
pub struct Predicting {
    /// What predicts.
    pub model: Arc<Model>,
    /// How it is fine-tuned while the simulation runs, if it is. Packets wait for each tuning, so
    /// that a run can be repeated.
    pub tuning: Option<TuningSettings>,
}

/// What steering did to the L4S packets of sender 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OfSteering {
    /// Packets that it was asked about.
    pub asked: u64,
    /// Those that it re-marked.
    pub remarked: u64,
    /// All outcomes, where a model predicts.
    pub marker: Option<MarkerCounts>,
    /// Tunings, where the model is fine-tuned.
    pub tuning: Option<TuningCounts>,
}

/// A rule, or a marker with a model.
pub(crate) enum Chooser {
    Rule(Steering),
    Model(Box<Marker>),
}

impl Chooser {
    pub(crate) fn new(
        steered: SteeringPolicy,
        seed: u64,
        predicting: Option<Predicting>,
    ) -> io::Result<Self> {
        let refused = |text: &str| io::Error::new(io::ErrorKind::InvalidInput, text);
        match (steered, predicting) {
            (SteeringPolicy::Rule(control), None) => Ok(Self::Rule(Steering::new(control, seed))),
            (SteeringPolicy::Predicted(settings), Some(Predicting { model, tuning })) => {
                let mut marker = Marker::new(model, settings).map_err(io::Error::other)?;
                if let Some(tuning) = tuning {
                    marker
                        .tune(TuningSettings { is_blocking: true, ..tuning })
                        .map_err(|error| refused(&error.to_string()))?;
                }
                Ok(Self::Model(Box::new(marker)))
            }
            (SteeringPolicy::Predicted(_), None) => {
                Err(refused("control predicted without a model; wanted: one"))
            }
            (SteeringPolicy::Rule(_), Some(_)) => {
                Err(refused("a model, and a control that needs none; wanted: control predicted"))
            }
        }
    }

    pub(crate) fn outcome(&self) -> OfSteering {
        match self {
            Self::Rule(steering) => {
                let (asked, remarked) = steering.counts();
                OfSteering { asked, remarked, marker: None, tuning: None }
            }
            Self::Model(marker) => {
                let counts = marker.counts();
                let tuning = marker.predictor().tuner().map(Tuner::counts);
                let MarkerCounts { asked, remarked, .. } = counts;
                OfSteering { asked, remarked, marker: Some(counts), tuning }
            }
        }
    }

    /// Whether it sees the router, which no sender can.
    pub(crate) const fn sees_router(&self) -> bool {
        match self {
            Self::Rule(steering) => matches!(steering.control(), Control::StateInformed { .. }),
            Self::Model(_) => false,
        }
    }

    /// A packet leaves: with which ECN field, and its number for `acknowledge`.
    pub(crate) fn leave(
        &mut self,
        packet: &SentPacket,
        ecn: Ecn,
        state: Option<&State>,
    ) -> (Ecn, u64) {
        match self {
            Self::Rule(steering) => (steering.choose(ecn, state), 0),
            Self::Model(marker) => marker.leave(packet, ecn),
        }
    }

    /// A packet was acknowledged; without a latency where it was sent several times.
    pub(crate) fn acknowledge(
        &mut self,
        number: u64,
        queue: Queue,
        at_ns: u64,
        latency_ns: Option<u64>,
    ) {
        match (self, latency_ns) {
            (Self::Rule(steering), Some(latency_ns)) => steering.acknowledge(queue, latency_ns),
            (Self::Rule(_), None) => {}
            (Self::Model(marker), latency_ns) => marker.acknowledge(number, at_ns, latency_ns),
        }
    }
}
