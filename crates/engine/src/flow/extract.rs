//! Frames to packets of flows, and event time.

use packet::flow_key::MarkedKey;
use packet::{
    Batch, CutTcp, EventTime, FlowDirection, FlowKey, Frame, HashSeed, KeyHash as _, Layers,
    Protocol, Span, TimeMove, Timestamp,
};

use crate::exchange::{Extract, Outlet};
use crate::group::Outcome;
use crate::window::LATENESS_ALLOWANCE;

/// What a flow table has to know of a packet: one cache line, owns nothing.
#[derive(Clone, Copy, Debug)]
pub struct FlowPacket {
    /// Whose packet it is, marked with the input it came from ([`packet::Record::input`]).
    pub marked_key: MarkedKey,
    /// When it was seen.
    pub timestamp: Timestamp,
    /// The hash of the key.
    pub hash: u64,
    /// Bytes on the wire, link header included.
    pub wire_len: u32,
    /// Outermost VLAN, or [`Layers::NO_VLAN`].
    pub vlan_id: u16,
    /// Low byte of the TCP flags; 0 for other protocols.
    pub tcp_flags: u8,
    /// Which way it goes.
    pub direction: FlowDirection,
}

const _: () = assert!(size_of::<FlowPacket>() == 64, "one cache line");

/// What owners hear of: how far time has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowMark {
    /// The latest stamp so far.
    pub watermark: Timestamp,
    /// What happened.
    pub kind: MarkKind,
}

/// Why a mark is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MarkKind {
    /// Time advanced, or many packets have come.
    Tick,
    /// The clock was set back to the mark's time.
    Step,
    /// The input has ended.
    Last,
}

/// Event time of one input, packet by packet, by the rule of [`packet::event_time`]: an epoch
/// begins an idle timeout back. A packet sets one mark at most.
#[derive(Debug)]
pub struct FlowClock {
    tick: Span,
    time: EventTime,
    next_tick: Timestamp,
    packets_since_mark: u32,
    /// Those of them that [`EventTime`] knows of.
    earned_since_mark: u32,
    /// Packets that came more than a second behind the latest stamp.
    pub late: u64,
    /// Epochs after the first: how often stamps ran backwards by the idle time-out or more, and
    /// time followed them.
    pub steps: u64,
}

/// Packets between two marks at most, so that what ends between them is bounded.
const PACKETS_PER_MARK: u32 = 1 << 16;

/// Stamps before this, in 1709, are none: so any time-out lies between what is
/// known and [`Timestamp::UNKNOWN`].
const EARLIEST: Timestamp = Timestamp::from_ns(i64::MIN + 1_000_000_000_000_000_000);

const TICK_MAX: Span = Span::from_seconds(1);

/// Short windows are looked through together: each look is at all flows of a second.
const TICK_MIN: Span = Span::from_ns(100_000_000);

/// The reading half: what [`exchange`](crate::exchange) runs on the reading thread.
pub struct FlowExtract {
    seed: HashSeed,
    clock: FlowClock,
    outcome: Outcome,
}

impl FlowPacket {
    /// The packet of a frame; `None` where it has no key.
    #[inline(always)]
    #[must_use]
    pub fn from_frame(frame: &Frame<'_>, seed: HashSeed, timestamp: Timestamp) -> Option<Self> {
        let (key, direction) = FlowKey::from_frame(frame)?;
        let layers = &frame.record.layers;
        Some(Self {
            marked_key: MarkedKey::new(key, frame.record.input),
            timestamp,
            hash: key.key_hash(seed),
            wire_len: frame.record.wire_len,
            vlan_id: layers.vlan_id,
            tcp_flags: tcp_flags(frame, layers),
            direction,
        })
    }

    /// Whose packet it is.
    #[inline(always)]
    #[must_use]
    pub const fn key(&self) -> FlowKey {
        self.marked_key.key()
    }

    /// The input it came from, as [`packet::Record::input`] has it.
    #[inline]
    #[must_use]
    pub const fn input(&self) -> u16 {
        self.marked_key.mark()
    }
}

#[inline(always)]
fn tcp_flags(frame: &Frame<'_>, layers: &Layers) -> u8 {
    /// Where the flags lie in a TCP header (RFC 9293, section 3.1).
    const FLAGS: usize = 13;
    if layers.protocol != Protocol::TCP {
        return 0;
    }
    if !layers.has(Layers::TRANSPORT) {
        return cut_tcp_flags(frame);
    }
    frame.bytes.get(usize::from(layers.transport_offset) + FLAGS).copied().unwrap_or(0)
}

#[cold]
fn cut_tcp_flags(frame: &Frame<'_>) -> u8 {
    CutTcp::of(frame).map_or(0, |cut| cut.flags)
}

impl FlowClock {
    /// Before the first packet. `window` is the shortest time that results wait for.
    #[must_use]
    pub fn new(idle_timeout: Span, window: Option<Span>) -> Self {
        Self {
            tick: window.unwrap_or(TICK_MAX).clamp(TICK_MIN, TICK_MAX),
            time: EventTime::new(idle_timeout),
            next_tick: Timestamp::MIN,
            packets_since_mark: 0,
            earned_since_mark: 0,
            late: 0,
            steps: 0,
        }
    }

