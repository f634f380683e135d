//! `wirelens packetlog calibrate`: thresholds from traffic of this site.

use std::io::{self, Write as _};

use capture::live::LiveOptions;
use comfy_table::{CellAlignment, Table, presets};
use session::packetlog::settings::Settings;
use session::packetlog::{CalibrateSettings, CalibrationReport, Calibrator};
use session::reading::{InputRequest, Inputs, Interface};

use super::args::CalibrateArguments;
use super::record;
use crate::alone::{self, Sources, Ways};
use crate::failure::{Failure, Status};
use crate::top::grouped;
use crate::{asked, hints, interrupt, summary, table};

/// Runs `wirelens packetlog calibrate`.
pub(super) fn run(arguments: &CalibrateArguments) -> Result<Status, Failure> {
    let CalibrateArguments { input, interface, time, budget, output, force, .. } = arguments;
    let duration = interface.is_some().then_some(*time);
    let calibrator = Calibrator::new(CalibrateSettings {
        model: record::model(&arguments.model)?,
        budget: *budget,
        modes: Settings::read(arguments.settings.as_deref())?.modes,
        output: output.clone(),
        may_replace: *force,
        duration,
    })?;
    hints::refuse_captures(&input.expression)?;
    let interface = interface
        .clone()
        .map(|name| Interface { names: vec![name], options: LiveOptions::default() });
    let request = asked::request(input, None, !input.no_decap);
    let request = InputRequest { interface, ..request };
    let found = Inputs::find(&request, true, interrupt::control());
    let mut inputs = found.map_err(|error| asked::explain(error, &request))?;
    asked::spare(&inputs, [Some(output)])?;
    let typed = Sources { input, live: None, duration, pace: None };
    let opened = alone::open(&mut inputs, typed, &calibrator)?;
    if input.check {
        return Ok(Status::Fine);
    }
    let mut finished = alone::run(calibrator, Ways::default(), typed, inputs, opened)?;
    let found = finished.closings.first_mut().and_then(|(_, closing)| closing.found.take());
    let status = summary::finished(&finished, input.quiet)?;
    if let Some(report) = found.and_then(|found| found.downcast::<CalibrationReport>().ok()) {
        io::stdout().write_all(table::broken(&report.lines(budget.share())).as_bytes())?;
        writeln!(io::stdout(), "\n{}", volumes(&report))?;
        eprintln!("wrote {}", output.display());
    }
    Ok(status)
}

/// What each mode would have stored.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn volumes(report: &CalibrationReport) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["mode", "packets stored", "bytes stored", "share", "without calibration"]);
    let percent = |bytes: f64| format!("{:.2} %", bytes / report.wire_bytes.max(1) as f64 * 100.0);
    for volume in &report.volumes {
        table.add_row([
            volume.mode.clone(),
            grouped(volume.packets.round() as u64),
            grouped(volume.bytes.round() as u64),
            percent(volume.bytes),
            percent(volume.bytes_before),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table::fitted(&mut table, &["packets stored"])
}
