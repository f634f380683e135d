//! One direction of a flow: its data one way, acknowledgements of it the other.

mod settle;

use packet::wire::tcp::SeqNumber;
use packet::{Timestamp, reach};

use crate::context::Context;
use crate::echo::{Counters, EchoKind};
use crate::outstanding::{ONE_WAY_MAX, Outstanding, Waiting};
use crate::rtt::{Rtt, Series};
use crate::sample::{Echo, MissingReason, TakeSamples};
use crate::segment::Segment;

/// What one direction of a flow adds up to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Packets with data, or that open or close a connection.
    pub packets: u64,
    /// Bytes of data, retransmitted ones included.
    pub bytes: u64,
    /// Of `packets`, those with bytes that were seen before.
    pub retransmissions: u64,
    /// Of `packets`, those with bytes that were not seen, before others that were.
    pub late: u64,
    /// Keep-alives; no part of `packets`.
    pub keep_alives: u64,
    /// Acknowledgements of data that the tap did not see.
    pub unseen_acks: u64,
    /// Acknowledgements further from the data than any window reaches.
    pub out_of_window: u64,
    /// Duplicate acknowledgements.
    pub duplicate_acks: u64,
    /// Latencies of packets whose acknowledgement answers a later one.
    pub held_covered: u64,
    /// Latencies that the receiver's timer may have made.
    pub held_lone: u64,
    /// Packets without a latency, by [`Missing`].
    pub missing: [u64; MissingReason::ALL.len()],
    /// Packets that carry CE at the tap.
    pub ce: u64,
    /// Packets with CE that the receiver reports: with classic ECN, acknowledgements with ECE.
    pub ce_echoed: u64,
}

/// One direction of a flow.
#[derive(Clone, Debug, Default)]
pub struct Way {
    /// One past the highest number that was sent.
    high: Option<SeqNumber>,
    /// What the receiver waits for.
    acked: Option<SeqNumber>,
    outstanding: Outstanding,
    /// The SACK blocks of the last acknowledgement.
    blocks: [Option<(SeqNumber, SeqNumber)>; 4],
    /// When the last round trip was measured, and how long it took.
    measured: Option<(Timestamp, u64)>,
    /// The largest packet: an estimate of the maximum segment size.
    segment_max: u32,
    pub(crate) counters: Counters,
    /// What it adds up to.
    pub totals: Totals,
    /// Latencies of all packets, in the order in which they become known.
    pub series: Series,
    /// Round trips from the tap to the receiver of this direction's data and back.
    pub rtt: Rtt,
    /// Times from a request of the other direction to the first packet of this one's answer, less
    /// the round trip between them.
    pub think: Rtt,
}

impl Way {
    /// Takes in a packet with data, or that opens or closes a connection; whether it is new data.
    #[inline]
    pub(crate) fn on_data<T: TakeSamples>(
        &mut self,
        segment: &Segment,
        context: &mut Context<'_, T>,
    ) -> bool {
        if let Some(high) = self.high {
            // Another connection's number may be lower than this one's data has come to.
            let is_other = segment.opens() && segment.end() != high;
            if is_other || !reach::fits(segment.seq, segment.len, high) {
                self.begin_again(context);
            }
        }
        let high = self.high.unwrap_or(segment.seq);
        let before_high = segment.seq.since(high) == -1;
        let is_byte = segment.len <= 1 && segment.len == segment.payload_len;
        // One that was sent as data and is not acknowledged yet asks nothing: it is retransmitted.
        let is_owed = || self.acked.is_some() && self.outstanding.ends_with_byte(segment.seq);
        if before_high && is_byte && !is_owed() {
            self.totals.keep_alives += 1;
            return false;
        }
        let wire_packets = u32::from(segment.segments).max(1);
        self.segment_max = self.segment_max.max(segment.payload_len.div_ceil(wire_packets));
        self.totals.packets += 1;
        self.totals.bytes += u64::from(segment.payload_len);
        self.totals.ce += u64::from(segment.ecn == 3);
        let mut packet = Waiting::of(segment);
        // What follows a probe of a closed window may repeat the probe's byte.
        let repeats_probe = before_high && segment.payload_len > 1;
        if !segment.seq.is_before(high) || repeats_probe {
            self.high = Some(packet.end);
            self.leave_behind(packet.end, context);
            self.push(packet, context);
            return true;
        }
        if packet.end.is_after(high) {
            self.high = Some(packet.end);
        }
        let is_acked = self.acked.is_some_and(|acked| segment.seq.is_before(acked));
        if self.outstanding.resend(segment.seq, packet.end) || is_acked {
            packet.flags |= Waiting::COPY;
            self.totals.retransmissions += 1;
            self.push_copy(packet, context);
        } else {
            packet.flags |= Waiting::LATE;
            self.totals.late += 1;
            let count_max = self.count_max(context);
            if !self.outstanding.insert(packet, count_max, context.packets) {
                self.miss(&packet, MissingReason::NoRoom, context);
            }
        }
        false
    }

