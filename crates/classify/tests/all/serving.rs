//! Each flow has one verdict, and it is the flow's alone.

use std::sync::Arc;

use classify::serve::Decision;
use classify::{Cascade, Cause, Counts, Label, Options, StageName, Standing, Verdict};
use packet::Timestamp;
use proptest::prelude::*;

use crate::build::{
    CLASSES, FAST, FASTEST, SLOW, STAGES, artifact, artifact_of, class_of, json, read, sealed,
};
use crate::frames::{SECOND, START_NS, ServeOutcome, TestPacket, Way, serve, serve_with};

const SYN: u8 = 2;
const ACK: u8 = 16;
const FIN: u8 = 17;

fn cascade() -> Arc<Cascade> {
    Arc::new(read(&artifact()).unwrap())
}

/// Label, stage, packets used, cause, and nanoseconds waited.
fn said(verdict: &Verdict) -> (&'static str, StageName, u16, Cause, u64) {
    let class = class_of(verdict);
    let label = CLASSES[usize::from(class)];
    (label, verdict.stage.unwrap(), verdict.packets_used, verdict.cause, verdict.wait_ns())
}

fn only(served: &ServeOutcome) -> (&'static str, StageName, u16, Cause, u64) {
    assert_eq!(served.verdicts.len(), 1);
    said(&served.verdicts[0])
}

#[test]
fn a_sure_answer_decides_at_the_first_packet() {
    let served = serve(
        &cascade(),
        &[TestPacket::udp(1, 53, 0), TestPacket::udp(1, 53, 5).back()],
        Way::default(),
    );
    assert_eq!(only(&served), ("dns", StageName::Fastest, 1, Cause::Confident, 0));
    assert_eq!(served.verdicts[0].confidence, 0.98);
    assert_eq!(served.counts.at_first_packet, 1);
    assert_eq!(served.counts.asked, [1, 0, 0]);
}

#[test]
fn the_second_model_is_asked_of_the_same_packet() {
    let served = serve(&cascade(), &[TestPacket::udp(1, 9000, 0)], Way::default());
    assert_eq!(only(&served), ("other", StageName::Fast, 1, Cause::Confident, 0));
    assert_eq!(served.counts.asked, [1, 1, 0]);
}

#[test]
fn a_sure_answer_is_asked_about_again_where_that_is_wanted() {
    let flow =
        [TestPacket::udp(1, 53, 0), TestPacket::udp(1, 53, 5).back(), TestPacket::udp(1, 53, 9)];
    for batch_len in [1, 2, 3, 64] {
        let dns = Some(Label::Class(0));
        let way = Way { batch_len, again: dns, ..Way::default() };
        let served = serve(&cascade(), &flow, way);
        let (_, stage, packets_used, cause, waited_ns) = only(&served);
        assert_eq!((stage, packets_used), (StageName::Slow, 3));
        assert_eq!((cause, waited_ns), (Cause::LastStage, 9));
        assert_eq!((served.counts.asked_again, served.counts.asked), (1, [1, 0, 1]));
        // Its end comes before its packets do.
        let short = serve(&cascade(), &flow[..2], way);
        let (_, stage, packets_used, cause, _) = only(&short);
        assert_eq!((stage, packets_used, cause), (StageName::Slow, 2, Cause::Ended));
        // Another label is none of its business.
        let other = Way { again: Some(Label::Class(1)), ..way };
        assert_eq!(only(&serve(&cascade(), &flow, other)).1, StageName::Fastest);
    }
}

#[test]
fn an_unsure_flow_waits_for_its_packets() {
    let flow = [
        TestPacket::tcp(1, 443, SYN, 0),
        TestPacket::tcp(1, 443, SYN | ACK, 10).back(),
        TestPacket { payload_len: 200, ..TestPacket::tcp(1, 443, ACK, 30) },
        TestPacket::tcp(1, 443, ACK, 50),
    ];
    for batch_len in [1, 2, 3, 64] {
        let served = serve(&cascade(), &flow, Way { batch_len, ..Way::default() });
        assert_eq!(only(&served), ("bulk", StageName::Slow, 3, Cause::LastStage, 30));
        assert_eq!(served.counts.asked, [1, 1, 1]);
    }
}

