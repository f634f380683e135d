//! What a router may be set to. Names and defaults are those of Linux' `dualpi2` where it has
//! them.

use std::fmt;

/// A kind of router: what its other settings begin with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// The coupled dual queue of RFC 9332.
    #[default]
    Dualpi2,
    /// A link divided between the queues: each has its share while both have packets, its own
    /// limit and its own AQM, and they are not coupled. L4S marks at 5 ms.
    Partitioned,
    /// One queue for all packets, which drops what it has no room for.
    TailDrop,
}

/// Which queue is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scheduler {
    /// By weights in bytes, the L4S queue first (Linux).
    #[default]
    Weighted,
    /// The packet that has waited longest, the L4S queue's with a lead of
    /// [`Settings::tshift_ns`] (RFC 9332, appendix A.1).
    TimeShiftedFifo,
}

/// How the L4S queue marks on its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Aqm {
    /// Packets that have waited longer than [`Settings::step_ns`] (Linux).
    #[default]
    Step,
    /// With a probability that grows with the wait between two thresholds (RFC 9332,
    /// appendix A.1).
    Ramp,
    /// Never.
    None,
}

/// Settings of a router. Made by [`Settings::of`] or read from text
/// (`mode=partitioned,l4s-share=20`); times are nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// What the other settings began with.
    pub mode: Mode,
    /// Packets that the queues hold, together.
    pub limit: u32,
    /// Packets that the L4S queue holds; as many as both where `None`.
    pub limit_l4s: Option<u32>,
    /// The queueing delay that the PI controller aims at.
    pub target_ns: u64,
    /// How often it computes its probability.
    pub tupdate_ns: u64,
    /// Its integral gain, in Hz.
    pub alpha_hz: f64,
    /// Its proportional gain, in Hz.
    pub beta_hz: f64,
    /// The coupling factor k: L4S is marked k times as often as the square root of the
    /// classic probability; 0 leaves the queues uncoupled.
    pub coupling: u32,
    /// How the L4S queue marks on its own.
    pub l4s_aqm: Aqm,
    /// The step's threshold.
    pub step_ns: u64,
    /// Where the ramp begins, at probability 0.
    pub ramp_from_ns: u64,
    /// Where the ramp ends, at probability 1.
    pub ramp_to_ns: u64,
    /// The L4S queue does not mark on its own packets that arrived at a shorter queue than
    /// this, in packets.
    pub min_qlen_step: u32,
    /// Whether the PI controller acts on the classic queue.
    pub has_pi2: bool,
    /// Whether the controller drops and marks when packets arrive; else when they leave.
    pub drop_early: bool,
    /// Whether L4S packets are dropped, too, when the coupled probability exceeds 1; else they
    /// are marked, and only a full queue drops.
    pub drop_overload: bool,
    /// Which queue is served.
    pub scheduler: Scheduler,
    /// The weight of the classic queue in percent, the L4S queue's is what remains to 100.
    pub c_protection: u32,
    /// The lead of the L4S queue in a time-shifted FIFO.
    pub tshift_ns: u64,
    /// The longest packet of the link, in bytes: nothing is dropped or marked by the
    /// controller while fewer than two of them wait.
    pub mtu: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self::of(Mode::Dualpi2)
    }
}

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;

/// The L4S queue's share of a partitioned link, in percent.
const SHARE_DEFAULT: u32 = 20;

impl Settings {
    /// The defaults of a mode.
    #[must_use]
    pub fn of(mode: Mode) -> Self {
        let dualpi2 = Self {
            mode,
            limit: 10_000,
            limit_l4s: None,
            target_ns: 15 * MS,
            tupdate_ns: 16 * MS,
            alpha_hz: 0.16,
            beta_hz: 3.2,
            coupling: 2,
            l4s_aqm: Aqm::Step,
            step_ns: MS,
            ramp_from_ns: 800 * US,
            ramp_to_ns: 1_200 * US,
            min_qlen_step: 0,
            has_pi2: true,
            drop_early: false,
            drop_overload: true,
            scheduler: Scheduler::Weighted,
            c_protection: 10,
            tshift_ns: 50 * MS,
            mtu: 1_514,
        };
        match mode {
            Mode::Dualpi2 => dualpi2,
            Mode::Partitioned => Self {
                coupling: 0,
                step_ns: 5 * MS,
                c_protection: 100 - SHARE_DEFAULT,
                limit_l4s: Some(dualpi2.limit * SHARE_DEFAULT / 100),
                ..dualpi2
            },
            Mode::TailDrop => Self { coupling: 0, l4s_aqm: Aqm::None, has_pi2: false, ..dualpi2 },
        }
    }

    /// Checks that a router can be made of them.
    ///
    /// # Errors
    /// The first setting that cannot be, and what was wanted.
    pub fn check(&self) -> Result<(), SettingsError> {
        let wanted = |key, ok: bool, wanted| match ok {
            true => Ok(()),
            false => Err(SettingsError { key, wanted }),
        };
        let is_gain = |gain: f64| gain > 0.0 && gain <= GAIN_MAX_HZ;
        wanted("limit", (1..=LIMIT_MAX).contains(&self.limit), "from 1 to 1000000 packets")?;
        let of_l4s = self.limit_l4s.unwrap_or(1);
        wanted("limit-l4s", (1..=self.limit).contains(&of_l4s), "from 1 packet to limit")?;
        wanted("target", self.target_ns <= DELAY_MAX_NS, "at most 4s")?;
        let period = (100 * US..=DELAY_MAX_NS).contains(&self.tupdate_ns);
        wanted("tupdate", period, "from 100us to 4s")?;
        wanted("alpha", is_gain(self.alpha_hz), "more than 0 and at most 1000 (Hz)")?;
        wanted("beta", is_gain(self.beta_hz), "more than 0 and at most 1000 (Hz)")?;
        wanted("coupling", self.coupling <= 255, "from 0 to 255")?;
        let has_room = self.ramp_from_ns < self.ramp_to_ns;
        wanted("ramp-to", has_room, "more than ramp-from")?;
        wanted("c-protection", self.c_protection <= 100, "from 0 to 100 percent")?;
        wanted("mtu", (64..=65_535).contains(&self.mtu), "from 64 to 65535 bytes")
    }
}

/// More than any link of ours can fill; it bounds the memory.
const LIMIT_MAX: u32 = 1_000_000;
/// Delays that the controller can tell from each other.
const DELAY_MAX_NS: u64 = 4_000 * MS;
const GAIN_MAX_HZ: f64 = 1_000.0;

/// A setting that cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SettingsError {
    /// Which one, as it is written.
    pub key: &'static str,
    /// What was wanted.
    pub wanted: &'static str,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "`{}`: wanted {}", self.key, self.wanted)
    }
}

impl std::error::Error for SettingsError {}
