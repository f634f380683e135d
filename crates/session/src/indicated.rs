//! Labels flows that are on a list of indicators, for rules about them.

use std::sync::Arc;

use alerts::Lists;
use engine::flow::pass::{FaultScope, LabelKind, LabelUse, Labels, Lens, Piece};
use engine::flow::{FlowEnd, FlowPacket, PerFlow, SideSlab};
use names::found::FlowNames;

use crate::application::{Closing, Refusal, Watcher};
use crate::classify::Naming;
use crate::flows::RunTotals;

/// How far a flow was looked up, and where it was found.
#[derive(Clone, Copy, Default)]
struct IndicatorMatch {
    stage: Stage,
    /// The lists that it is on, a bit each.
    lists: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// No packet was seen.
    #[default]
    New,
    /// Its addresses were looked up.
    Addresses,
    /// So was the name that it had first.
    Name,
    /// Nothing more will be found.
    Done,
}

impl PerFlow for IndicatorMatch {
    fn on_packet(&mut self, _: &FlowPacket) {}
}

/// Gives [`LabelKind::Indicator`]: the lists that a flow is on, a bit each. Those of its addresses
/// hold from its first packet on, those of its name and fingerprint from the packet after the one
/// that carries them.
pub(crate) struct IndicatorLabels {
    lists: Arc<Lists>,
    flows: SideSlab<IndicatorMatch>,
    /// Where any list is of names.
    naming: Option<Naming>,
}

impl IndicatorLabels {
    pub(crate) fn new(lists: Arc<Lists>, idle_timeout: packet::Span) -> Self {
        let naming = lists.has_names().then(|| Naming::new(idle_timeout));
        Self { lists, flows: SideSlab::default(), naming }
    }
}

fn with_name(lists: &Lists, found: &FlowNames) -> u16 {
    let domain = found.name().map_or(0, |name| lists.with_domain(name));
    let ja4 = found.hello.as_ref().and_then(|hello| hello.ja4.as_ref());
    domain | ja4.map_or(0, |ja4| lists.with_ja4(ja4.as_str()))
}

impl Lens for IndicatorLabels {
    fn labels(&self) -> LabelUse {
        LabelUse { reads: Vec::new(), gives: vec![LabelKind::Indicator] }
    }

    fn on_piece(&mut self, piece: &Piece<'_>, labels: &mut Labels) {
        let Self { lists, flows, naming } = self;
        for (place, frame, packet, slot) in piece.flows() {
            let Some(looked) = flows.state(slot) else { continue };
            if looked.stage == Stage::New {
                looked.stage = if naming.is_some() { Stage::Addresses } else { Stage::Done };
                let (one, other) = packet.key().endpoints(packet.direction);
                looked.lists = lists.with_address(one.address) | lists.with_address(other.address);
                if looked.lists != 0 {
                    labels.give_from(LabelKind::Indicator, slot, place, looked.lists);
                }
            }
            let Some(naming) = naming.as_mut().filter(|_| looked.stage != Stage::Done) else {
                continue;
            };
            let Some(names) = naming.on_frame(&frame, packet, slot) else { continue };
            let found = names.seen.found.as_deref();
            // A name may come before the fingerprint does: once for each.
            let is_new = found.is_some() && (looked.stage != Stage::Name || names.is_final);
            if names.is_final {
                looked.stage = Stage::Done;
            } else if found.is_some() {
                looked.stage = Stage::Name;
            }
            let more = found.filter(|_| is_new).map_or(0, |found| with_name(lists, found));
            if looked.lists | more != looked.lists {
                looked.lists |= more;
                labels.give(LabelKind::Indicator, slot, place, looked.lists);
            }
        }
    }

    fn on_ended(&mut self, ended: &[FlowEnd], _: &mut Labels) {
        if let Some(naming) = &mut self.naming {
            ended.iter().for_each(|ended| naming.on_ended(ended));
            naming.pause();
        }
    }

    fn on_batch_end(&mut self, _: &mut Labels) {
        if let Some(naming) = &mut self.naming {
            naming.pause();
        }
    }

    fn on_fault(&mut self, lost: &FaultScope<'_>) -> bool {
        self.flows.forget(lost.slots());
        if let Some(naming) = &mut self.naming {
            lost.slots().for_each(|slot| naming.on_fault(slot));
        }
        true
    }
}

/// No application: it says nothing.
impl Watcher for IndicatorLabels {
    fn name(&self) -> &'static str {
        ""
    }

    fn close(self: Box<Self>, _: &RunTotals) -> Result<Closing, Refusal> {
        Ok(Closing::default())
    }
}
