use std::thread;
use std::time::Duration;

use dualq::{Draws, OfQueue, Queue};
use model::encoder::{Change, EncoderState, NONE_BEFORE};

use super::*;
use crate::history::{Follow, Packet, QUERY_LEN, Rows, SentPacket, TOKEN_LEN, replay, rows};
use crate::predictor::Predictions;
use crate::predictor::tests::{MS, constant, drawn};
use crate::{Model, Predictor};

const WIDTH: usize = 8;

/// A trace with sharp changes, reordered and missing acknowledgements, and some without a latency.
fn packets(count: u64, seed: u64) -> Vec<Packet> {
    let mut draws = Draws::new(seed);
    let mut at_ns = 0;
    let packet = |at: u64| {
        at_ns += draws.bits() % (2 * MS);
        let is_slow = draws.bits().is_multiple_of(20);
        let latency_ns = (20 + at / 40 % 3 * 15) * MS + draws.bits() % (5 * MS);
        let latency_ns = if is_slow { latency_ns * 3 } else { latency_ns };
        let (is_lost, is_again) =
            (draws.bits().is_multiple_of(15), draws.bits().is_multiple_of(12));
        Packet {
            leaving: SentPacket {
                at_ns,
                flow: (draws.bits() % 3) as u32,
                receiver: 0,
                size: 1_500,
            },
            queue: if draws.bits().is_multiple_of(3) { Queue::Classic } else { Queue::L4s },
            acked_ns: (!is_lost).then_some(at_ns + latency_ns),
            latency_ns: (!is_lost && !is_again).then_some(latency_ns),
        }
    };
    (0..count).map(packet).collect()
}

/// Every 200 ms on the last 100, so that a trace of a second has some tunings.
fn settings() -> TuningSettings {
    TuningSettings {
        interval_ns: 200 * MS,
        recorder: RecorderSettings { span_ns: 100 * MS, ..RecorderSettings::default() },
        examples_min: 20,
        training: TrainingSettings { batch_rows: 16, learning_rate: 1e-2, ..Default::default() },
        is_blocking: true,
    }
}

/// Nothing is tuned, and everything recorded.
fn recording(span_ns: u64, packets_max: usize) -> TuningSettings {
    let recorder = RecorderSettings { span_ns, packets_max, ..RecorderSettings::default() };
    TuningSettings { interval_ns: u64::MAX, recorder, ..settings() }
}

fn follower(model: Model, settings: Option<TuningSettings>) -> Predictions {
    let mut predictor = Predictor::new(Arc::new(model.clone()), model.settings()).unwrap();
    if let Some(settings) = settings {
        predictor.tune(settings).unwrap();
    }
    Predictions { predictor, found: Vec::new() }
}

fn follow(model: Model, settings: Option<TuningSettings>, packets: &[Packet]) -> Predictions {
    let mut follower = follower(model, settings);
    replay(packets, &mut follower).unwrap();
    follower
}

fn counts(predictor: &Predictor) -> TuningCounts {
    predictor.tuner().unwrap().counts()
}

/// The material of training, as `wirelens.l4s.material` has it, of the packets from an instant on.
/// Acknowledgements at `now_ns` or later are not known.
fn material(packets: &[Packet], rows: &Rows, from_ns: u64, now_ns: u64) -> Vec<(usize, f32, f32)> {
    let ms = |at: usize| {
        let packet = &packets[at];
        let is_known = packet.acked_ns.is_some_and(|acked_ns| acked_ns < now_ns);
        packet.latency_ns.filter(|_| is_known).map(|ns| ns as f64 / 1e6)
    };
    let is_change = |now: f64, before: Option<f64>| {
        before.is_some_and(|before| {
            (now - before).abs() >= 20.0 && (now - before).abs() >= 0.2 * before
        })
    };
    let example = |at: usize| {
        let latency = ms(at)?;
        let residual = (latency - f64::from(rows.base_ms[at])) / 100.0;
        let flow = packets[at].leaving.flow;
        let sender = (0..at).rev().find_map(ms);
        let of_flow = (0..at).rev().filter(|&one| packets[one].leaving.flow == flow).find_map(ms);
        let is_sharp = is_change(latency, sender) || is_change(latency, of_flow);
        let weight = if is_sharp { 10.0 } else { 1.0 };
        let is_here = !residual.is_nan() && packets[at].leaving.at_ns >= from_ns;
        is_here.then_some((at, residual.clamp(-20.0, 20.0) as f32, weight))
    };
    (0..packets.len()).filter_map(example).collect()
}

