//! Packets whose acknowledgement is waited for, and acknowledgements whose echo is.

use std::collections::VecDeque;

use packet::Timestamp;
use packet::wire::tcp::SeqNumber;

/// Packets whose acknowledgement is waited for at most; beyond, a packet is not timed.
pub const TIMED_COUNT_MAX: usize = 4096;

/// Ends of packets that were seen once, and when; from first to last.
///
/// Most flows never have a second, and need no memory for it.
#[derive(Clone, Debug, Default)]
pub(super) struct PacketTimes {
    first: Option<(SeqNumber, Timestamp)>,
    rest: VecDeque<(SeqNumber, Timestamp)>,
}

impl PacketTimes {
    /// Adds a packet, where there is room.
    pub(super) fn push(&mut self, end: SeqNumber, time: Timestamp) {
        if self.first.is_none() {
            self.first = Some((end, time));
        } else if self.rest.len() + 1 < TIMED_COUNT_MAX {
            self.rest.push_back((end, time));
        }
    }

    /// Takes out the first, if it is meant.
    pub(super) fn take_first_if(
        &mut self,
        is_meant: impl FnOnce(SeqNumber) -> bool,
    ) -> Option<Timestamp> {
        let (_, time) = self.first.filter(|&(end, _)| is_meant(end))?;
        self.first = self.rest.pop_front();
        Some(time)
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.first = None;
        self.rest.clear();
    }
}

/// Acknowledgements whose time stamp is waited for at most; beyond, the oldest is not timed.
pub const ECHO_COUNT_MAX: usize = 256;

/// Time stamps of acknowledgements (`TSval`, RFC 7323), and when the first with each passed.
///
/// The sender repeats the latest that it has (`TSecr`), so the first packet with a new one was let
/// go by that acknowledgement. Several of one tick cannot be distinguished: up to a tick too much.
#[derive(Clone, Debug, Default)]
pub(super) struct EchoTimes(VecDeque<(u32, Timestamp)>);

impl EchoTimes {
    /// Adds an acknowledgement, unless one of the same tick, or of a later one, passed before.
    pub(super) fn push(&mut self, ticks: u32, time: Timestamp) {
        if self.0.back().is_some_and(|&(last, _)| !is_later(ticks, last)) {
            return;
        }
        if self.0.len() == ECHO_COUNT_MAX {
            self.0.pop_front();
        }
        self.0.push_back((ticks, time));
    }

    /// Takes out the one that is repeated, and all before it; `None` where it was repeated before.
    pub(super) fn take(&mut self, ticks: u32) -> Option<Timestamp> {
        while let Some(&(first, time)) = self.0.front() {
            if is_later(first, ticks) {
                return None;
            }
            self.0.pop_front();
            if first == ticks {
                return Some(time);
            }
        }
        None
    }
}

/// Ticks wrap around.
const fn is_later(ticks: u32, than: u32) -> bool {
    ticks.wrapping_sub(than).cast_signed() > 0
}
