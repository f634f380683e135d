//! What is watched, and what is too much of it.

use std::fmt;
use std::time::Duration;

/// What was seen of the resources at one moment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Signals {
    /// When, on a clock that only goes forward.
    pub now: Duration,
    /// Free bytes of the disk, or of what the log may fill, as a share of all.
    pub disk_free: f64,
    /// Buffers that wait for the disk, as a share of all.
    pub queue: f64,
    /// Bytes copied into the log each second, as a share of what the disk was seen to take.
    pub copy: f64,
    /// Time that the packets' thread was at work, as a share of all.
    pub busy: f64,
    /// Packets that the capture's ring had no room for, since the start.
    pub ring_lost: u64,
    /// Packets that the log had no room for, since the start.
    pub log_lost: u64,
}

/// A resource that is under pressure, in the paper's words (section VI-B) and what stands for it
/// here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Shortage {
    /// Disk capacity.
    Disk,
    /// Bandwidth of copying ("mirror bandwidth"): more is copied than the disk takes.
    Copy,
    /// Buffers wait for the disk ("RDMA throughput").
    Queue,
    /// The log had no room for packets.
    LogLoss,
    /// The capture's ring had no room for packets ("switch queue buffer").
    RingLoss,
    /// The packets' thread has no time left.
    Busy,
}

impl Shortage {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Disk, Self::Copy, Self::Queue, Self::LogLoss, Self::RingLoss, Self::Busy];

    /// Its name in settings, events and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Copy => "copy",
            Self::Queue => "queue",
            Self::LogLoss => "log_loss",
            Self::RingLoss => "ring_loss",
            Self::Busy => "busy",
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// When a resource is under pressure, and when it no longer is.
#[derive(Clone, PartialEq, Debug)]
pub struct Limit {
    /// From here on it is under pressure: at this share or above; of the disk's free share below
    /// it.
    pub on: f64,
    /// It has recovered once it has been on the other side of this...
    pub off: f64,
    /// ... for so long.
    pub hold: Duration,
    /// The mode that relieves it; none where it is only warned of.
    pub mode: Option<String>,
}

/// Limits for every resource.
#[derive(Clone, PartialEq, Debug)]
pub struct Limits {
    /// By [`Shortage`], in the order of [`Shortage::ALL`].
    limits: [Limit; 6],
    /// Whether full disks are met by overwriting unimportant data, not by another mode.
    pub overwrites: bool,
    /// Mode for when both large copies and many packets are to be relieved.
    pub both: String,
}

impl Default for Limits {
    fn default() -> Self {
        let limit = |on, off, hold_s, mode: &str| Limit {
            on,
            off,
            hold: Duration::from_secs(hold_s),
            mode: Some(mode.to_owned()),
        };
        Self {
            limits: [
                // A disk that was cleared was cleared by somebody: there is no burst to wait for.
                limit(0.05, 0.08, 1, "log-sampled"),
                limit(0.9, 0.6, 10, "log-partial"),
                limit(0.75, 0.25, 10, "log-sampled"),
                // Of losses any is too much; they have ended when there is none for a while.
                limit(1.0, 1.0, 30, "log-sampled"),
                limit(1.0, 1.0, 30, "log-sampled"),
                limit(0.97, 0.8, 10, "log-sampled"),
            ],
            overwrites: false,
            both: String::from("log-minimum"),
        }
    }
}

/// A limit that makes no sense.
#[derive(Clone, PartialEq, Debug)]
pub struct LimitError {
    shortage: Shortage,
    on: f64,
    off: f64,
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shortage, on, off } = self;
        let wanted = match shortage {
            Shortage::Disk => "off at least on, both from 0 to 1",
            Shortage::LogLoss | Shortage::RingLoss => "on at least 1, a number of packets",
            _ => "off at most on, both from 0 to 1",
        };
        write!(f, "{shortage}: on {on}, off {off}; wanted: {wanted}")
    }
}

impl std::error::Error for LimitError {}

impl Limits {
    /// The same limits, which are reported and change nothing else.
    #[must_use]
    pub fn only_warnings(mut self) -> Self {
        for limit in &mut self.limits {
            limit.mode = None;
        }
        self
    }

    /// That of a resource.
    #[must_use]
    pub const fn of(&self, shortage: Shortage) -> &Limit {
        &self.limits[shortage as usize]
    }

    /// Sets that of a resource.
    ///
    /// # Errors
    /// [`LimitError`] where it would switch to and fro, or never.
    pub fn set(&mut self, shortage: Shortage, limit: Limit) -> Result<(), LimitError> {
        let (on, off) = (limit.on, limit.off);
        let shares = 0.0..=1.0;
        let makes_sense = match shortage {
            Shortage::Disk => shares.contains(&on) && shares.contains(&off) && off >= on,
            Shortage::LogLoss | Shortage::RingLoss => on >= 1.0,
            _ => shares.contains(&on) && shares.contains(&off) && off <= on,
        };
        if !makes_sense {
            return Err(LimitError { shortage, on, off });
        }
        self.limits[shortage as usize] = limit;
        Ok(())
    }
}

impl Signals {
    /// Nothing is short yet, at this time.
    #[must_use]
    pub const fn calm(now: Duration) -> Self {
        Self { now, disk_free: 1.0, queue: 0.0, copy: 0.0, busy: 0.0, ring_lost: 0, log_lost: 0 }
    }
}
