//! Sizes, directions and gaps of a flow's first packets.
//!
//! - **Size** is the packet's length in bytes from its (innermost) IP header to its end, as its
//!   headers tell it: neither the link's header nor its padding, whatever was captured.
//! - **Direction** is 1 for packets that go the way of the flow's first packet, −1 for the others,
//!   and 0 where there is no packet.
//! - **Gap** is the time in nanoseconds from the latest stamp of the flow's packets before it: 0
//!   for the first packet and for one that comes out of order.

use packet::{FlowDirection, Layers, Record, Timestamp};

use crate::first::FirstPackets;

/// One packet of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Bytes from the IP header to the packet's end.
    pub size_bytes: u32,
    /// Whether it goes the way of the flow's first packet.
    pub is_forward: bool,
    /// Time since the latest packet before it.
    pub gap_ns: u64,
    /// Bytes behind its transport header, where one could be read; no channel of its own.
    pub payload_bytes: Option<u32>,
}

/// Channels of a step, in order.
pub const CHANNELS: [&str; 3] = ["size_bytes", "direction", "gap_ns"];

/// The first packets of one flow.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FirstSteps {
    steps: Vec<Step>,
    forward: Option<FlowDirection>,
    latest: Option<Timestamp>,
}

/// A packet's length from its IP header on.
#[must_use]
pub fn size_bytes(record: &Record) -> u32 {
    let layers = &record.layers;
    let headers_len = layers.payload_offset.saturating_sub(layers.network_offset);
    layers.payload_len.saturating_add(headers_len.into())
}

/// Bytes behind a packet's transport header, as its headers tell it; nothing where none could be
/// read, such as of later fragments.
#[must_use]
pub fn payload_bytes(record: &Record) -> Option<u32> {
    let layers = &record.layers;
    let is_told = layers.has(Layers::TRANSPORT) && !layers.has(Layers::LATER_FRAGMENT);
    is_told.then_some(layers.payload_len)
}

impl Step {
    /// 1 for a packet that goes the way of the flow's first, −1 for another.
    #[must_use]
    pub const fn direction(&self) -> f64 {
        if self.is_forward { 1.0 } else { -1.0 }
    }
}

impl FirstSteps {
    /// Takes in the flow's next packet, unless it has `depth` of them.
    pub fn on_packet(
        &mut self,
        record: &Record,
        way: FlowDirection,
        time: Timestamp,
        depth: usize,
    ) {
        if self.steps.len() >= depth {
            return;
        }
        let latest = self.latest.unwrap_or(time);
        let gap_ns = u64::try_from(time.since(latest).as_ns()).unwrap_or(0);
        let is_forward = *self.forward.get_or_insert(way) == way;
        self.latest = Some(latest.max(time));
        if self.steps.is_empty() {
            // Most flows of a flood have one packet.
            self.steps.reserve_exact(1);
        } else if self.steps.len() == 1 {
            self.steps.reserve_exact(depth.min(FirstPackets::GROWN_PACKETS) - 1);
        }
        let (size_bytes, payload_bytes) = (size_bytes(record), payload_bytes(record));
        self.steps.push(Step { size_bytes, is_forward, gap_ns, payload_bytes });
    }

    /// Forgets all packets.
    pub fn clear(&mut self) {
        self.steps.clear();
        (self.forward, self.latest) = (None, None);
    }

    /// Bytes of the list of packets, with the room that it has.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.steps.capacity() * size_of::<Step>()
    }

    /// The packets that came.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Appends `depth` steps of [`CHANNELS`], zeros where there are fewer packets.
    pub fn values(&self, depth: usize, out: &mut Vec<i64>) {
        let len = out.len() + depth * CHANNELS.len();
        for step in self.steps.iter().take(depth) {
            let gap_ns = i64::try_from(step.gap_ns).unwrap_or(i64::MAX);
            let direction = if step.is_forward { 1 } else { -1 };
            out.extend([i64::from(step.size_bytes), direction, gap_ns]);
        }
        out.resize(len, 0);
    }
}

#[cfg(test)]
mod tests {
    use packet::Layers;

    use super::*;

    fn record(headers_len: u16, payload_len: u32) -> Record {
        let layers = Layers {
            network_offset: 18,
            payload_offset: 18 + headers_len,
            payload_len,
            ..Layers::default()
        };
        Record { wire_len: 1514, layers, ..Record::default() }
    }

    #[test]
    fn sizes_directions_and_gaps_are_as_defined() {
        use FlowDirection::{HighToLow, LowToHigh};
        let mut first = FirstSteps::default();
        for (headers_len, payload_len, way, time) in [
            (60, 0, HighToLow, 1_000),
            (40, 1460, LowToHigh, 1_500),
            (40, 5, LowToHigh, 1_200),
            (40, 6, HighToLow, 1_600),
            (40, 7, HighToLow, 1_700),
        ] {
            let time = Timestamp::from_ns(time);
            first.on_packet(&record(headers_len, payload_len), way, time, 4);
        }
        let mut values = Vec::new();
        first.values(5, &mut values);
        let expected = [[60, 1, 0], [1500, -1, 500], [45, -1, 0], [46, 1, 100], [0, 0, 0]].concat();
        assert_eq!(values, expected);
        values.clear();
        first.values(1, &mut values);
        assert_eq!(values, [60, 1, 0]);
        assert_eq!(first.steps().len(), 4);
    }

    #[test]
    fn a_flow_without_stamps_has_no_gaps() {
        let mut first = FirstSteps::default();
        for _ in 0..2 {
            first.on_packet(&record(28, 4), FlowDirection::LowToHigh, Timestamp::UNKNOWN, 9);
        }
        assert!(first.steps().iter().all(|step| step.gap_ns == 0 && step.is_forward));
    }
}
