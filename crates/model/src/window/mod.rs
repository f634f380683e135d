//! The features of a flow in a window of time, for what is inferred again and again while the flow
//! continues, such as the frame rate of a video.
//!
//! **Windows** are of one length and aligned to the epoch, so windows of a second are the clock's
//! seconds, the same for all flows and in every run. A packet is in the window of its stamp; one
//! that comes late, when another flow's packet has shown that the window is over, is in the one
//! that time has come to. So a window is over once, for all flows, and it can be determined when.
//!
//! **Ways.** Who sent a flow's first packet says little of a call, so ways are distinguished by
//! weight: the *main* way is the one that had carried more bytes of the flow when the window began,
//! and the way of its first packet in its first window. It does not change within a window; a row
//! of few packets stays the beginning of one of more.
//!
//! **Bounded.** A flow has two ways of fixed size, the values of the window before, and the
//! window's first packets; nothing grows with packets or time. [`WindowPackets::size_bytes`]
//! returns the size.
//!
//! As of first packets, all numbers are rounded to 32-bit floating point.

mod features;
mod number;
mod rtp;
mod side;
#[cfg(test)]
mod tests;

pub use features::{WindowError, WindowFeatures};
pub use number::{Quantity, WindowNumber};
pub use rtp::{STREAM_COUNT_MAX, TIMESTAMPS_KEPT};
pub use side::{DISTINCT_MAX, FRAME_BYTES_MIN, FRAME_BYTES_SPREAD};

use packet::{FlowDirection, Frame, Timestamp, flow_key};

use crate::first::{FirstPackets, Number, single};
use crate::sequence::Step;
use rtp::RTP_BYTES;
use side::{Side, Values};

/// What is kept of one flow: this window, and what the one before came to.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct WindowPackets(Option<Box<Kept>>);

#[derive(Clone, PartialEq, Debug)]
struct Kept {
    protocol: u8,
    /// Source and destination of the flow's first packet.
    ports: Option<(u16, u16)>,
    window: Timestamp,
    main: FlowDirection,
    /// Of all windows before this one, by way.
    bytes: [u64; 2],
    latest: Timestamp,
    packet_count: u64,
    first: FirstPackets,
    first_way: FlowDirection,
    /// Time since the flow's latest packet before the window's first, and since the window began.
    lead_ns: u64,
    offset_ns: u64,
    sides: [Side; 2],
    previous: [Values; 2],
}

impl Kept {
    fn new(frame: &Frame<'_>, way: FlowDirection, time: Timestamp, window: Timestamp) -> Self {
        let sides = [Side::default(), Side::default()];
        let previous = [sides[0].values(), sides[1].values()];
        Self {
            protocol: frame.record.layers.protocol.0,
            ports: flow_key::ports(frame),
            window,
            main: way,
            bytes: [0; 2],
            latest: time,
            packet_count: 0,
            first: FirstPackets::default(),
            first_way: way,
            lead_ns: 0,
            offset_ns: 0,
            sides,
            previous,
        }
    }

    /// The flow has come to another window.
    fn turn(&mut self, window: Timestamp, is_next: bool) {
        for (bytes, side) in self.bytes.iter_mut().zip(&self.sides) {
            *bytes = bytes.saturating_add(side.bytes());
        }
        let [low_to_high, high_to_low] = self.bytes;
        if low_to_high != high_to_low {
            let is_up = low_to_high > high_to_low;
            self.main = if is_up { FlowDirection::LowToHigh } else { FlowDirection::HighToLow };
        }
        let whole = |side: &Side| side.values();
        let counted = self.sides.each_ref().map(whole);
        self.sides.iter_mut().for_each(Side::turn);
        self.previous = if is_next { counted } else { self.sides.each_ref().map(whole) };
        self.window = window;
        self.packet_count = 0;
        self.first = FirstPackets::default();
    }
}

impl WindowPackets {
    /// Takes in the flow's next frame. Where it is in a later window, what was counted of the one
    /// before is kept as `previous_…`, if that is the window just before; so a caller that wants
    /// the row of a window asks for it when [`ends_before`](Self::ends_before) says so.
    ///
    /// `now` is how far time has come, this packet's own stamp included.
    #[inline]
    pub fn on_frame(
        &mut self,
        features: &WindowFeatures,
        frame: &Frame<'_>,
        way: FlowDirection,
        time: Timestamp,
        now: Timestamp,
    ) {
        let window = now.window_start(features.every());
        let new = || Box::new(Kept::new(frame, way, time, window));
        let kept = self.0.get_or_insert_with(new);
        // Earlier only where the clock was set back.
        if window != kept.window {
            let is_next = kept.window.plus(features.every()) == window;
            kept.turn(window, is_next);
        }
        let since = |earlier| u64::try_from(time.since(earlier).as_ns()).unwrap_or(0);
        if kept.packet_count == 0 {
            kept.first_way = way;
            (kept.lead_ns, kept.offset_ns) = (since(kept.latest), since(kept.window));
        }
        kept.packet_count += 1;
        kept.latest = kept.latest.max(time);
        kept.first.on_frame(features.first(), frame, way, time);
        if let Some(side) = kept.sides.get_mut(way as usize) {
            side.on_frame(frame, time, features.reads_rtp());
        }
    }

