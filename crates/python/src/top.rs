//! `wirelens.top`.

use arrow_schema::SchemaRef;
use cli::args::{KEY_COUNTS, SortBy};
use cli::duration::parse_duration;
use cli::reading::{Inputs, hash_seed};
use cli::summary::{self, StageSummary};
use cli::top::{By, Output, Row, Shown, TopRequest, compute, needs_transport, schema};
use pyo3::prelude::*;
use sink::arrow::Batches;

use crate::options::{InputOptions, refused, within};
use crate::reader::{Declared, Ending, Outlet, Reader};
use crate::refusal::{Kind, Refusal};

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
        let window = self.window.as_deref().map(|window| {
            parse_duration(window).map_err(|wanted| refused("window", window, &wanted))
        });
        let seed = self.seed.map(|seed| {
            u64::try_from(seed).map_err(|_| refused("seed", seed, "wanted a number of 64 bits"))
        });
        let (least, most) = KEY_COUNTS.into_inner();
        Ok(TopRequest {
            by: By::named(&self.by).map_err(|wanted| refused_name("by", &wanted))?,
            row_count_max: if rows == 0 { usize::MAX } else { rows },
            sort: SortBy::named(&self.sort).map_err(|wanted| refused_name("sort", &wanted))?,
            window: window.transpose()?,
            max_keys: within("max_keys", self.max_keys, least, most)?,
            seed: hash_seed(seed.transpose()?),
        })
    }
}

fn refused_name(name: &str, wanted: &str) -> Refusal {
    Refusal::new(Kind::Option, format_args!("{name}: {wanted}"))
}

/// Starts adding up; the options are those of `wirelens.top`, complete.
#[pyfunction]
pub(crate) fn top(py: Python<'_>, inputs: InputOptions, options: TopOptions) -> PyResult<Reader> {
    let request = options.request()?;
    let inputs = inputs.request()?;
    let columns = schema(request.by, request.window.is_some());
    let declared =
        columns.iter().map(|field| Declared { name: field.name, about: field.about }).collect();
    let arrow_schema: SchemaRef = Batches::new(columns).schema();
    Reader::start(py, arrow_schema, declared, move |control, outlet| {
        let inputs = Inputs::find(&inputs, needs_transport(request.by), control)?;
        let sources = inputs.open()?;
        outlet.opened()?;
        let mut handed = Handed { outlet, batches: Batches::new(columns) };
        let done = compute(&request, &inputs, sources, &mut handed)?;
        if let Some(reason) = done.received.refused_filter() {
            return Err(Refusal::new(Kind::Filter, reason));
        }
        done.received.account_for(&done.outcome)?;
        for batch in handed.batches.finish()? {
            outlet.batch(batch)?;
        }
        let stage = StageSummary {
            name: "top",
            outcome: &done.outcome,
            key: done.key,
            late: done.late,
            beyond_max_keys: done.refused.packets,
        };
        let summary = summary::lines(&inputs, &done.received, Some(&stage));
        Ok(Ending {
            received: done.received,
            outcome: Some(done.outcome),
            late: done.late,
            beyond_max_keys: done.refused.packets,
            summary,
        })
    })
}

/// Rows on their way to Python.
struct Handed<'a> {
    outlet: &'a Outlet,
    batches: Batches,
}

impl Output for Handed<'_> {
    type Error = Refusal;

    fn put<R: Row>(&mut self, shown: &Shown<'_, R>) -> Result<(), Refusal> {
        for columns in shown.columns() {
            self.batches.push(&columns?)?;
            for batch in self.batches.take_full() {
                self.outlet.batch(batch)?;
            }
        }
        Ok(())
    }
}
