//! Whole runs: what the router promises, what adds up, and what a seed decides.

#![allow(clippy::unwrap_used)]

use dualq::{OfQueue, Router};
use l4s::journal::{self, ReplayOutcome};
use l4s::trace::{MAGIC, RECORD_LEN};
use simulator::{Scenario, Summary, Writers};

/// 10 Prague and 4 CUBIC flows, greedy.
const DEFAULT: &str = "duration_ns 8000000000\nwarmup_ns 2000000000\n\
    group congestion=prague count=10\ngroup congestion=cubic count=4\n";
/// The paper's: 6 L4S and 4 CUBIC flows of one sender, 10 L4S flows of others, in messages.
const PAPER: &str = "duration_ns 8000000000\nwarmup_ns 2000000000\n\
    group congestion=prague count=6 load=messages:websearch:5000000\n\
    group congestion=cubic count=4 load=messages:websearch:5000000\n\
    group congestion=prague count=10 sender=2 receiver=2 load=messages:websearch:5000000\n";

fn scenario(text: &str, more: &str) -> Scenario {
    format!("{text}{more}\n").parse().unwrap()
}

fn run(scenario: &Scenario) -> (Summary, Vec<u8>, Vec<u8>) {
    let (mut trace, mut journal) = (Vec::new(), Vec::new());
    let writers = Writers { trace: Some(&mut trace), journal: Some(&mut journal) };
    (simulator::run(scenario, writers, None).unwrap(), trace, journal)
}

fn quantiles_ms(summary: &Summary) -> OfQueue<(f64, f64)> {
    let of = |delays: &simulator::Delays| {
        let at = |share| delays.quantile_ms(share).unwrap();
        (at(0.5), at(0.99))
    };
    OfQueue { l4s: of(&summary.delays.l4s), classic: of(&summary.delays.classic) }
}

#[test]
fn the_l4s_queue_is_short_while_cubic_fills_the_other() {
    for seed in 1..6 {
        let (summary, ..) = run(&scenario(DEFAULT, &format!("seed {seed}")));
        let OfQueue { l4s, classic } = quantiles_ms(&summary);
        assert!(l4s.1 <= 3.0, "seed {seed}: p99 of {} ms", l4s.1);
        assert!((5.0..30.0).contains(&classic.0), "seed {seed}: median of {} ms", classic.0);
        let bits: f64 = summary.groups.iter().map(|of| of.bytes as f64 * 8.0).sum();
        assert!(bits / summary.seconds > 0.97e8, "the link is used: {bits}");
    }
}

#[test]
fn flows_of_both_kinds_get_about_the_same() {
    let [prague, cubic] = [10, 4].map(f64::from);
    let (summary, ..) = run(&scenario(DEFAULT, "duration_ns 40000000000"));
    let [first, second] = &summary.groups[..] else { panic!("two groups") };
    let ratio = (first.bytes as f64 / prague) / (second.bytes as f64 / cubic);
    assert!((0.5..2.0).contains(&ratio), "coupling is for that: {ratio}");
}

#[test]
fn every_packet_is_accounted_for_in_counts_and_trace() {
    for more in [
        "",
        "router mode=partitioned,limit=100",
        "router mode=tail-drop,limit=60",
        "router scheduler=ts-fifo,l4s-aqm=ramp\ndelayed_acks 2",
        "control random:0.3\nrouter drop-early=yes",
        "control last:1ms\nrouter limit=40\ngroup congestion=bbr\ngroup congestion=reno",
    ] {
        for text in [DEFAULT, PAPER] {
            let (summary, trace, journal) = run(&scenario(text, more));
            let OfQueue { l4s, classic } = summary.counts;
            assert!(l4s.adds_up() && classic.adds_up(), "{more}: {:?}", summary.counts);
            let (magic, records) = trace.split_at(MAGIC.len());
            assert_eq!(magic, MAGIC);
            let received = l4s.received + classic.received;
            assert_eq!(records.len() as u64, received * RECORD_LEN as u64, "{more}");
            assert!(journal.len() as u64 >= received * journal::ENTRY_LEN as u64);
        }
    }
}

#[test]
fn a_router_of_its_own_decides_as_that_of_the_run() {
    for (text, more) in [(DEFAULT, ""), (PAPER, "router mode=partitioned\ncontrol state:1ms")] {
        let scenario = scenario(text, more);
        let (_, _, journal) = run(&scenario);
        let router = Router::new(scenario.router, scenario.seed, 0).unwrap();
        let calls = (journal.len() / journal::ENTRY_LEN) as u64;
        assert_eq!(
            journal::replay(router, &journal),
            ReplayOutcome { calls, first_difference: None }
        );
    }
}

#[test]
fn a_seed_decides_every_byte_and_writing_changes_nothing() {
    let scenario = scenario(PAPER, "control random:0.1");
    let (one, other) = (run(&scenario), run(&scenario));
    assert_eq!((one.1, one.2), (other.1, other.2));
    let silent = simulator::run(&scenario, Writers::default(), None).unwrap();
    assert_eq!(silent.to_json(), one.0.to_json());
}

#[test]
fn steering_is_of_sender_1_and_of_l4s_packets_alone() {
    let (summary, ..) = run(&scenario(PAPER, "control random:0.25"));
    let [steered, classic, others] = &summary.groups[..] else { panic!("three groups") };
    let share = steered.remarked as f64 / (steered.delays.count() as f64 + steered.dropped as f64);
    assert!((0.23..0.27).contains(&share), "{share}");
    assert_eq!((classic.remarked, others.remarked), (0, 0));
    assert!(steered.reordered > 0, "packets in two queues overtake each other");
}
