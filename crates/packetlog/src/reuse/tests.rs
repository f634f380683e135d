use std::collections::HashMap;
use std::sync::Arc;

use packet::dissect::{DissectOptions, dissect};
use packet::{Batch, EventTime, FlowKey, HashSeed, LinkType, Record, TimeMove};
use proptest::prelude::*;

use super::*;
use crate::features::{Column, FeatureOptions, schema_hash};
use crate::score::{ForestThresholds, Threshold};
use crate::{Classifier, Model};

const WINDOW_NS: i64 = 10_000_000;
const IDLE_NS: i64 = 100_000_000;
const RULE: VerdictReuse = VerdictReuse { flows: 1024, growth_percent: 50 };

/// How probable class 1 is follows from the flow's packets in the window, and so differs from
/// packet to packet; odd sizes are of class 1 where there is no flow.
fn model(reuse: Option<VerdictReuse>, buckets: usize) -> Arc<Model> {
    let options = FeatureOptions {
        layers: 1,
        buckets,
        idle_timeout: Span::from_ns(IDLE_NS),
        ..FeatureOptions::default()
    };
    let columns = ["flow_packets", "tcp_flags"].map(|name| Column::named(name, &options).unwrap());
    let reuse = reuse.map_or_else(String::new, |rule| {
        format!(
            r#""verdict_reuse": {{"flows": {}, "growth_percent": {}}},"#,
            rule.flows, rule.growth_percent
        )
    });
    let text = format!(
        r#"{{"format": "wirelens-packetlog 1", "classes": ["benign", "other"], {reuse}
        "features": {{"source": "sketch", "window_ns": {WINDOW_NS}, "layers": 1,
            "buckets": {buckets}, "keys": ["flow"], "idle_timeout_ns": {IDLE_NS},
            "flow_count_max": 1000}},
        "columns": ["flow_packets", "tcp_flags"], "schema": "{}",
        "flow_forest": {{"trees": [{{"feature": [0, 0, 0, 0, -2, -2, -2, -2, -2],
            "threshold": [4.5, 1.5, 9.5, 6.5, -2, -2, -2, -2, -2],
            "left": [1, 4, 3, 6, -1, -1, -1, -1, -1],
            "right": [2, 5, 8, 7, -1, -1, -1, -1, -1],
            "value": [[1, 1], [1, 1], [1, 1], [1, 1], [9, 1], [4, 6], [7, 3], [2, 8], [6, 4]]}}]}},
        "packet_forest": {{"trees": [{{"feature": [1, -2, -2], "threshold": [15.5, -2, -2],
            "left": [1, -1, -1], "right": [2, -1, -1],
            "value": [[1, 1], [3, 2], [1, 4]]}}]}}}}"#,
        schema_hash(&options, &columns),
    );
    Arc::new(Model::parse(text.as_bytes()).unwrap())
}

/// A segment of one of few flows, or a frame that has none.
fn frame(flow: u16, is_back: bool, flags: u8) -> Vec<u8> {
    if flow == 0 {
        return [[2; 12].as_slice(), &[0x88, 0xb5, 1, 2, 3, 4]].concat();
    }
    let mut frame = [[2; 12].as_slice(), &[8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0]].concat();
    let (ends, ports) = ([[10, 0, 0, 1], [10, 0, 0, 2]], [flow, 80]);
    let (from, to) = if is_back { (1, 0) } else { (0, 1) };
    frame.extend([ends[from], ends[to]].concat());
    frame.extend([ports[from], ports[to]].iter().flat_map(|port| port.to_be_bytes()));
    frame.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 1, 0, 0, 0, 0, 0]);
    frame
}

fn records(frames: &[(i64, Vec<u8>)]) -> (Vec<u8>, Vec<Record>) {
    let (mut bytes, mut records) = (Vec::new(), Vec::new());
    for (time_ns, frame) in frames {
        let len = frame.len() as u32;
        records.push(Record {
            timestamp: Timestamp::from_ns(*time_ns),
            offset: bytes.len() as u32,
            captured_len: len,
            wire_len: len,
            link: LinkType::ETHERNET,
            layers: dissect(LinkType::ETHERNET, frame, len, DissectOptions::default()),
            ..Record::default()
        });
        bytes.extend(frame);
    }
    (bytes, records)
}

