//! How many packets a core-second the features and the forest take.
//!
//! Of a capture the time of reading and dissecting is measured by itself beside it, and of packets
//! in memory, whose headers were found before, the time of snapshots alone.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use capture::{Input, ReadOptions, open};
use clap::Args;
use packet::{BATCH_LEN_MAX, HashSeed, Source, Span};
use packetlog::features::{Column, CounterStore, FeatureOptions, Features, Key};
use packetlog::{Classifier, Model};

use crate::Failure;
use crate::clock::Stopwatch;
use crate::frames::Frames;
use crate::measurement::Measurement;
use crate::packetlog::forest;

/// What the paper has: a packet's own numbers, and of its flow sums, extremes, means, variances.
const FLOW_COLUMNS: [&str; 17] = [
    "ip_bytes",
    "payload_bytes",
    "protocol",
    "source_port",
    "destination_port",
    "tcp_flags",
    "flow_packets",
    "flow_size_sum_bytes",
    "flow_size_max_bytes",
    "flow_size_min_bytes",
    "flow_size_mean_bytes",
    "flow_size_variance_bytes2",
    "flow_gap_sum_ns",
    "flow_gap_max_ns",
    "flow_gap_min_ns",
    "flow_gap_mean_ns",
    "flow_gap_variance_ns2",
];

/// And of its source.
const SOURCE_COLUMNS: [&str; 4] =
    ["source_packets", "source_flows", "source_size_mean_bytes", "source_gap_mean_ns"];

/// Places of each kind of state.
const STATES: usize = 1 << 16;
/// Flows whose last verdict is used again.
const REUSE_FLOWS: usize = 1 << 16;

/// Arguments of `packetlog features`.
#[derive(Debug, Args)]
pub(crate) struct FeaturesArguments {
    /// The capture
    #[arg(long, value_name = "FILE")]
    capture: PathBuf,
    /// Packets of it to take into memory
    #[arg(long, default_value_t = usize::MAX)]
    packets: usize,
    /// A trained model, besides full forests; may be given several times
    #[arg(long, value_name = "FILE")]
    model: Vec<PathBuf>,
    /// Only ways whose name begins so, such as "sketch, flow"
    #[arg(long, default_value = "")]
    only: String,
    /// Times to measure everything, in turns
    #[arg(long, default_value_t = 3)]
    repetitions: usize,
}

/// Prints a line of JSON for each measurement.
pub(crate) fn run(arguments: &FeaturesArguments) -> Result<(), Failure> {
    let mut frames = Frames::read(&arguments.capture, arguments.packets)?;
    frames.batch_len = BATCH_LEN_MAX;
    let flow_columns = FLOW_COLUMNS.map(String::from);
    let all_columns: Vec<_> =
        FLOW_COLUMNS.into_iter().chain(SOURCE_COLUMNS).map(String::from).collect();
    let mut models = Vec::new();
    for source in [CounterStore::Sketch, CounterStore::Exact] {
        let name = source.name();
        let flows = FeatureOptions { source, ..FeatureOptions::default() };
        let hosts = FeatureOptions { keys: vec![Key::Flow, Key::Source], ..flows.clone() };
        let of_flows = forest::model(&flows, &flow_columns, forest::PAPER, &mut frames)?;
        models.push((format!("{name}, flow"), Arc::new(of_flows)));
        let of_hosts = forest::model(&hosts, &all_columns, forest::PAPER, &mut frames)?;
        models.push((format!("{name}, flow and source"), Arc::new(of_hosts)));
    }
    let states = FeatureOptions {
        window: Span::from_seconds(1),
        keys: vec![Key::Flow, Key::Source],
        states: STATES,
        ..FeatureOptions::default()
    };
    let of_states: Vec<_> = Column::all(&states).map(|column| column.to_string()).collect();
    for (name, shape) in [("3 × 7", forest::PAPER), ("10 × 10", forest::LARGER)] {
        for (how, reuse_flows) in [("", None), (", verdicts reused", Some(REUSE_FLOWS))] {
            let shape = forest::Shape { reuse_flows, ..shape };
            let model = forest::model(&states, &of_states, shape, &mut frames)?;
            models.push((format!("sketch, flow, source and states, {name}{how}"), Arc::new(model)));
        }
    }
    for path in &arguments.model {
        let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let model = Model::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let folder = path.parent().and_then(Path::file_name).filter(|_| arguments.model.len() > 1);
        let name = folder.map_or_else(String::new, |name| format!(" {}", name.to_string_lossy()));
        models.push((format!("trained{name}"), Arc::new(model)));
    }
    models.retain(|(name, _)| name.starts_with(&arguments.only));
    for _ in 0..arguments.repetitions {
        read_alone(&arguments.capture)?;
        for (name, model) in &models {
            features_alone(&mut frames, name, model);
            judge(&mut frames, "from memory", name, model);
            let input = Input::File(arguments.capture.clone());
            let mut source = open(&input, &ReadOptions::default()).map_err(|e| e.to_string())?;
            judge(&mut source, "from the capture", name, model);
        }
    }
    Ok(())
}

fn print(name: String, item_count: u64, stopwatch: Stopwatch, check: u64) {
    let elapsed = stopwatch.stop();
    let figure = "packetlog-features";
    Measurement { figure, name, thread_count: 1, item_count, elapsed, check }.print();
}

fn read_alone(capture: &Path) -> Result<(), Failure> {
    let input = Input::File(capture.to_owned());
    let mut source = open(&input, &ReadOptions::default()).map_err(|error| error.to_string())?;
    let stopwatch = Stopwatch::start();
    let (mut packets, mut check) = (0, 0u64);
    while let Some(batch) = source.next_batch() {
        packets += batch.records.len() as u64;
        let lens = batch.records.iter().map(|record| u64::from(record.layers.payload_len));
        check += lens.sum::<u64>();
    }
    print(String::from("read and dissect"), packets, stopwatch, check);
    Ok(())
}

fn features_alone(frames: &mut Frames, name: &str, model: &Model) {
    let mut features = Features::for_model(model, HashSeed::new(1));
    let mut check = 0;
    frames.next = 0;
    let stopwatch = Stopwatch::start();
    while let Some(batch) = frames.next_batch() {
        features.take(&batch, |_, snapshots| {
            check += (0..snapshots.len()).filter(|&at| snapshots.holds_flow(at)).count() as u64;
        });
    }
    print(format!("features from memory, {name}"), frames.len() as u64, stopwatch, check);
}

fn judge(source: &mut dyn Rewind, from: &str, name: &str, model: &Arc<Model>) {
    let mut classifier = Classifier::new(Arc::clone(model), HashSeed::new(1));
    let (mut judged, mut packets, mut check) = (Vec::new(), 0, 0);
    source.rewind();
    let stopwatch = Stopwatch::start();
    while let Some(batch) = source.next_batch() {
        classifier.judge(&batch, &mut judged);
        packets += judged.len() as u64;
        check += judged.iter().map(|judged| u64::from(judged.class)).sum::<u64>();
    }
    print(format!("features and forest {from}, {name}"), packets, stopwatch, check);
}

/// A source that may have been read before.
trait Rewind: Source {
    fn rewind(&mut self) {}
}

impl Rewind for capture::FileSource {}

impl Rewind for Frames {
    fn rewind(&mut self) {
        self.next = 0;
    }
}
