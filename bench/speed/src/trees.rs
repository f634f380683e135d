//! Rows down trees: alone and in batches, on each path that the processor has; and the same
//! models through ONNX Runtime.

use std::path::{Path as FilePath, PathBuf};

use clap::Args;
use model::trees::Path;
use model::{Forest, Rows};

use crate::Failure;
use crate::clock::Stopwatch;
use crate::measurement::Measurement;

/// Rows of a batch, besides one.
const BATCH_ROWS: usize = 64;

/// Arguments of `trees`.
#[derive(Debug, Args)]
pub(crate) struct TreesArguments {
    /// Files of trees, each with its rows beside it: `NAME.trees.jsonl` and `NAME.records`
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    model: Vec<PathBuf>,
    /// Rows to score in each measurement
    #[arg(long, default_value_t = 4_096)]
    rows: usize,
    /// Times to measure everything
    #[arg(long, default_value_t = 1)]
    repetitions: usize,
    /// The shared library of ONNX Runtime, which is given the same models, `NAME.onnx`, as rows of
    /// the columns `NAME.columns`
    #[cfg(feature = "onnx")]
    #[arg(long, value_name = "FILE")]
    onnx: Option<PathBuf>,
}

/// A model and its rows.
struct Trees<'a> {
    name: &'a str,
    forest: Forest,
    rows: Vec<&'a [u8]>,
}

/// Measures each model on each path; copying rows is measured with them.
pub(crate) fn run(arguments: &TreesArguments) -> Result<(), Failure> {
    for file in &arguments.model {
        let read = |path: &FilePath| {
            std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
        };
        let text = read(file)?;
        let stopwatch = Stopwatch::start();
        let forest =
            Forest::parse(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        let elapsed = stopwatch.stop();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let name = name.trim_end_matches(".trees.jsonl");
        let node_count = forest.node_count() as u64;
        report(format!("{name}, read, by node"), node_count, elapsed, node_count);
        let records = read(&file.with_file_name(format!("{name}.records")))?;
        let rows: Vec<&[u8]> = records.chunks_exact(forest.records_len()).collect();
        if rows.is_empty() {
            return Err(format!("{name}.records: no row; make it with bench/speed/train_trees.py"));
        }
        let trees = Trees { name, forest, rows };
        for _ in 0..arguments.repetitions {
            for together in [1, BATCH_ROWS] {
                for path in Path::ALL.into_iter().filter(|path| path.is_there()) {
                    trees.measure(path, together, arguments.rows)?;
                }
                #[cfg(feature = "onnx")]
                if let Some(library) = &arguments.onnx {
                    trees.measure_onnx(library, file, together, arguments.rows)?;
                }
            }
        }
    }
    Ok(())
}

/// How many rows are scored together, for people.
fn shown(together: usize) -> String {
    if together == 1 { String::from("alone") } else { format!("{together} together") }
}

impl Trees<'_> {
    /// Copying rows is measured with scoring them.
    fn measure(&self, path: Path, together: usize, row_count: usize) -> Result<(), Failure> {
        let Self { name, forest, rows } = self;
        let class_count = forest.classes().len();
        let mut copied = Rows::for_forest(forest, together);
        let mut scores = vec![0.0; together * class_count];
        let mut batch = rows.iter().cycle();
        let mut check = 0_u64;
        let batch_count = row_count.div_ceil(together);
        let stopwatch = Stopwatch::start();
        for _ in 0..batch_count {
            copied.clear();
            for row in batch.by_ref().take(together) {
                forest.push(&mut copied, row).map_err(|error| error.to_string())?;
            }
            forest.score_on(path, &copied, &mut scores).map_err(|error| error.to_string())?;
            check = scores.iter().fold(check, |check, score| check.wrapping_add(score.to_bits()));
        }
        let elapsed = stopwatch.stop();
        let name = format!("{name}, {}, {}", shown(together), path.name());
        report(name, (batch_count * together) as u64, elapsed, check);
        Ok(())
    }

    /// Making rows of numbers of records, which Wirelens does without, is not measured.
    #[cfg(feature = "onnx")]
    fn measure_onnx(
        &self,
        library: &FilePath,
        file: &FilePath,
        together: usize,
        row_count: usize,
    ) -> Result<(), Failure> {
        let Self { name, forest, rows } = self;
        let mut model = crate::onnx::open(library, &file.with_file_name(*name), forest)?;
        let mut batches = Vec::new();
        let mut batch = rows.iter().cycle();
        let batch_count = row_count.div_ceil(together);
        for _ in 0..batch_count {
            let mut numbers = model.rows(together);
            for row in batch.by_ref().take(together) {
                model.push(&mut numbers, row, &[]).map_err(|error| error.to_string())?;
            }
            batches.push(numbers);
        }
        let mut scores = vec![0.0; together * forest.classes().len()];
        let stopwatch = Stopwatch::start();
        for batch in &batches {
            model.score(batch, &mut scores).map_err(|error| error.to_string())?;
        }
        let elapsed = stopwatch.stop();
        let name = format!("{name}, {}, ONNX Runtime from Rust", shown(together));
        report(name, (batch_count * together) as u64, elapsed, 0);
        Ok(())
    }
}

fn report(name: String, item_count: u64, elapsed: crate::clock::ElapsedTime, check: u64) {
    Measurement { figure: "trees", name, thread_count: 1, item_count, elapsed, check }.print();
}
