//! Wirelens on the same records: a run of them at a time, to completion, on one core.
//!
//! The table, the hash, the staging of keys and the folding of threads are the
//! engine's; only the source of keys differs, because the engine's own batches
//! hold frames.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use engine::table::{Staging, Table, Tally};
use packet::HashSeed;

use super::Totals;
use crate::records::PacketRecord;

/// Keys kept at most: the default of `wirelens top`.
const KEY_COUNT_MAX: usize = 16_000_000;

/// Records that a thread draws at once: large enough that drawing is free,
/// small enough that threads end together.
const PIECE_LEN: usize = 1 << 16;

const SEED: HashSeed = HashSeed::new(1);

/// Counts `passes` times the records on `thread_count` threads.
pub(super) fn run(records: &[PacketRecord], passes: usize, thread_count: usize) -> Totals {
    let pieces: Vec<&[PacketRecord]> = records.chunks(PIECE_LEN).collect();
    let drawn = AtomicUsize::new(0);
    let work = || {
        let mut table = Table::new(SEED, KEY_COUNT_MAX);
        let mut staging = Staging::default();
        loop {
            let number = drawn.fetch_add(1, Ordering::Relaxed);
            if number >= pieces.len() * passes {
                return table;
            }
            if let Some(piece) = pieces.get(number % pieces.len()) {
                for record in *piece {
                    let tally = Tally::of_packet(u32::from(record.wire_len));
                    staging.push(&mut table, record.source, tally);
                }
                staging.flush(&mut table);
            }
        }
    };
    let table = thread::scope(|scope| {
        let helpers: Vec<_> = (1..thread_count).map(|_| scope.spawn(work)).collect();
        let mut table = work();
        for part in helpers.into_iter().filter_map(|helper| helper.join().ok()) {
            table.fold(&part);
        }
        table
    });
    let mut totals = Totals::default();
    table.iter().for_each(|(_, tally)| totals.add(tally.packets, tally.bytes));
    totals
}
