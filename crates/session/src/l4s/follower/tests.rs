//! Packets of a sender, one after the other, and what a marker is told to do.

use std::sync::{Arc, Mutex, PoisonError};

use engine::Stage as _;
use engine::flow::FlowOptions;
use engine::flow::pass::{Labels, Lens, Pass};
use l4s::{MarkerCounts, MarkerSettings, Model};
use packet::dissect::{DissectOptions, dissect};
use packet::{Batch, EcnControl, EcnRefusal, FlowDirection, HashSeed, LinkType, Record};

use super::super::closing;
use super::*;

const MS: i64 = 1_000_000;
/// Predicts the newest latency of each queue, and 5 ms more for the L4S queue.
const MODEL: &[u8] = include_bytes!("../../../../../testdata/l4s/model/model.safetensors");
const DATA_LEN: u32 = 1_000;
const NOTHING_MORE: MarkerCounts = MarkerCounts {
    asked: 0,
    kept: 0,
    remarked: 0,
    rare: 0,
    silent: 0,
    unknown: 0,
    limited: 0,
    late: 0,
};

/// Budgets that were given, in order.
#[derive(Clone, Debug, Default)]
struct Given(Arc<Mutex<Vec<(String, u32)>>>);

impl Given {
    fn all(&self) -> Vec<(String, u32)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn put(&self, flow: OneWayFlow, budget: u32) {
        let (_, destination) = flow.key.endpoints(flow.direction);
        self.0.lock().unwrap().push((destination.address.to_string(), budget));
    }
}

impl EcnControl for Given {
    fn allow(&self, flow: OneWayFlow, budget: u32) -> Result<(), EcnRefusal> {
        self.put(flow, budget);
        Ok(())
    }

    fn add(&self, flow: OneWayFlow, packets: u32, _: u32) -> Result<(), EcnRefusal> {
        self.put(flow, packets);
        Ok(())
    }

    fn forget(&self, _: OneWayFlow) -> Result<EcnFlowCounts, EcnRefusal> {
        Ok(EcnFlowCounts::default())
    }

    fn flow_counts(&self, _: OneWayFlow) -> Result<EcnFlowCounts, EcnRefusal> {
        Ok(EcnFlowCounts { remarked: 7, ..EcnFlowCounts::default() })
    }
}

/// The follower alone on a pass.
struct Alone(Follower);

impl Lens for Alone {
    fn on_piece(&mut self, piece: &engine::flow::pass::Piece<'_>, _: &mut Labels) {
        for (_, frame, packet, slot) in piece.flows() {
            self.0.take(&frame, packet, slot);
        }
        self.0.renew();
    }
}

/// A sender, 10.0.0.1, of one flow to each receiver 10.0.1.N.
struct Scene {
    pass: Pass<Alone>,
    given: Given,
    sent: [u32; 256],
    direction: Direction,
}

fn marker(share_max: f64) -> Marker {
    let settings = MarkerSettings {
        share_max,
        margin_ns: 1_000_000,
        recent_min: 0.0,
        ..MarkerSettings::default()
    };
    Marker::new(Arc::new(Model::parse(MODEL).unwrap()), settings).unwrap()
}

impl Scene {
    fn new(share_max: f64, lag: Option<Lag>) -> Self {
        let given = Given::default();
        let kernel = Kernel::new(Box::new(given.clone()), false);
        let targets = vec!["10.0.1.1".parse().unwrap(), "10.0.1.2:80".parse().unwrap()];
        let follower = Follower::new(targets, marker(share_max), Some(kernel), lag);
        Self::of(follower, given)
    }

    fn of(follower: Follower, given: Given) -> Self {
        let pass = Pass::new(FlowOptions::default(), HashSeed::new(1), Alone(follower));
        Self { pass, given, sent: [0; 256], direction: Direction::Unknown }
    }

    /// A frame of its own batch, as they come from an interface.
    fn put(&mut self, ms: i64, receiver: u8, ecn: u8, is_ack: bool, number: u32) {
        let data_len = if is_ack { 0 } else { DATA_LEN };
        self.put_data(ms, receiver, ecn, is_ack, (number, data_len));
    }

