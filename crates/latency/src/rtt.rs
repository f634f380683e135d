//! What is kept of the latencies of one direction.

use packet::Span;

use crate::budget::Budget;
use crate::histogram::Histogram;

/// What counts as a sharp change: both at least (the paper's rule; SwiftQueue §4.1).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SharpRule {
    /// By so much.
    pub least: Span,
    /// By such a share of the latency before.
    pub least_share: f64,
}

impl Default for SharpRule {
    fn default() -> Self {
        Self { least: Span::from_ns(20_000_000), least_share: 0.2 }
    }
}

impl SharpRule {
    /// −1 where latency fell sharply, 1 where it rose, 0 where neither.
    #[inline]
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn judge(&self, before_ns: u64, now_ns: u64) -> i8 {
        let change = before_ns.abs_diff(now_ns);
        let is_sharp = change >= self.least.as_ns().max(0).unsigned_abs()
            && change as f64 >= self.least_share * before_ns as f64;
        match is_sharp {
            false => 0,
            true if now_ns > before_ns => 1,
            true => -1,
        }
    }
}

/// Latencies in the order in which they become known, with their sharp changes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Series {
    last_ns: Option<u64>,
    last_prompt_ns: Option<u64>,
    /// Sharp changes from one packet to the next.
    pub sharp: u64,
    /// The same of packets whose acknowledgement was not held back.
    pub sharp_prompt: u64,
}

impl Series {
    /// Takes in a latency; whether it is a sharp change, among all and among prompt ones.
    #[inline]
    pub fn add(
        &mut self,
        latency_ns: u64,
        is_prompt: bool,
        rule: &SharpRule,
    ) -> (Option<i8>, Option<i8>) {
        let judge = |before: Option<u64>| before.map(|before| rule.judge(before, latency_ns));
        let of_all = judge(self.last_ns.replace(latency_ns));
        self.sharp += u64::from(of_all.is_some_and(|sharp| sharp != 0));
        if !is_prompt {
            return (of_all, None);
        }
        let of_prompt = judge(self.last_prompt_ns.replace(latency_ns));
        self.sharp_prompt += u64::from(of_prompt.is_some_and(|sharp| sharp != 0));
        (of_all, of_prompt)
    }
}

/// Round-trip times.
#[derive(Clone, Debug, Default)]
pub struct Rtt {
    /// How many there are.
    pub count: u64,
    /// The least.
    pub min_ns: u64,
    /// The largest.
    pub max_ns: u64,
    /// Interarrival jitter as RFC 3550 §6.4.1 estimates it, of round trips instead of transits.
    pub jitter_ns: f64,
    /// Those for which no bucket was left; they count in all but quantiles.
    pub unranked: u64,
    last_ns: u64,
    histogram: Histogram,
}

impl Rtt {
    /// Takes in a round trip.
    #[inline]
    #[allow(clippy::cast_precision_loss)]
    pub fn add(&mut self, rtt_ns: u64, buckets: &mut Budget) {
        if self.count == 0 {
            self.min_ns = rtt_ns;
        } else {
            let change = self.last_ns.abs_diff(rtt_ns) as f64;
            self.jitter_ns += (change - self.jitter_ns) / 16.0;
        }
        self.min_ns = self.min_ns.min(rtt_ns);
        self.max_ns = self.max_ns.max(rtt_ns);
        self.last_ns = rtt_ns;
        self.count += 1;
        self.unranked += u64::from(!self.histogram.add(rtt_ns, buckets));
    }

    /// The least, where there is any.
    #[inline]
    #[must_use]
    pub const fn min(&self) -> Option<u64> {
        if self.count == 0 { None } else { Some(self.min_ns) }
    }

    /// The largest, where there is any.
    #[must_use]
    pub const fn max(&self) -> Option<u64> {
        if self.count == 0 { None } else { Some(self.max_ns) }
    }

    /// Jitter, where there are two.
    #[must_use]
    pub fn jitter(&self) -> Option<u64> {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let jitter = self.jitter_ns.round() as u64;
        (self.count > 1).then_some(jitter)
    }

    /// What a share of them does not exceed, within 0.8 %.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let found = self.histogram.quantile(share)?;
        Some(found.clamp(self.min_ns, self.max_ns))
    }

    /// Buckets in use.
    #[must_use]
    pub const fn bucket_count(&self) -> usize {
        self.histogram.bucket_count()
    }

    /// Gives its buckets back.
    pub fn release(&mut self, buckets: &mut Budget) {
        self.histogram.release(buckets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_that_of_rfc_3550() {
        let (mut rtt, mut buckets) = (Rtt::default(), Budget::new(10_000));
        for rtt_ns in [10_000_000, 12_000_000, 11_000_000, 15_000_000] {
            rtt.add(rtt_ns, &mut buckets);
        }
        // J += (|D| - J) / 16, from 0: 0.125, 0.1796875, 0.418457… ms.
        let mut jitter = 0.0_f64;
        for change in [2e6, 1e6, 4e6] {
            jitter += (change - jitter) / 16.0;
        }
        assert_eq!(rtt.jitter(), Some(jitter.round() as u64));
        assert_eq!((rtt.min(), rtt.max(), rtt.count), (Some(10_000_000), Some(15_000_000), 4));
    }

    #[test]
    fn a_change_is_sharp_by_both_measures() {
        let rule = SharpRule::default();
        let ms = |ms: u64| ms * 1_000_000;
        assert_eq!(rule.judge(ms(40), ms(60)), 1);
        assert_eq!(rule.judge(ms(60), ms(40)), -1);
        // 19 ms; and 20 ms of 101.
        assert_eq!(rule.judge(ms(40), ms(59)), 0);
        assert_eq!(rule.judge(ms(101), ms(121)), 0);
        assert_eq!(rule.judge(ms(100), ms(120)), 1);
    }

    #[test]
    fn held_acknowledgements_are_left_out_of_one_of_both_counts() {
        let (mut series, rule) = (Series::default(), SharpRule::default());
        let ms = |ms: u64| ms * 1_000_000;
        assert_eq!(series.add(ms(10), true, &rule), (None, None));
        assert_eq!(series.add(ms(50), false, &rule), (Some(1), None));
        assert_eq!(series.add(ms(11), true, &rule), (Some(-1), Some(0)));
        assert_eq!((series.sharp, series.sharp_prompt), (2, 0));
    }
}
