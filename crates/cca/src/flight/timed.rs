//! Packets whose acknowledgement is waited for.

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
