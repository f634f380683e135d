//! A router against the equations of RFC 9332, and laws that hold whatever arrives.

#![allow(clippy::unwrap_used)]

use dualq::{
    Arrival, Departure, DropCause, Ecn, Fate, MarkCause, Packet, Queue, Router, Settings, State,
};
use proptest::prelude::*;

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;

fn router(text: &str) -> Router {
    Router::new(text.parse().unwrap(), 1, 0).unwrap()
}

fn packet(ecn: Ecn, tag: u64) -> Packet {
    Packet { len: 1_500, ecn, tag }
}

fn arrive(router: &mut Router, ecn: Ecn, at_ns: u64) -> Option<DropCause> {
    router.arrive(Arrival { packet: packet(ecn, at_ns), at_ns }).dropped
}

/// What leaves when the link is free, with the state that decided.
fn leave(router: &mut Router, at_ns: u64) -> Option<(State, Departure)> {
    let state = router.state(at_ns);
    router.leave(at_ns).map(|left| (state, left))
}

/// How often a thing happened and how often it should have, one draw at a time: the sum of
/// the probabilities, and the variance around it.
#[derive(Default, Debug)]
struct Tally {
    seen: f64,
    expected: f64,
    variance: f64,
}

impl Tally {
    fn add(&mut self, probability: f64, seen: bool) {
        self.seen += f64::from(u8::from(seen));
        self.expected += probability;
        self.variance += probability * (1.0 - probability);
    }

    /// Within five standard deviations: seeds are fixed, so that this passes always or never.
    fn holds(&self) {
        let away = (self.seen - self.expected).abs();
        assert!(self.expected > 50.0, "too few to say: {self:?}");
        assert!(away <= 5.0 * self.variance.sqrt() + 1.0, "{self:?}");
    }
}

/// Offers both queues packets at so many percent of the link's rate (one packet in 120 us), and
/// hands on each packet that leaves with the base probability p' that decided.
fn overload(
    settings: &str,
    percent: (u64, u64),
    for_ms: u64,
    mut then: impl FnMut(f64, &Departure),
) -> Router {
    let mut router = router(settings);
    let (mut l4s, mut classic) = (0, 0);
    for at_us in 0..for_ms * 1_000 {
        let at_ns = at_us * US;
        (l4s, classic) = (l4s + percent.0, classic + percent.1);
        for (due, ecn) in [(&mut l4s, Ecn::Ect1), (&mut classic, Ecn::NotEct)] {
            if *due >= 12_000 {
                *due -= 12_000;
                arrive(&mut router, ecn, at_ns);
            }
        }
        if at_us % 120 == 0 {
            while let Some((state, left)) = leave(&mut router, at_ns) {
                then(state.probability, &left);
                if matches!(left.fate, Fate::Sent(_)) {
                    break;
                }
            }
        }
    }
    router
}

/// Of `p'` of a run, at which the coupled probability is below 1.
const UNCOUPLED_MAX: f64 = 0.5;

#[test]
fn marks_are_coupled_as_the_rfc_says() {
    // Section 2.1: p_C = p'^2, p_L = k p'. ECT(0) would be marked with p_C; Not-ECT is dropped.
    let (mut classic, mut l4s) = (Tally::default(), Tally::default());
    overload("l4s-aqm=none", (55, 60), 4_000, |p, left| match (left.queue, left.fate) {
        _ if p > UNCOUPLED_MAX => {}
        (Queue::Classic, fate) => classic.add(p * p, fate == Fate::Dropped(DropCause::Late)),
        (Queue::L4s, fate) => {
            assert!(matches!(fate, Fate::Sent(_)), "no L4S packet is dropped");
            l4s.add(2.0 * p, fate == Fate::Sent(Some(MarkCause::Pi)));
        }
    });
    classic.holds();
    l4s.holds();
}

#[test]
fn an_overload_drops_l4s_as_often_as_classic_or_marks_all_of_it() {
    let mut tally = Tally::default();
    overload("target=1ms,alpha=2,beta=20", (90, 90), 3_000, |p, left| {
        if left.queue == Queue::L4s && p > UNCOUPLED_MAX {
            tally.add(p * p, left.fate == Fate::Dropped(DropCause::Late));
        }
    });
    tally.holds();
    let mut unmarked = 0;
    let settings = "target=1ms,alpha=2,beta=20,drop-overload=no,limit=200";
    let mut router = overload(settings, (150, 90), 3_000, |p, left| {
        let is_l4s = left.queue == Queue::L4s;
        unmarked += u64::from(is_l4s && p >= UNCOUPLED_MAX && left.packet.ecn != Ecn::Ce);
    });
    let counts = router.counts();
    assert_eq!((unmarked, counts.l4s.dropped_late), (0, 0));
    assert!(counts.l4s.dropped_full > 0, "only a full queue drops: {counts:?}");
    assert!(router.state(3_000 * MS).probability <= UNCOUPLED_MAX + 1e-9);
}

