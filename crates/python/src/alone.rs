//! A question that one application answers: a session of it alone, whose rows a reader hands to
//! Python.

use std::sync::Arc;

use engine::run::Control;
use packet::Span;
use session::application::{Application, Closing};
use session::outlet::RowsError;
use session::reading::{InputRequest, Inputs, ReceiveOutcome};
use session::run::{AppPlan, Doors, Jail, Plan, RunError, Session, open_alone};
use session::summary;

use crate::handed::{self, BatchSender};
use crate::reader::{Ending, Outlet};
use crate::refusal::{Kind, Refusal};
use crate::run::stdout;
use crate::world::{CLOCK, stop_after};

/// What was asked, besides the settings of the application.
pub(crate) struct RunRequest {
    pub(crate) inputs: InputRequest,
    /// Whether transport headers are looked at.
    pub(crate) has_transport: bool,
    /// How long an interface is listened on.
    pub(crate) time: Option<Span>,
    pub(crate) seed: Option<u64>,
    pub(crate) batch_rows: usize,
}

/// What is left of it.
pub(crate) struct RunAnswer {
    name: &'static str,
    inputs: Inputs,
    received: ReceiveOutcome,
    pub(crate) closing: Closing,
}

/// Runs an application to the end of what is read.
pub(crate) fn run<A: Application>(
    application: A,
    asked: RunRequest,
    control: Arc<Control>,
    outlet: &Outlet,
) -> Result<RunAnswer, Refusal> {
    let RunRequest { inputs: request, has_transport, time, seed, batch_rows } = asked;
    let mut inputs = Inputs::find(&request, has_transport, control)?;
    let opened = open_alone(&mut inputs, &application, request.thread_count.is_some())?;
    let columns = application.schema(request.asks_for_several());
    let mut planned = AppPlan::asked(Box::new(application));
    planned.door = Some(Box::new(BatchSender::new(outlet, columns, batch_rows)));
    let plan = Plan::alone(planned, request, seed);
    let doors = Doors { clock: CLOCK, stdout, tell: None, jail: Jail::Foreign, warn: |_| {} };
    let mut alarm = None;
    let session = Session::begin(plan, inputs, opened, doors, |_, inputs| {
        alarm = time.map(|time| stop_after(time, &inputs.control));
    });
    let session = session.map_err(refused)?;
    outlet.opened()?;
    let mut finished = session.run(|| None, |_| {}).map_err(refused)?;
    drop(alarm);
    if let Some(reason) = finished.received.refused_filter() {
        return Err(Refusal::new(Kind::Filter, reason));
    }
    finished.account()?;
    outlet.drop_rows(finished.dropped.iter().map(|(_, count)| count).sum());
    let Some((name, closing)) = finished.closings.pop() else {
        return Err(Refusal::new(Kind::Internal, "the run has no result of its application"));
    };
    Ok(RunAnswer { name, inputs: finished.inputs, received: finished.received, closing })
}

impl RunAnswer {
    /// What the reader reports at its end: `first` before what the application has counted.
    pub(crate) fn ending(self, first: Vec<(&'static str, u64)>) -> Ending {
        let Self { name, inputs, received, closing } = self;
        let stage = closing.stage(name);
        let summary = summary::lines(&inputs, &received, stage.as_ref()) + &closing.lines;
        let Closing { outcome, counts, ended, .. } = closing;
        let others = first.into_iter().chain(counts).collect();
        let refused = inputs.resolved.refused;
        Ending { received, refused, outcome: Some(outcome), others, ended, summary }
    }
}

fn refused(error: RunError) -> Refusal {
    match error {
        RunError::Rows(_, RowsError::Write(error)) => handed::refused(error),
        // The only one; what it meets while it runs is none of the user's faults.
        RunError::Application(_, refusal) => Refusal::new(Kind::Internal, refusal),
        error => error.into(),
    }
}
