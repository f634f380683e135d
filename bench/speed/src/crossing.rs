//! Items that cross from one core to another, through the engine's ring and its exchange.

use std::marker::PhantomData;
use std::thread;

use clap::Args;
use engine::exchange::{Extract, Outlet, Own, exchange};
use engine::ring::{CHUNK_LEN, ring};
use engine::run::Control;
use packet::{BATCH_LEN_MAX, Batch, HashSeed, KeyHash, Record, Source};

use crate::Failure;
use crate::clock::{ElapsedTime, Stopwatch};
use crate::measurement::Measurement;
use crate::own_ring::CAPACITY;
use crate::placement::Processors;
use crate::records::PacketRecord;

/// Arguments of `crossing`.
#[derive(Debug, Args)]
pub(crate) struct CrossingArguments {
    /// Items to pass
    #[arg(long, default_value_t = 20_000_000)]
    items: u32,
    /// Times to measure everything
    #[arg(long, default_value_t = 1)]
    repetitions: usize,
}

/// Something small that crosses.
trait Crosser: Copy + Send {
    /// The item of this number.
    fn of(number: u32) -> Self;
    /// A word of it, so that the far side has to read it.
    fn word(&self) -> u64;
}

impl Crosser for u64 {
    fn of(number: u32) -> Self {
        Self::from(number)
    }

    fn word(&self) -> u64 {
        *self
    }
}

impl Crosser for PacketRecord {
    fn of(number: u32) -> Self {
        Self { source: number, timestamp_ns: u64::from(number), ..Self::default() }
    }

    fn word(&self) -> u64 {
        u64::from(self.source)
    }
}

/// An item of so many words, such as a packet's part in a flow.
#[derive(Clone, Copy)]
struct Words<const COUNT: usize>([u64; COUNT]);

impl<const COUNT: usize> Crosser for Words<COUNT> {
    fn of(number: u32) -> Self {
        Self([u64::from(number); COUNT])
    }

    fn word(&self) -> u64 {
        self.0[0] + self.0[COUNT - 1]
    }
}

/// Measures ring and exchange with items of all sizes.
#[allow(clippy::unnecessary_wraps)] // As every command.
pub(crate) fn run(arguments: &CrossingArguments) -> Result<(), Failure> {
    let item_count = arguments.items;
    let processors = Processors::available();
    for _ in 0..arguments.repetitions {
        through_ring::<u64>("ring, 8-byte items", item_count, &processors);
        through_ring::<PacketRecord>("ring, 40-byte items", item_count, &processors);
        through_ring::<Words<8>>("ring, 64-byte items", item_count, &processors);
        through_ring::<Words<10>>("ring, 80-byte items", item_count, &processors);
        through_exchange::<u64>("exchange, 8-byte items", item_count, &processors);
        through_exchange::<PacketRecord>("exchange, 40-byte items", item_count, &processors);
        through_exchange::<Words<8>>("exchange, 64-byte items", item_count, &processors);
        through_exchange::<Words<10>>("exchange, 80-byte items", item_count, &processors);
    }
    Ok(())
}

/// The ring alone, each end on a processor of its own where there are two.
fn through_ring<T: Crosser>(name: &str, item_count: u32, processors: &Processors) {
    let (mut sender, mut receiver) = ring::<T, ()>(CAPACITY);
    let stopwatch = Stopwatch::start();
    let sum = thread::scope(|scope| {
        scope.spawn(move || {
            processors.place(0);
            for number in 0..item_count {
                // The receiver leaves last.
                let _ = sender.push(T::of(number));
            }
        });
        let far = scope.spawn(move || {
            processors.place(1);
            let mut sum = 0_u64;
            while receiver.receive(|items, _| sum += items.iter().map(T::word).sum::<u64>()) {}
            sum
        });
        far.join().unwrap_or_default()
    });
    report(name, item_count, sum, stopwatch.stop());
}

/// The exchange with one owner, placed in the same way.
fn through_exchange<T: Crosser>(name: &str, item_count: u32, processors: &Processors) {
    let stopwatch = Stopwatch::start();
    let sum = thread::scope(|scope| {
        let near = scope.spawn(|| {
            processors.place(0);
            let mut source = Blank::new(item_count);
            let mut extract = Numbered::<T> { next: 0, seed: HashSeed::new(1), of: PhantomData };
            let make_owner = || Summing { sum: 0, processors, is_placed: false };
            let mut sum = 0;
            let on_parts = |parts: Vec<u64>| sum += parts.iter().sum::<u64>();
            exchange(&mut source, &mut extract, make_owner, 2, &Control::default(), on_parts);
            sum
        });
        near.join().unwrap_or_default()
    });
    report(name, item_count, sum, stopwatch.stop());
}

fn report(name: &str, item_count: u32, sum: u64, elapsed: ElapsedTime) {
    Measurement {
        figure: "crossing",
        name: format!("{name}, chunks of {CHUNK_LEN}"),
        thread_count: 2,
        item_count: u64::from(item_count),
        elapsed,
        check: sum,
    }
    .print();
}

/// A source of frames without content: it only gives the exchange its rhythm.
struct Blank {
    records: Vec<Record>,
    left: usize,
}

impl Blank {
    fn new(count: u32) -> Self {
        Self { records: vec![Record::default(); BATCH_LEN_MAX], left: count as usize }
    }
}

impl Source for Blank {
    fn next_batch(&mut self) -> Option<Batch<'_>> {
        let len = self.left.min(BATCH_LEN_MAX);
        self.left -= len;
        let records = self.records.get(..len).filter(|records| !records.is_empty())?;
        Some(Batch { bytes: &[], records, tick: None })
    }
}

/// Makes an item for each frame.
struct Numbered<T> {
    next: u32,
    seed: HashSeed,
    of: PhantomData<T>,
}

impl<T: Crosser> Extract for Numbered<T> {
    type Item = T;
    type Mark = ();

    fn extract(&mut self, batch: &Batch<'_>, out: &mut impl Outlet<T, ()>) {
        for _ in batch.records {
            out.item(self.next.key_hash(self.seed), T::of(self.next));
            self.next += 1;
        }
    }

    fn last_mark(&mut self) {}
}

/// Adds up the items it owns.
struct Summing<'a> {
    sum: u64,
    processors: &'a Processors,
    /// It learns which thread is its own when the first item comes.
    is_placed: bool,
}

impl<T: Crosser> Own<T, ()> for Summing<'_> {
    type Part = u64;

    #[inline]
    fn on_item(&mut self, item: T) {
        if !self.is_placed {
            self.processors.place(1);
            self.is_placed = true;
        }
        self.sum += item.word();
    }

    fn on_mark(&mut self, (): ()) -> u64 {
        std::mem::take(&mut self.sum)
    }
}
