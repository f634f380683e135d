//! What is known of a host as client, or as server, over the last half a minute to a minute.

use std::sync::LazyLock;

use packet::{Span, Timestamp};

use super::columns;
use super::flow::FlowCounts;

/// Counts start again after this time; the previous ones are remembered for as long.
pub(super) const PERIOD: Span = Span::from_seconds(30);

/// Counts of this period and of the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HostState {
    start: Timestamp,
    now: Period,
    before: Period,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Period {
    pub(super) counts: FlowCounts,
    /// Flows that began with an answer.
    pub(super) unsolicited: u32,
    /// Flows to a peer, port and protocol that was not known before.
    pub(super) new_pairs: u32,
    /// Hosts at the other end, and ports of servers.
    peers: Distinct,
    ports: Distinct,
}

impl HostState {
    /// The period that a time belongs to, after everything older was forgotten.
    pub(super) fn at(&mut self, time: Timestamp) -> &mut Period {
        let start = time.window_start(PERIOD);
        if start != self.start {
            let is_next = self.start.plus(PERIOD) == start;
            self.before = if is_next { self.now } else { Period::default() };
            self.now = Period::default();
            self.start = start;
        }
        &mut self.now
    }

    /// The period in which a flow began, while it is remembered.
    pub(super) fn of_begin(&mut self, begin: Timestamp) -> Option<&mut Period> {
        let start = begin.window_start(PERIOD);
        if start == self.start {
            Some(&mut self.now)
        } else {
            (start.plus(PERIOD) == self.start).then_some(&mut self.before)
        }
    }

    pub(super) fn sum(&self, of: impl Fn(&Period) -> u32 + Copy) -> u32 {
        of(&self.now).saturating_add(of(&self.before))
    }

    /// Of the flows those that are counted so.
    pub(super) fn fraction(&self, of: impl Fn(&Period) -> u32 + Copy) -> f32 {
        columns::fraction(self.sum(of), self.sum(|of| of.counts.flows))
    }

    pub(super) fn peers(&self) -> f32 {
        self.now.peers.with(self.before.peers).estimate()
    }

    pub(super) fn ports(&self) -> f32 {
        self.now.ports.with(self.before.ports).estimate()
    }
}

impl Period {
    pub(super) fn begin(&mut self, peer: u64, port: u64, is_unsolicited: bool, is_new_pair: bool) {
        self.counts.begin();
        self.unsolicited = self.unsolicited.saturating_add(is_unsolicited.into());
        self.new_pairs = self.new_pairs.saturating_add(is_new_pair.into());
        self.peers.add(peer);
        self.ports.add(port);
    }
}

/// How many different hashes came, by linear counting (Whang, Vander-Zanden and Taylor 1990) in 128
/// bits: exact to some percent up to a hundred, and 621 at most.
#[derive(Clone, Copy, Debug, Default)]
struct Distinct(u128);

impl Distinct {
    const fn add(&mut self, hash: u64) {
        // The upper bits choose no place of a table.
        self.0 |= 1 << (hash >> 57);
    }

    const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn estimate(self) -> f32 {
        ESTIMATES[self.0.count_zeros() as usize]
    }
}

/// By the bits that are free; logarithms for each packet would take as long as all other columns.
static ESTIMATES: LazyLock<[f32; u128::BITS as usize + 1]> = LazyLock::new(|| {
    const BITS: f32 = u128::BITS as f32;
    std::array::from_fn(|free| match free {
        0 => BITS * BITS.ln(),
        free => -BITS * (free as f32 / BITS).ln(),
    })
});

#[cfg(test)]
mod tests {
    use packet::HashSeed;

    use super::*;

    #[test]
    fn distinct_hashes_are_counted_to_some_percent() {
        let seed = HashSeed::new(3);
        for count in [0_u64, 1, 5, 20, 60, 120] {
            let mut sum = 0.0;
            for round in 0..50_u64 {
                let mut distinct = Distinct::default();
                for number in (0..count).chain(0..count) {
                    distinct.add(seed.hash_words(number, round));
                }
                sum += distinct.estimate() / 50.0;
            }
            let count = count as f32;
            assert!((sum - count).abs() <= 0.03 * count, "{count}: {sum}");
        }
        let mut all = Distinct::default();
        (0..100_000).for_each(|number| all.add(seed.hash_word(number)));
        assert!((all.estimate() - 621.0).abs() < 0.2, "{}", all.estimate());
    }

    #[test]
    fn periods_are_forgotten_one_after_the_other() {
        let at = |seconds: i64| Timestamp::from_ns(seconds * 1_000_000_000);
        let mut host = HostState::default();
        host.at(at(31)).begin(1 << 60, 0, false, true);
        host.at(at(61)).begin(2 << 60, 0, true, false);
        assert_eq!((host.sum(|of| of.counts.flows), host.sum(|of| of.counts.unanswered)), (2, 2));
        host.of_begin(at(31)).unwrap().counts.unanswered -= 1;
        assert!(host.of_begin(at(29)).is_none());
        assert_eq!((host.sum(|of| of.counts.flows), host.sum(|of| of.counts.unanswered)), (2, 1));
        assert!((host.peers() - 2.0).abs() < 0.1);
        host.at(at(91));
        assert_eq!((host.sum(|of| of.counts.flows), host.sum(|of| of.unsolicited)), (1, 1));
        host.at(at(500));
        assert_eq!(host.sum(|of| of.counts.flows), 0);
    }
}
