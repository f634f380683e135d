//! A log compared with its ledger: what was changed, removed or added.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::error::LogError;
use super::file::LogFile;
use crate::account::{self, Account};
use crate::file_name::{FileName, file_names};
use crate::index::{IndexRecord, Trailer};
use crate::ledger::{
    ChunkEntry, Damage, Deletion, Entry, FileEntry, Head, LedgerState, Step, digest, scan,
    scan_newest,
};
use crate::own::boot_id;

/// What is not as the ledger or an anchor has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// A segment of the ledger was changed at a line.
    Ledger {
        /// Its file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A record is not the one that was anchored: the ledger was rewritten.
    Rewritten(Head),
    /// The ledger ends before a record that was anchored.
    Truncated(Head),
    /// A file is missing without a record of its deletion.
    Missing {
        /// Its name, without suffix.
        file: String,
        /// Its packets.
        packets: u64,
    },
    /// A file cannot be read.
    Unreadable(String),
    /// Another program deleted a file, as the recorder noticed.
    Gone {
        /// The record.
        number: u64,
        /// The file.
        file: String,
        /// Its packets.
        packets: u64,
    },
    /// So many files were deleted by other programs before the oldest record that is there.
    GoneBefore(u64),
    /// A block was changed.
    Changed(Place),
    /// A block was removed.
    Removed(Place),
    /// A block is in no record.
    Added(Place),
    /// Blocks of a file before this offset, of which the records were summed up, were changed.
    Summed(Place),
    /// Bytes of a file are no block.
    Stray(Place),
    /// Index, hashes or reasons of a file are not those of its blocks; `recover` makes them again.
    Side(String),
    /// The account has less than the ledger.
    Account(String),
    /// A power cut is recorded that cannot have been: the machine ran on from before it until after
    /// it, or the recorder before it knew of no boot.
    NoPowerCut(PowerLoss),
}

/// A place in a file of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The file, without suffix.
    pub file: String,
    /// Where, counted as if it were not compressed.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} bytes at {}", self.file, self.len, self.offset)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ledger { path, line, what } => {
                write!(f, "{}: line {line}: {what}", path.display())
            }
            Self::Rewritten(head) => {
                let number = head.number;
                write!(f, "ledger: record {number} is not the one that was anchored: rewritten")
            }
            Self::Truncated(head) => {
                write!(f, "ledger: record {} was anchored and is missing", head.number)
            }
            Self::Missing { file, packets } => {
                write!(f, "{file}: removed, with {packets} packets")
            }
            Self::Unreadable(text) | Self::Side(text) => f.write_str(text),
            Self::Gone { number, file, packets } => write!(
                f,
                "{file}: removed by another program, with {packets} packets; the recorder noticed \
                 it at record {number}"
            ),
            Self::GoneBefore(files) => write!(
                f,
                "{files} files were removed by other programs before the oldest record that is \
                 there"
            ),
            Self::Changed(place) => write!(f, "{place}: a block was changed"),
            Self::Removed(place) => write!(f, "{place}: a block was removed"),
            Self::Added(place) => write!(f, "{place}: a block that no recorder recorded"),
            Self::Summed(place) => write!(f, "{place}: blocks were changed, removed or added"),
            Self::Stray(place) => write!(f, "{place}: no block"),
            Self::Account(text) => write!(f, "account: {text}"),
            Self::NoPowerCut(lost) => write!(
                f,
                "{}: {} packets are recorded as lost in a power cut, which the boot identifiers \
                 before and after rule out: record {} was forged",
                lost.file, lost.packets, lost.number
            ),
        }
    }
}

/// What a power cut took of a file. Its recorder found it at the next start, so it proves nothing
/// against a user who could change the log before that start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PowerLoss {
    /// The record that says so.
    pub number: u64,
    /// The file, without suffix.
    pub file: String,
    /// Blocks whose records no longer hold; what was there was recorded again as found.
    pub chunks: u64,
    /// Packets that are not there.
    pub packets: u64,
}

/// A block that its recorder could not write, as it recorded itself, while a later one of the file
/// was written: what is in its place says nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailedWrite {
    /// Where it was to be.
    pub place: Place,
    /// Its packets, counted as lost.
    pub packets: u64,
    /// The [`Cause`](crate::recorder::Cause), by name.
    pub cause: String,
}

