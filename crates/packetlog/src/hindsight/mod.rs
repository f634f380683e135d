//! Packets that wait before they are truncated, so that a flow or a host that is marked late is
//! stored from its beginning (the time machine of Kornexl et al., IMC 2005, by flow and with a
//! classifier).
//!
//! Every packet waits for the same time, so the log has the order of arrival. Of each flow, and of
//! each host where that is asked for, the waiting packets are a chain from the newest to the
//! oldest. A mark raises the length that is stored of the packets in the chain, and of those that
//! join it, for as long as any packet of it waits.

mod chains;
#[cfg(test)]
mod tests;
mod waiting;

use packet::{FlowKey, Frame, HashSeed, KeyHash as _, Record, Span, Timestamp};

use crate::features::{Key, host_hash};
use crate::judged::{Basis, PacketVerdict};
use crate::policy::{Granularity, Keep};
use chains::{Chains, Link};
use waiting::{Entries, Frames};

/// What a mark reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reach {
    /// The flow of the marked packet, both directions.
    #[default]
    Flow,
    /// That, and all packets that its sender sent.
    Host,
}

/// How long packets wait, in how much memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HindsightOptions {
    /// How long a packet waits, in event time.
    pub time: Span,
    /// Bytes for waiting packets, frames and what is stored about them. Where they do not suffice
    /// the oldest packets wait for less, and are counted.
    pub bytes: usize,
    /// What a mark reaches.
    pub reach: Reach,
}

/// What hindsight did so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HindsightCounts {
    /// Packets that wait now.
    pub waiting: u64,
    /// Packets stored at greater length because of a later or an earlier mark.
    pub raised: u64,
    /// Bytes that are stored of them in addition.
    pub raised_bytes: u64,
    /// Packets that waited for less than the time, because memory was full.
    pub early: u64,
    /// Times that the clock was set back by more than the time, which ends all waiting.
    pub clock_steps: u64,
    /// Bytes of memory in use now.
    pub bytes: u64,
}

/// A packet that waits.
#[derive(Clone, Copy, Debug)]
struct Entry {
    record: Record,
    /// Its arrival in event time, which never runs backwards here.
    time: Timestamp,
    /// Its verdict but for the flow, which its headers have.
    class: u16,
    basis: Basis,
    has_flow: bool,
    /// As in [`Plan`].
    is_final: bool,
    is_raised: bool,
    confidence: f32,
    /// Bytes of its frame.
    len: u32,
    /// Bytes that will be stored; nothing for a packet that is only counted.
    kept_len: Option<u32>,
    /// In the chain of its flow, and of its sender where hosts are marked.
    links: [Option<Link>; 2],
}

/// What is stored of a packet, if nothing happens later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Bytes that are stored; nothing for a packet that is only counted.
    pub kept_len: Option<u32>,
    /// How its flow is to be stored, where the packet marks it.
    pub mark: Option<Granularity>,
    /// Whether marks of its flow leave it alone: a rule has said how it is stored.
    pub is_final: bool,
}

/// Waiting packets.
#[derive(Debug)]
pub struct Hindsight {
    options: HindsightOptions,
    seed: HashSeed,
    frames: Frames,
    entries: Entries,
    /// By flow, and by sender.
    chains: [Chains; 2],
    now: Timestamp,
    counts: HindsightCounts,
}

impl Hindsight {
    /// Without any packet. The seed hashes keys.
    #[must_use]
    pub fn new(options: HindsightOptions, seed: HashSeed) -> Self {
        Self {
            options,
            seed,
            frames: Frames::default(),
            entries: Entries::default(),
            chains: <[Chains; 2]>::default(),
            now: Timestamp::MIN,
            counts: HindsightCounts::default(),
        }
    }

    /// What it did so far.
    #[must_use]
    pub fn counts(&self) -> HindsightCounts {
        let waiting = self.entries.len();
        HindsightCounts { waiting, bytes: self.size_bytes() as u64, ..self.counts }
    }

    fn size_bytes(&self) -> usize {
        let chains: usize = self.chains.iter().map(Chains::size_bytes).sum();
        self.frames.size_bytes() + self.entries.size_bytes() + chains
    }