    /// The start of the window that the flow has come to, once it has a packet.
    #[inline]
    #[must_use]
    pub fn window(&self) -> Option<Timestamp> {
        self.0.as_ref().map(|kept| kept.window)
    }

    /// Whether the flow's window is over where time has come this far, or was set back to it.
    #[inline]
    #[must_use]
    pub fn ends_before(&self, features: &WindowFeatures, now: Timestamp) -> bool {
        self.window().is_some_and(|window| window != now.window_start(features.every()))
    }

    /// Packets of the window so far.
    #[inline]
    #[must_use]
    pub fn packet_count(&self) -> u64 {
        self.0.as_ref().map_or(0, |kept| kept.packet_count)
    }

    /// The way that counts as main in this window.
    #[must_use]
    pub fn main(&self) -> Option<FlowDirection> {
        self.0.as_ref().map(|kept| kept.main)
    }

    /// The records of the window's first packets that `features` read; of packets that did not
    /// come, nothing.
    #[inline]
    #[must_use]
    pub fn records(&self, features: &WindowFeatures) -> &[u8] {
        self.0.as_ref().map_or(&[], |kept| kept.first.records(features.first()))
    }

    /// Appends the numbers of `features`, which may be fewer than those by which frames were taken
    /// in.
    pub fn numbers(&self, features: &WindowFeatures, out: &mut Vec<f64>) {
        let numbers = features.numbers().iter();
        let Some(kept) = &self.0 else { return out.extend(numbers.map(|_| MISSING)) };
        let whole = features.needs_whole_window().then(|| kept.sides.each_ref().map(Side::values));
        let both = [whole.unwrap_or(kept.previous), kept.previous];
        out.extend(numbers.map(|&number| kept.number(features, number, &both)));
    }

    /// Bytes that it allocates.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |kept| {
            let sides: usize = kept.sides.iter().map(Side::kept_bytes).sum();
            size_of::<Kept>() + kept.first.size_bytes() + sides
        })
    }
}

impl WindowPackets {
    /// What [`size_bytes`](Self::size_bytes) never exceeds with these features.
    #[must_use]
    pub const fn size_bytes_max(features: &WindowFeatures) -> usize {
        let first = features.first();
        let packet = first.layout().record_len() + size_of::<Step>();
        // Lists grow by doubling.
        size_of::<Kept>() + 2 * packet * first.packets() + 2 * RTP_BYTES
    }
}

const MISSING: f64 = -1.0;

impl Kept {
    /// `values` are those of the window and of the one before, each by way.
    fn number(
        &self,
        features: &WindowFeatures,
        number: WindowNumber,
        values: &[[Values; 2]; 2],
    ) -> f64 {
        match number {
            WindowNumber::First(Number::Protocol) => f64::from(self.protocol),
            WindowNumber::First(Number::ServerPort) => {
                self.ports.map_or(MISSING, |(_, port)| port.into())
            }
            WindowNumber::First(Number::ClientPort) => {
                self.ports.map_or(MISSING, |(port, _)| port.into())
            }
            WindowNumber::First(Number::GapNs(0)) => single(self.lead_ns),
            WindowNumber::First(number @ Number::Direction(_)) => {
                // Of the window's packets as of a flow's: 1 for the way of the first.
                let as_first = self.first.number(features.first().layout(), number);
                if self.first_way == self.main { as_first } else { 0.0 - as_first }
            }
            WindowNumber::First(number) => self.first.number(features.first().layout(), number),
            WindowNumber::OffsetNs(packet) => {
                let steps = self.first.steps().steps().get(..=usize::from(packet));
                steps.map_or(MISSING, |steps| {
                    let gaps = steps.iter().map(|step| step.gap_ns);
                    single(gaps.fold(self.offset_ns, u64::saturating_add))
                })
            }
            WindowNumber::Whole { is_previous, is_back, quantity } => {
                let way = if is_back { self.main.opposite() } else { self.main };
                let values = values.get(usize::from(is_previous)).and_then(|v| v.get(way as usize));
                let value = values.and_then(|values| values.get(quantity as usize));
                value.copied().map_or(MISSING, f64::from)
            }
        }
    }
}