#[test]
fn the_ramp_marks_in_proportion_to_the_wait() {
    let mut router = router("l4s-aqm=ramp,ramp-from=1ms,ramp-to=3ms,pi2=no");
    let mut tally = Tally::default();
    for round in 0..20_000_u64 {
        let (at_ns, wait_ns) = (round * 10 * MS, (round % 5) * 500 * US + 600 * US);
        arrive(&mut router, Ecn::Ect1, at_ns);
        let (_, left) = leave(&mut router, at_ns + wait_ns).unwrap();
        let ramp = (wait_ns.saturating_sub(MS)) as f64 / (2 * MS) as f64;
        tally.add(ramp.min(1.0), left.fate == Fate::Sent(Some(MarkCause::Threshold)));
    }
    tally.holds();
}

#[test]
fn weights_divide_a_link_that_both_queues_fill() {
    for (settings, share) in [
        ("pi2=no,limit=100000", 0.9),
        ("pi2=no,limit=100000,c-protection=50", 0.5),
        ("mode=partitioned,limit=100000,pi2=no", 0.2),
        ("mode=partitioned,limit=100000,l4s-share=35,pi2=no", 0.35),
    ] {
        let (mut l4s, mut all) = (0.0, 0.0);
        overload(settings, (150, 150), 2_000, |_, left| {
            all += 1.0;
            l4s += f64::from(u8::from(left.queue == Queue::L4s));
        });
        assert!((l4s / all - share).abs() < 0.005, "{settings}: {}", l4s / all);
    }
}

#[test]
fn nothing_is_lost_to_the_controller_while_less_than_two_packets_wait() {
    // An hour of one packet at a time, each of which waits longer than the target.
    let mut router = router("");
    for round in 0..10_000_u64 {
        let at_ns = round * 100 * MS;
        arrive(&mut router, Ecn::NotEct, at_ns);
        let (_, left) = leave(&mut router, at_ns + 90 * MS).unwrap();
        assert_eq!(left.fate, Fate::Sent(None));
    }
}

#[test]
fn tail_drop_is_one_queue_in_order_of_arrival() {
    let mut router = router("mode=tail-drop,limit=3");
    let all = [Ecn::Ect1, Ecn::NotEct, Ecn::Ce, Ecn::Ect0];
    let dropped = all.map(|ecn| arrive(&mut router, ecn, 0));
    assert_eq!(dropped, [None, None, None, Some(DropCause::Full)]);
    let left: Vec<Ecn> =
        std::iter::from_fn(|| router.leave(90 * MS)).map(|left| left.packet.ecn).collect();
    assert_eq!(left, all[..3]);
}

#[test]
fn each_queue_of_a_partitioned_link_has_its_own_limit() {
    let mut router = router("mode=partitioned,limit=10,l4s-share=30");
    let kept =
        |router: &mut Router, ecn| (0..20).filter(|_| arrive(router, ecn, 0).is_none()).count();
    assert_eq!((kept(&mut router, Ecn::Ect1), kept(&mut router, Ecn::NotEct)), (3, 7));
}

#[test]
fn packets_dropped_early_never_enter() {
    let router = overload("drop-early=yes", (60, 70), 3_000, |_, left| {
        assert!(!matches!(left.fate, Fate::Dropped(_)));
    });
    let counts = router.counts();
    assert!(counts.classic.dropped_early > 0 && counts.l4s.marked_pi > 0);
    assert!(counts.l4s.adds_up() && counts.classic.adds_up());
}

/// A call, and how much later than the one before it.
#[derive(Clone, Copy, Debug)]
enum Call {
    Arrive(u8, u32),
    Leave,
}

fn calls() -> impl Strategy<Value = Vec<(u64, Call)>> {
    let call = prop_oneof![
        3 => (0_u8..4, 40_u32..1_514).prop_map(|(ecn, len)| Call::Arrive(ecn, len)),
        2 => Just(Call::Leave),
    ];
    prop::collection::vec((0_u64..4 * MS, call), 0..600)
}

