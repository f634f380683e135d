//! The rules of modes, one by one.

use super::*;
use crate::policy::Mode;

fn manager(chosen: &str) -> Manager {
    let modes = Mode::recommended().into_iter().map(|mode| (mode.name, mode.level)).collect();
    Manager::new(Limits::default(), modes, chosen)
}

fn at(ms: u64) -> Signals {
    Signals::calm(Duration::from_millis(ms))
}

fn switches(decisions: &[Decision]) -> Vec<(&str, &str)> {
    let switches = decisions.iter().filter_map(|decision| match decision {
        Decision::Switch { from, to, .. } => Some((from.as_str(), to.as_str())),
        _ => None,
    });
    switches.collect()
}

#[test]
fn calm_resources_change_nothing() {
    let mut manager = manager("default");
    for ms in 0..100 {
        assert_eq!(manager.look(&at(ms)), []);
    }
    assert_eq!(manager.switch_count(), 0);
}

#[test]
fn each_shortage_has_the_mode_of_the_paper() {
    let short = [
        (Shortage::Disk, Signals { disk_free: 0.049, ..at(1) }, "log-sampled"),
        (Shortage::Copy, Signals { copy: 0.95, ..at(1) }, "log-partial"),
        (Shortage::Queue, Signals { queue: 0.8, ..at(1) }, "log-sampled"),
        (Shortage::LogLoss, Signals { log_lost: 1, ..at(1) }, "log-sampled"),
        (Shortage::RingLoss, Signals { ring_lost: 1, ..at(1) }, "log-sampled"),
        (Shortage::Busy, Signals { busy: 1.0, ..at(1) }, "log-sampled"),
    ];
    for (shortage, signals, mode) in short {
        let mut manager = manager("default");
        let decisions = manager.look(&signals);
        assert_eq!(switches(&decisions), [("default", mode)], "{shortage}");
        let Decision::Warn { cause, .. } = decisions[0] else { panic!("warned of first") };
        assert_eq!(cause, Cause::Shortage(shortage));
        assert_eq!(manager.in_force(), mode);
    }
}

#[test]
fn a_mode_stays_until_its_shortage_has_been_over_for_a_while() {
    let mut manager = manager("default");
    manager.look(&Signals { queue: 0.8, ..at(0) });
    // Below where it began, above where it ends.
    assert_eq!(manager.look(&Signals { queue: 0.5, ..at(60_000) }), []);
    assert_eq!(manager.look(&Signals { queue: 0.2, ..at(61_000) }), []);
    // Once more before the time is over: the wait begins anew.
    assert_eq!(manager.look(&Signals { queue: 0.3, ..at(70_000) }), []);
    assert_eq!(manager.look(&Signals { queue: 0.2, ..at(72_000) }), []);
    assert_eq!(manager.look(&Signals { queue: 0.2, ..at(81_999) }), []);
    let decisions = manager.look(&Signals { queue: 0.2, ..at(82_000) });
    assert_eq!(switches(&decisions), [("log-sampled", "default")]);
    let Decision::Switch { cause, .. } = &decisions[1] else { panic!("{decisions:?}") };
    assert_eq!(*cause, Cause::Recovered(Shortage::Queue));
}

#[test]
fn losses_are_over_when_none_came_for_a_while() {
    let mut manager = manager("default");
    assert_eq!(switches(&manager.look(&Signals { ring_lost: 5, ..at(0) })).len(), 1);
    assert_eq!(manager.look(&Signals { ring_lost: 5, ..at(10) }), []);
    assert_eq!(manager.look(&Signals { ring_lost: 6, ..at(20_000) }), [], "still losing");
    assert_eq!(manager.look(&Signals { ring_lost: 6, ..at(20_010) }), []);
    assert_eq!(manager.look(&Signals { ring_lost: 6, ..at(50_009) }), []);
    assert_eq!(switches(&manager.look(&Signals { ring_lost: 6, ..at(50_010) })).len(), 1);
    assert_eq!(manager.in_force(), "default");
}

#[test]
fn two_kinds_of_shortage_take_the_least() {
    let mut manager = manager("default");
    let both = Signals { copy: 1.0, queue: 1.0, ..at(0) };
    assert_eq!(
        switches(&manager.look(&both)),
        [("default", "log-partial"), ("log-partial", "log-minimum")]
    );
    assert_eq!(manager.shortages().collect::<Vec<_>>(), [Shortage::Copy, Shortage::Queue]);
}

#[test]
fn a_chosen_mode_that_keeps_less_stays() {
    let mut manager = manager("log-minimum");
    let decisions = manager.look(&Signals { ring_lost: 9, ..at(0) });
    assert_eq!(decisions.len(), 1, "a warning and no change: {decisions:?}");
    assert_eq!(manager.in_force(), "log-minimum");
}

#[test]
fn the_operator_is_heard_when_the_shortage_is_over() {
    let mut manager = manager("default");
    manager.look(&Signals { queue: 1.0, ..at(0) });
    assert_eq!(manager.choose("log-all"), None, "it would not relieve");
    assert_eq!((manager.chosen(), manager.in_force()), ("log-all", "log-sampled"));
    manager.look(&at(1));
    assert_eq!(switches(&manager.look(&at(10_001))), [("log-sampled", "log-all")]);
    let decision = manager.choose("default").unwrap();
    assert!(matches!(decision, Decision::Switch { cause: Cause::Operator, .. }));
}

#[test]
fn overwriting_keeps_the_mode() {
    let mut limits = Limits::default();
    limits.overwrites = true;
    let modes = Mode::recommended().into_iter().map(|mode| (mode.name, mode.level)).collect();
    let mut manager = Manager::new(limits, modes, "default");
    let decisions = manager.look(&Signals { disk_free: 0.01, ..at(0) });
    assert_eq!(decisions[1..], [Decision::Overwrite { begins: true }]);
    manager.look(&Signals { disk_free: 0.5, ..at(1) });
    let decisions = manager.look(&Signals { disk_free: 0.5, ..at(2000) });
    assert_eq!(decisions[1..], [Decision::Overwrite { begins: false }]);
}

#[test]
fn limits_that_would_swing_are_refused() {
    let mut limits = Limits::default();
    let limit = |on, off| Limit { on, off, hold: Duration::ZERO, mode: None };
    assert!(limits.set(Shortage::Disk, limit(0.05, 0.04)).is_err());
    assert!(limits.set(Shortage::Queue, limit(0.5, 0.6)).is_err());
    assert!(limits.set(Shortage::RingLoss, limit(0.0, 0.0)).is_err());
    let error = limits.set(Shortage::Copy, limit(2.0, 0.1)).unwrap_err().to_string();
    assert!(error.contains("copy: on 2"), "{error}");
    limits.set(Shortage::Queue, limit(0.5, 0.5)).unwrap();
    assert_eq!(limits.of(Shortage::Queue).mode, None);
}
