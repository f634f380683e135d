//! `wirelens.classify.windows`: flows in windows of time, and the columns of their rows.

use std::sync::Arc;

use arrow_array::RecordBatch;
use cli::reading::{InputRequest, Inputs, Opened};
use cli::summary;
use cli::windows::{FlowWindow, WindowsRequest, compute};
use engine::columns::{Columns, Field, Kind as Holds, Value};
use engine::run::Control;
use model::first::BitColumns;
use model::{Headers, WindowFeatures};
use packet::Timestamp;
use packet::community_id::CommunityId;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::batch::Collected;
use crate::first::{FeatureOptions, FirstOptions, Merged, binary};
use crate::handed::Handed;
use crate::options::InputOptions;
use crate::reader::{Ending, Outlet, Reader};
use crate::refusal::{Kind, Refusal};

/// Rows gathered before they are handed on, and in a batch at most.
const PIECE_ROWS: usize = 1 << 10;
const BATCH_ROWS: usize = 1 << 16;

const fn text(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Holds::Text, about)
}

/// Where the columns begin that are no keys.
const KEY_COUNT: usize = 11;
const ROWS: [Field; KEY_COUNT + 2] = [
    Field::new("file", Holds::U32, "The capture, counted from 0."),
    text("src", "Address of the source, which sent the flow's first packet."),
    text("dst", "The other address."),
    Field::new("src_port", Holds::U16, "Port of the source; the message type for ICMP."),
    Field::new(
        "dst_port",
        Holds::U16,
        "The other port; for ICMP the counterpart's type, or the code.",
    ),
    text("protocol", "IP protocol."),
    text("community_id", "Community ID v1, seed 0."),
    Field::new("first_ns", Holds::TimestampNs, "Stamp of the flow's first packet.").nullable(),
    Field::new("window_ns", Holds::TimestampNs, "Start of the window.").nullable(),
    Field::new("packets", Holds::U64, "Packets in the window, of both sides."),
    text("main", "Which way is the main one: forward, from the source, or backward."),
    Field::new("records", Holds::Bytes, "Compact records of the window's first packets."),
    Field::new("numbers", Holds::Bytes, "The numbers, 64 bits each."),
];

fn features(options: &FeatureOptions, every_ns: i64) -> PyResult<WindowFeatures> {
    let asked = options.asked()?;
    let every = packet::Span::from_ns(every_ns);
    WindowFeatures::new(
        every,
        asked.headers,
        &asked.blocks,
        asked.payload_bytes,
        asked.packets,
        asked.numbers,
    )
    .map_err(|error| Refusal::new(Kind::Option, error).into())
}

/// Hash and text of the schema of such features.
#[pyfunction]
pub(crate) fn window_schema(options: FeatureOptions, every_ns: i64) -> PyResult<(String, String)> {
    let schema = features(&options, every_ns)?.schema();
    Ok((schema.hash(), schema.text()))
}

/// Starts following flows from window to window, capture by capture; each capture has flows of its
/// own.
#[pyfunction]
pub(crate) fn windows(
    py: Python<'_>,
    inputs: InputOptions,
    asked: FeatureOptions,
    every_ns: i64,
    options: FirstOptions,
) -> PyResult<Reader> {
    let (options, seed) = options.asked()?;
    let request = WindowsRequest { options, seed, features: features(&asked, every_ns)? };
    let decapsulate = request.features.first().headers() == Headers::Innermost;
    let inputs = InputRequest { decapsulate, ..inputs.request()? };
    Reader::start(py, &ROWS, move |control, outlet| read(&request, &inputs, &control, outlet))
}

fn read(
    request: &WindowsRequest,
    inputs: &InputRequest,
    control: &Arc<Control>,
    outlet: &Outlet,
) -> Result<Ending, Refusal> {
    let all = Inputs::find(inputs, true, Arc::clone(control))?;
    let mut rows = Rows::new(&request.features, Handed::new(outlet, &ROWS, BATCH_ROWS));
    let mut whole = Merged::default();
    for (file, name) in inputs.names.iter().enumerate() {
        let one = InputRequest { names: vec![name.clone()], ..inputs.clone() };
        let one = Inputs::find(&one, true, Arc::clone(control))?;
        let opened = Opened::Files(one.open()?);
        if file == 0 {
            outlet.opened()?;
        }
        rows.file = u32::try_from(file).unwrap_or(u32::MAX);
        whole.add(compute(request.clone(), &one, opened, |window| rows.push(&window))?)?;
        if control.is_stopped() {
            break;
        }
    }
    rows.finish()?;
    let whole = whole.0;
    let summary = summary::lines(&all, &whole.received, Some(&whole.stage())) + &whole.lines();
    Ok(Ending {
        received: whole.received,
        outcome: Some(whole.outcome),
        others: vec![("late", whole.late), ("clock_steps", whole.clock_steps)],
        ended: Some(whole.counts),
        summary,
    })
}

