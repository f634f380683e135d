//! What a tap that misses packets has missed, as far as sequence numbers show it.

use packet::wire::tcp::SeqNumber;
use packet::{Span, TapSlot};

/// What the queue lost is retransmitted and fills its hole, mostly in less than this.
const FILLED_AFTER: Span = Span::from_ns(500_000_000);

/// What was lost before a flow is followed has been retransmitted by then.
const SETTLED_AFTER: Span = Span::from_seconds(1);

/// Of one way of a flow the bytes that sequence numbers went past and that no packet brought.
///
/// Packets that the queue lost leave holes that are filled when they are retransmitted; those that
/// the tap missed leave holes that stay. Holes count once they have been there for half a second or
/// more, from a second after the first packet on. What was missed is at least this: where what
/// arrived is retransmitted, it seems to fill.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SequenceGaps {
    high: Option<SeqNumber>,
    holes: u64,
    /// The fewest since `turned_ns`, and in the time before.
    fewest: [u64; 2],
    turned_ns: i64,
    /// When the first packet came.
    began_ns: Option<i64>,
    /// Of connections that are over.
    past: u64,
}

impl SequenceGaps {
    /// Takes in a slot of the tap.
    pub fn put(&mut self, slot: &TapSlot) {
        if slot.began() {
            *self = Self { past: self.bytes(), ..Self::default() };
        }
        let before = self.high.unwrap_or_else(|| slot.first());
        let went_on = u64::try_from(slot.high().since(before)).unwrap_or(0);
        let skipped = u64::from(slot.skipped_bytes);
        let again = slot.data_bytes.saturating_sub(went_on.saturating_sub(skipped));
        self.high = Some(slot.high());
        let began_ns = *self.began_ns.get_or_insert(slot.first_ns);
        if slot.first_ns.saturating_sub(began_ns) < SETTLED_AFTER.as_ns() {
            return;
        }
        self.holes = (self.holes + skipped).saturating_sub(again);
        if slot.first_ns.saturating_sub(self.turned_ns) >= FILLED_AFTER.as_ns() {
            self.fewest = [self.holes, self.fewest[0]];
            self.turned_ns = slot.first_ns;
        }
        self.fewest[0] = self.fewest[0].min(self.holes);
    }

    /// Bytes that were not seen, so far.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        let [now, before] = self.fewest;
        self.past + if now < before { now } else { before }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slots of 100 ms from packets of 1,000 bytes, by their number in the flow.
    fn unseen(slots: &[&[u32]]) -> u64 {
        let mut unseen = SequenceGaps::default();
        let mut high = None;
        for (at, packets) in slots.iter().enumerate() {
            let mut slot = TapSlot {
                slot: at as i64,
                first_ns: 1_700_000_000_000_000_000 + at as i64 * 100_000_000,
                first_seq: packets[0] * 1000,
                data_bytes: packets.len() as u64 * 1000,
                ..TapSlot::default()
            };
            for &packet in *packets {
                let reached = high.unwrap_or(packet);
                slot.skipped_bytes += packet.saturating_sub(reached) * 1000;
                high = Some(reached.max(packet + 1));
            }
            slot.high_seq = high.unwrap_or(0) * 1000;
            unseen.put(&slot);
        }
        unseen.bytes()
    }

    fn steady(from: u32, count: u32) -> Vec<[u32; 1]> {
        (from..from + count).map(|packet| [packet]).collect()
    }

    fn of(parts: &[&[[u32; 1]]]) -> u64 {
        let slots: Vec<&[u32]> =
            parts.iter().copied().flatten().map(<[u32; 1]>::as_slice).collect();
        unseen(&slots)
    }

    #[test]
    fn holes_that_stay_are_told() {
        assert_eq!(of(&[&steady(5, 60)]), 0);
        assert_eq!(of(&[&steady(5, 15), &steady(23, 40)]), 3000);
        // Not before it is clear that they do.
        assert_eq!(of(&[&steady(5, 15), &steady(23, 4)]), 0);
        // What was sent before the flow was followed is no hole.
        assert_eq!(of(&[&[[5]], &steady(40, 60)]), 0);
    }

    #[test]
    fn holes_that_are_filled_are_not() {
        let again = [[20], [21], [22]];
        assert_eq!(of(&[&steady(5, 15), &steady(23, 4), &again, &steady(27, 40)]), 0);
        assert_eq!(of(&[&steady(5, 15), &steady(23, 4), &again[1..], &steady(27, 40)]), 1000);
        // What is sent again for nothing is no debt.
        assert_eq!(of(&[&steady(5, 15), &again, &[[21], [22]], &steady(25, 40)]), 2000);
    }
}
