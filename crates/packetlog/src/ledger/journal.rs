//! The ledger of a recorder: records are appended, torn ones repaired, old segments deleted.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::entry::Entry;
use super::head::Head;
use super::scan::{Damage, Step, read_segment, seal, segment_name, segment_path, segments};
use super::state::LedgerState;
use crate::own::{Access, create_own, open_own_to_write};

/// Bytes of records that wait for a disk without room; what is beyond is counted as omitted.
const PENDING_LEN_MAX: usize = 1 << 20;
/// Names that are tried for a segment.
const NAME_TRY_COUNT: u64 = 16;
/// Segments of a full ledger.
const SEGMENT_COUNT: u64 = 4;
/// Bytes of a ledger at most, and at least, whatever the log may have.
const LEN_MAX: u64 = 256 << 20;
const LEN_LEAST: u64 = 64 << 10;
/// A ledger has at most this part of what the whole log may have.
const LOG_SHARE: u64 = 64;

/// Bytes that the ledger of a log with so many bytes has at most, except what it needs to name
/// the files that are there.
pub(crate) fn ledger_len_max(log_bytes_max: Option<u64>) -> u64 {
    log_bytes_max.map_or(LEN_MAX, |max| (max / LOG_SHARE).clamp(LEN_LEAST, LEN_MAX))
}

/// A ledger that is written.
#[derive(Debug)]
pub(crate) struct Journal {
    folder: PathBuf,
    access: Access,
    len_max: u64,
    /// Segments, oldest first, with their bytes; the last is written.
    lens: VecDeque<(u64, u64)>,
    /// The folder itself, wherever it is mounted.
    handle: Option<File>,
    /// The last segment takes no more records, or is gone.
    is_over: bool,
    /// Bytes of the first record of the last segment.
    first_len: u64,
    head: Head,
    state: LedgerState,
    pending: Vec<u8>,
    /// Records since the last that could be kept.
    omitted: u64,
    /// There was no ledger before.
    is_new: bool,
    error: Option<io::Error>,
}

