//! `wirelens.classify.features`: flows with their first packets, and the columns of their rows.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use engine::columns::{Field, Kind as Holds, Value};
use engine::flow::{EndedFlow, FlowOptions, FlowPacket, FlowSlot, FlowState, FromFrames};
use engine::run::Control;
use model::first::SeenBits;
use model::{Block, FirstPackets, FlowFeatures, Headers, Identity};
use packet::community_id::CommunityId;
use packet::{Frame, HashSeed, LinkType};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use session::KEY_COUNTS;
use session::first::FlowsRequest;
use session::first::compute;
use session::reading::{InputRequest, Inputs, hash_seed};

use crate::batch::RowBatches;
use crate::options::{InputOptions, duration, seed, within};
use crate::reader::{Ending, Outlet, Reader};
use crate::refusal::{Kind, Refusal};
use crate::rows::{NumberBytes, RowsIn, RowsOut, known, read_each, text};
use crate::trees::blocks_named;

const fn count(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Holds::U64, about)
}

const fn stamp(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Holds::TimestampNs, about).nullable()
}

pub(crate) const ROWS: [Field; 17] = [
    Field::new("file", Holds::U32, "The capture, counted from 0."),
    text("community_id", "Community ID v1, seed 0."),
    text("protocol", "IP protocol."),
    text("src_ip", "Address of the source, which sent the first packet."),
    Field::new("src_port", Holds::U16, "Its port; the message type for ICMP."),
    text("dst_ip", "The other address."),
    Field::new("dst_port", Holds::U16, "Its port; the counterpart's type or the code for ICMP."),
    text("src_mac", "Ethernet source of the first packet.").nullable(),
    text("dst_mac", "Ethernet destination of the first packet.").nullable(),
    stamp("first_ns", "Earliest timestamp; missing if the capture has none."),
    stamp("last_ns", "Latest timestamp; missing if the capture has none."),
    count("packets", "Packets of both directions, including those after the ones kept."),
    count("bytes", "Their bytes on the wire, link header included."),
    count("long_packets", "Of those kept, packets above 1,500 bytes or known to be merged."),
    text("end_reason", "How it ended: idle, active, fin, rst, emergency, evicted or end."),
    Field::new("records", Holds::Bytes, "Compact records of the first packets."),
    Field::new("numbers", Holds::Bytes, "The numbers, 64 bits each."),
];

/// What of each flow is asked for.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct FeatureOptions {
    headers: String,
    blocks: Vec<String>,
    payload_bytes: i64,
    packets: i64,
    numbers: Vec<String>,
    identity: String,
}

/// When a flow ends.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct FirstOptions {
    idle_timeout: String,
    active_timeout: String,
    max_flows: i64,
    seed: Option<i128>,
}

/// What of each flow is asked for, in types.
pub(crate) struct FirstPacketsRequest<'a> {
    pub(crate) headers: Headers,
    pub(crate) blocks: Vec<Block>,
    pub(crate) payload_bytes: u16,
    pub(crate) packets: usize,
    pub(crate) numbers: &'a [String],
    pub(crate) identity: Identity,
}

/// Whether features may tell units, by name.
pub(crate) fn identity_named(name: &str) -> PyResult<Identity> {
    Identity::named(name).ok_or_else(|| {
        Refusal::new(Kind::Option, format_args!("identity: {name:?}; wanted: kept or masked"))
            .into()
    })
}

impl FeatureOptions {
    pub(crate) fn asked(&self) -> PyResult<FirstPacketsRequest<'_>> {
        let headers = match self.headers.as_str() {
            "innermost" => Headers::Innermost,
            "outermost" => Headers::Outermost,
            other => {
                let text = format_args!("headers: {other:?}; wanted: innermost or outermost");
                return Err(Refusal::new(Kind::Option, text).into());
            }
        };
        let blocks = blocks_named(&self.blocks)?;
        let payload_bytes = within("payload_bytes", self.payload_bytes, 0, u16::MAX.into())?;
        let packets = within("packets", self.packets, 0, usize::MAX)?;
        let payload_bytes = u16::try_from(payload_bytes).unwrap_or(u16::MAX);
        let identity = identity_named(&self.identity)?;
        Ok(FirstPacketsRequest {
            headers,
            blocks,
            payload_bytes,
            packets,
            numbers: &self.numbers,
            identity,
        })
    }

    pub(crate) fn features(&self) -> PyResult<FlowFeatures> {
        let FirstPacketsRequest { headers, blocks, payload_bytes, packets, numbers, identity } =
            self.asked()?;
        FlowFeatures::new(headers, &blocks, payload_bytes, packets, numbers)
            .map(|features| features.with_identity(identity))
            .map_err(|error| Refusal::new(Kind::Option, error).into())
    }
}

