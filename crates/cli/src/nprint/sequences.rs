//! A row for each flow: sizes, directions and gaps of its first packets, step by step.

use engine::columns::Columns;
use engine::flow::FlowState;
use session::first::steps::{self, KeepSteps};
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
    let schema = steps::schema(depth);
    let mut out = table(arguments, schema)?;
    jail.enter(inputs, tell_line);
    let mut columns = Columns::new(schema);
    let rows_per_piece = (VALUES_PER_PIECE / schema.len()).max(1);
    let mut values = Vec::new();
    let done = compute(request, KeepSteps { depth }, inputs, opened, |flows| {
        for (record, FlowState(kept)) in flows {
            values.clear();
            kept.values(depth, &mut values);
            index::of_flow(record, |index| {
                let mut row = index.to_vec();
                let (chunks, _) = values.as_chunks();
                row.extend(chunks.iter().flat_map(|&step| steps::of_step(step)));
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
