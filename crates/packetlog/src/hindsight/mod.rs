//! Packets that wait before they are truncated, so that a flow or a host that is marked late is
//! stored from its beginning (the time machine of Kornexl et al., IMC 2005, by flow and with a
//! classifier).
//!
//! Every packet waits for the same time, so the log has the order of arrival. Of each flow, and of
//! each host where that is asked for, the waiting packets are a chain from the newest to the
//! oldest. A mark raises the length that is stored of the packets in the chain, and of those that
//! join it, for as long as any packet of it waits.

mod blocks;
mod chains;
mod entry;
mod rare;
#[cfg(test)]
mod tests;

use packet::{FlowKey, Frame, HashSeed, KeyHash as _, Record, Span, Timestamp};

use crate::features::{Key, host_hash};
use crate::judged::{Basis, PacketVerdict};
use crate::policy::{Granularity, Keep};
use blocks::{ALIGNMENT, Blocks};
use chains::{ChainPlace, Chains};
use entry::{Entry, Verdict, bits};
use rare::{Rare, Rares};

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
    /// Bytes for waiting packets, frames and what is stored about them; what is above
    /// [`BYTES_MAX`](Self::BYTES_MAX) is not used. Where they do not suffice the oldest packets
    /// wait for less, and are counted.
    pub bytes: usize,
    /// What a mark reaches.
    pub reach: Reach,
}

impl HindsightOptions {
    /// Bytes at most, so that a link between packets fits 32 bits.
    pub const BYTES_MAX: usize = 32 << 30;
}

/// What hindsight did so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HindsightCounts {
    /// Packets that wait now, and those whose time is over that were not given away yet.
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

/// Who gets the packets whose time is over.
pub trait Outlet {
    /// A packet will come soon.
    fn expect(&mut self, _: &PacketVerdict) {}

    /// A packet, with the bytes that are stored of it; nothing where it is only counted.
    fn give(&mut self, frame: &Frame<'_>, judged: &PacketVerdict, kept_len: Option<u32>);
}

impl<F: FnMut(&Frame<'_>, &PacketVerdict, Option<u32>)> Outlet for F {
    fn give(&mut self, frame: &Frame<'_>, judged: &PacketVerdict, kept_len: Option<u32>) {
        self(frame, judged, kept_len);
    }
}

/// Packets that are given away together: what is known of the flow of one is on its way to the
/// cache while the others are read.
const GROUP_LEN: usize = 16;
/// Packets whose time is over and that are not given away yet, at most.
const OVER_MAX: u64 = 64;

/// A packet that is about to be given away.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    record: Record,
    judged: PacketVerdict,
    kept_len: Option<u32>,
    frame_at: u64,
    frame_len: usize,
}

/// The chains that a packet belongs to, by hash: that of its flow, and of its sender where hosts
/// are marked.
pub type ChainHashes = [Option<u64>; 2];

/// Waiting packets: in front of each frame what is known of the packet.
#[derive(Debug)]
pub struct Hindsight {
    options: HindsightOptions,
    seed: HashSeed,
    blocks: Blocks,
    rares: Rares,
    /// By flow, and by sender.
    chains: [Chains; 2],
    /// The marks that chains have, each once; their numbers count from 1.
    marks: Vec<Granularity>,
    /// Position of the oldest packet that was not given away.
    front: u64,
    /// Position of the oldest packet whose time is not over: marks reach what is from here on.
    due: u64,
    /// Arrival of that packet, where there is one.
    due_time: Timestamp,
    /// Packets that were not given away, and those of them whose time is over.
    len: u64,
    over: u64,
    now: Timestamp,
    counts: HindsightCounts,
    leaving: Vec<Leaving>,
}

impl Hindsight {
    /// Without any packet. The seed hashes keys.
    #[must_use]
    pub fn new(options: HindsightOptions, seed: HashSeed) -> Self {
        let bytes = options.bytes.min(HindsightOptions::BYTES_MAX);
        let blocks = Blocks::new(bytes);
        let front = blocks.end();
        Self {
            options: HindsightOptions { bytes, ..options },
            seed,
            blocks,
            rares: Rares::default(),
            chains: <[Chains; 2]>::default(),
            marks: Vec::new(),
            front,
            due: front,
            due_time: Timestamp::MAX,
            len: 0,
            over: 0,
            now: Timestamp::MIN,
            counts: HindsightCounts::default(),
            leaving: Vec::with_capacity(GROUP_LEN),
        }
    }

    /// What it did so far.
    #[must_use]
    pub fn counts(&self) -> HindsightCounts {
        HindsightCounts { waiting: self.len, bytes: self.size_bytes() as u64, ..self.counts }
    }

