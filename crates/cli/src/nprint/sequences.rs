//! A row for each flow: sizes, directions and gaps of its first packets, step by step.

use engine::columns::{Columns, Field, Kind, Schema, Value};
use engine::flow::{FlowPacket, FlowSlot, FlowState, FromFrames};
use model::{FirstSteps, sequence};
use packet::Frame;
use session::first::{FlowsRequest, compute, index};
use session::flows::RunTotals;
use session::reading::{Inputs, OpenSources};
use session::run::Jail;

use super::args::{NprintFormat, NprintOutputArguments};
use super::rows::table;
use crate::failure::Failure;
use crate::run::tell_line;

/// Values gathered in columns before they are handed on.
const VALUES_PER_PIECE: usize = 1 << 18;

/// Keeps the first packets' sizes, directions and gaps.
struct Keep {
    depth: usize,
}

impl FromFrames for Keep {
    type State = FirstSteps;

    #[inline]
    fn on_frame(
        &mut self,
        steps: &mut FirstSteps,
        frame: &Frame<'_>,
        packet: &FlowPacket,
        _: FlowSlot,
    ) {
        steps.on_packet(frame.record, packet.direction, packet.timestamp, self.depth);
    }
}

/// All columns. Which there are is known once a run, and for as long as it lasts: so the names
/// live as long as the process does.
fn schema(depth: usize) -> Schema {
    const KINDS: [(Kind, &str); 3] = [
        (Kind::U32, "Bytes from the IP header on; 0 if there is no such packet."),
        (
            Kind::I8,
            "1 in the direction of the flow's first packet, -1 in the other, 0 if there is \
                    none.",
        ),
        (Kind::U64, "Nanoseconds since the previous packet."),
    ];
    let mut fields = index::FLOW.to_vec();
    for packet in 0..depth {
        let channels = sequence::CHANNELS.into_iter().zip(KINDS);
        fields.extend(channels.map(|(name, (kind, about))| {
            Field::new(String::leak(format!("pkt{packet}_{name}")), kind, about)
        }));
    }
    Vec::leak(fields)
}

/// Refuses what sequences cannot be written as.
pub(super) fn check(arguments: &NprintOutputArguments) -> Result<(), Failure> {
    if arguments.chosen()? == NprintFormat::Npy {
        return Err(Failure::usage(
            "--sequences: a matrix holds bits, of one byte each; sizes and gaps are longer: write \
             parquet, arrow, csv or jsonl",
        ));
    }
    Ok(())
}

/// Writes rows to their end.
pub(super) fn run(
    request: FlowsRequest,
    inputs: &Inputs,
    opened: OpenSources,
    (arguments, jail): (&NprintOutputArguments, Jail),
    depth: usize,
) -> Result<RunTotals, Failure> {
    let schema = schema(depth);
    let mut out = table(arguments, schema)?;
    jail.enter(inputs, tell_line);
    let mut columns = Columns::new(schema);
    let rows_per_piece = (VALUES_PER_PIECE / schema.len()).max(1);
    let mut values = Vec::new();
    let done = compute(request, Keep { depth }, inputs, opened, |flows| {
        for (record, FlowState(steps)) in flows {
            values.clear();
            steps.values(depth, &mut values);
            index::of_flow(record, |index| {
                let mut row = index.to_vec();
                let (steps, _) = values.as_chunks();
                row.extend(steps.iter().flat_map(|&step| of_step(step)));
                columns.push_row(&row).map_err(Failure::error)
            })?;
            if columns.row_count() >= rows_per_piece {
                out.write(&columns)?;
                columns.clear();
            }
        }
        Ok::<(), Failure>(())
    })?;
    out.write(&columns)?;
    out.finish()?.finish()?;
    Ok(done)
}

/// The columns of a step. A size is a length of a packet, a direction one of three.
fn of_step([size_bytes, direction, gap_ns]: [i64; 3]) -> [Value<'static>; 3] {
    [
        Value::U32(u32::try_from(size_bytes).unwrap_or(u32::MAX)),
        Value::I8(i8::try_from(direction).unwrap_or_default()),
        Value::U64(u64::try_from(gap_ns).unwrap_or_default()),
    ]
}
