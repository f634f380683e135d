//! What a switch and a server can take: a port with a queue, a server with two blocks of memory.
//!
//! Times are picoseconds, so that a byte at 100 Gb/s is a whole number of them.

/// Picoseconds of a nanosecond.
const NS_PS: u64 = 1_000;

/// Where switch and server end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchLimits {
    /// Of the port through which packets go round.
    pub recirculation_mbps: u64,
    /// What may wait for that port; the packet buffer of a Tofino.
    pub recirculation_queue_bytes: u64,
    /// What the server takes of messages.
    pub rdma_mbps: u64,
    /// What may wait there.
    pub rdma_queue_bytes: u64,
    /// How often the switch looks for a NACK, and begins again.
    pub nack_poll_ns: u64,
    /// Of the server's memory, in two blocks.
    pub memory_bytes: u64,
    /// What disks take.
    pub disk_mbps: u64,
}

impl Default for SwitchLimits {
    /// Those of the paper (sections V-C, VI-B and VIII-E): 8 GB are written in 1.67 s. It does not
    /// say how much may wait in queues.
    fn default() -> Self {
        Self {
            recirculation_mbps: 100_000,
            recirculation_queue_bytes: 22 << 20,
            rdma_mbps: 60_000,
            rdma_queue_bytes: 1 << 20,
            nack_poll_ns: 1_000_000,
            memory_bytes: 16_000_000_000,
            disk_mbps: 38_323,
        }
    }
}

/// A line that takes packets in order, at a rate, while its queue has room.
#[derive(Clone, Debug)]
pub(super) struct Port {
    mbps: u64,
    queue_ps: u64,
    free_at_ps: u64,
}

/// Picoseconds that so many bytes take.
const fn transmission_ps(bytes: u64, mbps: u64) -> u64 {
    bytes.saturating_mul(8_000_000) / if mbps == 0 { 1 } else { mbps }
}

impl Port {
    pub(super) fn new(mbps: u64, queue_bytes: u64) -> Self {
        Self { mbps, queue_ps: transmission_ps(queue_bytes, mbps), free_at_ps: 0 }
    }

    /// When so many bytes have passed; nothing where the queue has no room.
    #[inline]
    pub(super) fn accept(&mut self, now_ps: u64, bytes: u32) -> Option<u64> {
        let begins = self.free_at_ps.max(now_ps);
        let ends = begins + transmission_ps(bytes.into(), self.mbps);
        if ends - now_ps > self.queue_ps {
            return None;
        }
        self.free_at_ps = ends;
        Some(ends)
    }
}

/// Why a message was not stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LossCause {
    /// What is left of a packet found no room in the queue of the recirculation port.
    Recirculation,
    /// The server could not take it: it sends a NACK.
    Rdma,
    /// The server waits for the message that it lost, until the switch begins again.
    RdmaRecovery,
    /// Both blocks of memory are full: one is being written to disk.
    Memory,
}

impl LossCause {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Recirculation, Self::Rdma, Self::RdmaRecovery, Self::Memory];
}

/// The server that messages are written to by RDMA.
#[derive(Clone, Debug)]
pub(super) struct RelayServer {
    port: Port,
    poll_ps: u64,
    /// Messages are dropped until then.
    begins_again_ps: u64,
    pub(super) nacks: u64,
    block_bytes: u64,
    disk_mbps: u64,
    filled_bytes: u64,
    /// When the block that is not being filled is on the disk.
    other_free_ps: u64,
    pub(super) blocks_written: u64,
}

impl RelayServer {
    pub(super) fn new(limits: &SwitchLimits) -> Self {
        Self {
            port: Port::new(limits.rdma_mbps, limits.rdma_queue_bytes),
            poll_ps: limits.nack_poll_ns.max(1) * NS_PS,
            begins_again_ps: 0,
            nacks: 0,
            block_bytes: limits.memory_bytes / 2,
            disk_mbps: limits.disk_mbps,
            filled_bytes: 0,
            other_free_ps: 0,
            blocks_written: 0,
        }
    }

    /// Takes a message of so many bytes on the wire, of which some are stored.
    #[inline]
    pub(super) fn take(&mut self, now_ps: u64, wire: u32, stored: u32) -> Result<(), LossCause> {
        if now_ps < self.begins_again_ps {
            return Err(LossCause::RdmaRecovery);
        }
        let Some(arrived_ps) = self.port.accept(now_ps, wire) else {
            self.nacks += 1;
            self.begins_again_ps = (now_ps / self.poll_ps + 1) * self.poll_ps;
            return Err(LossCause::Rdma);
        };
        self.store(arrived_ps, stored.into())
    }

    fn store(&mut self, now_ps: u64, bytes: u64) -> Result<(), LossCause> {
        if self.filled_bytes + bytes > self.block_bytes {
            // Blocks are written one after the other.
            if now_ps < self.other_free_ps {
                return Err(LossCause::Memory);
            }
            self.other_free_ps = now_ps + transmission_ps(self.filled_bytes, self.disk_mbps);
            self.filled_bytes = 0;
            self.blocks_written += 1;
        }
        self.filled_bytes += bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_passes_its_rate_and_refuses_what_its_queue_cannot_hold() {
        // A byte a nanosecond, and ten may wait.
        let mut port = Port::new(8_000, 10);
        assert_eq!((port.accept(0, 6), port.accept(0, 4)), (Some(6_000), Some(10_000)));
        assert_eq!((port.accept(0, 1), port.accept(1_000, 1)), (None, Some(11_000)));
        assert_eq!(port.accept(20_000, 10), Some(30_000));
    }

    #[test]
    fn after_a_loss_messages_are_dropped_until_the_switch_looks() {
        let limits = SwitchLimits {
            rdma_mbps: 8_000,
            rdma_queue_bytes: 10,
            nack_poll_ns: 100,
            ..SwitchLimits::default()
        };
        let mut server = RelayServer::new(&limits);
        assert_eq!(server.take(0, 10, 10), Ok(()));
        assert_eq!(server.take(0, 1, 1), Err(LossCause::Rdma));
        assert_eq!(server.take(99_999, 1, 1), Err(LossCause::RdmaRecovery));
        assert_eq!((server.take(100_000, 1, 1), server.nacks), (Ok(()), 1));
    }

    #[test]
    fn memory_is_full_when_the_disk_is_slower_than_messages() {
        // Two blocks of 100 bytes; the disk takes 200 ns for one.
        let limits = SwitchLimits {
            rdma_mbps: 8_000,
            memory_bytes: 200,
            disk_mbps: 4_000,
            ..SwitchLimits::default()
        };
        let mut server = RelayServer::new(&limits);
        assert_eq!((server.take(0, 100, 100), server.take(0, 100, 100)), (Ok(()), Ok(())));
        assert_eq!(server.take(0, 10, 10), Err(LossCause::Memory));
        // The first block was full at 200 ns.
        assert_eq!((server.take(400_000, 10, 10), server.blocks_written), (Ok(()), 2));
    }
}
