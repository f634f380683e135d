//! `wirelens.l4s`: the simulator, and what a latency model reads of a trace.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use l4s::history::{
    Follow, HistorySettings, Packet, QUERY_LEN, QUERY_NAMES, Rows, SentPacket, TOKEN_LEN,
    TOKEN_NAMES, replay, rows,
};
use l4s::predictor::Predictions;
use l4s::tuning::RecorderSettings;
use l4s::{Model, OfQueue, Predictor, Queue, TuningSettings};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict};
use session::predictor::of_onnx;
use simulator::{Predicting, Scenario, Writers};

use crate::onnx::host;
use crate::refusal::{Kind, Refusal};
use crate::world::environment;

/// Simulates a scenario; its summary as JSON. `tune_ns` is the time from one fine-tuning of the
/// model to the next.
#[pyfunction]
#[pyo3(signature = (scenario, *, trace = None, journal = None, model = None, tune_ns = None))]
pub(crate) fn simulate(
    py: Python<'_>,
    scenario: &str,
    trace: Option<PathBuf>,
    journal: Option<PathBuf>,
    model: Option<ModelFiles>,
    tune_ns: Option<u64>,
) -> PyResult<String> {
    let refused = |error| Refusal::new(Kind::Option, format_args!("scenario: {error}"));
    let scenario: Scenario = scenario.parse().map_err(refused)?;
    let tuning =
        tune_ns.map(|interval_ns| TuningSettings { interval_ns, ..TuningSettings::default() });
    let model = model.map(|files| files.read(py)).transpose()?.map(Arc::new);
    if tuning.is_some() && model.is_none() {
        return Err(Refusal::new(Kind::Option, "tune: no model; wanted: one to fine-tune").into());
    }
    let predicting = model.map(|model| Predicting { model, tuning });
    let paths = [trace.as_deref(), journal.as_deref()];
    Ok(py.detach(|| run(&scenario, paths, predicting))?)
}

fn run(
    scenario: &Scenario,
    [trace, journal]: [Option<&Path>; 2],
    predicting: Option<Predicting>,
) -> Result<String, Refusal> {
    let (mut trace, mut journal) = (create(trace)?, create(journal)?);
    let writers = Writers {
        trace: trace.as_mut().map(|file| file as &mut dyn Write),
        journal: journal.as_mut().map(|file| file as &mut dyn Write),
    };
    let summary = simulator::run(scenario, writers, predicting).map_err(|error| {
        // What is asked for that cannot be has its own kind among errors of writing.
        let is_asked = error.kind() == io::ErrorKind::InvalidInput;
        let (kind, place) =
            if is_asked { (Kind::Option, "scenario") } else { (Kind::Output, "trace") };
        Refusal::new(kind, format_args!("{place}: {error}"))
    })?;
    Ok(summary.to_json())
}

fn create(path: Option<&Path>) -> Result<Option<BufWriter<File>>, Refusal> {
    let Some(path) = path else { return Ok(None) };
    let refused =
        |error: io::Error| Refusal::new(Kind::Output, format_args!("{}: {error}", path.display()));
    Ok(Some(BufWriter::new(File::create(path).map_err(refused)?)))
}

/// The files of a model.
#[derive(FromPyObject)]
pub(crate) enum ModelFiles {
    /// A causal network.
    Causal(PyBackedBytes),
    /// What a network in ONNX says of itself, and the network.
    Onnx(PyBackedBytes, PyBackedBytes),
}

impl ModelFiles {
    fn read(self, py: Python<'_>) -> PyResult<Model> {
        let model = match self {
            Self::Causal(bytes) => Model::parse(&bytes),
            Self::Onnx(said, network) => {
                let host = host(py)?;
                py.detach(|| of_onnx(&said, network.to_vec(), &host, environment))
            }
        };
        let refused = |error| Refusal::new(Kind::Model, format_args!("model: {error}"));
        Ok(model.map_err(refused)?)
    }
}

/// Predicted latencies of a sender's packets by the L4S and by the classic queue, two 32-bit
/// numbers in ms for each: NaN before the first acknowledgement. `tune` is three numbers of
/// nanoseconds: packets that leave from the first on are recorded, and the model is fine-tuned each
/// time the second has passed, on those of the third before that.
#[pyfunction]
#[pyo3(signature = (model, packets, *, tune = None))]
pub(crate) fn predict_latencies<'py>(
    py: Python<'py>,
    model: ModelFiles,
    packets: &Bound<'py, PyBytes>,
    tune: Option<(u64, u64, u64)>,
) -> PyResult<Bound<'py, PyBytes>> {
    let model = model.read(py)?;
    let packets = packets_of(packets.as_bytes())?;
    let tuning = tune.map(|(from_ns, interval_ns, span_ns)| {
        let recorder = RecorderSettings { span_ns, ..RecorderSettings::default() };
        let is_blocking = true;
        let settings =
            TuningSettings { interval_ns, recorder, is_blocking, ..TuningSettings::default() };
        (from_ns, settings)
    });
    let found = py.detach(|| predicted(model, &packets, tuning))?;
    let ms = |ns: u64| (ns as f64 / 1e6) as f32;
    let both = |of: &Option<OfQueue<u64>>| {
        of.map_or([f32::NAN; 2], |of| [ms(of.l4s), ms(of.classic)]).map(f32::to_ne_bytes)
    };
    let memory: Vec<u8> = found.iter().flat_map(both).flatten().collect();
    Ok(PyBytes::new(py, &memory))
}

