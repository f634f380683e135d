//! What was found of a packet.

use packet::{FlowDirection, FlowKey};

/// What a judgement stands on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Basis {
    /// The packet and what its flow did before it.
    Flow,
    /// The packet alone: nothing was kept of its flow.
    Packet,
}

/// What was found of a packet when it came.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PacketVerdict {
    /// Index of its class; 0 is traffic that is known and unimportant.
    pub class: u16,
    /// Probability that its forest gave the class, 0 to 1.
    pub confidence: f32,
    /// What that stands on.
    pub basis: Basis,
    /// Its flow and which way it goes in it; nothing for frames without an IP header.
    pub flow: Option<(FlowKey, FlowDirection)>,
}
