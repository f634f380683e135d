use std::sync::Arc;

use packet::{Batch, HashSeed, Layers, Network, Record};

use super::*;
use crate::Classifier;

/// A model of two columns: sources that began many flows, and small packets, look like a scan.
fn model() -> Arc<crate::Model> {
    let options = crate::FeatureOptions {
        keys: vec![Key::Flow, Key::Source],
        ..crate::FeatureOptions::default()
    };
    let names = ["ip_bytes", "source_flows"];
    let columns = names.map(|name| crate::features::Column::named(name, &options).unwrap());
    let schema = crate::features::schema_hash(&options, &columns);
    let tree = r#"{"feature":[1,-2,0,-2,-2],"threshold":[2.5,-2,100,-2,-2],
        "left":[1,-1,3,-1,-1],"right":[2,-1,4,-1,-1],
        "value":[[0.5,0.5],[0.9,0.1],[0.2,0.8],[0.1,0.9],[0.4,0.6]]}"#;
    let text = format!(
        r#"{{"format":"wirelens-packetlog 1","classes":["benign","scan"],
        "features":{{"source":"sketch","window_ns":1000000000,"layers":2,"buckets":65536,
        "keys":["flow","source"],"idle_timeout_ns":120000000000,"flow_count_max":1048576}},
        "columns":["ip_bytes","source_flows"],"schema":"{schema}",
        "flow_forest":{{"trees":[{tree}]}},"packet_forest":{{"trees":[{tree}]}}}}"#
    );
    // The window above is the default's, or the schema would differ.
    Arc::new(
        crate::Model::parse(
            text.replace("1000000000,", &format!("{},", options.window.as_ns())).as_bytes(),
        )
        .unwrap(),
    )
}

