//! Several interfaces as one source, in order of time.
//!
//! Each has a ring of its own. A frame is handed out once nothing earlier can come from any other
//! interface: the next frame there is later, or its ring was empty after the frame was stamped.
//! The wait is the time-out of a block at most, and a few milliseconds with low latency. Frames are
//! copied once, as those of several captures are. An interface that is removed ends alone.
//!
//! Interfaces are added and let go while others are read. One that is added lets nothing in
//! before, so that none of its frames is earlier than what was handed out. One that is let go is
//! drained, which takes the time-out of a block; meanwhile the rings of the others fill.

use packet::{BATCH_LEN_MAX, Batch, Record, Source, Timestamp};

use super::source::{LiveSource, PollOutcome};
use crate::report::{Damage, Report, UnusedFrames};
use crate::sys::packet_socket::wait_any;

/// How long to wait for word of the other interfaces while a frame is at hand.
const WAIT_WITH_FRAMES_MS: u32 = 2;

/// How long a stop may go unnoticed while nothing comes.
const STOP_NOTICED_MS: u32 = 100;

/// Several interfaces as one source. Records tell by `input` and `interface` which one they are of.
pub struct LiveSeveral {
    members: Vec<Member>,
    released: Box<ReleasedInterfaces>,
    tick_ms: u32,
    bytes: Vec<u8>,
    records: Vec<Record>,
}

/// Why interfaces that were removed ended, kept at most; who reads was informed of each.
const DAMAGES_MAX: usize = 64;

/// What is left of interfaces whose sockets are closed: those that were let go, and those that were
/// removed while others are read.
#[derive(Debug, Default)]
pub struct ReleasedInterfaces {
    /// How many there were.
    pub count: u64,
    /// The sum of their reports.
    pub report: Report,
    /// Why those that ended early did so: the first ones of a long run.
    pub damages: Vec<Damage>,
}

impl ReleasedInterfaces {
    fn add(&mut self, report: &Report) {
        self.count += 1;
        let damage = report.damage.clone().filter(|_| self.damages.len() < DAMAGES_MAX);
        // What the ring still held was read after the damage was noticed.
        let Report { received, filtered, dropped, unread, .. } = report;
        let frames_before = received.saturating_sub(filtered + dropped.total() + unread);
        self.damages.extend(damage.map(|damage| Damage { frames_before, ..damage }));
        self.report.merge(&Report { damage: None, ..report.clone() });
    }
}

/// An interface and a copy of the batch that it last lent.
struct Member {
    source: LiveSource,
    /// What records call it.
    number: u16,
    bytes: Vec<u8>,
    records: Vec<Record>,
    next: usize,
    /// Up to when everything that came is known.
    known: Timestamp,
    is_leaving: bool,
    has_ended: bool,
    is_reported: bool,
}

impl Member {
    fn new(source: LiveSource, number: u16) -> Self {
        Self {
            source,
            number,
            bytes: Vec::new(),
            records: Vec::new(),
            next: 0,
            known: Timestamp::MIN,
            is_leaving: false,
            has_ended: false,
            is_reported: false,
        }
    }

    fn has_frames(&self) -> bool {
        self.next < self.records.len()
    }

    /// Whether it may still have what is earlier than any time.
    fn is_awaited(&self) -> bool {
        !self.has_ended && !self.has_frames()
    }

    /// Whether it was let go, or who reads knows that it has ended, and all of it was handed out.
    fn is_over(&self) -> bool {
        (self.is_leaving || self.is_reported) && self.has_ended && !self.has_frames()
    }

    /// Takes what its ring holds, where the copy is used up.
    fn look(&mut self) {
        if !self.is_awaited() {
            return;
        }
        let number = self.number;
        self.next = 0;
        self.records.clear();
        self.bytes.clear();
        match self.source.poll() {
            PollOutcome::Frames(batch) => {
                for frame in batch.frames() {
                    let record = Record { input: number, interface: number, ..*frame.record };
                    self.records.push(copied(&mut self.bytes, frame.bytes, &record));
                }
            }
            PollOutcome::Empty(until) => self.known = self.known.max(until),
            PollOutcome::Filling => {}
            PollOutcome::Ended => self.has_ended = true,
        }
    }
}

/// Appends a frame to a buffer; its record there. What a program in the kernel left in front of the
/// frame is not copied, so that no such program may be attached to several interfaces.
fn copied(bytes: &mut Vec<u8>, frame: &[u8], record: &Record) -> Record {
    let offset = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    bytes.extend_from_slice(frame);
    Record { offset, ..*record }
}

impl LiveSeveral {
    /// Sources in one order of time, numbered from 0; where nothing comes, a tick after so many
    /// milliseconds.
    #[must_use]
    pub fn new(sources: Vec<LiveSource>) -> Self {
        let tick_ms = sources.iter().map(|source| source.tick_ms).min().unwrap_or(STOP_NOTICED_MS);
        let members = sources.into_iter().zip(0..);
        Self {
            members: members.map(|(source, number)| Member::new(source, number)).collect(),
            released: Box::default(),
            tick_ms,
            bytes: Vec::new(),
            records: Vec::with_capacity(BATCH_LEN_MAX),
        }
    }

