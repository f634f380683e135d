//! `wirelens.flows`.

use std::path::PathBuf;

use pyo3::prelude::*;
use session::KEY_COUNTS;
use session::application::Application as _;
use session::choice::Choice as _;
use session::flows::{Flows, FlowsView, Names, Settings};

use crate::alone::{self, RunRequest};
use crate::handed::BATCH_ROWS_MAX;
use crate::options::{InputOptions, duration, refused_name, seed, within};
use crate::reader::Reader;
use crate::refusal::Refusal;

/// What `flows` takes besides inputs.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct FlowsOptions {
    idle_timeout: String,
    active_timeout: String,
    window: Option<String>,
    stats: bool,
    macs: bool,
    names: String,
    max_flows: i64,
    read_names: bool,
    hash_names: Option<PathBuf>,
    batch_size: i64,
    seed: Option<i128>,
}

impl FlowsOptions {
    fn settings(&self) -> Result<Settings, Refusal> {
        let (least, most) = KEY_COUNTS.into_inner();
        let window = self.window.as_deref().map(|window| duration("window", window));
        Ok(Settings {
            idle_timeout: duration("idle_timeout", &self.idle_timeout)?,
            active_timeout: duration("active_timeout", &self.active_timeout)?,
            window: window.transpose()?,
            max_flows: within("max_flows", self.max_flows, least, most)?,
            stats: self.stats,
            macs: self.macs,
            read_names: self.read_names,
            hash_names: self.hash_names.clone(),
            format: None,
            names: Names::named(&self.names).map_err(|wanted| refused_name("names", &wanted))?,
        })
    }
}

/// Starts following flows; the options are those of `wirelens.flows`, complete.
#[pyfunction]
pub(crate) fn flows(
    py: Python<'_>,
    inputs: InputOptions,
    options: FlowsOptions,
) -> PyResult<Reader> {
    let batch_rows = within("batch_size", options.batch_size, 1, BATCH_ROWS_MAX)?;
    let (is_live, time) = (inputs.is_live(), inputs.time()?);
    let inputs = inputs.request()?;
    let (flows, seed) =
        (Flows::shown_by(options.settings()?, FlowsView::Rows), seed(options.seed)?);
    let columns = flows.schema(inputs.asks_for_several());
    let asked = RunRequest { inputs, has_transport: true, time, seed, batch_rows };
    Reader::start_any(py, columns, is_live, move |control, outlet| {
        let answered = alone::run(flows, asked, control, outlet)?;
        Ok(answered.ending(Vec::new()))
    })
}