    fn size_bytes(&self) -> usize {
        let chains: usize = self.chains.iter().map(Chains::size_bytes).sum();
        self.blocks.size_bytes() + self.rares.size_bytes() + chains
    }

    /// The chains of a packet that comes soon, which are asked for.
    #[inline]
    pub fn expect(&self, frame: &Frame<'_>, judged: &PacketVerdict) -> ChainHashes {
        let Some((flow, _)) = judged.flow else { return [None; 2] };
        let host = match self.options.reach {
            Reach::Flow => None,
            Reach::Host => host_hash(self.seed, frame, Key::Source),
        };
        let hashes = [Some(flow.key_hash(self.seed)), host];
        for (chains, hash) in self.chains.iter().zip(hashes) {
            if let Some(hash) = hash {
                chains.prefetch(hash);
            }
        }
        hashes
    }

    /// A packet arrives and waits; its chains are those that [`expect`](Self::expect) said. Some of
    /// those whose time is over go to `out`, oldest first; [`give_over`](Self::give_over) gives the
    /// rest of them.
    pub fn push(
        &mut self,
        frame: &Frame<'_>,
        judged: &PacketVerdict,
        hashes: ChainHashes,
        plan: Plan,
        out: &mut impl Outlet,
    ) {
        self.advance(frame.record.timestamp, out);
        let len = self.form_len() + frame.bytes.len();
        if len + ALIGNMENT > self.blocks.block_len() {
            // No packet is that long. It does not wait, and none may overtake another.
            self.release_all(out);
            out.give(frame, judged, plan.kept_len);
            return;
        }
        self.make_room(len, out);
        let position = self.blocks.next(len + ALIGNMENT);
        let mut joined = [ChainPlace::default(); 2];
        let mut places = [None; 2];
        let chains = self.chains.iter_mut().zip(hashes).zip(joined.iter_mut().zip(&mut places));
        for ((chains, hash), (joined, place)) in chains {
            let Some(hash) = hash else { continue };
            *joined = chains.join(hash, position, self.due);
            *place = Some(joined.place);
        }
        self.append(frame, judged, plan, position, &joined);
        for joined in joined {
            if let Some(mark) = self.mark_of(joined.mark) {
                self.raise(position, mark);
            }
        }
        if let Some(mark) = plan.mark {
            self.mark(position, mark, &joined, places);
        }
        // Chains may have grown.
        if self.size_bytes() > self.options.bytes {
            self.shrink(out);
        }
    }

    /// Time passes on a silent link.
    pub fn tick(&mut self, time: Timestamp, out: &mut impl Outlet) {
        self.advance(time.max(self.now), out);
    }

    /// Gives away all whose time is over.
    pub fn give_over(&mut self, out: &mut impl Outlet) {
        while self.over > 0 {
            self.give_group(out);
        }
    }

    /// All waiting ends.
    pub fn release_all(&mut self, out: &mut impl Outlet) {
        self.over = self.len;
        self.give_over(out);
        self.due = self.front;
        self.due_time = Timestamp::MAX;
        self.marks.clear();
    }

    /// Bytes in front of each frame.
    const fn form_len(&self) -> usize {
        match self.options.reach {
            Reach::Flow => entry::LEN,
            Reach::Host => entry::LEN + entry::HOST_LINK_LEN,
        }
    }

    /// Event time is `time` now; a packet without a timestamp arrives just now.
    #[inline]
    fn advance(&mut self, time: Timestamp, out: &mut impl Outlet) {
        if time == Timestamp::UNKNOWN {
            return;
        }
        if time < self.now.minus(self.options.time) {
            // The clock was set back: packets would wait for the old time to return.
            self.counts.clock_steps += 1;
            self.release_all(out);
            self.now = time;
        }
        self.now = self.now.max(time);
        let due = self.now.minus(self.options.time);
        while self.due_time <= due {
            self.end_wait();
            if self.over >= OVER_MAX {
                self.give_over(out);
            }
        }
    }

    /// The time of the oldest that waits is over.
    #[inline]
    fn end_wait(&mut self) {
        let Some(entry) = Entry::read(self.blocks.at(self.due)) else { return };
        self.due = self.blocks.after(self.due + self.piece_len(&entry) as u64);
        self.over += 1;
        self.see_due();
    }

    /// Looks when the time of the oldest that waits will be over, and asks for what it will be
    /// written from.
    #[inline]
    fn see_due(&mut self) {
        self.due_time = Timestamp::MAX;
        if self.over == self.len {
            return;
        }
        if let Some(entry) = Entry::read(self.blocks.at(self.due)) {
            self.due_time = match entry.rare_number() {
                Some(number) => self.rares.get(number).map_or(Timestamp::MIN, |rare| rare.time),
                None => entry.time(),
            };
            self.blocks.prefetch(self.due + self.piece_len(&entry) as u64);
        }
    }

