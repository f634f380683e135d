//! From packets in memory to verdicts, on one thread: by the classifier that `wirelens classify`
//! runs; and by a plain one, which is the same whether our trees or ONNX Runtime score its rows.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use classify::{Cascade, Classifier, Label, Options, TakeVerdicts, Verdict};
use engine::flow::{FlowFrames, FlowOptions, FramesOutcome, FromFrames};
use engine::run::{Control, run_one};
use packet::{BATCH_LEN_MAX, HashSeed};

use crate::Failure;
use crate::clock::Stopwatch;
use crate::frames::Frames;
use crate::measurement::Measurement;
use crate::plain::{Plain, Score, Trees};

/// Flows that the table has room for.
const FLOW_COUNT_MAX: usize = 1 << 20;

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// An artifact of trees, as bench/speed/make_serve.py writes it
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// The capture, read into memory first
    #[arg(long, value_name = "FILE")]
    capture: PathBuf,
    /// Packets of it to take
    #[arg(long, default_value_t = usize::MAX)]
    packets: usize,
    /// Packets that come together; 1: each is answered before the next comes
    #[arg(long, default_value_t = BATCH_LEN_MAX)]
    batch: usize,
    /// The shared library of ONNX Runtime, which is given the artifact's STAGE.onnx
    #[cfg(feature = "onnx")]
    #[arg(long, value_name = "FILE")]
    onnx: Option<PathBuf>,
}

/// Measures everything once.
pub(crate) fn run(arguments: &ServeArguments) -> Result<(), Failure> {
    let read = |name: &str, _| std::fs::read(arguments.model.join(name));
    let cascade = Arc::new(Cascade::read(read).map_err(|error| error.to_string())?);
    let mut frames = Frames::read(&arguments.capture, arguments.packets)?;
    frames.batch_len = arguments.batch.clamp(1, BATCH_LEN_MAX);
    let options = Options::default();
    let classifier = Classifier::new(Arc::clone(&cascade), options, (), Checked::default());
    let (classifier, report) = measure(&mut frames, &cascade, "wirelens", classifier);
    let (_, Checked(check)) = classifier.finish();
    report.print(check);
    plain(&mut frames, &cascade, "plain, our trees", Trees::new(&cascade)?);
    #[cfg(feature = "onnx")]
    if let Some(library) = &arguments.onnx {
        let scoring = crate::plain::Onnx::new(&cascade, library, &arguments.model)?;
        plain(&mut frames, &cascade, "plain, ONNX Runtime", scoring);
    }
    Ok(())
}

fn plain(frames: &mut Frames, cascade: &Arc<Cascade>, name: &str, scoring: impl Score) {
    let plain = Plain::new(Arc::clone(cascade), scoring);
    let (plain, report) = measure(frames, cascade, name, plain);
    report.print(plain.check());
}

/// A measurement whose check is not known yet.
struct Report(Measurement);

impl Report {
    fn print(mut self, check: u64) {
        self.0.check = check;
        self.0.print();
    }
}

/// Runs all frames through a table of flows; the items are flows.
fn measure<K: FromFrames>(
    frames: &mut Frames,
    cascade: &Cascade,
    name: &str,
    keep: K,
) -> (K, Report) {
    let timeouts = cascade.flows();
    let options = FlowOptions {
        idle_timeout: timeouts.idle,
        active_timeout: timeouts.active,
        flow_count_max: FLOW_COUNT_MAX,
        ..FlowOptions::default()
    };
    let mut stage = FlowFrames::new(options, HashSeed::new(1), keep, ());
    frames.next = 0;
    let stopwatch = Stopwatch::start();
    run_one(frames, &mut stage, &Control::default());
    let FramesOutcome { keep, counts, .. } = stage.finish();
    let elapsed = stopwatch.stop();
    let name = name.to_owned();
    let item_count = counts.total();
    let check = 0;
    let figure = "serve";
    (keep, Report(Measurement { figure, name, thread_count: 1, item_count, elapsed, check }))
}

/// Something that is the same where verdicts are.
#[derive(Default)]
struct Checked(u64);

impl TakeVerdicts for Checked {
    fn take(&mut self, verdicts: &[Verdict]) {
        for verdict in verdicts {
            let label = match verdict.label {
                Label::Class(class) | Label::Unknown(class) => u64::from(class),
                Label::Protocol(protocol) => u64::from(protocol.0),
            };
            let stage = verdict.stage.map_or(0, |stage| stage as u64);
            self.0 = self.0.wrapping_add(1 + label * stage);
        }
    }
}
