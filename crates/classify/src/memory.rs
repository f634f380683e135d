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

use std::cmp::Reverse;
use std::net::IpAddr;

use engine::recent::Recent;
use packet::{Span, Timestamp};

use crate::cascade::Cascade;
use crate::host::{HostVerdict, Judge, label_class};

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
    /// Its address.
    pub address: IpAddr,
    /// How much of the verdicts each class had, as of `updated`.
    pub shares: Vec<f64>,
    /// When the last verdict was remembered.
    pub updated: Timestamp,
    /// When its first flow began.
    pub first: Timestamp,
    /// How many verdicts were remembered.
    pub verdict_count: u64,
    /// What was reported of it last.
    pub(crate) reported: LastReport,
}

/// What the last row of a host said.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct LastReport {
    /// The class that was its label, if it had one.
    pub(crate) label: Option<u16>,
    /// How many verdicts there were; none before the first row.
    pub(crate) verdict_count: u64,
}

/// Verdicts on hosts since the last mark.
#[derive(Debug)]
struct NewVerdicts {
    judge: Judge,
    verdicts: Vec<HostVerdict>,
}

impl NewVerdicts {
    /// Notes a host of which more is remembered than was reported.
    fn note_rest(&mut self, kept: &mut HostMemory, rule: &MemoryRule) {
        if kept.reported.verdict_count < kept.verdict_count {
            self.note(kept, self.judge.verdict(kept, rule));
        }
    }

    fn note(&mut self, kept: &mut HostMemory, verdict: HostVerdict) {
        let label = label_class(verdict.label);
        kept.reported = LastReport { label, verdict_count: kept.verdict_count };
        self.verdicts.push(verdict);
    }
}

/// A host has to go for another one: what was not reported of it is, the last time.
fn forget(
    mut kept: HostMemory,
    rule: &MemoryRule,
    forgotten: &mut u64,
    noted: Option<&mut NewVerdicts>,
) {
    *forgotten += 1;
    if let Some(noted) = noted {
        noted.note_rest(&mut kept, rule);
    }
}

/// Hosts: beyond a number those that were not asked for the longest are forgotten.
#[derive(Debug)]
pub struct Memory {
    rule: MemoryRule,
    hosts: Recent<IpAddr, HostMemory>,
    forgotten: u64,
    /// Where verdicts on hosts are wanted.
    noted: Option<NewVerdicts>,
}

impl HostMemory {
    /// How much of what is remembered is left at a time.
    fn left(&self, rule: &MemoryRule, time: Timestamp) -> f64 {
        let passed = time.since(self.updated).as_ns().max(0) as f64;
        0.5_f64.powf(passed / rule.half_life.as_ns() as f64)
    }

    /// The class with the largest share; the first of equals. With it its smoothed share: the
    /// prior is spread evenly over the classes, so that few flows say little.
    #[must_use]
    pub fn smoothed(&self, rule: &MemoryRule) -> (u16, f64) {
        let mut best = (0, 0.0);
        for (class, &share) in (0..).zip(&self.shares) {
            if share > best.1 {
                best = (class, share);
            }
        }
        let (total, count) = (self.shares.iter().sum::<f64>(), self.shares.len().max(1) as f64);
        (best.0, (best.1 + rule.prior / count) / (total + rule.prior))
    }
}

impl Memory {
    /// Nothing remembered; room for so many hosts.
    #[must_use]
    pub fn new(rule: MemoryRule, host_count_max: usize) -> Self {
        Self { rule, hosts: Recent::new(host_count_max), forgotten: 0, noted: None }
    }

    /// From here on also notes verdicts on hosts, for [`take_verdicts`](Self::take_verdicts).
    pub fn note_hosts(&mut self, cascade: &Cascade) {
        self.noted = Some(NewVerdicts { judge: Judge::new(cascade), verdicts: Vec::new() });
    }

    /// The verdicts on hosts since the last call, by address, those of one host in order: one
    /// whenever a host's label changed, and one of each host that had to go and had not been
    /// reported as it was. With `is_last` also one of every host that is remembered and was not.
    /// None unless hosts are [noted](Self::note_hosts).
    pub fn take_verdicts(&mut self, is_last: bool) -> Vec<HostVerdict> {
        let Self { rule, hosts, noted: Some(noted), .. } = self else { return Vec::new() };
        if is_last {
            hosts.values_mut().for_each(|kept| noted.note_rest(kept, rule));
        }
        noted.verdicts.sort_by_key(|verdict| verdict.host);
        std::mem::take(&mut noted.verdicts)
    }

    /// What is said of each host that is remembered, most flows first and of equals by address.
    /// None unless hosts are [noted](Self::note_hosts).
    #[must_use]
    pub fn verdicts(&self) -> Vec<HostVerdict> {
        let Self { rule, hosts, noted: Some(noted), .. } = self else { return Vec::new() };
        let mut verdicts: Vec<_> =
            hosts.values().map(|kept| noted.judge.verdict(kept, rule)).collect();
        verdicts.sort_by_key(|verdict| (Reverse(verdict.flow_count), verdict.host));
        verdicts
    }

    /// Puts the probabilities of a flow of this host, which began at `time`, in the place of the
    /// model's own.
    pub fn mix(&mut self, host: IpAddr, time: Timestamp, probabilities: &mut [f64]) {
        let Self { rule, hosts, forgotten, noted } = self;
        let count = probabilities.len() as f64;
        let scale = 1.0 - rule.floor * count;
        for probability in probabilities.iter_mut() {
            *probability = *probability * scale + rule.floor;
        }
        let on_forgotten = |gone| forget(gone, rule, forgotten, noted.as_mut());
        if let Some(kept) = hosts.get(&host, on_forgotten) {
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

    /// Remembers what the model says by itself of a flow, which began at `first`.
    pub fn add(
        &mut self,
        host: IpAddr,
        first: Timestamp,
        decided: Timestamp,
        probabilities: &[f64],
    ) {
        let Self { rule, hosts, forgotten, noted } = self;
        let mut kept = hosts.take(&host).unwrap_or_else(|| HostMemory {
            address: host,
            shares: vec![0.0; probabilities.len()],
            updated: decided,
            first,
            verdict_count: 0,
            reported: LastReport::default(),
        });
        let left = kept.left(rule, decided);
        for (share, probability) in kept.shares.iter_mut().zip(probabilities) {
            *share = *share * left + probability;
        }
        kept.updated = kept.updated.max(decided);
        kept.first = kept.first.min(first);
        kept.verdict_count += 1;
        if let Some(noted) = noted {
            let verdict = noted.judge.verdict(&kept, rule);
            if verdict.has_new_label {
                noted.note(&mut kept, verdict);
            }
        }
        hosts.insert(host, kept, |gone| forget(gone, rule, forgotten, noted.as_mut()));
    }

    /// Hosts evicted from memory.
    #[must_use]
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Hosts in memory.
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
        memory.add(host(1), START, START, &[0.4, 0.6]);
        let kept = memory.hosts.get(&host(1), |_| {}).unwrap();
        // (1.5 + 0.5) : (2 + 1).
        let (class, share) = kept.smoothed(&RULE);
        assert_eq!((class, kept.verdict_count), (1, 2));
        assert!((share - 2.0 / 3.0).abs() < 1e-12);
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
