//! Frames of one socket as a source of batches.

use std::fs;
use std::io;
use std::sync::atomic::Ordering;

use packet::{BATCH_LEN_MAX, Batch, LinkType, Record, Source, Span, Timestamp};

use super::frame::{Origin, Taker};
use super::frames::Frames;
use super::program::REFUSE_ALL;
use super::stall::Stall;
use crate::reading::ReadOptions;
use crate::report::{Damage, DamageCause, Report};
use crate::sys::clock::realtime_now;
use crate::sys::libpcap::Instruction;
use crate::sys::packet_socket::{PacketSocket, Readiness};
use crate::sys::scheduling::{become_realtime, become_usual};

/// How long a stop may go unnoticed while nothing comes.
const STOP_NOTICED_MS: u32 = 100;

/// A frame is stamped before it lies in the ring: so much earlier it may have been.
const STAMP_LEAD: Span = Span::from_ns(1_000_000);

/// After so long no processor still runs a filter that was replaced.
const FILTER_REPLACED_MS: u32 = 2;

/// A block that is begun is handed over after twice its time-out, and this on a busy host.
const DRAIN_MAX_MS: u32 = 1_000;

/// Kernel counters are 32 bits wide and read every so many batches: below 2 million frames.
const BATCHES_PER_REFRESH: u32 = 16;

/// What the interface lost stands in a text of all interfaces, which is as dear to ask for as a
/// hundred frames are to read: so many times more seldom, and at the end.
const REFRESHES_PER_INTERFACE: u32 = 64;

/// Frames of one interface, or of those that a group gives to this socket.
///
/// It ends when [`ReadOptions::stop`] is set, after what the ring held was handed out, or
/// when the interface is removed, which its report then says. An interface that is down is
/// waited for.
pub struct LiveSource {
    pub(super) name: String,
    pub(super) socket: PacketSocket,
    pub(super) frames: Frames,
    pub(super) origin: Origin,
    pub(super) options: ReadOptions,
    pub(super) scheduling: Scheduling,
    pub(super) tick_ms: u32,
    /// As [`CutFrames::secret`](super::CutFrames::secret).
    pub(super) cut_secret: Option<u64>,
    pub(super) block_timeout_ms: u32,
    pub(super) stall: Option<Stall>,
    pub(super) is_up_at_start: bool,
    /// What the interface had lost at the start; of one source of a group only.
    pub(super) interface_dropped_before: Option<u64>,
    /// What it lets in once it is asked to; none where it does so already.
    pub(super) program: Option<Vec<Instruction>>,
    pub(super) records: Box<[Record]>,
    pub(super) phase: Phase,
    pub(super) handed_out: u64,
    pub(super) batches_since_refresh: u32,
    pub(super) refreshes_since_interface: u32,
    pub(super) report: Report,
}

/// How far a source has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Reading,
    /// Nothing more enters the ring; what is there is handed out.
    Draining {
        waited_ms: u32,
    },
    Ended,
}

/// How the thread that reads is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheduling {
    /// As all others.
    Usual,
    /// In real time, from the first call on: it waits for frames, and no other thread may make it
    /// wait longer. Where that is not permitted it stays as all others.
    Wanted,
    /// In real time.
    Realtime,
}

/// What a source has without waiting for it.
pub(super) enum PollOutcome<'a> {
    Frames(Batch<'a>),
    /// Nothing: all that was seen up to this time was handed over.
    Empty(Timestamp),
    /// Frames that cannot be had yet.
    Filling,
    Ended,
}

/// What ended a wait.
enum Wake {
    Frames,
    Tick(Timestamp),
    End,
}

impl Scheduling {
    #[inline]
    fn begin(&mut self) {
        if *self == Self::Wanted {
            *self = become_realtime().map_or(Self::Usual, |()| Self::Realtime);
        }
    }

    /// What follows the last frame takes as long as it takes. Other sources that the same thread
    /// polls are then read as others read theirs.
    fn end(&mut self) {
        if std::mem::replace(self, Self::Usual) == Self::Realtime {
            // It needs no permission, and without it the thread would still end.
            let _ = become_usual();
        }
    }
}

impl LiveSource {
    /// The interface, as it was named.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the interface was up when it was opened. If not, it is waited for: say so.
    #[must_use]
    pub fn is_up_at_start(&self) -> bool {
        self.is_up_at_start
    }

    /// What frames begin with; on `any` each record gives it.
    #[must_use]
    pub fn link(&self) -> Option<LinkType> {
        match self.origin {
            Origin::One(link) => Some(link),
            Origin::Any(_) => None,
        }
    }

    /// What the kernel has received and dropped up to now. What it received and we have not
    /// handed out is unread.
    pub fn report(&mut self) -> &Report {
        self.refreshes_since_interface = REFRESHES_PER_INTERFACE;
        self.refresh();
        &self.report
    }