    /// What lies further behind the highest number than a window reaches means nothing any more
    /// ([`reach`]): with the numbers that follow it is in no order.
    #[inline]
    fn leave_behind<T: TakeSamples>(&mut self, high: SeqNumber, context: &mut Context<'_, T>) {
        let first = self.outstanding.get(0).map(|first| first.seq);
        if self.acked.into_iter().chain(first).any(|number| !reach::is_near(number, high)) {
            self.leave_behind_slowly(reach::floor(high), context);
        }
    }

    #[cold]
    fn leave_behind_slowly<T: TakeSamples>(
        &mut self,
        floor: SeqNumber,
        context: &mut Context<'_, T>,
    ) {
        self.acked = self.acked.map(|acked| if acked.is_before(floor) { floor } else { acked });
        for packet in self.outstanding.take_behind(floor, context.packets) {
            if !packet.has(Waiting::DONE) {
                self.miss(&packet, MissingReason::NoAnswer, context);
            }
        }
    }

    fn count_max<T>(&self, context: &Context<'_, T>) -> usize {
        let count_max = context.limits.waiting_per_flow;
        if self.acked.is_none() { count_max.min(ONE_WAY_MAX) } else { count_max }
    }

    #[inline]
    fn push<T: TakeSamples>(&mut self, packet: Waiting, context: &mut Context<'_, T>) {
        let count_max = self.count_max(context);
        if !self.outstanding.push(packet, count_max, context.packets) {
            self.miss(&packet, MissingReason::NoRoom, context);
        }
    }

    fn push_copy<T: TakeSamples>(&mut self, copy: Waiting, context: &mut Context<'_, T>) {
        if self.acked.is_some_and(|acked| !copy.end.is_after(acked)) {
            self.miss(&copy, MissingReason::Needless, context);
        } else if !self.outstanding.push_copy(copy, context.packets) {
            self.miss(&copy, MissingReason::NoRoom, context);
        }
    }

    /// Another connection begins, under the same key: what waits stays unanswered.
    fn begin_again<T: TakeSamples>(&mut self, context: &mut Context<'_, T>) {
        self.give_up(context);
        (self.high, self.acked, self.blocks) = (None, None, [None; 4]);
        self.counters = Counters::default();
    }

    /// Nothing is waited for any more.
    pub(crate) fn give_up<T: TakeSamples>(&mut self, context: &mut Context<'_, T>) {
        let (waiting, copies) = self.outstanding.take_all(context.packets);
        for packet in waiting.iter().chain(&copies) {
            if !packet.has(Waiting::DONE) {
                self.miss(packet, MissingReason::NoAnswer, context);
            }
        }
    }

    /// Takes in an acknowledgement.
    #[inline]
    pub(crate) fn on_ack<T: TakeSamples>(
        &mut self,
        segment: &Segment,
        ack: SeqNumber,
        kind: &mut EchoKind,
        context: &mut Context<'_, T>,
    ) {
        let Some(high) = self.high else { return };
        if !reach::is_near(ack, high) {
            self.totals.out_of_window += 1;
            return;
        }
        if self.acked.is_some_and(|acked| ack.is_before(acked)) {
            return;
        }
        let before = self.acked.replace(ack);
        let is_new = before != Some(ack);
        if ack.is_after(high) {
            self.high = Some(ack);
            self.totals.unseen_acks += 1;
        }
        let count = if is_new { self.outstanding.count_up_to(ack) } else { 0 };
        // The first acknowledgement repeats the handshake's codes where others count.
        let opens =
            count > 0 && self.outstanding.get(0).is_some_and(|first| first.has(Waiting::OPENS));
        let echo = if opens { Echo::default() } else { self.counters.read(kind, segment) };
        self.totals.ce_echoed += u64::from(echo.ce.unwrap_or(0));
        if segment.blocks[0].is_some() || self.blocks[0].is_some() {
            self.on_blocks(segment, ack, context);
        }
        if count > 0 {
            self.settle(count, segment, (before, ack), echo, context);
        } else if !is_new && segment.len == 0 && !self.outstanding.is_empty() {
            self.totals.duplicate_acks += 1;
        }
    }
}
