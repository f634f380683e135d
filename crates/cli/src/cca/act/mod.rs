//! What is typed of acting on a queue, and where its events go; what is done is the session's.

pub(super) mod args;

use std::io::{self, IsTerminal as _, Write};

use files::FileMode;
use session::cca::act::{self, Act, ActError, ActSettings, By, Machine};

use super::device;
use crate::clock::CLOCK;
use crate::environment;
use crate::failure::{Failure, Status};
use args::ActArguments;

/// Who names controls for `--act`, where it is not the model; before anything is touched.
pub(super) fn names(arguments: &ActArguments, has_model: bool) -> Result<Option<By>, Failure> {
    let names = act::names(arguments.act_by.as_deref(), arguments.act.is_some(), has_model);
    names.map_err(Failure::from)
}

/// Cuts the queue into classes, if that is asked for.
pub(super) fn begin(
    arguments: &ActArguments,
    by: Option<By>,
    controls: &[String],
    has_view: bool,
) -> Result<Option<Act>, Failure> {
    let Some(name) = &arguments.act else { return Ok(None) };
    let device = device(name)?;
    let settings = ActSettings {
        rate_bit: arguments.act_rate,
        buffer_bytes: arguments.act_buffer,
        after_periods: arguments.act_after,
        hold: arguments.act_hold,
        is_dry: arguments.act_dry_run,
    };
    let machine = if settings.is_dry {
        Machine::look_at(&device, environment)
    } else {
        Machine::take(&device, environment)?
    };
    let out = events(arguments, has_view)?;
    Ok(Some(Act::begin(machine, &settings, (by, controls), out, CLOCK)?))
}

/// Events go to a file, or to standard error; but not over a view that a person looks at.
fn events(
    arguments: &ActArguments,
    has_view: bool,
) -> Result<Option<Box<dyn Write + Send>>, Failure> {
    let Some(path) = &arguments.act_events else {
        let is_told = !(has_view && io::stderr().is_terminal());
        return Ok(is_told.then(|| Box::new(StandardError) as Box<dyn Write + Send>));
    };
    let file = files::append(path, FileMode::asked());
    let file = file.map_err(|error| Failure::error(format_args!("{}: {error}", path.display())))?;
    Ok(Some(Box::new(file)))
}

/// Standard error; if it is closed, this cannot be reported.
struct StandardError;

impl Write for StandardError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = io::stderr().lock().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// In the words of the arguments.
impl From<ActError> for Failure {
    fn from(error: ActError) -> Self {
        match error {
            ActError::Unnamed => Self::usage(
                "--act: nothing identifies congestion controls; give --model DIR, or \
                             --act-by FILE",
            ),
            ActError::Names(said) => Self::usage(said),
            ActError::RateOfTbf { device, rate_bit } => Self::usage(format_args!(
                "--act-rate: {device} has a tbf of {rate_bit}bit, which stays; leave --act-rate out"
            )),
            ActError::RateUnknown { device, kind: Some(kind) } => Self::usage(format_args!(
                "{device}: its queueing discipline does not show the rate of the link ({kind}); \
                 give --act-rate, slightly below the rate of the link, or the queue forms \
                 elsewhere"
            )),
            ActError::RateUnknown { device, kind: None } => {
                Self::usage(format_args!("{device}: give --act-rate"))
            }
            ActError::Operators { device, kind, handle } => Self::error(format_args!(
                "{device}: it has a queueing discipline already, {kind} {handle}, which --act \
                 cannot restore; wanted: the kernel's default, or a tbf with a plain queue of the \
                 tbf's limit. If you do not need it, remove it: tc qdisc del dev {device} root"
            )),
            ActError::NoTc(error) if error.kind() == io::ErrorKind::NotFound => Self::error(
                "tc: not found, and --act changes queues by it; try: apt-get install iproute2",
            ),
            ActError::Events(error) => Self::error(format_args!("--act-events: {error}")),
            error => Self::error(error),
        }
    }
}

/// Runs `wirelens cca --act-undo`.
pub(super) fn undo(name: &str, quiet: bool) -> Result<Status, Failure> {
    let done = Machine::take(&device(name)?, environment)?.undo()?;
    if !quiet {
        match done {
            Some(command) => eprintln!("{name}: restored: tc {command}"),
            None => eprintln!("{name}: nothing left by --act"),
        }
    }
    Ok(Status::Fine)
}
