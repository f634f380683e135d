//! The first rows in an order, as tables and views show them.

use std::cmp::Reverse;
use std::collections::HashMap;

use engine::flow::pass::Piece;
use engine::flow::{EndReason, FlowRecord};
use packet::event_time::STEP_BACK;
use packet::{EventTime, FlowKey, FlowSlot, Layers, Span, TimeMove, Timestamp};

use super::flow::Flow;
use super::line::{LatencyRows, Line};
use super::settings::SortBy;
use crate::outlet::Outlet;

/// Flows kept beyond those that are wanted before the last ones are dropped.
const SPARE: usize = 1024;
/// Flows of a view that are looked at each time.
const RECENT_MAX: usize = 1 << 16;

/// The first rows in an order, of all that were found.
pub(super) struct First {
    count: usize,
    sort: SortBy,
    flows: Vec<Flow>,
    lines: Vec<Line>,
    total: u64,
}

impl First {
    pub(super) const fn new(count: usize, sort: SortBy) -> Self {
        Self { count, sort, flows: Vec::new(), lines: Vec::new(), total: 0 }
    }

    fn rank(&self, flow: &Flow) -> u64 {
        let [src, dst] = [&flow.src, &flow.dst];
        match self.sort {
            SortBy::Packets => src.rtt_count + dst.rtt_count,
            SortBy::P50 => src.rtt_p50_ns.max(dst.rtt_p50_ns).unwrap_or(0),
            SortBy::P99 => src.rtt_p99_ns.max(dst.rtt_p99_ns).unwrap_or(0),
            SortBy::Retransmissions => flow.retransmissions(),
        }
    }

    fn rank_line(&self, line: &Line) -> u64 {
        let rtt = &line.destination.rtt;
        match self.sort {
            SortBy::Packets => rtt.count,
            SortBy::P50 => rtt.quantile(0.5).unwrap_or(0),
            SortBy::P99 => rtt.quantile(0.99).unwrap_or(0),
            SortBy::Retransmissions => line.destination.retransmissions,
        }
    }

    pub(super) fn add(&mut self, flow: Flow) {
        self.total += 1;
        self.flows.push(flow);
        if self.flows.len() >= self.count.saturating_add(SPARE) {
            self.cut();
        }
    }

    /// The destinations of a period: of each period the first ones are kept.
    pub(super) fn add_lines(&mut self, mut lines: Vec<Line>) {
        self.total += lines.len() as u64;
        lines.sort_by_key(|line| (Reverse(self.rank_line(line)), line.address));
        lines.truncate(self.count);
        self.lines.append(&mut lines);
    }

    fn cut(&mut self) {
        let mut flows = std::mem::take(&mut self.flows);
        flows.sort_by_key(|flow| (Reverse(self.rank(flow)), flow.record.order()));
        flows.truncate(self.count);
        self.flows = flows;
    }

    pub(super) fn finish(mut self, has_flows: bool) -> LatencyRows {
        self.take(has_flows)
    }

    fn take(&mut self, has_flows: bool) -> LatencyRows {
        self.cut();
        let total = std::mem::take(&mut self.total);
        if has_flows {
            LatencyRows::Flows(std::mem::take(&mut self.flows), total)
        } else {
            LatencyRows::Destinations(std::mem::take(&mut self.lines), total)
        }
    }
}

/// Flows that had packets since a front end was shown any.
pub(super) struct Recent {
    to: Outlet<Vec<LatencyRows>>,
    every: Span,
    first: First,
    flows: HashMap<(u32, u32), FlowKey>,
    time: EventTime,
    next: Option<Timestamp>,
}

impl Recent {
    pub(super) fn new(to: Outlet<Vec<LatencyRows>>, every: Span, first: First) -> Self {
        let time = EventTime::new(STEP_BACK);
        Self { to, every, first, flows: HashMap::new(), time, next: None }
    }

    pub(super) fn on_tick(&mut self, time: Timestamp) {
        self.time.on_tick(time);
        self.next.get_or_insert(time.plus(self.every));
    }

    fn on_packet(&mut self, time: Timestamp) {
        let is_epoch = self.time.on_packet(time) == TimeMove::Epoch;
        if (is_epoch || self.next.is_none()) && time != Timestamp::UNKNOWN {
            self.next = Some(time.plus(self.every));
        }
    }

    pub(super) fn note(&mut self, piece: &Piece<'_>) {
        for (packet, slot) in piece.packets.iter().zip(piece.slots) {
            self.on_packet(packet.timestamp);
            let place = (slot.index, slot.generation);
            if self.flows.len() < RECENT_MAX || self.flows.contains_key(&place) {
                self.flows.insert(place, packet.marked_key.key());
            }
        }
    }

    pub(super) fn put_lines(&mut self, lines: Vec<Line>) {
        self.first.add_lines(lines);
        self.to.put(vec![self.first.take(false)]);
    }

    /// Shows them, where it is time for that.
    pub(super) fn show(&mut self, latency: &latency::Latency) {
        if self.next.is_none_or(|next| self.time.latest() < next) {
            return;
        }
        self.next = Some(self.time.latest().plus(self.every));
        for ((index, generation), key) in self.flows.drain() {
            let record = going_on(key);
            let found =
                latency.look(FlowSlot { index, generation }, |flow| Flow::of(&record, flow));
            if let Some(flow) = found.filter(Flow::is_measured) {
                self.first.add(flow);
            }
        }
        self.to.put(vec![self.first.take(true)]);
    }
}

/// The record of a flow that has not ended: nobody asks for more than whose it is.
fn going_on(key: FlowKey) -> FlowRecord {
    FlowRecord {
        key,
        direction: packet::FlowDirection::LowToHigh,
        reason: EndReason::End,
        vlan_id: Layers::NO_VLAN,
        input: 0,
        tcp_flags: [0; 2],
        packets: [0; 2],
        bytes: [0; 2],
        first: Timestamp::UNKNOWN,
        last: Timestamp::UNKNOWN,
    }
}
