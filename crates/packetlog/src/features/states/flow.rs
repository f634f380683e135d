//! What is known of one flow, or of one pair of hosts: who began, what was answered, how regularly.

use packet::Timestamp;

/// How a TCP connection begins and ends, as a column has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug, Default)]
#[repr(u8)]
pub(super) enum Handshake {
    /// It is not TCP.
    #[default]
    NotTcp = 0,
    /// No SYN was seen: it began before the capture, or without one.
    NotSeen = 1,
    /// The client's SYN.
    Syn = 2,
    /// The server's answer to it.
    SynAck = 3,
    /// The client's answer to that.
    Established = 4,
    /// A RST in answer to the first packets.
    Refused = 5,
    /// A FIN of either side.
    Finished = 6,
    /// A RST of either side.
    Reset = 7,
}

impl Handshake {
    /// Whether the client has asked and not acknowledged the answer.
    pub(super) const fn is_half_open(self) -> bool {
        matches!(self, Self::Syn | Self::SynAck)
    }

    /// Whether a SYN begins another connection between the same ports.
    pub(super) const fn is_over(self) -> bool {
        matches!(self, Self::Refused | Self::Finished | Self::Reset)
    }
}

/// One side of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Side {
    pub(super) packets: u32,
    pub(super) payload_bytes: u32,
    /// Payload of the first packet that has any.
    pub(super) first_payload_bytes: u16,
}

/// A flow since it began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FlowState {
    pub(super) first: Timestamp,
    /// Hashes of the pair and of its hosts.
    pub(super) pair: u64,
    pub(super) client: u64,
    pub(super) server: u64,
    /// Of the server.
    pub(super) port: u16,
    /// The client, then the server.
    pub(super) sides: [Side; 2],
    /// Changes of direction between packets with payload.
    pub(super) turns: u16,
    pub(super) handshake: Handshake,
    pub(super) has_begun: bool,
    /// The server's side is the low end of the key.
    pub(super) is_server_low: bool,
    /// Its first packet was an answer.
    pub(super) is_unsolicited: bool,
    pub(super) is_answered: bool,
    pub(super) has_payload: bool,
    pub(super) is_last_payload_of_client: bool,
    /// Between requests: packets with payload of the client that follow none of its own.
    pub(super) requests: Gaps,
}

/// Gaps between events, by count and the first two moments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gaps {
    pub(super) count: u32,
    last: Timestamp,
    last_gap_s: f32,
    sum_s: f64,
    sum_s2: f64,
}

impl Gaps {
    /// An event.
    pub(super) fn add(&mut self, now: Timestamp) {
        if self.count > 0 {
            let gap_s = now.since(self.last).as_seconds_f64().max(0.0);
            self.last_gap_s = gap_s as f32;
            self.sum_s += gap_s;
            self.sum_s2 += gap_s * gap_s;
        }
        self.count = self.count.saturating_add(1);
        self.last = now;
    }

    /// The gap before the last event; nothing before the second.
    pub(super) fn last_gap_s(&self) -> Option<f32> {
        (self.count > 1).then_some(self.last_gap_s)
    }

    /// Standard deviation over mean; nothing before the third gap. 0 is a clock's beat, 1 what
    /// independent events have.
    pub(super) fn variation(&self) -> Option<f32> {
        if self.count < 4 || self.sum_s <= 0.0 {
            return None;
        }
        let gaps = f64::from(self.count - 1);
        let mean = self.sum_s / gaps;
        let variance = (self.sum_s2 / gaps - mean * mean).max(0.0);
        Some((variance.sqrt() / mean) as f32)
    }

    /// Mean gap.
    pub(super) fn mean_s(&self) -> Option<f32> {
        (self.count > 1).then(|| (self.sum_s / f64::from(self.count - 1)) as f32)
    }
}

/// Flows that have something in common.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FlowCounts {
    /// Those that began.
    pub(super) flows: u32,
    /// Of them those without an answer so far.
    pub(super) unanswered: u32,
    /// Of them those that were refused.
    pub(super) refused: u32,
    /// Of them those whose handshake has begun and is not at its end so far.
    pub(super) half_open: u32,
}

impl FlowCounts {
    pub(super) fn begin(&mut self) {
        self.flows = self.flows.saturating_add(1);
        self.unanswered = self.unanswered.saturating_add(1);
    }
}

/// A client, a server, its port and the protocol, since their first contact.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PairState {
    pub(super) first: Timestamp,
    pub(super) has_begun: bool,
    pub(super) counts: FlowCounts,
    /// Payload of the client, then of the server.
    pub(super) payload_bytes: [u64; 2],
    /// Between beginnings of flows.
    pub(super) begins: Gaps,
}
