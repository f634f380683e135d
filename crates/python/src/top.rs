//! `wirelens.top`.

use std::path::PathBuf;

use pyo3::prelude::*;
use session::KEY_COUNTS;
use session::choice::Choice as _;
use session::top::{By, Settings, SortBy, Top, needs_transport, schema};

use crate::alone::{self, RunRequest};
use crate::options::{InputOptions, duration, refused_name, seed, within};
use crate::reader::Reader;
use crate::refusal::Refusal;

/// Rows of a batch: all are collected, so batches may be large.
const BATCH_ROWS: usize = 1 << 17;

/// What `top` takes besides inputs.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct TopOptions {
    by: String,
    n: i64,
    sort: String,
    window: Option<String>,
    max_keys: i64,
    hash_names: Option<PathBuf>,
    seed: Option<i128>,
}

impl TopOptions {
    fn settings(&self) -> Result<Settings, Refusal> {
        let window = self.window.as_deref().map(|window| duration("window", window));
        let (least, most) = KEY_COUNTS.into_inner();
        Ok(Settings {
            rows: within("n", self.n, 0, usize::MAX)?,
            by: By::named(&self.by).map_err(|wanted| refused_name("by", &wanted))?,
            sort: SortBy::named(&self.sort).map_err(|wanted| refused_name("sort", &wanted))?,
            window: window.transpose()?,
            max_keys: within("max_keys", self.max_keys, least, most)?,
            hash_names: self.hash_names.clone(),
        })
    }
}

/// Starts adding up; the options are those of `wirelens.top`, complete.
#[pyfunction]
pub(crate) fn top(py: Python<'_>, inputs: InputOptions, options: TopOptions) -> PyResult<Reader> {
    let (settings, seed) = (options.settings()?, seed(options.seed)?);
    let (is_live, time) = (inputs.is_live(), inputs.time()?);
    let (by, inputs) = (settings.by, inputs.request()?);
    let columns = schema(by, settings.window.is_some());
    let has_transport = needs_transport(by);
    let asked = RunRequest { inputs, has_transport, time, seed, batch_rows: BATCH_ROWS };
    Reader::start_any(py, columns, is_live, move |control, outlet| {
        let answered = alone::run(Top::shown_by(settings, None), asked, control, outlet)?;
        let closing = &answered.closing;
        let first = vec![("late", closing.late), ("beyond_max_keys", closing.beyond_max_keys)];
        Ok(answered.ending(first))
    })
}
