//! BBR, version 1 (Cardwell et al., ACM Queue 2016): a model of the path instead of losses.

use super::AckSample;

/// 2 / ln 2: doubles what is sent in each round trip.
const STARTUP_GAIN: f64 = 2.885;
/// Gains of the phases of a cycle: probes for more, drains what that queued, and cruises.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
const WINDOW_GAIN: f64 = 2.0;
const WINDOW_PROBE: f64 = 4.0;
/// Rounds over which the largest delivery rate counts.
const RATE_ROUNDS: usize = 10;
const RTT_VALID_NS: u64 = 10_000_000_000;
const PROBE_RTT_NS: u64 = 200_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Startup,
    Drain,
    ProbeBandwidth(usize),
    ProbeRtt,
}

#[derive(Clone, Debug)]
pub(crate) struct Bbr {
    phase: Phase,
    phase_since_ns: u64,
    segment_bits: f64,
    /// Largest delivery rate of each of the last rounds, in segments a second.
    rates: [f64; RATE_ROUNDS],
    rounds: usize,
    full_rate: f64,
    rounds_without_growth: u32,
    is_filled: bool,
    rtt_ns: u64,
    rtt_at_ns: u64,
    window: f64,
    is_timed_out: bool,
}

impl Bbr {
    pub(super) const fn new(segment_bits: f64) -> Self {
        Self {
            phase: Phase::Startup,
            phase_since_ns: 0,
            segment_bits,
            rates: [0.0; RATE_ROUNDS],
            rounds: 0,
            full_rate: 0.0,
            rounds_without_growth: 0,
            is_filled: false,
            rtt_ns: u64::MAX,
            rtt_at_ns: 0,
            window: super::WINDOW_FIRST,
            is_timed_out: false,
        }
    }

    fn rate(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    /// Segments that the path holds without a queue.
    fn path(&self) -> f64 {
        self.rate() * self.rtt_ns as f64 / 1e9
    }

    pub(super) fn window(&self) -> f64 {
        if self.is_timed_out { 1.0 } else { self.window }
    }

    pub(super) fn pacing_bps(&self) -> Option<f64> {
        let gain = match self.phase {
            Phase::Startup => STARTUP_GAIN,
            Phase::Drain => 1.0 / STARTUP_GAIN,
            Phase::ProbeBandwidth(phase) => CYCLE.get(phase).copied().unwrap_or(1.0),
            Phase::ProbeRtt => 1.0,
        };
        let rate = self.rate();
        (rate > 0.0).then_some(gain * rate * self.segment_bits)
    }

    pub(super) fn acknowledge(&mut self, acked: &AckSample) {
        self.is_timed_out = false;
        if acked.ends_round {
            self.rounds += 1;
            if let Some(rate) = self.rates.get_mut(self.rounds % RATE_ROUNDS) {
                *rate = 0.0;
            }
        }
        let largest = self.rate();
        if let Some(rate) = self.rates.get_mut(self.rounds % RATE_ROUNDS)
            && (!acked.is_app_limited || acked.rate > largest)
        {
            *rate = rate.max(acked.rate);
        }
        let is_old = acked.now_ns > self.rtt_at_ns + RTT_VALID_NS;
        if acked.rtt_ns <= self.rtt_ns || (is_old && self.phase != Phase::ProbeRtt) {
            (self.rtt_ns, self.rtt_at_ns) = (acked.rtt_ns, acked.now_ns);
        }
        self.move_on(acked, is_old);
        self.window = match self.phase {
            Phase::ProbeRtt => WINDOW_PROBE,
            Phase::Startup | Phase::Drain => (STARTUP_GAIN * self.path()).max(super::WINDOW_FIRST),
            Phase::ProbeBandwidth(_) => (WINDOW_GAIN * self.path()).max(WINDOW_PROBE),
        };
    }

    fn move_on(&mut self, acked: &AckSample, is_rtt_old: bool) {
        if acked.ends_round && !self.is_filled {
            self.look_for_the_top();
        }
        let in_phase_ns = acked.now_ns.saturating_sub(self.phase_since_ns);
        let in_flight = f64::from(acked.in_flight);
        let next = match self.phase {
            Phase::Startup if self.is_filled => Some(Phase::Drain),
            Phase::Drain if in_flight <= self.path() => Some(Phase::ProbeBandwidth(2)),
            Phase::ProbeBandwidth(phase) if self.is_phase_over(phase, in_phase_ns, in_flight) => {
                Some(Phase::ProbeBandwidth((phase + 1) % CYCLE.len()))
            }
            Phase::ProbeRtt if in_phase_ns > PROBE_RTT_NS => {
                self.rtt_at_ns = acked.now_ns;
                Some(if self.is_filled { Phase::ProbeBandwidth(2) } else { Phase::Startup })
            }
            phase if is_rtt_old && phase != Phase::ProbeRtt => Some(Phase::ProbeRtt),
            _ => None,
        };
        if let Some(phase) = next {
            (self.phase, self.phase_since_ns) = (phase, acked.now_ns);
        }
    }

    fn is_phase_over(&self, phase: usize, in_phase_ns: u64, in_flight: f64) -> bool {
        let is_round = in_phase_ns > self.rtt_ns;
        match phase {
            // Until what it asks for is in flight.
            0 => is_round && in_flight >= 1.25 * self.path() * 0.95,
            1 => is_round || in_flight <= self.path(),
            _ => is_round,
        }
    }

    /// The path is full when the rate has grown by less than a quarter in three rounds.
    fn look_for_the_top(&mut self) {
        let rate = self.rate();
        if rate >= self.full_rate * 1.25 {
            (self.full_rate, self.rounds_without_growth) = (rate, 0);
            return;
        }
        self.rounds_without_growth += 1;
        self.is_filled = self.rounds_without_growth >= 3;
    }

    /// Losses say nothing of the path to it.
    pub(super) const fn lose(&mut self) {}

    pub(super) const fn time_out(&mut self) {
        self.is_timed_out = true;
    }
}
