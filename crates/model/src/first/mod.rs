//! The features of a flow, from the frames of its first packets: the one way from frames to a row,
//! for training and for serving.
//!
//! [`FlowFeatures`] says which there are, [`FirstPackets`] keeps what they are made of. A row is
//! the compact records of the first packets ([`Layout::fill`](crate::Layout::fill)), and numbers
//! in addition to them. A row of fewer packets is the beginning of one of more: models that look at
//! different numbers of packets are given the same state.
//!
//! All numbers are rounded to 32-bit floating point: what a trainer that casts its rows to that saw
//! is then what a model compares, to the last bit.

mod columns;
mod features;
mod number;
#[cfg(test)]
mod tests;

pub use columns::{BitColumns, SeenBits};
pub use features::{FeaturesError, FlowFeatures};
pub use number::Number;

use std::mem;

use packet::{FlowDirection, Frame, Timestamp, flow_key};

use crate::block::Block;
use crate::layout::Layout;
use crate::sequence::{FirstSteps, Step, size_bytes};

/// What is kept of the first packets of one flow: their records, 24 bytes a packet more where
/// numbers are of packets, and no row of numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FirstPackets {
    records: Vec<u8>,
    steps: FirstSteps,
    /// Source and destination of the first packet.
    ports: Option<(u16, u16)>,
    protocol: u8,
    packet_count: u8,
    long_count: u8,
}

/// The number of what is not there.
const MISSING: f64 = -1.0;

/// Bytes of an IP packet that Ethernet carries unless its ends agree on more.
const USUAL_LEN_MAX: u32 = 1_500;

impl FirstPackets {
    /// Packets for which room is made when a second one comes, if so many are read.
    pub const GROWN_PACKETS: usize = 16;

    /// Takes in the flow's next frame, unless it has as many as are read. `features` are the same
    /// for all frames of a flow: of several models, [`FlowFeatures::of_all`].
    #[inline]
    pub fn on_frame(
        &mut self,
        features: &FlowFeatures,
        frame: &Frame<'_>,
        way: FlowDirection,
        time: Timestamp,
    ) {
        if self.packet_count() >= features.packets() {
            return;
        }
        let (layout, len) = (features.layout(), self.records.len());
        let record_len = layout.record_len();
        if self.packet_count == 0 {
            self.protocol = frame.record.layers.protocol.0;
            self.ports = flow_key::ports(frame);
            // Most flows of a flood have one packet: no more is set aside for it.
            self.records.reserve_exact(record_len);
        } else if self.packet_count == 1 {
            // One that goes on mostly goes on to the end: growing once costs less than thrice.
            self.records
                .reserve_exact(record_len * (features.packets().min(Self::GROWN_PACKETS) - 1));
        }
        self.records.resize(len + record_len, 0);
        layout.fill(frame, self.records.get_mut(len..).unwrap_or_default());
        if features.has_steps() {
            self.steps.on_packet(frame.record, way, time, features.packets());
        }
        let is_long = frame.record.segments > 1 || size_bytes(frame.record) > USUAL_LEN_MAX;
        self.long_count += u8::from(is_long);
        self.packet_count += 1;
    }

    /// Forgets all packets; keeps the room of one, for the next flow.
    pub fn clear(&mut self) {
        let is_large = self.packet_count > 1;
        let (mut records, mut steps) = (mem::take(&mut self.records), mem::take(&mut self.steps));
        if is_large {
            records = Vec::new();
            steps = FirstSteps::default();
        }
        records.clear();
        steps.clear();
        *self = Self { records, steps, ..Self::default() };
    }

    /// Packets that were taken in.
    #[inline]
    #[must_use]
    pub const fn packet_count(&self) -> usize {
        self.packet_count as usize
    }

    /// Those of them that are longer than 1,500 bytes from the IP header on, or are known to stand
    /// for several: offloads have merged segments, or frames are jumbo. A model that was trained
    /// without such packets has seen none of their sizes.
    #[inline]
    #[must_use]
    pub const fn long_count(&self) -> usize {
        self.long_count as usize
    }

    /// The records of the packets that `features` read, end to end; of packets that did not come,
    /// nothing.
    #[inline]
    #[must_use]
    pub fn records(&self, features: &FlowFeatures) -> &[u8] {
        self.records.get(..features.records_len()).unwrap_or(&self.records)
    }

    /// Appends the numbers of `features`, which may be fewer than those by which frames were taken
    /// in.
    #[inline]
    pub fn numbers(&self, features: &FlowFeatures, out: &mut Vec<f64>) {
        out.extend(features.numbers().iter().map(|&number| self.number(features.layout(), number)));
    }

    /// Appends the numbers of `features` that are not read from records:
    /// [`FlowFeatures::row_numbers`] makes all numbers of these and of the records.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // Every number is rounded to 32 bits: none changes.
    pub fn unrecorded_numbers(&self, features: &FlowFeatures, out: &mut Vec<f32>) {
        let unrecorded = features.numbers().iter().filter(|number| !number.is_recorded());
        out.extend(unrecorded.map(|&number| self.number(features.layout(), number) as f32));
    }

    /// Bytes that it allocates, with the room that its lists have.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.records.capacity() + self.steps.size_bytes()
    }

    #[inline]
    pub(crate) fn number(&self, layout: Layout, number: Number) -> f64 {
        let port = |port| f64::from(layout.identity().port(port));
        let step = |packet: u8| self.steps.steps().get(usize::from(packet));
        match number {
            Number::Protocol if self.packet_count == 0 => MISSING,
            Number::Protocol => f64::from(self.protocol),
            Number::ServerPort => self.ports.map_or(MISSING, |(_, to)| port(to)),
            Number::ClientPort => self.ports.map_or(MISSING, |(from, _)| port(from)),
            Number::SizeBytes(packet) => step(packet).map_or(0.0, |s| single(s.size_bytes.into())),
            Number::Direction(packet) => step(packet).map_or(0.0, Step::direction),
            Number::GapNs(packet) => step(packet).map_or(0.0, |step| single(step.gap_ns)),
            Number::PayloadBytes(packet) => {
                let len = step(packet).and_then(|step| step.payload_bytes);
                len.map_or(MISSING, |len| single(len.into()))
            }
            Number::Byte { packet, index } => payload_byte(layout, &self.records, packet, index),
        }
    }

    /// What numbers of packets are made of.
    pub(crate) const fn steps(&self) -> &FirstSteps {
        &self.steps
    }
}

/// A byte of a packet's payload as a number. Records are whole, so a byte that is there has its
/// presence behind it.
#[inline]
fn payload_byte(layout: Layout, records: &[u8], packet: u8, index: u16) -> f64 {
    let start = usize::from(packet) * layout.record_len();
    let place = layout.offset(Block::Payload) + usize::from(index);
    let presence = records.get(start + layout.data_len() + place / 8);
    let is_there = presence.is_some_and(|presence| presence << (place % 8) & 0x80 != 0);
    records.get(start + place).filter(|_| is_there).map_or(MISSING, |&byte| byte.into())
}

/// As 32-bit floating point has it.
pub(crate) fn single(number: u64) -> f64 {
    f64::from(number as f32)
}
