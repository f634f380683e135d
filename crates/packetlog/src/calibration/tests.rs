use packet::{Span, Timestamp};
use proptest::prelude::*;

use super::*;
use crate::score::{MODEL_THRESHOLD, SCORE_STEPS, ScoreStep, Threshold};

const START: i64 = 1_700_000_000;

fn second(at: usize) -> Timestamp {
    Timestamp::from_parts(START + i64::try_from(at).unwrap(), 0)
}

fn budget(share: f64) -> Budget {
    Budget::new(share).unwrap()
}

/// A block a second, each with packets of these scores.
fn of_blocks(share: f64, blocks: &[Vec<u16>]) -> ScoreBlocks {
    let mut found = ScoreBlocks::new(budget(share));
    for (at, scores) in blocks.iter().enumerate() {
        for &score in scores {
            found.add(second(at), ScoreStep::at(score.into()));
        }
    }
    found
}

fn marked(scores: &[u16], threshold: Threshold) -> f64 {
    let marked = scores.iter().filter(|&&score| threshold.marks(ScoreStep::at(score.into())));
    marked.count() as f64 / scores.len() as f64
}

#[test]
fn steps_compare_as_scores_do() {
    for j in (0..=4000_u16).filter(|j| j % 4 != 0) {
        let step = ScoreStep::of(f64::from(j) / 2000.0 - 1.0);
        for steps in 0..=SCORE_STEPS {
            let threshold = Threshold::from_steps(steps).unwrap();
            assert_eq!(threshold.marks(step), j > 4 * steps, "{j} {steps}");
        }
    }
    // Equal probabilities are the first class, as without a threshold.
    assert!(!MODEL_THRESHOLD.marks(ScoreStep::of(0.0)));
    assert!(MODEL_THRESHOLD.marks(ScoreStep::of(1e-6)));
    assert!(
        !Threshold::NONE.marks(ScoreStep::of(1.0)) && Threshold::ALL.marks(ScoreStep::of(-1.0))
    );
    assert_eq!(ScoreStep::of(f64::NAN).index(), 0);
}

#[test]
fn a_budget_needs_so_many_blocks() {
    for (share, blocks) in [(0.02, 49), (0.5, 1), (0.1, 9), (0.001, 999), (0.05, 19)] {
        assert_eq!(budget(share).blocks_min(), blocks);
    }
    assert_eq!([0.0, 0.6, -1.0, f64::NAN].map(Budget::new), [None; 4]);
    let refused = of_blocks(0.02, &vec![vec![100; 10]; 48]).calibrate().unwrap_err();
    assert_eq!((refused.blocks, refused.wanted, refused.packets), (48, 49, 480));
    assert!(of_blocks(0.02, &vec![vec![100; 10]; 49]).calibrate().is_ok());
    assert_eq!(ScoreBlocks::new(budget(0.02)).calibrate().unwrap_err().blocks, 0);
}

#[test]
fn blocks_are_bounded_and_none_of_their_packets_is_lost() {
    let mut blocks = ScoreBlocks::new(budget(0.02));
    for at in 0..100_000 {
        blocks.add(second(at % 7 * 10_000 + at), ScoreStep::at(at % 1000));
        assert!(blocks.block_count() <= 512);
    }
    blocks.add(Timestamp::from_ns(i64::MAX), ScoreStep::at(0));
    blocks.add(Timestamp::from_ns(-i64::MAX), ScoreStep::at(0));
    blocks.add(Timestamp::UNKNOWN, ScoreStep::at(0));
    assert!(blocks.block_count() <= 512);
    let found = blocks.calibrate().unwrap();
    assert_eq!(found.packets, 100_003);
    assert_eq!(found.scores.iter().sum::<u64>(), 100_003);
    assert!(found.bound <= 0.02 && found.marked <= 0.02);
}

