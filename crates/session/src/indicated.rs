//! Labels flows that are on a list of indicators, for rules about them.

use std::sync::Arc;

use alerts::Lists;
use engine::flow::pass::{LabelKind, LabelUse, Labels, Lens, Piece};
use engine::flow::{Ended, FlowPacket, PerFlow, SideSlab};
use names::found::Found;

use crate::application::{Closing, Refusal, Watcher};
use crate::classify::Naming;
use crate::flows::Done;

/// How far a flow was looked up.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Looked {
    /// No packet was seen.
    #[default]
    New,
    /// Its addresses are on no list.
    Addresses,
    /// So is the name that it had first.
    Name,
    /// It is on a list, or nothing more will be found.
    Done,
}

impl PerFlow for Looked {
    fn on_packet(&mut self, _: &FlowPacket) {}
}

/// Gives [`LabelKind::Indicator`]: the number of the first list that has an address of the flow,
/// from its first packet on; else its name or fingerprint, from the packet after the one that
/// carries it.
pub(crate) struct Indicated {
    lists: Arc<Lists>,
    flows: SideSlab<Looked>,
    /// Where any list is of names.
    naming: Option<Naming>,
}

impl Indicated {
    pub(crate) fn new(lists: Arc<Lists>, idle_timeout: packet::Span) -> Self {
        let naming = lists.has_names().then(|| Naming::new(idle_timeout));
        Self { lists, flows: SideSlab::default(), naming }
    }
}

fn of_name(lists: &Lists, found: &Found) -> Option<usize> {
    let domain = found.name().and_then(|name| lists.find_domain(name));
    let ja4 = || found.hello.as_ref()?.ja4.as_ref().and_then(|ja4| lists.find_ja4(ja4.as_str()));
    domain.or_else(ja4).map(|found| found.list)
}

impl Lens for Indicated {
    fn labels(&self) -> LabelUse {
        LabelUse { reads: Vec::new(), gives: vec![LabelKind::Indicator] }
    }

    fn on_piece(&mut self, piece: &Piece<'_>, labels: &mut Labels) {
        let Self { lists, flows, naming } = self;
        for (place, frame, packet, slot) in piece.flows() {
            let Some(looked) = flows.state(slot) else { continue };
            if *looked == Looked::New {
                *looked = if naming.is_some() { Looked::Addresses } else { Looked::Done };
                let (one, other) = packet.key().endpoints(packet.direction);
                let of = |address| lists.find_address(address);
                if let Some(found) = of(one.address).or_else(|| of(other.address)) {
                    *looked = Looked::Done;
                    labels.give_from(LabelKind::Indicator, slot, place, number(found.list));
                }
            }
            let Some(naming) = naming.as_mut().filter(|_| *looked != Looked::Done) else {
                continue;
            };
            let Some(names) = naming.on_frame(&frame, packet, slot) else { continue };
            let Some(found) = names.seen.found.as_deref() else {
                if names.is_final {
                    *looked = Looked::Done;
                }
                continue;
            };
            // A name may come before the fingerprint does: once for each.
            if *looked == Looked::Name && !names.is_final {
                continue;
            }
            *looked = if names.is_final { Looked::Done } else { Looked::Name };
            if let Some(list) = of_name(lists, found) {
                *looked = Looked::Done;
                labels.give(LabelKind::Indicator, slot, place, number(list));
            }
        }
    }

    fn on_ended(&mut self, ended: &[Ended], _: &mut Labels) {
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
}

/// Of a list: the largest number is no label.
fn number(list: usize) -> u16 {
    u16::try_from(list).unwrap_or(u16::MAX - 1)
}

/// No application: it says nothing.
impl Watcher for Indicated {
    fn name(&self) -> &'static str {
        ""
    }

    fn close(self: Box<Self>, _: &Done) -> Result<Closing, Refusal> {
        Ok(Closing::default())
    }
}
