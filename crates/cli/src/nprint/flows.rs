//! A row for each flow: its first packets side by side.

use engine::flow::{FlowOptions, Held};
use model::{FlowFeatures, Headers, Subscription};
use packet::HashSeed;

use super::index;
use super::rows::Rows;
use crate::failure::Failure;
use crate::first::{FirstRequest, compute};
use crate::flows::Done;
use crate::reading::{Inputs, Opened};

/// Writes rows to their end.
pub(super) fn run(
    options: FlowOptions,
    seed: HashSeed,
    inputs: &Inputs,
    opened: Opened,
    subscription: &Subscription,
    mut rows: Rows,
) -> Result<Done, Failure> {
    let opens_tunnels = inputs.options.dissect.decapsulate;
    let headers = if opens_tunnels { Headers::Innermost } else { Headers::Outermost };
    let (layout, depth) = (subscription.layout(), subscription.depth());
    let features = FlowFeatures::of_layout(headers, layout, depth, &[]).map_err(Failure::error)?;
    let request = FirstRequest { options, seed, features: features.clone() };
    let done = compute(request, inputs, opened, |flows| {
        flows.iter().try_for_each(|(record, Held(first))| {
            index::of_flow(record, |index| rows.push(index, first.records(&features)))
        })
    })?;
    rows.finish()?;
    Ok(done)
}
