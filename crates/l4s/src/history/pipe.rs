//! What is in flight in a queue, and how fast it is delivered.

use std::collections::VecDeque;

/// The fastest rate is that of the last second.
const FASTEST_SPAN_NS: u64 = 1_000_000_000;
/// Rates that are kept at most; each is lower and newer than the one before.
const RATES_MAX: usize = 256;

/// What had been delivered when a packet left.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Start {
    delivered: u64,
    at_ns: u64,
}

/// Bytes in flight and delivered, of one queue. By Little's law a packet takes as long as the
/// bytes in flight take at the rate of delivery, whichever other flows fill the queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Pipe {
    packets: u32,
    bytes: u64,
    delivered: u64,
    delivered_ns: u64,
    newest_bps: Option<f64>,
    /// When, and how fast.
    rates: VecDeque<(u64, f64)>,
}

impl Pipe {
    /// Packets in flight.
    pub(super) const fn packets(&self) -> u32 {
        self.packets
    }

    pub(super) fn leave(&mut self, at_ns: u64, size: u32) -> Start {
        if self.packets == 0 {
            // A pause of the sender is no time of delivery.
            self.delivered_ns = at_ns;
        }
        self.packets += 1;
        self.bytes += u64::from(size);
        Start { delivered: self.delivered, at_ns: self.delivered_ns }
    }

    /// A packet is no longer in flight, whether or not it arrived.
    pub(super) const fn no_longer(&mut self, size: u32) {
        self.packets = self.packets.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(size as u64);
    }

    /// A packet was acknowledged: a sample of the rate, over what was delivered while it was in
    /// flight.
    pub(super) fn deliver(&mut self, at_ns: u64, size: u32, start: Start) {
        self.delivered += u64::from(size);
        self.delivered_ns = at_ns;
        let (bytes, took_ns) =
            (self.delivered - start.delivered, at_ns.saturating_sub(start.at_ns));
        if took_ns == 0 {
            return;
        }
        let bps = bytes as f64 * 8e9 / took_ns as f64;
        self.newest_bps = Some(bps);
        while self.rates.back().is_some_and(|&(_, slower)| slower <= bps) {
            self.rates.pop_back();
        }
        if self.rates.len() >= RATES_MAX {
            self.rates.pop_back();
        }
        self.rates.push_back((at_ns, bps));
        let oldest_ns = at_ns.saturating_sub(FASTEST_SPAN_NS);
        while self.rates.front().is_some_and(|&(then_ns, _)| then_ns < oldest_ns) {
            self.rates.pop_front();
        }
    }

    pub(super) const fn newest_bps(&self) -> Option<f64> {
        self.newest_bps
    }

    /// How long one more packet takes at the newest rate, in ns.
    pub(super) fn newest_ns(&self, size: u32) -> Option<u64> {
        self.at_rate(size, self.newest_bps?)
    }

    /// How long one more packet takes at the fastest rate of the last second.
    pub(super) fn fastest_ns(&self, size: u32) -> Option<u64> {
        self.at_rate(size, self.rates.front()?.1)
    }

    fn at_rate(&self, size: u32, bps: f64) -> Option<u64> {
        let bits = (self.bytes + u64::from(size)) as f64 * 8.0;
        Some((bits / bps * 1e9).min(60e9) as u64)
    }
}
