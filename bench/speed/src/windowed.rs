//! Queries scored by networks in ONNX that read a whole window for each call.

use std::path::{Path, PathBuf};

use clap::Args;
use l4s::history::{QUERY_LEN, TOKEN_LEN};
use model::onnx::{Library, WindowFile, WindowShape};

use crate::Failure;
use crate::clock::Stopwatch;
use crate::encoder::numbers;
use crate::measurement::Measurement;

/// Arguments of `windowed`.
#[derive(Debug, Args)]
pub(crate) struct WindowedArguments {
    /// The shared library of ONNX Runtime
    #[arg(long, value_name = "FILE")]
    onnx: PathBuf,
    /// Networks, each NAME-WINDOW.onnx, as `wirelens train l4s --network` writes model.onnx
    #[arg(value_name = "FILE", required = true)]
    networks: Vec<PathBuf>,
    /// Queries of a call: 8 packets by both queues
    #[arg(long, default_value_t = 16)]
    queries: usize,
    /// Calls of each measurement
    #[arg(long, default_value_t = 512)]
    calls: usize,
    /// Times to measure everything
    #[arg(long, default_value_t = 1)]
    repetitions: usize,
}

/// Measures each network; its window is full.
pub(crate) fn run(arguments: &WindowedArguments) -> Result<(), Failure> {
    let library = Library::load(&arguments.onnx).map_err(|error| error.to_string())?;
    for _ in 0..arguments.repetitions {
        for path in &arguments.networks {
            measure(library, path, arguments)?;
        }
    }
    Ok(())
}

fn measure(library: Library, path: &Path, arguments: &WindowedArguments) -> Result<(), Failure> {
    let refused = |text: &str| format!("{}: {text}", path.display());
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let (network, window) = stem
        .rsplit_once('-')
        .and_then(|(network, window)| Some((network, window.parse().ok()?)))
        .ok_or_else(|| refused("wanted: NAME-WINDOW.onnx, such as full-64.onnx"))?;
    let bytes = std::fs::read(path).map_err(|error| refused(&error.to_string()))?;
    let shape = WindowShape { window, token_len: TOKEN_LEN, query_len: QUERY_LEN };
    let opened = WindowFile::new(library, bytes, shape).and_then(|file| file.open());
    let mut opened = opened.map_err(|error| refused(&error.to_string()))?;
    let (token_count, query_count) = (window * TOKEN_LEN, arguments.queries * QUERY_LEN);
    let pool = numbers(token_count + query_count + 7 * 64, 9);
    let mut scores = vec![0.0; arguments.queries];
    let warm_count = arguments.calls / 8;
    let (mut check, mut stopwatch) = (0_u64, Stopwatch::start());
    for call in 0..warm_count + arguments.calls {
        if call == warm_count {
            stopwatch = Stopwatch::start();
        }
        let input = &pool[call % 64 * 7..];
        let (tokens, rest) = input.split_at(token_count);
        opened
            .score(tokens, &rest[..query_count], &mut scores)
            .map_err(|error| refused(&error.to_string()))?;
        check = scores.iter().fold(check, |check, s| check.wrapping_add(s.to_bits().into()));
    }
    let elapsed = stopwatch.stop();
    let name = format!("window {window}, {} queries, {network} in ONNX Runtime", arguments.queries);
    let item_count = arguments.calls as u64;
    Measurement { figure: "encoder", name, thread_count: 1, item_count, elapsed, check }.print();
    Ok(())
}