#[test]
fn a_flow_that_ends_early_is_decided_by_what_there_is() {
    // Its second packet shows that the first flow is over.
    let gone = 120 * SECOND + 7;
    let mut cascade = read(&artifact()).unwrap();
    let served =
        serve(&Arc::new(cascade.clone()), &[TestPacket::tcp(1, 443, SYN, 0)], Way::default());
    assert_eq!(only(&served), ("other", StageName::Slow, 1, Cause::Ended, 0));
    // Where flows wait for longer than they live.
    cascade = with_wait(500 * SECOND);
    let flow = [TestPacket::tcp(1, 443, SYN, 0), TestPacket::tcp(1, 443, SYN, gone)];
    for batch_len in [1, 64] {
        let served = serve(&Arc::new(cascade.clone()), &flow, Way { batch_len, ..Way::default() });
        let said: Vec<_> = served.verdicts.iter().map(said).collect();
        let waited = gone as u64;
        assert_eq!(
            said,
            [
                ("other", StageName::Slow, 1, Cause::Ended, waited),
                ("other", StageName::Slow, 1, Cause::Ended, 0)
            ]
        );
    }
}

fn with_wait(ns: i64) -> Cascade {
    let text = json(STAGES).replace("\"wait_ns\": 10000000000", &format!("\"wait_ns\": {ns}"));
    of_text(text)
}

fn of_text(text: String) -> Cascade {
    let mut files = artifact();
    files.insert("cascade.json".into(), text.into_bytes());
    read(&sealed(files)).unwrap()
}

#[test]
fn a_flow_waits_no_longer_than_it_may() {
    // A packet that comes too late is not looked at.
    let flow = [
        TestPacket::tcp(1, 443, SYN, 0),
        TestPacket::tcp(1, 443, ACK, 1),
        TestPacket { payload_len: 200, ..TestPacket::tcp(1, 443, ACK, 10 * SECOND) },
    ];
    let served = serve(&cascade(), &flow, Way::default());
    let waited = (10 * SECOND) as u64;
    assert_eq!(only(&served), ("other", StageName::Slow, 2, Cause::Waited, waited));
    // Nor does it take one: others show the time.
    let others = [
        TestPacket::tcp(1, 443, SYN, 0),
        TestPacket::udp(2, 53, 10 * SECOND - 1),
        TestPacket::udp(2, 53, 10 * SECOND + 300),
        TestPacket::udp(2, 53, 11 * SECOND),
    ];
    for batch_len in [1, 64] {
        let served = serve(&cascade(), &others, Way { batch_len, ..Way::default() });
        let last = said(served.verdicts.last().unwrap());
        let waited = (10 * SECOND + 300) as u64;
        assert_eq!(last, ("other", StageName::Slow, 1, Cause::Waited, waited));
    }
}

#[test]
fn without_room_the_last_answer_stands() {
    let flows: Vec<_> =
        (0..9).map(|client| TestPacket::tcp(client, 443, SYN, client.into())).collect();
    let options = Options { waiting_max: 4, ..Options::default() };
    let served = serve(&cascade(), &flows, Way { options, ..Way::default() });
    assert_eq!((served.counts.of(Cause::Full), served.counts.of(Cause::Ended)), (5, 4));
    let full: Vec<_> =
        served.verdicts.iter().filter(|v| v.cause == Cause::Full).map(said).collect();
    assert_eq!(full, [("bulk", StageName::Fast, 1, Cause::Full, 0); 5]);
    assert_eq!(served.counts.waiting_most, 4);
    // Nor is a flow missed that nobody had been asked about.
    let slow = r#"[{"stage":"slow","family":"x","file":"slow.trees.jsonl","packets":3}]"#;
    let slow = Arc::new(read(&artifact_of(slow)).unwrap());
    let served = serve(&slow, &flows, Way { options, ..Way::default() });
    assert_eq!((served.counts.of(Cause::Full), served.counts.of(Cause::Ended)), (5, 4));
}

