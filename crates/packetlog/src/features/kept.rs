//! What packets of flows and hosts came to, in tables or in sketches.

use engine::flow::{
    FlowMark, FlowOptions, FlowPacket, FlowSlot, FlowState, FlowTable, MarkKind, SideSlab,
};
use engine::sketch::{Sketch, SketchCounts, SketchHint, SketchOptions, SketchPacket};
use engine::sums::{PacketRun, PacketSums};
use packet::flow_key::MarkedKey;
use packet::{FlowDirection, FlowKey, Layers, Span, Timestamp, must};

use super::merged::SEGMENT_GAP_NS;
use super::options::{CounterStore, FeatureOptions};

/// Packets that a table takes in together; see [`FlowTable::observe`].
const PIECE_LEN: usize = 64;

/// A packet on its way to what is kept of its key.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketArrival {
    pub(super) hash: u64,
    /// Where a sketch seems to have it.
    pub(super) hint: SketchHint,
    pub(super) time: Timestamp,
    pub(super) size: u32,
    /// Which of the batch's packets.
    pub(super) index: u16,
    pub(super) tcp_flags: u8,
    pub(super) is_marked: bool,
    /// What a merged frame stands for in addition to its first packet; 0 nearly always.
    pub(super) more: u16,
    /// Whether these are marked as well, and bytes of the last.
    pub(super) more_marked: bool,
    pub(super) last_size: u32,
}

impl PacketArrival {
    /// The packets of a merged frame after the first.
    const fn run(&self) -> PacketRun {
        PacketRun {
            count: self.more as u32,
            size: self.size,
            last_size: self.last_size,
            gap_ns: SEGMENT_GAP_NS,
            is_marked: self.more_marked,
        }
    }
}

/// What is kept of flows, of sources or of destinations.
pub(super) enum KeyCounters {
    Sketch(Box<Sketch>),
    Exact(Box<Exact>),
}

/// Packets of keys, each with sums of its own.
pub(super) struct Exact {
    table: FlowTable,
    states: SideSlab<FlowState<State>>,
    window: Option<Span>,
    packets: Vec<FlowPacket>,
    slots: Vec<FlowSlot>,
    ended: ExactCounts,
}

/// Keys of a table that are gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExactCounts {
    /// All of them: a flow that has ended, a host that was silent for the idle time-out.
    pub ended: u64,
    /// Those that had to make room for another.
    pub evicted: u64,
}

#[derive(Clone, Copy, Default)]
struct State {
    sums: PacketSums,
    last: Timestamp,
    window_start: Timestamp,
}

