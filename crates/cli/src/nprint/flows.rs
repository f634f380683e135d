//! A row for each flow: its first packets side by side.

use engine::flow::FlowState;
use model::{FlowFeatures, Headers, Subscription};
use session::first::{FlowsRequest, KeepFirst, compute, index};
use session::flows::RunTotals;
use session::reading::{Inputs, OpenSources};

use super::rows::Rows;
use crate::failure::Failure;

/// Writes rows to their end.
pub(super) fn run(
    request: FlowsRequest,
    inputs: &Inputs,
    opened: OpenSources,
    subscription: &Subscription,
    mut rows: Rows,
) -> Result<RunTotals, Failure> {
    let opens_tunnels = inputs.options.dissect.decapsulate;
    let headers = if opens_tunnels { Headers::Innermost } else { Headers::Outermost };
    let (layout, depth) = (subscription.layout(), subscription.depth());
    let features = FlowFeatures::of_layout(headers, layout, depth, &[]).map_err(Failure::error)?;
    let done = compute(request, KeepFirst(features.clone()), inputs, opened, |flows| {
        flows.iter().try_for_each(|(record, FlowState(first))| {
            index::of_flow(record, |index| rows.push(index, first.records(&features)))
        })
    })?;
    rows.finish()?;
    Ok(done)
}
