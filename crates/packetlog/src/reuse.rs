//! The last verdict of each flow, used again while the flow stays much as it was.
//!
//! Most packets belong to flows that were classified a moment before. Such a packet gets its flow's
//! last verdict, and neither its columns are computed nor its forest is asked. What flows and hosts
//! did is counted at each packet all the same. When the forest is asked again follows from the
//! flow's own packets and their times, so that verdicts do not depend on how packets are cut into
//! batches.

#[cfg(test)]
mod tests;

use packet::{Span, Timestamp};

use crate::features::facts::{TCP_ACK, TCP_FIN, TCP_RST, TCP_SYN};
use crate::features::{BlockArrivals, PacketSet, PlaceCounts, PlaceIndex, Places};
use crate::judged::{Basis, PacketVerdict};
use crate::score::ScoreStep;

/// Packets between asking for the verdict of one's flow and examining it.
const AHEAD: usize = 8;

/// When the last verdict of a flow is used again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VerdictReuse {
    /// Flows whose verdicts are stored, a power of two; without a place the least recently used of
    /// four makes room.
    pub flows: usize,
    /// A packet is classified when its flow has grown by this since the last one that was, in
    /// percent of its packets then, and by one at least. Packets are counted in each window of the
    /// sums, so that the first ones are classified one by one.
    pub growth_percent: u32,
}

/// Flows whose verdicts are stored, at least.
pub const REUSE_FLOWS_MIN: usize = 1 << 10;
/// See [`REUSE_FLOWS_MIN`].
pub const REUSE_FLOWS_MAX: usize = 1 << 24;

/// The largest growth between two packets that are classified, in percent.
pub const GROWTH_PERCENT_MAX: u32 = 1_000;

/// The verdict of a flow and when it is asked for again.
#[derive(Clone, Copy, Default, Debug)]
struct FlowVerdict {
    packets: u32,
    /// The number of the packet that is classified next.
    next: u32,
    confidence: f32,
    /// A packet of the block where it is not known yet.
    class: u16,
    /// The score, and above it [`IS_PENDING`] and [`IS_BY_PACKET`].
    step: u16,
}

const IS_PENDING: u16 = 1 << 15;
const IS_BY_PACKET: u16 = 1 << 14;

/// Where the verdict of a packet comes from.
#[derive(Clone, Copy, Debug)]
enum Origin {
    /// Its forest, for itself alone.
    Forest,
    /// Its forest, and the flow keeps it.
    Kept(u64, PlaceIndex),
    /// The flow's last.
    Last(FlowVerdict),
    /// That of an earlier packet of the block.
    Packet(u16),
}

/// Stores verdicts of flows.
pub(crate) struct StoredVerdicts {
    rule: VerdictReuse,
    window: Span,
    /// Of the window that is going on.
    window_start: Timestamp,
    window_end: Timestamp,
    places: Places<FlowVerdict>,
    origins: Vec<Origin>,
    reused: u64,
}

impl StoredVerdicts {
    /// Before the first packet. The window is that of the sums; 0 has no end.
    pub(crate) fn new(rule: VerdictReuse, window: Span, idle_timeout: Span) -> Self {
        Self {
            rule,
            window,
            window_start: Timestamp::MIN,
            window_end: Timestamp::MIN,
            places: Places::new(rule.flows, idle_timeout),
            origins: Vec::new(),
            reused: 0,
        }
    }

    /// Packets that got the last verdict of their flow.
    pub(crate) const fn reused(&self) -> u64 {
        self.reused
    }

    pub(crate) const fn counts(&self) -> PlaceCounts {
        self.places.counts()
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.places.size_bytes()
    }

    /// The packets of a block that forests are asked about; the others have verdicts when the
    /// former do.
    pub(crate) fn choose(&mut self, block: &BlockArrivals<'_>) -> PacketSet {
        self.origins.clear();
        let mut asked = PacketSet::NONE;
        let mut steps = block.clock_steps().peekable();
        for (flow, &hash) in block.flows.iter().zip(block.hashes) {
            if flow.is_some() {
                self.places.prefetch(hash);
            }
        }
        for at in 0..block.flows.len() {
            if steps.next_if_eq(&at).is_some() {
                self.places.forget();
                self.window_end = Timestamp::MIN;
            }
            if let Some(&hash) = block.hashes.get(at + AHEAD) {
                self.places.prefetch_state(hash);
            }
            let origin = match block.flows[at] {
                Some(_) => self.origin(block, at),
                None => Origin::Forest,
            };
            if matches!(origin, Origin::Forest | Origin::Kept(..)) {
                asked.add(at);
            }
            self.origins.push(origin);
        }
        asked
    }

