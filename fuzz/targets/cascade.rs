//! Cascades: whatever an artifact says, it is read or refused, and what was read gives each flow
//! one verdict.
//!
//! Input: a byte, then with zeros between them `cascade.json`, the files of the stages `fastest`,
//! `fast` and `slow` without their last lines, and frames, each behind its length in a byte. The
//! seals of the files and `SHA256SUMS` are made here, as neither can be guessed; where the byte is
//! odd, the last part is `SHA256SUMS` instead.
#![no_main]

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use classify::{Cascade, Classifier, Counts, Options, TakeVerdicts, Verdict, WindowClassifier};
use engine::flow::{EndedFlow, FlowFrames, FlowOptions, FlowSink, FramesOutcome, FromFrames};
use engine::run::{Control, run_one};
use fuzz::frames::Frames;
use fuzz::input::Input;
use libfuzzer_sys::fuzz_target;
use packet::HashSeed;
use sha2::{Digest, Sha256};

const FILES: [&str; 4] =
    ["cascade.json", "fastest.trees.jsonl", "fast.trees.jsonl", "slow.trees.jsonl"];
const SUMS: &str = "SHA256SUMS";
/// Rows of more than this take longer to fill than is learnt from them.
const PACKETS_MAX: usize = 16;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let has_own_sums = input.u8() & 1 == 1;
    let mut parts = input.rest().splitn(FILES.len() + 1, |&byte| byte == 0);
    let mut files: Vec<(&str, Vec<u8>)> =
        FILES.iter().map(|&name| (name, parts.next().unwrap_or_default().to_vec())).collect();
    for (_, file) in files.iter_mut().skip(1) {
        seal(file);
    }
    let last = parts.next().unwrap_or_default();
    let sums = if has_own_sums { last.to_vec() } else { sums_of(&files) };
    files.push((SUMS, sums));
    let read = |name: &str, len_max: usize| {
        let found = files.iter().find(|(file, _)| *file == name);
        let (_, bytes) = found.ok_or(io::ErrorKind::NotFound)?;
        assert!(bytes.len() <= len_max, "an input is shorter than any bound");
        Ok(bytes.clone())
    };
    match Cascade::read(read) {
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        Ok(cascade) if cascade.features().packets() <= PACKETS_MAX => {
            serve(&Arc::new(cascade), if has_own_sums { &[] } else { last });
        }
        Ok(_) => {}
    }
});

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The last line of a file of trees, where it has whole lines.
fn seal(file: &mut Vec<u8>) {
    if file.last() == Some(&b'\n') {
        let line = format!("{{\"sha256\":\"{}\"}}\n", hash(file));
        file.extend_from_slice(line.as_bytes());
    }
}

fn sums_of(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let lines: String =
        files.iter().map(|(name, bytes)| format!("{}  {name}\n", hash(bytes))).collect();
    lines.into_bytes()
}

/// Verdicts, looked at and counted.
struct Seen {
    cascade: Arc<Cascade>,
    count: u64,
}

impl TakeVerdicts for Seen {
    fn take(&mut self, verdicts: &[Verdict]) {
        for verdict in verdicts {
            assert!(!verdict.label.name(&self.cascade).is_empty());
            assert!(usize::from(verdict.packets_used) <= self.cascade.features().packets());
            self.count += 1;
        }
    }
}

struct Unwanted;

impl<S> FlowSink<S> for Unwanted {
    const WANTS_ANY: bool = false;

    fn take(&mut self, _: &[EndedFlow<S>]) {}
}

/// Each flow has one verdict, each window of a flow one at most.
fn serve(cascade: &Arc<Cascade>, frames: &[u8]) {
    let options = Options { waiting_max: 3, ..Options::default() };
    let seen = Seen { cascade: Arc::clone(cascade), count: 0 };
    if let Some(features) = cascade.window().cloned() {
        let classifier = WindowClassifier::new(Arc::clone(cascade), features, options, (), seen);
        let (classifier, _) = through(cascade, frames, classifier);
        check(&classifier.finish());
        return;
    }
    let (classifier, flow_count) =
        through(cascade, frames, Classifier::new(Arc::clone(cascade), options, (), seen));
    let found = classifier.finish();
    assert_eq!(found.0.decided(), flow_count);
    check(&found);
}

fn check((counts, seen): &(Counts, Seen)) {
    assert_eq!((counts.begun, counts.decided()), (seen.count, seen.count));
}

fn through<K: FromFrames>(cascade: &Cascade, frames: &[u8], classifier: K) -> (K, u64) {
    let timeouts = cascade.flows();
    let flows = FlowOptions {
        idle_timeout: timeouts.idle,
        active_timeout: timeouts.active,
        flow_count_max: 64,
        ..FlowOptions::default()
    };
    let mut stage = FlowFrames::new(flows, HashSeed::new(7), classifier, Unwanted);
    run_one(&mut Frames::new(frames), &mut stage, &Control::default());
    let FramesOutcome { keep, counts, .. } = stage.finish();
    (keep, counts.total())
}
