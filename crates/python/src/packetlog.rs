//! `wirelens.packetlog`: snapshots of packets, as the packet log's classifier sees them.

pub(crate) mod judged;

use std::sync::Arc;

use engine::columns::{Field, Kind as Holds, Value};
use engine::run::Control;
use packet::{HashSeed, Record, Source as _};
use packetlog::features::{
    Column, CounterStore, FeatureOptions, Features, Key, Snapshots, schema_hash, schema_text,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use session::flows::RunTotals;
use session::reading::{InputRequest, Inputs, OpenSources, hash_seed};

pub(crate) use judged::{PacketForests, judgements};

use crate::options::{InputOptions, duration, refused, seed, within};
use crate::reader::{Ending, Outlet, Reader};
use crate::refusal::{Kind, Refusal};
use crate::rows::{RowsOut, known, read_each};

pub(crate) const ROWS: [Field; 5] = [
    Field::new("file", Holds::U32, "The capture, counted from 0."),
    Field::new("packet", Holds::U64, "The packet in its capture, counted from 0."),
    Field::new("time_ns", Holds::TimestampNs, "Its timestamp; missing if there is none.")
        .nullable(),
    Field::new("holds_flow", Holds::I8, "Whether there is flow state, 0 or 1."),
    Field::new("values", Holds::Bytes, "The values of the columns, 32-bit floats."),
];

/// How snapshots are made.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct SnapshotOptions {
    source: String,
    window: String,
    layers: i64,
    buckets: i64,
    keys: Vec<String>,
    idle_timeout: String,
    max_flows: i64,
    states: i64,
}

impl SnapshotOptions {
    fn asked(&self) -> PyResult<FeatureOptions> {
        let source = match self.source.as_str() {
            "sketch" => CounterStore::Sketch,
            "exact" => CounterStore::Exact,
            other => return Err(refused("source", other, "wanted sketch or exact").into()),
        };
        let key = |name: &String| {
            let wanted = "wanted flow, source or destination";
            Key::named(name).ok_or_else(|| refused("keys", name, wanted))
        };
        let options = FeatureOptions {
            source,
            window: if matches!(self.window.as_str(), "0" | "0s" | "") {
                packet::Span::default()
            } else {
                duration("window", &self.window)?
            },
            layers: within("layers", self.layers, 1, packetlog::features::LAYERS_MAX)?,
            buckets: within("buckets", self.buckets, 1, packetlog::features::BUCKETS_MAX)?,
            keys: self.keys.iter().map(key).collect::<Result<_, _>>()?,
            idle_timeout: duration("idle_timeout", &self.idle_timeout)?,
            flow_count_max: within("max_flows", self.max_flows, 1, packetlog::features::FLOWS_MAX)?,
            states: within("states", self.states, 0, packetlog::features::STATES_MAX)?,
        };
        options.check().map_err(|error| Refusal::new(Kind::Option, error))?;
        Ok(options)
    }
}

/// The columns of these names, all that there are where none is named.
fn columns_of(options: &FeatureOptions, names: Option<&[String]>) -> Result<Vec<Column>, Refusal> {
    let Some(names) = names else { return Ok(Column::all(options).collect()) };
    let column = |name: &String| {
        Column::named(name, options).ok_or_else(|| {
            let keys: Vec<_> = options.keys.iter().map(|key| key.name()).collect();
            let states = options.states;
            let cause = format!("no column that there is with the keys {keys:?}, states {states}");
            refused("columns", name, &cause)
        })
    };
    names.iter().map(column).collect()
}

/// Names of the columns that there are with these options.
#[pyfunction]
pub(crate) fn snapshot_columns(options: SnapshotOptions) -> PyResult<Vec<String>> {
    Ok(Column::all(&options.asked()?).map(|column| column.to_string()).collect())
}

/// These options as a model's file has them.
#[pyfunction]
pub(crate) fn snapshot_json<'py>(
    py: Python<'py>,
    options: SnapshotOptions,
) -> PyResult<Bound<'py, PyDict>> {
    json_of(py, &options.asked()?)
}