    /// The same of so many bytes; `is_ack` goes to the sender.
    fn put_data(
        &mut self,
        ms: i64,
        receiver: u8,
        ecn: u8,
        is_ack: bool,
        (number, data_len): (u32, u32),
    ) {
        let ends: [[u8; 4]; 2] = [[10, 0, 0, 1], [10, 0, 1, receiver]];
        let ports = [4_000_u16, 80];
        let (from, to) = if is_ack { (1, 0) } else { (0, 1) };
        let (seq, ack) = if is_ack { (1, number) } else { (number, 1) };
        let mut bytes = vec![0; 12];
        bytes.extend([8, 0, 0x45, ecn]);
        bytes.extend(u16::try_from(40 + data_len).unwrap().to_be_bytes());
        bytes.extend([0, 0, 0, 0, 64, 6, 0, 0]);
        bytes.extend(ends[from]);
        bytes.extend(ends[to]);
        bytes.extend(ports[from].to_be_bytes());
        bytes.extend(ports[to].to_be_bytes());
        bytes.extend(seq.to_be_bytes());
        bytes.extend(ack.to_be_bytes());
        bytes.extend([0x50, 0x10, 1, 0, 0, 0, 0, 0]);
        let len = u32::try_from(bytes.len()).unwrap();
        let options = DissectOptions { decapsulate: false, transport: true };
        let record = Record {
            timestamp: Timestamp::from_ns(1_700_000_000_000_000_000 + ms * MS),
            captured_len: len,
            wire_len: len + data_len,
            direction: self.direction,
            layers: dissect(LinkType::ETHERNET, &bytes, len + data_len, options),
            ..Record::default()
        };
        self.pass.on_batch(&Batch { bytes: &bytes, records: &[record], tick: None });
    }

    fn send(&mut self, ms: i64, receiver: u8, ecn: u8) {
        let sent = &mut self.sent[usize::from(receiver)];
        let seq = std::mem::replace(sent, *sent + DATA_LEN);
        self.put(ms, receiver, ecn, false, seq);
    }

    /// Acknowledges everything so far.
    fn ack(&mut self, ms: i64, receiver: u8) {
        let number = self.sent[usize::from(receiver)];
        self.put(ms, receiver, 0, true, number);
    }

    fn end(self) -> (Follower, Vec<(String, u32)>) {
        let given = self.given.all();
        (self.pass.finish().lens.0, given)
    }
}

#[test]
fn verdicts_on_packets_that_left_are_budgets_for_the_next_ones() {
    let mut scene = Scene::new(1.0, None);
    scene.send(0, 1, 1);
    scene.ack(20, 1);
    for at in 0..3 {
        scene.send(30 + at, 1, 1);
    }
    let (mut follower, given) = scene.end();
    let counts = MarkerCounts { asked: 4, unknown: 1, remarked: 3, ..NOTHING_MORE };
    assert_eq!(follower.marker.counts(), counts);
    let to = |budget| (String::from("10.0.1.1"), budget);
    // Named without a budget; then a packet for each verdict.
    assert_eq!(given, [to(0), to(1), to(1), to(1)]);
    let told = follower.tell(Timestamp::from_ns(0), 1);
    let row = told.rows[0];
    assert_eq!((row.packets, row.counts, row.remarked), (4, counts, Some(7)));
    assert_eq!((row.measured.l4s.count, row.measured.classic.count), (1, 0));
    assert_eq!(row.remark_share(), 7.0 / 4.0);
}

#[test]
fn no_flow_that_is_not_named_is_given_a_budget_or_followed() {
    let mut scene = Scene::new(1.0, None);
    for receiver in [1, 2, 3] {
        scene.send(0, receiver, 1);
    }
    for receiver in [1, 2, 3] {
        scene.ack(20, receiver);
    }
    for at in 0..50 {
        scene.send(30 + at, 1 + u8::try_from(at % 3).unwrap(), 1);
    }
    let (follower, given) = scene.end();
    assert_eq!(follower.flow_count(), 2);
    assert!(given.iter().any(|(to, budget)| to == "10.0.1.2" && *budget > 0));
    assert!(given.iter().all(|(to, _)| to != "10.0.1.3"), "{given:?}");
    assert_eq!(follower.total.packets, 2 + 34);
}

#[test]
fn classic_packets_are_learned_from_and_never_judged() {
    let mut scene = Scene::new(1.0, None);
    for ecn in [0, 2, 3] {
        scene.send(0, 1, ecn);
    }
    scene.ack(20, 1);
    scene.send(30, 1, 0);
    let (follower, given) = scene.end();
    assert_eq!(follower.marker.counts(), NOTHING_MORE);
    assert!(given.iter().all(|(_, budget)| *budget == 0));
    let latencies = &follower.total.latencies;
    assert_eq!((latencies.l4s.count(), latencies.classic.count()), (1, 2));
}

#[test]
fn what_the_kernel_re_marked_still_counts_as_l4s() {
    let mut scene = Scene::new(1.0, None);
    scene.send(0, 1, 1);
    scene.ack(20, 1);
    scene.send(30, 1, 1);
    // The kernel had one packet to spend.
    scene.send(31, 1, 0);
    scene.send(32, 1, 0);
    scene.send(33, 1, 0);
    let (follower, _) = scene.end();
    // Each of them was judged to be re-marked, which gave one packet more.
    assert_eq!(follower.marker.counts().asked, 5);
    let Hits { remarked, missed, wrong } = follower.hits;
    assert_eq!([remarked, missed, wrong], [3, 1, 0]);
    scene_with_plain_flow();
}

/// A flow that never was L4S is not taken for one that was re-marked.
fn scene_with_plain_flow() {
    let mut scene = Scene::new(1.0, None);
    scene.send(0, 1, 0);
    scene.ack(20, 1);
    scene.send(30, 1, 0);
    let (follower, _) = scene.end();
    assert_eq!(follower.marker.counts().asked, 0);
}

