//! Figure 3 of the paper: 4-byte integers between two threads, through one queue after another.

mod kinds;
mod linked;

use std::sync::Arc;
use std::thread;

use clap::Args;
use engine::ring::{CHUNK_LEN, ring};

use crate::Failure;
use crate::clock::{ElapsedTime, Stopwatch};
use crate::measurement::Measurement;
use crate::placement::Processors;
use kinds::{
    ArrayQueueKind, LibraryKind, LockedKind, Mpsc, OwnKind, Pop, Push, QueueKind, SegQueueKind,
};
use linked::LinkedKind;

/// Arguments of `queues`.
#[derive(Debug, Args)]
pub(crate) struct QueuesArguments {
    /// Integers to pass through each queue
    #[arg(long, default_value_t = 4_000_000)]
    items: u32,
    /// Times to go through all queues
    #[arg(long, default_value_t = 1)]
    repetitions: usize,
}

/// Passes integers through every queue, one queue after the other.
#[allow(clippy::unnecessary_wraps)] // As every command.
pub(crate) fn run(arguments: &QueuesArguments) -> Result<(), Failure> {
    let processors = Processors::available();
    let item_count = arguments.items;
    for _ in 0..arguments.repetitions {
        one_by_one::<LockedKind>("locked", item_count, &processors);
        one_by_one::<LinkedKind>("linked", item_count, &processors);
        one_by_one::<SegQueueKind>("linked, library (SegQueue)", item_count, &processors);
        one_by_one::<LibraryKind>("library (rtrb)", item_count, &processors);
        one_by_one::<ArrayQueueKind>("library, many to many (ArrayQueue)", item_count, &processors);
        one_by_one::<Mpsc>("library, parking (mpsc)", item_count, &processors);
        one_by_one::<OwnKind>("own", item_count, &processors);
        in_chunks(&format!("Wirelens, chunks of {CHUNK_LEN}"), item_count, &processors);
    }
    Ok(())
}

/// One item per operation; who finds the queue full or empty lets others run and tries again.
fn one_by_one<Q: QueueKind>(name: &str, item_count: u32, processors: &Processors) {
    let (mut pusher, mut popper) = Q::make();
    let (sum, elapsed) = two_threads(
        processors,
        move || {
            for item in 0..item_count {
                while !pusher.push(item) {
                    thread::yield_now();
                }
            }
        },
        move || {
            let mut sum = 0_u64;
            for _ in 0..item_count {
                sum += u64::from(popper.wait());
            }
            sum
        },
    );
    report(name, item_count, sum, elapsed);
}

/// The engine's ring: whole chunks, sleeping instead of spinning.
fn in_chunks(name: &str, item_count: u32, processors: &Processors) {
    let (mut sender, mut receiver) = ring::<u32, ()>(crate::own_ring::CAPACITY);
    let (sum, elapsed) = two_threads(
        processors,
        move || {
            for item in 0..item_count {
                // The receiver leaves last.
                let _ = sender.push(item);
            }
        },
        move || {
            let mut sum = 0_u64;
            while receiver.receive(|items, _| {
                sum += items.iter().copied().map(u64::from).sum::<u64>();
            }) {}
            sum
        },
    );
    report(name, item_count, sum, elapsed);
}

/// Runs the two ends, each on a processor of its own where there are two.
fn two_threads(
    processors: &Processors,
    push: impl FnOnce() + Send,
    pop: impl FnOnce() -> u64 + Send,
) -> (u64, ElapsedTime) {
    let stopwatch = Stopwatch::start();
    let sum = thread::scope(|scope| {
        scope.spawn(|| {
            processors.place(0);
            push();
        });
        let popper = scope.spawn(|| {
            processors.place(1);
            pop()
        });
        popper.join().unwrap_or_default()
    });
    (sum, stopwatch.stop())
}

fn report(name: &str, item_count: u32, sum: u64, elapsed: ElapsedTime) {
    Measurement {
        figure: "fig3",
        name: name.to_owned(),
        thread_count: 2,
        item_count: u64::from(item_count),
        elapsed,
        check: sum,
    }
    .print();
}

/// A queue that both ends share.
fn shared<Q>(queue: Q) -> (Arc<Q>, Arc<Q>) {
    let queue = Arc::new(queue);
    (Arc::clone(&queue), queue)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes_in_order<Q: QueueKind>() {
        let (mut pusher, mut popper) = Q::make();
        assert_eq!(popper.pop(), None);
        for item in 0..100 {
            assert!(pusher.push(item));
        }
        let popped: Vec<u32> = std::iter::from_fn(|| popper.pop()).collect();
        assert_eq!(popped, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn every_queue_passes_items_in_order() {
        passes_in_order::<LockedKind>();
        passes_in_order::<LinkedKind>();
        passes_in_order::<SegQueueKind>();
        passes_in_order::<LibraryKind>();
        passes_in_order::<ArrayQueueKind>();
        passes_in_order::<Mpsc>();
        passes_in_order::<OwnKind>();
    }
}
