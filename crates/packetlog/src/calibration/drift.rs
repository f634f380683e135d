//! Whether traffic is still like that which a threshold was calibrated on.

use std::sync::{Arc, Mutex, PoisonError};

use packet::{Span, Timestamp};

use super::blocks::{Budget, CalibrationResult, share};
use crate::score::{SCORE_STEPS, ScoreStep, Threshold};

/// Bins of the histogram that is compared, each of about as many calibrated packets.
const BINS: usize = 10;
/// A population stability index above this is a change, unless the calibrated traffic itself
/// changed as much: the usual limit of credit scoring, where the index is from.
pub const PSI_MIN: f64 = 0.25;
/// How much more than between its own eighths traffic may change.
const PSI_EXCESS: f64 = 1.5;
/// Fewer packets are not compared.
pub const PACKETS_MIN: u64 = 200;

/// What packets are compared with.
#[derive(Clone, PartialEq, Debug)]
pub struct DriftReference {
    /// Where bins after the first begin, in steps of scores, rising.
    pub edges: Vec<u16>,
    /// The share of calibrated packets in each bin.
    pub shares: Vec<f64>,
    /// The population stability index above which traffic has changed.
    pub psi_max: f64,
    /// A share of marked packets above this, and above the budget, is too many.
    pub marked_max: f64,
    /// Packets are compared so often, in event time.
    pub period: Span,
}

impl DriftReference {
    /// Of what was calibrated.
    #[must_use]
    pub fn of(result: &CalibrationResult, budget: Budget) -> Self {
        let edges = edges(&result.scores);
        let shares = shares(&edges, &result.scores);
        let marked = result.eighths.iter().map(|eighth| {
            let from = usize::from(result.threshold.steps());
            share(eighth.iter().skip(from).sum(), eighth.iter().sum())
        });
        let marked_max = marked.fold(budget.share(), f64::max);
        let mut found = Self { edges, shares, psi_max: PSI_MIN, marked_max, period: result.block };
        // A few packets differ by chance, and no period has so few.
        let many = |eighth: &&Vec<u64>| eighth.iter().sum::<u64>() >= PACKETS_MIN;
        let own = result.eighths.iter().filter(many).map(|eighth| found.psi(eighth));
        let own = own.fold(0.0, f64::max);
        found.psi_max = PSI_MIN.max(PSI_EXCESS * own);
        let blocks = i64::try_from(result.block_count / 8).unwrap_or(i64::MAX).max(1);
        found.period = Span::from_ns(result.block.as_ns().saturating_mul(blocks));
        found
    }

    /// The population stability index of a histogram of scores: the sum over bins of
    /// (share - calibrated share) · ln(share / calibrated share).
    #[must_use]
    pub fn psi(&self, scores: &[u64]) -> f64 {
        let seen = shares(&self.edges, scores);
        let pairs = seen.iter().zip(&self.shares);
        pairs.map(|(seen, then)| (seen - then) * (seen / then).ln()).sum()
    }
}

/// Where the bins begin: at deciles of the scores. Where many packets have one score, as packets
/// of few leaves do, there are fewer bins.
fn edges(scores: &[u64]) -> Vec<u16> {
    let bins = BINS as u64;
    let all: u64 = scores.iter().sum();
    let (mut found, mut below, mut since, mut target) = (Vec::new(), 0, 0, 1);
    for (step, &count) in (0..SCORE_STEPS).zip(scores) {
        if since > 0 && below < all && below * bins >= all * target {
            found.push(step);
            since = 0;
            target = below * bins / all + 1;
        }
        below += count;
        since += count;
    }
    found
}

/// The share of each bin. Half a packet is added to each, so that none is empty.
fn shares(edges: &[u16], scores: &[u64]) -> Vec<f64> {
    let mut counts = vec![0_u64; edges.len() + 1];
    for (step, &count) in (0..SCORE_STEPS).zip(scores) {
        let bin = edges.partition_point(|&edge| edge <= step);
        if let Some(sum) = counts.get_mut(bin) {
            *sum += count;
        }
    }
    let all = counts.iter().sum::<u64>() as f64 + counts.len() as f64 / 2.0;
    counts.iter().map(|&count| (count as f64 + 0.5) / all).collect()
}

/// How traffic compares with what was calibrated, so far.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DriftCounts {
    /// Packets that were classified.
    pub packets: u64,
    /// Of these, marked.
    pub marked: u64,
    /// Periods that were compared.
    pub periods: u64,
    /// Of these, with other scores than calibrated.
    pub drifted: u64,
    /// Of these, with more packets marked than the budget and the calibrated traffic had.
    pub over_budget: u64,
    /// The population stability index of the latest period.
    pub psi: f64,
    /// The largest so far.
    pub psi_highest: f64,
    /// The share of packets that was marked in the latest period.
    pub marked_share: f64,
}