#[test]
fn a_late_loop_re_marks_nothing() {
    fn much_later() -> Timestamp {
        Timestamp::from_ns(1_700_000_100_000_000_000)
    }
    let mut scene = Scene::new(1.0, Some(Lag::new(much_later, 5_000_000)));
    scene.send(0, 1, 1);
    scene.ack(20, 1);
    (0..5).for_each(|at| scene.send(30 + at, 1, 1));
    let (follower, given) = scene.end();
    assert_eq!(follower.marker.counts().late, 5);
    assert!(given.iter().all(|(_, budget)| *budget == 0));
    assert!(closing::lines(&follower).contains("from a packet to its verdict: p50 "));
}

#[test]
fn a_budget_ends_when_acknowledgements_stop() {
    let mut scene = Scene::new(1.0, None);
    scene.send(0, 1, 1);
    scene.ack(20, 1);
    scene.send(30, 1, 1);
    scene.send(900, 1, 1);
    let (follower, given) = scene.end();
    assert_eq!(follower.marker.counts().silent, 1);
    let budgets: Vec<u32> = given.iter().map(|(_, budget)| *budget).collect();
    assert_eq!(budgets, [0, 1, 0]);
}

#[test]
fn the_share_of_packets_that_may_be_re_marked_has_a_limit() {
    let mut scene = Scene::new(0.2, None);
    scene.send(0, 1, 1);
    scene.ack(20, 1);
    (0..500).for_each(|at| scene.send(30 + at / 10, 1, 1));
    let (follower, given) = scene.end();
    let given: u32 = given.iter().map(|(_, budget)| *budget).sum();
    assert!((99..=101).contains(&given), "{given}");
    assert_eq!(u64::from(given), follower.marker.counts().remarked);
}

#[test]
fn what_an_interface_receives_does_not_leave() {
    let mut scene = Scene::new(1.0, None);
    scene.direction = Direction::Inbound;
    scene.send(0, 1, 1);
    scene.ack(20, 1);
    scene.send(30, 1, 1);
    let (follower, given) = scene.end();
    assert_eq!((follower.flow_count(), given.len()), (0, 0));
    assert!(closing::lines(&follower).contains("no packet left to a named receiver; wanted"));
}

#[test]
fn a_clock_that_is_set_back_is_counted_and_no_latency_is_negative() {
    let mut scene = Scene::new(1.0, None);
    scene.send(5_000, 1, 1);
    scene.ack(5_020, 1);
    scene.send(5_030, 1, 1);
    // Set back by 4 s while a packet is in flight.
    scene.ack(1_050, 1);
    scene.send(1_060, 1, 1);
    scene.ack(1_080, 1);
    let (follower, _) = scene.end();
    assert_eq!(follower.time.steps, 1);
    assert_eq!(follower.total.latencies.l4s.count(), 2);
    assert!(follower.total.latencies.l4s.quantile(1.0) < Some(21_000_000));
    assert!(closing::lines(&follower).contains("1 times the clock was set back"));
}

#[test]
fn a_capture_without_acknowledgements_is_named() {
    let mut scene = Scene::new(1.0, None);
    (0..20).for_each(|at| scene.send(at, 1, 1));
    let (follower, given) = scene.end();
    assert_eq!(follower.marker.counts().unknown, 20);
    assert!(given.iter().all(|(_, budget)| *budget == 0));
    let lines = closing::lines(&follower);
    assert!(lines.contains("no packet was acknowledged; wanted: both directions"));
}

#[test]
fn what_is_measured_of_a_flow_is_given_back_where_there_is_no_room_to_follow_it() {
    let targets = vec!["10.0.1.1".parse().unwrap()];
    let mut follower = Follower::new(targets, marker(1.0), None, None);
    let other = OneWayFlow { key: FlowKey::default(), direction: FlowDirection::LowToHigh };
    let full = u32::try_from(FLOWS_MAX).unwrap();
    follower.flows = (0..full).map(|number| (number, TrackedFlow::new(other, 0))).collect();
    let mut scene = Scene::of(follower, Given::default());
    // Its first packets come from the receiver, of a connection from before.
    scene.put_data(0, 1, 0, true, (1_000, DATA_LEN));
    scene.send(10, 1, 1);
    scene.send(11, 1, 1);
    let (follower, _) = scene.end();
    assert_eq!((follower.missed.flows, follower.flow_count()), (1, 0));
    assert_eq!(follower.latency().in_use(), [0; 3]);
}

#[test]
fn packets_that_predictions_leave_out_are_reported() {
    let mut scene = Scene::new(1.0, None);
    (0..65_536 + 10).for_each(|_| scene.send(0, 1, 1));
    let (follower, _) = scene.end();
    let lines = closing::lines(&follower);
    assert!(lines.contains("l4s: 10 packets in flight exceeded a table"), "{lines}");
}