/// Two minutes of benign traffic, with other scores in some blocks.
fn traffic(attack: std::ops::Range<usize>) -> Vec<Vec<u16>> {
    let of_second = |at: usize| {
        let benign = (0..100).map(|of| u16::try_from((of * 7 + at * 13) % 600).unwrap());
        let more = if attack.contains(&at) { 400 } else { 0 };
        benign.chain(std::iter::repeat_n(950, more)).collect()
    };
    (0..120).map(of_second).collect()
}

#[test]
fn blocks_of_a_flood_are_left_out_and_named() {
    let quiet = of_blocks(0.02, &traffic(0..0)).calibrate().unwrap();
    assert!(quiet.left_out.is_empty());
    let found = of_blocks(0.02, &traffic(40..50)).calibrate().unwrap();
    let starts: Vec<_> = found.left_out.iter().map(|block| block.start).collect();
    assert_eq!(starts, (40..50).map(second).collect::<Vec<_>>());
    assert!(found.left_out.iter().all(|block| block.packets == 500 && block.marked > 0.8));
    assert!(found.threshold.steps().abs_diff(quiet.threshold.steps()) <= 10);
    assert!(found.marked <= 0.02 && found.marked_with_all > 0.2);
    // What is so frequent is the site: nothing is left out, and less is marked.
    let often = of_blocks(0.02, &traffic(40..60)).calibrate().unwrap();
    assert!(often.left_out.is_empty() && often.standing_out == 20);
    assert!(often.threshold > found.threshold && often.marked <= 0.02);
}

#[test]
fn the_guarantee_holds_also_where_the_model_marks_all() {
    let found = of_blocks(0.02, &vec![vec![999; 20]; 100]).calibrate().unwrap();
    assert_eq!((found.threshold, found.marked_before), (Threshold::NONE, 1.0));
    assert!(found.marked.abs() < f64::EPSILON && found.bound <= 0.02);
    // Where it marks nothing, the threshold falls below its own.
    let found = of_blocks(0.02, &traffic(0..0)[..80]).calibrate().unwrap();
    assert!(found.threshold > MODEL_THRESHOLD);
    let low: Vec<Vec<u16>> =
        traffic(0..0).iter().map(|block| block.iter().map(|s| s / 4).collect()).collect();
    let found = of_blocks(0.02, &low).calibrate().unwrap();
    assert!(found.threshold < MODEL_THRESHOLD && found.marked <= 0.02);
}

#[test]
fn blocks_that_resemble_their_neighbours_are_correlated() {
    let slow: Vec<Vec<u16>> = (0..200_u16).map(|at| vec![at / 20 * 90; 10]).collect();
    assert!(of_blocks(0.3, &slow).calibrate().unwrap().autocorrelation > 0.5);
    let fast: Vec<Vec<u16>> = (0..200_u16).map(|at| vec![at % 2 * 900; 10]).collect();
    assert!(of_blocks(0.5, &fast).calibrate().unwrap().autocorrelation < 0.5);
}

/// Scores that are the lower the more often.
fn block() -> impl Strategy<Value = Vec<u16>> {
    (0u16..1000, prop::collection::vec(0u16..1000, 1..20)).prop_map(|(level, scores)| {
        scores.into_iter().map(|score| u16::midpoint(level, score)).collect()
    })
}