/// Something that a user should know.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum DriftWarning {
    /// Scores are distributed otherwise than calibrated.
    Scores {
        /// The population stability index.
        psi: f64,
        /// What it is at most where nothing has changed.
        psi_max: f64,
    },
    /// More is marked than the budget.
    Marked {
        /// The share of packets.
        marked: f64,
        /// The budget.
        budget: f64,
    },
    /// Both are again as calibrated.
    Recovered,
}

/// What an observer sees of a monitor.
#[derive(Debug, Default)]
pub struct DriftState {
    counts: Mutex<(DriftCounts, Vec<DriftWarning>)>,
}

impl DriftState {
    /// The counts so far.
    #[must_use]
    pub fn counts(&self) -> DriftCounts {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// What was noticed since the last call.
    #[must_use]
    pub fn warnings(&self) -> Vec<DriftWarning> {
        std::mem::take(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner).1)
    }
}

/// Compares packets with what was calibrated, period by period of event time.
#[derive(Debug)]
pub struct DriftMonitor {
    reference: DriftReference,
    budget: Budget,
    scores: Vec<u64>,
    packets: u64,
    marked: u64,
    start: Option<Timestamp>,
    is_drifted: bool,
    is_over: bool,
    state: Arc<DriftState>,
    sums: DriftCounts,
}

impl DriftMonitor {
    /// Before the first packet.
    #[must_use]
    pub fn new(reference: DriftReference, budget: Budget) -> Self {
        Self {
            reference,
            budget,
            scores: vec![0; SCORE_STEPS.into()],
            packets: 0,
            marked: 0,
            start: None,
            is_drifted: false,
            is_over: false,
            state: Arc::default(),
            sums: DriftCounts::default(),
        }
    }

    /// What it finds, for observers.
    #[must_use]
    pub fn state(&self) -> Arc<DriftState> {
        Arc::clone(&self.state)
    }

    /// A packet.
    #[inline]
    pub fn add(&mut self, time: Timestamp, score: ScoreStep, is_marked: bool) {
        if time != Timestamp::UNKNOWN {
            // A clock that was set back begins a period: the time in between is not known.
            let start = self.start.filter(|&start| start <= time).unwrap_or(time);
            self.start = Some(start);
            let is_over = time.since(start) >= self.reference.period;
            if is_over && self.packets >= PACKETS_MIN {
                self.compare();
                self.start = Some(time);
            }
        }
        self.packets += 1;
        self.marked += u64::from(is_marked);
        if let Some(count) = self.scores.get_mut(score.index()) {
            *count += 1;
        }
    }

    /// All packets of a batch were added: counts are shown.
    pub fn show(&mut self) {
        self.put(None);
    }

    fn compare(&mut self) {
        let psi = self.reference.psi(&self.scores);
        let marked = share(self.marked, self.packets);
        let is_drifted = psi > self.reference.psi_max;
        let budget = self.budget.share();
        let is_over = marked > budget && marked > self.reference.marked_max;
        let warning = if is_drifted && !self.is_drifted {
            Some(DriftWarning::Scores { psi, psi_max: self.reference.psi_max })
        } else if is_over && !self.is_over {
            Some(DriftWarning::Marked { marked, budget })
        } else if (self.is_drifted || self.is_over) && !is_drifted && !is_over {
            Some(DriftWarning::Recovered)
        } else {
            None
        };
        (self.is_drifted, self.is_over) = (is_drifted, is_over);
        self.sums.packets += self.packets;
        self.sums.marked += self.marked;
        self.sums.periods += 1;
        self.sums.drifted += u64::from(is_drifted);
        self.sums.over_budget += u64::from(is_over);
        self.sums.psi = psi;
        self.sums.psi_highest = self.sums.psi_highest.max(psi);
        self.sums.marked_share = marked;
        (self.packets, self.marked) = (0, 0);
        self.scores.fill(0);
        self.put(warning);
    }

    fn put(&mut self, warning: Option<DriftWarning>) {
        let mut counts = self.sums.clone();
        counts.packets += self.packets;
        counts.marked += self.marked;
        let mut state = self.state.counts.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = counts;
        state.1.extend(warning);
    }
}

/// The threshold of a calibration, and what is watched with it.
#[derive(Clone, PartialEq, Debug)]
pub struct Calibration {
    /// Share of packets that may be marked.
    pub budget: Budget,
    /// The threshold of the flow forest.
    pub flow: Threshold,
    /// The threshold of the packet forest.
    pub packet: Threshold,
    /// What packets are compared with.
    pub reference: DriftReference,
}