type Outcome = (Vec<(PacketVerdict, ScoreStep)>, crate::ClassifierCounts);

fn classified(
    reuse: Option<VerdictReuse>,
    buckets: usize,
    frames: &[(i64, Vec<u8>)],
    together: usize,
) -> Outcome {
    let half = Threshold::from_steps(500).unwrap();
    let mut classifier = Classifier::new(model(reuse, buckets), HashSeed::new(7))
        .with_thresholds(ForestThresholds { flow: half, packet: half });
    let (bytes, records) = records(frames);
    let (mut all, mut some) = (Vec::new(), Vec::new());
    for records in records.chunks(together) {
        classifier.judge(&Batch { bytes: &bytes, records, tick: None }, &mut some);
        all.extend(some.drain(..).zip(classifier.scores().iter().copied()));
    }
    (all, classifier.counts())
}

/// What the specification says, with a map and no blocks: of each packet the one whose verdict it
/// gets.
fn rule(frames: &[(i64, Vec<u8>)], rule: &VerdictReuse) -> Vec<usize> {
    struct Flow {
        packets: u64,
        next: u64,
        last_ns: i64,
        from: usize,
    }
    let (bytes, records) = records(frames);
    let batch = Batch { bytes: &bytes, records: &records, tick: None };
    let mut flows: HashMap<FlowKey, Flow> = HashMap::new();
    let mut time = EventTime::new(Span::from_ns(IDLE_NS));
    let mut origins = Vec::new();
    for (at, frame) in batch.frames().enumerate() {
        if time.on_packet(frame.record.timestamp) == TimeMove::Epoch {
            flows.clear();
        }
        let now_ns = time.latest().as_ns();
        let Some((key, _)) = FlowKey::from_frame(&frame) else {
            origins.push(at);
            continue;
        };
        let flags = frame.bytes[47];
        let known = flows.get(&key).map(|flow| flow.last_ns);
        let window = |time_ns: i64| time_ns.div_euclid(WINDOW_NS);
        let is_over = known
            .is_none_or(|last_ns| last_ns < now_ns - IDLE_NS || window(last_ns) != window(now_ns));
        if is_over || flags & 0x12 == 2 {
            flows.insert(key, Flow { packets: 0, next: 0, last_ns: now_ns, from: at });
        }
        let flow = flows.get_mut(&key).unwrap();
        flow.packets += 1;
        if flow.packets >= flow.next || flags & 7 != 0 {
            flow.from = at;
            let grown = flow.packets * u64::from(rule.growth_percent) / 100;
            flow.next = flow.packets + grown.max(1);
        }
        flow.last_ns = now_ns;
        origins.push(flow.from);
    }
    origins
}

fn traffic(steps: &[(i64, u16, bool, u8)]) -> Vec<(i64, Vec<u8>)> {
    let mut time_ns = 1_000_000_000;
    let flags = [16, 16, 24, 16, 24, 2, 18, 17, 20];
    let one = |&(step, flow, is_back, kind): &(i64, u16, bool, u8)| {
        time_ns += step;
        (time_ns, frame(flow, is_back, flags[usize::from(kind) % flags.len()]))
    };
    steps.iter().map(one).collect()
}

fn steps() -> impl Strategy<Value = Vec<(i64, u16, bool, u8)>> {
    let step = prop_oneof![
        40 => 0i64..200_000,
        4 => -400_000i64..6_000_000,
        1 => Just(2 * IDLE_NS),
        1 => Just(-2 * IDLE_NS)
    ];
    let kind = prop_oneof![8 => 0u8..5, 1 => 5u8..9];
    proptest::collection::vec((step, 0u16..6, any::<bool>(), kind), 0..700)
}