    /// The time of a packet with this stamp, and the mark that goes before it.
    #[inline(always)]
    pub fn on_packet(&mut self, stamp: Timestamp) -> (Timestamp, Option<FlowMark>) {
        // A packet without a stamp was seen when the latest one was.
        let time = if stamp < EARLIEST { self.time.latest() } else { stamp };
        self.packets_since_mark += 1;
        let is_usual = time >= self.time.latest()
            && time < self.next_tick
            && self.packets_since_mark < PACKETS_PER_MARK;
        if is_usual {
            self.time.on_tick(time);
            return (time, None);
        }
        (time, self.mark_before(time))
    }

    #[inline(never)]
    fn mark_before(&mut self, time: Timestamp) -> Option<FlowMark> {
        self.earn();
        match self.time.on_stamp(time) {
            TimeMove::Forward => {}
            TimeMove::Behind(behind) => self.late += u64::from(behind > LATENESS_ALLOWANCE),
            TimeMove::Epoch => {
                self.steps += 1;
                return Some(self.mark(MarkKind::Step));
            }
        }
        let is_due =
            self.time.latest() >= self.next_tick || self.packets_since_mark >= PACKETS_PER_MARK;
        is_due.then(|| self.mark(MarkKind::Tick))
    }

    /// Packets are counted once, and made known where it matters.
    const fn earn(&mut self) {
        self.time.earn(self.packets_since_mark - self.earned_since_mark);
        self.earned_since_mark = self.packets_since_mark;
    }

    /// The first goes before the first packet: there is nothing that could end,
    /// but where time begins is known to all owners alike.
    fn mark(&mut self, kind: MarkKind) -> FlowMark {
        self.earn();
        (self.packets_since_mark, self.earned_since_mark) = (0, 0);
        let watermark = self.time.latest();
        self.next_tick = watermark.window_start(self.tick).plus(self.tick);
        FlowMark { watermark, kind }
    }

    /// Time continues although nothing comes: an idle link, also one on which nothing has come
    /// yet. A writer of flows looks after its output at each mark.
    pub fn on_tick(&mut self, time: Timestamp) -> Option<FlowMark> {
        if time <= self.time.latest() {
            return None;
        }
        self.time.on_tick(time);
        (time >= self.next_tick).then(|| self.mark(MarkKind::Tick))
    }

    /// After the last packet.
    #[must_use]
    pub const fn last_mark(&self) -> FlowMark {
        FlowMark { watermark: self.time.latest(), kind: MarkKind::Last }
    }
}

impl FlowExtract {
    /// Before the first packet.
    #[must_use]
    pub fn new(seed: HashSeed, clock: FlowClock) -> Self {
        Self { seed, clock, outcome: Outcome::default() }
    }

    /// The outcome of the packets, and the clock.
    #[must_use]
    pub fn finish(self) -> (Outcome, FlowClock) {
        (self.outcome, self.clock)
    }
}

impl Extract for FlowExtract {
    type Item = FlowPacket;
    type Mark = FlowMark;

    #[inline]
    fn extract(&mut self, batch: &Batch<'_>, out: &mut impl Outlet<FlowPacket, FlowMark>) {
        let mut absent = 0;
        for frame in batch.frames() {
            let (time, mark) = self.clock.on_packet(frame.record.timestamp);
            if let Some(mark) = mark {
                out.mark(mark);
            }
            match FlowPacket::from_frame(&frame, self.seed, time) {
                Some(packet) => out.item(packet.hash, packet),
                None => {
                    absent += 1;
                    self.outcome.add_absent(&frame);
                }
            }
        }
        self.outcome.keyed += batch.records.len() as u64 - absent;
        if let Some(mark) = batch.tick.and_then(|time| self.clock.on_tick(time)) {
            out.mark(mark);
        }
    }

    fn last_mark(&mut self) -> FlowMark {
        self.clock.last_mark()
    }
}

#[cfg(test)]
mod tests {
    use packet::dissect::{DissectOptions, dissect};
    use packet::{Frame, HashSeed, LinkType, Record, Timestamp};

    use super::FlowPacket;

    #[test]
    fn flags_are_read_where_the_capture_cuts_options() {
        const FIN_AND_ACK: u8 = 0x11;
        let ip = [0x45, 0, 0, 52, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let tcp = [0, 7, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x80, FIN_AND_ACK, 0, 9, 0, 0, 0, 0];
        let frame = [&[2; 12][..], &[8, 0], &ip, &tcp, &[1; 12]].concat();
        let flags = |len: usize| {
            let bytes = &frame[..len];
            let layers = dissect(LinkType::ETHERNET, bytes, 66, DissectOptions::default());
            let record = Record { layers, ..Record::default() };
            let frame = Frame { record: &record, bytes };
            let packet = FlowPacket::from_frame(&frame, HashSeed::new(1), Timestamp::UNKNOWN);
            packet.map(|packet| packet.tcp_flags)
        };
        assert_eq!([66, 60, 48].map(flags), [Some(FIN_AND_ACK); 3]);
        assert_eq!([47, 38].map(flags), [Some(0); 2]);
    }
}