    #[inline(always)]
    fn origin(&mut self, block: &BlockArrivals<'_>, at: usize) -> Origin {
        let (facts, now, hash) = (&block.facts[at], block.times[at], block.hashes[at]);
        if now >= self.window_end && self.window.as_ns() > 0 {
            self.window_start = now.window_start(self.window);
            self.window_end = self.window_start.plus(self.window);
        }
        let (place, before) = self.places.find_or_begin(hash, now);
        let Some(flow) = self.places.at(place, hash) else { return Origin::Forest };
        let flags = facts.tcp_flags.max(0);
        // Sums begin again, or another connection between the same ports does.
        if before.is_none_or(|before| before < self.window_start)
            || flags & (TCP_SYN | TCP_ACK) == TCP_SYN
        {
            *flow = FlowVerdict::default();
        }
        flow.packets = flow.packets.saturating_add(facts.segments.max(1).into());
        if flow.packets >= flow.next || flags & (TCP_SYN | TCP_FIN | TCP_RST) != 0 {
            flow.next = self.rule.next(flow.packets);
            (flow.class, flow.step) = (index_of(at), IS_PENDING);
            return Origin::Kept(hash, place);
        }
        self.reused += 1;
        if flow.step & IS_PENDING != 0 { Origin::Packet(flow.class) } else { Origin::Last(*flow) }
    }

    /// Gives the packets of the block that were not asked about their verdicts, after the others
    /// have theirs. `steps` has the scores, where they are kept.
    pub(crate) fn settle(&mut self, verdicts: &mut [PacketVerdict], steps: &mut [ScoreStep]) {
        for (at, origin) in self.origins.iter().enumerate() {
            let (mut step, verdict) = (steps.get(at).copied().unwrap_or_default(), verdicts[at]);
            match *origin {
                Origin::Forest => continue,
                Origin::Kept(hash, place) => {
                    let Some(flow) = self.places.at(place, hash) else { continue };
                    // A later packet of the block may be the one that is kept.
                    if flow.step == IS_PENDING && usize::from(flow.class) == at {
                        let by_packet =
                            if verdict.basis == Basis::Packet { IS_BY_PACKET } else { 0 };
                        flow.step = index_of(step.index()) | by_packet;
                        (flow.class, flow.confidence) = (verdict.class, verdict.confidence);
                    }
                    continue;
                }
                Origin::Last(flow) => {
                    let basis =
                        if flow.step & IS_BY_PACKET != 0 { Basis::Packet } else { Basis::Flow };
                    let FlowVerdict { class, confidence, .. } = flow;
                    verdicts[at] = PacketVerdict { class, confidence, basis, ..verdict };
                    step = ScoreStep::at((flow.step & !IS_BY_PACKET).into());
                }
                Origin::Packet(earlier) => {
                    let earlier = usize::from(earlier);
                    verdicts[at] = PacketVerdict { flow: verdict.flow, ..verdicts[earlier] };
                    step = steps.get(earlier).copied().unwrap_or_default();
                }
            }
            if let Some(to) = steps.get_mut(at) {
                *to = step;
            }
        }
    }
}

/// A place in a block, or a step of scores: both are small.
#[inline(always)]
fn index_of(at: usize) -> u16 {
    u16::try_from(at).unwrap_or(u16::MAX)
}

impl VerdictReuse {
    /// The number of the packet that is classified next, after one that was.
    #[inline(always)]
    fn next(&self, packets: u32) -> u32 {
        let grown = u64::from(packets) * u64::from(self.growth_percent) / 100;
        packets.saturating_add(u32::try_from(grown).unwrap_or(u32::MAX).max(1))
    }
}
