//! Frames of a capture into header bits: compact records, and text in nPrint's format.

use std::path::PathBuf;

use capture::{Input, ReadOptions, open};
use clap::Args;
use engine::Stage;
use engine::run::{Control, run_one};
use model::{BitText, Block, Layout, Subscription, SubscriptionRequest};
use packet::{BATCH_LEN_MAX, Batch};

use crate::Failure;
use crate::clock::Stopwatch;
use crate::measurement::Measurement;

/// Arguments of `extract`.
#[derive(Debug, Args)]
pub(crate) struct ExtractArguments {
    /// The capture
    #[arg(long, value_name = "FILE")]
    capture: PathBuf,
    /// Times to measure everything
    #[arg(long, default_value_t = 1)]
    repetitions: usize,
}

/// Measures reading and dissecting alone, then with what is made of each packet.
pub(crate) fn run(arguments: &ExtractArguments) -> Result<(), Failure> {
    let plain = Layout::default();
    let all = Layout::new(&Block::ALL, 16);
    let subscription =
        Subscription::new(&SubscriptionRequest::default()).map_err(|error| error.to_string())?;
    for _ in 0..arguments.repetitions {
        measure(arguments, "read and dissect", &mut Dissected::default())?;
        measure(arguments, "compact records, ipv4 tcp udp", &mut Records::new(plain))?;
        measure(arguments, "compact records, all and 16 bytes", &mut Records::new(all))?;
        measure(arguments, "text, ipv4 tcp udp", &mut Lines::new(&subscription))?;
    }
    Ok(())
}

/// A stage that tells what it did.
trait Counted: Stage {
    /// Packets, and something that must be the same in every repetition.
    fn counts(&self) -> (u64, u64);
}

fn measure<S: Counted>(
    arguments: &ExtractArguments,
    name: &str,
    stage: &mut S,
) -> Result<(), Failure> {
    let input = Input::File(arguments.capture.clone());
    let mut source = open(&input, &ReadOptions::default()).map_err(|error| error.to_string())?;
    let stopwatch = Stopwatch::start();
    run_one(&mut source, stage, &Control::default());
    let elapsed = stopwatch.stop();
    let (item_count, check) = stage.counts();
    let name = name.to_owned();
    Measurement { figure: "nprint", name, thread_count: 1, item_count, elapsed, check }.print();
    Ok(())
}

#[derive(Default)]
struct Dissected {
    packets: u64,
    payload_bytes: u64,
}

impl Stage for Dissected {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.packets += batch.records.len() as u64;
        let lens = batch.records.iter().map(|record| u64::from(record.layers.payload_len));
        self.payload_bytes += lens.sum::<u64>();
    }
}

impl Counted for Dissected {
    fn counts(&self) -> (u64, u64) {
        (self.packets, self.payload_bytes)
    }
}

/// Records of one batch, written over by the next.
struct Records {
    layout: Layout,
    slab: Vec<u8>,
    packets: u64,
    check: u64,
}

impl Records {
    fn new(layout: Layout) -> Self {
        let slab = vec![0; layout.record_len() * BATCH_LEN_MAX];
        Self { layout, slab, packets: 0, check: 0 }
    }

    fn fill(&mut self, batch: &Batch<'_>) {
        let records = self.slab.chunks_exact_mut(self.layout.record_len());
        for (frame, record) in batch.frames().zip(records) {
            self.packets += u64::from(self.layout.fill(&frame, record));
        }
    }
}

impl Stage for Records {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.fill(batch);
        let last = self.slab.get(self.layout.data_len()..self.layout.record_len());
        let presence = last.unwrap_or_default().iter().map(|byte| byte.count_ones());
        self.check += u64::from(presence.sum::<u32>());
    }
}

impl Counted for Records {
    fn counts(&self) -> (u64, u64) {
        (self.packets, self.check)
    }
}

struct Lines {
    records: Records,
    text: BitText,
    out: Vec<u8>,
    text_bytes: u64,
}

impl Lines {
    fn new(subscription: &Subscription) -> Self {
        let records = Records::new(subscription.layout());
        Self { records, text: BitText::new(subscription), out: Vec::new(), text_bytes: 0 }
    }
}

impl Stage for Lines {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.records.fill(batch);
        let record_len = self.records.layout.record_len();
        for record in self.records.slab.chunks_exact(record_len).take(batch.records.len()) {
            self.text.push(record, &mut self.out);
        }
        self.text_bytes += self.out.len() as u64;
        self.out.clear();
    }
}

impl Counted for Lines {
    fn counts(&self) -> (u64, u64) {
        (self.records.packets, self.text_bytes)
    }
}