impl FirstOptions {
    pub(crate) fn asked(&self) -> PyResult<(FlowOptions, HashSeed)> {
        let (least, most) = KEY_COUNTS.into_inner();
        let options = FlowOptions {
            idle_timeout: duration("idle_timeout", &self.idle_timeout)?,
            active_timeout: duration("active_timeout", &self.active_timeout)?,
            flow_count_max: within("max_flows", self.max_flows, least, most)?,
            ..FlowOptions::default()
        };
        Ok((options, hash_seed(seed(self.seed)?)))
    }
}

/// Hash and text of the schema of such features.
#[pyfunction]
pub(crate) fn flow_schema(features: FeatureOptions) -> PyResult<(String, String)> {
    let schema = features.features()?.schema();
    Ok((schema.hash(), schema.text()))
}

/// The captures that these names come to, folders looked through; and why others in folders are
/// left out, a line each.
#[pyfunction]
pub(crate) fn found_captures(
    py: Python<'_>,
    names: Vec<PathBuf>,
) -> PyResult<(Vec<PathBuf>, Vec<String>)> {
    let found = py.detach(|| {
        let request = InputRequest { names, ..InputRequest::default() };
        Inputs::find(&request, true, Arc::default())
    });
    let resolved = found.map_err(Refusal::from)?.resolved;
    let path = |input| match input {
        capture::Input::Stdin => PathBuf::from("-"),
        capture::Input::File(path) => path,
    };
    Ok((resolved.inputs.into_iter().map(path).collect(), resolved.refused))
}

/// Starts following flows, capture by capture; each capture has flows of its own.
#[pyfunction]
pub(crate) fn first_packets(
    py: Python<'_>,
    inputs: InputOptions,
    features: FeatureOptions,
    options: FirstOptions,
) -> PyResult<Reader> {
    let (options, seed) = options.asked()?;
    let request = FlowsRequest { options, seed };
    let features = features.features()?;
    let decapsulate = features.headers() == Headers::Innermost;
    let inputs = InputRequest { decapsulate, ..inputs.request()? };
    Reader::start(py, &ROWS, move |control, outlet| {
        read(request, &features, &inputs, &control, outlet)
    })
}

fn read(
    request: FlowsRequest,
    features: &FlowFeatures,
    inputs: &InputRequest,
    control: &Arc<Control>,
    outlet: &Outlet,
) -> Result<Ending, Refusal> {
    let mut rows = Rows::new(features, RowsOut::new(outlet, &ROWS));
    let ending = read_each(inputs, control, outlet, |file, one, opened| {
        rows.file = file;
        let keep = KeepNamed(features.clone());
        compute(request, keep, one, opened, |flows| rows.put(flows))
    })?;
    rows.out.finish()?;
    Ok(ending)
}

/// The first packets of a flow, and who sent the first of them to whom on the link. Models do not
/// get to see that: it is there to find labels by.
#[derive(Clone, Default)]
struct NamedPackets {
    first: FirstPackets,
    /// Destination and source.
    macs: Option<[[u8; 6]; 2]>,
}

struct KeepNamed(FlowFeatures);

impl FromFrames for KeepNamed {
    type State = NamedPackets;

    #[inline]
    fn on_frame(
        &mut self,
        state: &mut NamedPackets,
        frame: &Frame<'_>,
        packet: &FlowPacket,
        _: FlowSlot,
    ) {
        if state.first.packet_count() == 0 && frame.record.link == LinkType::ETHERNET {
            state.macs = frame.bytes.first_chunk::<12>().map(|both| {
                let [a, b, c, d, e, f, rest @ ..] = *both;
                [[a, b, c, d, e, f], rest]
            });
        }
        state.first.on_frame(&self.0, frame, packet.direction, packet.timestamp);
    }
}