/// A log compared with its ledger.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VerifyReport {
    /// Records of the ledger that are there: the first and the last.
    pub records: Option<(u64, Head)>,
    /// Its segments.
    pub segments: u64,
    /// The last record that an anchor confirms.
    pub anchored: Option<Head>,
    /// Anchors older than the first record that is there: nothing can be said about them.
    pub anchors_before: u64,
    /// Files of the log that are recorded.
    pub files: u64,
    /// Their blocks of which the content is recorded.
    pub chunks: u64,
    /// Their blocks that are older than the ledger.
    pub chunks_earlier: u64,
    /// Blocks that are not recorded yet: a recorder is running, or was killed.
    pub chunks_unrecorded: u64,
    /// Blocks recorded by the next recorder, since the one that wrote them was killed.
    pub chunks_found: u64,
    /// Files of which the disk did not have, after a power cut, all that was recorded.
    pub lost: Vec<PowerLoss>,
    /// Blocks that could not be written, in files that are there.
    pub failed: Vec<FailedWrite>,
    /// Recorders that did not end properly.
    pub unclean: u64,
    /// Records that could not be written.
    pub omitted: u64,
    /// Whether the last recorder ended properly.
    pub is_stopped: bool,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

/// What the records of a ledger say.
#[derive(Default)]
struct Reading {
    first: Option<u64>,
    head: Option<Head>,
    state: LedgerState,
    /// Files as the oldest record that is there has them.
    base: BTreeMap<String, FileEntry>,
    chunks: BTreeMap<String, Vec<ChunkEntry>>,
    /// By boot, the latest record of a recorder that started then.
    boots: BTreeMap<String, u64>,
    is_gap: bool,
    last_damage: Option<Damage>,
}

impl Reading {
    fn of(folder: &Path, anchors: &[Head], report: &mut VerifyReport) -> Result<Self, LogError> {
        let mut read = Self { is_gap: true, ..Self::default() };
        let segments = scan(folder, &mut |seen| match seen {
            Step::Record(head, entry) => read.record(*head, entry, anchors, report),
            Step::Damage(path, line, damage) => {
                read.is_gap = true;
                read.last_damage = Some(damage.clone());
                let what = match damage {
                    Damage::Torn => "a record is not complete",
                    Damage::Zeros => "bytes that are 0: only a power cut leaves them",
                    Damage::NoRecord => "no record of a ledger",
                    Damage::Hash => "its hash is wrong: this record was changed",
                    Damage::Gap => "records before it are missing",
                    Damage::TooLong => "longer than any record that is read",
                };
                report.findings.push(Finding::Ledger { path: path.to_owned(), line, what });
            }
        });
        report.segments = segments.map_err(|error| LogError::new(folder, error))?.len() as u64;
        Ok(read)
    }

    fn record(&mut self, head: Head, entry: &Entry, anchors: &[Head], report: &mut VerifyReport) {
        self.first.get_or_insert(head.number);
        self.head = Some(head);
        for anchor in anchors.iter().filter(|anchor| anchor.number == head.number) {
            if anchor.hash == head.hash {
                report.anchored = Some(head);
            } else {
                report.findings.push(Finding::Rewritten(*anchor));
            }
        }
        self.compare_account(head.number, entry, report);
        match entry {
            // Records that were omitted are in the sums alone.
            Entry::Segment(state) if self.is_gap || state.omitted > self.state.omitted => {
                self.boots.entry(state.boot.clone()).or_insert(head.number);
                self.base.clone_from(&state.files);
                self.chunks.clear();
                self.is_gap = false;
                let gone = state.deleted.get(Deletion::Gone as usize).map_or(0, |sums| sums[0]);
                if gone > 0 && head.number == self.first.unwrap_or(0) {
                    report.findings.push(Finding::GoneBefore(gone));
                }
            }
            Entry::Chunk(chunk) => {
                report.chunks_found += u64::from(chunk.is_found);
                self.chunks.entry(chunk.file.clone()).or_default().push(chunk.clone());
            }
            Entry::Earlier { file, chunks, end, packets } => {
                self.base.insert(file.clone(), FileEntry::earlier(*chunks, *packets, *end));
            }
            Entry::Start { boot, .. } => {
                self.deny_power_cuts(boot, report);
                self.boots.insert(boot.clone(), head.number);
            }
            Entry::Lost { file, chunks, packets } => {
                let (number, file) = (head.number, file.clone());
                let (chunks, packets) = (*chunks, *packets);
                let lost = PowerLoss { number, file, chunks, packets };
                if self.state.boot.is_empty() {
                    report.findings.push(Finding::NoPowerCut(lost));
                } else {
                    report.lost.push(lost);
                }
            }
            Entry::Delete { file, cause, packets, .. } => {
                self.base.remove(file);
                self.chunks.remove(file);
                if *cause == Deletion::Gone {
                    let (number, file, packets) = (head.number, file.clone(), *packets);
                    report.findings.push(Finding::Gone { number, file, packets });
                }
            }
            _ => {}
        }
        self.state.apply(entry);
        if let Entry::Lost { file, .. } = entry {
            self.fall_back(file);
        }
    }

