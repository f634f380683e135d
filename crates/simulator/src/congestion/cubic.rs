//! CUBIC (RFC 9438), with HyStart's two ways out of slow start.

use super::{AckSample, WINDOW_FIRST, WINDOW_LEAST};

/// Segments a cubic second, C.
const SCALE: f64 = 0.4;
/// What remains of the window at a loss.
const BETA: f64 = 0.7;

#[derive(Clone, Debug)]
pub(crate) struct Cubic {
    window: f64,
    threshold: f64,
    /// The window before the last reduction, W_max.
    window_max: f64,
    /// What Reno would have by now, W_est.
    window_reno: f64,
    /// Beginning of the present growth, and seconds until it is back at W_max.
    epoch: Option<(u64, f64)>,
    start: HyStart,
}

impl Cubic {
    pub(super) const fn new() -> Self {
        Self {
            window: WINDOW_FIRST,
            threshold: f64::INFINITY,
            window_max: 0.0,
            window_reno: 0.0,
            epoch: None,
            start: HyStart::new(),
        }
    }

    pub(super) const fn window(&self) -> f64 {
        self.window
    }

    pub(super) fn acknowledge(&mut self, acked: &AckSample) {
        if acked.is_recovering || !acked.is_limited {
            return;
        }
        if self.window < self.threshold {
            self.window += f64::from(acked.segments);
            if self.start.is_over(acked, self.window) {
                self.threshold = self.window;
            }
        } else {
            self.grow(acked);
        }
    }

    fn grow(&mut self, acked: &AckSample) {
        let (since_ns, until_max) = *self.epoch.get_or_insert_with(|| {
            self.window_reno = self.window;
            self.window_max = self.window_max.max(self.window);
            (acked.now_ns, ((self.window_max - self.window) / SCALE).cbrt())
        });
        let segments = f64::from(acked.segments);
        // Where the window will be a round trip from now.
        let ahead_ns = acked.now_ns - since_ns + acked.rtt_min_ns;
        let seconds = ahead_ns as f64 / 1e9 - until_max;
        let target =
            (self.window_max + SCALE * seconds.powi(3)).clamp(self.window, self.window * 1.5);
        self.window += segments * (target - self.window) / self.window;
        let reno = 3.0 * (1.0 - BETA) / (1.0 + BETA);
        let gain = if self.window_reno < self.window_max { reno } else { 1.0 };
        self.window_reno += gain * segments / self.window_reno;
        self.window = self.window.max(self.window_reno);
    }

    fn reduce(&mut self) {
        // Fast convergence: one that had to give up more than before leaves room for others.
        let is_less = self.window < self.window_max;
        self.window_max = if is_less { self.window * (1.0 + BETA) / 2.0 } else { self.window };
        self.threshold = (self.window * BETA).max(WINDOW_LEAST);
        self.epoch = None;
    }

    pub(super) fn lose(&mut self) {
        self.reduce();
        self.window = self.threshold;
    }

    pub(super) fn time_out(&mut self) {
        self.reduce();
        self.window = 1.0;
    }
}

/// Ends slow start before it loses packets: when the round trips of a round have grown by an
/// eighth, or when its acknowledgements come as one train of half a round trip.
#[derive(Clone, Debug)]
struct HyStart {
    round_ns: u64,
    last_ns: u64,
    rtt_min_ns: u64,
    samples: u32,
}

impl HyStart {
    /// Windows that are worth looking at, in segments.
    const WINDOW_LEAST: f64 = 16.0;
    const SAMPLES: u32 = 8;
    const TRAIN_GAP_NS: u64 = 2_000_000;

    const fn new() -> Self {
        Self { round_ns: 0, last_ns: 0, rtt_min_ns: u64::MAX, samples: 0 }
    }

    fn is_over(&mut self, acked: &AckSample, window: f64) -> bool {
        if acked.ends_round || self.round_ns == 0 {
            (self.round_ns, self.last_ns) = (acked.now_ns, acked.now_ns);
            (self.rtt_min_ns, self.samples) = (u64::MAX, 0);
        }
        if window < Self::WINDOW_LEAST {
            return false;
        }
        if acked.now_ns - self.last_ns <= Self::TRAIN_GAP_NS {
            self.last_ns = acked.now_ns;
            if acked.now_ns - self.round_ns > acked.rtt_min_ns / 2 {
                return true;
            }
        }
        if self.samples < Self::SAMPLES {
            self.samples += 1;
            self.rtt_min_ns = self.rtt_min_ns.min(acked.rtt_ns);
        }
        let allowed_ns = (acked.rtt_min_ns / 8).clamp(4_000_000, 16_000_000);
        self.samples == Self::SAMPLES && self.rtt_min_ns > acked.rtt_min_ns + allowed_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_back_at_its_maximum_when_the_cubic_root_says() {
        let mut control = Cubic::new();
        (control.window, control.threshold) = (1_000.0, 1.0);
        control.lose();
        assert!((control.window - 700.0).abs() < 1e-9);
        // K = cbrt(300 / 0.4) = 9.09 s; one acknowledgement a millisecond of a tenth of it.
        let rtt_ns = 100_000_000;
        let mut at_k = 0.0;
        for now_ms in 0..9_200_u64 {
            for _ in 0..10 {
                control.acknowledge(&AckSample {
                    now_ns: now_ms * 1_000_000,
                    segments: 1,
                    marked: 0,
                    rtt_ns,
                    rtt_smooth_ns: rtt_ns,
                    rtt_min_ns: rtt_ns,
                    in_flight: 700,
                    is_limited: true,
                    is_recovering: false,
                    ends_round: false,
                    rate: 0.0,
                    is_app_limited: false,
                });
            }
            if now_ms == 9_086 {
                at_k = control.window;
            }
        }
        assert!((at_k - 1_000.0).abs() < 10.0, "{at_k}");
    }
}