/// As most programs write it.
#[derive(Clone, Copy)]
struct Mac([u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Rows on their way to Python.
struct Rows<'a> {
    features: &'a FlowFeatures,
    out: RowsOut,
    file: u32,
    numbers: NumberBytes,
}

impl<'a> Rows<'a> {
    fn new(features: &'a FlowFeatures, out: RowsOut) -> Self {
        Self { features, out, file: 0, numbers: NumberBytes::default() }
    }

    fn put(&mut self, flows: &[EndedFlow<NamedPackets>]) -> Result<(), Refusal> {
        flows.iter().try_for_each(|flow| self.push(flow))
    }

    fn push(
        &mut self,
        (record, FlowState(named)): &EndedFlow<NamedPackets>,
    ) -> Result<(), Refusal> {
        let first = &named.first;
        let [from, to] = named
            .macs
            .map(|macs| macs.map(Mac))
            .map_or([None; 2], |[to, from]| [Some(from), Some(to)]);
        let numbers = self.numbers.of(|values| first.numbers(self.features, values));
        let (source, destination) = record.endpoints();
        let (community_id, protocol) = (CommunityId(record.key), record.key.protocol());
        self.out.push(&[
            Value::U32(self.file),
            Value::Text(&community_id),
            Value::Text(&protocol),
            Value::Address(source.address),
            Value::U16(source.port),
            Value::Address(destination.address),
            Value::U16(destination.port),
            from.as_ref().map_or(Value::Null, |mac| Value::Text(mac)),
            to.as_ref().map_or(Value::Null, |mac| Value::Text(mac)),
            known(record.first),
            known(record.last),
            Value::U64(record.packets_total()),
            Value::U64(record.bytes_total()),
            Value::U64(first.long_count() as u64),
            Value::Str(record.reason.name()),
            Value::Bytes(first.records(self.features)),
            Value::Bytes(numbers),
        ])
    }
}

/// Rows that were read, and what their columns are.
#[pyclass(frozen, module = "wirelens._wirelens")]
pub(crate) struct FirstRows {
    features: FlowFeatures,
    rows: RowsIn,
}

#[pymethods]
impl FirstRows {
    /// The rows that `first_packets` read with these features.
    #[new]
    fn new(rows: &RowBatches, features: FeatureOptions) -> PyResult<Self> {
        let rows = RowsIn::new(rows, &ROWS, "first packets")?;
        Ok(Self { features: features.features()?, rows })
    }

    /// Names of the columns that are keys.
    #[getter]
    fn keys(&self) -> Vec<&'static str> {
        self.rows.keys()
    }

    /// Bytes of the record of one packet.
    #[getter]
    fn record_len(&self) -> usize {
        self.features.layout().record_len()
    }

    /// Records of the first packets of each row, zeros where there are fewer.
    fn records_of<'py>(&self, py: Python<'py>, packets: i64) -> PyResult<Bound<'py, PyBytes>> {
        let packets = within("packets", packets, 1, self.features.packets())?;
        let row_len = self.features.layout().record_len() * packets;
        Ok(self.rows.padded_records(py, row_len))
    }

    /// Numbers of each row by name, 64 bits each.
    fn numbers_of<'py>(
        &self,
        py: Python<'py>,
        names: Vec<String>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let known = self.features.names();
        let place = |name: &String| {
            known.iter().position(|known| known == name).ok_or_else(|| {
                let text = format_args!("numbers: {name:?} was not read; wanted: of {known:?}");
                Refusal::new(Kind::Option, text)
            })
        };
        let places = names.iter().map(place).collect::<Result<Vec<_>, _>>()?;
        let bytes = py.detach(|| {
            let mut bytes = Vec::with_capacity(size_of::<f64>() * places.len() * self.rows.len());
            for row in self.rows.numbers() {
                let (numbers, _) = row.as_chunks::<{ size_of::<f64>() }>();
                bytes.extend(places.iter().filter_map(|&place| numbers.get(place)).flatten());
            }
            bytes
        });
        Ok(PyBytes::new(py, &bytes))
    }

    /// Bits of each row by name, 8 bits each: −1, 0 or 1.
    fn bits<'py>(&self, py: Python<'py>, columns: Vec<String>) -> PyResult<Bound<'py, PyBytes>> {
        self.rows.bits(py, &self.features, &columns)
    }

    /// Names of the bits that are not the same in all rows, or in those that are chosen: a byte for
    /// each row, 0 where it is not.
    #[pyo3(signature = (chosen = None))]
    fn varying(&self, py: Python<'_>, chosen: Option<Vec<u8>>) -> PyResult<Vec<String>> {
        let row_count = self.rows.len();
        if let Some(len) = chosen.as_ref().map(Vec::len).filter(|&len| len != row_count) {
            let text = format_args!("rows: {len} of them; wanted: {row_count}, one for each row");
            return Err(Refusal::new(Kind::Option, text).into());
        }
        Ok(py.detach(|| {
            let mut seen = SeenBits::new(self.features.clone());
            for (row, records) in self.rows.records().enumerate() {
                let chosen = chosen.as_ref().and_then(|chosen| chosen.get(row));
                if chosen != Some(&0) {
                    seen.add(records);
                }
            }
            seen.varying()
        }))
    }
}