    /// Bytes of a form and its frame.
    #[inline]
    fn piece_len(&self, entry: &Entry) -> usize {
        let frame_len = match entry.rare_number() {
            Some(number) => self.rares.get(number).map_or(0, |rare| rare.len),
            None => entry.frame_len(),
        };
        (self.form_len() + frame_len as usize).next_multiple_of(ALIGNMENT)
    }

    /// Where another block is wanted and may not be had, the oldest leave until one is free.
    #[inline]
    fn make_room(&mut self, len: usize, out: &mut impl Outlet) {
        if self.len == 0 && self.blocks.has_to_grow(len + ALIGNMENT) {
            self.blocks.forget_all();
        }
        let growth = self.blocks.block_len();
        while self.blocks.has_to_grow(len + ALIGNMENT)
            && self.len > 0
            && self.size_bytes() + growth > self.options.bytes
        {
            self.give_early(out);
        }
    }

    /// Memory is full: the oldest leave, and what is free is given back.
    #[cold]
    fn shrink(&mut self, out: &mut impl Outlet) {
        while self.size_bytes() > self.options.bytes {
            let (len, due) = (self.len - self.over, self.due);
            let is_smaller = self.blocks.shrink()
                || self.chains.iter_mut().any(|chains| chains.shrink(len, due));
            if !is_smaller {
                if self.len == 0 {
                    return;
                }
                self.give_early(out);
            }
        }
    }

    /// Some of the oldest leave, whether their time is over or not.
    #[cold]
    fn give_early(&mut self, out: &mut impl Outlet) {
        while self.over < self.len.min(GROUP_LEN as u64) {
            self.counts.early += 1;
            self.end_wait();
        }
        self.give_over(out);
    }

    /// Appends a packet to those that wait.
    #[inline]
    fn append(
        &mut self,
        frame: &Frame<'_>,
        judged: &PacketVerdict,
        plan: Plan,
        position: u64,
        joined: &[ChainPlace; 2],
    ) {
        let (record, time) = (frame.record, self.now);
        let mut verdict = Verdict { class: judged.class, confidence: judged.confidence, bits: 0 };
        for (bit, is_set) in [
            (bits::FLOW, judged.flow.is_some()),
            (bits::FINAL, plan.is_final),
            (bits::STORED, plan.kept_len.is_some()),
            (bits::PACKET_BASIS, judged.basis == Basis::Packet),
        ] {
            verdict.bits |= if is_set { bit } else { 0 };
        }
        let kept_len = plan.kept_len.unwrap_or(0);
        let len = frame.bytes.len();
        let short = Entry::short(record, time, len).filter(|_| kept_len as usize <= len);
        let mut entry = short.unwrap_or_else(|| {
            verdict.bits |= bits::RARE;
            let record = Record { offset: 0, ..*record };
            Entry::rare(self.rares.push(Rare { record, time, len: len as u32, kept_len }))
        });
        if short.is_some() {
            entry.set_kept_len(kept_len);
        }
        entry.set_verdict(verdict);
        let [flow, host] = joined.map(|joined| back(position, joined.previous));
        entry.set_flow_link(flow);
        self.blocks.append(&entry.0);
        if self.options.reach == Reach::Host {
            self.blocks.append(&u64::from(host).to_le_bytes());
        }
        self.blocks.append(frame.bytes);
        self.blocks.align();
        if self.len == self.over {
            if self.len == 0 {
                self.front = position;
            }
            (self.due, self.due_time) = (position, time);
        }
        self.len += 1;
    }

    fn mark_of(&self, number: u32) -> Option<Granularity> {
        self.marks.get((number as usize).wrapping_sub(1)).copied()
    }

    /// The chains of a packet, which is the newest, are to be stored like this.
    #[cold]
    fn mark(
        &mut self,
        position: u64,
        mark: Granularity,
        joined: &[ChainPlace; 2],
        places: [Option<usize>; 2],
    ) {
        let known = self.marks.iter().position(|known| *known == mark);
        let at = known.unwrap_or_else(|| {
            self.marks.push(mark);
            self.marks.len() - 1
        });
        for (which, (joined, place)) in joined.iter().zip(places).enumerate() {
            let Some(place) = place else { continue };
            // A chain is walked once for each mark that says more than those before.
            let before = self.mark_of(joined.mark);
            if before.is_some_and(|before| rank(before.keep) >= rank(mark.keep)) {
                continue;
            }
            if let Some(chains) = self.chains.get_mut(which) {
                chains.mark(place, at as u32 + 1);
            }
            let mut next = position;
            while next >= self.due {
                self.raise(next, mark);
                let back = self.back_of(next, which);
                if back == 0 {
                    break;
                }
                next -= back;
            }
        }
    }