    /// Brings the report up to date with the kernel's counters, which it resets.
    pub(super) fn refresh(&mut self) {
        self.batches_since_refresh = 0;
        // First, so that of what both count nothing is taken for a loss of the interface alone.
        let interface_dropped = self.interface_dropped();
        // It fails for no open socket.
        let Ok(counts) = self.frames.take_statistics(&self.socket) else { return };
        let dropped = u64::from(counts.dropped);
        self.options.progress.add_dropped(dropped);
        let report = &mut self.report;
        report.received += u64::from(counts.received);
        report.dropped.ring_full += dropped;
        report.freezes += u64::from(counts.freezes);
        let known = self.handed_out + report.dropped.total();
        report.unread = report.received.saturating_sub(known);
        // An interface that is gone tells nothing: what it told last stays.
        if let Some(dropped) = interface_dropped {
            let dropped = dropped.saturating_sub(self.frames.dropped_of_interface());
            let more = dropped.saturating_sub(report.interface_dropped);
            report.interface_dropped += more;
            self.options.progress.add_interface_dropped(more);
        }
    }

    /// What the interface has lost since the start, where it is time to ask, and it is still there.
    fn interface_dropped(&mut self) -> Option<u64> {
        self.refreshes_since_interface += 1;
        if self.refreshes_since_interface < REFRESHES_PER_INTERFACE && self.phase == Phase::Reading
        {
            return None;
        }
        self.refreshes_since_interface = 0;
        let before = self.interface_dropped_before?;
        Some(interface_dropped(&self.name)?.saturating_sub(before))
    }

    /// Lets frames in, of an interface that was opened [detached](super::DetachedSocket).
    pub fn let_in(&mut self) {
        let Some(program) = self.program.take() else { return };
        if let Err(error) = self.socket.attach_filter(&program) {
            self.end_by(DamageCause::Unreadable(error.to_string()));
        }
    }

    /// Takes nothing more in. What the ring holds is handed out, and then it ends.
    pub(super) fn leave(&mut self) {
        if self.phase == Phase::Reading {
            self.begin_draining();
        }
    }

    /// Another source of the same thread has ended, and with it that thread's real time.
    pub(super) fn renew_scheduling(&mut self) {
        if self.scheduling == Scheduling::Realtime {
            self.scheduling = Scheduling::Wanted;
        }
    }

