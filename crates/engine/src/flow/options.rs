//! When flows end, and how many there may be.

use packet::Span;

use crate::partition::PartitionShare;

/// Time-outs and limits of a flow table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowOptions {
    /// Stamps of one flow lie less than this apart; default 120 s.
    pub idle_timeout: Span,
    /// A flow is cut when it is this old; default 1800 s.
    pub active_timeout: Span,
    /// Each flow is cut at the borders of windows of this length, aligned to the epoch.
    pub window: Option<Span>,
    /// Flows kept at most, by all owners of a run together.
    pub flow_count_max: usize,
    /// The flows that are kept at all. Event time is that of all packets.
    pub share: PartitionShare,
}

impl FlowOptions {
    /// What follows the close of a connection within this time still belongs
    /// to it: last acknowledgements and retransmissions. Zeek's `tcp_close_delay`.
    pub const LINGER: Span = Span::from_seconds(5);
    /// In a full partition, a flow that only one side has sent on ends after
    /// this long without a packet.
    pub const EMERGENCY_UNANSWERED: Span = Span::from_seconds(5);
    /// In a full partition, any other flow ends after this long without a packet.
    pub const EMERGENCY_SETTLED: Span = Span::from_seconds(60);
    /// Packets from one side alone that make a flow worth keeping: a flood's
    /// flows have fewer.
    pub const SETTLED_PACKETS: u32 = 4;
}

impl Default for FlowOptions {
    fn default() -> Self {
        Self {
            idle_timeout: Span::from_seconds(120),
            active_timeout: Span::from_seconds(1800),
            window: None,
            flow_count_max: 1 << 22,
            share: PartitionShare::WHOLE,
        }
    }
}