    /// A packet arrives and waits. `each` gets those whose time is over, oldest first, with the
    /// bytes that are stored of them; nothing for those that are only counted.
    pub fn push(
        &mut self,
        frame: &Frame<'_>,
        judged: &PacketVerdict,
        plan: Plan,
        each: &mut impl FnMut(&Frame<'_>, &PacketVerdict, Option<u32>),
    ) {
        self.advance(frame.record.timestamp, each);
        if frame.bytes.len() > waiting::FRAME_LEN_MAX {
            // No packet is that long. It does not wait, and none may overtake another.
            self.release_all(each);
            each(frame, judged, plan.kept_len);
            return;
        }
        let number = self.entries.next_number();
        let mut entry = Entry {
            record: *frame.record,
            time: self.now,
            class: judged.class,
            basis: judged.basis,
            has_flow: judged.flow.is_some(),
            is_final: plan.is_final,
            is_raised: false,
            confidence: judged.confidence,
            len: frame.bytes.len() as u32,
            kept_len: plan.kept_len,
            links: [None; 2],
        };
        let hashes = self.hashes(frame, judged);
        let places = self.chains.iter_mut().zip(hashes).zip(&mut entry.links);
        let mut marks = [None; 2];
        for (((chains, hash), link), mark) in places.zip(&mut marks) {
            let Some(hash) = hash else { continue };
            let (joined, marked) = chains.join(hash, number);
            *link = Some(joined);
            *mark = marked;
        }
        for mark in marks.into_iter().flatten() {
            raise(&mut entry, mark, &mut self.counts);
        }
        self.frames.push(frame.bytes);
        self.entries.push(entry);
        if let Some(mark) = plan.mark {
            self.mark(number, mark);
        }
        while self.size_bytes() > self.options.bytes && self.entries.len() > 0 {
            self.counts.early += 1;
            self.release(each);
        }
    }

    /// Time passes on a silent link.
    pub fn tick(
        &mut self,
        time: Timestamp,
        each: &mut impl FnMut(&Frame<'_>, &PacketVerdict, Option<u32>),
    ) {
        self.advance(time.max(self.now), each);
    }

    /// All waiting ends.
    pub fn release_all(&mut self, each: &mut impl FnMut(&Frame<'_>, &PacketVerdict, Option<u32>)) {
        while self.entries.len() > 0 {
            self.release(each);
        }
    }

    fn hashes(&self, frame: &Frame<'_>, judged: &PacketVerdict) -> [Option<u64>; 2] {
        let Some((flow, _)) = judged.flow else { return [None; 2] };
        let host = match self.options.reach {
            Reach::Flow => None,
            Reach::Host => host_hash(self.seed, frame, Key::Source),
        };
        [Some(flow.key_hash(self.seed)), host]
    }

    /// Event time is `time` now; a packet without a timestamp arrives just now.
    fn advance(
        &mut self,
        time: Timestamp,
        each: &mut impl FnMut(&Frame<'_>, &PacketVerdict, Option<u32>),
    ) {
        if time == Timestamp::UNKNOWN {
            return;
        }
        if time < self.now.minus(self.options.time) {
            // The clock was set back: packets would wait for the old time to return.
            self.counts.clock_steps += 1;
            self.release_all(each);
            self.now = time;
        }
        self.now = self.now.max(time);
        let due = self.now.minus(self.options.time);
        while self.entries.front().is_some_and(|entry| entry.time <= due) {
            self.release(each);
        }
    }

    /// The chains of a packet, which is the newest, are to be stored like this.
    fn mark(&mut self, number: u64, mark: Granularity) {
        let Some(links) = self.entries.get_mut(number).map(|entry| entry.links) else { return };
        for (which, (chains, link)) in self.chains.iter_mut().zip(links).enumerate() {
            let Some(link) = link else { continue };
            // A chain is walked once for each mark that says more than those before.
            if !chains.mark(link.hash, mark) {
                continue;
            }
            let mut next = number;
            while let Some(entry) = self.entries.get_mut(next) {
                raise(entry, mark, &mut self.counts);
                next = entry.links[which].map_or(0, |link| link.previous);
            }
        }
    }

    /// The oldest packet waits no longer.
    fn release(&mut self, each: &mut impl FnMut(&Frame<'_>, &PacketVerdict, Option<u32>)) {
        let Some((number, entry)) = self.entries.pop() else { return };
        for (chains, link) in self.chains.iter_mut().zip(entry.links) {
            if let Some(link) = link {
                chains.leave(link.hash, number);
            }
        }
        let frame = Frame { record: &entry.record, bytes: self.frames.front(entry.len as usize) };
        let flow = if entry.has_flow { FlowKey::from_frame(&frame) } else { None };
        let Entry { class, confidence, basis, kept_len, .. } = entry;
        each(&frame, &PacketVerdict { class, confidence, basis, flow }, kept_len);
        self.frames.pop(entry.len as usize);
    }
}

/// Stores of a packet what a mark says, where that is more.
fn raise(entry: &mut Entry, mark: Granularity, counts: &mut HindsightCounts) {
    if entry.is_final {
        return;
    }
    let len = mark.kept_len(&Frame { record: &entry.record, bytes: &[] });
    let before = entry.kept_len.unwrap_or(0);
    if len > before || (entry.kept_len.is_none() && mark.keep != Keep::Nothing) {
        entry.kept_len = Some(len.max(before));
        counts.raised += u64::from(!entry.is_raised);
        counts.raised_bytes += u64::from(len.saturating_sub(before));
        entry.is_raised = true;
    }
}
