//! DCTCP (RFC 8257) and what Prague changes of it.

use super::{AckSample, WINDOW_FIRST, WINDOW_LEAST};

/// The gain of the moving average of the share of marks, g of RFC 8257.
const GAIN: f64 = 1.0 / 16.0;
/// Below this round trip Prague grows more slowly, so that short paths do not starve long ones.
const RTT_REFERENCE_NS: f64 = 25e6;

#[derive(Clone, Debug)]
pub(crate) struct Scalable {
    is_prague: bool,
    segment_bits: f64,
    rtt_ns: Option<u64>,
    window: f64,
    threshold: f64,
    /// Average share of marked segments, alpha.
    share: f64,
    segments_in_round: u32,
    marked_in_round: u32,
    /// The window was reduced in this round, and is not again.
    is_reduced: bool,
}

impl Scalable {
    pub(super) const fn prague(segment_bits: f64) -> Self {
        Self { is_prague: true, ..Self::dctcp(segment_bits) }
    }

    pub(super) const fn dctcp(segment_bits: f64) -> Self {
        Self {
            is_prague: false,
            segment_bits,
            rtt_ns: None,
            window: WINDOW_FIRST,
            threshold: f64::INFINITY,
            // As if all had been marked: the first mark halves the window, as a loss would.
            share: 1.0,
            segments_in_round: 0,
            marked_in_round: 0,
            is_reduced: false,
        }
    }

    pub(super) const fn window(&self) -> f64 {
        self.window
    }

    /// Prague spreads a window over a round trip, in slow start over half of one.
    pub(super) fn pacing_bps(&self) -> Option<f64> {
        let rtt_s = self.rtt_ns.filter(|_| self.is_prague)? as f64 / 1e9;
        let gain = if self.window < self.threshold { 2.0 } else { 1.0 };
        Some(gain * self.window * self.segment_bits / rtt_s.max(1e-9))
    }

    pub(super) fn acknowledge(&mut self, acked: &AckSample) {
        self.rtt_ns = Some(acked.rtt_smooth_ns);
        self.segments_in_round += acked.segments;
        self.marked_in_round += acked.marked;
        if acked.ends_round {
            self.end_round();
        }
        if acked.marked > 0 && !self.is_reduced {
            self.is_reduced = true;
            self.window = (self.window * (1.0 - self.share / 2.0)).max(WINDOW_LEAST);
            self.threshold = self.window;
        }
        if !acked.is_recovering && acked.is_limited {
            self.grow(acked);
        }
    }

    fn end_round(&mut self) {
        if self.segments_in_round > 0 {
            let share = f64::from(self.marked_in_round) / f64::from(self.segments_in_round);
            self.share += GAIN * (share - self.share);
        }
        (self.segments_in_round, self.marked_in_round, self.is_reduced) = (0, 0, false);
    }

    fn grow(&mut self, acked: &AckSample) {
        let unmarked = f64::from(acked.segments - acked.marked.min(acked.segments));
        if self.window < self.threshold {
            self.window += unmarked;
        } else if self.is_prague {
            let rtt = (acked.rtt_ns as f64 / RTT_REFERENCE_NS).min(1.0);
            self.window += unmarked / self.window * rtt * rtt;
        } else if !self.is_reduced {
            self.window += f64::from(acked.segments) / self.window;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn acked(marked: u32, ends_round: bool) -> AckSample {
        AckSample {
            now_ns: 0,
            segments: 1,
            marked,
            rtt_ns: 40_000_000,
            rtt_smooth_ns: 40_000_000,
            rtt_min_ns: 40_000_000,
            in_flight: 10,
            is_limited: true,
            is_recovering: false,
            ends_round,
            rate: 0.0,
            is_app_limited: false,
        }
    }

    #[test]
    fn the_window_falls_by_half_of_the_share_of_marks_once_a_round() {
        let mut control = Scalable::dctcp(12_000.0);
        control.window = 100.0;
        control.acknowledge(&acked(1, false));
        control.acknowledge(&acked(1, false));
        assert!((control.window - 50.0).abs() < 1e-9, "alpha is 1 at first: {}", control.window);
        control.acknowledge(&acked(0, true));
        // Two of three were marked in this round.
        let share = 1.0 + (2.0 / 3.0 - 1.0) / 16.0;
        assert!((control.share - share).abs() < 1e-9, "{}", control.share);
        let before = control.window;
        control.acknowledge(&acked(1, false));
        assert!((control.window - before * (1.0 - share / 2.0)).abs() < 1e-9);
    }

    #[test]
    fn prague_grows_less_on_a_short_path_and_dctcp_does_not() {
        let grown = |mut control: Scalable, rtt_ns: u64| {
            (control.window, control.threshold) = (10.0, 5.0);
            control.acknowledge(&AckSample { rtt_ns, ..acked(0, false) });
            control.window - 10.0
        };
        assert!((grown(Scalable::prague(12_000.0), 40_000_000) - 0.1).abs() < 1e-9);
        assert!((grown(Scalable::prague(12_000.0), 5_000_000) - 0.1 / 25.0).abs() < 1e-9);
        assert!((grown(Scalable::dctcp(12_000.0), 5_000_000) - 0.1).abs() < 1e-9);
    }
}
