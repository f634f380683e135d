//! Frames through a cascade, on one thread or on one for each socket.

use std::sync::mpsc;
use std::sync::{Arc, mpsc::SyncSender};
use std::thread;

use classify::{
    Cascade, Classifier, Counts, Options, Standing, TakeVerdicts, Verdict, WindowClassifier,
};
use engine::flow::{EndedFlow, FlowFrames, FlowOptions, FramesDone, FromFrames, TakeEnded};
use engine::run::{Control, run_one};
use packet::{HashSeed, Source};

use super::outside::{Outside, Pace, Paced};
use crate::flows::Done;
use crate::reading::{Inputs, Opened, Received};

/// Pieces of verdicts that wait for the thread that writes them, of all sockets together.
const PIECES_WAITING_MAX: usize = 64;

/// What is asked of `classify`.
pub(crate) struct Request {
    pub(crate) cascade: Arc<Cascade>,
    pub(crate) options: Options,
    pub(crate) flow_count_max: usize,
    pub(crate) seed: HashSeed,
    pub(crate) pace: Option<f64>,
}

/// What the flow table says of ends is in the verdicts already.
struct Unwanted;

impl<S> TakeEnded<S> for Unwanted {
    const WANTS_ANY: bool = false;

    fn take(&mut self, _: &[EndedFlow<S>]) {}
}

/// Verdicts on their way to the thread that writes them.
struct Sent(SyncSender<Vec<Verdict>>);

impl TakeVerdicts for Sent {
    fn take(&mut self, verdicts: &[Verdict]) {
        // The writer leaves last; if it is gone the run is being abandoned.
        let _ = self.0.send(verdicts.to_vec());
    }
}

/// What one thread found.
pub(crate) type Part = (Done, Counts);

/// What is left of one run.
pub(crate) struct Served<T, E> {
    /// What became of packets, flows and verdicts; how frames were received is not told.
    pub(crate) part: Part,
    /// Who received the verdicts.
    pub(crate) output: T,
    /// Who received the flows.
    pub(crate) ended: E,
}

impl Request {
    /// Flows as they were in training.
    fn flows(&self, table_count: usize) -> FlowOptions {
        let timeouts = self.cascade.flows();
        FlowOptions {
            idle_timeout: timeouts.idle,
            active_timeout: timeouts.active,
            window: None,
            flow_count_max: self.flow_count_max / table_count.max(1),
        }
    }

    /// Runs a source to its end.
    pub(crate) fn run<T: TakeVerdicts, E: TakeEnded<Standing>>(
        &self,
        source: &mut impl Source,
        outside: Outside,
        table_count: usize,
        control: &Control,
        output: T,
        ended: E,
    ) -> Served<T, E> {
        let waiting_max = self.options.waiting_max.div_ceil(table_count.max(1));
        let options = Options { waiting_max, ..self.options };
        let (cascade, flows) = (Arc::clone(&self.cascade), self.flows(table_count));
        if let Some(features) = self.cascade.window().cloned() {
            let classifier = WindowClassifier::new(cascade, features, options, outside, output);
            let (done, keep, _) = self.through(source, flows, control, classifier, Unwanted);
            let (counts, output) = keep.finish();
            return Served { part: (done, counts), output, ended };
        }
        let classifier = Classifier::new(cascade, options, outside, output);
        let (done, keep, ended) = self.through(source, flows, control, classifier, ended);
        let (counts, output) = keep.finish();
        Served { part: (done, counts), output, ended }
    }

    /// Runs a source through a classifier to its end.
    fn through<K: FromFrames, E: TakeEnded<K::State>>(
        &self,
        source: &mut impl Source,
        flows: FlowOptions,
        control: &Control,
        classifier: K,
        ended: E,
    ) -> (Done, K, E) {
        let mut stage = FlowFrames::new(flows, self.seed, classifier, ended);
        run_one(source, &mut stage, control);
        let FramesDone { keep, output, outcome, clock, counts } = stage.finish();
        let received = Received::default();
        let (late, clock_steps) = (clock.late, clock.steps);
        (Done { outcome, received, late, clock_steps, counts }, keep, output)
    }
}

/// Reads everything, and hands verdicts to `output` as they come.
pub(crate) fn serve<T: TakeVerdicts>(
    request: &Request,
    inputs: &Inputs,
    opened: Opened,
    output: T,
) -> (Part, T) {
    match opened {
        Opened::Live(sources) if sources.len() > 1 => {
            side_by_side(request, inputs, sources, output)
        }
        opened => {
            let is_live = matches!(opened, Opened::Live(_));
            let mut source = inputs.in_order(opened);
            let bar = inputs.bar();
            let control = &inputs.control;
            let mut left = 0;
            let served = match request.pace {
                Some(factor) => {
                    let pace = Arc::new(Pace::new(factor));
                    let mut paced = Paced::new(&mut source, &pace, control);
                    let outside = Outside::Paced(Arc::clone(&pace));
                    let served = request.run(&mut paced, outside, 1, control, output, Unwanted);
                    left = paced.left();
                    served
                }
                None => {
                    let outside = if is_live { Outside::Live } else { Outside::None };
                    request.run(&mut source, outside, 1, control, output, Unwanted)
                }
            };
            drop(bar);
            let Served { part: (mut done, counts), output, .. } = served;
            done.received = source.received();
            let received = &mut done.received.report.received;
            *received = received.saturating_sub(left);
            ((done, counts), output)
        }
    }
}

/// Sockets that share a link, each with flows of its own: the kernel gives both directions of a
/// flow to one of them.
fn side_by_side<T: TakeVerdicts>(
    request: &Request,
    inputs: &Inputs,
    sources: Vec<capture::live::LiveSource>,
    mut output: T,
) -> (Part, T) {
    let count = sources.len();
    let (sender, receiver) = mpsc::sync_channel(PIECES_WAITING_MAX);
    let parts: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = sources
            .into_iter()
            .map(|mut source| {
                let output = Sent(sender.clone());
                scope.spawn(move || {
                    let control = &inputs.control;
                    let outside = Outside::Live;
                    let served =
                        request.run(&mut source, outside, count, control, output, Unwanted);
                    (served.part, source)
                })
            })
            .collect();
        drop(sender);
        receiver.iter().for_each(|verdicts: Vec<Verdict>| output.take(&verdicts));
        let finished = workers.into_iter().map(|worker| match worker.join() {
            Ok(finished) => finished,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        finished.collect()
    });
    let (mut whole, mut counts) = (Done::default(), Counts::default());
    let mut sources = Vec::with_capacity(count);
    for ((done, part_counts), source) in parts {
        whole.outcome.fold(&done.outcome);
        whole.late += done.late;
        whole.clock_steps += done.clock_steps;
        whole.counts.fold(&done.counts);
        counts.fold(&part_counts);
        sources.push(source);
    }
    whole.received = Received::of_live(sources);
    ((whole, counts), output)
}
