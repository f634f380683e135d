use safetensors::Dtype;
use safetensors::tensor::{TensorView, serialize};

use super::*;
use crate::history::{Packet, QUERY_NAMES, TOKEN_NAMES, replay};

pub(crate) const MS: u64 = 1_000_000;
const WIDTH: usize = 8;
/// Of the newest delay of the L4S queue, and of packets of the flow in flight.
const BINS: [f32; 6] = [13.0, 0.25, 0.5, 23.0, 0.0, 1.0];

/// Metadata of a small model.
fn said() -> serde_json::Value {
    serde_json::json!({
        "format": FORMAT, "window": 16, "heads": 2, "layers": 1, "width": WIDTH, "hidden": 8,
        "batch_packets": 4, "batch_span_ns": 2 * MS, "token": TOKEN_NAMES, "query": QUERY_NAMES,
    })
}

/// The file of a small model; `fill` makes the numbers of a tensor.
fn file(said: &serde_json::Value, fill: impl Fn(&str, usize) -> f32) -> Vec<u8> {
    file_with(&BINS, said, fill)
}

/// The same with other bins.
fn file_with(
    bins: &[f32; 6],
    said: &serde_json::Value,
    fill: impl Fn(&str, usize) -> f32,
) -> Vec<u8> {
    let layers = [
        ("self_attn.in_proj_weight", vec![3 * WIDTH, WIDTH]),
        ("self_attn.in_proj_bias", vec![3 * WIDTH]),
        ("self_attn.out_proj.weight", vec![WIDTH, WIDTH]),
        ("self_attn.out_proj.bias", vec![WIDTH]),
        ("linear1.weight", vec![8, WIDTH]),
        ("linear1.bias", vec![8]),
        ("linear2.weight", vec![WIDTH, 8]),
        ("linear2.bias", vec![WIDTH]),
        ("norm1.weight", vec![WIDTH]),
        ("norm1.bias", vec![WIDTH]),
        ("norm2.weight", vec![WIDTH]),
        ("norm2.bias", vec![WIDTH]),
    ];
    let layers = layers.map(|(name, shape)| (format!("layers.0.{name}"), shape));
    let others = [
        ("input.weight", vec![WIDTH, TOKEN_LEN]),
        ("input.bias", vec![WIDTH]),
        ("head.0.weight", vec![6, WIDTH + QUERY_LEN + BINS.len() / 3]),
        ("head.0.bias", vec![6]),
        ("head.1.weight", vec![1, 6]),
        ("head.1.bias", vec![1]),
        ("head.bins", vec![BINS.len() / 3, 3]),
    ];
    let others = others.map(|(name, shape)| (name.to_owned(), shape));
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = layers
        .into_iter()
        .chain(others)
        .map(|(name, shape)| {
            let len: usize = shape.iter().product();
            let number = |at| if name == "head.bins" { bins[at] } else { fill(&name, at) };
            let bytes = (0..len).flat_map(|at| number(at).to_le_bytes()).collect();
            (name, shape, bytes)
        })
        .collect();
    let views = tensors.iter().map(|(name, shape, bytes)| {
        (name.as_str(), TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap())
    });
    let metadata = [(String::from("wirelens"), said.to_string())].into_iter().collect();
    serialize(views, Some(metadata)).unwrap()
}

/// A model that adds this many ms to the newest latency, whatever it sees.
pub(crate) fn constant(ms: f32) -> Model {
    let fill = |name: &str, _| if name == "head.1.bias" { ms / 100.0 } else { 0.0 };
    Model::parse(&file(&said(), fill)).unwrap()
}

/// The same without any addition, for paths of these lowest latencies.
pub(crate) fn trained_on(floor_ns: [u64; 2]) -> Model {
    let mut said = said();
    said["floor_ns"] = floor_ns.into();
    Model::parse(&file(&said, |_, _| 0.0)).unwrap()
}

