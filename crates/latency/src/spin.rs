//! The spin bit of QUIC (RFC 9000 §17.4): the server sends back what it received last, the client
//! its opposite, so that the bit changes once a round trip.
//!
//! A change that passes the tap one way is answered by a change the other way: between both lies
//! the round trip to that side. Where one direction alone is seen, changes in it lie a whole round
//! trip apart. Packets that were reordered make changes of their own; they are recognised by
//! how soon they come (RFC 9312 §4.2).

use packet::{FlowDirection, Timestamp};

use crate::outstanding::Waiting;
use crate::rtt::Rtt;

/// Changes that come sooner than the round trip before by this factor are not believed.
const SOONER: u64 = 10;
/// Packets before it is asked whether bits are random.
const PACKETS_JUDGED: u32 = 64;

/// What was seen of the spin bit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spin {
    last: [Option<bool>; 2],
    /// Changes that were not answered yet.
    edges: [Option<Waiting>; 2],
    packets: u32,
    changes: u32,
}

impl Spin {
    /// Takes in the bit of a packet: the change that this one answers, and which way that went.
    pub(crate) fn on_packet(
        &mut self,
        spin: bool,
        packet: Waiting,
        direction: FlowDirection,
    ) -> Option<(FlowDirection, Waiting)> {
        let (this, other) = (direction as usize, direction.opposite() as usize);
        self.packets = self.packets.saturating_add(1);
        let before = self.last[this].replace(spin);
        if before.is_none_or(|before| before == spin) {
            return None;
        }
        self.changes = self.changes.saturating_add(1);
        let last_here = self.edges[this].replace(packet);
        // What is drawn answers nothing.
        if self.is_random() {
            return None;
        }
        if self.last[other].is_none() {
            return Some((direction, last_here?));
        }
        Some((direction.opposite(), self.edges[other].take()?))
    }

    /// Whether a change comes too soon after another to answer it.
    pub(crate) fn is_reordered(rtt: &Rtt, from: Timestamp, to: Timestamp) -> bool {
        let took = u64::try_from(to.since(from).as_ns()).unwrap_or(0);
        rtt.min().is_some_and(|least| took.saturating_mul(SOONER) < least)
    }

    /// Whether bits change about every other packet, as those do that are drawn (RFC 9000 §17.4
    /// wants that of one connection in sixteen). A flow of a packet each round trip changes every
    /// time, one of many packets rarely.
    pub(crate) const fn is_random(&self) -> bool {
        let (packets, changes) = (self.packets as u64, self.changes as u64);
        self.packets >= PACKETS_JUDGED && changes * 10 > packets * 3 && changes * 10 < packets * 7
    }
}
