//! The recorder's ledger: what is recorded when, and heads of it in a file elsewhere.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use packet::Timestamp;

use super::fault::RecorderError;
use super::state::RecorderState;
use super::writer::{Flight, Writer};
use crate::account::Account;
use crate::cause::Cause;
use crate::file_name::FileName;
use crate::index::ClassRow;
use crate::ledger::{ChunkEntry, Deletion, Entry, Hole, Journal, LedgerState};
use crate::own::{Access, append_own};

/// How often a head is anchored, if there is a new one.
const ANCHOR_PERIOD: Duration = Duration::from_secs(60);
/// How often the account is recorded, at most; and after so many records, at least.
const ACCOUNT_PERIOD: Duration = Duration::from_secs(1);
const ACCOUNT_RECORDS: u64 = 256;

/// The ledger of a recorder.
#[derive(Debug)]
pub(super) struct Ledger {
    journal: Journal,
    anchor: Option<Anchor>,
    /// The losses that were recorded last, when, and at which record.
    lost: ([u64; Cause::ALL.len()], u64),
    recorded: Duration,
    recorded_at: u64,
    /// A file was deleted since.
    has_deleted: bool,
}

/// A file of heads.
#[derive(Debug)]
struct Anchor {
    path: PathBuf,
    file: File,
    written: Duration,
    number: u64,
}

impl Ledger {
    /// A journal, whose heads go to the file `anchor`.
    pub(super) fn new(
        journal: Journal,
        anchor: Option<&Path>,
        folder: &Path,
    ) -> Result<Self, RecorderError> {
        let open = |path: &Path| match open_anchor(path, folder) {
            Ok(file) => {
                Ok(Anchor { path: path.to_owned(), file, written: Duration::ZERO, number: 0 })
            }
            Err(error) => Err(RecorderError::Anchor { path: path.to_owned(), error }),
        };
        Ok(Self {
            journal,
            anchor: anchor.map(open).transpose()?,
            lost: Default::default(),
            recorded: Duration::ZERO,
            recorded_at: 0,
            has_deleted: false,
        })
    }

    /// What was recorded so far.
    pub(super) const fn state(&self) -> &LedgerState {
        self.journal.state()
    }

    /// Bytes that the ledger may come to have: what grows is not to drive files out.
    pub(super) fn bytes_max(&self) -> u64 {
        self.journal.bytes_max()
    }
}

/// Opens a file to append heads to. One in the log's folder would prove nothing.
fn open_anchor(path: &Path, folder: &Path) -> io::Result<File> {
    let above = files::folder_of(path).canonicalize()?;
    if above.starts_with(folder.canonicalize()?) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "in the log's own folder"));
    }
    let file = append_own(path, Access::Owner)?;
    // A folder that may be written and not read is used as it is.
    let _ = files::sync_folder(&above);
    Ok(file)
}

impl Writer {
    /// Appends a record to the ledger.
    pub(super) fn record(&mut self, entry: &Entry) {
        self.ledger.journal.put(entry);
        RecorderState::set(&self.state.ledger_records, self.ledger.journal.head().number);
        RecorderState::set(&self.state.ledger_omitted, self.ledger.journal.omitted());
        if let Some(error) = self.ledger.journal.take_error() {
            self.note_ledger_error(&error);
        }
    }

    fn note_ledger_error(&self, error: &io::Error) {
        let folder = self.options.folder.display();
        self.state.note_error(format!("{folder}: ledger: {error}"));
    }

    /// Whether the disk has all records. The account is there before, since it never has less.
    pub(super) fn sync_ledger(&mut self) -> bool {
        // Without an account the ledger is what is left of it.
        let account = self.book.sync();
        let ledger = self.ledger.journal.sync();
        for error in [&account, &ledger].into_iter().filter_map(|synced| synced.as_ref().err()) {
            self.note_ledger_error(error);
        }
        ledger.is_ok()
    }

