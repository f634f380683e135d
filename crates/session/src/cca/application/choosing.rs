//! The lens that passes the flows that rules choose to the taps alongside a pass.

use std::sync::mpsc::SyncSender;

use engine::flow::pass::{FaultScope, LabelUse, Labels, Lens, Now, Piece};
use engine::flow::{FlowEnd, FlowPacket, PerFlow, SideSlab};

use super::Cca;
use crate::application::{Application as _, Closing, Count, Refusal, Watcher};
use crate::cca::live::Choice;
use crate::done::RunTotals;
use crate::rules::{Following, InForce};

/// What the taps know of a flow; nothing as long as it is one that no rule is about.
#[derive(Clone, Copy, Default)]
struct Said(Option<bool>);

impl PerFlow for Said {
    fn on_packet(&mut self, _: &FlowPacket) {}
}

/// Hands on what changes, and never waits: where there is no room it tries again at the flow's next
/// packet.
pub(super) struct Choosing {
    said: SideSlab<Said>,
    rules: Following,
    choices: SyncSender<Choice>,
    /// Times that there was no room.
    put_off: u64,
}

impl Choosing {
    pub(super) fn new(rules: &InForce, choices: SyncSender<Choice>) -> Self {
        let rules = Following::new(rules);
        Self { said: SideSlab::default(), rules, choices, put_off: 0 }
    }
}

impl Lens for Choosing {
    fn labels(&self) -> LabelUse {
        LabelUse { reads: self.rules.rules().reads(|_| true), gives: Vec::new() }
    }

    fn on_piece(&mut self, piece: &Piece<'_>, labels: &mut Labels) {
        self.rules.look();
        let rules = self.rules.rules();
        let usual = rules.follows_others();
        for (place, (packet, &slot)) in piece.packets.iter().zip(piece.slots).enumerate() {
            let follows = rules.follows(labels, slot, place);
            let Said(said) = self.said.kept(slot);
            if said.unwrap_or(usual) == follows {
                continue;
            }
            if self.choices.try_send(Choice::Flow(packet.marked_key.key(), follows)).is_err() {
                self.put_off += 1;
            } else if let Some(said) = self.said.state(slot) {
                *said = Said(Some(follows));
            }
        }
    }

    /// What is kept is what was sent to the taps, which holds.
    fn on_fault(&mut self, _: &FaultScope<'_>) -> bool {
        true
    }

    fn on_ended(&mut self, ended: &[FlowEnd], _: &mut Labels) {
        for ended in ended.iter().filter(|ended| self.said.kept(ended.slot).0.is_some()) {
            if self.choices.try_send(Choice::Ended(ended.record.key)).is_err() {
                self.put_off += 1;
            }
        }
    }
}

impl Watcher for Choosing {
    fn name(&self) -> &'static str {
        Cca::NAME
    }

    fn counts(&self, _: &Now<'_>) -> Vec<Count> {
        let about = "Updates of the flows selected by rules that reached the taps late.";
        vec![Count::total("choices_put_off", about, self.put_off)]
    }

    fn close(self: Box<Self>, flows: &RunTotals) -> Result<Closing, Refusal> {
        let lines = match self.put_off {
            0 => String::new(),
            count => format!(
                "cca: {count} updates of the flows selected by rules reached the taps late\n"
            ),
        };
        let outcome = flows.outcome.clone();
        Ok(Closing { outcome, key: RunTotals::KEY, lines, ..Closing::default() })
    }
}
