//! The paper's switch and relay server, simulated: what a log takes at 100, 200 and 400 Gb/s, and
//! where limits are exceeded (sections V and VIII-E).
//!
//! A packet that was classified is encapsulated as one message with its headers, or, where payload
//! is kept, as a message for each segment of 128, 64, 32, 16, 8 or 4 bytes. What is left of it goes
//! round through the recirculation port after each segment. Messages go to a server that takes so
//! much by RDMA, into two blocks of memory of which one is written to disk while the other is
//! filled.
//!
//! Events are in order of time and nothing is random: the same packets have the same outcome. What
//! a log would take is counted apart from what limits let pass, so that rates above a limit are
//! seen as the paper has them.

mod ports;
mod segments;
mod tally;
pub mod workload;

use std::collections::VecDeque;

use packet::HashSeed;

use crate::judged::PacketVerdict;
use crate::policy::{Granularity, Keep, Sampler};

pub use ports::{LossCause, SwitchLimits};
pub use segments::{MESSAGE_BYTES, PacketLengths};
pub use tally::{SwitchTally, TrafficTally};

use ports::{Port, RelayServer};

/// What is left of a packet on its way round.
#[derive(Clone, Copy, Debug)]
struct PacketRest {
    due_ps: u64,
    left: PacketLengths,
    keep: Keep,
    lost: Option<LossCause>,
}

/// A switch with its server.
pub struct Switch {
    table: Vec<Granularity>,
    sampler: Sampler,
    recirculation: Port,
    /// In order of time, as the port is.
    round: VecDeque<PacketRest>,
    server: RelayServer,
    tally: SwitchTally,
}

impl Switch {
    /// A switch that logs packets of each class as the table says.
    #[must_use]
    pub fn new(table: Vec<Granularity>, limits: &SwitchLimits) -> Self {
        let recirculation = Port::new(limits.recirculation_mbps, limits.recirculation_queue_bytes);
        Self {
            sampler: Sampler::new(table.len(), HashSeed::new(1)),
            table,
            recirculation,
            round: VecDeque::new(),
            server: RelayServer::new(limits),
            tally: SwitchTally::default(),
        }
    }

    /// Takes in a packet that was classified, not before any that came before it.
    pub fn offer(&mut self, now_ps: u64, lengths: PacketLengths, judged: &PacketVerdict) {
        self.advance(now_ps);
        let class = usize::from(judged.class);
        let granularity = self.table.get(class).copied().unwrap_or(Granularity::FULL);
        let is_stored =
            granularity.keep != Keep::Nothing && self.sampler.takes(granularity.sample, judged);
        let left = lengths.kept(granularity.keep);
        let traffic = match class {
            0 => &mut self.tally.benign,
            _ => &mut self.tally.anomalous,
        };
        traffic.packets += 1;
        traffic.bytes += u64::from(lengths.wire());
        if !is_stored {
            self.tally.not_sampled += 1;
            return;
        }
        traffic.count(left);
        self.send(now_ps, PacketRest { due_ps: now_ps, left, keep: granularity.keep, lost: None });
    }

    /// Settles every packet that is on its way, and returns the outcome.
    #[must_use]
    pub fn finish(mut self) -> SwitchTally {
        self.advance(u64::MAX);
        self.tally.nacks = self.server.nacks;
        self.tally.blocks_written = self.server.blocks_written;
        self.tally
    }

    /// What comes back from the recirculation port up to this time.
    #[inline]
    fn advance(&mut self, now_ps: u64) {
        while let Some(packet) = self.round.pop_front_if(|packet| packet.due_ps <= now_ps) {
            self.send(packet.due_ps, packet);
        }
    }

    /// One message of a packet; the rest goes round.
    #[inline]
    fn send(&mut self, now_ps: u64, mut packet: PacketRest) {
        let stored = packet.left.headers + packet.left.take_segment();
        let sent = self.server.take(now_ps, stored + MESSAGE_BYTES, stored);
        let mut lost = sent.err();
        let mut goes_round = false;
        if packet.left.payload > 0 {
            let due_ps = self.recirculation.accept(now_ps, packet.left.wire());
            goes_round = due_ps.is_some();
            packet.due_ps = due_ps.unwrap_or(now_ps);
            lost = lost.or((!goes_round).then_some(LossCause::Recirculation));
        }
        if let Some(cause) = lost {
            let first = &mut self.tally.first_loss_ps[cause as usize];
            first.get_or_insert(now_ps);
            packet.lost = packet.lost.or(lost);
        }
        if goes_round {
            self.round.push_back(packet);
            return;
        }
        match (packet.lost, packet.keep) {
            (Some(cause), _) => self.tally.lost[cause as usize] += 1,
            (None, Keep::Full) => self.tally.full += 1,
            (None, Keep::Partial(_)) => self.tally.partial += 1,
            (None, Keep::Header | Keep::Nothing) => self.tally.headers += 1,
        }
    }
}