fn json_of<'py>(py: Python<'py>, options: &FeatureOptions) -> PyResult<Bound<'py, PyDict>> {
    let json = PyDict::new(py);
    json.set_item("source", options.source.name())?;
    json.set_item("window_ns", options.window.as_ns())?;
    json.set_item("layers", options.layers)?;
    json.set_item("buckets", options.buckets)?;
    json.set_item("keys", options.keys.iter().map(|key| key.name()).collect::<Vec<_>>())?;
    json.set_item("idle_timeout_ns", options.idle_timeout.as_ns())?;
    json.set_item("flow_count_max", options.flow_count_max)?;
    if options.states > 0 {
        json.set_item("states", options.states)?;
    }
    Ok(json)
}

/// Hash and text of the schema of snapshots with these columns.
#[pyfunction]
#[pyo3(signature = (options, columns = None))]
pub(crate) fn snapshot_schema(
    options: SnapshotOptions,
    columns: Option<Vec<String>>,
) -> PyResult<(String, String)> {
    let options = options.asked()?;
    let columns = columns_of(&options, columns.as_deref())?;
    Ok((schema_hash(&options, &columns), schema_text(&options, &columns)))
}

/// Starts taking snapshots, capture by capture; each capture has flows of its own.
#[pyfunction]
#[pyo3(signature = (inputs, options, columns, number))]
pub(crate) fn snapshots(
    py: Python<'_>,
    inputs: InputOptions,
    options: SnapshotOptions,
    columns: Option<Vec<String>>,
    number: Option<i128>,
) -> PyResult<Reader> {
    let options = options.asked()?;
    let columns = columns_of(&options, columns.as_deref())?;
    let asked = FeatureRequest { options, columns, seed: hash_seed(seed(number)?) };
    let inputs = inputs.request()?;
    Reader::start(py, &ROWS, move |control, outlet| read(&asked, &inputs, &control, outlet))
}

struct FeatureRequest {
    options: FeatureOptions,
    columns: Vec<Column>,
    seed: HashSeed,
}

fn read(
    asked: &FeatureRequest,
    inputs: &InputRequest,
    control: &Arc<Control>,
    outlet: &Outlet,
) -> Result<Ending, Refusal> {
    let mut rows =
        Rows { out: RowsOut::new(outlet, &ROWS), file: 0, packet: 0, values: Vec::new() };
    let ending = read_each(inputs, control, outlet, |file, one, opened| {
        (rows.file, rows.packet) = (file, 0);
        let features = Features::new(&asked.options, &asked.columns, asked.seed)
            .map_err(|error| Refusal::new(Kind::Option, error))?;
        rows.read(features, one, opened)
    })?;
    rows.out.finish()?;
    Ok(ending)
}

/// Rows on their way to Python.
struct Rows {
    out: RowsOut,
    file: u32,
    packet: u64,
    values: Vec<u8>,
}

impl Rows {
    /// Reads one capture.
    fn read(
        &mut self,
        mut features: Features,
        inputs: &Inputs,
        opened: OpenSources,
    ) -> Result<RunTotals, Refusal> {
        let mut source = inputs.in_order(opened);
        while !inputs.control.is_stopped() {
            let Some(batch) = source.next_batch() else { break };
            let mut pushed = Ok(());
            features.take(&batch, |records, snapshots| {
                if pushed.is_ok() {
                    pushed = self.push(records, &snapshots);
                }
            });
            pushed?;
        }
        let mut done = RunTotals { received: source.received(), ..RunTotals::default() };
        done.outcome.keyed = self.packet;
        (done.late, done.clock_steps) = features.late_and_steps();
        Ok(done)
    }

    fn push(&mut self, records: &[Record], snapshots: &Snapshots<'_>) -> Result<(), Refusal> {
        for (index, record) in records.iter().enumerate() {
            self.values.clear();
            self.values.extend(snapshots.row(index).flat_map(f32::to_ne_bytes));
            self.out.push(&[
                Value::U32(self.file),
                Value::U64(self.packet),
                known(record.timestamp),
                Value::I8(snapshots.holds_flow(index).into()),
                Value::Bytes(&self.values),
            ])?;
            self.packet += 1;
        }
        Ok(())
    }
}
