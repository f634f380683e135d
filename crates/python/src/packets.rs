//! `wirelens.packets`: each record as a row.

use engine::census::ether_type_name;
use engine::columns::{Columns, Field, Kind, Schema, Value};
use packet::wire::tcp::Tcp;
use packet::{Direction, Frame, Layers, Protocol, Source as _, Timestamp};
use pyo3::prelude::*;
use session::reading::{Inputs, Needs};
use session::summary;

use crate::handed::{BATCH_ROWS_MAX, BatchSender};
use crate::options::{InputOptions, within};
use crate::reader::{Ending, Reader};
use crate::refusal::{self, Refusal};
use crate::world::stop_after;

/// Rows and bytes gathered before they are handed on: little, for they are copied.
const PIECE_ROWS: usize = 1024;
const PIECE_BYTES: usize = 1 << 20;

/// All of each frame: rows say how much of it was captured.
const NEEDS: Needs = Needs { stage: "packets", len: Needs::TRANSPORT_LEN, takes_all: true };

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

const fn small(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::U16, about)
}

const fn len(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::U32, about)
}

const fn text(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::Text, about).nullable()
}

const TIME: Field =
    Field::new("time_ns", Kind::TimestampNs, "Timestamp; missing if the capture has none.");
const FRAME: Field =
    Field::new("frame", Kind::Bytes, "First captured bytes, from the link header on.");
const PAYLOAD: Field =
    Field::new("payload", Kind::Bytes, "First captured bytes of transport payload.");

/// Those of every packet.
const FIELD_COUNT: usize = 15;
pub(crate) const WITH_BOTH: [Field; FIELD_COUNT + 2] = [
    TIME.nullable(),
    len("wire_len", "Bytes on the wire, link header included."),
    len("captured_len", "Captured bytes."),
    small("interface", "Interface, numbered from 0 within its capture."),
    text("direction", "`inbound` or `outbound`, if the capture records it."),
    small("segments", "Wire packets that it contains."),
    small("vlan", "Outermost VLAN identifier.").nullable(),
    text("protocol", "IP protocol, or EtherType if there is no IP."),
    text("src_ip", "Source address of the innermost IP header."),
    small("src_port", "Source port.").nullable(),
    text("dst_ip", "Destination address of the innermost IP header."),
    small("dst_port", "Destination port.").nullable(),
    small("tcp_flags", "FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128, AE 256.")
        .nullable(),
    len("payload_len", "Bytes of transport payload, captured or not.").nullable(),
    text("malformed", "Malformed header, by the name of the cause."),
    FRAME,
    PAYLOAD.nullable(),
];
const WITH_PAYLOAD: [Field; FIELD_COUNT + 1] = {
    let mut fields = [WITH_BOTH[0]; FIELD_COUNT + 1];
    let mut index = 0;
    while index < FIELD_COUNT {
        fields[index] = WITH_BOTH[index];
        index += 1;
    }
    fields[FIELD_COUNT] = WITH_BOTH[FIELD_COUNT + 1];
    fields
};

fn schema(frame: usize, payload: usize) -> Schema {
    match (frame > 0, payload > 0) {
        (true, true) => &WITH_BOTH,
        (false, true) => &WITH_PAYLOAD,
        (true, false) => WITH_BOTH.split_at(FIELD_COUNT + 1).0,
        (false, false) => WITH_BOTH.split_at(FIELD_COUNT).0,
    }
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
    let (is_live, time) = (inputs.is_live(), inputs.time()?);
    let inputs = inputs.request()?;
    let columns = schema(frame, payload);
    let piece_rows = PIECE_ROWS.min(batch_rows);
    Reader::start_any(py, columns, is_live, move |control, outlet| {
        let inputs = Inputs::find(&inputs, true, control)?;
        let mut source = inputs.in_order(inputs.open_any(NEEDS, 1)?);
        let _alarm = time.map(|time| stop_after(time, &inputs.control));
        outlet.opened()?;
        let mut handed = BatchSender::new(outlet, columns, batch_rows);
        let mut rows = Rows::new(columns, frame, payload);
        while !inputs.control.is_stopped() || source.ends_by_itself() {
            let Some(batch) = source.next_batch() else { break };
            for frame in batch.frames() {
                rows.push(&frame)?;
                if rows.columns.row_count() >= piece_rows || rows.byte_count >= PIECE_BYTES {
                    rows.hand_to(&mut handed)?;
                }
            }
            if is_live {
                rows.hand_to(&mut handed)?;
            }
        }
        let received = source.received();
        if let Some(reason) = received.refused_filter() {
            return Err(Refusal::new(refusal::Kind::Filter, reason));
        }
        rows.hand_to(&mut handed)?;
        handed.finish()?;
        let summary = summary::lines(&inputs, &received, None);
        let refused = inputs.resolved.refused;
        Ok(Ending { received, refused, outcome: None, others: Vec::new(), ended: None, summary })
    })
}

