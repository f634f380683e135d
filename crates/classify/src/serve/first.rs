//! What is examined of a flow's first packet before any model is asked.

use engine::flow::FlowPacket;
use model::block::Block;
use packet::{Frame, Layers, Protocol};

use crate::cascade::Cascade;
use crate::verdict::{Cause, Label, Verdict};

/// Whether flows of a protocol have no ports that models look at.
pub(crate) fn is_portless(protocol: Protocol) -> bool {
    protocol != Protocol::TCP && protocol != Protocol::UDP
}

/// What is said of a flow of a protocol without ports, at its first packet.
pub(crate) fn named_by_protocol(
    packet: &FlowPacket,
    latency_ns: Option<u64>,
    version: u16,
) -> Verdict {
    Verdict {
        key: packet.key(),
        direction: packet.direction,
        input: packet.input(),
        first: packet.timestamp,
        window: None,
        label: Label::Protocol(packet.key().protocol()),
        confidence: 1.0,
        stage: None,
        packets_used: 1,
        deciding: packet.timestamp,
        decided: packet.timestamp,
        cause: Cause::Protocol,
        latency_ns,
        version,
        other_segmentation: false,
    }
}

/// Whether the capture cut a frame before the bytes that models look at.
pub(crate) fn is_cut(frame: &Frame<'_>, cascade: &Cascade) -> bool {
    let (record, layout) = (frame.record, cascade.features.layout());
    if record.captured_len >= record.wire_len {
        return false;
    }
    if !record.layers.has(Layers::TRANSPORT) {
        return record.layers.is_cut();
    }
    let payload_len = record.layers.payload_len.min(layout.len(Block::Payload).into());
    u32::from(record.layers.payload_offset) + payload_len > record.captured_len
}
