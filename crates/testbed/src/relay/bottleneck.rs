//! The link of a router: it is as fast as its rate, and its queues are those of `dualq`.
//!
//! The instants at which the link is free follow from the rate and the lengths alone, not from
//! when this program is woken: a late waking makes a packet late, and never the link slower. The
//! router is given these instants, in order, so that a journal of them replays its decisions.

use std::collections::VecDeque;

use dualq::{Arrival, Counts, Fate, OfQueue, Packet, Queue, Router, SettingsError};

use super::header;
use crate::lateness::Lateness;
use crate::trace::Teller;

/// A link and its queues.
#[derive(Clone, Debug)]
pub struct BottleneckSettings {
    /// The queues.
    pub router: dualq::Settings,
    /// Bits a second, of IP packets: a TUN device knows no frames.
    pub rate_bits: u64,
}

/// What a link and its queues have done.
#[derive(Clone, Debug)]
pub struct BottleneckReport {
    /// What was asked for.
    pub settings: BottleneckSettings,
    /// What decided the router's draws.
    pub seed: u64,
    /// When the router began, by the monotonic clock.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// From the first packet's arrival to the last bit of the last one that was sent.
    pub used_ns: u64,
    /// What became of the packets of each queue.
    pub counts: OfQueue<Counts>,
    /// How long packets that were sent had waited in each queue.
    pub waits: OfQueue<Lateness>,
}

/// A packet that has left its queue: when its last bit was sent.
#[derive(Debug)]
pub(super) struct SentPacket {
    pub(super) packet: Vec<u8>,
    pub(super) tag: u64,
    pub(super) at_ns: u64,
}

/// One link at work.
#[derive(Debug)]
pub(super) struct Bottleneck {
    settings: BottleneckSettings,
    seed: u64,
    start_ns: u64,
    router: Router,
    /// The bytes of what waits: each queue hands out what came first, as the router's does.
    packets: OfQueue<VecDeque<Vec<u8>>>,
    waits: OfQueue<Lateness>,
    /// When the link is free, to the billionth of a nanosecond times the rate.
    free_ns: u64,
    rest: u64,
    /// Nothing waits: the router has said so.
    is_idle: bool,
    next_tag: u64,
    first_ns: Option<u64>,
    last_ns: u64,
}

impl Bottleneck {
    pub(super) fn new(
        settings: &BottleneckSettings,
        seed: u64,
        start_ns: u64,
    ) -> Result<Self, SettingsError> {
        Ok(Self {
            router: Router::new(settings.router, seed, start_ns)?,
            settings: settings.clone(),
            seed,
            start_ns,
            packets: OfQueue::default(),
            waits: OfQueue::default(),
            free_ns: start_ns,
            rest: 0,
            is_idle: true,
            next_tag: 0,
            first_ns: None,
            last_ns: start_ns,
        })
    }

    /// Takes in a packet, after all that [`Self::next_left`] had to say until now; what is dropped
    /// comes back as a buffer.
    pub(super) fn arrive(
        &mut self,
        packet: Vec<u8>,
        at_ns: u64,
        teller: &mut Teller,
    ) -> Option<Vec<u8>> {
        let len = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        let ecn = header::ecn(&packet);
        let arrival = Arrival { packet: Packet { len, ecn, tag: self.next_tag }, at_ns };
        self.next_tag += 1;
        self.first_ns.get_or_insert(at_ns);
        let found = OfQueue { l4s: self.packets.l4s.len(), classic: self.packets.classic.len() };
        let entered = self.router.arrive(arrival);
        teller.arrived(&arrival, entered, found, &packet);
        if entered.dropped.is_some() {
            return Some(packet);
        }
        self.packets.of_mut(entered.queue).push_back(packet);
        if self.is_idle {
            self.is_idle = false;
            if self.free_ns < at_ns {
                (self.free_ns, self.rest) = (at_ns, 0);
            }
        }
        None
    }

    /// The next packet that left its queue until `now_ns`, with its ECN field as the router wants
    /// it. Buffers of those that were dropped go to `spare`.
    pub(super) fn next_left(
        &mut self,
        now_ns: u64,
        spare: &mut Vec<Vec<u8>>,
        teller: &mut Teller,
    ) -> Option<SentPacket> {
        while !self.is_idle && self.free_ns <= now_ns {
            let at_ns = self.free_ns;
            let left = self.router.leave(at_ns);
            teller.left(at_ns, left.as_ref());
            let Some(left) = left else {
                self.is_idle = true;
                return None;
            };
            let mut packet = self.packets.of_mut(left.queue).pop_front().unwrap_or_default();
            if let Fate::Dropped(_) = left.fate {
                spare.push(packet);
                continue;
            }
            self.waits.of_mut(left.queue).add(at_ns.saturating_sub(left.entered_ns));
            if header::ecn(&packet) != left.packet.ecn {
                header::set_ecn(&mut packet, left.packet.ecn);
            }
            self.occupy(left.packet.len);
            self.last_ns = self.free_ns;
            return Some(SentPacket { packet, tag: left.packet.tag, at_ns: self.free_ns });
        }
        None
    }

