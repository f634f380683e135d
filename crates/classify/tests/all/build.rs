//! Artifacts of hand-written trees.

use std::collections::BTreeMap;
use std::io;

use classify::{Cascade, CascadeError, Label, Verdict};
use model::{FlowFeatures, Headers, Layout};
use sha2::{Digest, Sha256};

/// The files of an artifact by name.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

pub(crate) const CLASSES: [&str; 4] = ["dns", "web", "bulk", "other"];

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(",")
}

/// One tree, whose leaves are probabilities.
pub(crate) struct Tree {
    pub(crate) packets: usize,
    pub(crate) numbers: &'static [&'static str],
    pub(crate) tests: &'static [&'static str],
    pub(crate) nodes: &'static [i32],
    pub(crate) leaves: &'static [[f64; 4]],
}

impl Tree {
    pub(crate) fn schema(&self) -> String {
        let numbers: Vec<_> = self.numbers.iter().map(|&name| name.to_owned()).collect();
        let layout = Layout::default();
        let features =
            FlowFeatures::of_layout(Headers::Innermost, layout, self.packets, &numbers).unwrap();
        features.hash()
    }

    pub(crate) fn file(&self) -> Vec<u8> {
        self.file_with(&CLASSES, &self.schema())
    }

    pub(crate) fn file_with(&self, classes: &[&str], schema: &str) -> Vec<u8> {
        let leaves: Vec<_> = self.leaves.iter().map(|leaf| format!("{leaf:?}")).collect();
        let content = format!(
            "{{\"format\":\"wirelens trees\",\"version\":1,\"kind\":\"mean\",\"classes\":[{}],\
             \"schema\":\"{schema}\",\"headers\":\"innermost\",\
             \"blocks\":[\"ipv4\",\"tcp\",\"udp\"],\
             \"payload_bytes\":0,\"packets\":{},\"numbers\":[{}],\"trees\":1}}\n\
             {{\"tests\":[{}]}}\n{{\"nodes\":{:?},\"leaves\":[{}]}}\n",
            quoted(classes),
            self.packets,
            quoted(self.numbers),
            quoted(self.tests),
            self.nodes,
            leaves.join(",")
        );
        let seal = sha256(content.as_bytes());
        format!("{content}{{\"sha256\":\"{seal}\"}}\n").into_bytes()
    }
}

/// Ports alone: sure of DNS and of the web, not of the rest.
pub(crate) const FASTEST: Tree = Tree {
    packets: 1,
    numbers: &["protocol", "server_port"],
    tests: &["protocol > 6.5", "server_port > 52.5", "server_port > 53.5", "server_port > 80.5"],
    nodes: &[0, 3, 1, -1, -1, -1, 2, -1, -1],
    leaves: &[
        [0.0, 0.95, 0.0, 0.05],
        [0.0, 0.3, 0.4, 0.3],
        [0.1, 0.0, 0.1, 0.8],
        [0.98, 0.0, 0.0, 0.02],
        [0.25, 0.25, 0.25, 0.25],
    ],
};

/// Of the same packet: what begins with a SYN may be anything.
pub(crate) const FAST: Tree = Tree {
    packets: 1,
    numbers: &["protocol"],
    tests: &["pkt0_tcp_syn_0 is 1", "protocol > 6.5"],
    nodes: &[0, 1, -1, -1, -1],
    leaves: &[[0.0, 0.1, 0.7, 0.2], [0.0, 0.0, 0.1, 0.9], [0.0, 0.02, 0.03, 0.95]],
};

/// Of three packets: large ones are bulk.
pub(crate) const SLOW: Tree = Tree {
    packets: 3,
    numbers: &["pkt2_size_bytes"],
    tests: &["pkt2_size_bytes > 100", "pkt2_tcp_sprt_0 is there"],
    nodes: &[0, 1, -1, -1, -1],
    leaves: &[[0.0, 0.1, 0.8, 0.1], [0.05, 0.15, 0.1, 0.7], [0.0, 0.6, 0.2, 0.2]],
};

/// What `cascade.json` says of stages.
pub(crate) const STAGES: &str = r#"[
  {
   "stage": "fastest",
   "family": "port-table",
   "file": "fastest.trees.jsonl",
   "packets": 1,
   "uncertainty": "least-confidence",
   "threshold": 0.1
  },
  {
   "stage": "fast",
   "family": "decision-tree",
   "file": "fast.trees.jsonl",
   "packets": 1,
   "uncertainty": "entropy",
   "thresholds": {
    "dns": 0.2,
    "web": 0.2,
    "bulk": 0.5,
    "other": 0.5
   }
  },
  {
   "stage": "slow",
   "family": "decision-tree",
   "file": "slow.trees.jsonl",
   "packets": 3
  }
 ]"#;

pub(crate) fn json(stages: &str) -> String {
    format!(
        r#"{{
 "format": "wirelens cascade",
 "version": 1,
 "name": "by-hand",
 "kind": "flows",
 "classes": [
  "dns",
  "web",
  "bulk",
  "other"
 ],
 "flows": {{
  "idle_timeout_ns": 120000000000,
  "active_timeout_ns": 1800000000000
 }},
 "wait_ns": 10000000000,
 "segmentation": "single",
 "stages": {stages}
}}
"#
    )
}

/// Files with the hashes that belong to them.
pub(crate) fn sealed(mut files: Files) -> Files {
    files.remove("SHA256SUMS");
    let lines = files.iter().map(|(name, bytes)| format!("{}  {name}\n", sha256(bytes)));
    let sums: String = lines.collect();
    files.insert("SHA256SUMS".into(), sums.into_bytes());
    files
}

/// All three stages.
pub(crate) fn artifact() -> Files {
    artifact_of(STAGES)
}

pub(crate) fn artifact_of(stages: &str) -> Files {
    let files = [
        ("cascade.json", json(stages).into_bytes()),
        ("card.md", b"# by-hand\n\nTrees written by hand, for tests.\n".to_vec()),
        ("fastest.trees.jsonl", FASTEST.file()),
        ("fast.trees.jsonl", FAST.file()),
        ("slow.trees.jsonl", SLOW.file()),
    ];
    sealed(files.map(|(name, bytes)| (name.to_owned(), bytes)).into())
}

pub(crate) fn read(files: &Files) -> Result<Cascade, CascadeError> {
    Cascade::read(|name, _| files.get(name).cloned().ok_or(io::ErrorKind::NotFound.into()))
}

/// The number of the class that a verdict names; none such where it names none.
pub(crate) fn class_of(verdict: &Verdict) -> u16 {
    if let Label::Class(class) = verdict.label { class } else { u16::MAX }
}