    /// The machine was not started again between two moments of one boot: what is recorded in
    /// between as lost in a power cut was removed by a user, who added that record.
    fn deny_power_cuts(&self, boot: &str, report: &mut VerifyReport) {
        let Some(since) = self.boots.get(boot).filter(|_| !boot.is_empty()) else { return };
        let denied = report.lost.extract_if(.., |lost| lost.number > *since);
        report.findings.extend(denied.map(Finding::NoPowerCut));
    }

    /// Of a file of which a power cut took something, only the records of its synced part hold.
    fn fall_back(&mut self, file: &str) {
        let Some(left) = self.state.files.get(file) else {
            self.base.remove(file);
            self.chunks.remove(file);
            return;
        };
        if let Some(base) = self.base.get_mut(file).filter(|base| base.end > left.end) {
            base.clone_from(left);
        }
        if let Some(chunks) = self.chunks.get_mut(file) {
            chunks.retain(|chunk| chunk.offset < left.end);
        }
    }

    /// Totals only grow, over all recorders of a log.
    fn compare_account(&self, number: u64, entry: &Entry, report: &mut VerifyReport) {
        let (Entry::Start { account: text, .. }
        | Entry::Stop { account: text, .. }
        | Entry::Account { text }) = entry
        else {
            return;
        };
        let before = Account::parse(&self.state.account);
        let why = Account::parse(text).zip(before).and_then(|(now, before)| {
            now.falls_short_of(&before).map(|why| format!("{why}, at record {number}"))
        });
        report.findings.extend(why.map(Finding::Account));
    }
}

/// Compares a log with its ledger, and the ledger with heads that were anchored elsewhere. Reads
/// the whole log; a recorder may be writing to it.
///
/// # Errors
/// The folder or the ledger cannot be read. What cannot be read of the log is a finding.
pub fn verify(folder: &Path, anchors: &[Head]) -> Result<VerifyReport, LogError> {
    let mut report = VerifyReport::default();
    let read = Reading::of(folder, anchors, &mut report)?;
    let head = read.head.unwrap_or_default();
    report.records = read.first.map(|first| (first, head));
    for anchor in anchors {
        if anchor.number > head.number {
            report.findings.push(Finding::Truncated(*anchor));
        } else if anchor.number < read.first.unwrap_or(0) {
            report.anchors_before += 1;
        }
    }
    let (state, boot) = (&read.state, boot_id());
    read.deny_power_cuts(&boot, &mut report);
    report.is_stopped = state.is_stopped;
    (report.unclean, report.omitted) = (state.unclean, state.omitted);
    let is_of_crash = match read.last_damage {
        Some(Damage::Torn) => true,
        Some(Damage::Zeros) => state.may_be_cut(&boot),
        _ => false,
    };
    if read.is_gap && is_of_crash {
        // What a recorder was just writing, or a crash left; the last finding so far of a ledger.
        let last = report.findings.iter().rposition(|it| matches!(it, Finding::Ledger { .. }));
        last.map(|last| report.findings.remove(last));
    }
    if report.records.is_none() {
        return Ok(report);
    }
    files(folder, &read, &mut report)?;
    account(folder, &read.state, &mut report);
    drop_deleted(folder, &mut report)?;
    Ok(report)
}

/// The last record of a log's ledger, to be anchored elsewhere; `None` if there is no ledger.
///
/// # Errors
/// The folder or the ledger cannot be read.
pub fn head(folder: &Path) -> Result<Option<Head>, LogError> {
    let newest = scan_newest(folder).map_err(|error| LogError::new(folder, error))?;
    Ok(newest.map(|(head, _)| head))
}

