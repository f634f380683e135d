//! What an artifact may say, and how what it must not is reported.

use crate::build::{
    self, CLASSES, FAST, FASTEST, Files, SLOW, STAGES, artifact, artifact_of, json, read, sealed,
};
use classify::{Answer, Label, StageName};
use proptest::prelude::*;

/// The message about these files.
fn refused(files: &Files) -> String {
    read(files).unwrap_err().to_string()
}

fn with(name: &str, bytes: impl Into<Vec<u8>>) -> Files {
    let mut files = artifact();
    files.insert(name.into(), bytes.into());
    sealed(files)
}

const FASTEST_FILE: &str = "fastest.trees.jsonl";
const FAST_FILE: &str = "fast.trees.jsonl";
const SLOW_FILE: &str = "slow.trees.jsonl";

/// The id as the specification has it, of `cascade.json` and these files.
fn id_of(files: &Files, names: &[&str]) -> String {
    let lines = ["cascade.json"].iter().chain(names).map(|&name| {
        let bytes = &files[name];
        format!("{} {} {name}\n", build::sha256(bytes), bytes.len())
    });
    let hash = build::sha256(lines.collect::<String>().as_bytes());
    format!("by-hand@{}", &hash[..12])
}

/// Workers and reloads know models by their ids: none of them takes one model for another.
#[test]
fn a_file_that_is_another_makes_another_id() {
    const EVEN: &[[f64; 4]] = &[[0.25; 4]; 5];
    let id = |files: &Files| read(files).unwrap().id().to_owned();
    let other = |of: &build::Tree, name: &str| {
        with(name, build::Tree { leaves: &EVEN[..of.leaves.len()], ..*of }.file())
    };
    let ids = [
        id(&artifact()),
        id(&other(&FASTEST, FASTEST_FILE)),
        id(&other(&FAST, FAST_FILE)),
        id(&other(&SLOW, SLOW_FILE)),
    ];
    let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len(), "{ids:?}");
    // What no answer depends on changes nothing.
    assert_eq!(id(&with("card.md", "# Another card")), ids[0]);
}

/// ONNX Runtime may fail where memory is short; then a flow is not of the first class.
#[test]
fn a_model_that_failed_labels_no_flow() {
    let cascade = read(&artifact()).unwrap().with_unknown_below(0.0);
    let failed = Answer { label: 0, guess: 0, confidence: 0.0, uncertainty: f64::INFINITY };
    assert_eq!(cascade.label(&failed), Label::Unknown(0));
    assert_eq!(cascade.label(&Answer { uncertainty: 1.0, ..failed }), Label::Class(0));
}

#[test]
fn what_was_written_is_read() {
    let files = artifact();
    let cascade = read(&files).unwrap();
    assert_eq!(cascade.id(), id_of(&files, &[FASTEST_FILE, FAST_FILE, SLOW_FILE]));
    assert_eq!(cascade.classes(), CLASSES);
    assert_eq!(cascade.wait().as_ns(), 10_000_000_000);
    let stages: Vec<_> =
        cascade.stages().iter().map(|stage| (stage.name(), stage.features().packets())).collect();
    assert_eq!(stages, [(StageName::Fastest, 1), (StageName::Fast, 1), (StageName::Slow, 3)]);
    assert_eq!(cascade.features().packets(), 3);
    assert_eq!(cascade.features().names(), ["protocol", "server_port", "pkt2_size_bytes"]);
}

#[test]
fn any_stage_may_be_missing() {
    let one = r#"[{"stage":"slow","family":"x","file":"slow.trees.jsonl","packets":3}]"#;
    assert_eq!(read(&artifact_of(one)).unwrap().stages().len(), 1);
    let two = r#"[{"stage":"fast","family":"x","file":"fast.trees.jsonl","packets":1,
        "uncertainty":"entropy","threshold":0.5},
        {"stage":"slow","family":"x","file":"slow.trees.jsonl","packets":3}]"#;
    assert_eq!(read(&artifact_of(two)).unwrap().stages().len(), 2);
}

#[test]
fn a_file_that_is_missing_or_changed_is_named() {
    for name in ["cascade.json", "SHA256SUMS", "fast.trees.jsonl"] {
        let mut files = artifact();
        files.remove(name);
        let message = refused(&files);
        assert!(message.starts_with(&format!("{name}: no such file")), "{message}");
    }
    for name in ["cascade.json", "slow.trees.jsonl"] {
        let mut files = artifact();
        files.get_mut(name).unwrap().push(b'\n');
        let message = refused(&files);
        assert!(message.starts_with(&format!("{name}: its SHA-256 is")), "{message}");
    }
    let mut files = artifact();
    files.insert("SHA256SUMS".into(), b"what?\n".to_vec());
    assert!(refused(&files).starts_with("SHA256SUMS: line 1 is not a hash and name"));
    files.insert("SHA256SUMS".into(), Vec::new());
    assert!(refused(&files).starts_with("SHA256SUMS: cascade.json is not listed"));
}

#[test]
fn another_schema_hash_is_refused() {
    let file = FAST.file_with(&CLASSES, &FASTEST.schema());
    let message = refused(&with("fast.trees.jsonl", file));
    let (carried, own) = (FASTEST.schema(), FAST.schema());
    let wanted = format!("schema {}, those that it names have {}", &carried[..16], &own[..16]);
    assert!(message.starts_with("fast.trees.jsonl: trained on features"), "{message}");
    assert!(message.contains(&wanted), "{message}");
}