    /// Bytes back to the packet before in a chain; 0 without.
    fn back_of(&self, position: u64, which: usize) -> u64 {
        let bytes = self.blocks.at(position);
        let units = if which == 0 {
            Entry::read(bytes).map_or(0, |entry| u64::from(entry.flow_link()))
        } else {
            let link = bytes.get(entry::LEN..).and_then(|bytes| bytes.first_chunk());
            link.map_or(0, |link| u64::from_le_bytes(*link))
        };
        units * ALIGNMENT as u64
    }

    /// Stores of a packet what a mark says, where that is more.
    fn raise(&mut self, position: u64, mark: Granularity) {
        let bytes = self.blocks.at_mut(position);
        let Some(mut entry) = Entry::read(bytes) else { return };
        let mut verdict = entry.verdict();
        if verdict.has(bits::FINAL) {
            return;
        }
        let mut rare = entry.rare_number().and_then(|number| self.rares.get_mut(number));
        let (record, before) = match &rare {
            Some(rare) => (rare.record, rare.kept_len),
            None => (entry.record(), entry.kept_len()),
        };
        let is_stored = verdict.has(bits::STORED);
        let len = mark.kept_len(&Frame { record: &record, bytes: &[] });
        if len <= before && (is_stored || mark.keep == Keep::Nothing) {
            return;
        }
        match &mut rare {
            Some(rare) => rare.kept_len = len.max(before),
            None => entry.set_kept_len(len.max(before)),
        }
        self.counts.raised += u64::from(!verdict.has(bits::RAISED));
        self.counts.raised_bytes += u64::from(len.saturating_sub(before));
        verdict.bits |= bits::STORED | bits::RAISED;
        entry.set_verdict(verdict);
        if let Some(form) = bytes.first_chunk_mut() {
            *form = entry.0;
        }
    }

    /// Gives away some of those whose time is over.
    fn give_group(&mut self, out: &mut impl Outlet) {
        let mut leaving = std::mem::take(&mut self.leaving);
        leaving.clear();
        let mut position = self.front;
        while self.over > 0 && leaving.len() < GROUP_LEN {
            let Some(entry) = Entry::read(self.blocks.at(position)) else { break };
            let one = self.leaving(&entry, position);
            out.expect(&one.judged);
            leaving.push(one);
            position = self.blocks.after(position + self.piece_len(&entry) as u64);
            if entry.rare_number().is_some() {
                self.rares.pop();
            }
            self.over -= 1;
            self.len -= 1;
        }
        for one in &leaving {
            let bytes = self.blocks.at(one.frame_at);
            let bytes = bytes.get(..one.frame_len).unwrap_or(bytes);
            out.give(&Frame { record: &one.record, bytes }, &one.judged, one.kept_len);
        }
        self.leaving = leaving;
        self.front = position;
        if self.len == 0 {
            self.front = self.blocks.end();
        }
        self.blocks.forget_before(self.front);
    }

    /// A packet as it was when it came.
    #[inline]
    fn leaving(&self, entry: &Entry, position: u64) -> Leaving {
        let rare = entry.rare_number().and_then(|number| self.rares.get(number));
        let (record, len, kept_len) = match rare {
            Some(rare) => (rare.record, rare.len, rare.kept_len),
            None => (entry.record(), entry.frame_len(), entry.kept_len()),
        };
        let frame_at = position + self.form_len() as u64;
        let bytes = self.blocks.at(frame_at);
        let bytes = bytes.get(..len as usize).unwrap_or(bytes);
        let verdict = entry.verdict();
        let flow = if verdict.has(bits::FLOW) {
            FlowKey::from_frame(&Frame { record: &record, bytes })
        } else {
            None
        };
        let Verdict { class, confidence, .. } = verdict;
        let judged = PacketVerdict { class, confidence, basis: verdict.basis(), flow };
        let kept_len = verdict.has(bits::STORED).then_some(kept_len);
        Leaving { record, judged, kept_len, frame_at, frame_len: len as usize }
    }
}

/// Units back from a packet to another.
#[allow(clippy::cast_possible_truncation)] // Memory has no more of them: `BYTES_MAX`.
const fn back(position: u64, previous: u64) -> u32 {
    if previous == 0 { 0 } else { ((position - previous) / ALIGNMENT as u64) as u32 }
}

const fn rank(keep: Keep) -> (u8, u32) {
    match keep {
        Keep::Nothing => (0, 0),
        Keep::Header => (1, 0),
        Keep::Partial(bytes) => (2, bytes),
        Keep::Full => (3, 0),
    }
}