#[test]
fn other_protocols_and_merged_packets_are_counted_and_marked() {
    let icmp = TestPacket { protocol: 47, ..TestPacket::udp(3, 0, 0) };
    let merged = TestPacket { segments: 9, ..TestPacket::udp(1, 53, 5) };
    let after = TestPacket { segments: 9, ..TestPacket::udp(2, 53, 7) };
    let flows = [icmp, merged, TestPacket::udp(2, 53, 6), after];
    let served = serve(&cascade(), &flows, Way::default());
    assert_eq!((served.counts.other_protocols, served.counts.other_segmentation), (1, 1));
    let marked: Vec<_> = served.verdicts.iter().map(|v| v.other_segmentation).collect();
    assert_eq!(marked.iter().filter(|&&is_marked| is_marked).count(), 1);
}

/// The cascade whose `cascade.json` has these fields at the end as well.
fn with_fields(stages: &str, fields: &str) -> Arc<Cascade> {
    let text = json(stages);
    let end = text.trim_end().strip_suffix('}').unwrap();
    Arc::new(of_text(format!("{end},{fields}}}")))
}

#[test]
fn an_answer_below_the_threshold_is_unknown_and_its_guess_is_told() {
    let flows = [
        TestPacket::udp(1, 53, 0),
        TestPacket::tcp(2, 80, SYN, 1),
        TestPacket::tcp(3, 443, SYN, 2),
    ];
    let cascade = with_fields(STAGES, "\"unknown_below\":0.96");
    let served = serve(&cascade, &flows, Way::default());
    let told = |verdict: &Verdict| {
        let (label, guess) = (verdict.label.name(&cascade), verdict.label.guess(&cascade));
        (label.into_owned(), guess.into_owned(), verdict.confidence)
    };
    let found: Vec<_> = served.verdicts.iter().map(told).collect();
    let said = |label: &str, guess: &str, p| (label.to_owned(), guess.to_owned(), p);
    assert_eq!(
        found,
        [said("dns", "dns", 0.98), said("unknown", "web", 0.95), said("unknown", "other", 0.7)]
    );
    assert_eq!(served.counts.unknown.total(), 2);
    assert_eq!(served.counts.by(StageName::Fastest), 2);
    // Each class has its own threshold where the model says so, and the caller has the last word.
    let by_class = r#""unknown_below":{"dns":0.99,"web":0.9,"bulk":0,"other":0}"#;
    let cascade = with_fields(STAGES, by_class);
    let labels = |cascade: &Arc<Cascade>| {
        let served = serve(cascade, &flows, Way::default());
        let name = |verdict: &Verdict| verdict.label.name(cascade).into_owned();
        served.verdicts.iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(labels(&cascade), ["unknown", "web", "other"]);
    let all = Arc::new(Cascade::clone(&cascade).with_unknown_below(0.0));
    assert_eq!(labels(&all), ["dns", "web", "other"]);
}

#[test]
fn a_class_named_unknown_is_no_name() {
    let classes = CLASSES.map(|class| if class == "other" { "unknown" } else { class });
    let mut files = artifact();
    for (name, tree) in [("fastest", FASTEST), ("fast", FAST), ("slow", SLOW)] {
        let bytes = tree.file_with(&classes, &tree.schema());
        files.insert(format!("{name}.trees.jsonl"), bytes);
    }
    files.insert("cascade.json".into(), json(STAGES).replace("\"other\"", "\"unknown\"").into());
    let cascade = Arc::new(read(&sealed(files)).unwrap());
    assert!(cascade.tells_unknown());
    let served = serve(&cascade, &[TestPacket::udp(1, 9000, 0)], Way::default());
    // The likeliest of the others is the guess: of those as likely the first.
    assert_eq!(served.verdicts[0].label, Label::Unknown(2));
    assert_eq!(served.verdicts[0].confidence, 0.03);
    assert_eq!(served.counts.unknown.total(), 1);
}

#[test]
fn confidence_is_calibrated_and_uncertainty_is_not() {
    let line = r#""threshold": 0.1, "calibration": [[0.9, 0.5], [1.0, 0.9]]"#;
    let stages = STAGES.replace("\"threshold\": 0.1", line);
    let cascade = with_fields(&stages, "\"unknown_below\":0.8");
    let flows = [TestPacket::udp(1, 53, 0), TestPacket::tcp(2, 80, SYN, 1)];
    let served = serve(&cascade, &flows, Way::default());
    // Both were sure enough for the first stage, as without calibration.
    assert_eq!(served.counts.asked, [2, 0, 0]);
    let confidences: Vec<_> = served.verdicts.iter().map(|verdict| verdict.confidence).collect();
    assert!((confidences[0] - 0.82).abs() < 1e-12 && (confidences[1] - 0.7).abs() < 1e-12);
    assert!(!served.verdicts[0].label.is_unknown() && served.verdicts[1].label.is_unknown());
}

#[test]
fn a_protocol_without_ports_names_its_flow_and_no_model_is_asked() {
    let cascade = with_fields(STAGES, "\"portless\":\"named\"");
    let other = |protocol, ns| TestPacket { protocol, ..TestPacket::udp(3, 0, ns) };
    let flows =
        [other(47, 0), other(58, 1), other(253, 2), other(47, 3), TestPacket::udp(1, 53, 4)];
    for (batch_len, consumer_count) in [(1, 1), (64, 1), (2, 3)] {
        let options = Options { consumer_count, ..Options::default() };
        let served = serve(&cascade, &flows, Way { batch_len, options, ..Way::default() });
        let name = |verdict: &Verdict| verdict.label.name(&cascade).into_owned();
        let names: Vec<_> = served.verdicts.iter().map(name).collect();
        assert_eq!(names, ["gre", "ipv6-icmp", "protocol-253", "dns"]);
        assert_eq!(served.counts.asked, [1, 0, 0]);
        assert_eq!(served.counts.of(Cause::Protocol), 3);
        assert_eq!(served.counts.protocols.values().sum::<u64>(), 3);
        assert_eq!((served.verdicts[0].confidence, served.verdicts[0].stage), (1.0, None));
    }
    // A folder that does not say so asks its models, as before.
    let served = serve(&self::cascade(), &flows[..1], Way::default());
    assert!(matches!(served.verdicts[0].label, Label::Class(_)));
}

#[test]
fn a_clock_is_asked_only_where_a_frame_decided() {
    struct Fixed;
    impl classify::Clock for Fixed {
        fn latency_ns(&self, stamp: Timestamp) -> Option<u64> {
            u64::try_from(stamp.as_ns() - START_NS + 1).ok()
        }
    }
    let flows = [TestPacket::udp(1, 53, 41), TestPacket::tcp(2, 443, SYN, 50)];
    let served = serve_with(&cascade(), &flows, Way::default(), Fixed);
    let latencies: Vec<_> = served.verdicts.iter().map(|verdict| verdict.latency_ns).collect();
    assert_eq!(latencies, [Some(42), None]);
    assert_eq!(served.counts.latencies.total(), 1);
}

#[test]
fn a_flood_of_one_packet_flows_stays_within_its_bound() {
    let flood: Vec<_> = (0..60_000u32)
        .map(|number| {
            let client = (number % 250) as u8;
            TestPacket::tcp(client, 1000 + (number / 250) as u16, SYN, i64::from(number) * 1000)
        })
        .collect();
    let waiting_max = 1000;
    let options = Options { waiting_max, ..Options::default() };
    let served = serve(&cascade(), &flood, Way { batch_len: 256, options, ..Way::default() });
    assert_eq!((served.flow_count, served.counts.decided()), (60_000, 60_000));
    assert_eq!(served.counts.waiting_most, 1000);
    assert_eq!(served.counts.of(Cause::Full), 59_000);
    // What is left of the flood is places that are free, each with room for one packet.
    assert!(served.size_bytes < 1500 * 640, "{}", served.size_bytes);
}

pub(crate) fn any_packet() -> impl Strategy<Value = TestPacket> {
    let port = prop::sample::select(vec![53, 80, 443, 8000]);
    let flags = prop::sample::select(vec![SYN, ACK, ACK, FIN, 4]);
    let protocol = prop::sample::select(vec![6, 6, 6, 17, 47]);
    let step =
        prop::sample::select(vec![1, 1000, 400_000_000, 3 * SECOND, -2 * SECOND, -9 * SECOND]);
    let shape = (0..6u8, any::<bool>(), protocol, port);
    (shape, flags, 0..180u8, 1..3u16, step).prop_map(
        |(shape, tcp_flags, payload_len, segments, ns)| {
            let (client, is_back, protocol, server_port) = shape;
            TestPacket {
                client,
                is_back,
                protocol,
                server_port,
                tcp_flags,
                payload_len,
                segments,
                ns,
            }
        },
    )
}

/// Steps to stamps.
pub(crate) fn stamped(mut packets: Vec<TestPacket>) -> Vec<TestPacket> {
    let mut ns = 0;
    for packet in &mut packets {
        ns += packet.ns;
        packet.ns = ns;
    }
    packets
}

fn decision(verdict: &Verdict) -> Decision {
    let Verdict { label, confidence, stage, packets_used, .. } = *verdict;
    Decision { confidence, label, packets_used, stage }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn each_flow_has_one_verdict_however_its_packets_come(
        packets in prop::collection::vec(any_packet(), 0..250),
        batch_len in 1..200usize,
        seed in any::<u64>(),
        wait in prop::sample::select(vec![1_000_000, 5 * SECOND, 300 * SECOND]),
    ) {
        let cascade = Arc::new(with_wait(wait));
        let packets = stamped(packets);
        let served = serve(&cascade, &packets, Way { batch_len: 1, ..Way::default() });
        prop_assert_eq!(served.verdicts.len() as u64, served.flow_count);
        prop_assert_eq!(served.counts.decided(), served.flow_count);
        prop_assert_eq!(served.counts.begun, served.flow_count);
        // What is kept for a flow says the same.
        let mut kept: Vec<_> = served.ends.iter().map(|(record, held)| {
            let Standing::Decided(decision) = held.0 else { panic!("{held:?}") };
            (record.key, format!("{decision:?}"))
        }).collect();
        let mut told: Vec<_> = served.verdicts.iter()
            .map(|verdict| (verdict.key, format!("{:?}", decision(verdict)))).collect();
        kept.sort();
        told.sort();
        prop_assert_eq!(kept, told);
        let others = serve(&cascade, &packets, Way { batch_len, seed, ..Way::default() });
        prop_assert_eq!(&others.verdicts, &served.verdicts);
        // How many wait at once is seen at the ends of batches.
        let Counts { waiting_most, .. } = served.counts;
        prop_assert_eq!(Counts { waiting_most, ..others.counts }, served.counts);
    }

    #[test]
    fn several_consumers_say_what_one_says(
        packets in prop::collection::vec(any_packet(), 0..250),
        batch_len in 1..200usize,
        consumer_count in 2..5usize,
    ) {
        let cascade = cascade();
        let packets = stamped(packets);
        let alone = serve(&cascade, &packets, Way { batch_len, ..Way::default() });
        let options = Options { consumer_count, ..Options::default() };
        let served = serve(&cascade, &packets, Way { batch_len, options, ..Way::default() });
        prop_assert_eq!(&served.verdicts, &alone.verdicts);
        let Counts { waiting_most, .. } = alone.counts;
        prop_assert_eq!(Counts { waiting_most, ..served.counts }, alone.counts);
    }

    #[test]
    fn an_interface_that_is_too_fast_misses_no_flow(
        packets in prop::collection::vec(any_packet(), 0..250),
        batch_len in 1..200usize,
    ) {
        let options = Options { consumer_count: 2, is_live: true, ..Options::default() };
        let way = Way { batch_len, options, ..Way::default() };
        let served = serve(&cascade(), &stamped(packets), way);
        prop_assert_eq!(served.verdicts.len() as u64, served.flow_count);
    }

    #[test]
    fn no_flow_is_missed_where_limits_are_touched(
        packets in prop::collection::vec(any_packet(), 0..250),
        batch_len in 1..200usize,
        waiting_max in 0..4usize,
        flow_count_max in prop::sample::select(vec![64usize, 1 << 20]),
    ) {
        let options = Options { waiting_max, ..Options::default() };
        let way = Way { batch_len, options, flow_count_max, ..Way::default() };
        let served = serve(&cascade(), &stamped(packets), way);
        prop_assert_eq!(served.verdicts.len() as u64, served.flow_count);
        prop_assert!(served.counts.waiting_most <= waiting_max as u64);
    }
}
