//! Models of the packet log: whatever a file says, it is read or refused in a line, and what was
//! read judges every packet, the same in batches of any size.
//!
//! Input: the file, then behind a zero frames, each behind its length in a byte. The hash of what
//! the columns mean cannot be guessed: it is put right here.
#![no_main]

use std::sync::Arc;

use fuzz::frames::Frames;
use libfuzzer_sys::fuzz_target;
use packet::HashSeed;
use packetlog::features::FeatureOptions;
use packetlog::{Classifier, Model, PacketVerdict};

/// What takes more memory than this is read, and not served.
const PLACES_MAX: usize = 1 << 12;

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(2, |&byte| byte == 0);
    let text = parts.next().unwrap_or_default();
    let Some(model) = read(text) else { return };
    assert!(!model.classes().is_empty() && !model.columns().is_empty());
    for forest in [model.flow_forest(), model.packet_forest()] {
        assert_eq!(forest.class_count(), model.classes().len());
        assert_eq!(forest.column_count(), model.columns().len());
        assert!(forest.columns_read().iter().all(|&at| at < model.columns().len()));
    }
    if is_small(model.options()) {
        let model = Arc::new(model);
        let frames = Frames::new(parts.next().unwrap_or_default());
        let whole = judge(&model, &frames, usize::MAX);
        let single = judge(&model, &frames, 1);
        assert_eq!(whole, single);
    }
});

/// The model; of one whose only fault is its hash, the model with the right one.
fn read(text: &[u8]) -> Option<Model> {
    let error = match Model::parse(text) {
        Ok(model) => return Some(model),
        Err(error) => error,
    };
    assert!(!error.to_string().contains('\n'), "{error}");
    if error.field != "schema" {
        return None;
    }
    let (_, wanted) = error.cause.split_once("wanted: \"")?;
    let (wanted, _) = wanted.split_once('"')?;
    let text = std::str::from_utf8(text).ok()?;
    let (before, rest) = text.split_once("\"schema\":\"")?;
    let (_, after) = rest.split_once('"')?;
    Model::parse(format!("{before}\"schema\":\"{wanted}\"{after}").as_bytes()).ok()
}

fn is_small(options: &FeatureOptions) -> bool {
    let buckets = options.layers.saturating_mul(options.buckets);
    buckets <= PLACES_MAX && options.flow_count_max <= PLACES_MAX
}

/// What each packet is found to be.
fn judge(model: &Arc<Model>, frames: &Frames, batch_len_max: usize) -> Vec<PacketVerdict> {
    let mut classifier = Classifier::new(Arc::clone(model), HashSeed::new(7));
    let (mut judged, mut all) = (Vec::new(), Vec::new());
    for batch in frames.batches(batch_len_max) {
        classifier.judge(&batch, &mut judged);
        assert_eq!(judged.len(), batch.records.len());
        all.append(&mut judged);
    }
    for judged in &all {
        assert!(usize::from(judged.class) < model.classes().len());
        assert!((0.0..=1.0).contains(&judged.confidence), "{judged:?}");
    }
    let counts = classifier.counts();
    assert_eq!(counts.by_flow + counts.by_packet, all.len() as u64);
    all
}
