use packet::dissect::{DissectOptions, dissect};
use packet::{LinkType, Record, Timestamp};
use proptest::prelude::*;

use super::*;

/// Flows of more than three packets are of class 1; ARP is of class 2, all else the forest of
/// packets cannot tell apart.
fn model(source: &str, buckets: usize) -> Arc<Model> {
    let options = crate::features::FeatureOptions {
        source: if source == "exact" {
            crate::features::CounterStore::Exact
        } else {
            crate::features::CounterStore::Sketch
        },
        layers: 1,
        buckets,
        ..Default::default()
    };
    let column = |name| crate::features::Column::named(name, &options).unwrap();
    let schema =
        crate::features::schema_hash(&options, &[column("flow_packets"), column("network")]);
    let text = format!(
        r#"{{"format": "wirelens-packetlog 1", "classes": ["benign", "long", "arp"],
        "features": {{"source": "{source}", "window_ns": 10000000, "layers": 1,
            "buckets": {buckets}, "keys": ["flow"], "idle_timeout_ns": 120000000000,
            "flow_count_max": 1000}},
        "columns": ["flow_packets", "network"], "schema": "{schema}",
        "flow_forest": {{"trees": [{{"feature": [0, -2, -2], "threshold": [3.5, -2, -2],
            "left": [1, -1, -1], "right": [2, -1, -1],
            "value": [[1, 1, 0], [3, 1, 0], [0, 2, 0]]}}]}},
        "packet_forest": {{"trees": [{{"feature": [1, -2, -2], "threshold": [1, -2, -2],
            "left": [1, -1, -1], "right": [2, -1, -1],
            "value": [[1, 1, 1], [0, 0, 1], [1, 1, 0]]}}]}}}}"#
    );
    Arc::new(Model::parse(text.as_bytes()).unwrap())
}

fn udp(host: u8, port: u16) -> Vec<u8> {
    let mut frame =
        [[2; 12].as_slice(), &[8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]].concat();
    frame.extend([10, 0, 0, host, 10, 0, 1, 1]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 53, 0, 8, 0, 0]);
    frame
}

fn arp() -> Vec<u8> {
    let mut frame = [[2; 12].as_slice(), &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
    frame.resize(42, 1);
    frame
}

fn records(frames: &[(i64, Vec<u8>)]) -> (Vec<u8>, Vec<Record>) {
    let mut bytes = Vec::new();
    let record = |(time, frame): &(i64, Vec<u8>)| {
        let len = frame.len() as u32;
        let offset = bytes.len() as u32;
        bytes.extend(frame);
        Record {
            timestamp: Timestamp::from_ns(*time),
            offset,
            captured_len: len,
            wire_len: len,
            link: LinkType::ETHERNET,
            layers: dissect(LinkType::ETHERNET, frame, len, DissectOptions::default()),
            ..Record::default()
        }
    };
    let records = frames.iter().map(record).collect();
    (bytes, records)
}

fn judged(
    classifier: &mut Classifier,
    frames: &[(i64, Vec<u8>)],
    together: usize,
) -> Vec<PacketVerdict> {
    let (bytes, records) = records(frames);
    let (mut all, mut some) = (Vec::new(), Vec::new());
    for records in records.chunks(together) {
        classifier.judge(&Batch { bytes: &bytes, records, tick: None }, &mut some);
        all.append(&mut some);
    }
    all
}

#[test]
fn flows_are_judged_by_their_forest_and_all_else_by_that_of_packets() {
    for source in ["exact", "sketch"] {
        let mut classifier = Classifier::new(model(source, 64), HashSeed::new(1));
        let frames: Vec<_> =
            (0..5).map(|at| (at, udp(1, 7))).chain([(5, arp()), (6, vec![1, 2, 3])]).collect();
        let judged = judged(&mut classifier, &frames, 3);
        let classes: Vec<_> = judged.iter().map(|judged| judged.class).collect();
        assert_eq!(classes, [0, 0, 0, 1, 1, 2, 2], "a frame that is nothing is no IP either");
        let confidence: Vec<_> = judged.iter().map(|judged| judged.confidence).collect();
        assert_eq!(confidence, [0.75, 0.75, 0.75, 1.0, 1.0, 1.0, 1.0]);
        assert!(judged[..5].iter().all(|j| j.basis == Basis::Flow && j.flow.is_some()));
        assert!(judged[5..].iter().all(|j| j.basis == Basis::Packet && j.flow.is_none()));
        let counts = classifier.counts();
        assert_eq!((counts.by_flow, counts.by_packet, counts.without_key), (5, 2, 2));
        assert_eq!(counts.sketches.len() + counts.tables.len(), 1);
    }
}

/// From the third connection of a pair on, packets are of class 1.
fn model_of_states() -> Arc<Model> {
    let options = crate::features::FeatureOptions { states: 1024, ..Default::default() };
    let column = crate::features::Column::named("pair_flows", &options).unwrap();
    let schema = crate::features::schema_hash(&options, &[column]);
    let tree = r#"{"feature": [0, -2, -2], "threshold": [2.5, -2, -2], "left": [1, -1, -1],
        "right": [2, -1, -1], "value": [[1, 1], [1, 0], [0, 1]]}"#;
    let text = format!(
        r#"{{"format": "wirelens-packetlog 1", "classes": ["benign", "repeated"],
        "features": {{"source": "sketch", "window_ns": 10000000, "layers": 2, "buckets": 65536,
            "keys": ["flow"], "idle_timeout_ns": 120000000000, "flow_count_max": 1048576,
            "states": 1024}},
        "columns": ["pair_flows"], "schema": "{schema}",
        "flow_forest": {{"trees": [{tree}]}}, "packet_forest": {{"trees": [{tree}]}}}}"#
    );
    Arc::new(Model::parse(text.as_bytes()).unwrap())
}

