//! `wirelens packetlog record`: packets into a log.

use std::path::Path;

use capture::live::LiveSource;
use files::FileMode;
use session::packetlog::settings::Settings;
use session::packetlog::{
    Ask, KERNEL_MODEL, Offload, PacketModel, Packetlog, ReadError, read_calibration, read_model,
};
use session::reading::OpenSources;

use super::args::{MODEL, RecordArguments};
use crate::alone::{self, Sources, Ways};
use crate::asked;
use crate::failure::{Failure, Status};
use crate::summary;

/// Runs `wirelens packetlog record`.
pub(super) fn run(arguments: &RecordArguments) -> Result<Status, Failure> {
    if let Some(threads @ 2..) = arguments.input.threads {
        return Err(Failure::usage(format_args!(
            "--threads {threads}: packets are classified on one thread and written by another; \
             leave it out, or record each interface with its own command"
        )));
    }
    if arguments.files.group_readable {
        FileMode::ask(Some(FileMode::GROUP));
    }
    let ask = ask(arguments)?;
    ask.check()?;
    let typed = Sources::new(&arguments.input, &arguments.live);
    let mut inputs = asked::find(typed.input, typed.live, true)?;
    if let (Some(offload), Some(interface)) = (ask.offload, &mut inputs.interface) {
        interface.options.cut_secret = Some(offload.secret());
    }
    let packetlog = Packetlog::of(ask);
    let opened = alone::open(&mut inputs, typed, &packetlog)?;
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    let (ways, quiet) = (Ways::default(), arguments.input.quiet);
    let last = |opened: &OpenSources| {
        tell_offloads(opened, quiet);
        Ok(())
    };
    let finished = alone::run_after(packetlog, ways, typed, inputs, opened, last)?;
    summary::finished(&finished, quiet)
}

/// What was typed.
fn ask(arguments: &RecordArguments) -> Result<Ask, Failure> {
    let settings = Settings::read(arguments.settings.as_deref())?;
    let offload = arguments.offload.as_ref().map(|_| Offload::xdp(arguments.mirror)).transpose()?;
    let name = match offload {
        // What the usual one reads the kernel does not have.
        Some(_) if arguments.model.as_os_str() == MODEL => Path::new(KERNEL_MODEL),
        _ => &arguments.model,
    };
    let model = model(name)?;
    let calibration = arguments.calibration.as_deref();
    let calibration = calibration.map(|path| read_calibration(path, &model)).transpose();
    let calibration = calibration.map_err(|why| Failure::usage(format!("--calibration: {why}")))?;
    Ok(Ask {
        folder: arguments.folder.clone(),
        model: model.model,
        calibration,
        model_name: name.display().to_string(),
        mode: arguments.mode.clone(),
        settings,
        files: arguments.files.settings(),
        hindsight: arguments.hindsight.settings(),
        is_fixed: arguments.fixed_mode,
        offload,
        events: arguments.events.clone(),
    })
}

/// The model that is meant.
pub(crate) fn model(asked: &Path) -> Result<PacketModel, Failure> {
    read_model(asked).map_err(|error| match error {
        ReadError::Model(error) => error.into(),
        ReadError::File(_) => Failure::error(error),
    })
}

/// Says that frames of several packets will come, and what becomes of them.
fn tell_offloads(opened: &OpenSources, quiet: bool) {
    let OpenSources::Live(sources) = opened else { return };
    if quiet {
        return;
    }
    if let Some(name) = sources.first().map(LiveSource::name) {
        let offloads = capture::sys::interfaces::offloads(name).unwrap_or_default();
        if !offloads.is_empty() {
            let on = offloads.join(", ");
            eprintln!(
                "{name}: offloads are on ({on}), so one frame may hold many packets; it is \
                 classified as those packets, and stored as one"
            );
        }
    }
}
