//! Verdicts as rows, for those who take them as they come: the package for Python.

use std::sync::Arc;

use classify::{Cascade, Counts, Options, TakeVerdicts, Verdict, columns};
use engine::columns::{Columns, RowRefused};
use engine::run::Control;
use packet::HashSeed;

use super::serve::{self, Request};
use super::{ROWS_PER_PIECE, VerdictsMissing, account_for, summary};
use crate::captures::Captures;
use crate::clock::Clock;
use crate::done::Done;
use crate::reading::{Inputs, Opened};
use crate::summary::StageSummary;

/// What is asked.
#[derive(Debug)]
pub struct RowsRequest {
    /// By whom.
    pub cascade: Arc<Cascade>,
    /// How many flows may wait, and who answers.
    pub options: Options,
    /// Flows kept at most.
    pub flow_count_max: usize,
    /// Spreads flows.
    pub seed: HashSeed,
    /// What verdicts are timed by.
    pub clock: Clock,
}

/// What became of packets, flows and verdicts.
pub struct Found {
    /// Of packets and flows.
    pub done: Done,
    /// Of verdicts.
    pub counts: Counts,
}

/// Asks about all flows, and hands rows over as verdicts come.
///
/// # Errors
/// Those of `put`, after which nothing more is read; a value that its column does not take.
pub fn compute<E: From<RowRefused>>(
    request: RowsRequest,
    inputs: &Inputs,
    opened: Opened,
    put: impl FnMut(&Columns) -> Result<(), E>,
) -> Result<Found, E> {
    let RowsRequest { cascade, options, flow_count_max, seed, clock } = request;
    let output = Rows {
        columns: Columns::new(cascade.schema(inputs.asks_for_several)),
        captures: Captures::of(inputs),
        cascade: Arc::clone(&cascade),
        put,
        control: &inputs.control,
        failure: None,
    };
    let request = Request { cascade, options, flow_count_max, seed, pace: None, clock };
    let ((done, counts), output) = serve::serve(&request, inputs, opened, output);
    output.failure.map_or(Ok(Found { done, counts }), Err)
}

impl Found {
    /// The closing lines of the command.
    ///
    /// # Errors
    /// [`VerdictsMissing`]: a flow without a verdict.
    pub fn lines(&self, cascade: &Cascade, inputs: &Inputs) -> Result<String, VerdictsMissing> {
        let Self { done, counts } = self;
        account_for(cascade, done, counts)?;
        let stage = StageSummary { name: "classify", ..done.stage() };
        let received = crate::summary::lines(inputs, &done.received, Some(&stage));
        Ok(received + &done.lines() + &summary::lines(cascade, counts))
    }
}

/// Puts verdicts in the place of what was there.
///
/// # Errors
/// [`RowRefused`] where columns hold over 4 GiB of text.
pub fn fill(
    into: &mut Columns,
    cascade: &Cascade,
    captures: &Captures,
    verdicts: &[Verdict],
) -> Result<(), RowRefused> {
    into.clear();
    verdicts.iter().try_for_each(|verdict| {
        columns::push(into, cascade, verdict, captures.value(verdict.input))
    })
}

/// Verdicts on their way out.
struct Rows<'a, P, E> {
    cascade: Arc<Cascade>,
    columns: Columns,
    captures: Captures,
    put: P,
    control: &'a Control,
    failure: Option<E>,
}

impl<P, E> TakeVerdicts for Rows<'_, P, E>
where
    E: From<RowRefused>,
    P: FnMut(&Columns) -> Result<(), E>,
{
    fn take(&mut self, verdicts: &[Verdict]) {
        let Self { cascade, columns, captures, put, .. } = self;
        let mut pieces = verdicts.chunks(ROWS_PER_PIECE).take_while(|_| self.failure.is_none());
        let taken = pieces.try_for_each(|piece| {
            fill(columns, cascade, captures, piece)?;
            put(columns)
        });
        if let Err(failure) = taken {
            self.failure = Some(failure);
            self.control.fail();
        }
    }
}