/// A host as one end of a conversation without a peer, so that a table of flows holds it.
pub(super) fn host_key(address: std::net::IpAddr) -> FlowKey {
    const NOBODY: packet::Protocol = packet::Protocol(255);
    let unspecified = match address {
        std::net::IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        std::net::IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    FlowKey::from_tuple(address, unspecified, 0, 0, NOBODY).0
}

impl KeyCounters {
    pub(super) fn new(options: &FeatureOptions) -> Self {
        match options.source {
            CounterStore::Sketch => Self::Sketch(Box::new(Sketch::new(SketchOptions {
                layers: options.layers,
                buckets: options.buckets,
                window: options.window,
            }))),
            CounterStore::Exact => Self::Exact(Box::new(Exact::new(options))),
        }
    }

    /// Asks for what is examined first for a key.
    #[inline(always)]
    pub(super) fn prefetch_labels(&self, hash: u64) {
        if let Self::Sketch(sketch) = self {
            sketch.prefetch_labels(hash);
        }
    }

    /// Asks for the buckets of packets whose labels were asked for.
    pub(super) fn prefetch_buckets(&self, arrived: &mut [PacketArrival]) {
        if let Self::Sketch(sketch) = self {
            arrived.iter_mut().for_each(|packet| packet.hint = sketch.prefetch_bucket(packet.hash));
        }
    }

    /// Takes in packets in order, each with its key where tables want it, and writes for each what
    /// its key has come to.
    pub(super) fn observe(
        &mut self,
        arrived: &[PacketArrival],
        keys: &[(FlowKey, FlowDirection)],
        sums: &mut [PacketSums],
    ) {
        match self {
            Self::Sketch(sketch) => observe_sketch(sketch, arrived, sums),
            Self::Exact(exact) => {
                for (arrived, keys) in arrived.chunks(PIECE_LEN).zip(keys.chunks(PIECE_LEN)) {
                    exact.observe(arrived, keys, sums);
                }
            }
        }
    }

    /// Event time has come so far, or was set back.
    pub(super) fn on_mark(&mut self, mark: FlowMark) {
        match (self, mark.kind) {
            (Self::Sketch(sketch), MarkKind::Step) => sketch.forget(),
            (Self::Sketch(_), _) => {}
            (Self::Exact(exact), kind) => exact.on_mark(kind, mark.watermark),
        }
    }

    pub(super) fn sketch_counts(&self) -> Option<SketchCounts> {
        match self {
            Self::Sketch(sketch) => Some(*sketch.counts()),
            Self::Exact(_) => None,
        }
    }

    pub(super) fn exact_counts(&self) -> Option<ExactCounts> {
        match self {
            Self::Sketch(_) => None,
            Self::Exact(exact) => Some(exact.ended),
        }
    }

    /// Bytes that it takes now.
    pub(super) fn size_bytes(&self) -> usize {
        match self {
            Self::Sketch(sketch) => sketch.size_bytes(),
            Self::Exact(exact) => exact.table.len() * Exact::BYTES_PER_KEY,
        }
    }

    /// Whether packets are to bring their keys.
    pub(super) const fn wants_keys(&self) -> bool {
        matches!(self, Self::Exact(_))
    }
}

fn observe_sketch(sketch: &mut Sketch, arrived: &[PacketArrival], sums: &mut [PacketSums]) {
    for packet in arrived {
        let &PacketArrival { hash, time, size, index, is_marked, hint, .. } = packet;
        if let Some(sums) = sums.get_mut(usize::from(index)) {
            sketch.observe_into(&SketchPacket { hash, time, size, is_marked }, hint, sums);
            if packet.more > 0 {
                sketch.observe_run(hash, &packet.run(), sums);
            }
        }
    }
}

impl Exact {
    /// In the table, its index and outside it.
    const BYTES_PER_KEY: usize = 128 + 24 + SideSlab::<FlowState<State>>::BYTES_PER_FLOW;

    fn new(options: &FeatureOptions) -> Self {
        let flow_options = FlowOptions {
            idle_timeout: options.idle_timeout,
            flow_count_max: options.flow_count_max,
            ..FlowOptions::default()
        };
        Self {
            table: FlowTable::new(flow_options),
            states: SideSlab::default(),
            window: (options.window.as_ns() > 0).then_some(options.window),
            packets: Vec::with_capacity(PIECE_LEN),
            slots: Vec::with_capacity(PIECE_LEN),
            ended: ExactCounts::default(),
        }
    }

    fn observe(
        &mut self,
        arrived: &[PacketArrival],
        keys: &[(FlowKey, FlowDirection)],
        sums: &mut [PacketSums],
    ) {
        self.packets.clear();
        self.packets.extend(arrived.iter().zip(keys).map(|(packet, &(key, direction))| {
            self.table.prefetch(packet.hash);
            FlowPacket {
                marked_key: MarkedKey::new(key, 0),
                timestamp: packet.time,
                hash: packet.hash,
                wire_len: packet.size,
                vlan_id: Layers::NO_VLAN,
                tcp_flags: packet.tcp_flags,
                direction,
            }
        }));
        self.table.observe(&self.packets, &mut self.slots);
        for &slot in &self.slots {
            self.states.prefetch(slot);
        }
        for (packet, &slot) in arrived.iter().zip(&self.slots) {
            let kept = must(self.states.state(slot), "a packet's key is kept");
            let Some(FlowState(state)) = kept else { continue };
            state.add(packet, self.window);
            if let Some(sums) = sums.get_mut(usize::from(packet.index)) {
                *sums = state.sums;
            }
        }
        self.count_ended();
    }

    fn on_mark(&mut self, kind: MarkKind, watermark: Timestamp) {
        match kind {
            MarkKind::Step => self.table.step(watermark),
            MarkKind::Tick | MarkKind::Last => self.table.expire(watermark),
        }
        self.count_ended();
    }

    fn count_ended(&mut self) {
        use engine::flow::EndReason::{Emergency, Evicted};
        for ended in self.table.take_ended() {
            self.ended.ended += 1;
            let made_room = matches!(ended.record.reason, Emergency | Evicted);
            self.ended.evicted += u64::from(made_room);
        }
    }
}

impl State {
    #[inline]
    fn add(&mut self, packet: &PacketArrival, window: Option<Span>) {
        if let Some(window) = window {
            let start = packet.time.window_start(window);
            if start != self.window_start {
                self.sums = PacketSums::NONE;
                self.window_start = start;
            }
        }
        let gap = u64::try_from(packet.time.since(self.last).as_ns()).unwrap_or(0);
        self.sums.add(packet.size, gap, packet.is_marked);
        if packet.more > 0 {
            self.sums.add_run(&packet.run());
        }
        self.last = packet.time;
    }
}