/// Compares the files that are there with those that are recorded.
fn files(folder: &Path, read: &Reading, report: &mut VerifyReport) -> Result<(), LogError> {
    let names = file_names(folder).map_err(|error| LogError::new(folder, error))?;
    let there: BTreeMap<String, &FileName> = names.iter().map(|name| (name.stem(), name)).collect();
    // A recorder that did not end may have written last to the newest file of each priority.
    let mut newest = BTreeMap::new();
    for name in read.state.files.keys().filter_map(|name| FileName::parse(name)) {
        let number = newest.entry(name.priority).or_insert(name.number);
        *number = name.number.max(*number);
    }
    let is_open = |name: &FileName| {
        let is_newest = newest.get(&name.priority).is_none_or(|newest| name.number >= *newest);
        !read.state.is_stopped && is_newest
    };
    for (name, known) in &read.state.files {
        report.files += 1;
        let Some(there) = there.get(name) else {
            let (file, packets) = (name.clone(), known.packets);
            report.findings.push(Finding::Missing { file, packets });
            continue;
        };
        report.failed.extend(known.holes.iter().map(|hole| FailedWrite {
            place: Place { file: name.clone(), offset: hole.offset, len: hole.len },
            packets: hole.packets,
            cause: hole.cause.clone(),
        }));
        let check = Check {
            name: there,
            known,
            base: read.base.get(name).cloned().unwrap_or_default(),
            entries: read.chunks.get(name).map_or(&[], Vec::as_slice),
            is_open: is_open(there),
        };
        check.run(folder, report);
    }
    for (_, name) in there.iter().filter(|(name, _)| !read.state.files.contains_key(*name)) {
        let (known, base) = (&FileEntry::default(), FileEntry::default());
        Check { name, known, base, entries: &[], is_open: is_open(name) }.run(folder, report);
    }
    Ok(())
}

/// A file to compare.
struct Check<'a> {
    name: &'a FileName,
    /// By all records.
    known: &'a FileEntry,
    /// By the oldest record that is there.
    base: FileEntry,
    entries: &'a [ChunkEntry],
    is_open: bool,
}

/// The outcome of a comparison.
#[derive(Default)]
struct Outcome {
    findings: Vec<Finding>,
    chunks: u64,
    unrecorded: u64,
    damaged_keys: u64,
}

impl Check<'_> {
    fn run(&self, folder: &Path, report: &mut VerifyReport) {
        // Numbers of a ledger that someone else may have written.
        let earlier = if self.base.earlier_end > 0 { self.base.chunks } else { 0 };
        report.chunks_earlier = report.chunks_earlier.saturating_add(earlier);
        let compared = LogFile::open(folder, self.name).map(|file| (self.compare(&file), file));
        let (mut outcome, file) = match compared {
            Ok(compared) => compared,
            Err(error) => {
                return report.findings.push(Finding::Unreadable(error.to_string()));
            }
        };
        let damaged_keys = outcome.damaged_keys;
        if !outcome.findings.is_empty()
            && let Ok(again) = LogFile::open_without_index(folder, self.name)
        {
            let by_chunks = self.compare(&again);
            if by_chunks.findings.is_empty() {
                outcome = by_chunks;
                outcome.findings.push(Finding::Side(self.of_index()));
            }
        }
        let keys = (damaged_keys > 0).then(|| file.keys_fault(damaged_keys));
        let damaged = file.side_faults.iter().chain(&keys);
        outcome.findings.extend(damaged.map(|fault| Finding::Side(fault.to_string())));
        report.chunks += outcome.chunks;
        report.chunks_unrecorded += outcome.unrecorded;
        report.findings.append(&mut outcome.findings);
    }

    fn of_index(&self) -> String {
        format!("{}: its index is not that of its blocks", self.name.stem())
    }

    fn place(&self, offset: u64, len: u64) -> Place {
        Place { file: self.name.stem(), offset, len }
    }

    fn compare(&self, file: &LogFile) -> Outcome {
        let mut outcome = Outcome::default();
        let mut summed = FileEntry { earlier_end: self.base.earlier_end, ..FileEntry::default() };
        let mut entries = self.entries.iter().peekable();
        let (mut bytes, mut is_misled) = (Vec::new(), false);
        for record in &file.chunks {
            let (offset, len) = (record.offset, u64::from(record.len));
            if offset < self.base.earlier_end {
                summed.chunks += 1;
                continue;
            }
            let stored = content(file, record, &mut bytes);
            outcome.damaged_keys += u64::from(!file.keys_are_right(record));
            let trailer = Trailer::read(&bytes).ok().map(|(trailer, ..)| trailer);
            is_misled |= trailer.as_ref().is_some_and(|trailer| *trailer != record.trailer);
            if self.is_of_failed_write((offset, len), stored, trailer.as_ref()) {
                continue;
            }
            if offset < self.base.end {
                // What cannot be read gives another digest as well.
                summed.chunks += 1;
                summed.fold(offset, len, &stored.unwrap_or_default());
                continue;
            }
            while let Some(removed) = entries.next_if(|entry| entry.offset < offset) {
                outcome.findings.push(Finding::Removed(self.place(removed.offset, removed.len)));
            }
            match entries.next_if(|entry| entry.offset == offset) {
                Some(entry) if entry.len == len && stored == Some(entry.digest) => {
                    outcome.chunks += 1;
                }
                Some(entry) => {
                    outcome.findings.push(Finding::Changed(self.place(offset, entry.len)));
                }
                None if self.is_open && entries.peek().is_none() => outcome.unrecorded += 1,
                None => outcome.findings.push(Finding::Added(self.place(offset, len))),
            }
        }
        for removed in entries {
            outcome.findings.push(Finding::Removed(self.place(removed.offset, removed.len)));
        }
        let is_same = (summed.chunks, summed.digest) == (self.base.chunks, self.base.digest);
        if is_same {
            outcome.chunks += if self.base.earlier_end == 0 { self.base.chunks } else { 0 };
        } else {
            outcome.findings.push(Finding::Summed(self.place(0, self.base.end)));
        }
        for fault in &file.faults {
            let end = fault.offset.saturating_add(fault.len);
            let is_tail = self.is_open && end >= file.len;
            if !is_tail && !self.known.is_hole(fault.offset, end) {
                outcome.findings.push(Finding::Stray(self.place(fault.offset, fault.len)));
            }
        }
        if is_misled {
            outcome.findings.push(Finding::Side(self.of_index()));
        }
        outcome
    }
}