/// A UDP packet as the dissector would have found it.
fn packet(bytes: &mut Vec<u8>, time_ns: i64, source: u8, port: u16, size: u16) -> Record {
    let offset = bytes.len() as u32;
    bytes.extend_from_slice(&[0; 12]);
    bytes.extend_from_slice(&[8, 0, 0x45, 0]);
    bytes.extend_from_slice(&size.to_be_bytes());
    bytes.extend_from_slice(&[0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, source, 198, 51, 100, 1]);
    bytes.extend_from_slice(&40_000_u16.to_be_bytes());
    bytes.extend_from_slice(&port.to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.resize(offset as usize + 14 + usize::from(size), 0);
    let layers = Layers {
        network: Network::Ipv4,
        network_offset: 14,
        transport_offset: 34,
        payload_offset: 42,
        payload_len: u32::from(size) - 28,
        protocol: Protocol::UDP,
        flags: Layers::TRANSPORT,
        ..Layers::default()
    };
    let (captured_len, wire_len) = (14 + u32::from(size), 14 + u32::from(size));
    let timestamp = Timestamp::from_ns(time_ns);
    Record { offset, captured_len, wire_len, timestamp, layers, ..Record::default() }
}

fn judge(classifier: &mut Classifier, packets: &[(i64, u8, u16, u16)]) -> Vec<Reason> {
    let mut bytes = Vec::new();
    let records: Vec<_> = packets
        .iter()
        .map(|&(ns, source, port, size)| packet(&mut bytes, ns, source, port, size))
        .collect();
    let mut judged = Vec::new();
    classifier.judge(&Batch { bytes: &bytes, records: &records, tick: None }, &mut judged);
    classifier.reasons().to_vec()
}

fn classifier() -> Classifier {
    Classifier::new(model(), HashSeed::new(7)).with_reasons(HashSeed::new(7))
}

#[test]
fn a_newly_marked_flow_and_source_have_the_columns_that_decided() {
    let mut classifier = classifier();
    let second = 1_700_000_000_000_000_000;
    // Two flows are benign; the third is marked, and the fourth as well; its second packet is not
    // newly so.
    let packets = [
        (second, 7, 1, 200),
        (second + 1, 7, 2, 200),
        (second + 2, 7, 3, 200),
        (second + 3, 7, 4, 200),
        (second + 4, 7, 4, 200),
    ];
    let reasons = judge(&mut classifier, &packets);
    assert_eq!(reasons.len(), 2);
    let first = reasons[0];
    assert_eq!(first.scope, ReasonScope::FLOW_FIRST.with(ReasonScope::SOURCE_FIRST));
    assert_eq!((first.class, first.confidence), (1, 0.6));
    assert_eq!(first.time, Timestamp::from_ns(second + 2));
    let ends = first.ends.unwrap();
    assert_eq!(ends.source.to_string(), "192.0.2.7");
    assert_eq!((ends.destination_port, ends.protocol), (3, Some(Protocol::UDP)));
    let [Some(flows), None, None] = first.evidence else { panic!("{first:?}") };
    assert_eq!((flows.column, flows.value, flows.threshold), (1, 3.0, 2.5));
    assert!((flows.contribution - 0.3).abs() < 1e-6 && flows.is_above());
    assert_eq!(reasons[1].scope, ReasonScope::FLOW_FIRST);
    // A smaller packet of that flow makes the verdict stronger, on the source as well.
    let stronger = judge(&mut classifier, &[(second + 5, 7, 4, 60)]);
    let scope = ReasonScope::FLOW_STRONGER.with(ReasonScope::SOURCE_STRONGER);
    assert_eq!(stronger[0].scope, scope);
    let [Some(flows), Some(size), None] = stronger[0].evidence else { panic!("{stronger:?}") };
    assert_eq!((flows.column, size.column, size.value, size.threshold), (1, 0, 60.0, 100.0));
    assert!(!size.is_above());
    let tally = classifier.reason_tally().unwrap();
    assert_eq!(tally.made.load(Ordering::Relaxed), 3);
    assert_eq!(tally.omitted.load(Ordering::Relaxed), 0);
}

#[test]
fn a_scan_has_a_limited_number_of_reasons_and_the_rest_is_counted() {
    let mut classifier = classifier();
    let second = 1_700_000_000_000_000_000;
    let ports: Vec<_> = (1..=1000).map(|port| (second, 7, port, 200)).collect();
    let mut made = judge(&mut classifier, &ports);
    assert_eq!(made.len(), SOURCE_FLOWS_MAX as usize);
    let other = judge(&mut classifier, &[1, 2, 3].map(|port| (second, 9, port, 200)));
    assert_eq!(other.len(), 1, "another source has its own");
    made.extend(other);
    let next: Vec<_> = (1..=1000).map(|port| (second + 1_000_000_000, 7, port, 200)).collect();
    assert_eq!(judge(&mut classifier, &next).len(), 0);
    let tally = classifier.reason_tally().unwrap();
    // In each second 998 are marked; in the other the source has had all of its own.
    let omitted = 2 * 998 - u64::from(SOURCE_FLOWS_MAX);
    assert_eq!(tally.omitted.load(Ordering::Relaxed), omitted);
    assert_eq!(tally.made.load(Ordering::Relaxed), made.len() as u64);
}

#[test]
fn what_is_written_is_read_again_and_damage_is_passed_over() {
    let names = ColumnNames {
        columns: vec!["ip_bytes".into(), "source_flows".into()],
        window: Some(Span::from_ns(1_000_000_000)),
    };
    let evidence = |column| Evidence { column, value: 3.5, threshold: 2.5, contribution: 0.25 };
    let v6 = Ends {
        source: "2001:db8::7".parse().unwrap(),
        destination: "2001:db8::1".parse().unwrap(),
        source_port: 4000,
        destination_port: 22,
        protocol: Some(Protocol::TCP),
    };
    let v4 = Ends {
        source: "192.0.2.7".parse().unwrap(),
        destination: "192.0.2.1".parse().unwrap(),
        source_port: 0,
        destination_port: 0,
        protocol: None,
    };
    let reason = |ends, evidence| Reason {
        time: Timestamp::from_ns(5),
        scope: ReasonScope::FLOW_FIRST,
        ends,
        class: 1,
        confidence: 1.0,
        basis: Basis::Packet,
        evidence,
    };
    let all = [
        reason(Some(v6), [Some(evidence(1)), Some(evidence(0)), None]),
        reason(Some(v4), [Some(evidence(1)), None, None]),
        reason(None, [None; 3]),
    ];
    let mut bytes = Vec::new();
    start(&mut bytes, &names);
    let (mut written, mut ends) = (Vec::new(), Vec::new());
    for reason in &all {
        put_names(&mut bytes, reason, &names, &mut written);
        put_reason(&mut bytes, reason);
        ends.push(bytes.len());
    }
    assert_eq!(written, [1, 0]);
    let close = |got: &Reason, wanted: &Reason| {
        let rounded = |reason: &Reason| {
            let evidence = reason.evidence.map(|found| {
                found.map(|found| Evidence {
                    contribution: (found.contribution * 1000.0).round(),
                    ..found
                })
            });
            Reason { evidence, ..*reason }
        };
        rounded(got) == rounded(wanted)
    };
    let mut reader = Reader::new(&bytes);
    let got: Vec<_> = reader.by_ref().collect();
    assert!(got.len() == 3 && got.iter().zip(&all).all(|(got, wanted)| close(got, wanted)));
    assert_eq!((reader.names.of(1), reader.names.of(9)), ("source_flows", "unknown"));
    assert_eq!((reader.names.window, reader.damaged), (names.window, 0));
    // The second is damaged: the others are there, and it is counted.
    let mut damaged = bytes.clone();
    damaged[ends[0] + 12] ^= 1;
    let mut reader = Reader::new(&damaged);
    assert_eq!((reader.by_ref().count(), reader.damaged), (2, 1));
    // Cut off anywhere: what is whole is read, and a tail is no damage.
    for len in 0..bytes.len() {
        let mut reader = Reader::new(&bytes[..len]);
        let whole = ends.iter().filter(|end| **end <= len).count();
        assert_eq!((reader.by_ref().count(), reader.damaged), (whole, 0));
    }
}