proptest! {
    /// Every packet has the verdict that the packet which the rule names has without the rule.
    #[test]
    fn reuse_is_the_rule_and_nothing_else(
        steps in steps(),
        together in 1usize..300,
        growth_percent in 1u32..300,
    ) {
        let frames = traffic(&steps);
        let reuse = VerdictReuse { growth_percent, ..RULE };
        let (plain, without) = classified(None, 64, &frames, together);
        let (found, counts) = classified(Some(reuse), 64, &frames, together);
        let origins = rule(&frames, &reuse);
        let of_origin = |(at, &from): (usize, &usize)| {
            let (verdict, step) = plain[from];
            (PacketVerdict { flow: plain[at].0.flow, ..verdict }, step)
        };
        let wanted: Vec<_> = origins.iter().enumerate().map(of_origin).collect();
        prop_assert_eq!(found, wanted);
        let reused = origins.iter().enumerate().filter(|&(at, &from)| from != at).count();
        prop_assert_eq!(counts.reused.map(|(packets, _)| packets), Some(reused as u64));
        prop_assert_eq!(without.reused, None);
        prop_assert_eq!(counts.by_flow + counts.by_packet, frames.len() as u64);
        prop_assert_eq!(counts.sketches, without.sketches);
    }

    /// Also where flows have no place, and where verdicts have none.
    #[test]
    fn how_packets_come_together_changes_nothing(
        steps in steps(),
        together in 1usize..300,
        spread in 1u16..2_000,
    ) {
        let frames: Vec<_> = traffic(&steps)
            .into_iter()
            .enumerate()
            .map(|(at, (time_ns, mut frame))| {
                // Other ports make as many other flows of the same hosts.
                if frame.len() > 40 && at % 3 == 0 {
                    let port = (at as u16 % spread).to_be_bytes();
                    frame[34..36].copy_from_slice(&port);
                }
                (time_ns, frame)
            })
            .collect();
        let all = |together| classified(Some(RULE), 16, &frames, together);
        let (found, wanted) = (all(together), all(1));
        prop_assert_eq!(found.0, wanted.0);
        prop_assert_eq!(found.1, wanted.1);
    }
}

#[test]
fn most_packets_of_a_long_flow_need_no_forest() {
    let frames: Vec<_> = (0..1_000).map(|at| (at, frame(1, at % 2 == 0, 16))).collect();
    let (_, counts) = classified(Some(RULE), 64, &frames, 100);
    let (reused, places) = counts.reused.unwrap();
    assert_eq!(reused, 1_000 - 17, "1 to 4, then 6, 9, 13, 19, 28, 42, 63, 94 and so on");
    assert_eq!((places.begun, places.evicted), (1, 0));
}

#[test]
fn a_verdict_belongs_to_one_flow_and_the_oldest_is_evicted() {
    let flows = 5_000_u16;
    let of_round = |round: i64| {
        (1..=flows).map(move |flow| (round * 5_000 + i64::from(flow), frame(flow, false, 16)))
    };
    let frames: Vec<_> = of_round(0).chain(of_round(1)).collect();
    let (_, counts) = classified(Some(RULE), 64, &frames, 64);
    let (reused, places) = counts.reused.unwrap();
    // Each of 5,000 flows began twice, as 1,024 of them have a place.
    assert_eq!((reused, places.begun), (0, 10_000));
    assert_eq!(places.evicted, 10_000 - 1_024);
}

#[test]
fn a_segment_that_begins_or_ends_a_connection_is_classified() {
    let flags = [16, 16, 16, 16, 16, 17, 16, 20, 16, 2, 16, 16, 16, 16];
    let frames: Vec<_> = (0..).zip(flags).map(|(at, flags)| (at, frame(1, false, flags))).collect();
    let rule = VerdictReuse { growth_percent: 1_000, ..RULE };
    let (_, counts) = classified(Some(rule), 64, &frames, 5);
    // The first, FIN, RST, and SYN as the first of another connection.
    assert_eq!(counts.reused.unwrap().0, 14 - 4);
}
