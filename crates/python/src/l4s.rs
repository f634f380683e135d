//! `wirelens.l4s`: the simulator, and what a latency model reads of a trace.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use dualq::Queue;
use l4s::history::{
    HistorySettings, Leaving, Packet, QUERY_LEN, QUERY_NAMES, Rows, TOKEN_LEN, TOKEN_NAMES, rows,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use simulator::{Scenario, Writers};

use crate::refusal::{Kind, Refusal};

/// Simulates a scenario; its summary as JSON.
#[pyfunction]
#[pyo3(signature = (scenario, *, trace = None, journal = None))]
pub(crate) fn simulate(
    py: Python<'_>,
    scenario: &str,
    trace: Option<PathBuf>,
    journal: Option<PathBuf>,
) -> PyResult<String> {
    let refused = |error| Refusal::new(Kind::Option, format_args!("scenario: {error}"));
    let scenario: Scenario = scenario.parse().map_err(refused)?;
    let summary = py.detach(|| run(&scenario, trace.as_deref(), journal.as_deref()))?;
    Ok(summary)
}

fn run(
    scenario: &Scenario,
    trace: Option<&Path>,
    journal: Option<&Path>,
) -> Result<String, Refusal> {
    let (mut trace, mut journal) = (create(trace)?, create(journal)?);
    let writers = Writers {
        trace: trace.as_mut().map(|file| file as &mut dyn Write),
        journal: journal.as_mut().map(|file| file as &mut dyn Write),
    };
    let summary = simulator::run(scenario, writers)
        .map_err(|error| Refusal::new(Kind::Output, format_args!("trace: {error}")))?;
    Ok(summary.to_json())
}

fn create(path: Option<&Path>) -> Result<Option<BufWriter<File>>, Refusal> {
    let Some(path) = path else { return Ok(None) };
    let refused =
        |error: io::Error| Refusal::new(Kind::Output, format_args!("{}: {error}", path.display()));
    Ok(Some(BufWriter::new(File::create(path).map_err(refused)?)))
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
    let (packets, rest) = packets.as_bytes().as_chunks::<PACKET_LEN>();
    if !rest.is_empty() {
        let text = format!("packets: {} bytes after the last packet; wanted: 0", rest.len());
        return Err(Refusal::new(Kind::Option, text).into());
    }
    let packets: Vec<Packet> = packets.iter().map(packet).collect();
    let settings = HistorySettings { batch_packets, batch_span_ns, ..HistorySettings::default() };
    let found = py
        .detach(|| rows(&packets, settings))
        .map_err(|error| Refusal::new(Kind::Option, format_args!("packets: {error}")))?;
    let Rows { tokens, queries, known, base_ms, floor_ms, flow_last_ms, queue_last_ms } = found;
    let floats = [
        ("tokens", tokens),
        ("queries", queries),
        ("base_ms", base_ms),
        ("floor_ms", floor_ms),
        ("flow_last_ms", flow_last_ms),
        ("queue_last_ms", queue_last_ms),
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
    Packet { leaving: Leaving { at_ns, flow, receiver, size }, queue, acked_ns, latency_ns }
}