/// What is before each example of [`material`] in its flow, as `wirelens.l4s.material` has it.
fn changes(
    packets: &[Packet],
    rows: &Rows,
    wanted: &[(usize, f32, f32)],
    now_ns: u64,
) -> Vec<Change> {
    let ms = |at: usize| packets[at].latency_ns.unwrap() as f64 / 1e6;
    let change = |&(at, ..): &(usize, f32, f32)| {
        let is_known = |one: usize| packets[one].acked_ns.is_some_and(|acked| acked < now_ns);
        let last = (0..at).rev().find(|&one| {
            packets[one].leaving.flow == packets[at].leaving.flow
                && packets[one].latency_ns.is_some()
                && is_known(one)
        });
        let Some(last) = last else { return Change::NONE };
        let threshold = f64::max(20.0, 0.2 * ms(last));
        let change = ms(at) - ms(last);
        let before = wanted.iter().position(|&(one, ..)| one == last);
        Change {
            before: before.map_or(NONE_BEFORE, |before| before as u32),
            // Without a base there is no example.
            step: before.map_or(0.0, |_| (rows.base_ms[at] - rows.base_ms[last]) / 100.0),
            threshold: (threshold / 100.0) as f32,
            sign: if change.abs() >= threshold { change.signum() as f32 } else { 0.0 },
        }
    };
    let known = |change: Change| {
        if change.before == NONE_BEFORE { Change::NONE } else { change }
    };
    wanted.iter().map(change).map(known).collect()
}

/// The encoder's output for each token.
fn encoded(model: &Model, rows: &Rows) -> Vec<f32> {
    let mut state = EncoderState::new(model.encoder().unwrap().shape(), model.window()).unwrap();
    let mut output = vec![0.0; rows.tokens.len() / TOKEN_LEN * WIDTH];
    model.encoder().unwrap().append(&mut state, &rows.tokens, &mut output).unwrap();
    output
}

#[test]
fn recorded_examples_are_those_that_a_model_is_trained_on() {
    let (model, all) = (drawn(), packets(900, 5));
    let rows = rows(&all, model.settings()).unwrap();
    let hidden = encoded(&model, &rows);
    // All of it, and windows before which blocks were dropped.
    for (count, span_ns, packets_max) in
        [(900, u64::MAX, 10_000), (900, 200 * MS, 1_000), (640, 300 * MS, 1_000), (3, MS, 1)]
    {
        let seen = &all[..count];
        let now_ns = seen[count - 1].leaving.at_ns;
        let follower = follow(model.clone(), Some(recording(span_ns, packets_max)), seen);
        let recorder = follower.predictor.tuner().unwrap().recorder();
        let found = recorder.snapshot(now_ns).into_examples();
        let from_ns = now_ns.saturating_sub(span_ns);
        let wanted = material(seen, &rows, from_ns, now_ns);
        assert!(count < 10 || wanted.iter().any(|&(_, _, weight)| weight == 10.0));
        assert_eq!(found.targets, wanted.iter().map(|&(_, target, _)| target).collect::<Vec<_>>());
        assert_eq!(found.weights, wanted.iter().map(|&(_, _, weight)| weight).collect::<Vec<_>>());
        let queries: Vec<f32> = wanted
            .iter()
            .flat_map(|&(at, ..)| rows.queries[at * QUERY_LEN..][..QUERY_LEN].to_vec())
            .collect();
        assert_eq!(found.queries, queries);
        assert_eq!(found.changes, changes(seen, &rows, &wanted, now_ns));
        for (&index, &(at, ..)) in found.hidden_index.iter().zip(&wanted) {
            let token = rows.known[at] as usize - 1;
            assert_eq!(
                found.hidden[index as usize * WIDTH..][..WIDTH],
                hidden[token * WIDTH..][..WIDTH]
            );
        }
        assert!(recorder.counts().no_room == 0 || packets_max == 1);
        assert!(recorder.len() < count || span_ns == u64::MAX, "blocks were dropped");
    }
}

#[test]
fn what_is_recorded_is_bounded_and_what_is_dropped_is_counted() {
    let all = packets(900, 6);
    let follower = follow(drawn(), Some(recording(u64::MAX, 100)), &all);
    let recorder = follower.predictor.tuner().unwrap().recorder();
    assert!((90..=100).contains(&recorder.len()), "{}", recorder.len());
    let RecorderCounts { recorded, no_room, .. } = recorder.counts();
    assert_eq!((recorded, no_room), (900, 900 - recorder.len() as u64));
    let settings = RecorderSettings { packets_max: 16, ..RecorderSettings::default() };
    let mut recorder = Recorder::new(settings, 1);
    let query = crate::history::History::new(drawn().settings()).query(&all[0].leaving, Queue::L4s);
    for number in 0..10_000 {
        let packet = SentPacket { at_ns: number, flow: number as u32, ..all[0].leaving };
        recorder.leave(number, &packet, &[0.0], &query);
        recorder.acknowledge(number, number + 1, Some(MS));
    }
    assert!(recorder.counts().flow_no_room > 4_000, "{:?}", recorder.counts());
    // Before the first packet that is kept, and after the last.
    recorder.acknowledge(0, 0, None);
    recorder.acknowledge(10_000, 0, None);
    recorder.clear(2);
    assert!(recorder.is_empty());
}

