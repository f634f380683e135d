//! Congestion controls, as models of what kernels run. Windows are in segments.

mod bbr;
mod cubic;
mod reno;
mod scalable;

use std::str::FromStr;

use bbr::Bbr;
use cubic::Cubic;
use dualq::Ecn;
use reno::Reno;
use scalable::Scalable;

/// A congestion control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// After draft-briscoe-iccrg-prague-congestion-control: DCTCP's law, growth on every
    /// unmarked acknowledgement, less of it at round trips below 25 ms, and pacing.
    Prague,
    /// RFC 8257.
    Dctcp,
    /// RFC 9438.
    Cubic,
    /// RFC 5681.
    Reno,
    /// BBR, version 1.
    Bbr,
}

impl Kind {
    /// With which ECN field its packets leave.
    pub(crate) const fn ecn(self) -> Ecn {
        match self {
            Self::Prague | Self::Dctcp => Ecn::Ect1,
            Self::Cubic | Self::Reno | Self::Bbr => Ecn::NotEct,
        }
    }

    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prague => "prague",
            Self::Dctcp => "dctcp",
            Self::Cubic => "cubic",
            Self::Reno => "reno",
            Self::Bbr => "bbr",
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Prague, Self::Dctcp, Self::Cubic, Self::Reno, Self::Bbr];
        all.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            format!(
                "`{text}` is not a congestion control; wanted prague, dctcp, cubic, reno or bbr"
            )
        })
    }
}

/// Segments that may be sent before the first acknowledgement (RFC 6928).
const WINDOW_FIRST: f64 = 10.0;
/// Fewer are never in flight.
const WINDOW_LEAST: f64 = 2.0;

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckSample {
    pub(crate) now_ns: u64,
    /// Segments acknowledged for the first time.
    pub(crate) segments: u32,
    /// Of these, how many were marked CE.
    pub(crate) marked: u32,
    /// Round trip of the newest of them.
    pub(crate) rtt_ns: u64,
    /// Smoothed round trip, itself included.
    pub(crate) rtt_smooth_ns: u64,
    /// The shortest round trip so far.
    pub(crate) rtt_min_ns: u64,
    /// Segments in flight after it.
    pub(crate) in_flight: u32,
    /// Whether the window kept the sender from sending more.
    pub(crate) is_limited: bool,
    /// Whether lost segments are being repaired.
    pub(crate) is_recovering: bool,
    /// Whether a round trip has ended: what was sent after the last end is acknowledged.
    pub(crate) ends_round: bool,
    /// Segments a second that were delivered while the newest was in flight.
    pub(crate) rate: f64,
    /// Whether the application had too little to send for that rate to say much.
    pub(crate) is_app_limited: bool,
}

/// A control at work.
#[derive(Clone, Debug)]
pub(crate) enum Congestion {
    Scalable(Scalable),
    Cubic(Cubic),
    Reno(Reno),
    Bbr(Box<Bbr>),
}

impl Congestion {
    pub(crate) fn new(kind: Kind, segment_bits: f64) -> Self {
        match kind {
            Kind::Prague => Self::Scalable(Scalable::prague(segment_bits)),
            Kind::Dctcp => Self::Scalable(Scalable::dctcp(segment_bits)),
            Kind::Cubic => Self::Cubic(Cubic::new()),
            Kind::Reno => Self::Reno(Reno::new()),
            Kind::Bbr => Self::Bbr(Box::new(Bbr::new(segment_bits))),
        }
    }

    /// Segments that may be in flight.
    pub(crate) fn window(&self) -> f64 {
        match self {
            Self::Scalable(control) => control.window(),
            Self::Cubic(control) => control.window(),
            Self::Reno(control) => control.window(),
            Self::Bbr(control) => control.window(),
        }
    }

    /// Bits a second at which segments leave, where they are spread out.
    pub(crate) fn pacing_bps(&self) -> Option<f64> {
        match self {
            Self::Bbr(control) => control.pacing_bps(),
            Self::Scalable(control) => control.pacing_bps(),
            Self::Cubic(_) | Self::Reno(_) => None,
        }
    }

    pub(crate) fn acknowledge(&mut self, acked: &AckSample) {
        match self {
            Self::Scalable(control) => control.acknowledge(acked),
            Self::Cubic(control) => control.acknowledge(acked),
            Self::Reno(control) => control.acknowledge(acked),
            Self::Bbr(control) => control.acknowledge(acked),
        }
    }

    /// A segment was lost, the first of this recovery.
    pub(crate) fn lose(&mut self) {
        match self {
            Self::Scalable(control) => control.lose(),
            Self::Cubic(control) => control.lose(),
            Self::Reno(control) => control.lose(),
            Self::Bbr(control) => control.lose(),
        }
    }

    /// Nothing was acknowledged for a retransmission time-out.
    pub(crate) fn time_out(&mut self) {
        match self {
            Self::Scalable(control) => control.time_out(),
            Self::Cubic(control) => control.time_out(),
            Self::Reno(control) => control.time_out(),
            Self::Bbr(control) => control.time_out(),
        }
    }
}
