//! `wirelens.classify_flows`.

use std::path::PathBuf;
use std::sync::Arc;

use classify::{Cascade, Options};
use packet::Span;
use pyo3::prelude::*;
use session::KEY_COUNTS;
use session::application::Application as _;
use session::choice::Choice as _;
use session::classify::{By, Classify, VerdictView, no_memory, read, wants_inner};
use session::reading::InputRequest;

use crate::alone::{self, RunRequest};
use crate::handed::BATCH_ROWS_MAX;
use crate::onnx::host;
use crate::options::{InputOptions, duration, refused, refused_name, seed, within};
use crate::reader::Reader;
use crate::refusal::{Kind, Refusal};
use crate::world::environment;

const CONSUMERS_MAX: usize = 256;
const WAITING_MAX: usize = 100_000_000;

/// What `classify_flows` takes besides inputs.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ClassifyOptions {
    model: PathBuf,
    every: Option<String>,
    unknown_below: Option<f64>,
    consumers: i64,
    waiting_max: i64,
    max_flows: i64,
    by: String,
    hosts_max: i64,
    batch_size: i64,
    seed: Option<i128>,
}

impl ClassifyOptions {
    fn options(&self, is_live: bool) -> Result<Options, Refusal> {
        let waiting_max = within("waiting_max", self.waiting_max, 0, WAITING_MAX)?;
        let consumer_count = within("consumers", self.consumers, 1, CONSUMERS_MAX)?;
        let (least, most) = KEY_COUNTS.into_inner();
        let hosts_max = within("hosts_max", self.hosts_max, least, most)?;
        Ok(Options { waiting_max, consumer_count, hosts_max, is_live, version: 0 })
    }

    /// What rows are of, where this model and the other options have such rows.
    fn by(&self, cascade: &Cascade) -> Result<By, Refusal> {
        let by = By::named(&self.by).map_err(|wanted| refused_name("by", &wanted))?;
        if by == By::Host {
            if let Some(every) = &self.every {
                return Err(refused("every", every, "not with by=\"host\"; leave one of them out"));
            }
            if cascade.memory().is_none() {
                return Err(refused("by", &self.by, &no_memory(cascade)));
            }
            if self.consumers > 1 {
                return Err(refused(
                    "consumers",
                    self.consumers,
                    "hosts are reported by one thread",
                ));
            }
        }
        Ok(by)
    }

    /// The probability below which flows are unknown, where one is asked for.
    fn with_unknown(&self, cascade: Cascade) -> Result<Cascade, Refusal> {
        match self.unknown_below {
            None => Ok(cascade),
            Some(below) if (0.0..=1.0).contains(&below) => Ok(cascade.with_unknown_below(below)),
            Some(below) => Err(refused("unknown_below", below, "wanted a probability from 0 to 1")),
        }
    }

    /// Windows are those of training.
    fn match_windows(&self, cascade: &Cascade) -> Result<(), Refusal> {
        let asked = self.every.as_deref().map(|every| duration("every", every)).transpose()?;
        let text = |span: Option<Span>| {
            span.map_or_else(|| String::from("None"), |span| format!("{}s", span.as_seconds_f64()))
        };
        if asked == cascade.every() {
            return if asked.is_some() && self.consumers > 1 {
                Err(refused("consumers", self.consumers, "windows are reported by one thread"))
            } else {
                Ok(())
            };
        }
        let wanted = match cascade.every() {
            None => {
                String::from("the model was trained on flows, each reported once; leave it out")
            }
            every @ Some(_) => {
                format!("the model was trained on windows; wanted `{}`", text(every))
            }
        };
        Err(refused("every", text(asked), &wanted))
    }
}

/// Starts asking a cascade about flows; the options are those of `wirelens.classify_flows`,
/// complete.
#[pyfunction]
pub(crate) fn classify_flows(
    py: Python<'_>,
    inputs: InputOptions,
    options: ClassifyOptions,
) -> PyResult<Reader> {
    let batch_rows = within("batch_size", options.batch_size, 1, BATCH_ROWS_MAX)?;
    let host = host(py)?;
    let read = py.detach(|| read(&options.model, &host, environment));
    let cascade = read.map_err(|error| Refusal::new(Kind::Model, error))?;
    let cascade = Arc::new(options.with_unknown(cascade)?);
    let by = options.by(&cascade)?;
    options.match_windows(&cascade)?;
    let (is_live, time) = (inputs.is_live(), inputs.time()?);
    let (least, most) = KEY_COUNTS.into_inner();
    let flow_count_max = within("max_flows", options.max_flows, least, most)?;
    let (answers, seed) = (options.options(is_live)?, seed(options.seed)?);
    let inputs = InputRequest { decapsulate: wants_inner(&cascade), ..inputs.request()? };
    let classify = Classify::shown_by(cascade, answers, flow_count_max, by, VerdictView::Nothing);
    let columns = classify.schema(inputs.asks_for_several());
    let asked = RunRequest { inputs, has_transport: true, time, seed, batch_rows };
    Reader::start_any(py, columns, is_live, move |control, outlet| {
        let answered = alone::run(classify, asked, control, outlet)?;
        Ok(answered.ending(Vec::new()))
    })
}
