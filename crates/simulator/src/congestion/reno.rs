//! Reno (RFC 5681): one segment a round trip, half at a loss.

use super::{AckSample, WINDOW_FIRST, WINDOW_LEAST};

#[derive(Clone, Debug)]
pub(crate) struct Reno {
    window: f64,
    threshold: f64,
}

impl Reno {
    pub(super) const fn new() -> Self {
        Self { window: WINDOW_FIRST, threshold: f64::INFINITY }
    }

    pub(super) const fn window(&self) -> f64 {
        self.window
    }

    pub(super) fn acknowledge(&mut self, acked: &AckSample) {
        if acked.is_recovering || !acked.is_limited {
            return;
        }
        let segments = f64::from(acked.segments);
        self.window += if self.window < self.threshold { segments } else { segments / self.window };
    }

    pub(super) fn lose(&mut self) {
        self.threshold = (self.window / 2.0).max(WINDOW_LEAST);
        self.window = self.threshold;
    }

    pub(super) fn time_out(&mut self) {
        self.threshold = (self.window / 2.0).max(WINDOW_LEAST);
        self.window = 1.0;
    }
}
