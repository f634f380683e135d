//! Flows with what a trained cascade says of them: `wirelens flows --model`.

use std::path::Path;
use std::sync::Arc;

use session::Host;
use session::classify::read;
use session::exports::Style;
use session::flows::LabelledFlows;

use crate::alone::{self, Sources, Ways};
use crate::args::FlowsArguments;
use crate::asked;
use crate::classify::match_headers;
use crate::environment;
use crate::failure::{Failure, Status};
use crate::output::{self, Show};
use crate::summary;

/// Runs `wirelens flows --model FOLDER`.
pub(super) fn run(
    arguments: &FlowsArguments,
    folder: &Path,
    host: &Host,
) -> Result<Status, Failure> {
    let cascade = read(folder, host, environment)?;
    let cascade = Arc::new(match arguments.unknown_below {
        Some(below) => cascade.with_unknown_below(below),
        None => cascade,
    });
    let typed = Sources::new(&arguments.input, &arguments.live);
    let mut inputs = asked::find(typed.input, typed.live, true)?;
    asked::spare(&inputs, [arguments.output.output.as_ref()])?;
    match_headers(&mut inputs, &cascade, folder, arguments.input.no_decap)?;
    if cascade.every().is_some() {
        return Err(Failure::usage(format_args!(
            "--model: {} was trained on windows; give it to `wirelens classify --every`",
            folder.display()
        )));
    }
    let (show, rows, export) = output::flows(&arguments.output)?;
    if show == Show::Table {
        return Err(Failure::usage(
            "--model: flows with labels are written as rows; give -o FILE or --format, or use \
             `wirelens classify` for a table of labels",
        ));
    }
    super::refuse_ranks(arguments)?;
    let settings = asked::flows(arguments, export.as_ref());
    let is_ipfix = settings.format == Some(Style::Ipfix);
    if is_ipfix && arguments.output.enterprise.is_none() {
        return Err(Failure::usage(
            "--model: IPFIX has no element for labels; give --enterprise NUMBER as well",
        ));
    }
    settings.check_format().map_err(|refusal| Failure::usage(format_args!("--{refusal}")))?;
    let flows = LabelledFlows::new(cascade, &settings);
    let opened = alone::open(&mut inputs, typed, &flows)?;
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    let ways = Ways { export, ..Ways::rows(show, &rows) };
    let finished = alone::run(flows, ways, typed, inputs, opened)?;
    summary::finished(&finished, arguments.input.quiet)
}
