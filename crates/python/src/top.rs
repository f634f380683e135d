//! `wirelens.top`.

use pyo3::prelude::*;
use session::KEY_COUNTS;
use session::choice::Choice as _;
use session::reading::{Inputs, hash_seed};
use session::summary::{self, StageSummary};
use session::top::{
    By, Output, Row, Shown, SortBy, TopRequest, compute, needs, needs_transport, schema,
};

use crate::handed::Handed;
use crate::options::{InputOptions, duration, refused_name, seed, within};
use crate::reader::{Ending, Reader};
use crate::refusal::{Kind, Refusal};
use crate::world::stop_after;

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
    seed: Option<i128>,
}

impl TopOptions {
    fn request(&self) -> Result<TopRequest, Refusal> {
        let rows = within("n", self.n, 0, usize::MAX)?;
        let window = self.window.as_deref().map(|window| duration("window", window));
        let (least, most) = KEY_COUNTS.into_inner();
        Ok(TopRequest {
            by: By::named(&self.by).map_err(|wanted| refused_name("by", &wanted))?,
            row_count_max: if rows == 0 { usize::MAX } else { rows },
            sort: SortBy::named(&self.sort).map_err(|wanted| refused_name("sort", &wanted))?,
            window: window.transpose()?,
            max_keys: within("max_keys", self.max_keys, least, most)?,
            seed: hash_seed(seed(self.seed)?),
        })
    }
}

/// Starts adding up; the options are those of `wirelens.top`, complete.
#[pyfunction]
pub(crate) fn top(py: Python<'_>, inputs: InputOptions, options: TopOptions) -> PyResult<Reader> {
    let request = options.request()?;
    let (is_live, time) = (inputs.is_live(), inputs.time()?);
    let inputs = inputs.request()?;
    let columns = schema(request.by, request.window.is_some());
    Reader::start_any(py, columns, is_live, move |control, outlet| {
        let inputs = Inputs::find(&inputs, needs_transport(request.by), control)?;
        let sources = inputs.open_any(needs(request.by), inputs.thread_count)?;
        let _alarm = time.map(|time| stop_after(time, &inputs.control));
        outlet.opened()?;
        let mut handed = Handed::new(outlet, columns, BATCH_ROWS);
        let done = compute(&request, &inputs, sources, &mut handed)?;
        if let Some(reason) = done.received.refused_filter() {
            return Err(Refusal::new(Kind::Filter, reason));
        }
        done.received.account_for(&done.outcome)?;
        handed.finish()?;
        let stage = StageSummary {
            name: "top",
            outcome: &done.outcome,
            key: done.key,
            late: done.late,
            beyond_max_keys: done.refused.packets,
        };
        let summary = summary::lines(&inputs, &done.received, Some(&stage)) + &done.lines();
        Ok(Ending {
            received: done.received,
            refused: inputs.resolved.refused,
            outcome: Some(done.outcome),
            others: vec![
                ("late", done.late),
                ("beyond_max_keys", done.refused.packets),
                ("forgotten_flows", done.forgotten),
            ],
            ended: None,
            summary,
        })
    })
}

impl Output for Handed<'_> {
    type Error = Refusal;

    fn put<R: Row>(&mut self, shown: &Shown<'_, R>) -> Result<(), Refusal> {
        shown.columns().into_iter().try_for_each(|columns| self.push(&columns?))
    }
}
