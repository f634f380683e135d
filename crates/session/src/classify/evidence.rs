//! What the names of flows are evidence of, flow by flow: for training.

use classify::evidence::{FlowEvidence, NameList};
use engine::flow::{FlowEnd, FlowPacket, FlowSlot, FromFrames, States};
use packet::{Frame, Span, Timestamp};

use super::naming::Naming;

/// Keeps evidence after some numbers of packets, as models that are served are shown it.
pub struct KeepEvidence {
    naming: Naming,
    list: NameList,
    depths: Vec<usize>,
    wait: Span,
}

/// What is kept for a flow.
#[derive(Clone, Debug, Default)]
pub struct KeptEvidence {
    /// The evidence, by depth.
    pub evidence: FlowEvidence,
    first: Option<Timestamp>,
    packet_count: usize,
}

impl KeepEvidence {
    /// Evidence by `list` at `depths`; packets that come `wait` after the first do not count, nor
    /// do those after them.
    #[must_use]
    pub fn new(list: NameList, depths: Vec<usize>, wait: Span, idle_timeout: Span) -> Self {
        Self { naming: Naming::new(idle_timeout), list, depths, wait }
    }
}

impl FromFrames for KeepEvidence {
    type State = KeptEvidence;

    fn on_frame(
        &mut self,
        kept: &mut KeptEvidence,
        frame: &Frame<'_>,
        packet: &FlowPacket,
        slot: FlowSlot,
    ) {
        let Self { naming, list, depths, wait } = self;
        let names = naming.on_frame(frame, packet, slot);
        let first = *kept.first.get_or_insert(packet.timestamp);
        if packet.timestamp.since(first) >= *wait {
            // Such a flow is decided by what there is.
            kept.packet_count = usize::MAX;
        }
        let Some(names) = names.filter(|_| kept.packet_count < usize::MAX) else { return };
        kept.packet_count += 1;
        kept.evidence.take_in(list, depths.iter().copied(), names, kept.packet_count);
    }

    fn on_end(&mut self, _: &mut KeptEvidence, ended: &FlowEnd) {
        self.naming.on_ended(ended);
    }

    fn on_pause(&mut self, _: &mut States<'_, KeptEvidence>) {
        self.naming.pause();
    }
}