fn predicted(
    model: Model,
    packets: &[Packet],
    tuning: Option<(u64, TuningSettings)>,
) -> Result<Vec<Option<OfQueue<u64>>>, Refusal> {
    let settings = model.settings();
    let model = Arc::new(model);
    let predictor = || {
        Predictor::new(Arc::clone(&model), settings)
            .map_err(|error| Refusal::new(Kind::Model, format_args!("model: {error}")))
    };
    if let Some((_, settings)) = &tuning {
        // Tried on another, so that it is refused before packets are read.
        predictor()?
            .tune(*settings)
            .map_err(|error| Refusal::new(Kind::Option, format_args!("tune: {error}")))?;
    }
    let predictor = predictor()?;
    let predictions = Predictions { predictor, found: Vec::with_capacity(packets.len()) };
    let mut follower = Tuned { predictions, tuning };
    replay(packets, &mut follower)
        .map_err(|error| Refusal::new(Kind::Option, format_args!("packets: {error}")))?;
    Ok(follower.predictions.found)
}

/// Predictions by a model that is fine-tuned from an instant on.
struct Tuned {
    predictions: Predictions,
    /// None once it has begun.
    tuning: Option<(u64, TuningSettings)>,
}

impl Follow for Tuned {
    fn acknowledge(&mut self, number: u64, at_ns: u64, latency_ns: Option<u64>) {
        self.predictions.acknowledge(number, at_ns, latency_ns);
    }

    fn leave(&mut self, packet: &SentPacket, queue: Queue) -> u64 {
        if let Some((_, settings)) = self.tuning.take_if(|(from_ns, _)| packet.at_ns >= *from_ns) {
            // It was tried before.
            let _ = self.predictions.predictor.tune(settings);
        }
        self.predictions.leave(packet, queue)
    }
}

fn packets_of(bytes: &[u8]) -> Result<Vec<Packet>, Refusal> {
    let (packets, rest) = bytes.as_chunks::<PACKET_LEN>();
    if rest.is_empty() {
        return Ok(packets.iter().map(packet).collect());
    }
    let text = format!("packets: {} bytes after the last packet; wanted: 0", rest.len());
    Err(Refusal::new(Kind::Option, text))
}

/// Bytes of a packet: when it left, was acknowledged, its latency (64 bits each), then
/// flow, receiver, size and queue (32 bits each); little-endian.
const PACKET_LEN: usize = 40;

/// What a latency model reads of a sender's packets, each column as memory of 32-bit numbers.
#[pyfunction]
pub(crate) fn latency_rows<'py>(
    py: Python<'py>,
    packets: &Bound<'py, PyBytes>,
    batch_packets: u32,
    batch_span_ns: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let packets = packets_of(packets.as_bytes())?;
    let settings = HistorySettings { batch_packets, batch_span_ns, ..HistorySettings::default() };
    let found = py
        .detach(|| rows(&packets, settings))
        .map_err(|error| Refusal::new(Kind::Option, format_args!("packets: {error}")))?;
    let Rows { tokens, queries, known, base_ms, floor_ms, flow_last_ms, .. } = found;
    let floats = [
        ("tokens", tokens),
        ("queries", queries),
        ("base_ms", base_ms),
        ("floor_ms", floor_ms),
        ("flow_last_ms", flow_last_ms),
        ("queue_last_ms", found.queue_last_ms),
        ("little_ms", found.little_ms),
    ];
    let columns = PyDict::new(py);
    for (name, values) in floats {
        let memory: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        columns.set_item(name, PyBytes::new(py, &memory))?;
    }
    let memory: Vec<u8> = known.iter().flat_map(|value| value.to_ne_bytes()).collect();
    columns.set_item("known", PyBytes::new(py, &memory))?;
    Ok(columns)
}

/// Numbers of a token and of a query, and what they are.
#[pyfunction]
pub(crate) fn latency_numbers() -> (usize, Vec<&'static str>, usize, Vec<&'static str>) {
    (TOKEN_LEN, TOKEN_NAMES.to_vec(), QUERY_LEN, QUERY_NAMES.to_vec())
}

fn packet(bytes: &[u8; PACKET_LEN]) -> Packet {
    let (words, _) = bytes.as_chunks::<8>();
    let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
    let mut next = || words.next().unwrap_or_default();
    let known = |ns: u64| (ns != u64::MAX).then_some(ns);
    let (at_ns, acked_ns, latency_ns) = (next(), known(next()), known(next()));
    let (ends, rest) = (next(), next());
    let queue = if rest >> 32 == 0 { Queue::L4s } else { Queue::Classic };
    let [flow, receiver, size] = [ends as u32, (ends >> 32) as u32, rest as u32];
    Packet { leaving: SentPacket { at_ns, flow, receiver, size }, queue, acked_ns, latency_ns }
}