/// A model of random weights.
pub(crate) fn drawn() -> Model {
    let fill = |name: &str, at: usize| {
        let mixed = name.bytes().fold(at as u64 + 1, |mixed, byte| {
            (mixed ^ u64::from(byte)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23)
        });
        (mixed >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    Model::parse(&file(&said(), fill)).unwrap()
}

fn predict(model: Model, packets: &[Packet]) -> Vec<Option<OfQueue<u64>>> {
    let settings = model.settings();
    let predictor = Predictor::new(Arc::new(model), settings).unwrap();
    let mut follower = Predictions { predictor, found: Vec::new() };
    replay(packets, &mut follower).unwrap();
    follower.found
}

fn packets(latency_ns: impl Fn(u64) -> u64) -> Vec<Packet> {
    let packet = |at: u64| {
        let at_ns = at * MS / 2;
        let latency_ns = latency_ns(at);
        Packet {
            leaving: SentPacket { at_ns, flow: (at % 3) as u32, receiver: 0, size: 1_500 },
            queue: if at.is_multiple_of(5) { Queue::Classic } else { Queue::L4s },
            acked_ns: Some(at_ns + latency_ns),
            latency_ns: Some(latency_ns),
        }
    };
    (0..400).map(packet).collect()
}

#[test]
fn a_prediction_is_the_newest_latency_and_what_the_network_adds() {
    let found = predict(constant(3.0), &packets(|_| 40 * MS));
    assert_eq!(found[0], None);
    let last = found.last().unwrap().unwrap();
    assert_eq!((last.l4s, last.classic), (43 * MS, 43 * MS));
    let found = predict(constant(-300.0), &packets(|_| 40 * MS));
    assert_eq!(found.last().unwrap().unwrap().l4s, 0, "no latency is below 0");
}

/// Later latencies may be others; what was predicted before they were known does not move.
#[test]
fn no_prediction_depends_on_a_later_acknowledgement() {
    let changed_from = 200;
    let plain = predict(drawn(), &packets(|at| (40 + at % 7) * MS));
    let latency_ns = |at| if at < changed_from { (40 + at % 7) * MS } else { (60 + at % 11) * MS };
    let other = predict(drawn(), &packets(latency_ns));
    // Packet 200 leaves at 100 ms and is acknowledged 40 ms later at the earliest: packet 280.
    assert_eq!(plain[..280], other[..280]);
    assert_ne!(plain[290..], other[290..]);
}

#[test]
fn another_model_takes_over_without_a_pause() {
    let model = drawn();
    let settings = model.settings();
    let mut predictor = Predictor::new(Arc::new(model.clone()), settings).unwrap();
    let packet = |at_ns| SentPacket { at_ns, flow: 0, receiver: 0, size: 1_500 };
    predictor.predict(&packet(0));
    let number = predictor.leave(&packet(0), Queue::L4s);
    predictor.acknowledge(number, 40 * MS, Some(40 * MS));
    let before = predictor.predict(&packet(50 * MS)).unwrap();
    predictor.exchange(Arc::new(model.with_head(constant(7.0).head().unwrap().clone()))).unwrap();
    let after = predictor.predict(&packet(50 * MS)).unwrap();
    assert_ne!(before.l4s, after.l4s);
    assert_eq!(after.l4s, 47 * MS);
}

/// Scores by how many tokens it is given, and by the queue that is asked about.
#[derive(Debug)]
struct Counting;

impl ExternalNetwork for Counting {
    fn open(&self) -> Result<Box<dyn Score>, ModelError> {
        Ok(Box::new(Self))
    }
}

impl Score for Counting {
    fn score(
        &mut self,
        tokens: &[f32],
        queries: &[f32],
        scores: &mut [f32],
    ) -> Result<(), ModelError> {
        let count = tokens.len() / TOKEN_LEN;
        assert!((1..=16).contains(&count) && tokens.len().is_multiple_of(TOKEN_LEN));
        for (score, query) in scores.iter_mut().zip(queries.chunks(QUERY_LEN)) {
            // Parts of two, so that nothing is rounded.
            *score = count as f32 / 128.0 + query[0] / 1_024.0;
        }
        Ok(())
    }
}

/// Fails on each packet.
#[derive(Debug)]
struct Failing;

impl ExternalNetwork for Failing {
    fn open(&self) -> Result<Box<dyn Score>, ModelError> {
        Ok(Box::new(Self))
    }
}

impl Score for Failing {
    fn score(&mut self, _: &[f32], _: &[f32], _: &mut [f32]) -> Result<(), ModelError> {
        Err(ModelError::new("no memory"))
    }
}

fn lent(format: &str) -> Result<Model, ModelError> {
    lent_of(format, Arc::new(Counting))
}

fn lent_of(format: &str, network: Arc<dyn ExternalNetwork>) -> Result<Model, ModelError> {
    let said = serde_json::json!({
        "format": format, "network": "full", "window": 16, "batch_packets": 4,
        "batch_span_ns": 2 * MS, "token": TOKEN_NAMES, "query": QUERY_NAMES,
    });
    Model::lent(said.to_string().as_bytes(), |window| {
        assert_eq!(window, 16);
        Ok(network)
    })
}

#[test]
fn a_lent_network_is_given_the_newest_tokens_of_its_window() {
    let found = predict(lent(FORMAT_ONNX).unwrap(), &packets(|_| 40 * MS));
    assert_eq!(found[0], None);
    let first = found.iter().flatten().next().unwrap();
    assert!((40 * MS..52 * MS).contains(&first.l4s), "{first:?}");
    let last = found.last().unwrap().unwrap();
    assert_eq!((last.l4s, last.classic), (52_597_656, 52_402_344));
}

#[test]
fn packets_that_a_network_failed_on_are_counted_with_the_first_cause() {
    let model = lent_of(FORMAT_ONNX, Arc::new(Failing)).unwrap();
    let settings = model.settings();
    let mut predictor = Predictor::new(Arc::new(model), settings).unwrap();
    let packet = |at_ns| SentPacket { at_ns, flow: 0, receiver: 0, size: 1_500 };
    for at in 0..3 {
        assert_eq!(predictor.predict(&packet(at * 10 * MS)), None);
        let number = predictor.leave(&packet(at * 10 * MS), Queue::L4s);
        predictor.acknowledge(number, (at * 10 + 5) * MS, Some(5 * MS));
    }
    let failed = predictor.failed().unwrap();
    // Of the first nothing was known, so that the network was not asked.
    assert_eq!((failed.packets, failed.first.to_string().as_str()), (2, "no memory"));
}

#[test]
fn a_lent_network_is_not_tuned_and_may_take_turns_with_others() {
    let model = Arc::new(lent(FORMAT_ONNX).unwrap());
    let settings = model.settings();
    let mut predictor = Predictor::new(Arc::clone(&model), settings).unwrap();
    let refused = predictor.tune(TuningSettings::default()).unwrap_err().to_string();
    assert!(refused.starts_with("a model in ONNX cannot be fine-tuned; wanted"), "{refused}");
    let packet = |at_ns| SentPacket { at_ns, flow: 0, receiver: 0, size: 1_500 };
    for at in 0..20 {
        predictor.predict(&packet(at * 10 * MS));
        let number = predictor.leave(&packet(at * 10 * MS), Queue::L4s);
        predictor.acknowledge(number, (at * 10 + 5) * MS, Some(5 * MS));
    }
    assert_eq!(predictor.predict(&packet(200 * MS)).unwrap().classic, 17_402_344);
    predictor.exchange(Arc::new(constant(3.0))).unwrap();
    predictor.tune(TuningSettings::default()).unwrap();
    assert_eq!(predictor.predict(&packet(201 * MS)).unwrap().classic, 8 * MS);
    predictor.exchange(model).unwrap();
    assert!(predictor.tuner().is_none());
    assert_eq!(predictor.predict(&packet(202 * MS)), None, "its tokens begin anew");
    let error = lent("wirelens-l4s 1").unwrap_err().to_string();
    assert_eq!(error, "format \"wirelens-l4s 1\"; wanted: \"wirelens-l4s-onnx 1\"");
}

#[test]
fn files_that_are_no_models_are_refused_with_what_was_seen() {
    let refused =
        |said: &serde_json::Value| Model::parse(&file(said, |_, _| 0.1)).unwrap_err().to_string();
    let with = |key: &str, value: serde_json::Value| {
        let mut said = said();
        said[key] = value;
        said
    };
    assert!(Model::parse(b"no").unwrap_err().to_string().contains("wanted: a model of"));
    // What a library quotes of a file is in one line, and does nothing to a terminal.
    let header = br#"{"a":{"dtype":"F\n\u001b[2J3","shape":[1],"data_offsets":[0,4]}}"#;
    let mut quoted = (header.len() as u64).to_le_bytes().to_vec();
    quoted.extend(header.iter().chain(&[0; 4]));
    let error = Model::parse(&quoted).unwrap_err().to_string();
    assert!(error.contains("F  [2J3") && !error.contains(char::is_control), "{error:?}");
    for (key, value, text) in [
        ("format", "other 1".into(), "format \"other 1\"; wanted: \"wirelens-l4s 1\""),
        ("window", 0.into(), "window 0; wanted: 1 to"),
        ("batch_packets", 0.into(), "batch_packets 0; wanted: 1 or more"),
        ("floor_ns", vec![2, 1].into(), "floor_ns 2 to 1; wanted: the lowest first"),
        ("width", 16.into(), "wanted"),
        ("heads", 3.into(), "wanted"),
        ("token", serde_json::json!(["size"]), "token: made for other inputs"),
        ("query", serde_json::json!([]), "query: made for other inputs"),
        ("window", "x".into(), "wanted: a model of"),
    ] {
        let error = refused(&with(key, value));
        assert!(error.contains(text), "{key}: {error}");
    }
    for (at, number, text) in [
        (0, 34.0, "head.bins: bin 0 is about number 34 of a query; wanted: one of 34"),
        (2, 0.25, "head.bins: bin 0 is from 0.25 to 0.25; wanted: finite numbers, the second"),
        (4, f32::NAN, "head.bins: bin 1 is from NaN to 1; wanted"),
    ] {
        let mut bins = BINS;
        bins[at] = number;
        let error = Model::parse(&file_with(&bins, &said(), |_, _| 0.1)).unwrap_err().to_string();
        assert!(error.starts_with(text), "{error}");
    }
    let infinite = file(&said(), |_, _| f32::INFINITY);
    assert!(Model::parse(&infinite).is_err());
    let whole = file(&said(), |_, _| 0.1);
    for len in (0..whole.len()).step_by(997) {
        assert!(Model::parse(&whole[..len]).is_err(), "{len} bytes");
    }
}