#[test]
fn a_snapshot_does_not_change() {
    let all = packets(300, 7);
    let mut follower = follow(drawn(), Some(recording(u64::MAX, 1_000)), &all[..200]);
    let before = follower.predictor.tuner().unwrap().recorder().snapshot(u64::MAX);
    let columns = before.clone().into_examples();
    for number in 0..200 {
        follower.predictor.acknowledge(number, 1, Some(90 * MS));
    }
    assert_eq!(before.into_examples(), columns);
    let after = follower.predictor.tuner().unwrap().recorder().snapshot(u64::MAX);
    assert_ne!(after.into_examples(), columns);
}

#[test]
fn a_tuned_model_predicts_as_before_until_it_takes_over_and_better_then() {
    let all = packets(2_000, 8);
    let plain = follow(drawn(), None, &all);
    let tuned = follow(drawn(), Some(settings()), &all);
    let first = all.iter().position(|packet| packet.leaving.at_ns >= 200 * MS).unwrap();
    assert_eq!(plain.found[..first - 8], tuned.found[..first - 8]);
    assert_ne!(plain.found[first + 8..], tuned.found[first + 8..]);
    let counts = counts(&tuned.predictor);
    let TuningCounts { done, worse, examples, .. } = counts;
    assert!(done >= 4 && done + worse >= 8 && examples >= 20 * done, "{counts:?}");
    assert_eq!(counts, TuningCounts { done, worse, examples, ..Default::default() });
    let again = follow(drawn(), Some(settings()), &all);
    assert_eq!(tuned.found, again.found);
    let error = |found: &[Option<OfQueue<u64>>]| -> u64 {
        let errors = all.iter().zip(found).skip(1_000).filter_map(|(packet, found)| {
            Some(found.as_ref()?.of(packet.queue).abs_diff(packet.latency_ns?))
        });
        errors.sum()
    };
    assert!(error(&tuned.found) < error(&plain.found) * 3 / 4);
}

/// Later latencies may be others: no prediction before they were known moves, tuned or not.
#[test]
fn no_tuning_depends_on_a_later_acknowledgement() {
    let all = packets(1_200, 9);
    let plain = follow(drawn(), Some(settings()), &all);
    for changed_from in [150, 400, 401, 700] {
        // What was not known when this packet left is other.
        let now_ns = all[changed_from].leaving.at_ns;
        let change = |packet: &Packet| match packet.acked_ns {
            Some(acked_ns) if acked_ns >= now_ns => {
                let latency_ns = packet.latency_ns.map(|ns| ns + 70 * MS);
                Packet { latency_ns, acked_ns: Some(acked_ns + 70 * MS), ..*packet }
            }
            _ => *packet,
        };
        let changed: Vec<Packet> = all.iter().map(change).collect();
        let other = follow(drawn(), Some(settings()), &changed);
        assert_eq!(plain.found[..=changed_from], other.found[..=changed_from]);
        assert_ne!(plain.found, other.found);
    }
}

fn leaving(at_ns: u64) -> SentPacket {
    SentPacket { at_ns, flow: 0, receiver: 0, size: 1_500 }
}

