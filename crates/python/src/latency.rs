//! `wirelens.latency`.

use std::path::PathBuf;

use packet::Span;
use pyo3::prelude::*;
use session::KEY_COUNTS;
use session::application::Application as _;
use session::choice::Choice as _;
use session::duration::parse_offset;
use session::latency::{By, Latency, LatencySettings, LatencyView};

use crate::alone::{self, RunRequest};
use crate::handed::BATCH_ROWS_MAX;
use crate::options::{InputOptions, duration, refused_name, seed, within};
use crate::reader::Reader;
use crate::refusal::{Kind, Refusal};

/// What `latency` takes besides inputs.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct LatencyOptions {
    by: String,
    every: Option<String>,
    delayed_ack: Option<String>,
    sharp_change: String,
    sharp_share: f64,
    egress: Vec<PathBuf>,
    egress_offset: Option<String>,
    max_flows: i64,
    max_waiting: i64,
    batch_size: i64,
    seed: Option<i128>,
}

fn refused(refusal: session::refusal::Refusal) -> Refusal {
    Refusal::new(Kind::Option, refusal)
}

fn offset(text: &str) -> Result<Span, Refusal> {
    let wanted = |wanted| Refusal::new(Kind::Option, format_args!("egress_offset: {wanted}"));
    parse_offset(text).map_err(wanted)
}

impl LatencyOptions {
    fn settings(&self, is_live: bool) -> Result<LatencySettings, Refusal> {
        let (least, most) = KEY_COUNTS.into_inner();
        let every = self.every.as_deref().map(|every| duration("every", every));
        let delayed = self.delayed_ack.as_deref().map(|time| duration("delayed_ack", time));
        let settings = LatencySettings {
            by: By::named(&self.by).map_err(|wanted| refused_name("by", &wanted))?,
            every: every.transpose()?,
            delayed_ack: delayed.transpose()?,
            sharp_change: duration("sharp_change", &self.sharp_change)?,
            sharp_share: self.sharp_share,
            max_flows: within("max_flows", self.max_flows, least, most)?,
            max_waiting: within("max_waiting", self.max_waiting, least, most)?,
            egress: self.egress.clone(),
            egress_offset: self.egress_offset.as_deref().map(offset).transpose()?,
        };
        settings.check(is_live).map_err(refused)?;
        Ok(settings)
    }
}

/// Starts measuring; the options are those of `wirelens.latency`, complete.
#[pyfunction]
pub(crate) fn latency(
    py: Python<'_>,
    inputs: InputOptions,
    options: LatencyOptions,
) -> PyResult<Reader> {
    let batch_rows = within("batch_size", options.batch_size, 1, BATCH_ROWS_MAX)?;
    let (is_live, time) = (inputs.is_live(), inputs.time()?);
    let settings = options.settings(is_live)?;
    let inputs = inputs.request()?;
    let application =
        Latency::shown_by(settings, LatencyView::Nothing, &inputs.names).map_err(refused)?;
    let (columns, seed) = (application.schema(false), seed(options.seed)?);
    let asked = RunRequest { inputs, has_transport: true, time, seed, batch_rows };
    Reader::start_any(py, columns, is_live, move |control, outlet| {
        let answered = alone::run(application, asked, control, outlet)?;
        Ok(answered.ending(Vec::new()))
    })
}
