//! What a source has to say about itself.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use packet::file::FileFault;

/// Counters of one source. `received = handed out + filtered`.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Frames that were read.
    pub received: u64,
    /// Frames that the filter took out.
    pub filtered: u64,
    /// Why reading stopped early, if it did.
    pub damage: Option<Damage>,
}

/// Why a capture could not be read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The capture, as it was named.
    pub name: String,
    /// Offset of the item that could not be read, in bytes of the uncompressed file.
    pub offset: u64,
    /// Frames that were read before.
    pub frames_before: u64,
    /// What was wrong.
    pub cause: DamageCause,
}

/// What ended the reading of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DamageCause {
    /// The bytes are wrong.
    Fault(FileFault),
    /// The bytes could not be had: an I/O error, or a damaged compression.
    Unreadable(String),
    /// A filter cannot be compiled for a link type that first appears here.
    Filter(String),
}

/// How far a run has come; shared by all sources of the run.
#[derive(Debug, Default)]
pub struct Progress {
    bytes_read: AtomicU64,
    frames_read: AtomicU64,
}

impl Progress {
    /// Adds what was read since the last call: bytes as they lie on disk.
    #[inline]
    pub fn add(&self, bytes: u64, frames: u64) {
        self.bytes_read.fetch_add(bytes, Ordering::Relaxed);
        self.frames_read.fetch_add(frames, Ordering::Relaxed);
    }

    /// Begins again, for a second reading of the same captures.
    pub fn restart(&self) {
        self.bytes_read.store(0, Ordering::Relaxed);
        self.frames_read.store(0, Ordering::Relaxed);
    }

    /// Bytes read so far, as they lie on disk.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// Frames read so far.
    #[must_use]
    pub fn frames_read(&self) -> u64 {
        self.frames_read.load(Ordering::Relaxed)
    }
}

impl Report {
    /// Adds another source's.
    pub fn merge(&mut self, other: &Self) {
        self.received += other.received;
        self.filtered += other.filtered;
        if self.damage.is_none() {
            self.damage.clone_from(&other.damage);
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, offset, frames_before, cause } = self;
        match cause {
            DamageCause::Fault(fault) => write!(f, "{name}: at byte {offset}: {fault}")?,
            DamageCause::Unreadable(reason) => write!(f, "{name}: after byte {offset}: {reason}")?,
            DamageCause::Filter(reason) => return write!(f, "{name}: at byte {offset}: {reason}"),
        }
        write!(f, "; the {frames_before} frames before it were read")
    }
}