#[test]
fn stages_must_agree() {
    let other = ["web", "dns", "bulk", "other"];
    let message = refused(&with("slow.trees.jsonl", SLOW.file_with(&other, &SLOW.schema())));
    assert!(message.starts_with("slow.trees.jsonl: its 4 classes are not"), "{message}");
    let message = refused(&with("fast.trees.jsonl", SLOW.file()));
    assert!(message.contains("reads 3 packets; cascade.json says 1"), "{message}");
    let message = refused(&with("fast.trees.jsonl", b"\x89PNG".to_vec()));
    assert!(message.starts_with("fast.trees.jsonl: not a file of trees"), "{message}");
}

#[test]
fn what_cannot_be_is_told_by_its_field() {
    let json = json(STAGES);
    for (from, to, wanted) in [
        ("wirelens cascade", "something", "no cascade (\"something\")"),
        ("\"version\": 1", "\"version\": 4", "a cascade of format version 4"),
        ("\"by-hand\"", "\"../x\"", "`name`: \"../x\"; wanted: 1 to 40 of"),
        ("\"flows\",", "\"windows\",", "`window_ns` is missing; wanted: nanoseconds"),
        ("\"kind\"", "\"unknown_below\":1.5,\"kind\"", "`unknown_below`: 1.5; wanted: a prob"),
        ("\"kind\"", "\"unknown_below\":{\"dns\":1},\"kind\"", "`unknown_below.web` is missing"),
        ("\"kind\"", "\"portless\":\"x\",\"kind\"", "`portless`: \"x\"; wanted: named or asked"),
        (
            "\"threshold\": 0.1",
            "\"threshold\": 0.1, \"calibration\": [[0.5, 0.5], [0.4, 0.6]]",
            "`stages[0].calibration`: [[0.5,0.5],[0.4,0.6]]; wanted: points",
        ),
        ("\"flows\",", "\"x\",", "`kind`: \"x\"; wanted: flows or windows"),
        ("\"web\",\n  \"bulk\"", "\"dns\",\n  \"bulk\"", "`classes`: [\"dns\",\"dns\","),
        ("\"web\",\n  \"bulk\"", "\"\\u001b[2J\",\n  \"bulk\"", "names without control characters"),
        ("120000000000", "0", "`flows.idle_timeout_ns`: 0; wanted: nanoseconds"),
        ("\"wait_ns\": 10000000000,", "", "`wait_ns` is missing"),
        ("\"single\"", "\"many\"", "`segmentation`: \"many\"; wanted: single or merged"),
        ("\"fastest\"", "\"slow\"", "`stages[1].stage`: \"fast\"; wanted: some of fastest"),
        ("\"packets\": 1", "\"packets\": 4", "`stages[1].packets`: 1; wanted: 4 at least"),
        ("\"packets\": 1", "\"packets\": 0", "`stages[0].packets`: 0; wanted: a number of"),
        ("fastest.trees.jsonl", "../fastest", "`stages[0].file`: \"../fastest\"; wanted"),
        ("\"threshold\": 0.1", "\"threshold\": null", "`stages[0].threshold`: null; wanted"),
        ("\"threshold\": 0.1", "\"x\": 0.1", "`stages[0].threshold` is missing; wanted: it, or"),
        ("\"bulk\": 0.5,", "", "`stages[1].thresholds.bulk` is missing; wanted: a finite"),
        ("\"packets\": 3", "\"packets\": 3, \"threshold\": 1", "wanted: none of the last stage"),
        ("\"entropy\"", "\"margin\"", "`stages[1].uncertainty`: \"margin\"; wanted: least-"),
    ] {
        assert!(json.contains(from), "{from}");
        let message = refused(&with("cascade.json", json.replacen(from, to, 1)));
        assert!(message.starts_with("cascade.json: "), "{message}");
        assert!(message.contains(wanted), "{message}; wanted: {wanted}");
    }
    let message = refused(&with("cascade.json", "{"));
    assert!(message.starts_with("cascade.json: no cascade (EOF"), "{message}");
}

#[test]
fn a_network_is_refused_with_what_to_try() {
    let stages = STAGES.replace("slow.trees.jsonl", "slow.onnx");
    let mut files = artifact_of(&stages);
    files.insert("slow.onnx".into(), b"x".to_vec());
    let message = refused(&sealed(files));
    // With the feature `onnx` it is refused for what it is not, else for what it is.
    assert!(message.starts_with("slow.onnx: "), "{message}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn whatever_an_artifact_says_it_is_read_or_refused(
        name in prop::sample::select(vec!["cascade.json", "SHA256SUMS", "fast.trees.jsonl"]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
        is_sealed in any::<bool>(),
    ) {
        let mut files = artifact();
        let bytes = files.get_mut(name).unwrap();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if is_sealed && name != "SHA256SUMS" {
            files = sealed(files);
        }
        match read(&files) {
            Ok(cascade) => prop_assert!(!cascade.stages().is_empty()),
            Err(error) => prop_assert!(error.to_string().contains(": ")),
        }
    }
}
