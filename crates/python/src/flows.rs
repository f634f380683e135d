//! `wirelens.flows`.

use engine::flow::{FlowOptions, FlowRecord, FlowStatistics};
use packet::Span;
use pyo3::prelude::*;
use session::KEY_COUNTS;
use session::captures::Captures;
use session::choice::Choice as _;
use session::flows::{Done, FlowsRequest, Laid, Layout, NEEDS, Names, Output, Rows, compute};
use session::reading::{Inputs, hash_seed};
use session::summary;

use crate::handed::{BATCH_ROWS_MAX, Handed};
use crate::options::{InputOptions, duration, refused_name, seed, within};
use crate::reader::{Ending, Reader};
use crate::refusal::{Kind, Refusal};
use crate::world::stop_after;

/// What `flows` takes besides inputs.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct FlowsOptions {
    idle_timeout: String,
    active_timeout: String,
    window: Option<String>,
    stats: bool,
    names: String,
    max_flows: i64,
    batch_size: i64,
    seed: Option<i128>,
}

impl FlowsOptions {
    fn window(&self) -> Result<Option<Span>, Refusal> {
        self.window.as_deref().map(|window| duration("window", window)).transpose()
    }

    fn request(&self) -> Result<FlowsRequest, Refusal> {
        let (least, most) = KEY_COUNTS.into_inner();
        let options = FlowOptions {
            idle_timeout: duration("idle_timeout", &self.idle_timeout)?,
            active_timeout: duration("active_timeout", &self.active_timeout)?,
            window: self.window()?,
            flow_count_max: within("max_flows", self.max_flows, least, most)?,
        };
        Ok(FlowsRequest { options, seed: hash_seed(seed(self.seed)?) })
    }

    fn layout(&self, has_capture: bool) -> Result<Layout, Refusal> {
        let names = Names::named(&self.names).map_err(|wanted| refused_name("names", &wanted))?;
        Ok(Layout { names, statistics: self.stats, window: self.window()?, has_capture })
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
    let (request, layout) = (options.request()?, options.layout(inputs.asks_for_several())?);
    let columns = layout.schema();
    Reader::start_any(py, columns, is_live, move |control, outlet| {
        let inputs = Inputs::find(&inputs, true, control)?;
        let opened = inputs.open_any(NEEDS, inputs.thread_count)?;
        let _alarm = time.map(|time| stop_after(time, &inputs.control));
        outlet.opened()?;
        let encode = Rows::new(layout, Captures::of(&inputs));
        let mut ended = Ended { encode, handed: Handed::new(outlet, columns, batch_rows) };
        let done = if layout.needs_statistics() {
            compute::<FlowStatistics, _>(&request, &inputs, opened, &mut ended)?
        } else {
            compute::<(), _>(&request, &inputs, opened, &mut ended)?
        };
        if let Some(reason) = done.received.refused_filter() {
            return Err(Refusal::new(Kind::Filter, reason));
        }
        done.received.account_for(&done.outcome)?;
        ended.handed.finish()?;
        Ok(ending(&inputs, done))
    })
}

fn ending(inputs: &Inputs, done: Done) -> Ending {
    let summary = summary::lines(inputs, &done.received, Some(&done.stage())) + &done.lines();
    Ending {
        received: done.received,
        refused: inputs.resolved.refused.clone(),
        outcome: Some(done.outcome),
        others: vec![("late", done.late), ("clock_steps", done.clock_steps)],
        ended: Some(done.counts),
        summary,
    }
}

/// Flows on their way to Python.
struct Ended {
    encode: Rows,
    handed: Handed,
}

impl<S: Laid> Output<S> for Ended {
    type Error = Refusal;

    fn put(&mut self, flows: &[(FlowRecord, S)]) -> Result<(), Refusal> {
        let Self { encode, handed } = self;
        encode.put(flows, |columns| handed.push(columns?))
    }
}
