//! Frames through a cascade, on one thread or on one for each socket.

use std::sync::mpsc;
use std::sync::{Arc, mpsc::SyncSender};
use std::thread;

use classify::{
    Cascade, Classifier, Counts, Options, Standing, TakeVerdicts, Verdict, WindowClassifier,
};
use engine::flow::{FlowFrames, FlowOptions, FramesDone, FromFrames, PerFlow, TakeEnded, With};
use engine::run::{Control, run_one};
use packet::{HashSeed, Source};

use crate::clock::Clock;
use crate::done::Done;
use crate::outside::{Outside, Pace, Paced, read_ahead};
use crate::reading::{Inputs, Opened, Received};

/// Pieces of verdicts that wait for the thread that writes them, of all sockets together.
const PIECES_WAITING_MAX: usize = 64;

/// Batches that are read ahead of a replay.
const PIECES_AHEAD_MAX: usize = 32;

/// What is asked of `classify`.
pub struct Request {
    /// By whom.
    pub cascade: Arc<Cascade>,
    /// How many flows may wait, and who answers.
    pub options: Options,
    /// Flows kept at most.
    pub flow_count_max: usize,
    /// Spreads flows.
    pub seed: HashSeed,
    /// So many times as fast as the capture was, where that is asked for.
    pub pace: Option<f64>,
    /// What verdicts and replays are timed by.
    pub clock: Clock,
}

/// Verdicts on their way to the thread that writes them.
struct Sent(SyncSender<Vec<Verdict>>);

impl TakeVerdicts for Sent {
    fn take(&mut self, verdicts: &[Verdict]) {
        // The writer leaves last; if it is gone the run is being abandoned.
        let _ = self.0.send(verdicts.to_vec());
    }
}

/// Verdicts are written with their flows.
struct Unwanted;

impl TakeVerdicts for Unwanted {
    fn take(&mut self, _: &[Verdict]) {}
}

/// What one thread found.
pub type Part = (Done, Counts);

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
    fn run<T: TakeVerdicts>(
        &self,
        source: &mut impl Source,
        outside: Outside,
        table_count: usize,
        control: &Control,
        output: T,
    ) -> (Part, T) {
        let waiting_max = self.options.waiting_max.div_ceil(table_count.max(1));
        let options = Options { waiting_max, ..self.options };
        let (cascade, flows) = (Arc::clone(&self.cascade), self.flows(table_count));
        if let Some(features) = self.cascade.window().cloned() {
            let classifier = WindowClassifier::new(cascade, features, options, outside, output);
            let (done, keep, _) = self.through(source, flows, control, classifier, ());
            let (counts, output) = keep.finish();
            return ((done, counts), output);
        }
        let classifier = Classifier::new(cascade, options, outside, output);
        let (done, keep, ()) = self.through(source, flows, control, classifier, ());
        let (counts, output) = keep.finish();
        ((done, counts), output)
    }

    /// Runs a source to its end, hands flows over with their verdicts, and keeps something else of
    /// each as well. Only of models of flows, not of windows.
    pub fn run_with<P: PerFlow, E: TakeEnded<(Standing, P)>>(
        &self,
        source: &mut impl Source,
        control: &Control,
        ended: E,
    ) -> (Part, E) {
        let (cascade, flows) = (Arc::clone(&self.cascade), self.flows(1));
        let classifier = Classifier::new(cascade, self.options, Outside::None, Unwanted);
        let keep = With::<_, P>::new(classifier);
        let (done, With { keep, .. }, ended) = self.through(source, flows, control, keep, ended);
        let (counts, _) = keep.finish();
        ((done, counts), ended)
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
pub fn serve<T: TakeVerdicts>(
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
            let (mut left, mut output) = (0, output);
            let (mut done, counts) = if let Some(factor) = request.pace {
                let paced = paced(request, &mut source, factor, control, &mut output);
                left = paced.1;
                paced.0
            } else if is_live {
                apart(request, &mut source, Outside::Live(request.clock), control, &mut output)
            } else {
                let part;
                (part, output) = request.run(&mut source, Outside::None, 1, control, output);
                part
            };
            drop(bar);
            done.received = source.received();
            let received = &mut done.received.report.received;
            *received = received.saturating_sub(left);
            ((done, counts), output)
        }
    }
}

/// At the capture's own speed, or `factor` times that; and how many frames were read, but not
/// handed out before the run was stopped.
fn paced<T: TakeVerdicts>(
    request: &Request,
    source: &mut (impl Source + Send),
    factor: f64,
    control: &Control,
    output: &mut T,
) -> (Part, u64) {
    let pace = Arc::new(Pace::new(factor, request.clock));
    let (to, ahead) = mpsc::sync_channel(PIECES_AHEAD_MAX);
    thread::scope(|scope| {
        let reading = scope.spawn(move || read_ahead(source, &to));
        let mut paced = Paced::new(ahead, &pace, control);
        let outside = Outside::Paced(Arc::clone(&pace));
        let part = apart(request, &mut paced, outside, control, output);
        let handed = paced.handed();
        // Nobody listens to the reader from here on.
        drop(paced);
        (part, joined(reading) - handed)
    })
}

/// Serves one source beside the thread that writes.
fn apart<T: TakeVerdicts>(
    request: &Request,
    source: &mut (impl Source + Send),
    outside: Outside,
    control: &Control,
    output: &mut T,
) -> Part {
    let mut parts = beside(request, std::slice::from_mut(source), &outside, control, output);
    // One source has one part.
    parts.pop().unwrap_or_default()
}

/// Serves each source on a thread of its own: writing verdicts stalls now and then, and no frame
/// shall wait for that.
fn beside<S: Source + Send, T: TakeVerdicts>(
    request: &Request,
    sources: &mut [S],
    outside: &Outside,
    control: &Control,
    output: &mut T,
) -> Vec<Part> {
    let count = sources.len();
    let (sender, receiver) = mpsc::sync_channel(PIECES_WAITING_MAX);
    thread::scope(|scope| {
        let serve = |source| {
            let (output, outside) = (Sent(sender.clone()), outside.clone());
            scope.spawn(move || request.run(source, outside, count, control, output).0)
        };
        let serving: Vec<_> = sources.iter_mut().map(serve).collect();
        drop(sender);
        receiver.iter().for_each(|verdicts: Vec<Verdict>| output.take(&verdicts));
        serving.into_iter().map(joined).collect()
    })
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Sockets that share a link, each with flows of its own: the kernel gives both directions of a
/// flow to one of them.
fn side_by_side<T: TakeVerdicts>(
    request: &Request,
    inputs: &Inputs,
    mut sources: Vec<capture::live::LiveSource>,
    mut output: T,
) -> (Part, T) {
    let control = &inputs.control;
    let parts = beside(request, &mut sources, &Outside::Live(request.clock), control, &mut output);
    let (mut whole, mut counts) = (Done::default(), Counts::default());
    for (done, part_counts) in parts {
        whole.outcome.fold(&done.outcome);
        whole.late += done.late;
        whole.clock_steps += done.clock_steps;
        whole.counts.fold(&done.counts);
        counts.fold(&part_counts);
    }
    whole.received = Received::of_live(sources);
    ((whole, counts), output)
}
