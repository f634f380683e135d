//! Flows that are not decided, in the order in which they began.

use std::mem;
use std::net::IpAddr;

use engine::flow::{FlowPacket, FlowSlot};
use model::FirstPackets;
use packet::{FlowDirection, FlowKey, Span, Timestamp, must};

use crate::cascade::{Cascade, Stage};
use crate::evidence::{Evidence, FlowEvidence, NamesSoFar};
use crate::uncertainty::Answer;
use crate::verdict::Cause;

/// No neighbour.
const NONE: u32 = u32::MAX;

/// What a stage said, and of what.
#[derive(Clone, Copy, Debug)]
pub(super) struct StageOutput {
    pub(super) answer: Answer,
    /// The stage, by its index in the cascade.
    pub(super) stage: usize,
    /// Packets that it was shown.
    pub(super) packets_used: usize,
}

/// Why no more packets are taken in, and since when.
#[derive(Clone, Copy, Debug)]
pub(super) struct CloseEvent {
    pub(super) cause: Cause,
    pub(super) time: Timestamp,
}

/// A flow that is not decided: who it is, and its packets so far.
#[derive(Debug)]
pub(super) struct PendingFlow {
    /// Where its state is, until the flow has ended.
    pub(super) slot: Option<FlowSlot>,
    pub(super) key: FlowKey,
    pub(super) direction: FlowDirection,
    pub(super) input: u16,
    pub(super) hash: u64,
    pub(super) first: Timestamp,
    /// Event time when it began: later than its first stamp where that came late.
    began: Timestamp,
    /// Stamps of the packets after the first.
    later: Vec<Timestamp>,
    pub(super) packets: FirstPackets,
    /// Packets that were examined.
    pub(super) packet_count: usize,
    /// What its names say, where they are evidence.
    pub(super) names: Option<Box<FlowEvidence>>,
    /// The stage to be asked next, by its index in the cascade.
    pub(super) stage: usize,
    /// Whether its row is on its way to that stage.
    pub(super) is_asked: bool,
    /// Whether its flow began again after a fault: then its row's outcome only frees its place.
    pub(super) is_given_up: bool,
    /// Whether it counts among those that wait for packets.
    pub(super) is_waiting: bool,
    pub(super) given: Option<StageOutput>,
    /// What the model that was asked last says by itself, where hosts are in memory.
    pub(super) own: Vec<f64>,
    pub(super) closed: Option<CloseEvent>,
    /// The first packet that was several, counted from 1; 0 for none.
    pub(super) merged_packet: usize,
    previous: u32,
    next: u32,
}

impl PendingFlow {
    fn new(packet: &FlowPacket, slot: FlowSlot, began: Timestamp) -> Self {
        Self {
            slot: Some(slot),
            key: packet.key(),
            input: packet.input(),
            direction: packet.direction,
            hash: packet.hash,
            first: packet.timestamp,
            began,
            later: Vec::new(),
            packets: FirstPackets::default(),
            packet_count: 0,
            names: None,
            stage: 0,
            is_asked: false,
            is_given_up: false,
            is_waiting: false,
            given: None,
            own: Vec::new(),
            closed: None,
            merged_packet: 0,
            previous: NONE,
            next: NONE,
        }
    }

    /// Remembers when a packet after the first was seen, of `depth` that are wanted.
    pub(super) fn stamp(&mut self, time: Timestamp, depth: usize) {
        if self.packet_count > 1 {
            if self.later.is_empty() {
                self.later.reserve_exact(depth.min(FirstPackets::GROWN_PACKETS) - 1);
            }
            self.later.push(time);
        }
    }

    /// When its packet `number`, counted from 1, was seen.
    pub(super) fn time_of(&self, number: usize) -> Timestamp {
        match number.checked_sub(2) {
            None => self.first,
            Some(place) => self.later.get(place).copied().unwrap_or(self.first),
        }
    }

    /// Who sent its first packet.
    pub(super) fn source(&self) -> IpAddr {
        self.key.endpoints(self.direction).0.address
    }

    /// What its names say to a stage.
    pub(super) fn evidence(&self, stage: usize) -> Evidence {
        self.names.as_ref().map_or_else(Evidence::default, |names| names.at(stage))
    }

