//! `wirelens packetlog record`: packets into a log.

use std::sync::Arc;

use capture::live::LiveSource;
use engine::run::run_one;
use session::Host;
use session::packetlog::settings::Settings;
use session::packetlog::{Ask, NEEDS, ReadError, Recorded, Recording, RunOf, read_model};
use session::reading::{Inputs, Opened, Received, hash_seed};

use super::args::RecordArguments;
use crate::asked;
use crate::clock::CLOCK;
use crate::failure::{Failure, Status};
use crate::live;
use crate::summary;

/// Runs `wirelens packetlog record`.
pub(super) fn run(arguments: &RecordArguments, host: &Host) -> Result<Status, Failure> {
    if let Some(threads @ 2..) = arguments.input.threads {
        return Err(Failure::usage(format_args!(
            "--threads {threads}: packets are judged on one thread and written by another; leave \
             it out, or record each interface by a command of its own"
        )));
    }
    let ask = ask(arguments, host)?;
    ask.check()?;
    let inputs = asked::find(&arguments.input, Some(&arguments.live), true)?;
    let opened = inputs.open_any(NEEDS, 1)?;
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    let quiet = arguments.input.quiet;
    let is_live = inputs.interface.is_some();
    let run = RunOf {
        seed: hash_seed(arguments.input.seed),
        progress: Arc::clone(&inputs.options.progress),
        control: Arc::clone(&inputs.control),
        clock: CLOCK,
        is_live,
        tell: (is_live && !quiet).then_some(tell),
        tell_recovered: (!quiet).then_some(tell),
    };
    let mut recording = Recording::begin(ask, run, &opened.interfaces())?;
    live::begin(&arguments.live, &opened, &inputs.control, quiet);
    tell_offloads(&opened, quiet);
    recording.start();
    let mut source = inputs.in_order(opened);
    let bar = inputs.bar();
    run_one(&mut source, &mut recording, &inputs.control);
    drop(bar);
    let recorded = recording.finish(inputs.control.is_stopped())?;
    say(&recorded, &inputs, &source.received(), quiet)
}

/// What was typed.
fn ask(arguments: &RecordArguments, host: &Host) -> Result<Ask, Failure> {
    let settings = Settings::read(arguments.settings.as_deref())?;
    let model = read_model(&arguments.model, host).map_err(|error| match error {
        ReadError::Model(error) => error.into(),
        ReadError::File(_) => Failure::error(error),
    })?;
    Ok(Ask {
        folder: arguments.folder.clone(),
        model: Arc::new(model),
        model_name: arguments.model.display().to_string(),
        mode: arguments.mode.clone(),
        settings,
        files: arguments.files.settings(),
        is_fixed: arguments.fixed_mode,
        events: arguments.events.clone(),
    })
}

/// Tells people what happens.
fn tell(line: &str) {
    eprintln!("wirelens: {line}");
}

/// Says that frames of several packets will come, and what becomes of them.
fn tell_offloads(opened: &Opened, quiet: bool) {
    let Opened::Live(sources) = opened else { return };
    if quiet {
        return;
    }
    if let Some(name) = sources.first().map(LiveSource::name) {
        let offloads = capture::sys::interfaces::offloads(name).unwrap_or_default();
        if !offloads.is_empty() {
            let on = offloads.join(", ");
            eprintln!(
                "{name}: offloads are on ({on}), so one frame may hold many packets; it is judged \
                 as those packets, and stored as one"
            );
        }
    }
}

/// Says what became of everything, and whether all of it is accounted for.
fn say(
    recorded: &Recorded,
    inputs: &Inputs,
    received: &Received,
    quiet: bool,
) -> Result<Status, Failure> {
    let status = summary::print(inputs, quiet, received, None)?;
    if !quiet {
        eprint!("{}", recorded.lines());
    }
    recorded.account_for(received.handed_out())?;
    recorded.check_losses()?;
    Ok(status)
}
