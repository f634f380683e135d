//! The summary at the end, on standard error: packets read, and their outcome.

use session::reading::{Inputs, ReceiveOutcome};
use session::run::SessionOutcome;
use session::summary::{SourceSummary, StageSummary, names, own_lines, stage_lines};

use crate::failure::{Failure, Status};

/// Prints the summary of a session: its inputs, and each of its applications.
pub(crate) fn finished(finished: &SessionOutcome, quiet: bool) -> Result<Status, Failure> {
    let SessionOutcome { inputs, received, closings, besides, .. } = finished;
    // With sources of its own, each block of lines has the names of what was read.
    if !quiet && matches!(closings.as_slice(), [(_, closing)] if !closing.own.is_empty()) {
        eprintln!("{}:", names(inputs));
    }
    let mut status = match closings.first() {
        Some((name, closing)) => print(inputs, quiet, received, closing.stage(name).as_ref())?,
        // Packets stayed in the kernel.
        None => Status::Fine,
    };
    for (at, (name, closing)) in closings.iter().enumerate() {
        received.account_for(&closing.outcome).map_err(Failure::error)?;
        if !quiet {
            let stage = closing.stage(name).filter(|_| at > 0);
            let own = stage.map(|stage| stage_lines(&stage, &received.report));
            eprint!("{}{}", own.unwrap_or_default(), closing.lines);
        }
        for source in &closing.own {
            let own = print_source(name, source, quiet)?;
            if own != Status::Fine {
                status = own;
            }
        }
    }
    for (_, done) in besides {
        if !quiet {
            eprint!("{}", done.lines);
        }
    }
    let losses = finished.losses();
    if losses.is_empty() { Ok(status) } else { Err(Failure::error(losses.join("\nwirelens: "))) }
}

/// Prints the summary; returns how the run ended.
///
/// The identity `received = processed + filtered + dropped + malformed` is checked here,
/// once for each run, because this is where it is printed.
pub(crate) fn print(
    inputs: &Inputs,
    quiet: bool,
    received: &ReceiveOutcome,
    stage: Option<&StageSummary<'_>>,
) -> Result<Status, Failure> {
    if let Some(reason) = received.refused_filter() {
        return Err(Failure::usage(reason));
    }
    if !quiet {
        eprint!("{}", own_lines(inputs, received, stage));
    }
    let refused = &inputs.resolved.refused;
    let damages = received.damages.iter().map(ToString::to_string);
    for notice in refused.iter().cloned().chain(received.notices()).chain(damages) {
        eprintln!("wirelens: {notice}");
    }
    if let Some(stage) = stage {
        received.account_for(stage.outcome).map_err(Failure::error)?;
    }
    // Of a capture in which no header can be read only `info` has something to say.
    let is_blind = stage.is_some() && received.is_undecoded();
    let is_whole = refused.is_empty() && received.damages.is_empty();
    Ok(if is_whole && !is_blind { Status::Fine } else { Status::Damaged })
}

/// Prints the same of a source that an application reads for itself, beneath its name.
pub(crate) fn print_source(
    application: &str,
    source: &SourceSummary,
    quiet: bool,
) -> Result<Status, Failure> {
    if !quiet {
        eprintln!("{}:", source.names());
    }
    let stage = source.stage(application);
    let status = print(&source.inputs, quiet, &source.received, Some(&stage))?;
    if !quiet {
        eprint!("{}", source.lines);
    }
    Ok(status)
}