#[test]
fn states_last_longer_than_the_window_of_sums() {
    let mut classifier = Classifier::new(model_of_states(), HashSeed::new(1));
    let minute = 60_000_000_000;
    let frames: Vec<_> =
        (0..5).map(|number| (i64::from(number) * minute, udp(1, 40_000 + number))).collect();
    let judged = judged(&mut classifier, &frames, 2);
    let classes: Vec<_> = judged.iter().map(|judged| judged.class).collect();
    assert_eq!(classes, [0, 0, 1, 1, 1]);
    let states = classifier.counts().states.unwrap();
    assert_eq!((states.flows.begun, states.pairs.begun, states.flows.evicted), (5, 1, 0));
}

#[test]
fn a_flow_that_found_no_place_is_judged_packet_by_packet() {
    let mut classifier = Classifier::new(model("sketch", 16), HashSeed::new(1));
    let frames: Vec<_> = (0..20).map(|port| (0, udp(1, port))).collect();
    let judged = judged(&mut classifier, &frames, 256);
    let by_flow = judged.iter().filter(|judged| judged.basis == Basis::Flow).count();
    let counts = classifier.counts();
    assert_eq!(by_flow as u64, counts.by_flow);
    assert_eq!(counts.sketches[0].1.refused, counts.by_packet);
    assert!(counts.by_packet > 0, "sixteen buckets hold no twenty flows");
    // Of two classes as probable as each other it is the first.
    let packet = judged.iter().find(|judged| judged.basis == Basis::Packet).unwrap();
    assert_eq!((packet.class, packet.confidence), (0, 0.5));
    assert!(packet.flow.is_some());
}

proptest! {
    #[test]
    fn how_packets_come_together_changes_nothing(
        frames in proptest::collection::vec((-2_000_000i64..4_000_000, 0u8..3, 0u16..12), 0..600),
        together in 1usize..400,
    ) {
        let mut time = 0;
        let frames: Vec<_> = frames
            .into_iter()
            .map(|(step, host, port)| {
                time += step;
                (time, if port == 0 { arp() } else { udp(host, port) })
            })
            .collect();
        for (source, buckets) in [("exact", 64), ("sketch", 64), ("sketch", 16)] {
            let all = |together| {
                let mut classifier = Classifier::new(model(source, buckets), HashSeed::new(9));
                judged(&mut classifier, &frames, together)
            };
            prop_assert_eq!(all(together), all(1));
        }
    }
}