    /// The link is busy for as long as a packet takes. What is less than a nanosecond is kept, so
    /// that no rate is rounded.
    fn occupy(&mut self, len: u32) {
        let bits = u128::from(len) * 8 * 1_000_000_000 + u128::from(self.rest);
        let rate = u128::from(self.settings.rate_bits.max(1));
        self.free_ns = self.free_ns.saturating_add(u64::try_from(bits / rate).unwrap_or(u64::MAX));
        self.rest = u64::try_from(bits % rate).unwrap_or(0);
    }

    /// When the next packet leaves its queue, at the earliest.
    pub(super) fn next_left_ns(&self) -> Option<u64> {
        (!self.is_idle).then_some(self.free_ns)
    }

    /// Packets that wait.
    pub(super) fn waiting(&self) -> u64 {
        [Queue::L4s, Queue::Classic].map(|queue| self.packets.of(queue).len() as u64).iter().sum()
    }

    pub(super) fn end(self, end_ns: u64) -> BottleneckReport {
        BottleneckReport {
            counts: self.router.counts(),
            settings: self.settings,
            seed: self.seed,
            start_ns: self.start_ns,
            end_ns,
            used_ns: self.last_ns.saturating_sub(self.first_ns.unwrap_or(self.start_ns)),
            waits: self.waits,
        }
    }
}

impl BottleneckReport {
    /// Packets that the router dropped.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.counts.l4s.dropped() + self.counts.classic.dropped()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dualq::Ecn;

    const MS: u64 = 1_000_000;

    fn bottleneck(rate_bits: u64, router: &str) -> Bottleneck {
        let settings = BottleneckSettings { router: router.parse().unwrap(), rate_bits };
        Bottleneck::new(&settings, 1, 0).unwrap()
    }

    fn packet(len: usize, ecn: Ecn) -> Vec<u8> {
        let mut packet = vec![0; len];
        (packet[0], packet[1]) = (0x45, ecn.bits());
        packet
    }

    fn left(link: &mut Bottleneck, now_ns: u64) -> Vec<(u64, u64)> {
        let (mut spare, mut teller) = (Vec::new(), Teller::silent());
        let next = || link.next_left(now_ns, &mut spare, &mut teller);
        std::iter::from_fn(next).map(|passed| (passed.tag, passed.at_ns)).collect()
    }

    #[test]
    fn the_link_is_as_fast_as_its_rate_however_late_it_is_asked() {
        let mut link = bottleneck(100_000_000, "");
        for _ in 0..3 {
            link.arrive(packet(1_500, Ecn::NotEct), MS, &mut Teller::silent());
        }
        assert_eq!(link.next_left_ns(), Some(MS));
        assert_eq!(left(&mut link, MS), [(0, 1_120_000)]);
        assert_eq!(left(&mut link, 9 * MS), [(1, 1_240_000), (2, 1_360_000)]);
        assert_eq!((link.next_left_ns(), link.waiting()), (None, 0));
        link.arrive(packet(1_500, Ecn::NotEct), 9 * MS, &mut Teller::silent());
        assert_eq!(left(&mut link, 9 * MS), [(3, 9_120_000)]);
    }

    #[test]
    fn parts_of_a_nanosecond_add_up() {
        let mut link = bottleneck(7_000_000_000, "");
        for _ in 0..7_000 {
            link.arrive(packet(100, Ecn::NotEct), 0, &mut Teller::silent());
        }
        // 7,000 times 800 bits at 7 Gbit/s.
        assert_eq!(left(&mut link, MS).last(), Some(&(6_999, 800_000)));
    }

    #[test]
    fn a_marked_packet_leaves_marked_and_l4s_goes_first() {
        let mut link = bottleneck(1_000_000, "");
        for ecn in [Ecn::NotEct, Ecn::NotEct, Ecn::Ect1, Ecn::Ect1] {
            link.arrive(packet(1_500, ecn), 0, &mut Teller::silent());
        }
        let (mut spare, mut teller) = (Vec::new(), Teller::silent());
        let first = link.next_left(0, &mut spare, &mut teller).unwrap();
        assert_eq!((first.tag, header::ecn(&first.packet)), (2, Ecn::Ect1));
        let second = link.next_left(12 * MS, &mut spare, &mut teller).unwrap();
        assert_eq!((second.tag, header::ecn(&second.packet)), (3, Ecn::Ce));
        assert!(link.end(0).counts.l4s.adds_up());
    }
}
