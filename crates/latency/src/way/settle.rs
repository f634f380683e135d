//! What an acknowledgement says of the packets that it covers.

use std::ops::Range;

use packet::wire::tcp::SeqNumber;
use packet::{Span, Timestamp};

use super::Way;
use crate::context::{Context, PacketContext};
use crate::outstanding::Waiting;
use crate::sample::{AckDelay, Echo, Method, MissingReason, TakeSamples};
use crate::segment::Segment;

/// Packets that one SACK block is looked up in at most; those beyond are measured by a later one,
/// or by the cumulative acknowledgement.
const SACK_STEPS_MAX: usize = 1024;

/// No receiver holds an acknowledgement back for longer; RFC 9293 §3.8.6.3 wants less than half of
/// it.
const HELD_MAX: Span = Span::from_seconds(1);

/// What a timestamp in an acknowledgement says of a packet that was sent more than once.
enum Answers {
    Original,
    Copy,
    Unknown,
}

impl Way {
    /// The first packets that wait are acknowledged.
    #[inline]
    pub(super) fn settle<T: TakeSamples>(
        &mut self,
        count: usize,
        segment: &Segment,
        (before, ack): (Option<SeqNumber>, SeqNumber),
        echo: Echo,
        context: &mut Context<'_, T>,
    ) {
        let trigger = self.trigger(0..count, 0);
        let first = self.outstanding.get(0).map(|first| first.seq);
        let edge = before.or(first).unwrap_or(ack);
        let last = self.outstanding.get(count - 1).copied();
        let is_exact = last.is_some_and(|last| last.end == ack);
        let timer = context.limits.delayed_ack;
        let is_lone = is_exact && self.is_lone(count, segment.time, ack, timer);
        let (mut latest, mut waits) = (Timestamp::MIN, false);
        for index in 0..count {
            let Some(&packet) = self.outstanding.get(index) else { break };
            if packet.has(Waiting::DONE) {
                continue;
            }
            let mut method =
                if packet.has(Waiting::OPENS) { Method::Handshake } else { Method::Ack };
            let mut missing = None;
            if packet.has(Waiting::RESENT) {
                match self.answers(&packet, segment, edge) {
                    Answers::Original => method = Method::AckTimestamp,
                    Answers::Copy => missing = Some(MissingReason::Lost),
                    Answers::Unknown => missing = Some(MissingReason::Ambiguous),
                }
                waits |= missing.is_some();
            } else if waits || packet.time < latest {
                missing = Some(MissingReason::Blocked);
            }
            latest = latest.max(packet.time);
            if let Some(missing) = missing {
                self.miss(&packet, missing, context);
                continue;
            }
            let is_trigger = trigger.is_none_or(|(place, _)| place == index);
            let mut found = PacketContext::new(method, echo_if(is_trigger, echo));
            if is_trigger && is_exact {
                found.is_answered = true;
                found.held = if is_lone { AckDelay::Lone } else { AckDelay::No };
            } else {
                found.held = AckDelay::Covered;
                found.wait_ns = trigger.and_then(|(_, time)| wait(packet.time, time));
                found.wait_ns = found.wait_ns.filter(|_| is_exact);
            }
            self.find(&packet, segment.time, found, context);
        }
        self.settle_copies(segment, (edge, ack), context);
        self.outstanding.drop_first(count, ack, context.packets);
    }

    /// Copies of acknowledged packets: only a timestamp says which of them was answered.
    #[inline]
    fn settle_copies<T: TakeSamples>(
        &mut self,
        segment: &Segment,
        (edge, ack): (SeqNumber, SeqNumber),
        context: &mut Context<'_, T>,
    ) {
        for copy in self.outstanding.take_copies(ack, context.packets) {
            let missing = match (copy.ticks(), segment.ticks) {
                (Some(sent), Some((_, echo))) if echo == sent => None,
                (Some(sent), Some((_, echo)))
                    if is_tick_before(echo, sent) && !copy.seq.is_after(edge) =>
                {
                    Some(MissingReason::Needless)
                }
                _ => Some(MissingReason::Ambiguous),
            };
            if let Some(missing) = missing {
                self.miss(&copy, missing, context);
                continue;
            }
            let found = PacketContext {
                is_answered: true,
                ..PacketContext::new(Method::AckTimestamp, Echo::default())
            };
            self.find(&copy, segment.time, found, context);
        }
    }

