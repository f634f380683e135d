//! `wirelens doctor`: what on this machine would stop or distort a capture.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use doctor::{DoctorRequest, Place};
use session::Host;
use session::run::{Plan, RunFolder};

use crate::failure::{Failure, Status};
use crate::run;

/// Arguments of `wirelens doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens doctor                      this machine, and every interface that is up
  sudo wirelens doctor -i eth0         one interface, with the rights of root
  wirelens doctor -c wirelens.toml     also interfaces, folders and budgets of a settings file

Each check is ok, unknown, a warning (packets, times or sizes may be wrong) or a problem (nothing
can be captured), with what was seen, what is wanted, and the command that changes it. Nothing is
changed. Exit status 1 if there is a problem. docs/guide/service.md

Time: a second each")]
pub struct DoctorArguments {
    /// Examine this interface; repeatable [default: those of the settings, or all that are up]
    #[arg(short = 'i', long = "interface", value_name = "NAME")]
    pub interface: Vec<String>,
    /// Also examine what these settings need, in TOML
    #[arg(short = 'c', long = "config", value_name = "FILE.toml")]
    pub config: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Runs `wirelens doctor`.
pub(crate) fn run(arguments: &DoctorArguments, host: &Host) -> Result<Status, Failure> {
    let interfaces = arguments.interface.clone();
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("wirelens"));
    let onnx_refusal = session::host::onnx_refusal(host, crate::environment);
    let mut asked = DoctorRequest { interfaces, program, onnx_refusal, ..DoctorRequest::default() };
    match &arguments.config {
        Some(path) => settings(&mut asked, path, host),
        None => asked.places.push(Place::here()),
    }
    let checks = doctor::examine(&asked);
    let mut out = std::io::stdout().lock();
    let text = match arguments.json {
        true => doctor::json(&checks),
        false => doctor::text(&checks, doctor::width_of(&out)),
    };
    out.write_all(text.as_bytes())?;
    Ok(if doctor::has_problem(&checks) { Status::Error } else { Status::Fine })
}

/// What a settings file adds.
fn settings(asked: &mut DoctorRequest, path: &Path, host: &Host) {
    let mistakes = match run::read_plan(path, host) {
        Ok(plan) => {
            of_plan(asked, &plan);
            Vec::new()
        }
        Err(found) => found.iter().map(ToString::to_string).collect(),
    };
    asked.settings = Some((path.to_owned(), mistakes));
}

fn of_plan(asked: &mut DoctorRequest, plan: &Plan) {
    if asked.interfaces.is_empty() {
        asked.interfaces.clone_from(&plan.input.interface);
    }
    let reads_elsewhere = plan.sensors.is_some() || plan.input.is_given();
    asked.listens_nowhere = asked.interfaces.is_empty() && reads_elsewhere;
    asked.has_filter = plan.input.filter.is_some();
    asked.has_taps = plan.has_taps();
    asked.places.extend(plan.folders().into_iter().map(|one| {
        let RunFolder { table, path, keep_bytes: budget, is_growing } = one;
        Place { what: format!("[{table}]"), path, budget, is_growing }
    }));
}
