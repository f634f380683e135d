//! Options of a recorder.

use std::path::PathBuf;
use std::time::Duration;

use packet::Span;

use super::writer::FILE_SHARE;
use crate::index::ALIGNMENT;
use crate::own::{Access, boot_id};
use crate::reasons::ColumnNames;

/// How files are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Direct {
    /// Around the page cache and by `io_uring` where the file system and the kernel allow it.
    #[default]
    Auto,
    /// Plainly, through the page cache.
    Never,
    /// As `Auto`, but an error where it is not possible.
    Always,
}

/// What happens when [`RecorderOptions::keep_bytes_max`] or the end of the disk is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhenFull {
    /// New packets are lost, and counted.
    #[default]
    Stop,
    /// The oldest files of the lowest priority are deleted, up to the priority that needs room.
    OverwriteUnimportant,
}

/// How class and confidence stand with a packet that is not of the first class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Notes {
    /// As a custom option of 16 bytes.
    #[default]
    Option,
    /// As a comment, which Wireshark shows; four times as long.
    Comment,
}

/// How packets lie in a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Encoding {
    /// Each in an enhanced packet block, which other programs read.
    #[default]
    Pcapng,
    /// Together in a compact block, which a query expands.
    Compact,
}

/// A clock that only goes forward, lent by the caller.
pub type Clock = fn() -> Duration;

/// Options of a recorder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecorderOptions {
    /// Where the files go.
    pub folder: PathBuf,
    /// Bytes of a file before the next begins.
    pub file_len_max: u64,
    /// Event time from a file's first packet to its last before the next begins.
    pub file_span_max: Option<Span>,
    /// Bytes of a chunk: a multiple of 4096, at least 64 KiB, at most 16 MiB.
    pub chunk_len: usize,
    /// Chunks in memory; at least two for each priority and two more.
    pub chunk_count: usize,
    /// A chunk that is not full is written after this long.
    pub flush_after: Duration,
    /// How files are written.
    pub direct: Direct,
    /// Bytes that all files may have together.
    pub keep_bytes_max: Option<u64>,
    /// Age, by event time, at which a file is deleted.
    pub keep_age_max: Option<Span>,
    /// What happens at the end of the room.
    pub when_full: WhenFull,
    /// Whether a chunk is acknowledged only when the disk says that it has it.
    pub sync: bool,
    /// How long the end of a recorder waits for the disk to take all files that are complete.
    pub sync_wait: Duration,
    /// Level at which files are compressed once they are closed.
    pub compress: Option<i32>,
    /// Whether a packet without room in memory waits for some instead of being lost, for captures
    /// that are read from files.
    pub waits: bool,
    /// Whether a block that cannot be written ends the recording, which then takes no more
    /// packets: see [`RecorderState::stopped`](super::RecorderState::stopped). For captures, whose
    /// packets can be read again.
    pub stops: bool,
    /// How class and confidence are written.
    pub notes: Notes,
    /// How packets lie in a chunk.
    pub encoding: Encoding,
    /// Who may read the log.
    pub access: Access,
    /// A file outside of the folder to which heads of the ledger are appended.
    pub anchor: Option<PathBuf>,
    /// Names the time since the machine was started: with another name than that of the recorder
    /// before, the disk may have less than was recorded. Empty: it has all.
    pub boot: String,
    /// What the columns of reasons are called.
    pub columns: ColumnNames,
}

impl RecorderOptions {
    /// Least and largest [`RecorderOptions::chunk_len`].
    pub const CHUNK_LEN: (usize, usize) = (64 << 10, 16 << 20);

    /// Makes chunks smaller in a log so small that full ones would not find room next to those of
    /// other priorities: each of these may use an eighth of the log at least. A trailer has room.
    pub(super) fn fit_chunks(&mut self, priorities: usize, trailer_len: usize) {
        let Some(max) = self.keep_bytes_max else { return };
        let others = priorities.saturating_sub(1).max(1) as u64;
        // With what belongs to it in the index.
        let share = max / FILE_SHARE / others / 5 * 4;
        let share = usize::try_from(share).unwrap_or(usize::MAX) / ALIGNMENT * ALIGNMENT;
        let least = Self::CHUNK_LEN.0.max(8 * trailer_len).next_multiple_of(ALIGNMENT);
        self.chunk_len = self.chunk_len.min(share.max(least));
    }

    /// Defaults, for files in `folder`.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            file_len_max: 1 << 30,
            file_span_max: None,
            chunk_len: 4 << 20,
            chunk_count: 8,
            flush_after: Duration::from_secs(1),
            direct: Direct::Auto,
            keep_bytes_max: None,
            keep_age_max: None,
            when_full: WhenFull::Stop,
            sync: false,
            // Within the 90 s that systemd gives a service.
            sync_wait: Duration::from_secs(30),
            compress: None,
            waits: false,
            stops: false,
            notes: Notes::Option,
            encoding: Encoding::Pcapng,
            access: Access::Owner,
            anchor: None,
            boot: boot_id(),
            columns: ColumnNames::default(),
        }
    }
}
