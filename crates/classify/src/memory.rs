//! What was said of a host's flows before, for a cascade that remembers it.
//!
//! A device sends many flows, and what it was taken for at the flows before says more of the next
//! one than its first packet. Of each flow's source address is kept how much of its flows' verdicts
//! each class had; half is forgotten in some minutes. A flow's probabilities are multiplied by
//! these shares. Shares, instead of sums of log-odds, because many devices may be behind one
//! address: shares then say how often each is met, where sums would give all flows to one of them
//! (`docs/evaluation/memory.md`).
//!
//! Of flows is remembered what the model says by itself, without memory, so that an error is not
//! confirmed by its own echo. They are remembered at marks, which stand at the same place in the
//! input however it is cut into batches.

use std::net::IpAddr;

use engine::recent::Recent;
use packet::{Span, Timestamp};

/// How a cascade remembers, as its artifact says.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MemoryRule {
    /// Half is forgotten in this time.
    pub half_life: Span,
    /// So many verdicts, spread evenly over the classes, are there at first.
    pub prior: f64,
    /// No class is less probable by the model, or one error could not be made good.
    pub floor: f64,
}

/// What is remembered of one host.
#[derive(Clone, PartialEq, Debug)]
pub struct HostMemory {
    /// How much of the verdicts each class had, as of `updated`.
    pub shares: Vec<f64>,
    /// When the last verdict was remembered.
    pub updated: Timestamp,
    /// When its first flow began.
    pub first: Timestamp,
    /// How many verdicts were remembered.
    pub verdict_count: u64,
}

/// Hosts, those of late: beyond a number those that were not asked for the longest are forgotten.
#[derive(Debug)]
pub struct Memory {
    rule: MemoryRule,
    hosts: Recent<IpAddr, HostMemory>,
    forgotten: u64,
}

impl HostMemory {
    /// How much of what is remembered is left at a time.
    fn left(&self, rule: &MemoryRule, time: Timestamp) -> f64 {
        let passed = time.since(self.updated).as_ns().max(0) as f64;
        0.5_f64.powf(passed / rule.half_life.as_ns() as f64)
    }

    /// The class with the largest share, with that share of all; the first of equals.
    #[must_use]
    pub fn likeliest(&self) -> (u16, f64) {
        let mut best = (0, 0.0);
        for (class, &share) in (0..).zip(&self.shares) {
            if share > best.1 {
                best = (class, share);
            }
        }
        let total = self.shares.iter().sum::<f64>();
        (best.0, if total > 0.0 { best.1 / total } else { 0.0 })
    }
}

impl Memory {
    /// Nothing remembered; room for so many hosts.
    #[must_use]
    pub fn new(rule: MemoryRule, host_count_max: usize) -> Self {
        Self { rule, hosts: Recent::new(host_count_max), forgotten: 0 }
    }

    /// Puts the probabilities of a flow of this host, which began at `time`, in the place of the
    /// model's own.
    pub fn mix(&mut self, host: IpAddr, time: Timestamp, probabilities: &mut [f64]) {
        let Self { rule, hosts, forgotten } = self;
        let count = probabilities.len() as f64;
        let scale = 1.0 - rule.floor * count;
        for probability in probabilities.iter_mut() {
            *probability = *probability * scale + rule.floor;
        }
        if let Some(kept) = hosts.get(&host, |_| *forgotten += 1) {
            let left = kept.left(rule, time);
            let even = rule.prior / count;
            for (probability, share) in probabilities.iter_mut().zip(&kept.shares) {
                *probability *= share * left + even;
            }
        }
        let sum = probabilities.iter().sum::<f64>();
        for probability in probabilities {
            *probability /= sum;
        }
    }

    /// Remembers what the model says by itself of a flow, which began at `first`; and what is known
    /// of the host with it.
    pub fn add(
        &mut self,
        host: IpAddr,
        first: Timestamp,
        decided: Timestamp,
        probabilities: &[f64],
    ) -> &HostMemory {
        let Self { rule, hosts, forgotten } = self;
        let mut kept = hosts.take(&host).unwrap_or_else(|| HostMemory {
            shares: vec![0.0; probabilities.len()],
            updated: decided,
            first,
            verdict_count: 0,
        });
        let left = kept.left(rule, decided);
        for (share, probability) in kept.shares.iter_mut().zip(probabilities) {
            *share = *share * left + probability;
        }
        kept.updated = kept.updated.max(decided);
        kept.first = kept.first.min(first);
        kept.verdict_count += 1;
        hosts.insert_and_get(host, kept, |_| *forgotten += 1)
    }

    /// Hosts that were forgotten to make room.
    #[must_use]
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Hosts that are remembered.
    #[must_use]
    pub fn host_count(&self) -> usize {
        self.hosts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: MemoryRule =
        MemoryRule { half_life: Span::from_seconds(600), prior: 1.0, floor: 0.01 };
    const START: Timestamp = Timestamp::from_ns(1_700_000_000_000_000_000);

    fn host(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn shares_multiply_and_fade() {
        let mut memory = Memory::new(RULE, 16);
        let mut alone = [0.5, 0.5];
        memory.mix(host(1), START, &mut alone);
        assert_eq!(alone, [0.5, 0.5]);
        for _ in 0..3 {
            memory.add(host(1), START, START, &[1.0, 0.0]);
        }
        let mut told = [0.5, 0.5];
        memory.mix(host(1), START, &mut told);
        // (3 + 0.5) : 0.5.
        assert!((told[0] - 0.875).abs() < 1e-12, "{told:?}");
        let mut later = [0.5, 0.5];
        memory.mix(host(1), START.plus(Span::from_seconds(600)), &mut later);
        assert!((later[0] - 0.8).abs() < 1e-12, "{later:?}");
        let mut other = [0.5, 0.5];
        memory.mix(host(2), START, &mut other);
        assert_eq!(other, [0.5, 0.5]);
    }

    #[test]
    fn devices_behind_one_address_have_their_shares() {
        let mut memory = Memory::new(RULE, 16);
        for number in 0..40 {
            let said = if number % 4 == 0 { [0.0, 1.0] } else { [1.0, 0.0] };
            memory.add(host(1), START, START, &said);
        }
        // What the packet says clearly stands, whatever else is behind the address.
        let mut rare = [0.02, 0.98];
        memory.mix(host(1), START, &mut rare);
        assert!(rare[1] > 0.9, "{rare:?}");
    }

    #[test]
    fn a_verdict_of_a_host_is_its_largest_share() {
        let mut memory = Memory::new(RULE, 16);
        memory.add(host(1), START, START, &[0.1, 0.9]);
        let kept = memory.add(host(1), START, START, &[0.4, 0.6]).clone();
        assert_eq!((kept.likeliest().0, kept.verdict_count), (1, 2));
        assert!((kept.likeliest().1 - 0.75).abs() < 1e-12);
    }

    #[test]
    fn hosts_are_bounded_and_the_forgotten_are_counted() {
        let mut memory = Memory::new(RULE, 16);
        for last in 0..=255 {
            memory.add(host(last), START, START, &[1.0, 0.0]);
        }
        assert!(memory.host_count() <= 16);
        assert_eq!(memory.forgotten() + memory.host_count() as u64, 256);
    }
}
