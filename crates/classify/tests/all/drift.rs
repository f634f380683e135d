//! Windows of flows against the start of a run, and against the card.

use std::sync::{Arc, LazyLock};

use classify::drift::{DriftChange, DriftMonitor, DriftWindow, REFERENCE_WINDOWS};
use classify::{Cascade, Cause, Label, StageName, Verdict};
use proptest::prelude::*;

use crate::build::{STAGES, artifact, json, read, sealed};
use crate::frames::{TestPacket, Way, serve};

/// A cascade whose `cascade.json` ends in these fields.
fn with_fields(fields: &str) -> Arc<Cascade> {
    let mut files = artifact();
    let text = json(STAGES);
    let text = text.trim_end().strip_suffix('}').unwrap().trim_end();
    files.insert("cascade.json".into(), format!("{text}, {fields}}}\n").into_bytes());
    Arc::new(read(&sealed(files)).unwrap())
}

fn cascade() -> Arc<Cascade> {
    with_fields(
        r#""training": {"judged_on": 100, "flows_by_class":
            {"dns": 50, "web": 30, "bulk": 10, "other": 10, "unknown": 20}},
           "profile": {"stages": {"fastest": {"decided": 0.5}, "fast": {"decided": 0.3},
            "slow": {"decided": 0.2}}}"#,
    )
}

/// Some verdict, of which the rest is made.
static ONE: LazyLock<Verdict> = LazyLock::new(|| {
    let packet = [TestPacket::udp(1, 53, 0)];
    serve(&Arc::new(read(&artifact()).unwrap()), &packet, Way::default()).verdicts[0]
});

fn verdict(label: Label, stage: StageName, confidence: f64) -> Verdict {
    Verdict { label, stage: Some(stage), confidence, ..*ONE }
}

/// So many flows of each class, then of none.
fn flows(cascade: &Cascade, counts: [u64; 5], confidence: f64) -> DriftWindow {
    let mut window = DriftWindow::new(cascade);
    for (class, count) in (0..).zip(counts) {
        let label = if class == 4 { Label::Unknown(0) } else { Label::Class(class) };
        let verdict = verdict(label, StageName::Fastest, confidence);
        (0..count).for_each(|_| window.add(&verdict));
    }
    window
}

/// With its reference complete.
fn begun(cascade: &Arc<Cascade>, flows_min: u64) -> DriftMonitor {
    let mut monitor = DriftMonitor::new(Arc::clone(cascade), flows_min);
    for _ in 0..REFERENCE_WINDOWS {
        assert_eq!(monitor.take(&flows(cascade, [50, 30, 10, 10, 0], 0.97)), None);
    }
    monitor
}

#[test]
fn drift_is_told_when_it_begins_and_when_it_is_over() {
    let cascade = cascade();
    let mut monitor = begun(&cascade, 100);
    assert_eq!(monitor.counts().reference_flows, 400);
    assert_eq!(monitor.take(&flows(&cascade, [48, 32, 11, 9, 0], 0.97)), None);
    let Some(DriftChange::Begun { seen, limits, label, before, now }) =
        monitor.take(&flows(&cascade, [5, 80, 10, 5, 0], 0.97))
    else {
        panic!("no drift");
    };
    assert!(seen.labels > limits.labels && seen.confidence < limits.confidence, "{seen:?}");
    assert_eq!((limits.labels, limits.confidence), (0.25, 0.25));
    // Of 50 percentage points more of the web, 45 come from DNS.
    assert_eq!((label.as_str(), before, now), ("web", 0.3, 0.8));
    assert_eq!(monitor.take(&flows(&cascade, [5, 80, 10, 5, 0], 0.97)), None);
    assert!(monitor.counts().is_drifted);
    let over = monitor.take(&flows(&cascade, [50, 30, 10, 10, 0], 0.97));
    assert_eq!(over, Some(DriftChange::Over));
    let counts = monitor.counts();
    assert_eq!((counts.windows, counts.compared, counts.drifted), (8, 4, 2));
    assert!(!counts.is_drifted && counts.latest.labels < 0.01 && counts.largest == seen);
}

#[test]
fn a_model_that_becomes_unsure_of_the_same_labels_is_drift() {
    let cascade = cascade();
    let mut monitor = begun(&cascade, 100);
    let change = monitor.take(&flows(&cascade, [50, 30, 10, 10, 0], 0.55));
    let Some(DriftChange::Begun { seen, limits, .. }) = change else { panic!("no drift") };
    assert!(seen.labels < 0.01 && seen.confidence > limits.confidence, "{seen:?}");
}