/// Budgets at which 60 blocks are not merged; the guarantee is of blocks as they are counted.
const UNMERGED: std::ops::Range<f64> = 0.08..0.16;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Of exchangeable blocks each is as likely the next one. So the expected loss of the next,
    /// given all of them in any order, is the mean over which of them it is; and that is within
    /// the budget for every set of blocks, not for most.
    #[test]
    fn the_expected_share_of_the_next_block_is_within_the_budget(
        blocks in prop::collection::vec(block(), 12..40), share in UNMERGED,
    ) {
        prop_assert_eq!(of_blocks(share, &blocks).block_count(), blocks.len());
        let mut sum = 0.0;
        for next in 0..blocks.len() {
            let mut others = blocks.clone();
            let tested = others.remove(next);
            let threshold = of_blocks(share, &others).lowest();
            sum += marked(&tested, threshold);
        }
        prop_assert!(sum / blocks.len() as f64 <= share + 1e-9);
    }

    #[test]
    fn the_lowest_threshold_keeps_the_budget_and_the_next_lower_one_does_not(
        blocks in prop::collection::vec(block(), 12..60), share in UNMERGED,
    ) {
        let found = of_blocks(share, &blocks);
        prop_assert_eq!(found.block_count(), blocks.len());
        let threshold = found.lowest();
        let keeps = |threshold: Threshold| {
            let shares: f64 = blocks.iter().map(|block| marked(block, threshold)).sum();
            let all: Vec<u16> = blocks.concat();
            (shares + 1.0) / (blocks.len() as f64 + 1.0) <= share + 1e-9
                && marked(&all, threshold) <= share + 1e-9
        };
        prop_assert!(keeps(threshold));
        if let Some(lower) = threshold.steps().checked_sub(1) {
            prop_assert!(!keeps(Threshold::from_steps(lower).unwrap()));
        }
        prop_assert!(of_blocks(share * 1.2, &blocks).lowest() <= threshold);
    }
}

impl ScoreBlocks {
    /// Without leaving out any block.
    fn lowest(&self) -> Threshold {
        blocks::lowest(&self.blocks().collect::<Vec<_>>(), self.budget())
    }
}

fn calibration(blocks: &[Vec<u16>]) -> Calibration {
    let result = of_blocks(0.02, blocks).calibrate().unwrap();
    let (budget, flow, packet) = (budget(0.02), result.threshold, result.threshold);
    Calibration { budget, flow, packet, reference: DriftReference::of(&result, budget) }
}

#[test]
fn changed_scores_are_warned_of_once_and_their_end_is_reported() {
    let Calibration { budget, flow, reference, .. } = calibration(&traffic(0..0));
    assert_eq!(reference.period, Span::from_seconds(15));
    assert!((9..=10).contains(&reference.shares.len()), "{reference:?}");
    let mut monitor = DriftMonitor::new(reference.clone(), budget);
    let state = monitor.state();
    let mut give = |from: usize, change: fn(u16) -> u16| {
        for (at, block) in traffic(0..0).iter().enumerate() {
            for &score in block {
                let score = ScoreStep::at(change(score).into());
                monitor.add(second(from + at), score, flow.marks(score));
            }
        }
        monitor.show();
    };
    give(0, |score| score);
    give(120, |score| score);
    assert_eq!(state.warnings(), []);
    let quiet = state.counts();
    assert_eq!((quiet.packets, quiet.periods, quiet.drifted), (24_000, 15, 0));
    assert!(quiet.psi_highest < 0.1 && quiet.marked * 50 <= quiet.packets);
    give(240, |score| score / 3);
    let warned = state.warnings();
    assert!(matches!(warned[..], [DriftWarning::Scores { psi, .. }] if psi > 0.25), "{warned:?}");
    give(360, |score| score);
    assert_eq!(state.warnings(), [DriftWarning::Recovered]);
    give(480, |score| score / 2 + 499);
    assert_eq!(state.warnings().len(), 1);
    let counts = state.counts();
    assert!(counts.over_budget >= 7 && counts.drifted >= 14, "{counts:?}");
    assert!(reference.psi(&vec![0; 1000]).is_finite());
}

#[test]
fn traffic_of_one_score_is_compared_as_well() {
    let Calibration { reference, .. } = calibration(&vec![vec![300; 50]; 60]);
    assert_eq!(reference.shares.len(), 1);
    let mixed: Vec<Vec<u16>> = vec![[vec![300; 40], vec![301; 10]].concat(); 60];
    let Calibration { reference, .. } = calibration(&mixed);
    assert_eq!(reference.edges, [301]);
    let mut other = vec![0; 1000];
    other[301] = 1000;
    assert!(reference.psi(&other) > reference.psi_max);
}