    /// What there is now. Once it is stopped it waits for the rest, which comes soon.
    pub(super) fn poll(&mut self) -> PollOutcome<'_> {
        self.scheduling.begin();
        self.stall();
        if self.phase == Phase::Reading && self.options.stop.load(Ordering::Relaxed) {
            self.begin_draining();
        }
        if self.phase != Phase::Reading {
            return self.next_batch().map_or(PollOutcome::Ended, PollOutcome::Frames);
        }
        self.frames.give_back();
        // The clock first: what arrives after this look at the ring is later.
        let now = realtime_now();
        if !self.frames.is_ready() {
            if let Readiness::Error(error) = self.socket.wait(0) {
                self.on_error(&error);
            }
            // The report that it went down comes once, which may be before it is gone.
            if self.report.interface_down_count > 0 && self.is_removed() {
                self.end_by(DamageCause::InterfaceRemoved);
            }
            let is_empty = self.phase == Phase::Reading && self.frames.is_quiet();
            let until = now.minus(STAMP_LEAD);
            return if is_empty { PollOutcome::Empty(until) } else { PollOutcome::Filling };
        }
        let count = self.fill();
        if count == 0 {
            return PollOutcome::Filling;
        }
        let records = self.records.get(..count).unwrap_or_default();
        PollOutcome::Frames(Batch { bytes: self.frames.lent(), records, tick: None })
    }

    /// For who polls, now and then while nothing comes: counters, and whether the interface is
    /// still there.
    pub(super) fn look_after(&mut self) {
        if self.phase == Phase::Reading && self.is_removed() {
            self.end_by(DamageCause::InterfaceRemoved);
        }
        self.refresh();
    }

    /// Waits until there are frames, it is time for a tick, or nothing more will come.
    fn wait(&mut self) -> Wake {
        let mut idle_ms: u32 = 0;
        loop {
            if self.phase == Phase::Reading && self.options.stop.load(Ordering::Relaxed) {
                self.begin_draining();
            }
            // The clock first: what arrives after this look at the ring is later.
            let now = realtime_now();
            if self.frames.is_ready() {
                return Wake::Frames;
            }
            let step_ms = match &mut self.phase {
                Phase::Ended => return Wake::End,
                Phase::Draining { waited_ms } => {
                    let is_quiet = self.frames.is_quiet();
                    let waited_max_ms = DRAIN_MAX_MS.saturating_add(2 * self.block_timeout_ms);
                    if (is_quiet && *waited_ms >= FILTER_REPLACED_MS) || *waited_ms > waited_max_ms
                    {
                        self.phase = Phase::Ended;
                        self.refresh();
                        continue;
                    }
                    *waited_ms += FILTER_REPLACED_MS;
                    FILTER_REPLACED_MS
                }
                Phase::Reading if idle_ms >= self.tick_ms => {
                    if self.is_removed() {
                        self.end_by(DamageCause::InterfaceRemoved);
                        continue;
                    }
                    // A block that is begun holds frames from before now: those first.
                    if self.frames.is_quiet() {
                        self.refresh();
                        return Wake::Tick(now.minus(STAMP_LEAD));
                    }
                    1
                }
                Phase::Reading => (self.tick_ms - idle_ms).min(STOP_NOTICED_MS),
            };
            match self.frames.wait(&self.socket, step_ms) {
                Readiness::TimedOut => idle_ms = idle_ms.saturating_add(step_ms),
                Readiness::Ready | Readiness::Interrupted => {}
                Readiness::Error(error) => self.on_error(&error),
            }
        }
    }

    fn on_error(&mut self, error: &io::Error) {
        if error.raw_os_error() != Some(libc::ENETDOWN) {
            self.end_by(DamageCause::Unreadable(error.to_string()));
        } else if self.is_removed() {
            self.end_by(DamageCause::InterfaceRemoved);
        } else {
            self.report.interface_down_count += 1;
        }
    }

    /// Whether the interface is no longer in this network namespace.
    fn is_removed(&self) -> bool {
        self.socket.interface_index().is_ok_and(|index| index < 0)
    }

    /// Ends early, after what the ring holds.
    fn end_by(&mut self, cause: DamageCause) {
        let (name, frames_before) = (self.name.clone(), self.handed_out);
        let damage =
            Damage { name, offset: self.options.progress.bytes_read(), frames_before, cause };
        self.report.damage.get_or_insert(damage);
        if self.phase == Phase::Reading {
            self.begin_draining();
        }
    }

    /// Lets nothing more into the ring, so that it can be read to its end under any load and
    /// the sums come out.
    fn begin_draining(&mut self) {
        // Were it refused, draining would still end: what is left then shows as unread.
        let _ = self.socket.attach_filter(REFUSE_ALL);
        if self.frames.are_handed_over() {
            // The program hands over until it is detached: what then finds no room any more, an
            // interface may count.
            self.report();
            self.interface_dropped_before = None;
        }
        self.frames.stop();
        self.phase = Phase::Draining { waited_ms: 0 };
    }

    /// Makes records of frames that are ready; how many.
    fn fill(&mut self) -> usize {
        let mut taker = Taker {
            slots: self.records.iter_mut(),
            snaplen: self.options.snaplen,
            dissect: self.options.dissect,
            origin: &self.origin,
            cut_secret: self.cut_secret,
            captured_bytes: 0,
        };
        self.frames.fill(&mut taker);
        let count = BATCH_LEN_MAX - taker.slots.len();
        self.options.progress.add(taker.captured_bytes, count as u64);
        self.handed_out += count as u64;
        self.batches_since_refresh += 1;
        if self.batches_since_refresh >= BATCHES_PER_REFRESH {
            self.refresh();
        }
        count
    }
}

impl Source for LiveSource {
    fn ends_by_itself(&self) -> bool {
        true
    }

    fn next_batch(&mut self) -> Option<Batch<'_>> {
        self.scheduling.begin();
        self.stall();
        let count = loop {
            self.frames.give_back();
            match self.wait() {
                Wake::Frames => {}
                Wake::Tick(at) => return Some(Batch { bytes: &[], records: &[], tick: Some(at) }),
                Wake::End => {
                    self.scheduling.end();
                    return None;
                }
            }
            let count = self.fill();
            if count > 0 {
                break count;
            }
        };
        let bytes = self.frames.lent();
        let records = self.records.get(..count).unwrap_or_default();
        Some(Batch { bytes, records, tick: None })
    }
}

/// Frames that an interface lost before any reader saw them, as `/proc/net/dev` counts them.
pub(super) fn interface_dropped(name: &str) -> Option<u64> {
    // Of this thread, which may be in another namespace than the rest of the program.
    interface_dropped_in(&fs::read_to_string("/proc/thread-self/net/dev").ok()?, name)
}

fn interface_dropped_in(table: &str, name: &str) -> Option<u64> {
    const RECEIVE_DROP_COLUMN: usize = 3;
    let row = |line: &str| {
        let (named, numbers) = line.split_once(':')?;
        let number = numbers.split_whitespace().nth(RECEIVE_DROP_COLUMN)?;
        (named.trim() == name).then(|| number.parse().ok())?
    };
    table.lines().find_map(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_of_an_interface_stand_in_the_fourth_column_of_its_row() {
        let table = "Inter-|   Receive\n face |bytes packets errs drop fifo\n    \
                     lo:    7460      78    0    0    0     0\n  eth0: 1 2 3 44 5 6\n";
        assert_eq!(interface_dropped_in(table, "eth0"), Some(44));
        assert_eq!(interface_dropped_in(table, "lo"), Some(0));
        assert_eq!(interface_dropped_in(table, "th0"), None);
        assert_eq!(interface_dropped_in("face: x", "face"), None);
    }
}
