//! The ledger of a recorder: records are appended, torn ones repaired, old segments deleted.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;

use super::entry::Entry;
use super::head::Head;
use super::scan::{
    Damage, SegmentEnd, Step, read_segment, seal, segment_name, segment_path, segments,
};
use super::state::LedgerState;
use crate::own::{Access, create_like, open_in_to_write, open_own_to_write};

/// Bytes of records that wait for a disk without room; what is beyond is counted as omitted.
const PENDING_LEN_MAX: usize = 1 << 20;
/// Names that are tried for a segment.
const NAME_TRY_COUNT: u64 = 16;
/// Segments of a full ledger.
const SEGMENT_COUNT: u64 = 4;
/// Bytes of a ledger at most, and at least, whatever the log may have.
const LEN_MAX: u64 = 256 << 20;
const LEN_LEAST: u64 = 16 << 10;
/// Bytes that the disk sets aside behind the last record, so that what is deleted on a full disk
/// is recorded first; and bytes after which a new segment is tried again if none could be made.
const RESERVE_LEN: u64 = 16 << 10;
const RETRY_LEN: u64 = 4 << 10;
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
    /// Records were omitted, which only the sums of the next segment have.
    is_behind: bool,
    /// Bytes of the first record of the last segment, and those with which it is full.
    first_len: u64,
    full_len: u64,
    /// Up to where the disk has set bytes aside for it.
    reserved: u64,
    /// The folder on the disk has its name.
    is_listed: bool,
    /// The disk did not take records of the last segment: asked again, it would say that it has
    /// what it has not. With so many bytes the segment is over, and the sums of the next one hold
    /// them.
    refused_until: Option<u64>,
    /// How the disk is asked for a segment.
    sync_data: fn(&File) -> io::Result<()>,
    head: Head,
    state: LedgerState,
    pending: Vec<u8>,
    /// No recorder has started with this ledger.
    is_new: bool,
    error: Option<io::Error>,
}

/// A segment as it was found.
struct Segment {
    path: PathBuf,
    head: Option<Head>,
    state: LedgerState,
    /// No recorder has started with it, or with one before.
    is_new: bool,
    read: SegmentEnd,
}

impl Segment {
    fn read(path: PathBuf) -> io::Result<Self> {
        let (mut head, mut state, mut is_new) = (None, LedgerState::default(), true);
        let read = read_segment(&path, &mut head, &mut |seen| {
            if let Step::Record(head, entry) = seen {
                state.apply(entry);
                // A recorder may have been killed while it listed the files that are there.
                is_new &= match entry {
                    Entry::Segment(_) => head.number == 1,
                    entry => matches!(entry, Entry::Earlier { .. }),
                };
            }
        })?;
        Ok(Self { path, head, state, is_new, read })
    }

    /// Whether a crash leaves a segment like this: of the machine, if that may be, or else of a
    /// recorder alone.
    fn is_of_crash(&self, may_be_cut: bool) -> bool {
        match self.read.damage {
            None | Some(Damage::Torn) => true,
            Some(Damage::Zeros) => may_be_cut,
            Some(_) => false,
        }
    }
}