impl Journal {
    /// Opens the ledger of a folder, or begins one. A torn record at its end is cut off; after any
    /// other damage a new segment continues, and what is damaged stays as evidence.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn open(folder: &Path, access: Access, len_max: u64) -> io::Result<Self> {
        let numbers = segments(folder)?;
        let mut journal = Self {
            folder: folder.to_owned(),
            access,
            len_max,
            lens: VecDeque::new(),
            handle: File::open(folder).ok(),
            is_over: true,
            first_len: 0,
            head: Head::default(),
            state: LedgerState::default(),
            pending: Vec::new(),
            omitted: 0,
            is_new: numbers.is_empty(),
            error: None,
        };
        for &number in &numbers {
            let len = std::fs::symlink_metadata(segment_path(folder, number))?.len();
            journal.lens.push_back((number, len));
        }
        let mut is_newest = true;
        for &number in numbers.iter().rev() {
            let path = segment_path(folder, number);
            let (mut head, mut state) = (None, LedgerState::default());
            let read = read_segment(&path, &mut head, &mut |seen| {
                if let Step::Record(_, entry) = seen {
                    state.apply(entry);
                }
            })?;
            let is_torn = matches!(read.damage, None | Some(Damage::Torn));
            if is_newest && is_torn && head.is_none() {
                // A recorder was killed while it began this segment: the one before it continues.
                std::fs::remove_file(&path)?;
                journal.lens.pop_back();
                continue;
            }
            if let Some(head) = head {
                (journal.head, journal.state) = (head, state);
                if is_newest && is_torn {
                    journal.resume(&path, read.end, read.first_len)?;
                }
                break;
            }
            is_newest = false;
        }
        if journal.is_over {
            journal.begin_segment();
        }
        Ok(journal)
    }

    /// Continues the newest segment behind its last record.
    fn resume(&mut self, path: &Path, end: u64, first_len: u64) -> io::Result<()> {
        open_own_to_write(path)?.set_len(end)?;
        (self.is_over, self.first_len) = (false, first_len);
        if let Some((_, len)) = self.lens.back_mut() {
            *len = end;
        }
        Ok(())
    }

    /// Whether there was no ledger before this one.
    pub(crate) const fn is_new(&self) -> bool {
        self.is_new
    }

    /// What was recorded so far.
    pub(crate) const fn state(&self) -> &LedgerState {
        &self.state
    }

    /// The last record that is on its way to the disk.
    pub(crate) const fn head(&self) -> Head {
        self.head
    }

    /// Bytes of all segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.lens.iter().fold(0, |sum, (_, len)| sum.saturating_add(*len))
    }

    /// Records that could not be kept, because the disk took none for long.
    pub(crate) const fn omitted(&self) -> u64 {
        self.state.omitted.saturating_add(self.omitted)
    }

    /// Why the last record could not be written, once.
    pub(crate) fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    /// Appends a record. If the disk takes none, it waits in memory.
    pub(crate) fn put(&mut self, entry: &Entry) {
        if self.is_over {
            self.begin_segment();
        }
        if self.is_over || self.pending.len() > PENDING_LEN_MAX {
            self.omitted = self.omitted.saturating_add(1);
            self.state.apply(entry);
            self.write();
            return;
        }
        if self.omitted > 0 {
            let records = std::mem::take(&mut self.omitted);
            self.append(&Entry::Omitted { records });
        }
        self.append(entry);
        self.write();
        let len = self.lens.back().map_or(0, |(_, len)| *len);
        let is_full = len > self.first_len.saturating_add(self.len_max / SEGMENT_COUNT);
        if is_full && self.pending.is_empty() {
            self.begin_segment();
        }
    }

    /// Waits until the disk has all records.
    pub(crate) fn sync(&mut self) {
        if !self.is_over
            && let Err(error) = self.newest().and_then(|file| file.sync_data())
        {
            self.error = Some(error);
        }
    }

    /// The last segment, to write. It is not held open: a disk may be made read-only, or
    /// unmounted, meanwhile.
    fn newest(&self) -> io::Result<File> {
        let number = self.lens.back().map_or(0, |(number, _)| *number);
        let handle = self.handle.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(handle, segment_name(number), flags, Mode::empty())?;
        Ok(File::from(file))
    }

    fn append(&mut self, entry: &Entry) {
        let (line, head) = seal(&self.head, entry);
        self.pending.extend_from_slice(line.as_bytes());
        self.head = head;
        self.state.apply(entry);
    }

    fn write(&mut self) {
        if self.is_over {
            return;
        }
        let len = self.lens.back().map_or(0, |(_, len)| *len);
        match self.newest().and_then(|file| file.write_all_at(&self.pending, len)) {
            Ok(()) => {
                if let Some((_, len)) = self.lens.back_mut() {
                    *len = len.saturating_add(self.pending.len() as u64);
                }
                self.pending.clear();
            }
            Err(error) => {
                // What waits cannot follow what another program deleted.
                self.is_over = error.kind() == io::ErrorKind::NotFound;
                self.error = Some(error);
            }
        }
    }

    /// Begins a segment with the sums so far, and deletes the oldest ones if there are too many.
    fn begin_segment(&mut self) {
        self.sync();
        let next = self.lens.back().map_or(1, |(number, _)| number.saturating_add(1));
        let create = |number| create_own(&segment_path(&self.folder, number), self.access);
        // A name that another program took is passed over.
        let is_taken = |made: &io::Result<File>| {
            made.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
        };
        let mut made = (next, create(next));
        for number in next.saturating_add(1)..next.saturating_add(NAME_TRY_COUNT) {
            if !is_taken(&made.1) {
                break;
            }
            made = (number, create(number));
        }
        let (number, made) = made;
        if let Err(error) = made {
            self.error = Some(error);
            return;
        }
        self.handle = File::open(&self.folder).ok();
        (self.is_over, self.pending) = (false, Vec::new());
        self.lens.push_back((number, 0));
        let state = Box::new(self.state.clone());
        self.append(&Entry::Segment(state));
        self.first_len = self.pending.len() as u64;
        self.write();
        while self.lens.len() > 2 && self.bytes() > self.len_max {
            if let Some((oldest, _)) = self.lens.pop_front() {
                let _ = std::fs::remove_file(segment_path(&self.folder, oldest));
            }
        }
    }
}
