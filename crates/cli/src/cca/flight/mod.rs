//! One tap: bytes in flight of flows, measured from their data and acknowledgements.

mod table;

use cca::Model;
use session::cca::naming::Namer;
use session::cca::{Cca, PeriodView};

use super::CcaRequest;
use crate::alone;
use crate::asked;
use crate::failure::{Failure, Status};
use crate::summary;

/// Reports the bytes in flight of the flows of one capture or interface.
pub(super) fn run(asked: &CcaRequest<'_>, model: Option<Model>) -> Result<Status, Failure> {
    let CcaRequest { arguments, settings, clock, .. } = asked;
    let namer = model.map(Namer::of_flight).transpose();
    let namer = namer.map_err(|other| asked.refuse_model(other))?;
    let interface = arguments.interface.as_deref();
    if let Some((namespace, device)) = interface.and_then(|name| name.split_once(':')) {
        return Err(Failure::usage(format_args!(
            "-i {namespace}:{device}: one tap listens in its own network namespace; \
             try: ip netns exec {namespace} wirelens cca -i {device}"
        )));
    }
    let has_view = asked.has_view()?;
    let inputs = asked.inputs(interface)?;
    asked::spare(&inputs, [arguments.output.output.as_ref()])?;
    let opened = inputs.open_any(session::cca::flight::NEEDS, 1)?;
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    let (ways, outlet) = asked.ways(namer.as_ref(), &inputs, has_view);
    let shown = outlet.map_or(PeriodView::Nothing, PeriodView::Flight);
    let cca = Cca::shown_by(settings.clone(), (*clock, namer), None, shown);
    let finished = alone::run(cca, ways, asked.typed(), inputs, opened)?;
    summary::finished(&finished, arguments.input.quiet)
}