    /// A recorder starts.
    pub(super) fn record_start(&mut self, is_clean: bool) {
        let (version, account) = (env!("CARGO_PKG_VERSION").to_owned(), self.account_now().text());
        let (boot, syncs) = (self.options.boot.clone(), self.options.sync);
        self.record(&Entry::Start { version, is_clean, account, boot, syncs });
        // Before the first chunk: after a power cut there is a ledger, which says since when.
        self.settle_ledger();
    }

    /// It ends properly, and the disk may not have so many files.
    pub(super) fn record_stop(&mut self, unsynced: u64) {
        let account = self.account_now().text();
        self.record(&Entry::Stop { account, unsynced });
        self.settle_ledger();
    }

    /// The disk has all records, and so has the file of heads, if there is one.
    fn settle_ledger(&mut self) {
        if !self.anchor(true) {
            self.sync_ledger();
        }
    }

    /// A chunk is acknowledged. Places before it that could not be written remain holes.
    pub(super) fn record_chunk(&mut self, file: String, flight: &Flight, holes: Vec<Hole>) {
        for hole in holes {
            self.record(&Entry::Failed { file: file.clone(), hole });
        }
        self.record(&Entry::Chunk(ChunkEntry {
            file,
            offset: flight.offset,
            len: flight.len as u64,
            packets: flight.trailer.packet_count.into(),
            last_ns: flight.trailer.last_ns,
            digest: flight.digest,
            is_found: false,
        }));
    }

    /// A file is deleted, or was.
    pub(super) fn record_deletion(&mut self, name: &FileName, rows: &[ClassRow], cause: Deletion) {
        let file = name.stem();
        self.syncer.forget(&file);
        // One without a chunk was never recorded, and one that is gone only once.
        if !self.ledger.journal.state().files.contains_key(&file) {
            return;
        }
        let ClassRow { stored_packets: packets, kept_bytes: bytes, .. } = ClassRow::total(rows);
        self.record(&Entry::Delete { file, cause, packets, bytes });
        self.ledger.has_deleted = true;
    }

    /// The account has been written: it is recorded now and then, and where files were deleted or
    /// packets lost.
    pub(super) fn record_account(&mut self, account: &Account, now: Duration, sync: bool) {
        let number = self.ledger.journal.head().number;
        let is_late = number.saturating_sub(self.ledger.recorded_at) >= ACCOUNT_RECORDS;
        let lost = (account.lost, account.ring_lost);
        let is_news = self.ledger.has_deleted || lost != self.ledger.lost;
        let is_time = now.saturating_sub(self.ledger.recorded) >= ACCOUNT_PERIOD;
        if is_late || is_news && is_time {
            self.record(&Entry::Account { text: account.text() });
            (self.ledger.lost, self.ledger.recorded, self.ledger.has_deleted) = (lost, now, false);
            self.ledger.recorded_at = self.ledger.journal.head().number;
        }
        if sync {
            self.sync_ledger();
        }
        self.anchor(false);
    }

    /// Appends the head of the ledger to the file of heads, once the disk has all records before
    /// it: else a power cut would look like records that a user removed. Says whether the disk was
    /// waited for.
    fn anchor(&mut self, is_now: bool) -> bool {
        let now = (self.clock)();
        let head = self.ledger.journal.head();
        let Some(anchor) = &mut self.ledger.anchor else { return false };
        let is_time = is_now || now.saturating_sub(anchor.written) >= ANCHOR_PERIOD;
        if head.number == anchor.number || !is_time {
            return false;
        }
        anchor.written = now;
        if !self.sync_ledger() {
            return true;
        }
        let time = Timestamp::from_ns(self.ledger.journal.state().last_ns);
        let Some(anchor) = &mut self.ledger.anchor else { return true };
        // A head that a full disk cut in two is none; the next has spaces around it again.
        let line = format!("{time} wirelens packetlog {head}\n");
        match anchor.file.write_all(line.as_bytes()).and_then(|()| anchor.file.sync_data()) {
            Ok(()) => anchor.number = head.number,
            Err(error) => {
                let text = format!("{}: {error}", anchor.path.display());
                self.state.note_error(text);
            }
        }
        true
    }
}
