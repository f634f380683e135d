//! The PI controller of PI2: one probability for both queues.

use crate::settings::Settings;

/// Probability 1, in units of 2⁻³².
pub(crate) const CERTAIN: u32 = u32::MAX;

/// The controller: `p' ← p' + α (q − target) + β (q − q_last)`, once every `tupdate`, with q
/// the longer of the queues' delays (RFC 9332, appendix A.1).
///
/// In integers, so that it is the same on every machine: gains in 2⁻³² a nanosecond, shifted by
/// [`GAIN_BITS`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pi2 {
    /// The base probability p', in units of 2⁻³².
    probability: u32,
    probability_max: u32,
    last_delay_ns: u64,
    target_ns: u64,
    alpha: i128,
    beta: i128,
    tupdate_ns: u64,
    next_ns: u64,
}

/// Bits below the point of a gain: 3.2 Hz is 2⁻³² × 13.7 a nanosecond, so that gains are
/// rounded by less than 1e-8 of themselves.
const GAIN_BITS: u32 = 32;

impl Pi2 {
    /// Begins at `start_ns`, with the first update one period after it.
    pub(crate) fn new(settings: &Settings, start_ns: u64) -> Self {
        let is_capped = !settings.drop_overload && settings.coupling > 0;
        let divisor = if is_capped { settings.coupling } else { 1 };
        Self {
            probability: 0,
            probability_max: CERTAIN / divisor,
            last_delay_ns: 0,
            target_ns: settings.target_ns,
            alpha: gain(settings.alpha_hz),
            beta: gain(settings.beta_hz),
            tupdate_ns: settings.tupdate_ns,
            next_ns: start_ns.saturating_add(settings.tupdate_ns),
        }
    }

    /// p', in units of 2⁻³².
    pub(crate) const fn probability(&self) -> u32 {
        self.probability
    }

    /// Makes up for the updates that were due until `now_ns`, with the delay that the queues had
    /// at each instant. Nothing has entered or left since, so that it is as if a timer had
    /// rung.
    pub(crate) fn catch_up(&mut self, now_ns: u64, delay_at: impl Fn(u64) -> u64) {
        while self.next_ns <= now_ns {
            self.update(delay_at(self.next_ns));
            if self.is_at_rest() {
                // An empty queue stays empty: the rest of the periods change nothing.
                let periods = (now_ns - self.next_ns) / self.tupdate_ns;
                self.next_ns = self.next_ns.saturating_add(periods.saturating_mul(self.tupdate_ns));
            }
            let Some(next_ns) = self.next_ns.checked_add(self.tupdate_ns) else { return };
            self.next_ns = next_ns;
        }
    }

    /// Whether an update with an empty queue changes nothing, and the last one was with one.
    const fn is_at_rest(&self) -> bool {
        self.probability == 0 && self.last_delay_ns == 0
    }

    fn update(&mut self, delay_ns: u64) {
        let difference = |from: u64| i128::from(delay_ns) - i128::from(from);
        let delta =
            difference(self.target_ns) * self.alpha + difference(self.last_delay_ns) * self.beta;
        let probability = i128::from(self.probability) + (delta >> GAIN_BITS);
        let bounded = probability.clamp(0, i128::from(self.probability_max));
        self.probability = u32::try_from(bounded).unwrap_or(self.probability_max);
        self.last_delay_ns = delay_ns;
    }
}

/// A gain in Hz as 2⁻³² a nanosecond.
#[allow(clippy::cast_possible_truncation)]
fn gain(hz: f64) -> i128 {
    let scaled = hz * f64::from(CERTAIN) / 1e9 * (1_u64 << GAIN_BITS) as f64;
    // Checked to be at most 1,000 Hz: far below 2⁶³.
    i128::from(scaled.round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    /// The equation of the RFC, in floating point and seconds.
    fn by_the_rfc(settings: &Settings, delays_ns: &[u64]) -> f64 {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let mut last = 0.0;
        delays_ns.iter().fold(0.0_f64, |p, &delay_ns| {
            let delay = seconds(delay_ns);
            let delta = settings.alpha_hz * (delay - seconds(settings.target_ns))
                + settings.beta_hz * (delay - last);
            last = delay;
            (p + delta).clamp(0.0, 1.0)
        })
    }

    proptest! {
        #[test]
        fn the_probability_is_that_of_the_rfc(
            delays_ns in prop::collection::vec(0..400 * MS, 1..200),
            alpha_hz in 0.01..2.0_f64, beta_hz in 0.1..20.0_f64,
        ) {
            let settings = Settings { alpha_hz, beta_hz, ..Settings::default() };
            let mut pi2 = Pi2::new(&settings, 0);
            for (period, &delay_ns) in delays_ns.iter().enumerate() {
                pi2.catch_up((period as u64 + 1) * settings.tupdate_ns, |_| delay_ns);
            }
            let ours = f64::from(pi2.probability()) / f64::from(CERTAIN);
            let wanted = by_the_rfc(&settings, &delays_ns);
            prop_assert!((ours - wanted).abs() < 1e-6, "{} for {}", ours, wanted);
        }

        #[test]
        fn late_updates_are_those_of_a_timer(
            arrived_ns in 0..3 * MS, silent_ns in 1..20_000 * MS,
        ) {
            let settings = Settings::default();
            let (mut timed, mut late) = (Pi2::new(&settings, 0), Pi2::new(&settings, 0));
            let delay_at = |now_ns: u64| now_ns - arrived_ns;
            for now_ns in (0..=silent_ns).step_by(MS as usize) {
                timed.catch_up(now_ns, delay_at);
            }
            timed.catch_up(silent_ns, delay_at);
            late.catch_up(silent_ns, delay_at);
            prop_assert_eq!(timed.probability(), late.probability());
            prop_assert_eq!(timed.next_ns, late.next_ns);
        }
    }

    #[test]
    fn a_silence_of_years_ends_at_once_and_in_step() {
        let settings = Settings::default();
        let mut pi2 = Pi2::new(&settings, 0);
        pi2.catch_up(u64::MAX - 1, |_| 0);
        assert_eq!((pi2.probability(), pi2.last_delay_ns), (0, 0));
        assert_eq!(pi2.next_ns % settings.tupdate_ns, 0);
    }
}
