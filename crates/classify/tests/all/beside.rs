//! What a cascade knows beside a flow's packets: names, and what its host was before.

use std::sync::Arc;

use classify::Cascade;

use crate::build::{CLASSES, FASTEST, Files, artifact_of, json, read, sealed};
use crate::frames::{SECOND, Sent, Way, serve};

const STAGE: &str =
    r#"[{"stage": "slow", "family": "ports", "file": "fastest.trees.jsonl", "packets": 1"#;
const WEIGHTS: &str = r#"{"packets": 10, "floor": 0.03,
    "a": {"none": 1, "carrier": 1, "protocol": 1, "label": 1, "suffix": 1},
    "k": {"protocol": 3, "carrier": 2, "suffix": 4, "label": 3, "label beside suffix": 1},
    "b": {"dns": 0, "web": 0, "bulk": 0, "other": 0}}"#;
const LIST: &str = "kind\tvalue\tclass\nprotocol\tssh\tother\n";
const MEMORY: &str = r#"{"half_life_ns": 600000000000, "prior": 1, "floor": 0.01}"#;

/// An artifact of version 3 whose `cascade.json` says more.
fn files(more: &str, stage_more: &str) -> Files {
    let stages = format!("{STAGE}{stage_more}}}]");
    let text = json(&stages).replace("\"version\": 1,", &format!("\"version\": 3,{more}"));
    let mut files = artifact_of(&stages);
    files.insert("cascade.json".into(), text.into_bytes());
    files.insert("names.tsv".into(), LIST.into());
    files.insert("fastest.trees.jsonl".into(), FASTEST.file());
    sealed(files)
}

fn with_names(weights: &str) -> Files {
    files("\"names\": \"names.tsv\",", &format!(", \"names\": {weights}"))
}

#[test]
fn names_and_memory_are_read() {
    let named = read(&with_names(WEIGHTS)).unwrap();
    assert!(named.names().is_some() && !named.is_by_flow());
    assert_eq!((named.packets(), named.stages()[0].names().unwrap().packets), (10, 10));
    let remembering = read(&files(&format!("\"memory\": {MEMORY},"), "")).unwrap();
    assert_eq!(remembering.memory().unwrap().half_life.as_ns(), 600 * SECOND);
    assert!(!remembering.is_by_flow() && remembering.names().is_none());
    assert!(read(&files("", "")).unwrap().is_by_flow());
}

#[test]
fn what_they_cannot_be_is_refused_by_its_field() {
    let refused = |files: &Files| read(files).unwrap_err().to_string();
    let weights = |from: &str, to: &str| with_names(&WEIGHTS.replacen(from, to, 1));
    let memory =
        |from: &str, to: &str| files(&format!("\"memory\": {},", MEMORY.replacen(from, to, 1)), "");
    for (files, wanted) in [
        (files("\"names\": \"names.tsv\",", ""), "`stages[0].names` is missing"),
        (files("", &format!(", \"names\": {WEIGHTS}")), "none without a list of names"),
        (files("\"names\": \"../x\",", ""), "`names`: \"../x\"; wanted: the name of a file"),
        (weights("10,", "0,"), "`stages[0].names.packets`: 0; wanted: a number of packets"),
        (weights("0.03", "0.5"), "`stages[0].names.floor`: 0.5; wanted: a probability"),
        (weights("\"suffix\": 4", "\"x\": 4"), "`stages[0].names.k.suffix` is missing"),
        (weights("\"bulk\": 0", "\"bulk\": \"\""), "`stages[0].names.b.bulk`: \"\"; wanted: a"),
        (memory("600000000000", "0"), "`memory.half_life_ns`: 0; wanted: nanoseconds"),
        (memory("\"prior\": 1", "\"prior\": 0"), "`memory.prior`: 0; wanted: a number above 0"),
        (memory("0.01", "0.3"), "`memory.floor`: 0.3; wanted: a probability that all"),
    ] {
        let message = refused(&files);
        assert!(message.contains(wanted), "{message}; wanted: {wanted}");
    }
    let mut other = with_names(WEIGHTS);
    other.insert("names.tsv".into(), b"kind\tvalue\tclass\nlabel\tvpn\tvpn\n".to_vec());
    assert_eq!(
        refused(&sealed(other)),
        "names.tsv: line 2: class \"vpn\"; wanted: dns, web, bulk, other"
    );
    let old = |more: &str| {
        let mut files = files(more, "");
        let text = String::from_utf8(files["cascade.json"].clone()).unwrap();
        let text = text.replace("\"version\": 3", "\"version\": 2");
        files.insert("cascade.json".into(), text.into_bytes());
        refused(&sealed(files))
    };
    assert!(old(&format!("\"memory\": {MEMORY},")).contains("none before version 3"));
}

fn remembering() -> Arc<Cascade> {
    Arc::new(read(&files(&format!("\"memory\": {MEMORY},"), "")).unwrap())
}

/// A host's flows, each of another port: a minute of DNS, then one that the ports do not tell.
fn flows(client: u8) -> Vec<Sent> {
    let dns = (0..20).map(|second| Sent { client, ..Sent::udp(client, 53, second * SECOND) });
    dns.chain([Sent::udp(client, 9000, 30 * SECOND)]).collect()
}

#[test]
fn a_host_is_remembered_and_another_is_not() {
    let cascade = remembering();
    let mut sent = flows(1);
    sent.push(Sent::udp(2, 9000, 31 * SECOND));
    let served = serve(&cascade, &sent, Way::default());
    let class = |client: usize| {
        let verdict = &served.verdicts[client];
        (CLASSES[usize::from(crate::build::class_of(verdict))], verdict.confidence)
    };
    // One flow of DNS, all packets of the same ports; then the two that ports do not tell.
    assert_eq!(served.verdicts.len(), 3);
    assert_eq!(class(0), ("dns", class(0).1));
    let (label, confidence) = class(1);
    assert_eq!(label, "dns", "{confidence}");
    assert_eq!(class(2).0, "dns", "the first of equals");
    assert!(confidence > class(2).1 + 0.2, "{confidence} {}", class(2).1);
}

#[test]
fn what_is_remembered_does_not_depend_on_batches() {
    let cascade = remembering();
    let mut sent: Vec<_> = (1..40).flat_map(flows).collect();
    sent.sort_by_key(|sent| sent.ns);
    let whole = serve(&cascade, &sent, Way { batch_len: 1, ..Way::default() });
    for batch_len in [3, 64, 1000] {
        let other = serve(&cascade, &sent, Way { batch_len, ..Way::default() });
        assert_eq!(whole.verdicts, other.verdicts, "{batch_len}");
    }
}
