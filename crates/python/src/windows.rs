//! `wirelens.classify.windows`: flows in windows of time, and the columns of their rows.

use std::sync::Arc;

use engine::columns::{Field, Kind as Holds, Value};
use engine::run::Control;
use model::{Headers, Identity, WindowFeatures};
use packet::Timestamp;
use packet::community_id::CommunityId;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use session::reading::InputRequest;
use session::windows::{FlowWindow, WindowsRequest, compute};

use crate::batch::RowBatches;
use crate::first::{FeatureOptions, FirstOptions};
use crate::options::InputOptions;
use crate::reader::{Ending, Outlet, Reader};
use crate::refusal::{Kind, Refusal};
use crate::rows::{NumberBytes, RowsIn, RowsOut, known, read_each, text};

pub(crate) const ROWS: [Field; 13] = [
    Field::new("file", Holds::U32, "The capture, counted from 0."),
    text("community_id", "Community ID v1, seed 0."),
    text("protocol", "IP protocol."),
    text("src_ip", "Address of the source, which sent the flow's first packet."),
    Field::new("src_port", Holds::U16, "Its port; the message type for ICMP."),
    text("dst_ip", "The other address."),
    Field::new("dst_port", Holds::U16, "Its port; the counterpart's type or the code for ICMP."),
    Field::new("first_ns", Holds::TimestampNs, "Timestamp of the flow's first packet.").nullable(),
    Field::new("window_start_ns", Holds::TimestampNs, "Start of the window.").nullable(),
    Field::new("packets", Holds::U64, "Packets in the window, of both directions."),
    text("main", "Main direction: forward, from the source, or backward."),
    Field::new("records", Holds::Bytes, "Compact records of the window's first packets."),
    Field::new("numbers", Holds::Bytes, "The numbers, 64 bits each."),
];

fn features(options: &FeatureOptions, every_ns: i64) -> PyResult<WindowFeatures> {
    let asked = options.asked()?;
    if asked.identity != Identity::Kept {
        let text = "identity: masked; wanted: kept, as rows of windows have it";
        return Err(Refusal::new(Kind::Option, text).into());
    }
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
    let mut rows = Rows::new(&request.features, RowsOut::new(outlet, &ROWS));
    let ending = read_each(inputs, control, outlet, |file, one, opened| {
        rows.file = file;
        compute(request.clone(), one, opened, |window| rows.push(&window))
    })?;
    rows.out.finish()?;
    Ok(ending)
}

/// Rows on their way to Python.
struct Rows<'a> {
    features: &'a WindowFeatures,
    out: RowsOut,
    file: u32,
    numbers: NumberBytes,
}

impl<'a> Rows<'a> {
    fn new(features: &'a WindowFeatures, out: RowsOut) -> Self {
        Self { features, out, file: 0, numbers: NumberBytes::default() }
    }

    fn push(&mut self, window: &FlowWindow<'_>) -> Result<(), Refusal> {
        let FlowWindow { key, direction, first, packets } = window;
        let numbers = self.numbers.of(|values| packets.numbers(self.features, values));
        let (source, destination) = key.endpoints(*direction);
        let (community_id, protocol) = (CommunityId(*key), key.protocol());
        let is_forward = packets.main() == Some(*direction);
        self.out.push(&[
            Value::U32(self.file),
            Value::Text(&community_id),
            Value::Text(&protocol),
            Value::Address(source.address),
            Value::U16(source.port),
            Value::Address(destination.address),
            Value::U16(destination.port),
            known(*first),
            known(packets.window().unwrap_or(Timestamp::UNKNOWN)),
            Value::U64(packets.packet_count()),
            Value::Str(if is_forward { "forward" } else { "backward" }),
            Value::Bytes(packets.records(self.features)),
            Value::Bytes(numbers),
        ])
    }
}

/// Rows that were read, and what their columns are.
#[pyclass(frozen, module = "wirelens._wirelens")]
pub(crate) struct WindowRows {
    features: WindowFeatures,
    rows: RowsIn,
}

#[pymethods]
impl WindowRows {
    /// The rows that `windows` read with these features.
    #[new]
    fn new(rows: &RowBatches, options: FeatureOptions, every_ns: i64) -> PyResult<Self> {
        let rows = RowsIn::new(rows, &ROWS, "windows")?;
        Ok(Self { features: features(&options, every_ns)?, rows })
    }

    /// Names of the columns that are keys.
    #[getter]
    fn keys(&self) -> Vec<&'static str> {
        self.rows.keys()
    }

    /// Records of the window's first packets, zeros where there are fewer.
    fn records<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.rows.padded_records(py, self.features.first().records_len())
    }

    /// The numbers of each row, 64 bits each.
    fn numbers<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let all = || self.rows.numbers().collect::<Vec<_>>().concat();
        let bytes = py.detach(all);
        PyBytes::new(py, &bytes)
    }

    /// Bits of each row by name, 8 bits each: −1, 0 or 1.
    fn bits<'py>(&self, py: Python<'py>, columns: Vec<String>) -> PyResult<Bound<'py, PyBytes>> {
        self.rows.bits(py, self.features.first(), &columns)
    }
}
