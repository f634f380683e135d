//! How long a late packet is waited for (RFC 8985, sections 6.2 and 7), and what is undone when
//! one was taken for lost (RFC 3522).

use crate::congestion::Congestion;

/// What one sender has learnt of its path's order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reordering {
    /// A packet that was sent once has arrived behind a later one.
    was_seen: bool,
    /// Quarters of the shortest round trip that a late packet has, less one: one more for each
    /// round trip in which a packet arrived twice.
    extra: u32,
    /// The next round trip in which one more is added.
    grows_from: u64,
    /// When the newest of the packets that have arrived was sent, and its round trip.
    pub(crate) newest_sent_ns: u64,
    pub(crate) newest_rtt_ns: u64,
    /// The control as it was before it heard of the loss that is being repaired, and when.
    before: Option<(u64, Box<Congestion>)>,
}

impl Reordering {
    /// A packet has arrived: where in the order, and when it was sent.
    pub(crate) fn arrive(&mut self, is_behind: bool, sent_ns: u64, rtt_ns: u64) {
        self.was_seen |= is_behind;
        if sent_ns >= self.newest_sent_ns {
            (self.newest_sent_ns, self.newest_rtt_ns) = (sent_ns, rtt_ns);
        }
    }

    /// A packet has arrived that had before: the sender's patience was too short.
    pub(crate) fn arrive_twice(&mut self, first: u64, end: u64) {
        if first >= self.grows_from {
            self.extra = (self.extra + 1).min(255);
            self.grows_from = end;
        }
    }

    /// How much longer than a round trip a packet may take.
    pub(crate) fn patience_ns(
        &self,
        is_recovering: bool,
        arrived_above: bool,
        rtt_min_ns: u64,
        rtt_ns: u64,
    ) -> u64 {
        if !self.was_seen && (is_recovering || arrived_above) {
            return 0;
        }
        (rtt_min_ns / 4).saturating_mul(u64::from(self.extra) + 1).min(rtt_ns)
    }

    /// A loss is about to be answered.
    pub(crate) fn remember(&mut self, now_ns: u64, congestion: &Congestion) {
        self.before = Some((now_ns, Box::new(congestion.clone())));
    }

    /// What was taken for lost has arrived, by a packet sent at `sent_ns`. The control as it was,
    /// if that was before the loss was answered: nothing had been lost.
    pub(crate) fn undo(&mut self, sent_ns: u64) -> Option<Congestion> {
        let (since_ns, congestion) = self.before.take()?;
        (sent_ns < since_ns).then_some(*congestion)
    }
}
