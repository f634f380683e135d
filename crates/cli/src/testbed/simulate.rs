//! `wirelens testbed simulate`: a scenario in, a summary out.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;

use l4s::TuningSettings;
use session::{Host, predictor};
use simulator::{Predicting, Scenario, Writers};
use sink::{Existing, OutputFile};

use super::args::SimulateArguments;
use super::say;
use crate::environment;
use crate::failure::{Failure, Status};

pub(super) fn run(arguments: &SimulateArguments, host: &Host) -> Result<Status, Failure> {
    let SimulateArguments { output, journal, force, .. } = arguments;
    let scenario = read(arguments)?;
    let predicting = predicting(arguments, host)?;
    let (mut trace, mut journal) =
        (create(output.as_deref(), *force)?, create(journal.as_deref(), *force)?);
    let writers = Writers {
        trace: trace.as_mut().map(|file| file as &mut dyn Write),
        journal: journal.as_mut().map(|file| file as &mut dyn Write),
    };
    let summary = simulator::run(&scenario, writers, predicting).map_err(|error| {
        // What is asked for that cannot be has its own kind among errors of writing.
        let is_asked = error.kind() == ErrorKind::InvalidInput;
        if is_asked { Failure::usage(error) } else { Failure::error(error) }
    })?;
    for file in [trace, journal].into_iter().flatten() {
        let file = file.into_inner().map_err(Failure::error)?;
        file.finish().map_err(Failure::error)?;
    }
    say(&summary.to_json())?;
    Ok(Status::Fine)
}

fn predicting(arguments: &SimulateArguments, host: &Host) -> Result<Option<Predicting>, Failure> {
    let Some(folder) = &arguments.model else { return Ok(None) };
    let model = predictor::read(folder, host, environment).map_err(Failure::error)?;
    let tuning = arguments.tune.map(|interval| TuningSettings {
        interval_ns: interval.as_ns().unsigned_abs(),
        ..TuningSettings::default()
    });
    Ok(Some(Predicting { model: Arc::new(model), tuning }))
}

fn read(arguments: &SimulateArguments) -> Result<Scenario, Failure> {
    let name = arguments.scenario.display();
    let mut text = fs::read_to_string(&arguments.scenario)
        .map_err(|error| Failure::error(format_args!("{name}: {error}")))?;
    let lines = text.lines().count();
    for setting in &arguments.set {
        let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{key} {value}");
    }
    text.parse().map_err(|error: simulator::ScenarioError| match error.line {
        line if line > lines => Failure::usage(format_args!("--set: {}", error.reason)),
        _ => Failure::error(format_args!("{name}: {error}")),
    })
}

fn create(path: Option<&Path>, force: bool) -> Result<Option<BufWriter<OutputFile>>, Failure> {
    let Some(path) = path else { return Ok(None) };
    let existing = if force { Existing::Replace } else { Existing::Refuse };
    let file = OutputFile::create(path, existing).map_err(Failure::error)?;
    Ok(Some(BufWriter::new(file)))
}
