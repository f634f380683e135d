//! The whole way of a packet: from a capture in memory through features and forests into a log.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use capture::{Input, ReadOptions, open};
use clap::{Args, ValueEnum};
use engine::Stage as _;
use packet::file::Section;
use packet::{HashSeed, Source as _};
use packetlog::pipeline::Pipeline;
use packetlog::policy::{Mode, Switch};
use packetlog::recorder::{ClassInfo, Direct, Recorder, RecorderOptions};
use packetlog::{Classifier, Model};

use super::clock;
use crate::Failure;
use crate::clock::Stopwatch;
use crate::measurement::Measurement;

/// How files are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Way {
    /// Through the page cache
    Plain,
    /// Around it, by `io_uring`
    Direct,
}

/// Arguments of `packetlog whole`.
#[derive(Debug, Args)]
pub(crate) struct WholeArguments {
    /// The capture, read once before
    #[arg(long, value_name = "FILE")]
    capture: PathBuf,
    /// File of a model
    #[arg(long, value_name = "model.json")]
    model: PathBuf,
    /// The folder of the log, which must be empty
    #[arg(long, value_name = "FOLDER")]
    folder: PathBuf,
    /// The mode
    #[arg(long, default_value = "default")]
    mode: String,
    /// How files are written
    #[arg(long, value_enum, default_value_t = Way::Direct)]
    way: Way,
}

pub(crate) fn run(arguments: &WholeArguments) -> Result<(), Failure> {
    // Into the page cache, whence it is mapped.
    let capture_len = fs::read(&arguments.capture).map_err(|error| error.to_string())?.len();
    let model = fs::read(&arguments.model).map_err(|error| error.to_string())?;
    let model = Arc::new(Model::parse(&model).map_err(|error| error.to_string())?);
    let mode = Mode::recommended().into_iter().find(|mode| mode.name == arguments.mode);
    let table = mode.ok_or("no such mode")?.table(model.classes());
    let table = table.map_err(|error| error.to_string())?;
    let classes: Vec<_> = (0_u8..)
        .zip(model.classes())
        .map(|(index, name)| ClassInfo { name: name.clone(), priority: index.min(1) })
        .collect();
    let options = RecorderOptions {
        direct: if arguments.way == Way::Direct { Direct::Always } else { Direct::Never },
        waits: true,
        ..RecorderOptions::new(&arguments.folder)
    };
    let section = Section { application: "wirelens-bench".into(), ..Section::default() };
    let (recorder, _) =
        Recorder::create(options, &classes, &section, clock).map_err(|error| error.to_string())?;
    let seed = HashSeed::new(1);
    let classifier = Classifier::new(model, seed);
    let switch = Arc::new(Switch::new(&arguments.mode, table));
    let mut pipeline = Pipeline::new(classifier, recorder, switch, seed);
    let stopwatch = Stopwatch::start();
    let input = Input::File(arguments.capture.clone());
    let mut source = open(&input, &ReadOptions::default()).map_err(|error| error.to_string())?;
    while let Some(batch) = source.next_batch() {
        pipeline.on_batch(&batch);
    }
    let tally = pipeline.tally().now();
    let (_, recorder) = pipeline.into_parts();
    let report = recorder.finish().map_err(|error| error.to_string())?;
    let elapsed = stopwatch.stop();
    let name = format!(
        "whole {} {:?}, {} bytes of {}, capture {capture_len}",
        arguments.mode, arguments.way, report.bytes, tally.seen_bytes
    );
    let check = tally.no_room;
    let item_count = tally.seen;
    Measurement { figure: "packetlog", name, thread_count: 2, item_count, elapsed, check }.print();
    Ok(())
}
