//! What `flows` finds, before anyone shows it.

use std::sync::Arc;

use engine::exchange::exchange;
use engine::flow::{
    AllEnded, Collect, FlowClock, FlowCounts, FlowExtract, FlowOptions, FlowOwner, FlowPart,
    FlowRecord, FlowRest, Heaviest, PerFlow,
};
use engine::side_by_side::side_by_side;
use packet::HashSeed;

use crate::done::Done;
use crate::reading::{InputError, Inputs, Opened, Received};

/// What is asked of `flows`, whoever asks.
#[derive(Clone, Copy, Debug)]
pub struct FlowsRequest {
    /// Time-outs, windows and limits.
    pub options: FlowOptions,
    /// Seed of the hash that spreads flows.
    pub seed: HashSeed,
}

/// Who receives flows as they end.
pub trait Output<S> {
    /// Why it takes no more, or why nothing can be found.
    type Error: From<InputError>;

    /// Takes flows that have ended since the last call.
    ///
    /// # Errors
    /// Its own; they end the run.
    fn put(&mut self, flows: &[(FlowRecord, S)]) -> Result<(), Self::Error>;

    /// Called every now and then, also while no flow ends.
    ///
    /// # Errors
    /// Its own; they end the run.
    fn look(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// Flows handed over at once of those that are left at the end.
const FLOWS_PER_PIECE: usize = 1 << 14;

/// Reads `sources` to their ends and hands each flow to `output` when it has ended.
///
/// # Errors
/// What `output` returns.
pub fn compute<S: PerFlow, O: Output<S>>(
    request: &FlowsRequest,
    inputs: &Inputs,
    opened: Opened,
    output: &mut O,
) -> Result<Done, O::Error> {
    let mut written = Ok(());
    let control = Arc::clone(&inputs.control);
    let done = run::<S, AllEnded<S>>(request, inputs, opened, AllEnded::default, |parts| {
        let (mut flows, mut rests) = (Vec::new(), Vec::new());
        for part in parts {
            flows.extend(part.collected);
            rests.extend(part.rest);
        }
        // Which owner had a flow does not show: flows of one key have one owner, and
        // keep the order in which they ended.
        flows.sort_by_key(|(record, _)| record.order());
        if written.is_ok() && !flows.is_empty() {
            written = output.put(&flows);
        }
        if written.is_ok() {
            written = FlowRest::drain(rests, FLOWS_PER_PIECE, |flows| output.put(flows));
        }
        if written.is_ok() {
            written = output.look();
        }
        if written.is_err() {
            control.fail();
        }
    });
    written?;
    Ok(done)
}

/// Reads `sources` to their ends; the `flow_count` heaviest flows, in order.
#[must_use]
pub fn heaviest(
    request: &FlowsRequest,
    inputs: &Inputs,
    opened: Opened,
    flow_count: usize,
    by_packets: bool,
) -> (Vec<FlowRecord>, Done) {
    let mut whole = Heaviest::new(flow_count, by_packets);
    let make = || Heaviest::new(flow_count, by_packets);
    let done = run::<(), _>(request, inputs, opened, make, |parts| {
        for record in parts.into_iter().flat_map(|part| part.collected) {
            whole.add(record.packets_total(), record.bytes_total(), || Some(record));
        }
    });
    (whole.take_sorted(), done)
}

fn run<S: PerFlow, C: Collect<S>>(
    request: &FlowsRequest,
    inputs: &Inputs,
    opened: Opened,
    make_collector: impl Fn() -> C + Sync,
    mut on_parts: impl FnMut(Vec<FlowPart<C::Part, S>>),
) -> Done {
    let FlowsRequest { options, seed } = *request;
    let make_extract =
        || FlowExtract::new(seed, FlowClock::new(options.idle_timeout, options.window));
    let mut done = Done::default();
    let mut counts = FlowCounts::default();
    let mut take = |parts: Vec<FlowPart<C::Part, S>>| {
        parts.iter().for_each(|part| counts.fold(&part.counts));
        on_parts(parts);
    };
    match opened {
        Opened::Live(sources) if sources.len() > 1 => {
            let options = shared(options, sources.len());
            let make_owner = || FlowOwner::<S, C>::new(options, make_collector());
            let ran = side_by_side(sources, make_extract, make_owner, &inputs.control, |part| {
                take(vec![part]);
            });
            let (sources, extracts): (Vec<_>, Vec<_>) = ran.into_iter().unzip();
            extracts.into_iter().for_each(|extract| done.add(extract));
            done.received = Received::of_live(sources);
        }
        opened => {
            let mut source = inputs.in_order(opened);
            let mut extract = make_extract();
            let make_owner = || FlowOwner::<S, C>::new(options, make_collector());
            let (threads, control) = (inputs.thread_count, &inputs.control);
            let bar = inputs.bar();
            exchange(&mut source, &mut extract, make_owner, threads, control, take);
            drop(bar);
            done.add(extract);
            done.received = source.received();
        }
    }
    done.counts = counts;
    done
}

/// The part of each of several tables that share what is allowed.
fn shared(options: FlowOptions, table_count: usize) -> FlowOptions {
    FlowOptions { flow_count_max: options.flow_count_max / table_count, ..options }
}
