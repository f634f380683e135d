//! Room for new chunks: what is closed, deleted, or asked of the disk.

use std::fs::File;
use std::sync::Arc;

use packet::Span;

use super::files::{ClosedFile, Series, delete_files};
use super::options::WhenFull;
use super::state::RecorderState;
use super::writer::{FILE_SHARE, Writer};
use crate::cause::Cause;
use crate::index::{ClassRow, FILE_SUFFIX, INDEX_SUFFIX, add_rows};
use crate::ledger::Deletion;
use crate::log::{Compressor, event_bytes};

/// How often the disk is asked for its room while chunks come.
const DISK_PERIOD_MS: u64 = 100;

impl Writer {
    /// Closes the open file of a series; the next chunk begins another.
    pub(super) fn close(&mut self, index: usize) {
        let Some(series) = self.series.get_mut(index) else { return };
        let Some(file) = series.open.take() else { return };
        if file.is_gone() {
            RecorderState::add(&self.state.files_gone, 1);
            let rows: Vec<ClassRow> = file.rows.iter().map(ClassRow::as_overwritten).collect();
            add_rows(&mut series.owed, &rows);
            self.state.count_overwritten(&rows);
            self.record_deletion(&file.name, &file.rows, Deletion::Gone);
            let _ = delete_files(&self.options.folder, &file.name);
            self.lose_file(Cause::Gone, &file.rows);
            return;
        }
        if self.options.sync {
            // Chunks are safe already; this is for the index, which can be made again.
            let why = file.why.file.as_ref().map_or(Ok(()), File::sync_data);
            let folder = files::sync_folder(&self.options.folder);
            for synced in [file.index.sync_data(), file.keys.sync_data(), why, folder] {
                if let Err(error) = synced {
                    let path = file.name.path(&self.options.folder, INDEX_SUFFIX);
                    let text = format!("synchronising {}: {error}", path.display());
                    self.state.count_error(Cause::of(&error), text);
                }
            }
        }
        self.syncer.complete(file.name.stem(), Arc::clone(&file.data));
        let closed = file.close();
        self.closed_bytes = self.closed_bytes.saturating_add(closed.bytes);
        if let Some(compressor) = &self.compressor {
            compressor.offer(&closed.name);
        }
        series.closed.push_back(closed);
    }

    /// Deletes files whose last packet is older than is to be kept, also the open file of a series
    /// to which nothing comes any more.
    pub(super) fn expire(&mut self, index: usize, first_ns: i64) {
        let Some(keep) = self.options.keep_age_max else { return };
        let Some(series) = self.series.get_mut(index) else { return };
        series.firsts = [series.firsts[1], first_ns];
        let now = series.firsts[0].min(series.firsts[1]);
        let oldest = now.saturating_sub(Span::as_ns(keep));
        for index in 0..self.series.len() {
            let open = self.series.get(index).and_then(|series| series.open.as_ref());
            // Without a packet it has no last one.
            if open.is_some_and(|file| file.first_ns <= file.last_ns && file.last_ns < oldest) {
                self.settle_all();
                self.close(index);
            }
            // Anywhere among them: a stamp from the future keeps its own file and no other.
            while let Some(file) = self.series.get_mut(index).and_then(|series| {
                let old = series.closed.iter().position(|file| file.last_ns < oldest)?;
                series.closed.remove(old)
            }) {
                self.delete(index, &file, Deletion::Age);
            }
        }
    }

