//! What a switch was offered, sent, and lost.

use super::ports::LossCause;

/// Packets of one kind: of the first class, or of the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TrafficTally {
    /// Packets offered.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Messages that the log takes, whether or not a limit let them pass.
    pub log_packets: u64,
    /// Their bytes.
    pub log_bytes: u64,
    /// What goes through the recirculation port for them.
    pub round_packets: u64,
    /// Its bytes.
    pub round_bytes: u64,
}

impl std::ops::Add for TrafficTally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
            log_packets: self.log_packets + other.log_packets,
            log_bytes: self.log_bytes + other.log_bytes,
            round_packets: self.round_packets + other.round_packets,
            round_bytes: self.round_bytes + other.round_bytes,
        }
    }
}

/// The outcome of a simulated switch. Every offered packet is in exactly one of `full`, `partial`,
/// `headers`, `not_sampled` and `lost`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SwitchTally {
    /// Packets of the first class.
    pub benign: TrafficTally,
    /// Packets of all others.
    pub anomalous: TrafficTally,
    /// Stored with all of their payload.
    pub full: u64,
    /// Stored with some of it.
    pub partial: u64,
    /// Stored as headers.
    pub headers: u64,
    /// Not stored, as the mode says.
    pub not_sampled: u64,
    /// By [`LossCause`], packets of which a message was lost: the first that was.
    pub lost: [u64; LossCause::ALL.len()],
    /// By [`LossCause`], when the first was lost, in picoseconds.
    pub first_loss_ps: [Option<u64>; LossCause::ALL.len()],
    /// Losses that the server reported.
    pub nacks: u64,
    /// Blocks of memory that were written to disk.
    pub blocks_written: u64,
}

impl SwitchTally {
    /// All packets.
    #[must_use]
    pub fn all(&self) -> TrafficTally {
        self.benign + self.anomalous
    }

    /// Packets whose outcome is known.
    #[must_use]
    pub fn settled(&self) -> u64 {
        let lost: u64 = self.lost.iter().sum();
        self.full + self.partial + self.headers + self.not_sampled + lost
    }
}