    /// Of packets that an acknowledgement is the first to cover, the one that came last: that one
    /// it answers.
    #[inline]
    fn trigger(&self, among: Range<usize>, not: u8) -> Option<(usize, Timestamp)> {
        let mut found: Option<(usize, Timestamp)> = None;
        for index in among {
            let Some(packet) = self.outstanding.get(index) else { break };
            let counts = !packet.has(Waiting::DONE | not);
            if counts && found.is_none_or(|(_, time)| packet.time >= time) {
                found = Some((index, packet.time));
            }
        }
        found
    }

    /// Whether the receiver's timer may have sent an acknowledgement: it covers less than two
    /// segments, which answers are owed for immediately (RFC 9293 §3.8.6.3), no later packet can
    /// have reached the receiver before it was sent, and it comes later than the least round trip
    /// by at least what the shortest timer waits, and by half of that than the last one if that is
    /// not long ago: what waits in a queue comes late, too, but so does its neighbour.
    #[inline]
    fn is_lone(&self, count: usize, now: Timestamp, ack: SeqNumber, least: Span) -> bool {
        let Some(floor) = self.rtt.min() else { return false };
        let ends = (self.outstanding.get(0), self.outstanding.get(count - 1));
        let (Some(first), Some(last)) = ends else { return false };
        let floor = Span::from_ns(i64::try_from(floor).unwrap_or(i64::MAX));
        let late = now.minus(floor).since(last.time);
        if late < least || late > HELD_MAX || last.has(Waiting::OPENS | Waiting::ENDS) {
            return false;
        }
        if let Some((_, rtt)) = self.measured.filter(|&(at, _)| now.since(at) <= HELD_MAX) {
            let neighbour = i64::try_from(rtt).unwrap_or(i64::MAX);
            if now.since(last.time).as_ns().saturating_sub(neighbour) < least.as_ns() / 2 {
                return false;
            }
        }
        let covered = u32::try_from(ack.since(first.seq)).unwrap_or(u32::MAX);
        let next = self.outstanding.get(count);
        covered < self.segment_max.saturating_mul(2)
            && next.is_none_or(|next| next.time > now.minus(floor))
    }

    /// Which copy of a packet an acknowledgement answers, by its timestamp. That is of the segment
    /// at the left edge of the window (RFC 7323 §4.3): it says nothing of those beyond, which came
    /// before it or after it. An echo of any copy, not of the last one alone, is none of the first
    /// packet.
    fn answers(&self, packet: &Waiting, segment: &Segment, edge: SeqNumber) -> Answers {
        if packet.seq.is_after(edge) {
            return Answers::Unknown;
        }
        let copy = self.outstanding.copy_of(packet).and_then(Waiting::ticks);
        match (packet.ticks(), copy, segment.ticks) {
            (Some(first), Some(copy), Some((_, echo))) if first != copy => {
                if is_tick_before(echo, copy) { Answers::Original } else { Answers::Copy }
            }
            _ => Answers::Unknown,
        }
    }

    /// Packets that a receiver has out of order.
    pub(super) fn on_blocks<T: TakeSamples>(
        &mut self,
        segment: &Segment,
        ack: SeqNumber,
        context: &mut Context<'_, T>,
    ) {
        let before = std::mem::replace(&mut self.blocks, segment.blocks);
        let Some(high) = self.high else { return };
        let mut fresh = [const { None }; 4];
        for (fresh, (start, end)) in fresh.iter_mut().zip(segment.blocks.into_iter().flatten()) {
            // One at or below the acknowledgement reports what came twice (RFC 2883).
            let is_beyond = start.is_after(ack) && start.is_before(end) && !end.is_after(high);
            if !is_beyond || before.contains(&Some((start, end))) {
                continue;
            }
            // Blocks grow at their ends: what is known of one already is not looked at again.
            let grown = before.into_iter().flatten().find(|known| known.0 == start);
            let from =
                grown.map_or(start, |(_, known)| if known.is_before(end) { known } else { start });
            *fresh = Some(self.within(from, end));
        }
        // Copies are ambiguous here: they wait for the timestamp of a cumulative acknowledgement.
        // One packet is answered, however many blocks an acknowledgement is the first to have.
        let triggers = fresh.iter().flatten();
        let triggers = triggers.filter_map(|block| self.trigger(block.clone(), Waiting::RESENT));
        let Some(trigger) = triggers.max_by_key(|&(_, time)| time) else { return };
        for block in fresh.into_iter().flatten() {
            self.settle_block(block, trigger, segment, context);
        }
    }