    /// Sees to it that the log may grow by `len` bytes.
    pub(super) fn make_room(&mut self, index: usize, len: u64) -> Result<(), Cause> {
        let Some(max) = self.options.keep_bytes_max else { return Ok(()) };
        let may_overwrite = self.options.when_full == WhenFull::OverwriteUnimportant;
        let reserve = if may_overwrite { self.reserve(max) } else { 0 };
        self.note_smaller();
        loop {
            let len = len.saturating_add(self.copy_bytes());
            let wanted = self.log_bytes().saturating_add(len);
            if wanted.saturating_add(self.unused_reserve(index, reserve)) <= max {
                return Ok(());
            }
            if may_overwrite && self.overwrite_beyond(index, reserve) {
                continue;
            }
            if wanted <= max {
                return Ok(());
            }
            // Nothing is deleted for what would not fit even then.
            let may_fit = wanted.saturating_sub(self.bytes_up_to_series(index)) <= max;
            let may_overwrite = may_overwrite && may_fit;
            if !may_overwrite || !(self.overwrite_one(index) || self.overwrite_open(index)) {
                if self.failing != Some(Cause::LogFull) {
                    let text = format!("the log has reached its maximum of {max} bytes");
                    self.state.count_error(Cause::LogFull, text);
                    self.failing = Some(Cause::LogFull);
                }
                return Err(Cause::LogFull);
            }
        }
    }

    /// Bytes that each less important series may have however full the log is, so that it can
    /// replace its oldest packets by its newest: those of a block and of what belongs to it.
    fn reserve(&self, max: u64) -> u64 {
        let block = self.options.chunk_len as u64;
        let others = (self.series.len() as u64).saturating_sub(1).max(1);
        block.saturating_add(block / 4).min(max / FILE_SHARE / others)
    }

    /// What series below `index` do not use of their reserves.
    fn unused_reserve(&self, index: usize, reserve: u64) -> u64 {
        let lower = self.series.iter().take(index);
        lower.map(|series| reserve - series.bytes_up_to(reserve)).sum()
    }

    /// Bytes of the series up to `index`.
    fn bytes_up_to_series(&self, index: usize) -> u64 {
        let series = self.series.iter().take(index.saturating_add(1));
        series.fold(0, |sum, series| sum.saturating_add(series.bytes_up_to(u64::MAX)))
    }

    /// Deletes the oldest closed file of the lowest priority, at most that of the series `index`.
    fn overwrite_one(&mut self, index: usize) -> bool {
        self.overwrite_beyond(index, 0)
    }

    /// As [`Writer::overwrite_one`], of those below `index` only where they exceed their reserve.
    fn overwrite_beyond(&mut self, index: usize, reserve: u64) -> bool {
        for lower in 0..=index {
            let Some(series) = self.series.get_mut(lower) else { continue };
            if lower < index && series.bytes_up_to(reserve + 1) <= reserve {
                continue;
            }
            if let Some(file) = series.closed.pop_front() {
                self.delete(lower, &file, Deletion::Room);
                return true;
            }
        }
        false
    }

    /// Closes the open file of the lowest priority, at most that of the series `index`, and deletes
    /// it: else a class that never has a closed file would keep its oldest packets and lose all new
    /// ones.
    fn overwrite_open(&mut self, index: usize) -> bool {
        let before = self.log_bytes();
        let mut up_to = self.series.iter().take(index.saturating_add(1));
        let is_used = |series: &Series| series.open.as_ref().is_some_and(|file| file.end > 0);
        let Some(lowest) = up_to.position(is_used) else { return false };
        self.settle_all();
        self.close(lowest);
        // It may be gone already, or what was on its way to it was taken back.
        self.overwrite_one(lowest) || self.log_bytes() < before
    }

    /// Whether something was deleted that may let what failed for this cause succeed.
    pub(super) fn frees(&mut self, index: usize, cause: Cause) -> bool {
        self.may_free(cause) && self.overwrite_one(index)
    }

    /// The same with a file that is open.
    pub(super) fn frees_open(&mut self, index: usize, cause: Cause) -> bool {
        self.may_free(cause) && self.overwrite_open(index)
    }

    fn may_free(&self, cause: Cause) -> bool {
        cause == Cause::DiskFull && self.options.when_full == WhenFull::OverwriteUnimportant
    }