impl TrafficTally {
    /// All messages of a packet, and what goes round for them.
    fn count(&mut self, mut left: PacketLengths) {
        loop {
            let message = left.headers + left.take_segment() + MESSAGE_BYTES;
            self.log_packets += 1;
            self.log_bytes += u64::from(message);
            if left.payload == 0 {
                return;
            }
            self.round_packets += 1;
            self.round_bytes += u64::from(left.wire());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::judged::Basis;
    use crate::policy::Mode;

    fn judged(class: u16) -> PacketVerdict {
        PacketVerdict { class, confidence: 1.0, basis: Basis::Packet, flow: None }
    }

    fn switch(mode: usize, limits: &SwitchLimits) -> Switch {
        let mode = &Mode::recommended()[mode];
        Switch::new(mode.table(&["benign".into(), "anomalous".into()]).unwrap(), limits)
    }

    #[test]
    fn an_anomalous_packet_is_a_message_a_segment_and_a_benign_one_its_headers() {
        let mut switch = switch(0, &SwitchLimits::default());
        let lengths = PacketLengths { headers: 54, payload: 1_480 };
        switch.offer(0, lengths, &judged(1));
        switch.offer(1_000, lengths, &judged(0));
        let tally = switch.finish();
        let around = u64::from(54 + MESSAGE_BYTES);
        assert_eq!((tally.anomalous.log_packets, tally.anomalous.round_packets), (13, 12));
        assert_eq!(tally.anomalous.log_bytes, 1_480 + 13 * around);
        assert_eq!((tally.benign.log_packets, tally.benign.log_bytes), (1, around));
        assert_eq!((tally.full, tally.headers, tally.settled()), (1, 1, 2));
    }

    #[test]
    fn each_limit_is_seen_as_a_loss_of_its_own() {
        let wide = SwitchLimits {
            recirculation_mbps: 10_000_000,
            rdma_mbps: 10_000_000,
            disk_mbps: 10_000_000,
            ..SwitchLimits::default()
        };
        let lost = |limits: &SwitchLimits| {
            let mut switch = switch(1, limits);
            // 1,534 bytes every 31 ns are 400 Gb/s.
            for at in 0..200_000 {
                let lengths = PacketLengths { headers: 54, payload: 1_480 };
                switch.offer(at * 30_680, lengths, &judged(0));
            }
            let tally = switch.finish();
            assert_eq!(tally.settled(), 200_000);
            tally.lost.map(|lost| lost > 0)
        };
        assert_eq!(lost(&wide), [false; 4]);
        let recirculation_mbps = 100_000;
        assert_eq!(lost(&SwitchLimits { recirculation_mbps, ..wide }), [true, false, false, false]);
        assert_eq!(lost(&SwitchLimits { rdma_mbps: 60_000, ..wide }), [false, true, true, false]);
        let small = SwitchLimits { memory_bytes: 10 << 20, disk_mbps: 38_323, ..wide };
        assert_eq!(lost(&small), [false, false, false, true]);
    }

    proptest! {
        #[test]
        fn every_offered_packet_has_exactly_one_outcome(
            packets in prop::collection::vec((0u64..200_000, 0u32..9_000, 0u16..2), 0..400),
            mode in 0usize..5, rdma_mbps in 1u64..100_000, recirculation_mbps in 1u64..200_000,
            queue in 0u64..20_000, memory_bytes in 0u64..50_000, disk_mbps in 1u64..50_000,
        ) {
            let limits = SwitchLimits {
                rdma_mbps,
                recirculation_mbps,
                rdma_queue_bytes: queue,
                recirculation_queue_bytes: queue,
                memory_bytes,
                disk_mbps,
                ..SwitchLimits::default()
            };
            let run = || {
                let (mut switch, mut now) = (switch(mode, &limits), 0);
                for &(gap, payload, class) in &packets {
                    now += gap;
                    switch.offer(now, PacketLengths { headers: 54, payload }, &judged(class));
                }
                switch.finish()
            };
            let tally = run();
            prop_assert_eq!(tally.settled(), packets.len() as u64);
            prop_assert_eq!(tally.all().packets, packets.len() as u64);
            prop_assert_eq!(tally, run());
            let rounds = tally.all().log_packets - tally.all().round_packets;
            prop_assert_eq!(rounds, packets.len() as u64 - tally.not_sampled);
        }
    }
}