    /// Packets that wait within a block.
    fn within(&self, start: SeqNumber, end: SeqNumber) -> Range<usize> {
        let first = self.outstanding.first_from(start);
        let steps = first..first.saturating_add(SACK_STEPS_MAX);
        let is_within = |index: &usize| {
            self.outstanding.get(*index).is_some_and(|packet| !packet.end.is_after(end))
        };
        first..first + steps.take_while(is_within).count()
    }

    fn settle_block<T: TakeSamples>(
        &mut self,
        block: Range<usize>,
        (place, time): (usize, Timestamp),
        segment: &Segment,
        context: &mut Context<'_, T>,
    ) {
        for index in block {
            let Some(packet) = self.outstanding.get_mut(index) else { break };
            if packet.has(Waiting::DONE | Waiting::RESENT) {
                continue;
            }
            packet.flags |= Waiting::DONE;
            let packet = *packet;
            let mut found = PacketContext::new(Method::Sack, Echo::default());
            if index == place {
                found.is_answered = true;
            } else {
                found.held = AckDelay::Covered;
                found.wait_ns = wait(packet.time, time);
            }
            self.find(&packet, segment.time, found, context);
        }
    }

    /// The packet that opened the connection was sent so often again before it was answered; of
    /// copies the last one is reported.
    pub(crate) fn resent_at_opening<T: TakeSamples>(
        &mut self,
        mut copy: Waiting,
        count: u16,
        context: &mut Context<'_, T>,
    ) {
        self.totals.packets += u64::from(count);
        self.totals.retransmissions += u64::from(count);
        // When the others were sent is not known any more; they have no latency, either.
        let others = u64::from(count.saturating_sub(1));
        self.totals.missing[MissingReason::Ambiguous as usize] += others;
        self.outstanding.resend(copy.seq, copy.end);
        copy.flags |= Waiting::COPY;
        self.miss(&copy, MissingReason::Ambiguous, context);
    }

    /// A latency is found.
    #[inline]
    pub(crate) fn find<T: TakeSamples>(
        &mut self,
        packet: &Waiting,
        now: Timestamp,
        found: PacketContext,
        context: &mut Context<'_, T>,
    ) {
        let Ok(latency_ns) = u64::try_from(now.since(packet.time).as_ns()) else {
            return self.miss(packet, MissingReason::ClockStep, context);
        };
        let is_prompt = found.held == AckDelay::No;
        match found.held {
            AckDelay::No => {}
            AckDelay::Covered => self.totals.held_covered += 1,
            AckDelay::Lone => self.totals.held_lone += 1,
        }
        if found.is_answered && is_prompt {
            self.rtt.add(latency_ns, context.buckets);
            self.measured = Some((now, latency_ns));
        }
        let sharp = self.series.add(latency_ns, is_prompt, &context.limits.sharp);
        context.found(packet, latency_ns, &found, sharp);
    }

    /// A packet has no latency.
    #[inline]
    pub(crate) fn miss<T: TakeSamples>(
        &mut self,
        packet: &Waiting,
        missing: MissingReason,
        context: &mut Context<'_, T>,
    ) {
        self.totals.missing[missing as usize] += 1;
        if T::WANTS_ALL {
            context.missed(packet, missing);
        }
    }
}

fn echo_if(is_answered: bool, echo: Echo) -> Echo {
    if is_answered { echo } else { Echo::default() }
}

/// How long one packet came before another.
fn wait(from: Timestamp, to: Timestamp) -> Option<u64> {
    u64::try_from(to.since(from).as_ns()).ok()
}

/// Whether a tick of a sender's clock is earlier than another, across the wrap (RFC 7323 §5.2).
const fn is_tick_before(one: u32, other: u32) -> bool {
    one.wrapping_sub(other).cast_signed() < 0
}
