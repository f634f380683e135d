//! `wirelens.packets`: each record as a row.

use std::fmt::Write as _;
use std::mem;
use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, StringBuilder, TimestampNanosecondBuilder, UInt16Builder, UInt32Builder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use cli::reading::Inputs;
use cli::summary;
use engine::census::ether_type_name;
use packet::wire::tcp::Tcp;
use packet::{Direction, Frame, Layers, Protocol, Source as _, Timestamp};
use pyo3::prelude::*;

use crate::options::{InputOptions, within};
use crate::reader::{Declared, Ending, Reader};
use crate::refusal::{Kind, Refusal};

/// Rows in a batch at most.
const BATCH_ROWS_MAX: usize = 1 << 20;

/// Bytes of frames and payloads after which a batch ends before its rows are full.
const BATCH_BYTES_MAX: usize = 16 << 20;

/// A frame has no more bytes.
const FRAME_BYTES_MAX: usize = 1 << 24;

/// What `packets` takes besides inputs.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct PacketOptions {
    batch_size: i64,
    frame: i64,
    payload: i64,
}

/// Name, type, whether it may be missing, and meaning.
type Column = (&'static str, DataType, bool, &'static str);

fn columns(frame: usize, payload: usize) -> Vec<Column> {
    use DataType::{Binary, UInt16, UInt32, Utf8};
    let time = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    let mut columns = vec![
        ("time_ns", time, true, "When it was seen; missing where the capture does not tell."),
        ("wire_len", UInt32, false, "Bytes on the wire, link header included."),
        ("captured_len", UInt32, false, "Bytes that were captured."),
        ("interface", UInt16, false, "Interface, numbered from 0 within its capture."),
        ("direction", Utf8, true, "`inbound` or `outbound`, where the capture tells."),
        ("segments", UInt16, false, "Wire packets that it stands for."),
        ("vlan", UInt16, true, "Outermost VLAN identifier."),
        ("protocol", Utf8, true, "IP protocol, or EtherType where there is no IP."),
        ("src_ip", Utf8, true, "Source address of the innermost IP header."),
        ("dst_ip", Utf8, true, "Destination address of the innermost IP header."),
        ("src_port", UInt16, true, "Source port."),
        ("dst_port", UInt16, true, "Destination port."),
        (
            "tcp_flags",
            UInt16,
            true,
            "FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128, AE 256.",
        ),
        ("payload_len", UInt32, true, "Bytes that the transport carries, captured or not."),
        ("malformed", Utf8, true, "What is wrong with its headers, by the name of the cause."),
    ];
    if frame > 0 {
        columns.push(("frame", Binary, false, "First captured bytes, from the link header on."));
    }
    if payload > 0 {
        columns.push(("payload", Binary, true, "First captured bytes that the transport carries."));
    }
    columns
}

/// Starts reading packets; the options are those of `wirelens.packets`, complete.
#[pyfunction]
pub(crate) fn packets(
    py: Python<'_>,
    inputs: InputOptions,
    options: PacketOptions,
) -> PyResult<Reader> {
    let batch_rows = within("batch_size", options.batch_size, 1, BATCH_ROWS_MAX)?;
    let frame = within("frame", options.frame, 0, FRAME_BYTES_MAX)?;
    let payload = within("payload", options.payload, 0, FRAME_BYTES_MAX)?;
    let inputs = inputs.request()?;
    let columns = columns(frame, payload);
    let declared = columns.iter().map(|&(name, _, _, about)| Declared { name, about }).collect();
    let fields =
        columns.into_iter().map(|(name, kind, nullable, _)| Field::new(name, kind, nullable));
    let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let mut rows = Rows::new(Arc::clone(&schema), frame, payload);
    Reader::start(py, schema, declared, move |control, outlet| {
        let inputs = Inputs::find(&inputs, true, Arc::clone(&control))?;
        let mut source = inputs.in_order(inputs.open()?);
        outlet.opened()?;
        while !control.is_stopped() {
            let Some(batch) = source.next_batch() else { break };
            for frame in batch.frames() {
                rows.push(&frame);
                if rows.row_count >= batch_rows || rows.byte_count >= BATCH_BYTES_MAX {
                    outlet.batch(rows.take()?)?;
                }
            }
        }
        let received = source.received();
        if let Some(reason) = received.refused_filter() {
            return Err(Refusal::new(Kind::Filter, reason));
        }
        if rows.row_count > 0 {
            outlet.batch(rows.take()?)?;
        }
        let summary = summary::lines(&inputs, &received, None);
        Ok(Ending { received, outcome: None, late: 0, beyond_max_keys: 0, summary })
    })
}

/// Rows of the batch to be.
struct Rows {
    schema: SchemaRef,
    frame_len_max: usize,
    payload_len_max: usize,
    row_count: usize,
    byte_count: usize,
    time: TimestampNanosecondBuilder,
    wire_len: UInt32Builder,
    captured_len: UInt32Builder,
    interface: UInt16Builder,
    direction: StringBuilder,
    segments: UInt16Builder,
    vlan: UInt16Builder,
    protocol: StringBuilder,
    src_ip: StringBuilder,
    dst_ip: StringBuilder,
    src_port: UInt16Builder,
    dst_port: UInt16Builder,
    tcp_flags: UInt16Builder,
    payload_len: UInt32Builder,
    malformed: StringBuilder,
    frame: BinaryBuilder,
    payload: BinaryBuilder,
}

