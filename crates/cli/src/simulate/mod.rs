//! `wirelens simulate`: what hardware would do that is not at hand.

pub mod args;

use session::packetlog::{AnomalousFrames, SIMULATION, SimulationReport, Simulator};
use session::packetlog::{SimulationSettings, recommended_modes, simulate_workloads};

use crate::alone::{self, Sources, Ways};
use crate::args::{InputArguments, OutputFormat};
use crate::asked;
use crate::failure::{Failure, Status};
use crate::output::{self, Rows, Show};
use crate::packetlog::model;
use crate::summary;
use args::{PacketlogSimulation, SimulateArguments, SimulateCommand};

/// Runs `wirelens simulate`.
pub(crate) fn run(arguments: &SimulateArguments) -> Result<Status, Failure> {
    let SimulateCommand::Packetlog(arguments) = &arguments.command;
    let show = output::show(&arguments.output)?;
    let modes = recommended_modes(&arguments.mode)?;
    let settings = SimulationSettings { gbps: arguments.gbps.clone(), modes };
    if arguments.workload.is_empty() {
        return of_captures(arguments, settings, show);
    }
    let rows = rows(arguments, show)?;
    print(rows, &simulate_workloads(&settings, &arguments.workload, arguments.time)?)?;
    Ok(Status::Fine)
}

fn of_captures(
    arguments: &PacketlogSimulation,
    settings: SimulationSettings,
    show: Show,
) -> Result<Status, Failure> {
    let anomalous = arguments.anomalous.as_deref().map(AnomalousFrames::read).transpose()?;
    let is_judged = anomalous.is_some();
    let model = model(&arguments.model)?;
    let simulator = Simulator::new(settings, model, arguments.integer, anomalous)?;
    // What is simulated twice of the same packets is the same twice.
    let seed = arguments.input.seed.or(Some(1));
    let input = &InputArguments { seed, ..arguments.input.clone() };
    let typed = Sources { input, live: None, duration: None, pace: None };
    let mut inputs = asked::find(input, None, true)?;
    let captures = inputs.resolved.inputs.len();
    if is_judged && captures > 1 {
        return Err(Failure::usage(format_args!(
            "--anomalous: {captures} captures; wanted: one, whose frames the numbers count"
        )));
    }
    asked::spare(&inputs, [arguments.output.output.as_ref()])?;
    let opened = alone::open(&mut inputs, typed, &simulator)?;
    if input.check {
        return Ok(Status::Fine);
    }
    // Before the jail, in which no file is made.
    let rows = rows(arguments, show)?;
    let mut finished = alone::run(simulator, Ways::default(), typed, inputs, opened)?;
    let found = finished.closings.first_mut().and_then(|(_, closing)| closing.found.take());
    if let Some(report) = found.and_then(|found| found.downcast::<SimulationReport>().ok()) {
        print(rows, &report)?;
    }
    summary::finished(&finished, input.quiet)
}

/// The output for rows, if rows are what is shown.
fn rows(arguments: &PacketlogSimulation, show: Show) -> Result<Option<Rows>, Failure> {
    match show {
        Show::Rows(format) => output::create(&arguments.output, format, SIMULATION).map(Some),
        Show::Table => Ok(None),
    }
}

fn print(rows: Option<Rows>, report: &SimulationReport) -> Result<(), Failure> {
    let Some(mut rows) = rows else {
        return output::list(&report.shown().map_err(Failure::error)?, OutputFormat::Table);
    };
    rows.write(&report.columns().map_err(Failure::error)?)?;
    rows.finish()
}