    /// Takes in another interface, which records call by this number. Its frames come from now on.
    pub fn add(&mut self, mut source: LiveSource, number: u16) {
        source.let_in();
        // What is known of the others is of before now.
        let known = self.members.iter().map(|member| member.known).max();
        let known = known.unwrap_or(Timestamp::MIN);
        self.members.push(Member { known, ..Member::new(source, number) });
    }

    /// Lets an interface go: what came up to now is handed out, and then its socket is closed.
    pub fn let_go(&mut self, name: &str) {
        let is_named = |member: &&mut Member| !member.has_ended && member.source.name() == name;
        for member in self.members.iter_mut().filter(is_named) {
            member.is_leaving = true;
            member.source.leave();
        }
    }

    /// What is left of interfaces that are over, all of whose frames were handed out.
    #[must_use]
    pub fn released(&self) -> &ReleasedInterfaces {
        &self.released
    }

    /// Closes the sockets of those that are over, and gives back the memory of their rings.
    fn release(&mut self) {
        if !self.members.iter().any(Member::is_over) {
            return;
        }
        let members = std::mem::take(&mut self.members).into_iter();
        let (over, members): (Vec<_>, Vec<_>) = members.partition(Member::is_over);
        self.members = members;
        for mut member in over {
            self.released.add(member.source.report());
        }
        self.members.iter_mut().for_each(|member| member.source.renew_scheduling());
    }

    /// Interfaces that have ended early since this was asked last.
    pub fn newly_ended(&mut self) -> Vec<Damage> {
        let ended = |member: &mut Member| {
            if member.is_reported || !member.has_ended {
                return None;
            }
            member.is_reported = true;
            member.source.report().damage.clone()
        };
        self.members.iter_mut().filter_map(ended).collect()
    }

    /// The sources, which hold their reports, and what was read of them and not handed out.
    #[must_use]
    pub fn into_sources(self) -> (Vec<LiveSource>, UnusedFrames) {
        let mut waiting = UnusedFrames::default();
        for member in &self.members {
            waiting.add(member.records.get(member.next..).unwrap_or_default());
        }
        (self.members.into_iter().map(|member| member.source).collect(), waiting)
    }

    fn look(&mut self) {
        self.members.iter_mut().for_each(Member::look);
    }

    /// Takes over the frame that is next, if it is known which one that is, and looks on where it
    /// came from.
    fn take_next(&mut self) -> bool {
        let awaited = self.members.iter().filter(|member| member.is_awaited());
        let horizon = awaited.map(|member| member.known).min();
        let next = |(place, member): (usize, &Member)| {
            member.records.get(member.next).map(|record| (record.timestamp, place))
        };
        let Some((time, place)) = self.members.iter().enumerate().filter_map(next).min() else {
            return false;
        };
        if horizon.is_some_and(|horizon| time > horizon) {
            return false;
        }
        let Some(member) = self.members.get_mut(place) else { return false };
        let Some(record) = member.records.get(member.next) else { return false };
        let start = record.offset as usize;
        let end = start + record.captured_len as usize;
        let frame = member.bytes.get(start..end).unwrap_or_default();
        self.records.push(copied(&mut self.bytes, frame, record));
        member.next += 1;
        member.look();
        true
    }

    /// Waits for those that have no frames; so many milliseconds at most.
    fn wait(&self, timeout_ms: u32) {
        let awaited = self.members.iter().filter(|member| member.is_awaited());
        wait_any(awaited.map(|member| &member.source.socket), timeout_ms);
    }
}

impl Source for LiveSeveral {
    fn ends_by_itself(&self) -> bool {
        true
    }

    fn next_batch(&mut self) -> Option<Batch<'_>> {
        self.release();
        self.bytes.clear();
        self.records.clear();
        let mut idle_ms: u32 = 0;
        loop {
            self.look();
            while self.records.len() < BATCH_LEN_MAX && self.take_next() {}
            if !self.records.is_empty() {
                return Some(Batch { bytes: &self.bytes, records: &self.records, tick: None });
            }
            if self.members.iter().all(|member| member.has_ended) {
                return None;
            }
            let has_frames = self.members.iter().any(Member::has_frames);
            if idle_ms >= self.tick_ms && !has_frames {
                self.members.iter_mut().for_each(|member| member.source.look_after());
                let going_on = self.members.iter().filter(|member| !member.has_ended);
                let tick = going_on.map(|member| member.known).min();
                return Some(Batch { bytes: &[], records: &[], tick });
            }
            let left_ms = self.tick_ms.saturating_sub(idle_ms).clamp(1, STOP_NOTICED_MS);
            let step_ms = if has_frames { WAIT_WITH_FRAMES_MS } else { left_ms };
            self.wait(step_ms);
            idle_ms = idle_ms.saturating_add(step_ms);
        }
    }
}
