//! Labels flows by the bytes that they have brought, for rules about heavy ones.

use engine::flow::pass::{FaultScope, LabelKind, LabelUse, Labels, Lens, Piece};
use engine::flow::{FlowPacket, PerFlow, SideSlab};

use crate::application::{Closing, Refusal, Watcher};
use crate::flows::RunTotals;
use crate::rules::{Following, InForce};

/// What is known of a flow.
#[derive(Clone, Copy, Default)]
struct Brought {
    bytes: u64,
    /// Sizes that it has reached, by the label that it has.
    reached: u16,
}

impl PerFlow for Brought {
    fn on_packet(&mut self, packet: &FlowPacket) {
        self.bytes += u64::from(packet.wire_len);
    }
}

/// Gives [`LabelKind::Weight`]: the number of the largest size that a flow has reached.
pub(crate) struct Weight {
    flows: SideSlab<Brought>,
    rules: Following,
}

impl Weight {
    /// By the sizes that rules name.
    pub(crate) fn new(rules: &InForce) -> Self {
        Self { flows: SideSlab::default(), rules: Following::new(rules) }
    }
}

impl Lens for Weight {
    fn labels(&self) -> LabelUse {
        LabelUse { reads: Vec::new(), gives: vec![LabelKind::Weight] }
    }

    fn on_piece(&mut self, piece: &Piece<'_>, labels: &mut Labels) {
        self.rules.look();
        let Self { flows, rules } = self;
        let sizes = rules.rules().thresholds();
        for (place, (packet, &slot)) in piece.packets.iter().zip(piece.slots).enumerate() {
            let Some(flow) = flows.state(slot) else { continue };
            flow.on_packet(packet);
            let reached = sizes.iter().take_while(|&&size| size <= flow.bytes).count();
            let reached = u16::try_from(reached).unwrap_or(u16::MAX - 1);
            if reached != flow.reached {
                flow.reached = reached;
                // Of no size is the number that is no label.
                labels.give(LabelKind::Weight, slot, place, reached.wrapping_sub(1));
            }
        }
    }

    fn on_fault(&mut self, lost: &FaultScope<'_>) -> bool {
        self.flows.forget(lost.slots());
        true
    }
}

/// No application: it says nothing.
impl Watcher for Weight {
    fn name(&self) -> &'static str {
        ""
    }

    fn close(self: Box<Self>, _: &RunTotals) -> Result<Closing, Refusal> {
        Ok(Closing::default())
    }
}
