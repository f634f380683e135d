//! A flow has a verdict for each window in which it has packets, whenever that is reported.

use std::sync::Arc;

use classify::{Cascade, Cause, Counts, Options, StageName, Verdict};
use model::{Block, Headers, WindowFeatures};
use packet::{Span, Timestamp};
use proptest::prelude::*;

use crate::build::{CLASSES, Files, Tree, artifact, class_of, json, read, sealed};
use crate::frames::{SECOND, START_NS, TestPacket, Way, serve_windows};

/// Sure where a flow had many packets in the second before.
const FIRST: Tree = Tree {
    packets: 1,
    numbers: &["previous_main_packets"],
    tests: &["previous_main_packets > 2.5"],
    nodes: &[0, -1, -1],
    leaves: &[[0.25, 0.25, 0.25, 0.25], [0.0, 0.0, 0.9, 0.1]],
};

/// Sure where the second packet is large.
const SECOND_PACKET: Tree = Tree {
    packets: 2,
    numbers: &["pkt1_payload_bytes"],
    tests: &["pkt1_payload_bytes > 99.5"],
    nodes: &[0, -1, -1],
    leaves: &[[0.25, 0.25, 0.25, 0.25], [0.0, 0.9, 0.0, 0.1]],
};

/// By the number of packets in the second.
const WHOLE: Tree = Tree {
    packets: 2,
    numbers: &["main_packets"],
    tests: &["main_packets > 2.5"],
    nodes: &[0, -1, -1],
    leaves: &[[0.7, 0.1, 0.1, 0.1], [0.0, 0.2, 0.1, 0.7]],
};

const STAGES: &str = r#"[
 {"stage":"fastest","family":"decision-tree","file":"fastest.trees.jsonl","packets":1,
  "uncertainty":"least-confidence","threshold":0.2},
 {"stage":"fast","family":"decision-tree","file":"fast.trees.jsonl","packets":2,
  "uncertainty":"least-confidence","threshold":0.2},
 {"stage":"slow","family":"decision-tree","file":"slow.trees.jsonl","packets":2}]"#;

fn file(tree: &Tree) -> Vec<u8> {
    let numbers: Vec<_> = tree.numbers.iter().map(|&name| name.to_owned()).collect();
    let blocks = [Block::Ipv4, Block::Tcp, Block::Udp];
    let (every, headers) = (Span::from_seconds(1), Headers::Innermost);
    let features = WindowFeatures::new(every, headers, &blocks, 0, tree.packets, &numbers);
    tree.file_with(&CLASSES, &features.unwrap().hash())
}

fn files() -> Files {
    let json = json(STAGES)
        .replace("\"flows\",", "\"windows\",\n \"window_ns\": 1000000000,")
        .into_bytes();
    let mut files = artifact();
    files.insert("cascade.json".into(), json);
    files.insert("fastest.trees.jsonl".into(), file(&FIRST));
    files.insert("fast.trees.jsonl".into(), file(&SECOND_PACKET));
    files.insert("slow.trees.jsonl".into(), file(&WHOLE));
    sealed(files)
}

fn cascade() -> Arc<Cascade> {
    Arc::new(read(&files()).unwrap())
}

/// Client, second, label, stage, packets used, cause, and milliseconds from the window's start.
type Said = (u16, i64, &'static str, StageName, u16, Cause, u64);

fn said(verdict: &Verdict) -> Said {
    let window = verdict.window.unwrap().since(Timestamp::from_ns(START_NS)).as_ns();
    let (source, _) = verdict.key.endpoints(verdict.direction);
    let class = class_of(verdict);
    (
        source.port.wrapping_sub(40_000),
        window / SECOND,
        CLASSES[usize::from(class)],
        verdict.stage.unwrap(),
        verdict.packets_used,
        verdict.cause,
        verdict.wait_ns() / 1_000_000,
    )
}

fn served(packets: &[TestPacket], way: Way) -> (Vec<Said>, Counts) {
    let (verdicts, counts) = serve_windows(&cascade(), packets, way);
    (verdicts.iter().map(said).collect(), counts)
}

fn at(client: u8, ms: i64) -> TestPacket {
    TestPacket::udp(client, 53, ms * 1_000_000)
}

#[test]
fn each_window_with_packets_has_a_verdict() {
    use Cause::{Confident, Ended, LastStage};
    use StageName::{Fast, Fastest, Slow};
    let packets = [
        at(1, 100),
        at(1, 200),
        at(1, 300),
        // The second before had three; it is sure at once.
        at(1, 1_050),
        // Nothing in seconds 2 and 3. What is sure of two packets waits for the second.
        at(1, 4_500),
        TestPacket { payload_len: 150, ..at(1, 4_600) },
        // One packet: what looks at two is asked of one.
        at(2, 5_900),
        at(2, 7_000),
    ];
    for batch_len in [1, 3, 64] {
        let (verdicts, counts) = served(&packets, Way { batch_len, ..Way::default() });
        assert_eq!(
            verdicts,
            [
                (1, 0, "other", Slow, 3, LastStage, 1_000),
                (1, 1, "bulk", Fastest, 1, Confident, 50),
                (1, 4, "web", Fast, 2, Confident, 600),
                (2, 5, "dns", Slow, 1, LastStage, 1_000),
                (2, 7, "dns", Slow, 1, LastStage, 1_000),
            ]
        );
        assert_eq!((counts.begun, counts.decided(), counts.of(Ended)), (5, 5, 0));
        assert_eq!(counts.waiting_most, 2);
    }
}

#[test]
fn flows_beyond_the_limit_are_counted() {
    let packets = [at(1, 0), at(2, 1), at(3, 2), at(1, 1_000), at(3, 1_001)];
    let options = Options { waiting_max: 1, ..Options::default() };
    let (verdicts, counts) = served(&packets, Way { options, ..Way::default() });
    assert_eq!(verdicts.iter().map(|said| (said.0, said.1)).collect::<Vec<_>>(), [(1, 0), (1, 1)]);
    assert_eq!((counts.unfollowed, counts.begun), (2, 2));
}

#[test]
fn windows_are_those_that_the_artifact_says() {
    let cascade = cascade();
    assert_eq!(cascade.every(), Some(Span::from_seconds(1)));
    let names = ["previous_main_packets", "pkt1_payload_bytes", "main_packets"];
    assert_eq!(cascade.window().unwrap().names(), names);
    // Windows of another length are other features.
    let mut files = files();
    let json = String::from_utf8(files["cascade.json"].clone()).unwrap();
    let json = json.replace("1000000000,", "2000000000,");
    files.insert("cascade.json".into(), json.into_bytes());
    let message = read(&sealed(files)).unwrap_err().to_string();
    assert!(message.starts_with("fastest.trees.jsonl: trained on features"), "{message}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn verdicts_are_the_same_however_batches_are_cut(
        steps in prop::collection::vec((1_u8..4, -300_i64..900, any::<bool>(), 0_u8..200), 1..60),
        batch_len in 1_usize..20,
        seed in any::<u64>(),
    ) {
        let mut ms = 1_000;
        let packets: Vec<_> = steps
            .iter()
            .map(|&(client, step, is_back, payload_len)| {
                ms = (ms + step).max(0);
                TestPacket { is_back, payload_len, ..at(client, ms) }
            })
            .collect();
        let (one, counts) = served(&packets, Way::default());
        let (other, _) = served(&packets, Way { batch_len, seed, ..Way::default() });
        prop_assert_eq!(&one, &other);
        prop_assert_eq!((counts.begun, counts.decided()), (one.len() as u64, one.len() as u64));
    }
}
