//! Chunks that could not be written: their place, their packets, their memory.

use super::chunk::Chunk;
use super::files::delete_files;
use super::state::RecorderState;
use super::writer::{Flight, Writer};
use crate::cause::Cause;
use crate::index::{add_row, add_rows};
use crate::ledger::Hole;

impl Writer {
    /// Gives the place of a chunk that could not be written to the next, where that is possible.
    pub(super) fn take_back(&mut self, flight: &Flight, cause: Cause) {
        let folder = &self.options.folder;
        let Some(series) = self.series.get_mut(flight.chunk.stream) else { return };
        // What it was to say of other chunks is owed again.
        add_rows(&mut series.owed, &flight.owed());
        let Some(file) = &mut series.open else { return };
        file.take_back(Hole {
            offset: flight.offset,
            len: flight.len as u64,
            packets: flight.chunk.packets.into(),
            cause: cause.name().to_owned(),
            digest: flight.digest,
        });
        if file.end == 0 {
            let _ = delete_files(folder, &file.name);
            series.open = None;
        }
    }

    pub(super) fn lose(&mut self, chunk: Box<Chunk>, cause: Cause) {
        self.state.count_unwritten(cause, &chunk.rows);
        self.book.lose(&chunk.lost);
        self.book.lose_for(cause, u64::from(chunk.packets));
        RecorderState::set(&self.state.wanted_bytes, chunk.end as u64);
        RecorderState::add(&self.state.reasons_lost, chunk.reasons.len() as u64);
        if self.options.stops {
            self.state.stop(cause);
        }
        if let Some(series) = self.series.get_mut(chunk.stream) {
            for row in &chunk.rows {
                add_row(&mut series.owed, &row.into_lost());
            }
        }
        self.give_back(chunk);
    }

    pub(super) fn give_back(&self, chunk: Box<Chunk>) {
        RecorderState::add(&self.state.chunks_free, 1);
        self.state.chunks_queued.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        // Nobody waits for it once the recorder is gone.
        let _ = self.free.send(chunk);
    }
}