fn settings() -> impl Strategy<Value = Settings> {
    let texts = vec![
        "",
        "limit=20,drop-early=yes",
        "scheduler=ts-fifo,tshift=3ms",
        "l4s-aqm=ramp,coupling=4,drop-overload=no",
        "min-qlen-step=3,step=2ms,beta=50,alpha=9,target=1ms",
        "mode=partitioned,limit=30",
        "mode=tail-drop,limit=25",
    ];
    prop::sample::select(texts).prop_map(|text| text.parse().unwrap())
}

/// Drives a router and checks what has to hold at each call.
fn drive(settings: Settings, calls: &[(u64, Call)]) -> Result<Vec<Departure>, TestCaseError> {
    let mut router = Router::new(settings, 3, 0).unwrap();
    let (mut now_ns, mut all_left) = (0, Vec::new());
    let mut waiting: [std::collections::VecDeque<(u64, u64)>; 2] = Default::default();
    for (number, &(later_ns, call)) in calls.iter().enumerate() {
        now_ns += later_ns;
        let tag = number as u64;
        match call {
            Call::Arrive(ecn, len) => {
                let packet = Packet { len, ecn: Ecn::from_bits(ecn), tag };
                let entered = router.arrive(Arrival { packet, at_ns: now_ns });
                if entered.dropped.is_none() {
                    waiting[entered.queue as usize].push_back((tag, now_ns));
                }
            }
            Call::Leave => {
                let heads = [waiting[0].front().copied(), waiting[1].front().copied()];
                let Some(left) = router.leave(now_ns) else {
                    prop_assert_eq!(heads, [None, None]);
                    continue;
                };
                let head = waiting[left.queue as usize].pop_front();
                prop_assert_eq!(head, Some((left.packet.tag, left.entered_ns)), "in order");
                check_served(&settings, heads, &left)?;
                check_threshold(&settings, now_ns, &left)?;
                all_left.push(left);
            }
        }
        let counts = router.counts();
        prop_assert!(counts.l4s.adds_up() && counts.classic.adds_up(), "{:?}", counts);
        let held = counts.l4s.waiting + counts.classic.waiting;
        prop_assert!(held <= u64::from(settings.limit));
    }
    Ok(all_left)
}

/// The time-shifted FIFO serves the L4S queue unless the classic head is `tshift` older.
fn check_served(
    settings: &Settings,
    heads: [Option<(u64, u64)>; 2],
    left: &Departure,
) -> Result<(), TestCaseError> {
    if let (dualq::Scheduler::TimeShiftedFifo, [Some((_, l4s)), Some((_, classic))]) =
        (settings.scheduler, heads)
    {
        let is_l4s = l4s <= classic + settings.tshift_ns;
        prop_assert_eq!(left.queue == Queue::L4s, is_l4s);
    }
    Ok(())
}

/// The step marks what waited longer than it, and nothing else.
fn check_threshold(
    settings: &Settings,
    now_ns: u64,
    left: &Departure,
) -> Result<(), TestCaseError> {
    let is_step = settings.l4s_aqm == dualq::Aqm::Step && settings.min_qlen_step == 0;
    if is_step && left.queue == Queue::L4s && !settings.drop_early {
        let waited_longer = now_ns - left.entered_ns > settings.step_ns;
        let is_marked = left.fate != Fate::Sent(None);
        prop_assert!(is_marked || !waited_longer);
        prop_assert!(waited_longer || left.fate != Fate::Sent(Some(MarkCause::Threshold)));
    }
    Ok(())
}

proptest! {
    #[test]
    fn every_packet_leaves_in_order_once_and_is_accounted_for(
        settings in settings(), calls in calls(),
    ) {
        drive(settings, &calls)?;
    }

    #[test]
    fn a_state_that_is_asked_for_changes_no_decision(calls in calls()) {
        let settings = Settings::default();
        let (mut one, mut other) =
            (Router::new(settings, 9, 0).unwrap(), Router::new(settings, 9, 0).unwrap());
        let mut now_ns = 0;
        for (later_ns, call) in calls {
            other.state(now_ns + later_ns / 2);
            now_ns += later_ns;
            match call {
                Call::Arrive(ecn, len) => {
                    let packet = Packet { len, ecn: Ecn::from_bits(ecn), tag: 0 };
                    let arrival = Arrival { packet, at_ns: now_ns };
                    prop_assert_eq!(one.arrive(arrival), other.arrive(arrival));
                }
                Call::Leave => prop_assert_eq!(one.leave(now_ns), other.leave(now_ns)),
            }
        }
    }
}
