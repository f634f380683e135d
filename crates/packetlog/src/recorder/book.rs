//! The writer's account: what it has on the disk, what it lost, and where that is kept.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::fault::RecorderError;
use super::files::ClosedFile;
use super::options::RecorderOptions;
use super::state::RecorderState;
use super::writer::Writer;
use crate::account::{Account, AccountFile, UNKNOWN};
use crate::cause::Cause;
use crate::index::{COMPRESSED_SUFFIX, ClassRow, FILE_SUFFIX};
use crate::ledger::Deletion;

/// How often the account is written while chunks come.
const ACCOUNT_PERIOD: Duration = Duration::from_millis(100);

/// When the account is to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Urgency {
    /// Now and then, while chunks come.
    Sometimes,
    /// As there is time.
    Idle,
    /// For the last time; the end of the ledger then waits for the disk.
    Last,
}

/// The account of a recorder.
#[derive(Debug)]
pub(super) struct Book {
    /// Over all recorders of the log: what chunks that are acknowledged say.
    account: Account,
    /// What the capture had lost before this recorder.
    ring_lost_before: u64,
    /// Names of the classes, by number.
    names: Vec<String>,
    file: Option<AccountFile>,
    /// Something happened since it was written.
    is_dirty: bool,
    written: Duration,
}

impl Book {
    pub(super) fn new(account: Account, names: Vec<String>) -> Self {
        let ring_lost_before = account.ring_lost;
        let written = Duration::ZERO;
        Self { account, ring_lost_before, names, file: None, is_dirty: true, written }
    }

    /// Takes the bytes from the disk that the account will need.
    pub(super) fn open(&mut self, options: &RecorderOptions) -> Result<(), RecorderError> {
        let count = self.names.len() + 1;
        match AccountFile::open(&options.folder, &self.account, count, options.access) {
            Ok(file) => {
                self.file = Some(file);
                Ok(())
            }
            Err(error) => {
                let free = rustix::fs::statvfs(&options.folder)
                    .ok()
                    .map(|room| room.f_bavail.saturating_mul(room.f_frsize));
                let wanted = AccountFile::len(&self.account, count);
                Err(RecorderError::Account { path: options.folder.clone(), error, free, wanted })
            }
        }
    }

    /// Bytes of the account in the log's folder.
    pub(super) fn len(&self) -> u64 {
        self.file.as_ref().map_or(0, AccountFile::file_len)
    }

    /// Waits until the disk has what was written last.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), AccountFile::sync)
    }

    fn name(&self, class: u16) -> String {
        self.names.get(usize::from(class)).map_or(UNKNOWN, String::as_str).to_owned()
    }

    /// What a chunk that is acknowledged says.
    fn say(&mut self, rows: &[ClassRow]) {
        for row in rows {
            self.account.add(&self.name(row.class), row);
        }
        self.is_dirty = true;
    }

    /// Packets were lost.
    pub(super) fn lose(&mut self, lost: &[u64; Cause::ALL.len()]) {
        for (sum, more) in self.account.lost.iter_mut().zip(lost) {
            *sum = sum.saturating_add(*more);
        }
        self.is_dirty = true;
    }

    /// Packets were lost for one cause.
    pub(super) fn lose_for(&mut self, cause: Cause, packets: u64) {
        let mut lost = [0; Cause::ALL.len()];
        if let Some(of_cause) = lost.get_mut(cause as usize) {
            *of_cause = packets;
        }
        self.lose(&lost);
    }
}

impl Writer {
    /// What a chunk that is acknowledged says.
    pub(super) fn say(&mut self, rows: &[ClassRow]) {
        self.book.say(rows);
        self.state.count_acknowledged(rows);
    }

    /// Writes the account, where anything is new.
    pub(super) fn tell_account(&mut self, urgency: Urgency) {
        self.note_synced();
        let now = (self.clock)();
        let ring_lost = self.state.ring_lost.load(Ordering::Relaxed);
        let ring_lost = self.book.ring_lost_before.saturating_add(ring_lost);
        self.book.is_dirty |= ring_lost != self.book.account.ring_lost;
        let is_time = urgency != Urgency::Sometimes
            || now.saturating_sub(self.book.written) >= ACCOUNT_PERIOD;
        if !self.book.is_dirty || !is_time {
            return;
        }
        self.book.account.ring_lost = ring_lost;
        self.book.written = now;
        let account = self.account_now();
        let written = match &mut self.book.file {
            // Synchronised with the ledger, before it.
            Some(file) => file.write(&account, false),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        self.book.is_dirty = written.is_err();
        let error = written.err().map(|error| error.to_string());
        self.state.set_account_error(error);
        // Afterwards, so that the account never has less than the ledger.
        self.record_account(&account, now, self.options.sync && urgency != Urgency::Last);
    }

    /// The account with what is still to be said.
    pub(super) fn account_now(&self) -> Account {
        let mut account = self.book.account.clone();
        for (index, series) in self.series.iter().enumerate() {
            let flights = self.flights.iter().filter(|flight| flight.chunk.stream == index);
            let first = flights.clone().map(|flight| flight.trailer.sequence).min();
            account.set_next(series.priority, first.unwrap_or(series.next_sequence));
            let mut owed = series.owed.clone();
            for flight in flights {
                crate::index::add_rows(&mut owed, &flight.owed());
            }
            for row in &owed {
                let name = self.book.name(row.class);
                account.owed.push((series.priority, name, *row));
            }
        }
        account
    }

    /// Packets of a file that another process deleted, or that the disk did not keep, are lost.
    pub(super) fn lose_file(&mut self, cause: Cause, rows: &[ClassRow]) {
        let rows: Vec<ClassRow> =
            rows.iter().copied().filter(|row| row.stored_packets > 0).collect();
        let packets = ClassRow::total(&rows).stored_packets;
        self.state.count_unwritten(cause, &rows);
        RecorderState::add(&self.state.packets_gone, packets);
        self.book.lose_for(cause, packets);
        for row in &rows {
            let name = self.book.name(row.class);
            self.book.account.lose_stored(&name, row);
        }
    }

    /// Whether a file of the log is still there, under any of its names.
    pub(super) fn is_there(&self, file: &ClosedFile) -> bool {
        let folder = &self.options.folder;
        [FILE_SUFFIX, COMPRESSED_SUFFIX].iter().any(|suffix| {
            let path = file.name.path(folder, suffix);
            let name = path.file_name().unwrap_or_default();
            let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
            // A folder that was unmounted is still known by its handle.
            let held = self
                .handle
                .as_ref()
                .is_some_and(|handle| rustix::fs::statat(handle, name, flags).is_ok());
            held || path.symlink_metadata().is_ok()
        })
    }

    /// Looks once more whether all files are there: after a power cut one that was deleted before
    /// would look like one that the disk had not.
    pub(super) fn look_back(&mut self) {
        for index in 0..self.series.len() {
            let Some(series) = self.series.get_mut(index) else { continue };
            let closed = std::mem::take(&mut series.closed);
            for file in &closed {
                if !self.is_there(file) {
                    self.record_deletion(&file.name, &file.rows, Deletion::Gone);
                    RecorderState::add(&self.state.files_gone, 1);
                    if file.is_own {
                        self.lose_file(Cause::Gone, &file.rows);
                    }
                }
            }
            if let Some(series) = self.series.get_mut(index) {
                series.closed = closed;
            }
        }
    }
}
