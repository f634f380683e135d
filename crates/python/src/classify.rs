//! `wirelens.classify_flows`.

use std::path::PathBuf;
use std::sync::Arc;

use classify::{Cascade, Cause, Counts, Options};
use packet::Span;
use pyo3::prelude::*;
use session::KEY_COUNTS;
use session::classify::rows::{self, Found, RowsRequest};
use session::classify::{needs, read, wants_inner};
use session::reading::{InputRequest, Inputs, hash_seed};

use crate::handed::{BATCH_ROWS_MAX, Handed};
use crate::onnx::host;
use crate::options::{InputOptions, duration, refused, seed, within};
use crate::reader::{Ending, Reader};
use crate::refusal::{Kind, Refusal};
use crate::world::{CLOCK, environment, stop_after};

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
    batch_size: i64,
    seed: Option<i128>,
}

impl ClassifyOptions {
    fn request(&self, cascade: Arc<Cascade>) -> Result<RowsRequest, Refusal> {
        let (least, most) = KEY_COUNTS.into_inner();
        let consumers = within("consumers", self.consumers, 1, CONSUMERS_MAX)?;
        let options = Options {
            waiting_max: within("waiting_max", self.waiting_max, 0, WAITING_MAX)?,
            consumer_count: consumers,
            is_live: false,
        };
        Ok(RowsRequest {
            cascade,
            options,
            flow_count_max: within("max_flows", self.max_flows, least, most)?,
            seed: hash_seed(seed(self.seed)?),
            clock: CLOCK,
        })
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
                Err(refused("consumers", self.consumers, "windows are told by one thread"))
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
    options.match_windows(&cascade)?;
    let (is_live, time) = (inputs.is_live(), inputs.time()?);
    let mut request = options.request(Arc::clone(&cascade))?;
    request.options.is_live = is_live;
    let inputs = InputRequest { decapsulate: wants_inner(&cascade), ..inputs.request()? };
    let columns = cascade.schema(inputs.asks_for_several());
    Reader::start_any(py, columns, is_live, move |control, outlet| {
        let inputs = Inputs::find(&inputs, true, control)?;
        let opened = inputs.open_any(needs(&cascade), inputs.thread_count)?;
        let _alarm = time.map(|time| stop_after(time, &inputs.control));
        outlet.opened()?;
        let mut handed = Handed::new(outlet, columns, batch_rows);
        let found = rows::compute(request, &inputs, opened, |rows| handed.push(rows))?;
        if let Some(reason) = found.done.received.refused_filter() {
            return Err(Refusal::new(Kind::Filter, reason));
        }
        found.done.received.account_for(&found.done.outcome)?;
        handed.finish()?;
        ending(&cascade, &inputs, found)
    })
}

fn ending(cascade: &Cascade, inputs: &Inputs, found: Found) -> Result<Ending, Refusal> {
    // A run that was stopped half-way has flows that are not decided, and nobody who listens.
    let summary =
        found.lines(cascade, inputs).map_err(|error| Refusal::new(Kind::Internal, error))?;
    let Found { done, counts } = found;
    let mut others = vec![("late", done.late), ("clock_steps", done.clock_steps)];
    others.extend(odd(&counts));
    Ok(Ending {
        received: done.received,
        refused: inputs.resolved.refused.clone(),
        outcome: Some(done.outcome),
        others,
        ended: Some(done.counts),
        summary,
    })
}

/// Flows that are unlike what most models are made for, and those that a limit touched.
fn odd(counts: &Counts) -> [(&'static str, u64); 7] {
    [
        ("verdicts", counts.decided()),
        ("unknown", counts.unknown.total()),
        ("neither_tcp_nor_udp", counts.other_protocols),
        ("cut_headers", counts.cut_headers),
        ("other_segmentation", counts.other_segmentation),
        ("no_room_to_wait", counts.of(Cause::Full)),
        ("no_room_to_follow", counts.unfollowed),
    ]
}