impl Journal {
    /// Opens the ledger of a folder, or begins one. What a crash left at its end is cut off: a torn
    /// record, and where the power may have failed, as `boot` is not that of the last recorder,
    /// what the disk had not yet. After any other damage a new segment continues, and what is
    /// damaged stays as evidence.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn open(
        folder: &Path,
        access: Access,
        len_max: u64,
        boot: &str,
    ) -> io::Result<Self> {
        let numbers = segments(folder)?;
        let mut journal = Self {
            folder: folder.to_owned(),
            access,
            len_max,
            lens: VecDeque::new(),
            handle: File::open(folder).ok(),
            is_over: true,
            is_behind: false,
            first_len: 0,
            full_len: 0,
            reserved: 0,
            is_listed: false,
            refused_until: None,
            sync_data: File::sync_data,
            head: Head::default(),
            state: LedgerState::default(),
            pending: Vec::new(),
            is_new: true,
            error: None,
        };
        for &number in &numbers {
            let len = std::fs::symlink_metadata(segment_path(folder, number))?.len();
            journal.lens.push_back((number, len));
        }
        // The newest segment with a record, and those behind it, oldest first.
        let (mut last, mut blank) = (None, VecDeque::new());
        for &number in numbers.iter().rev() {
            let segment = Segment::read(segment_path(folder, number))?;
            if segment.head.is_some() {
                last = Some(segment);
                break;
            }
            blank.push_front(segment);
        }
        let may_be_cut = last.as_ref().is_none_or(|last| last.state.may_be_cut(boot));
        // A crash while a segment was begun: the one before it continues.
        while let Some(segment) = blank.pop_back_if(|segment| segment.is_of_crash(may_be_cut)) {
            std::fs::remove_file(&segment.path)?;
            journal.lens.pop_back();
        }
        journal.is_new = journal.lens.is_empty();
        if let Some(last) = last {
            let goes_on = blank.is_empty() && last.is_of_crash(may_be_cut);
            (journal.head, journal.state) = (last.head.unwrap_or_default(), last.state);
            journal.is_new = last.is_new;
            if goes_on {
                journal.resume(&last.path, last.read.end, last.read.first_len)?;
            }
        }
        if journal.is_over {
            journal.begin_segment();
        }
        Ok(journal)
    }

    /// Continues the newest segment behind its last record.
    fn resume(&mut self, path: &Path, end: u64, first_len: u64) -> io::Result<()> {
        open_own_to_write(path)?.set_len(end)?;
        self.is_over = false;
        self.begins_with(first_len);
        if let Some((_, len)) = self.lens.back_mut() {
            *len = end;
        }
        Ok(())
    }

    /// A segment is full with a quarter of the ledger's bytes, or as much again as its sums have,
    /// so that many files do not make all of the ledger sums.
    fn begins_with(&mut self, first_len: u64) {
        let rest = first_len.max(self.len_max / SEGMENT_COUNT);
        (self.first_len, self.full_len) = (first_len, first_len.saturating_add(rest));
    }

    /// Whether no recorder started with this ledger before.
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
        self.state.omitted
    }

    /// Why the last record could not be written, once.
    pub(crate) fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    /// Bytes that the ledger may come to have.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes().max(self.len_max)
    }

    /// Appends a record. If the disk takes none, it waits in memory.
    pub(crate) fn put(&mut self, entry: &Entry) {
        if self.is_behind {
            self.write();
        }
        if self.is_over || self.is_behind && self.pending.is_empty() {
            self.begin_segment();
        }
        // The sums of a segment may be longer than all else that may wait.
        let sums_len = if self.len() == 0 { self.first_len as usize } else { 0 };
        let is_long = self.pending.len() > PENDING_LEN_MAX.saturating_add(sums_len);
        if self.is_over || self.is_behind || is_long {
            self.is_behind = true;
            self.state.omitted = self.state.omitted.saturating_add(1);
            self.state.apply(entry);
            return;
        }
        self.append(entry);
        self.write();
        if self.pending.is_empty() && self.len() > self.full_len {
            self.begin_segment();
        }
    }

    /// Bytes of the last segment.
    fn len(&self) -> u64 {
        self.lens.back().map_or(0, |(_, len)| *len)
    }

    /// Waits until the disk has all records, or sums of them, and the name of their segment.
    ///
    /// # Errors
    /// It has not.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        if !self.pending.is_empty() {
            self.write();
        }
        if self.pending.is_empty() && self.refused_until.is_some_and(|len| self.len() >= len) {
            self.begin_segment();
        }
        if self.is_over || self.is_behind || !self.pending.is_empty() {
            return Err(self.take_error().unwrap_or_else(|| io::ErrorKind::StorageFull.into()));
        }
        if self.refused_until.is_some() {
            let refused = || io::Error::other("the disk refused earlier records");
            return Err(self.take_error().unwrap_or_else(refused));
        }
        let newest = self.newest()?;
        let synced = (self.sync_data)(&newest).and_then(|()| self.list());
        if synced.is_err() {
            // A segment of which the disk never took anything is given time.
            let wait = if self.is_listed { 0 } else { RETRY_LEN };
            self.refused_until = Some(self.len().saturating_add(wait));
        }
        synced
    }

    /// Waits until the folder on the disk has the name of the last segment.
    fn list(&mut self) -> io::Result<()> {
        if let (false, Some(folder)) = (self.is_listed, &self.handle) {
            match folder.sync_all() {
                // A file system that cannot do this for folders.
                Err(error) if error.kind() != io::ErrorKind::InvalidInput => return Err(error),
                _ => self.is_listed = true,
            }
        }
        Ok(())
    }

    /// The last segment, to write. It is not held open: a disk may be made read-only, or
    /// unmounted, meanwhile.
    fn newest(&self) -> io::Result<File> {
        let number = self.lens.back().map_or(0, |(number, _)| *number);
        let folder = self.handle.as_ref().ok_or(io::ErrorKind::NotFound)?;
        open_in_to_write(folder, &segment_name(number))
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
        let start = self.len();
        let written = self.newest().and_then(|file| {
            file.write_all_at(&self.pending, start)?;
            Ok(file)
        });
        let file = match written {
            Ok(file) => file,
            Err(error) => {
                if error.kind() == io::ErrorKind::NotFound {
                    // What waits cannot follow what another program deleted.
                    self.is_over = true;
                    self.pending.clear();
                }
                self.error = Some(error);
                return;
            }
        };
        let end = start.saturating_add(self.pending.len() as u64);
        self.pending.clear();
        if let Some((_, len)) = self.lens.back_mut() {
            *len = end;
        }
        if end.saturating_add(RESERVE_LEN / 2) > self.reserved {
            // A disk that is full, or that sets nothing aside, may do so with the next record.
            let keep = FallocateFlags::KEEP_SIZE;
            if rustix::fs::fallocate(&file, keep, end, RESERVE_LEN).is_ok() {
                self.reserved = end.saturating_add(RESERVE_LEN);
            }
        }
    }

    /// Begins a segment with the sums so far, and deletes the oldest ones if there are too many.
    fn begin_segment(&mut self) {
        let next = self.lens.back().map_or(1, |(number, _)| number.saturating_add(1));
        // One that root makes in `recover` is the recorder's.
        let like = match self.lens.back() {
            Some((number, _)) => segment_path(&self.folder, *number),
            None => self.folder.join(crate::account::FILE_NAME),
        };
        let create = |number| create_like(&segment_path(&self.folder, number), self.access, &like);
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
            self.full_len = self.len().saturating_add(RETRY_LEN);
            return;
        }
        if !self.is_over
            && let Err(error) = self.newest().and_then(|file| {
                // What was set aside is given back.
                file.set_len(self.len())?;
                (self.sync_data)(&file)
            })
        {
            self.error = Some(error);
        }
        self.handle = File::open(&self.folder).ok();
        (self.is_over, self.is_behind, self.is_listed, self.reserved) = (false, false, false, 0);
        self.refused_until = None;
        self.lens.push_back((number, 0));
        let state = Box::new(self.state.clone());
        self.append(&Entry::Segment(state));
        self.begins_with(self.pending.len() as u64);
        self.write();
        while self.lens.len() > 2 && self.bytes() > self.len_max {
            if let Some((oldest, _)) = self.lens.pop_front() {
                let _ = std::fs::remove_file(segment_path(&self.folder, oldest));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{ChunkEntry, scan};

    fn chunk(number: u64) -> Entry {
        Entry::Chunk(ChunkEntry {
            file: String::from("p0-20261121T093000Z-000000"),
            offset: number * 4096,
            len: 4096,
            packets: 1,
            last_ns: 1,
            digest: [7; 32],
            is_found: false,
        })
    }

    #[test]
    fn omitted_records_are_in_the_sums_of_the_next_segment_and_until_then_nothing_is_synced() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(folder.path(), Access::Owner, 64 << 10, "").unwrap();
        journal.put(&chunk(0));
        journal.sync().unwrap();
        // What takes no record, as a disk without room.
        let (path, aside) = (segment_path(folder.path(), 1), folder.path().join("aside"));
        std::fs::rename(&path, &aside).unwrap();
        std::fs::create_dir(&path).unwrap();
        journal.put(&chunk(1));
        assert!(journal.sync().is_err());
        for number in 2..8000 {
            journal.put(&chunk(number));
        }
        assert!(journal.omitted() > 0 && journal.pending.len() < PENDING_LEN_MAX + 1024);
        std::fs::remove_dir(&path).unwrap();
        std::fs::rename(&aside, &path).unwrap();
        assert!(journal.sync().is_err(), "the omitted ones are not on the disk");
        journal.put(&chunk(8000));
        journal.sync().unwrap();
        let again = Journal::open(folder.path(), Access::Owner, 64 << 10, "").unwrap();
        assert_eq!((again.state(), again.head()), (journal.state(), journal.head()));
        assert_eq!(again.state().files.values().next().unwrap().chunks, 8001);
        let mut damages = 0;
        scan(folder.path(), &mut |step| damages += u32::from(matches!(step, Step::Damage(..))))
            .unwrap();
        assert_eq!(damages, 0);
    }

    #[test]
    fn records_that_the_disk_refused_are_not_said_to_be_there_but_in_the_sums_of_another_segment() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(folder.path(), Access::Owner, 64 << 10, "").unwrap();
        journal.put(&chunk(0));
        journal.sync().unwrap();
        journal.put(&chunk(1));
        journal.sync_data = |_| Err(io::Error::from_raw_os_error(5));
        assert!(journal.sync().is_err());
        // Now it says that it has everything, as disks do once they have said an error.
        journal.sync_data = |_| Ok(());
        journal.sync().unwrap();
        assert_eq!(segments(folder.path()).unwrap(), [1, 2]);
        // What the power then takes of the first is in the sums.
        std::fs::write(segment_path(folder.path(), 1), "").unwrap();
        let again = Journal::open(folder.path(), Access::Owner, 64 << 10, "").unwrap();
        assert_eq!((again.state(), again.head()), (journal.state(), journal.head()));
        // A disk that takes nothing at all does not get a segment for each try.
        journal.sync_data = |_| Err(io::Error::from_raw_os_error(5));
        for number in 2..200 {
            journal.put(&chunk(number));
            assert!(journal.sync().is_err());
        }
        let count = segments(folder.path()).unwrap().len() as u64;
        assert!(count < 3 + journal.head().number * 256 / RETRY_LEN, "{count}");
    }

    #[test]
    fn a_full_segment_that_cannot_be_followed_takes_more_records_before_the_next_try() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("log");
        std::fs::create_dir(&place).unwrap();
        let mut journal = Journal::open(&place, Access::Owner, 16 << 10, "").unwrap();
        // No new file can be made there; the open folder still takes records.
        let moved = folder.path().join("moved");
        std::fs::rename(&place, &moved).unwrap();
        let (mut tries, mut records) = (0, 0);
        while journal.len() < 64 << 10 {
            journal.put(&chunk(records));
            tries += u32::from(journal.take_error().is_some());
            records += 1;
        }
        assert!(tries > 1 && u64::from(tries) < records / 8, "{tries} in {records}");
        std::fs::rename(&moved, &place).unwrap();
        while journal.lens.len() < 2 {
            journal.put(&chunk(records));
            records += 1;
        }
        assert_eq!(journal.omitted(), 0);
    }
}
