//! A rate limit as a token bucket.

use std::time::Duration;

use crate::settings::Rate;

/// Lets through as many as the rate says in a burst, and so many again in each period.
pub(crate) struct Bucket {
    rate: Rate,
    tokens: f64,
    at: Duration,
}

impl Bucket {
    pub(crate) fn new(rate: Rate, now: Duration) -> Self {
        Self { rate, tokens: rate.count.into(), at: now }
    }

    /// Whether one more may pass at this monotonic time.
    pub(crate) fn take(&mut self, now: Duration) -> bool {
        let most = f64::from(self.rate.count);
        let elapsed = now.saturating_sub(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.tokens = (self.tokens + elapsed * most / self.rate.period.as_secs_f64()).min(most);
        let may_pass = self.tokens >= 1.0;
        if may_pass {
            self.tokens -= 1.0;
        }
        may_pass
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let second = Duration::from_secs(1);
        let mut bucket = Bucket::new(Rate::parse("60/min").unwrap(), second);
        let passed = |bucket: &mut Bucket, now| (0..100).filter(|_| bucket.take(now)).count();
        assert_eq!(passed(&mut bucket, second), 60);
        assert_eq!(passed(&mut bucket, second * 6), 5);
        assert_eq!(passed(&mut bucket, second * 600), 60);
        assert_eq!(passed(&mut bucket, second), 0, "time does not go back");
    }
}
