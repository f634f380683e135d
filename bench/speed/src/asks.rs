//! What each model of a cascade takes for each of many rows: asked alone, and in batches.
//!
//! It is what loads of flows are emulated with (`bench/speed/classify/loads.py`): the copy of a row
//! and its score as the classifier of `wirelens classify` does them, without the packets before it.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use classify::Cascade;
use classify::cascade::{Model, Stage};
use model::Rows;

use crate::Failure;

/// Rows of a batch, besides one.
const BATCH_ROWS: usize = 64;

/// Arguments of `asks`.
#[derive(Debug, Args)]
pub(crate) struct AsksArguments {
    /// A cascade
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// A folder with rows for each stage: compact records, STAGE.records, and numbers beside them
    /// as 64-bit floats, STAGE.numbers
    #[arg(long, value_name = "DIR")]
    rows: PathBuf,
    /// Times to ask about every row; the middle one is told
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The shared library of ONNX Runtime, for a cascade with such models
    #[cfg(feature = "onnx")]
    #[arg(long, value_name = "FILE")]
    onnx: Option<PathBuf>,
}

/// Prints two lines of JSON for each stage: nanoseconds of each call about one row, and about 64.
#[allow(clippy::print_stdout)] // A door: the lines are this program's output.
pub(crate) fn run(arguments: &AsksArguments) -> Result<(), Failure> {
    let cascade = cascade(arguments)?;
    for stage in cascade.stages() {
        let rows = StageRows::read(stage, &arguments.rows)?;
        for together in [1, BATCH_ROWS] {
            let mut asking = Asking::new(stage, together)?;
            let ns = rows.ask(&mut asking, together, arguments.rounds.max(1))?;
            let name = stage.name().name();
            println!(r#"{{"stage":"{name}","together":{together},"ns":{ns:?}}}"#);
        }
    }
    Ok(())
}

fn cascade(arguments: &AsksArguments) -> Result<Cascade, Failure> {
    let read = |name: &str, _| std::fs::read(arguments.model.join(name));
    #[cfg(feature = "onnx")]
    let cascade = match &arguments.onnx {
        Some(library) => Cascade::read_with(read, || model::onnx::Library::load(library)),
        None => Cascade::read(read),
    };
    #[cfg(not(feature = "onnx"))]
    let cascade = Cascade::read(read);
    cascade.map_err(|error| format!("{}: {error}", arguments.model.display()))
}

/// Rows of one stage, in memory.
struct StageRows {
    records: Vec<u8>,
    records_len: usize,
    numbers: Vec<f64>,
    number_count: usize,
}

impl StageRows {
    fn read(stage: &Stage, folder: &Path) -> Result<Self, Failure> {
        let read = |kind: &str| {
            let path = folder.join(format!("{}.{kind}", stage.name().name()));
            std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        let (records, numbers) = (read("records")?, read("numbers")?);
        let (words, _) = numbers.as_chunks();
        let numbers: Vec<f64> = words.iter().map(|&word| f64::from_le_bytes(word)).collect();
        let records_len = stage.features().records_len();
        let number_count = stage.features().names().len();
        let row_count = records.len() / records_len.max(1);
        if row_count == 0 || numbers.len() != row_count * number_count {
            return Err(format!(
                "{}: {row_count} rows of records and {} numbers; wanted: {number_count} for each",
                stage.name().name(),
                numbers.len()
            ));
        }
        Ok(Self { records, records_len, numbers, number_count })
    }

    /// Nanoseconds of each call. Every round goes through all rows, so that no row finds the caches
    /// as it left them itself.
    fn ask(
        &self,
        asking: &mut Asking<'_>,
        together: usize,
        rounds: usize,
    ) -> Result<Vec<u64>, Failure> {
        let row_count = self.records.len() / self.records_len;
        let call_count = row_count / together;
        let mut times = vec![Vec::with_capacity(rounds); call_count];
        let clock_ns = clock_ns();
        for _ in 0..rounds {
            for (call, times) in times.iter_mut().enumerate() {
                let began = now();
                for row in call * together..(call + 1) * together {
                    let records = row * self.records_len..(row + 1) * self.records_len;
                    let numbers = row * self.number_count..(row + 1) * self.number_count;
                    asking.push(&self.records[records], &self.numbers[numbers])?;
                }
                asking.score()?;
                let ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
                times.push(ns.saturating_sub(clock_ns));
            }
        }
        Ok(times.iter_mut().map(|times| middle(times)).collect())
    }
}

/// The clock is read to time the machine, never to decide what a packet means.
#[allow(clippy::disallowed_methods)]
fn now() -> Instant {
    Instant::now()
}

/// What reading the clock adds to a time.
fn clock_ns() -> u64 {
    let mut times: Vec<u64> =
        (0..1_000).map(|_| u64::try_from(now().elapsed().as_nanos()).unwrap_or_default()).collect();
    middle(&mut times)
}

fn middle(times: &mut [u64]) -> u64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// A stage's model, and the room in which it answers.
struct Asking<'a> {
    waiting: Waiting<'a>,
    scores: Vec<f64>,
}

enum Waiting<'a> {
    Trees(&'a model::Forest, Rows),
    #[cfg(feature = "onnx")]
    Onnx(Box<(model::onnx::OnnxModel, model::onnx::OnnxRows)>),
}

impl<'a> Asking<'a> {
    fn new(stage: &'a Stage, together: usize) -> Result<Self, Failure> {
        let (waiting, class_count) = match stage.model() {
            Model::Trees(forest) => {
                let rows = Rows::for_forest(forest, together);
                (Waiting::Trees(forest, rows), forest.classes().len())
            }
            #[cfg(feature = "onnx")]
            Model::Onnx(file) => {
                let model = file.open().map_err(|error| error.to_string())?;
                let class_count = model.class_count();
                (Waiting::Onnx(Box::new((model, file.rows(together)))), class_count)
            }
            _ => return Err(String::from("a model of another kind; wanted: trees, or ONNX")),
        };
        Ok(Self { waiting, scores: vec![0.0; together * class_count] })
    }

    fn push(&mut self, records: &[u8], numbers: &[f64]) -> Result<(), Failure> {
        match &mut self.waiting {
            Waiting::Trees(forest, rows) => {
                forest.push_with(rows, records, numbers).map_err(|error| error.to_string())
            }
            #[cfg(feature = "onnx")]
            Waiting::Onnx(waiting) => {
                let (model, rows) = waiting.as_mut();
                model.push(rows, records, numbers).map_err(|error| error.to_string())
            }
        }
    }

    /// Scores the rows and forgets them.
    fn score(&mut self) -> Result<(), Failure> {
        match &mut self.waiting {
            Waiting::Trees(forest, rows) => {
                forest.score(rows, &mut self.scores).map_err(|error| error.to_string())?;
                rows.clear();
            }
            #[cfg(feature = "onnx")]
            Waiting::Onnx(waiting) => {
                let (model, rows) = waiting.as_mut();
                model.score(rows, &mut self.scores).map_err(|error| error.to_string())?;
                rows.clear();
            }
        }
        black_box(&self.scores);
        Ok(())
    }
}
