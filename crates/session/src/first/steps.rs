//! Sizes, directions and gaps of a flow's first packets, step by step.

use engine::columns::{Field, Kind, Schema, Value};
use engine::flow::{FlowPacket, FlowSlot, FromFrames};
use model::{FirstSteps, sequence};
use packet::Frame;

use super::index;

/// Keeps the first packets' sizes, directions and gaps.
pub struct KeepSteps {
    /// Of so many packets.
    pub depth: usize,
}

impl FromFrames for KeepSteps {
    type State = FirstSteps;

    #[inline]
    fn on_frame(
        &mut self,
        steps: &mut FirstSteps,
        frame: &Frame<'_>,
        packet: &FlowPacket,
        _: FlowSlot,
    ) {
        steps.on_packet(frame.record, packet.direction, packet.timestamp, self.depth);
    }
}

/// All columns. Which there are is known once a run, and for as long as it lasts: so the names
/// live as long as the process does.
#[must_use]
pub fn schema(depth: usize) -> Schema {
    const KINDS: [(Kind, &str); 3] = [
        (Kind::U32, "Bytes from the IP header on; 0 if there is no such packet."),
        (
            Kind::I8,
            "1 in the direction of the flow's first packet, -1 in the other, 0 if there is \
                    none.",
        ),
        (Kind::U64, "Nanoseconds since the previous packet."),
    ];
    let mut fields = index::FLOW.to_vec();
    for packet in 0..depth {
        let channels = sequence::CHANNELS.into_iter().zip(KINDS);
        fields.extend(channels.map(|(name, (kind, about))| {
            Field::new(String::leak(format!("pkt{packet}_{name}")), kind, about)
        }));
    }
    Vec::leak(fields)
}

/// The columns of a step. A size is a length of a packet, a direction one of three.
#[must_use]
pub fn of_step([size_bytes, direction, gap_ns]: [i64; 3]) -> [Value<'static>; 3] {
    [
        Value::U32(u32::try_from(size_bytes).unwrap_or(u32::MAX)),
        Value::I8(i8::try_from(direction).unwrap_or_default()),
        Value::U64(u64::try_from(gap_ns).unwrap_or_default()),
    ]
}
