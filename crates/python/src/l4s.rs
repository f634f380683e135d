//! `wirelens.l4s`: the simulator.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use simulator::{Scenario, Writers};

use crate::refusal::{Kind, Refusal};

/// Simulates a scenario; its summary as JSON.
#[pyfunction]
#[pyo3(signature = (scenario, *, trace = None, journal = None))]
pub(crate) fn simulate(
    py: Python<'_>,
    scenario: &str,
    trace: Option<PathBuf>,
    journal: Option<PathBuf>,
) -> PyResult<String> {
    let refused = |error| Refusal::new(Kind::Option, format_args!("scenario: {error}"));
    let scenario: Scenario = scenario.parse().map_err(refused)?;
    let summary = py.detach(|| run(&scenario, trace.as_deref(), journal.as_deref()))?;
    Ok(summary)
}

fn run(
    scenario: &Scenario,
    trace: Option<&Path>,
    journal: Option<&Path>,
) -> Result<String, Refusal> {
    let (mut trace, mut journal) = (create(trace)?, create(journal)?);
    let writers = Writers {
        trace: trace.as_mut().map(|file| file as &mut dyn Write),
        journal: journal.as_mut().map(|file| file as &mut dyn Write),
    };
    let summary = simulator::run(scenario, writers)
        .map_err(|error| Refusal::new(Kind::Output, format_args!("trace: {error}")))?;
    Ok(summary.to_json())
}

fn create(path: Option<&Path>) -> Result<Option<BufWriter<File>>, Refusal> {
    let Some(path) = path else { return Ok(None) };
    let refused =
        |error: io::Error| Refusal::new(Kind::Output, format_args!("{}: {error}", path.display()));
    Ok(Some(BufWriter::new(File::create(path).map_err(refused)?)))
}