/// Lets packets leave until a tuning has ended; how many milliseconds of their time that took.
fn until(follower: &mut Predictions, from_ns: u64, is_over: impl Fn(TuningCounts) -> bool) -> u64 {
    for at in 1..60_000 {
        let at_ns = from_ns + at * 10_000;
        Follow::leave(follower, &leaving(at_ns), Queue::L4s);
        if is_over(counts(&follower.predictor)) {
            return at_ns;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("no tuning ended: {:?}", counts(&follower.predictor));
}

#[test]
fn a_thread_delivers_its_model_while_packets_leave() {
    let all = packets(400, 10);
    // Tuned once only: the next one is far away.
    let from_ns = all[399].leaving.at_ns;
    let settings = TuningSettings {
        interval_ns: from_ns,
        recorder: RecorderSettings::default(),
        is_blocking: false,
        ..settings()
    };
    let mut follower = follow(drawn(), Some(settings), &all);
    let before = Arc::clone(follower.predictor.model());
    assert_eq!(*before, drawn());
    until(&mut follower, from_ns, |counts| counts.done == 1);
    let model = follower.predictor.model();
    assert_eq!(model.encoder(), before.encoder());
    assert_ne!(model.head(), before.head());
    let counts = counts(&follower.predictor);
    assert!(counts.examples > 200 && counts.busy == 0, "{counts:?}");
}

/// A training that would take for ever.
fn endless(interval_ns: u64) -> TuningSettings {
    TuningSettings {
        interval_ns,
        recorder: RecorderSettings::default(),
        training: TrainingSettings { epochs: u32::MAX, ..settings().training },
        is_blocking: false,
        ..settings()
    }
}

#[test]
fn a_training_ends_when_its_predictor_does() {
    let all = packets(900, 11);
    let follower = follow(drawn(), Some(endless(150 * MS)), &all);
    let counts = counts(&follower.predictor);
    assert_eq!((counts.done, counts.skipped), (0, 0));
    assert!(counts.busy >= 2, "{counts:?}");
    drop(follower);
}

#[test]
fn a_training_ends_when_its_model_is_exchanged() {
    let all = packets(900, 11);
    let mut follower = follow(drawn(), Some(endless(500 * MS)), &all);
    let other = Arc::new(drawn().with_head(constant(7.0).head().unwrap().clone()));
    follower.predictor.exchange(Arc::clone(&other)).unwrap();
    assert_eq!(counts(&follower.predictor).stopped, 1);
    let recorded = |follower: &Predictions| follower.predictor.tuner().unwrap().recorder().len();
    assert_eq!(recorded(&follower), 900, "the encoder is the same");
    follower.predictor.exchange(Arc::new(constant(7.0))).unwrap();
    assert_eq!((counts(&follower.predictor).stopped, recorded(&follower)), (1, 0));
    Follow::leave(&mut follower, &leaving(all[899].leaving.at_ns), Queue::L4s);
    assert_eq!(recorded(&follower), 1);
}

#[test]
fn tunings_that_cannot_be_are_counted_and_the_model_stays() {
    let all = packets(900, 12);
    let few = TuningSettings { examples_min: 10_000, ..settings() };
    let follower = follow(drawn(), Some(few), &all);
    let found = counts(&follower.predictor);
    assert!(found.skipped >= 3, "{found:?}");
    assert_eq!(found, TuningCounts { skipped: found.skipped, ..TuningCounts::default() });
    let training = TrainingSettings { learning_rate: 1e30, ..settings().training };
    let wild = TuningSettings { training, ..settings() };
    let follower = follow(drawn(), Some(wild), &all);
    let found = counts(&follower.predictor);
    assert!(found.failed >= 3, "{found:?}");
    assert_eq!(found, TuningCounts { failed: found.failed, ..TuningCounts::default() });
    let failure = follower.predictor.tuner().unwrap().failure().unwrap().to_string();
    assert!(failure.starts_with("the loss of minibatch"), "{failure}");
    assert_eq!(**follower.predictor.model(), drawn());
}

#[test]
fn layers_that_are_no_better_do_not_take_over() {
    let all = packets(900, 12);
    // Steps so large that the loss is finite, and grows.
    let training = TrainingSettings { learning_rate: 3.0, epochs: 1, ..settings().training };
    let follower = follow(drawn(), Some(TuningSettings { training, ..settings() }), &all);
    let found = counts(&follower.predictor);
    assert!(found.worse >= 3, "{found:?}");
    assert_eq!(found, TuningCounts { worse: found.worse, ..TuningCounts::default() });
    assert_eq!(**follower.predictor.model(), drawn());
}

#[test]
fn after_a_gap_one_tuning_is_due() {
    let mut follower = follower(drawn(), Some(settings()));
    for at_ns in [0, 10, 1_000_000 * MS, 1_000_001 * MS, 1_000_199 * MS, 1_000_200 * MS] {
        Follow::leave(&mut follower, &leaving(at_ns), Queue::L4s);
    }
    assert_eq!(counts(&follower.predictor).skipped, 1);
    Follow::leave(&mut follower, &leaving(1_000_203 * MS), Queue::L4s);
    assert_eq!(counts(&follower.predictor).skipped, 2);
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let recorder = RecorderSettings::default();
    for (settings, text) in [
        (TuningSettings { interval_ns: 0, ..settings() }, "interval_ns 0; wanted: 1 or more"),
        (TuningSettings { examples_min: 0, ..settings() }, "examples_min 0; wanted: 1 or more"),
        (
            TuningSettings { recorder: RecorderSettings { span_ns: 0, ..recorder }, ..settings() },
            "span_ns 0; wanted: 1 or more",
        ),
        (
            TuningSettings {
                recorder: RecorderSettings { alpha: f32::NAN, ..recorder },
                ..settings()
            },
            "alpha NaN; wanted: more than 0",
        ),
        (
            TuningSettings {
                training: TrainingSettings { epochs: 0, ..Default::default() },
                ..settings()
            },
            "epochs 0; wanted: 1 or more",
        ),
    ] {
        let mut predictor = Predictor::new(Arc::new(drawn()), drawn().settings()).unwrap();
        assert_eq!(predictor.tune(settings).unwrap_err().to_string(), text);
    }
    assert_eq!(TuningSettings::default().check(), Ok(()));
}
