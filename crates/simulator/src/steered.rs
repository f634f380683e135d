//! What chooses the queue of each packet of sender 1.

use std::io;
use std::sync::Arc;

use dualq::{Ecn, Queue, State};
use l4s::history::Leaving;
use l4s::{Control, Marker, Model, Steering};

use crate::scenario::Steered;

/// A rule, or a marker with a model.
pub(crate) enum Chooser {
    Rule(Steering),
    Model(Box<Marker>),
}

impl Chooser {
    pub(crate) fn new(steered: Steered, seed: u64, model: Option<Arc<Model>>) -> io::Result<Self> {
        let refused = |text: &str| io::Error::new(io::ErrorKind::InvalidInput, text);
        match (steered, model) {
            (Steered::Rule(control), None) => Ok(Self::Rule(Steering::new(control, seed))),
            (Steered::Predicted(settings), Some(model)) => {
                let marker = Marker::new(model, settings).map_err(io::Error::other)?;
                Ok(Self::Model(Box::new(marker)))
            }
            (Steered::Predicted(_), None) => {
                Err(refused("control predicted without a model; wanted: one"))
            }
            (Steered::Rule(_), Some(_)) => {
                Err(refused("a model, and a control that needs none; wanted: control predicted"))
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
        packet: &Leaving,
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
