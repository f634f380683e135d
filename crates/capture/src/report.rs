//! What a source has to say about itself.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use packet::file::FileFault;
use packet::{LinkType, Record};

/// Counters of one source. `received = handed out + filtered + dropped + unread`.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Frames that were read; of an interface those that the kernel says passed the filter,
    /// dropped ones included.
    pub received: u64,
    /// Frames that the filter took out. The kernel does not tell those that it took out itself.
    pub filtered: u64,
    /// Frames that passed the filter and were lost or left out.
    pub dropped: Drops,
    /// Frames of an interface that wait in the ring, and are lost if reading ends here. None is
    /// left once the source has ended by itself.
    pub unread: u64,
    /// Times that an interface's ring stood full and the kernel waited for a block.
    pub freezes: u64,
    /// Times that an interface went down while it was read.
    pub interface_down_count: u64,
    /// Frames that the interface or its driver lost meanwhile, by their own count. They were
    /// never received, so they stand in no sum.
    pub interface_dropped: u64,
    /// Frames whose stamp is outside of what 64 bits of nanoseconds can say (1677 to 2262) and was
    /// clamped to the nearer end.
    pub clamped_stamps: u64,
    /// Frames of link types whose headers are not read, by link type; without those that the
    /// filter took out.
    pub undecoded: BTreeMap<LinkType, u64>,
    /// Why reading stopped early, if it did.
    pub damage: Option<Damage>,
}

/// Frames that were received and not handed out, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// The kernel found no room in the ring.
    pub ring_full: u64,
    /// Copies of packets that came before, left out because that was asked for.
    pub duplicates: u64,
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
    /// The interface is no longer there.
    InterfaceRemoved,
}

/// Frames that were read ahead and not handed out, since a limit was reached before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnusedFrames {
    /// How many.
    pub count: u64,
    /// Those of link types whose headers are not read, by link type.
    undecoded: BTreeMap<LinkType, u64>,
}

impl UnusedFrames {
    /// Adds frames.
    pub fn add(&mut self, records: &[Record]) {
        self.count += records.len() as u64;
        for record in records.iter().filter(|record| !record.link.is_decoded()) {
            *self.undecoded.entry(record.link).or_default() += 1;
        }
    }

    /// Adds what another source had read.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        for (&link, count) in &other.undecoded {
            *self.undecoded.entry(link).or_default() += count;
        }
    }
}

/// How far a run has come; shared by all sources of the run.
#[derive(Debug, Default)]
pub struct Progress {
    bytes_read: AtomicU64,
    frames_read: AtomicU64,
    frames_filtered: AtomicU64,
    frames_dropped: AtomicU64,
    duplicates: AtomicU64,
    interface_dropped: AtomicU64,
}

impl Progress {
    /// Adds what was read since the last call: bytes as they lie on disk.
    #[inline]
    pub fn add(&self, bytes: u64, frames: u64) {
        self.bytes_read.fetch_add(bytes, Ordering::Relaxed);
        self.frames_read.fetch_add(frames, Ordering::Relaxed);
    }

    /// Adds frames that were lost since the last call.
    #[inline]
    pub fn add_dropped(&self, frames: u64) {
        self.frames_dropped.fetch_add(frames, Ordering::Relaxed);
    }

    /// Adds frames that the filter took out since the last call; they were read.
    #[inline]
    pub fn add_filtered(&self, frames: u64) {
        self.frames_filtered.fetch_add(frames, Ordering::Relaxed);
    }

    /// Adds copies that were left out since the last call; they were read.
    #[inline]
    pub fn add_duplicates(&self, frames: u64) {
        self.duplicates.fetch_add(frames, Ordering::Relaxed);
    }

    /// Adds frames that the interface lost since the last call; they were never received.
    #[inline]
    pub fn add_interface_dropped(&self, frames: u64) {
        self.interface_dropped.fetch_add(frames, Ordering::Relaxed);
    }

    /// Begins again, for a second reading of the same captures.
    pub fn restart(&self) {
        self.bytes_read.store(0, Ordering::Relaxed);
        self.frames_read.store(0, Ordering::Relaxed);
        self.frames_filtered.store(0, Ordering::Relaxed);
        self.frames_dropped.store(0, Ordering::Relaxed);
        self.duplicates.store(0, Ordering::Relaxed);
        self.interface_dropped.store(0, Ordering::Relaxed);
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

    /// Frames lost so far, as the kernel's ring had no room.
    #[must_use]
    pub fn frames_dropped(&self) -> u64 {
        self.frames_dropped.load(Ordering::Relaxed)
    }

    /// The same numbers as at the end, as far as they are known by now. Frames that wait in a ring
    /// are not among them.
    #[must_use]
    pub fn so_far(&self) -> Report {
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        // Those that were lost first: what is read meanwhile is received and not yet counted.
        let (ring_full, duplicates) = (of(&self.frames_dropped), of(&self.duplicates));
        let filtered = of(&self.frames_filtered);
        Report {
            received: of(&self.frames_read) + ring_full,
            filtered,
            dropped: Drops { ring_full, duplicates },
            interface_dropped: of(&self.interface_dropped),
            ..Report::default()
        }
    }
}

impl Drops {
    /// All causes together.
    #[must_use]
    pub fn total(self) -> u64 {
        self.ring_full + self.duplicates
    }
}

impl Report {
    /// Counts frames whose link type is not decoded.
    pub(crate) fn add_undecoded(&mut self, link: LinkType, count: u64) {
        *self.undecoded.entry(link).or_default() += count;
    }

    /// Takes frames that were read ahead out of the undecoded.
    pub fn subtract_undecoded(&mut self, unused: &UnusedFrames) {
        for (link, count) in &unused.undecoded {
            if let Some(sum) = self.undecoded.get_mut(link) {
                *sum = sum.saturating_sub(*count);
            }
        }
        self.undecoded.retain(|_, count| *count > 0);
    }

    /// Frames of link types that are not decoded, all together.
    #[must_use]
    pub fn undecoded_total(&self) -> u64 {
        self.undecoded.values().sum()
    }

    /// Adds another source's.
    pub fn merge(&mut self, other: &Self) {
        self.received += other.received;
        self.filtered += other.filtered;
        self.dropped.ring_full += other.dropped.ring_full;
        self.dropped.duplicates += other.dropped.duplicates;
        self.unread += other.unread;
        self.freezes += other.freezes;
        self.interface_down_count += other.interface_down_count;
        self.interface_dropped += other.interface_dropped;
        self.clamped_stamps += other.clamped_stamps;
        for (&link, &count) in &other.undecoded {
            self.add_undecoded(link, count);
        }
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
            DamageCause::InterfaceRemoved => write!(f, "{name}: the interface was removed")?,
        }
        write!(f, "; the {frames_before} frames before it were read")
    }
}
