//! Rules that choose a queue without learning: what a predictor is measured against.

use std::fmt;
use std::str::FromStr;

use dualq::{Draws, Ecn, OfQueue, Queue, State};

/// A rule. As text: `none`, `random:0.3`, `last:1ms`, `state:1ms`.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Control {
    /// Every packet keeps the marking of its flow.
    #[default]
    None,
    /// Each L4S packet is re-marked to Not-ECT with this probability.
    Random(f64),
    /// A packet is re-marked if the newest acknowledged latency of the L4S queue is at least
    /// this much above that of the classic queue: persistence, per queue.
    LastLatency {
        /// How much above, in ns.
        margin_ns: u64,
    },
    /// A packet is re-marked if the head of the L4S queue has waited longer than this and
    /// longer than the head of the classic queue. It sees both queues, which no sender can;
    /// it is greedy and no upper bound.
    StateInformed {
        /// How long, in ns.
        wait_ns: u64,
    },
}

/// Text that names no rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ControlError(String);

impl fmt::Display for ControlError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(seen) = self;
        write!(
            out,
            "`{seen}` names no control; wanted none, random:SHARE such as random:0.3, last:TIME \
             or state:TIME such as state:1ms"
        )
    }
}

impl std::error::Error for ControlError {}

impl FromStr for Control {
    type Err = ControlError;

    fn from_str(text: &str) -> Result<Self, ControlError> {
        let refused = || ControlError(text.to_owned());
        if text == "none" {
            return Ok(Self::None);
        }
        let (rule, value) = text.split_once(':').ok_or_else(refused)?;
        match rule {
            "random" => {
                let share = value.parse().map_err(|_| refused())?;
                if (0.0..=1.0).contains(&share) { Ok(Self::Random(share)) } else { Err(refused()) }
            }
            "last" => Ok(Self::LastLatency { margin_ns: time_ns(value).ok_or_else(refused)? }),
            "state" => Ok(Self::StateInformed { wait_ns: time_ns(value).ok_or_else(refused)? }),
            _ => Err(refused()),
        }
    }
}

impl fmt::Display for Control {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => out.write_str("none"),
            Self::Random(share) => write!(out, "random:{share}"),
            Self::LastLatency { margin_ns } => write!(out, "last:{margin_ns}ns"),
            Self::StateInformed { wait_ns } => write!(out, "state:{wait_ns}ns"),
        }
    }
}

pub(crate) fn time_ns(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 3] = [("ns", 1), ("us", 1_000), ("ms", 1_000_000)];
    UNITS.iter().find_map(|(unit, ns)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*ns)
    })
}

/// A rule at work for the flows of one sender.
#[derive(Clone, Debug)]
pub struct Steering {
    control: Control,
    draws: Draws,
    last_ns: OfQueue<Option<u64>>,
    asked: u64,
    remarked: u64,
}

impl Steering {
    /// Begins; a seed decides every draw.
    #[must_use]
    pub fn new(control: Control, seed: u64) -> Self {
        let last_ns = OfQueue::default();
        Self { control, draws: Draws::new(seed), last_ns, asked: 0, remarked: 0 }
    }

    /// A packet was acknowledged: which queue it took, and its latency.
    pub const fn acknowledge(&mut self, queue: Queue, latency_ns: u64) {
        *self.last_ns.of_mut(queue) = Some(latency_ns);
    }

    /// With which ECN field a packet is to leave its sender. `state` is that of the router,
    /// for the one rule that sees it.
    pub fn choose(&mut self, ecn: Ecn, state: Option<&State>) -> Ecn {
        if !ecn.is_l4s() {
            return ecn;
        }
        self.asked += 1;
        let leaves_l4s = match self.control {
            Control::None => false,
            Control::Random(share) => self.draws.unit() < share,
            Control::LastLatency { margin_ns } => match (self.last_ns.l4s, self.last_ns.classic) {
                (Some(l4s), Some(classic)) => l4s >= classic.saturating_add(margin_ns),
                _ => false,
            },
            Control::StateInformed { wait_ns } => state.is_some_and(|state| {
                let OfQueue { l4s, classic } = state.delay_ns;
                l4s > wait_ns && classic < l4s
            }),
        };
        if !leaves_l4s {
            return ecn;
        }
        self.remarked += 1;
        Ecn::NotEct
    }

    /// The rule.
    #[must_use]
    pub const fn control(&self) -> Control {
        self.control
    }

    /// L4S packets that were asked about, and how many of them were re-marked.
    #[must_use]
    pub const fn counts(&self) -> (u64, u64) {
        (self.asked, self.remarked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn state(l4s: u64, classic: u64) -> State {
        State { delay_ns: OfQueue { l4s, classic }, ..State::default() }
    }

    #[test]
    fn each_rule_is_read_as_it_is_written() {
        for text in ["none", "random:0.3", "last:1000000ns", "state:250000ns"] {
            assert_eq!(text.parse::<Control>().map(|control| control.to_string()).unwrap(), text);
        }
        assert_eq!("state:1ms".parse(), Ok(Control::StateInformed { wait_ns: MS }));
        for text in ["", "random", "random:2", "last:1", "oracle:1ms"] {
            assert!(text.parse::<Control>().unwrap_err().to_string().contains("wanted none"));
        }
    }

    #[test]
    fn a_rule_sees_what_it_may_see() {
        let choose = |control, acked: Option<(u64, u64)>, state: Option<State>| {
            let mut steering = Steering::new(control, 1);
            if let Some((l4s, classic)) = acked {
                steering.acknowledge(Queue::L4s, l4s);
                steering.acknowledge(Queue::Classic, classic);
            }
            steering.choose(Ecn::Ect1, state.as_ref())
        };
        let last = Control::LastLatency { margin_ns: MS };
        assert_eq!(choose(last, None, Some(state(9 * MS, 0))), Ecn::Ect1);
        assert_eq!(choose(last, Some((45 * MS, 44 * MS)), None), Ecn::NotEct);
        assert_eq!(choose(last, Some((45 * MS - 1, 44 * MS)), None), Ecn::Ect1);
        let informed = Control::StateInformed { wait_ns: MS };
        assert_eq!(choose(informed, Some((9 * MS, 0)), None), Ecn::Ect1);
        assert_eq!(choose(informed, None, Some(state(2 * MS, MS))), Ecn::NotEct);
        assert_eq!(choose(informed, None, Some(state(2 * MS, 3 * MS))), Ecn::Ect1);
        assert_eq!(choose(Control::None, Some((9 * MS, 0)), Some(state(9 * MS, 0))), Ecn::Ect1);
    }

    #[test]
    fn chance_keeps_its_share_and_classic_packets_are_left_alone() {
        let mut steering = Steering::new(Control::Random(0.3), 4);
        assert!((0..100).all(|_| steering.choose(Ecn::NotEct, None) == Ecn::NotEct));
        let left = (0..10_000).filter(|_| steering.choose(Ecn::Ect1, None) == Ecn::NotEct).count();
        assert!((2_800..3_200).contains(&left), "{left}");
        assert_eq!(steering.counts(), (10_000, left as u64));
    }
}