#[test]
fn unknown_flows_are_a_label() {
    let cascade = cascade();
    let mut monitor = begun(&cascade, 100);
    let change = monitor.take(&flows(&cascade, [30, 10, 10, 10, 40], 0.97));
    let Some(DriftChange::Begun { label, before, now, .. }) = change else { panic!("no drift") };
    assert_eq!((label.as_str(), before, now), ("unknown", 0.0, 0.4));
    assert_eq!(monitor.counts().unknown_share, 0.4);
}

#[test]
fn a_site_that_changes_by_itself_has_higher_limits_up_to_a_bound() {
    let cascade = cascade();
    for (one, other, limit) in [
        ([70, 15, 10, 5, 0], [30, 55, 10, 5, 0], 0.35),
        ([80, 10, 5, 5, 0], [10, 80, 5, 5, 0], 0.5),
    ] {
        let mut monitor = DriftMonitor::new(Arc::clone(&cascade), 100);
        for counts in [one, other, one, other] {
            assert_eq!(monitor.take(&flows(&cascade, counts, 0.97)), None);
        }
        let limits = monitor.counts().limits;
        assert!((limits.labels - limit).abs() < 0.01, "{limits:?}");
        assert_eq!(limits.confidence, 0.25);
        let half: [u64; 5] = std::array::from_fn(|at| u64::midpoint(one[at], other[at]));
        assert_eq!(monitor.take(&flows(&cascade, half, 0.97)), None);
        assert!(monitor.take(&flows(&cascade, [0, 0, 50, 50, 0], 0.97)).is_some());
    }
}

#[test]
fn the_card_is_compared_as_far_as_it_says_something() {
    let like_card = [50, 30, 10, 10, 20];
    let index = |cascade: &Arc<Cascade>| {
        let mut monitor = DriftMonitor::new(Arc::clone(cascade), 100);
        monitor.take(&flows(cascade, like_card, 0.97));
        let counts = monitor.counts();
        assert_eq!(counts.windows, 1);
        (counts.card_labels, counts.card_stages)
    };
    let (labels, stages) = index(&cascade());
    assert!(labels.unwrap() < 1e-9, "{labels:?}");
    // All flows by the first stage, and half of those on which it was judged.
    assert!(stages.unwrap() > 1.0, "{stages:?}");
    assert_eq!(index(&Arc::new(read(&artifact()).unwrap())), (None, None));
    for other in [
        r#""training": [], "profile": 1"#,
        r#""training": {"flows_by_class": "many", "judged_on": -1}, "profile": {"stages": {}}"#,
        r#""training": {"flows_by_class": {"dns": 5}, "judged_on": 5},
           "profile": {"stages": {"slow": {"decided": 7}}}"#,
    ] {
        assert_eq!(index(&with_fields(other)), (None, None), "{other}");
    }
    // Without flows of no class in training, those that are unknown are not compared.
    let named = with_fields(r#""training": {"flows_by_class": {"dns": 50, "web": 30}}"#);
    assert!(index(&named).0.unwrap() < 1e-9);
}

#[test]
fn what_no_model_was_asked_about_is_not_counted() {
    let cascade = cascade();
    let mut window = DriftWindow::new(&cascade);
    let by_protocol = Verdict {
        label: Label::Protocol(packet::Protocol::ICMP),
        stage: None,
        cause: Cause::Protocol,
        ..verdict(Label::Class(0), StageName::Fastest, 1.0)
    };
    window.add(&by_protocol);
    assert_eq!(window, DriftWindow::new(&cascade));
}

proptest! {
    /// Threads that share flows add them up before a window may end, so what one finds of all is
    /// what several find of parts.
    #[test]
    fn windows_do_not_depend_on_how_flows_are_shared(
        sections in prop::collection::vec((prop::array::uniform5(0_u64..60), 0_usize..5), 1..60),
    ) {
        let cascade = cascade();
        let (mut whole, mut shared) = (
            DriftMonitor::new(Arc::clone(&cascade), 100),
            DriftMonitor::new(Arc::clone(&cascade), 100),
        );
        for (counts, first) in sections {
            // One thread has some classes, the other one the rest.
            let (mut mine, mut theirs) = (counts, counts);
            mine[..first].fill(0);
            theirs[first..].fill(0);
            let mut sum = flows(&cascade, theirs, 0.8);
            sum.fold(&flows(&cascade, mine, 0.8));
            prop_assert_eq!(whole.take(&flows(&cascade, counts, 0.8)), shared.take(&sum));
        }
        prop_assert_eq!(whole.counts(), shared.counts());
    }
}