/// Rows on their way to Python.
struct Rows<'a> {
    features: &'a WindowFeatures,
    columns: Columns,
    handed: Handed<'a>,
    file: u32,
    values: Vec<f64>,
    numbers: Vec<u8>,
}

impl<'a> Rows<'a> {
    fn new(features: &'a WindowFeatures, handed: Handed<'a>) -> Self {
        let columns = Columns::new(&ROWS);
        Self { features, columns, handed, file: 0, values: Vec::new(), numbers: Vec::new() }
    }

    fn push(&mut self, window: &FlowWindow<'_>) -> Result<(), Refusal> {
        let FlowWindow { key, direction, first, packets } = window;
        self.values.clear();
        packets.numbers(self.features, &mut self.values);
        self.numbers.clear();
        self.numbers.extend(self.values.iter().flat_map(|number| number.to_ne_bytes()));
        let (source, destination) = key.endpoints(*direction);
        let (community_id, protocol) = (CommunityId(*key), key.protocol());
        let known = |time: Timestamp| {
            (time != Timestamp::UNKNOWN).then(|| Value::TimestampNs(time.as_ns())).into()
        };
        let is_forward = packets.main() == Some(*direction);
        self.columns.push_row(&[
            Value::U32(self.file),
            Value::Address(source.address),
            Value::Address(destination.address),
            Value::U16(source.port),
            Value::U16(destination.port),
            Value::Text(&protocol),
            Value::Text(&community_id),
            known(*first),
            known(packets.window().unwrap_or(Timestamp::UNKNOWN)),
            Value::U64(packets.packet_count()),
            Value::Str(if is_forward { "forward" } else { "backward" }),
            Value::Bytes(packets.records(self.features)),
            Value::Bytes(&self.numbers),
        ])?;
        if self.columns.row_count() >= PIECE_ROWS { self.hand_over() } else { Ok(()) }
    }

    fn hand_over(&mut self) -> Result<(), Refusal> {
        self.handed.push(&self.columns)?;
        self.columns.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<(), Refusal> {
        self.hand_over()?;
        self.handed.finish()
    }
}

/// Rows that were read, and what their columns are.
#[pyclass(frozen, module = "wirelens._wirelens")]
pub(crate) struct WindowRows {
    features: WindowFeatures,
    batches: Vec<RecordBatch>,
}

impl WindowRows {
    fn len(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

#[pymethods]
impl WindowRows {
    /// The rows that `windows` read with these features.
    #[new]
    fn new(rows: &Collected, options: FeatureOptions, every_ns: i64) -> PyResult<Self> {
        if !rows.is_of(&ROWS) {
            let text = "rows that are none of windows; please report this";
            return Err(Refusal::new(Kind::Internal, text).into());
        }
        let features = features(&options, every_ns)?;
        Ok(Self { features, batches: rows.record_batches().to_vec() })
    }

    /// Names of the columns that are keys.
    #[getter]
    fn keys(&self) -> Vec<&'static str> {
        ROWS.iter().take(KEY_COUNT).map(|field| field.name).collect()
    }

    /// Records of the window's first packets, zeros where there are fewer.
    fn records<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let row_len = self.features.first().records_len();
        let bytes = py.detach(|| {
            let mut bytes = vec![0; row_len * self.len()];
            let records = binary(&self.batches, KEY_COUNT);
            for (row, records) in bytes.chunks_exact_mut(row_len.max(1)).zip(records) {
                row.iter_mut().zip(records).for_each(|(to, &from)| *to = from);
            }
            bytes
        });
        PyBytes::new(py, &bytes)
    }

    /// The numbers of each row, 64 bits each.
    fn numbers<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let all = || binary(&self.batches, KEY_COUNT + 1).collect::<Vec<_>>().concat();
        let bytes = py.detach(all);
        PyBytes::new(py, &bytes)
    }

    /// Bits of each row by name, 8 bits each: −1, 0 or 1.
    fn bits<'py>(&self, py: Python<'py>, columns: Vec<String>) -> PyResult<Bound<'py, PyBytes>> {
        let refused = |error| Refusal::new(Kind::Option, error);
        let columns = BitColumns::new(self.features.first(), &columns).map_err(refused)?;
        let values = py.detach(|| {
            let mut values = vec![0; columns.len() * self.len()];
            let rows = values.chunks_exact_mut(columns.len().max(1));
            for (row, records) in rows.zip(binary(&self.batches, KEY_COUNT)) {
                columns.put(records, row);
            }
            values.into_iter().map(i8::cast_unsigned).collect::<Vec<_>>()
        });
        Ok(PyBytes::new(py, &values))
    }
}
