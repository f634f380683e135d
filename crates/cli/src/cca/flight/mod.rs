//! One tap: what flows have in flight, told from their data and from what comes back.

mod table;

use capture::live::LiveOptions;
use cca::Model;
use session::cca::naming::Namer;
use session::cca::{Cca, Shown};
use session::reading::{InputRequest, Inputs, Interface};

use super::Asked;
use super::args::CcaArguments;
use super::printed::Tables;
use crate::alone::{self, Ways};
use crate::asked;
use crate::failure::{Failure, Status};
use crate::output::Show;
use crate::summary;

/// Tells what flows of one capture or interface have in flight.
pub(super) fn run(asked: &Asked<'_>, model: Option<Model>) -> Result<Status, Failure> {
    let Asked { arguments, settings, clock, show } = asked;
    let namer = model.map(Namer::of_flight).transpose();
    let namer = namer.map_err(|other| asked.refuse_model(other))?;
    let inputs = find(arguments)?;
    asked::spare(&inputs, [arguments.output.output.as_ref()])?;
    let opened = inputs.open_any(session::cca::flight::NEEDS, 1)?;
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    let mut ways = Ways::rows(*show, &arguments.output);
    let shown = if *show == Show::Table {
        let tables = Tables { clock: *clock, controls: Namer::controls(namer.as_ref()) };
        let (outlet, writer) = alone::show("cca", tables, &inputs);
        ways.shown = Some(writer);
        Shown::Flight(outlet)
    } else {
        Shown::Nothing
    };
    let cca = Cca::shown_by(settings.clone(), (*clock, namer), None, shown);
    let finished = alone::run(cca, ways, asked.typed(), inputs, opened)?;
    summary::finished(&finished, arguments.input.quiet)
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
