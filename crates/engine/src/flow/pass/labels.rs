//! What applications have said of flows, for the applications after them.

use super::super::extract::FlowPacket;
use super::super::slab::{FlowSlot, PerFlow, SideSlab};

/// What a label is about. A flow has at most one of each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LabelKind {
    /// The application protocol.
    Service,
    /// The device that has the flow.
    Device,
    /// Whether it is out of the ordinary.
    Anomaly,
    /// Its congestion control.
    Control,
    /// The queue that it is sent to.
    Queue,
    /// How many bytes it has brought.
    Weight,
    /// The list of indicators that it is on.
    Indicator,
}

impl LabelKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Service,
        Self::Device,
        Self::Anomaly,
        Self::Control,
        Self::Queue,
        Self::Weight,
        Self::Indicator,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Device => "device",
            Self::Anomaly => "anomaly",
            Self::Control => "control",
            Self::Queue => "queue",
            Self::Weight => "weight",
            Self::Indicator => "indicator",
        }
    }
}

/// No label; no application may give it.
const NONE: u16 = u16::MAX;

/// The labels of a flow.
#[derive(Clone, Copy)]
struct OfFlow([u16; LabelKind::ALL.len()]);

impl Default for OfFlow {
    fn default() -> Self {
        Self([NONE; LabelKind::ALL.len()])
    }
}

impl PerFlow for OfFlow {
    fn on_packet(&mut self, _: &FlowPacket) {}
}

/// A label that was given in the piece at hand.
#[derive(Clone, Copy)]
struct Given {
    slot: FlowSlot,
    kind: LabelKind,
    label: u16,
    /// The first place among the packets of the piece at which it holds.
    from: usize,
}

/// The labels of a pass's flows.
///
/// **A label holds from the flow's packet after the deciding one**, never for earlier packets of
/// the same piece: what a lens reads does not depend on where pieces and batches are cut. One that
/// a packet decides by itself holds for that packet too, for the lenses after the one that gave it.
#[derive(Default)]
pub struct Labels {
    kept: SideSlab<OfFlow>,
    given: Vec<Given>,
}

impl Labels {
    /// The label that holds for a packet: of the flow in `slot`, at this place of the piece.
    #[inline]
    #[must_use]
    pub fn of(&self, kind: LabelKind, slot: FlowSlot, place: usize) -> Option<u16> {
        let before =
            |given: &&Given| given.slot == slot && given.kind == kind && given.from <= place;
        let label = match self.given.iter().filter(before).max_by_key(|given| given.from) {
            Some(given) => given.label,
            None => self.kept.kept(slot).0[kind as usize],
        };
        (label != NONE).then_some(label)
    }

    /// Labels the flow in `slot`, decided by its packet at this place of the piece. The largest
    /// number is no label, and takes one away.
    #[inline]
    pub fn give(&mut self, kind: LabelKind, slot: FlowSlot, place: usize, label: u16) {
        self.given.push(Given { slot, kind, label, from: place + 1 });
    }

    /// Labels the flow in `slot` from its packet at this place of the piece on.
    #[inline]
    pub fn give_from(&mut self, kind: LabelKind, slot: FlowSlot, place: usize, label: u16) {
        self.given.push(Given { slot, kind, label, from: place });
    }

    /// Labels a flow between pieces, at a mark or at an end of others: from its next packet on. One
    /// that has ended gets none, and leaves the labels of the flow that has its slot by now.
    pub fn give_now(&mut self, kind: LabelKind, slot: FlowSlot, label: u16) {
        debug_assert!(self.given.is_empty(), "between pieces");
        if let Some(OfFlow(labels)) = self.kept.state_unless_over(slot) {
            labels[kind as usize] = label;
        }
    }

    /// How many were given in the piece so far.
    #[inline]
    pub(super) const fn given_count(&self) -> usize {
        self.given.len()
    }

    /// What was given in the piece beyond so many was not.
    pub(super) fn take_back(&mut self, count: usize) {
        self.given.truncate(count);
    }

    /// The piece is over: what was given in it holds for all that comes.
    pub(super) fn settle(&mut self) {
        // In the order of deciding packets, of which the last one counts.
        let Self { kept, given } = self;
        given.sort_by_key(|given| given.from);
        for Given { slot, kind, label, .. } in given.drain(..) {
            if let Some(OfFlow(labels)) = kept.state(slot) {
                labels[kind as usize] = label;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_that_comes_after_its_flow_has_ended_leaves_those_of_the_next_flow() {
        let slot = |generation| FlowSlot { index: 3, generation };
        let mut labels = Labels::default();
        labels.give_now(LabelKind::Service, slot(2), 7);
        labels.give_now(LabelKind::Service, slot(1), 9);
        assert_eq!(labels.of(LabelKind::Service, slot(2), 0), Some(7));
        assert_eq!(labels.of(LabelKind::Service, slot(1), 0), None);
    }
}
