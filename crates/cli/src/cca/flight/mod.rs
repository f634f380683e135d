//! One tap: what flows have in flight, told from their data and from what comes back.

mod table;

use capture::live::LiveOptions;
use cca::Model;
use packet::Source as _;
use session::cca::flight::{FlightReader, KEY, NEEDS, Told};
use session::cca::naming::Namer;
use session::reading::{InOrder, InputRequest, Inputs, Interface, Opened};
use session::summary::StageSummary;

use super::Asked;
use super::args::CcaArguments;
use super::printed::Printed;
use crate::asked;
use crate::failure::{Failure, Status};
use crate::summary;

/// Tells what flows of one capture or interface have in flight.
pub(super) fn run(asked: &Asked<'_>, model: Option<Model>) -> Result<Status, Failure> {
    let Asked { arguments, settings, clock, show } = asked;
    let options = settings.tap_options(*clock, model.as_ref());
    let namer = model.map(Namer::of_flight).transpose();
    let namer = namer.map_err(|other| asked.refuse_model(other))?;
    let inputs = find(arguments)?;
    asked::spare(&inputs, [arguments.output.output.as_ref()])?;
    let opened = inputs.open_any(NEEDS, 1)?;
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    begin(arguments, &opened, &inputs);
    let controls = Namer::controls(namer.as_ref());
    let mut printed = Printed::create::<Told>(&arguments.output, *show, controls)?;
    let bar = inputs.bar();
    let mut source = inputs.in_order(opened);
    let (period_len, row_count) = (settings.period_len(*clock), settings.row_count_max());
    let mut reader = FlightReader::new(options, period_len, row_count, namer);
    let mut put = |told: &Told| printed.put(told, *clock);
    // A live source ends by itself once it is told to.
    while inputs.interface.is_some() || !inputs.control.is_stopped() {
        let Some(batch) = source.next_batch() else { break };
        reader.on_batch(&batch, &mut put)?;
    }
    reader.finish(&mut put)?;
    drop(bar);
    printed.finish()?;
    finish(&inputs, source, &reader, arguments.input.quiet)
}

fn find(arguments: &CcaArguments) -> Result<Inputs, Failure> {
    let interface = arguments.interface.as_deref();
    if let Some((namespace, device)) = interface.and_then(|name| name.split_once(':')) {
        return Err(Failure::usage(format_args!(
            "-i {namespace}:{device}: one tap listens in its own network namespace; \
             try: ip netns exec {namespace} wirelens cca -i {device}"
        )));
    }
    let interface = interface
        .map(|name| Interface { names: vec![name.to_owned()], options: LiveOptions::default() });
    let request = InputRequest {
        interface,
        ..asked::request(&arguments.input, None, !arguments.input.no_decap)
    };
    let found = Inputs::find(&request, true, crate::interrupt::control());
    found.map_err(|error| asked::explain(error, &request))
}

fn begin(arguments: &CcaArguments, opened: &Opened, inputs: &Inputs) {
    crate::live::begin_for(arguments.duration, opened, &inputs.control, arguments.input.quiet);
}

/// What the tap was given and what became of it.
fn finish(
    inputs: &Inputs,
    source: InOrder,
    reader: &FlightReader,
    quiet: bool,
) -> Result<Status, Failure> {
    let stage = StageSummary {
        name: "cca",
        outcome: &reader.outcome(),
        key: KEY,
        late: 0,
        beyond_max_keys: reader.beyond_max_flows(),
    };
    let received = source.received();
    let status = summary::print(inputs, quiet, &received, Some(&stage))?;
    if !quiet {
        eprint!("{}", reader.lines());
    }
    Ok(status)
}