impl Check<'_> {
    /// Whether a chunk is what could not be written, and is there all the same, or what a repair
    /// puts into such a place: nothing. Any other chunk there was added.
    fn is_of_failed_write(
        &self,
        (offset, len): (u64, u64),
        stored: Option<[u8; 32]>,
        trailer: Option<&Trailer>,
    ) -> bool {
        let is_it =
            self.known.holes.iter().any(|hole| {
                (hole.offset, hole.len) == (offset, len) && stored == Some(hole.digest)
            });
        let is_void = trailer.is_some_and(|trailer| {
            trailer.is_repaired && trailer.packet_count == 0 && trailer.rows.is_empty()
        });
        is_it || is_void && self.known.is_hole(offset, offset.saturating_add(len))
    }
}

/// The digest of a chunk; `None` if it cannot be read, or if its index says what it does not.
fn content(file: &LogFile, record: &IndexRecord, bytes: &mut Vec<u8>) -> Option<[u8; 32]> {
    let stored = file.read_stored(record, bytes);
    stored.is_ok_and(|read| read.is_ok()).then(|| digest(&[bytes]))
}

/// The account may only have more than the ledger.
fn account(folder: &Path, state: &LedgerState, report: &mut VerifyReport) {
    let Some(recorded) = Account::parse(&state.account) else { return };
    let why = account::shortfall(folder, &recorded);
    let of_file = |why| Finding::Account(format!("{why}; `stats` takes the ledger's totals"));
    report.findings.extend(why.map(of_file));
}

/// Files that a recorder deleted meanwhile are not missing.
fn drop_deleted(folder: &Path, report: &mut VerifyReport) -> Result<(), LogError> {
    let may_be_running = |finding: &Finding| {
        matches!(finding, Finding::Missing { .. } | Finding::Unreadable(_) | Finding::Removed(_))
    };
    if report.is_stopped || !report.findings.iter().any(may_be_running) {
        return Ok(());
    }
    let now = Reading::of(folder, &[], &mut VerifyReport::default())?;
    let is_there = |file: &str| now.state.files.contains_key(file);
    report.findings.retain(|finding| match finding {
        Finding::Missing { file, .. } => is_there(file),
        Finding::Removed(place) | Finding::Changed(place) => is_there(&place.file),
        Finding::Unreadable(text) => now.state.files.keys().any(|file| text.contains(file)),
        _ => true,
    });
    Ok(())
}
