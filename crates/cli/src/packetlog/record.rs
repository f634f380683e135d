//! `wirelens packetlog record`: packets into a log.

use std::path::Path;

use files::FileMode;
use session::packetlog::settings::Settings;
use session::packetlog::{Ask, Offload, PacketModel, Packetlog, ReadError};
use session::packetlog::{offloads_line, read_calibration, read_model};
use session::reading::OpenSources;

use super::args::RecordArguments;
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
    let packetlog = Packetlog::of(ask);
    let opened = alone::open(&mut inputs, typed, &packetlog)?;
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    let (ways, quiet) = (Ways::default(), arguments.input.quiet);
    let last = |opened: &OpenSources| {
        if let Some(line) = offloads_line(opened).filter(|_| !quiet) {
            eprintln!("{line}");
        }
        Ok(())
    };
    let finished = alone::run_after(packetlog, ways, typed, inputs, opened, last)?;
    summary::finished(&finished, quiet)
}

/// What was typed.
fn ask(arguments: &RecordArguments) -> Result<Ask, Failure> {
    let settings = Settings::read(arguments.settings.as_deref())?;
    let offload = arguments.offload.map(|means| Offload::new(means, arguments.mirror)).transpose();
    let offload = offload.map_err(|why| Failure::usage(format_args!("--offload {why}")))?;
    let name = Offload::model(offload.as_ref(), &arguments.model);
    let model = model(name)?;
    let calibration = arguments.calibration.as_deref();
    let calibration = calibration.map(|path| read_calibration(path, &model)).transpose();
    let calibration = calibration.map_err(|why| Failure::usage(format!("--calibration: {why}")))?;
    Ok(Ask {
        folder: arguments.folder.clone(),
        model,
        calibration,
        model_name: name.display().to_string(),
        mode: arguments.mode.clone(),
        settings,
        files: arguments.files.settings(),
        hindsight: arguments.hindsight.settings(),
        is_fixed: arguments.fixed_mode,
        offload,
        events: arguments.events.clone(),
        place: Default::default(),
    })
}

/// The model that is meant.
pub(crate) fn model(asked: &Path) -> Result<PacketModel, Failure> {
    read_model(asked).map_err(|error| match error {
        ReadError::Model(error) => error.into(),
        ReadError::File(_) => Failure::error(error),
    })
}