/// Rows on their way.
struct Rows {
    columns: Columns,
    frame_len_max: usize,
    payload_len_max: usize,
    byte_count: usize,
}

impl Rows {
    fn new(columns: Schema, frame_len_max: usize, payload_len_max: usize) -> Self {
        let columns = Columns::new(columns);
        Self { columns, frame_len_max, payload_len_max, byte_count: 0 }
    }

    fn hand_to(&mut self, handed: &mut BatchSender) -> Result<(), Refusal> {
        handed.push(&self.columns)?;
        self.columns.clear();
        self.byte_count = 0;
        Ok(())
    }

    fn push(&mut self, frame: &Frame<'_>) -> Result<(), Refusal> {
        let record = frame.record;
        let layers = &record.layers;
        let stamp = (record.timestamp != Timestamp::UNKNOWN).then(|| record.timestamp.as_ns());
        let ether_type;
        let protocol = if layers.is_ip() {
            let unnamed = Value::Text(&layers.protocol);
            layers.protocol.name().map_or(unnamed, Value::Str)
        } else if layers.fault.is_none() && layers.ether_type != 0 {
            ether_type = ether_type_name(layers.ether_type);
            Value::Str(&ether_type)
        } else {
            Value::Null
        };
        let (source, destination) = frame.ip_addresses().unzip();
        let (source_port, destination_port) = packet::flow_key::ports(frame).unzip();
        let is_tcp = layers.protocol == Protocol::TCP && layers.has(Layers::TRANSPORT);
        let tcp = is_tcp.then(|| Tcp::new(frame.from_offset(layers.transport_offset)).ok());
        let head = frame.bytes.get(..self.frame_len_max).unwrap_or(frame.bytes);
        let payload = self.payload_of(frame);
        let values: [Value<'_>; FIELD_COUNT] = [
            stamp.map(Value::TimestampNs).into(),
            Value::U32(record.wire_len),
            Value::U32(record.captured_len),
            Value::U16(record.interface),
            match record.direction {
                Direction::Unknown => Value::Null,
                Direction::Inbound => Value::Str("inbound"),
                Direction::Outbound => Value::Str("outbound"),
            },
            Value::U16(record.segments),
            layers.vlan().map(Value::U16).into(),
            protocol,
            source.map(Value::Address).into(),
            source_port.map(Value::U16).into(),
            destination.map(Value::Address).into(),
            destination_port.map(Value::U16).into(),
            tcp.flatten().map(|tcp| Value::U16(tcp.flags().bits())).into(),
            layers.is_ip().then_some(Value::U32(layers.payload_len)).into(),
            layers.fault.map(|cause| Value::Str(cause.name())).into(),
        ];
        let mut row = [Value::Null; FIELD_COUNT + 2];
        row[..FIELD_COUNT].copy_from_slice(&values);
        let mut row_len = FIELD_COUNT;
        if self.frame_len_max > 0 {
            row[row_len] = Value::Bytes(head);
            row_len += 1;
            self.byte_count += head.len();
        }
        if self.payload_len_max > 0 {
            row[row_len] = payload.map(Value::Bytes).into();
            row_len += 1;
            self.byte_count += payload.map_or(0, <[u8]>::len);
        }
        Ok(self.columns.push_row(&row[..row_len])?)
    }

    /// What the transport carries, as far as it was captured and is wanted.
    fn payload_of<'a>(&self, frame: &Frame<'a>) -> Option<&'a [u8]> {
        let layers = &frame.record.layers;
        let payload = layers.is_ip().then(|| frame.from_offset(layers.payload_offset))?;
        let len = payload.len().min(layers.payload_len as usize).min(self.payload_len_max);
        payload.get(..len)
    }
}
