//! A head fine-tuned on a minute of packets: their tokens are encoded, and the head is trained on
//! their queries. Numbers are random, as time does not depend on them.

use clap::Args;
use l4s::history::{QUERY_LEN, TOKEN_LEN};
use model::encoder::{Change, Examples, HeadTrainer, NONE_BEFORE, TrainingSettings};
use model::trees::Path;
use model::{EncoderError, EncoderShape, EncoderState};

use crate::Failure;
use crate::clock::Stopwatch;
use crate::encoder::{Net, numbers};
use crate::measurement::Measurement;

/// Arguments of `tuning`.
#[derive(Debug, Args)]
pub(crate) struct TuningArguments {
    /// Packets of the minute; 250,000 of 1,500 bytes are 50 Mb/s
    #[arg(long, default_value_t = 250_000)]
    packets: usize,
    /// Packets that share an encoder output, and tokens of a call
    #[arg(long, value_name = "PACKETS", default_value_t = 8)]
    batch: usize,
    /// Tokens that a token sees, itself included
    #[arg(long, value_name = "TOKENS", default_value_t = 512)]
    window: usize,
    /// Times that each packet is used
    #[arg(long, default_value_t = 10)]
    epochs: u32,
    /// Times to measure everything
    #[arg(long, default_value_t = 1)]
    repetitions: usize,
    /// Measure all paths of the processor, not only the best one
    #[arg(long)]
    all_paths: bool,
}

/// Outputs of the head's first layer, as models of `l4s` have them.
const INNER_LEN: usize = 128;

/// Measures encoding and training, on the best path or on each.
pub(crate) fn run(arguments: &TuningArguments) -> Result<(), Failure> {
    if arguments.packets == 0 || arguments.batch == 0 {
        return Err("no packets; wanted: --packets and --batch of 1 or more".into());
    }
    let shape = EncoderShape { token_len: TOKEN_LEN, ..EncoderShape::default() };
    let net = Net::new(shape, QUERY_LEN, INNER_LEN)?;
    for _ in 0..arguments.repetitions {
        let paths = Path::ALL.into_iter().filter(|path| path.is_there());
        for path in paths.filter(|&path| arguments.all_paths || path == Path::best()) {
            let hidden = encode(&net, path, arguments).map_err(|error| error.to_string())?;
            train(&net, path, &hidden, arguments).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

fn print(what: &str, path: Path, packets: usize, stopwatch: Stopwatch, check: u64) {
    let name = format!("{what}, {}", path.name());
    let (item_count, elapsed) = (packets as u64, stopwatch.stop());
    Measurement { figure: "tuning", name, thread_count: 1, item_count, elapsed, check }.print();
}

/// One output a batch, of its newest token.
fn encode(net: &Net, path: Path, arguments: &TuningArguments) -> Result<Vec<f32>, EncoderError> {
    let TuningArguments { packets, batch, window, .. } = *arguments;
    let mut state = EncoderState::new(net.encoder.shape(), window)?;
    let width = net.encoder.shape().width;
    let tokens = numbers(packets * TOKEN_LEN, 3);
    let (mut encoded, mut hidden) = (vec![0.0; batch * width], Vec::new());
    let stopwatch = Stopwatch::start();
    for tokens in tokens.chunks(batch * TOKEN_LEN) {
        let encoded = &mut encoded[..tokens.len() / TOKEN_LEN * width];
        net.encoder.append_on(path, &mut state, tokens, encoded)?;
        hidden.extend(encoded.rchunks(width).next().unwrap_or_default());
    }
    print("encode", path, packets, stopwatch, sum(&hidden));
    Ok(hidden)
}

fn train(
    net: &Net,
    path: Path,
    hidden: &[f32],
    arguments: &TuningArguments,
) -> Result<(), EncoderError> {
    let TuningArguments { packets, batch, epochs, .. } = *arguments;
    let index: Vec<u32> = (0..packets).map(|at| (at / batch) as u32).collect();
    let (queries, targets) = (numbers(packets * QUERY_LEN, 5), numbers(packets, 6));
    let weights: Vec<f32> =
        (0..packets).map(|at| if at.is_multiple_of(50) { 10.0 } else { 1.0 }).collect();
    let change = |at: usize| Change {
        before: at.checked_sub(1).map_or(NONE_BEFORE, |before| before as u32),
        sign: if at.is_multiple_of(50) { 1.0 } else { 0.0 },
        ..Change::NONE
    };
    let changes: Vec<Change> = (0..packets).map(change).collect();
    let stopwatch = Stopwatch::start();
    let examples = Examples::new(&net.head, (hidden, &index), &queries, &targets, &weights)?
        .with_changes(&changes)?;
    let settings = TrainingSettings { epochs, ..TrainingSettings::default() };
    let mut trainer = HeadTrainer::new_on(path, &net.head, settings)?;
    trainer.train(&examples, || true)?;
    let head = trainer.head()?;
    let trained: Vec<f32> = head.layers().0.weights().collect();
    print("train", path, packets, stopwatch, sum(&trained));
    Ok(())
}

fn sum(numbers: &[f32]) -> u64 {
    numbers.iter().fold(0, |sum, number| sum.wrapping_add(number.to_bits().into()))
}
