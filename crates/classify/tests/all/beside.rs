//! What a cascade knows in addition to a flow's packets: names, and what its host was before.

use std::net::IpAddr;
use std::sync::Arc;

use classify::{Cascade, HostVerdict, Label, Options};

use crate::build::{CLASSES, FASTEST, Files, artifact_of, class_of, json, read, sealed};
use crate::frames::{SECOND, TestPacket, Way, serve};

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
    let mut other = with_names(WEIGHTS);
    other.get_mut("names.tsv").unwrap().extend(b"label\tother\tother\n");
    assert_ne!(read(&crate::build::sealed(other)).unwrap().id(), named.id());
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
fn flows(client: u8) -> Vec<TestPacket> {
    let dns =
        (0..20).map(|second| TestPacket { client, ..TestPacket::udp(client, 53, second * SECOND) });
    dns.chain([TestPacket::udp(client, 9000, 30 * SECOND)]).collect()
}

#[test]
fn a_host_is_remembered_and_another_is_not() {
    let cascade = remembering();
    let mut sent = flows(1);
    sent.push(TestPacket::udp(2, 9000, 31 * SECOND));
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
        assert_eq!(whole.hosts, other.hosts, "{batch_len}");
    }
}

/// What was said of a host: the names of its labels, in order, each with its flows.
fn said(hosts: &[HostVerdict], client: u8) -> Vec<(&'static str, u64)> {
    let of_host = hosts.iter().filter(|row| row.host == IpAddr::from([10, 0, 0, client]));
    let named = of_host.map(|row| match row.label {
        Label::Class(class) => (CLASSES[usize::from(class)], row.flow_count),
        _ => ("unknown", row.flow_count),
    });
    named.collect()
}

/// Flows of one packet, minutes apart.
fn each_minute(flows: impl IntoIterator<Item = TestPacket>) -> Vec<TestPacket> {
    let minutes = (0..).map(|minute| minute * 60 * SECOND);
    flows.into_iter().zip(minutes).map(|(sent, ns)| TestPacket { ns, ..sent }).collect()
}

#[test]
fn a_host_has_a_row_when_its_label_changes_and_one_at_the_end() {
    let ports = [53, 20, 21, 22, 23, 24, 25, 26];
    let mut sent = each_minute(ports.map(|port| TestPacket::udp(1, port, 0)));
    // What one unsure flow says is not enough for a label.
    sent.push(TestPacket::udp(2, 9000, SECOND));
    // All is said already when the label is decided.
    sent.extend([TestPacket::udp(3, 53, 2 * SECOND)]);
    sent.sort_by_key(|sent| sent.ns);
    let served = serve(&remembering(), &sent, Way::default());
    // Then other flows are more and more of its recent ones.
    let wanted = [("dns", 1), ("unknown", 2), ("other", 4), ("other", 8)];
    assert_eq!(said(&served.hosts, 1), wanted);
    let has_new: Vec<_> = served.hosts.iter().map(|row| row.has_new_label).collect();
    assert_eq!(has_new.iter().filter(|is_new| **is_new).count(), 4);
    assert_eq!(said(&served.hosts, 2), [("unknown", 1)]);
    assert_eq!(said(&served.hosts, 3), [("dns", 1)]);
    for host in &served.remembered {
        let last = served.hosts.iter().rfind(|row| row.host == host.host).unwrap();
        assert_eq!((last.label, last.flow_count), (host.label, host.flow_count));
        assert_eq!((last.confidence, last.decided), (host.confidence, host.decided));
    }
    assert_eq!(served.remembered[0].flow_count, 8, "most flows first");
    assert_eq!((served.counts.hosts, served.counts.hosts_forgotten), (3, 0));
}

#[test]
fn hosts_that_are_forgotten_have_their_row_before() {
    let sent: Vec<_> = (1..=200).map(|client| TestPacket::udp(client, 9000, SECOND)).collect();
    let options = Options { hosts_max: 64, ..Options::default() };
    let served = serve(&remembering(), &sent, Way { options, ..Way::default() });
    assert_eq!(served.hosts.len(), 200);
    assert!(served.remembered.len() <= 64);
    assert_eq!(served.counts.hosts + served.counts.hosts_forgotten, 200);
}

/// Devices of three kinds; a flow in five, of the one that sends most, says nothing by itself.
#[test]
fn behind_a_shared_address_flows_are_named_no_worse_than_without_memory() {
    let of_devices = [
        (TestPacket::udp(1, 20, 0), "other"),
        (TestPacket::udp(1, 53, 0), "dns"),
        (TestPacket::udp(1, 21, 0), "other"),
        (TestPacket::tcp(1, 80, 2, 0), "web"),
        (TestPacket::udp(1, 9000, 0), "other"),
    ];
    let sent = each_minute((0..60).map(|number| of_devices[number % of_devices.len()].0));
    let right = |cascade: Cascade| {
        let served = serve(&Arc::new(cascade), &sent, Way::default());
        assert_eq!(served.verdicts.len(), sent.len());
        let mut right = [0; 5];
        for (number, verdict) in served.verdicts.iter().enumerate() {
            let truth = of_devices[number % of_devices.len()].1;
            let is_right = CLASSES[usize::from(class_of(verdict))] == truth;
            right[number % of_devices.len()] += usize::from(is_right);
        }
        right
    };
    let with = right(read(&files(&format!("\"memory\": {MEMORY},"), "")).unwrap());
    let without = right(read(&files("", "")).unwrap());
    assert_eq!((with, without), ([12; 5], [12, 12, 12, 12, 0]));
}