impl Rows {
    fn new(schema: SchemaRef, frame_len_max: usize, payload_len_max: usize) -> Self {
        Self {
            schema,
            frame_len_max,
            payload_len_max,
            row_count: 0,
            byte_count: 0,
            time: TimestampNanosecondBuilder::new().with_timezone("UTC"),
            wire_len: UInt32Builder::new(),
            captured_len: UInt32Builder::new(),
            interface: UInt16Builder::new(),
            direction: StringBuilder::new(),
            segments: UInt16Builder::new(),
            vlan: UInt16Builder::new(),
            protocol: StringBuilder::new(),
            src_ip: StringBuilder::new(),
            dst_ip: StringBuilder::new(),
            src_port: UInt16Builder::new(),
            dst_port: UInt16Builder::new(),
            tcp_flags: UInt16Builder::new(),
            payload_len: UInt32Builder::new(),
            malformed: StringBuilder::new(),
            frame: BinaryBuilder::new(),
            payload: BinaryBuilder::new(),
        }
    }

    fn push(&mut self, frame: &Frame<'_>) {
        let record = frame.record;
        let layers = &record.layers;
        let stamp = record.timestamp;
        self.time.append_option((stamp != Timestamp::UNKNOWN).then(|| stamp.as_ns()));
        self.wire_len.append_value(record.wire_len);
        self.captured_len.append_value(record.captured_len);
        self.interface.append_value(record.interface);
        self.direction.append_option(match record.direction {
            Direction::Unknown => None,
            Direction::Inbound => Some("inbound"),
            Direction::Outbound => Some("outbound"),
        });
        self.segments.append_value(record.segments);
        self.vlan.append_option(layers.vlan());
        push_protocol(&mut self.protocol, layers);
        self.push_endpoints(frame);
        self.malformed.append_option(layers.fault.map(|cause| cause.name()));
        self.push_bytes(frame);
        self.row_count += 1;
    }

    fn push_endpoints(&mut self, frame: &Frame<'_>) {
        let layers = &frame.record.layers;
        if let Some((source, destination)) = frame.ip_addresses() {
            // Writing into the builder's own buffer cannot fail.
            let _ = write!(self.src_ip, "{source}");
            let _ = write!(self.dst_ip, "{destination}");
            self.src_ip.append_value("");
            self.dst_ip.append_value("");
        } else {
            self.src_ip.append_null();
            self.dst_ip.append_null();
        }
        let ports = packet::flow_key::ports(frame);
        self.src_port.append_option(ports.map(|(source, _)| source));
        self.dst_port.append_option(ports.map(|(_, destination)| destination));
        let is_tcp = layers.protocol == Protocol::TCP && layers.has(Layers::TRANSPORT);
        let tcp = is_tcp.then(|| Tcp::new(frame.from_offset(layers.transport_offset)).ok());
        self.tcp_flags.append_option(tcp.flatten().map(|tcp| tcp.flags().bits()));
        self.payload_len.append_option(layers.is_ip().then_some(layers.payload_len));
    }

    fn push_bytes(&mut self, frame: &Frame<'_>) {
        if self.frame_len_max > 0 {
            let len = frame.bytes.len().min(self.frame_len_max);
            self.frame.append_value(frame.bytes.get(..len).unwrap_or_default());
            self.byte_count += len;
        }
        if self.payload_len_max > 0 {
            let layers = &frame.record.layers;
            if !layers.is_ip() {
                self.payload.append_null();
                return;
            }
            let payload = frame.from_offset(layers.payload_offset);
            let len = payload.len().min(layers.payload_len as usize).min(self.payload_len_max);
            self.payload.append_value(payload.get(..len).unwrap_or_default());
            self.byte_count += len;
        }
    }

    /// The rows held, leaving none.
    fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        (self.row_count, self.byte_count) = (0, 0);
        let time = mem::take(&mut self.time).with_timezone("UTC").finish();
        let mut arrays: Vec<ArrayRef> = vec![
            Arc::new(time),
            Arc::new(self.wire_len.finish()),
            Arc::new(self.captured_len.finish()),
            Arc::new(self.interface.finish()),
            Arc::new(self.direction.finish()),
            Arc::new(self.segments.finish()),
            Arc::new(self.vlan.finish()),
            Arc::new(self.protocol.finish()),
            Arc::new(self.src_ip.finish()),
            Arc::new(self.dst_ip.finish()),
            Arc::new(self.src_port.finish()),
            Arc::new(self.dst_port.finish()),
            Arc::new(self.tcp_flags.finish()),
            Arc::new(self.payload_len.finish()),
            Arc::new(self.malformed.finish()),
        ];
        if self.frame_len_max > 0 {
            arrays.push(Arc::new(self.frame.finish()));
        }
        if self.payload_len_max > 0 {
            arrays.push(Arc::new(self.payload.finish()));
        }
        RecordBatch::try_new(Arc::clone(&self.schema), arrays)
    }
}

/// As under `top --by protocol`.
fn push_protocol(names: &mut StringBuilder, layers: &Layers) {
    if layers.is_ip() {
        match layers.protocol.name() {
            Some(name) => names.append_value(name),
            None => names.append_value(layers.protocol.to_string()),
        }
    } else if layers.fault.is_none() && layers.ether_type != 0 {
        names.append_value(ether_type_name(layers.ether_type));
    } else {
        names.append_null();
    }
}