    fn delete(&mut self, index: usize, file: &ClosedFile, cause: Deletion) {
        let (was_there, deleted) = {
            let replacing = Arc::clone(&self.replacing);
            let _held = replacing.lock();
            let was_there = self.is_there(file);
            let cause = if was_there { cause } else { Deletion::Gone };
            // First the record, down to the disk: a file is never missing without one.
            self.record_deletion(&file.name, &file.rows, cause);
            let is_recorded = self.sync_ledger();
            let deleted = delete_files(&self.options.folder, &file.name);
            if self.options.sync {
                // What is too old is gone after a power cut, too.
                let _ = files::sync_folder(&self.options.folder);
            }
            if !is_recorded {
                // A disk without room even for this may have it now.
                self.sync_ledger();
            }
            (was_there, deleted)
        };
        if let Err(error) = deleted {
            // It is passed over, and its bytes still count.
            let path = file.name.path(&self.options.folder, FILE_SUFFIX);
            let text = format!("deleting {}: {error}", path.display());
            return self.state.count_error(Cause::of(&error), text);
        }
        if !was_there && file.is_own {
            self.lose_file(Cause::Gone, &file.rows);
        }
        self.closed_bytes = self.closed_bytes.saturating_sub(file.bytes);
        let counter =
            if was_there { &self.state.files_overwritten } else { &self.state.files_gone };
        RecorderState::add(counter, 1);
        let rows: Vec<ClassRow> = file.rows.iter().map(ClassRow::as_overwritten).collect();
        self.state.count_overwritten(&rows);
        if let Some(series) = self.series.get_mut(index) {
            add_rows(&mut series.owed, &rows);
        }
    }

    /// Bytes at most of the copy that a file has while it is compressed, where old files may go for
    /// it: a log that stops when it is full is to take all that it has room for.
    fn copy_bytes(&self) -> u64 {
        let is_busy = self.compressor.as_ref().is_some_and(Compressor::is_busy);
        let may_overwrite = self.options.when_full == WhenFull::OverwriteUnimportant;
        if is_busy && may_overwrite { self.options.file_len_max } else { 0 }
    }

    fn log_bytes(&self) -> u64 {
        let open = self.series.iter().filter_map(|series| series.open.as_ref());
        let bytes = self.closed_bytes.saturating_add(self.ledger.bytes_max());
        let bytes = bytes.saturating_add(self.event_bytes);
        open.fold(bytes, |sum, file| sum.saturating_add(file.bytes()))
    }

    /// Takes note of files that were compressed.
    fn note_smaller(&mut self) {
        let smaller = self.compressor.as_ref().map(Compressor::take_saved);
        for (name, saved) in smaller.unwrap_or_default() {
            RecorderState::add(&self.state.bytes_saved, saved);
            // One that was deleted meanwhile took all of its bytes with it.
            let mut closed = self.series.iter_mut().flat_map(|series| series.closed.iter_mut());
            if let Some(file) = closed.rfind(|file| file.name == name) {
                file.bytes = file.bytes.saturating_sub(saved);
                self.closed_bytes = self.closed_bytes.saturating_sub(saved);
            }
        }
    }

    /// Updates the state with the free space of the disk, now and then or immediately.
    pub(super) fn ask_disk(&mut self, at_once: bool) {
        let now = (self.clock)();
        let since = now.saturating_sub(self.asked_disk);
        if !at_once && (since.as_millis() as u64) < DISK_PERIOD_MS {
            return;
        }
        self.asked_disk = now;
        self.note_smaller();
        self.event_bytes = event_bytes(&self.options.folder);
        RecorderState::set(&self.state.log_bytes, self.log_bytes());
        if let Ok(room) = rustix::fs::statvfs(&self.options.folder) {
            RecorderState::set(&self.state.disk_free, room.f_bavail.saturating_mul(room.f_frsize));
            RecorderState::set(&self.state.disk_total, room.f_blocks.saturating_mul(room.f_frsize));
        }
    }
}