    /// Takes in what is known of its names with the packet at hand, if they are evidence.
    pub(super) fn take_names(&mut self, cascade: &Cascade, names: NamesSoFar<'_>) {
        let Some(list) = cascade.names() else { return };
        let depth = |stage: &Stage| stage.names().map_or(0, |names| names.packets);
        let depths = cascade.stages().iter().map(depth);
        let kept = self.names.get_or_insert_default();
        kept.take_in(list, depths, names, self.packet_count);
    }

    /// How many packets a stage looks at, as far as is known.
    pub(super) fn wanted(&self, stage: &Stage) -> usize {
        let awaited = match (&self.names, stage.names()) {
            (Some(kept), Some(names)) => kept.awaited(names.packets),
            _ => 0,
        };
        stage.features().packets().max(awaited)
    }

    /// Takes no more packets in, unless that was so before.
    pub(super) fn close(&mut self, cause: Cause, time: Timestamp) {
        self.closed.get_or_insert(CloseEvent { cause, time });
    }

    /// Bytes that it allocates.
    fn kept_bytes(&self) -> usize {
        let names = self.names.as_ref().map_or(0, |_| size_of::<FlowEvidence>());
        let own = self.own.capacity() * size_of::<f64>();
        own + self.packets.size_bytes() + self.later.capacity() * size_of::<Timestamp>() + names
    }
}

/// All of them. Each is found by its place, which is given to another when it has been decided.
#[derive(Debug)]
pub(super) struct Pool {
    places: Vec<PendingFlow>,
    free: Vec<u32>,
    head: u32,
    tail: u32,
}

impl Pool {
    pub(super) const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new(), head: NONE, tail: NONE }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.head == NONE
    }

    pub(super) fn get(&self, place: u32) -> Option<&PendingFlow> {
        self.places.get(place as usize)
    }

    pub(super) fn get_mut(&mut self, place: u32) -> Option<&mut PendingFlow> {
        self.places.get_mut(place as usize)
    }

    /// A flow begins with this packet, at this event time; it stands last.
    pub(super) fn begin(&mut self, packet: &FlowPacket, slot: FlowSlot, began: Timestamp) -> u32 {
        let mut flow = PendingFlow::new(packet, slot, began);
        flow.previous = self.tail;
        let place = match self.free.pop() {
            Some(place) => {
                if let Some(old) = self.get_mut(place) {
                    flow.packets = mem::take(&mut old.packets);
                    *old = flow;
                }
                place
            }
            None => {
                self.places.push(flow);
                u32::try_from(self.places.len() - 1).unwrap_or(NONE)
            }
        };
        match self.get_mut(self.tail) {
            Some(last) => last.next = place,
            None => self.head = place,
        }
        self.tail = place;
        place
    }

    /// A flow has been decided: what was kept of it is given back.
    pub(super) fn release(&mut self, place: u32) {
        debug_assert!(!self.free.contains(&place), "a flow is given back once");
        let Some(flow) = must(self.get_mut(place), "a flow that is given back is kept") else {
            return;
        };
        flow.packets.clear();
        flow.later = Vec::new();
        flow.names = None;
        flow.own = Vec::new();
        let (previous, next) = (flow.previous, flow.next);
        match self.get_mut(previous) {
            Some(neighbour) => neighbour.next = next,
            None => self.head = next,
        }
        match self.get_mut(next) {
            Some(neighbour) => neighbour.previous = previous,
            None => self.tail = previous,
        }
        self.free.push(place);
    }

    /// The places of those that began `wait` before `time` or earlier, oldest first; of all where
    /// no time is given.
    pub(super) fn due(&self, until: Option<(Timestamp, Span)>, due: &mut Vec<u32>) {
        let mut place = self.head;
        while let Some(flow) = self.get(place) {
            if until.is_some_and(|(time, wait)| time.since(flow.began) < wait) {
                return;
            }
            due.push(place);
            place = flow.next;
        }
    }

    /// The clock was set back: no flow began later than now.
    pub(super) fn set_back(&mut self, time: Timestamp) {
        let mut place = self.head;
        while let Some(flow) = self.get_mut(place) {
            flow.began = flow.began.min(time);
            place = flow.next;
        }
    }

    /// Bytes of all that is kept. Looks at every flow.
    pub(super) fn size_bytes(&self) -> usize {
        let places = self.places.capacity() * size_of::<PendingFlow>();
        let free = self.free.capacity() * size_of::<u32>();
        places + free + self.places.iter().map(PendingFlow::kept_bytes).sum::<usize>()
    }
}
