//! Flows that rules choose, on their way from a pass to the taps alongside it.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use cca::FlowWay;
use packet::FlowKey;

use crate::rules::{Following, InForce};

/// Messages that wait for the taps, which take them every 20 ms. A sender without room tries again
/// at the flow's next packet.
const MESSAGES_WAITING_MAX: usize = 4096;

/// Flows of which the taps know that they are chosen, or are not. Others are taken for flows that
/// no rule is about, and counted.
const FLOWS_KNOWN_MAX: usize = 1 << 16;

/// What a pass says of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// It may be followed, or may not.
    Flow(FlowKey, bool),
    /// It has ended: the next flow between the same ends is another.
    Ended(FlowKey),
}

/// Which flows may be followed.
pub struct FlowChoices {
    choices: Receiver<Choice>,
    rules: Following,
    known: HashMap<FlowKey, bool>,
    beyond_max: u64,
}

impl FlowChoices {
    /// By rules, and by what the sender hands in.
    #[must_use]
    pub fn new(rules: &InForce) -> (SyncSender<Choice>, Self) {
        let (sender, choices) = sync_channel(MESSAGES_WAITING_MAX);
        let (known, beyond_max) = (HashMap::new(), 0);
        (sender, Self { choices, rules: Following::new(rules), known, beyond_max })
    }

    /// Takes in what has come since.
    pub(super) fn look(&mut self) {
        self.rules.look();
        // No more than can wait: a pass that goes on saying things does not keep us here.
        for choice in self.choices.try_iter().take(MESSAGES_WAITING_MAX) {
            match choice {
                Choice::Ended(key) => {
                    self.known.remove(&key);
                }
                Choice::Flow(key, may_follow) => {
                    if self.known.len() < FLOWS_KNOWN_MAX || self.known.contains_key(&key) {
                        self.known.insert(key, may_follow);
                    } else {
                        self.beyond_max += 1;
                    }
                }
            }
        }
    }

    pub(super) fn may_follow(&self, way: &FlowWay) -> bool {
        let known = self.known.get(&way.key).copied();
        known.unwrap_or_else(|| self.rules.rules().follows_others())
    }

    /// Flows beyond those of which can be known whether they are chosen.
    #[must_use]
    pub const fn beyond_max(&self) -> u64 {
        self.beyond_max
    }
}
