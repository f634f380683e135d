//! `wirelens simulate`: what hardware would do that is not at hand.

pub mod args;

use session::packetlog::{SIMULATION, SimulationReport, Simulator, simulate_workloads};
use session::packetlog::{SimulationSettings, recommended_modes};

use crate::alone::{self, Sources, Ways};
use crate::args::OutputFormat;
use crate::asked;
use crate::failure::{Failure, Status};
use crate::output::{self, Show};
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
    let report = simulate_workloads(&settings, &arguments.workload, arguments.time)?;
    print(arguments, show, &report)?;
    Ok(Status::Fine)
}

fn of_captures(
    arguments: &PacketlogSimulation,
    settings: SimulationSettings,
    show: Show,
) -> Result<Status, Failure> {
    let integer = arguments.integer.then(Default::default);
    let simulator = Simulator::new(settings, model(&arguments.model)?, integer)?;
    let input = &arguments.input;
    let typed = Sources { input, live: None, duration: None, pace: None };
    let mut inputs = asked::find(input, None, true)?;
    asked::spare(&inputs, [arguments.output.output.as_ref()])?;
    let opened = alone::open(&mut inputs, typed, &simulator)?;
    if input.check {
        return Ok(Status::Fine);
    }
    let mut finished = alone::run(simulator, Ways::default(), typed, inputs, opened)?;
    let found = finished.closings.first_mut().and_then(|(_, closing)| closing.found.take());
    if let Some(report) = found.and_then(|found| found.downcast::<SimulationReport>().ok()) {
        print(arguments, show, &report)?;
    }
    summary::finished(&finished, input.quiet)
}

fn print(
    arguments: &PacketlogSimulation,
    show: Show,
    report: &SimulationReport,
) -> Result<(), Failure> {
    let Show::Rows(format) = show else {
        return output::list(&report.shown().map_err(Failure::error)?, OutputFormat::Table);
    };
    let mut rows = output::create(&arguments.output, format, SIMULATION)?;
    rows.write(&report.columns().map_err(Failure::error)?)?;
    rows.finish()
}
