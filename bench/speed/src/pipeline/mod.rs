//! Figure 4 of the paper: packets and bytes by source over records in memory,
//! in the paper's design and in Wirelens'.

mod batched;
mod threads;

use std::path::PathBuf;

use clap::Args;

use crate::Failure;
use crate::clock::Stopwatch;
use crate::measurement::Measurement;
use crate::placement::Processors;
use crate::records::{PacketRecord, load};
use threads::Work;

/// Arguments of `pipeline`.
#[derive(Debug, Args)]
pub(crate) struct PipelineArguments {
    /// File of 40-byte records
    #[arg(short = 'r', long)]
    records: PathBuf,
    /// Times the records are gone through in one measurement, as one longer input
    #[arg(long, default_value_t = 2)]
    passes: usize,
    /// Times to measure everything
    #[arg(long, default_value_t = 1)]
    repetitions: usize,
    /// Replicas of the paper's counting stage
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    replicas: Vec<usize>,
}

/// Packets, bytes and sources: what every design must agree on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Totals {
    packets: u64,
    bytes: u64,
    sources: u64,
}

impl Totals {
    fn add(&mut self, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes += bytes;
        self.sources += 1;
    }

    /// One number of the three.
    fn check(&self) -> u64 {
        self.packets.wrapping_mul(31).wrapping_add(self.bytes).wrapping_mul(31) + self.sources
    }
}

/// Measures every design, one after the other.
pub(crate) fn run(arguments: &PipelineArguments) -> Result<(), Failure> {
    let records = load(&arguments.records)?;
    let processors = Processors::available();
    let passes = arguments.passes;
    let mut expected = None;
    for _ in 0..arguments.repetitions {
        for &replica_count in &arguments.replicas {
            for (work, name) in [(Work::Count, "count"), (Work::Pass, "pass-through")] {
                let name = format!("paper's design, {name}, r={replica_count}");
                let totals = measure(&name, replica_count + 2, &records, passes, || {
                    threads::run(&records, passes, replica_count, work, &processors)
                });
                if work == Work::Count {
                    agree(&mut expected, totals, &name)?;
                }
            }
        }
        let totals = measure("std map in place", 1, &records, passes, || {
            threads::in_place(&records, passes)
        });
        agree(&mut expected, totals, "std map in place")?;
        for thread_count in [1, 2] {
            let name = format!("Wirelens, count, threads={thread_count}");
            let totals = measure(&name, thread_count, &records, passes, || {
                batched::run(&records, passes, thread_count)
            });
            agree(&mut expected, totals, &name)?;
        }
    }
    Ok(())
}

fn measure(
    name: &str,
    thread_count: usize,
    records: &[PacketRecord],
    passes: usize,
    work: impl FnOnce() -> Totals,
) -> Totals {
    let stopwatch = Stopwatch::start();
    let totals = work();
    let elapsed = stopwatch.stop();
    Measurement {
        figure: "fig4",
        name: name.to_owned(),
        thread_count,
        item_count: (records.len() * passes) as u64,
        elapsed,
        check: totals.check(),
    }
    .print();
    totals
}

/// A fast answer counts only where it is the same answer.
fn agree(expected: &mut Option<Totals>, found: Totals, name: &str) -> Result<(), Failure> {
    let expected = *expected.get_or_insert(found);
    if expected == found {
        return Ok(());
    }
    Err(format!("{name}: counted {found:?}; wanted what the first design counted, {expected:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_design_counts_the_same() {
        let records: Vec<PacketRecord> = (0..10_000_u32)
            .map(|number| PacketRecord {
                source: number.wrapping_mul(number) % 1_000,
                wire_len: 60 + (number % 1_400) as u16,
                ..PacketRecord::default()
            })
            .collect();
        let expected = threads::in_place(&records, 2);
        assert_eq!(expected.packets, 20_000);
        let processors = Processors::available();
        for count in 1..=3 {
            assert_eq!(batched::run(&records, 2, count), expected);
            let counted = threads::run(&records, 2, count, Work::Count, &processors);
            assert_eq!(counted, expected);
            let passed = threads::run(&records, 2, count, Work::Pass, &processors);
            assert_eq!((passed.packets, passed.sources), (20_000, 0));
        }
    }
}
