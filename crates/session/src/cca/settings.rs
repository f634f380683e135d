//! Settings of `cca`, of one tap or two, and which of them can be had together.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use cca::inputs::{Empty, ProgressRule, Throughput};
use cca::walk::WAIT_MAX;
use cca::{Model, Rules, Sampler, TapOptions};
use packet::{SlotClock, Span};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::FLOWS_MAX;
use crate::choice::choice;
use crate::written;

/// Flows that taps in the kernel follow at most.
pub const FOLLOWED_MAX: u32 = 65_536;

/// Flows that may be followed at the same time.
pub const FLOW_COUNTS: RangeInclusive<u32> = 1..=1 << 24;

#[cfg(all(target_os = "linux", feature = "tap"))]
const _: () = assert!(FOLLOWED_MAX == capture::tap::FLOW_COUNT_MAX);

/// Slots of a period at most where packets are not sampled, as each has a row.
const SAMPLED_SLOTS_MAX: i64 = 1 << 22;

/// The same packets of the same captures are left out each time.
const SAMPLER_SEED: u64 = 7;

choice! {
    /// Which bytes count as having passed a tap at the end of a slot.
    PassedRule: "rule of what has passed" {
        Highest = "highest", "All up to the highest byte seen";
        First = "first",
            "All before the first packet of the next slot: as in the paper; biased by \
             retransmissions";
    }
}

/// Settings of `cca`, of one tap or two.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct CcaSettings {
    /// The interface that receives what goes to the queue, where it is another than is listened on.
    pub ingress: Option<String>,
    /// Downstream of the queue: captures, or an interface; none where there is a single tap.
    #[serde(deserialize_with = "written::paths")]
    pub egress: Vec<PathBuf>,
    /// The model that identifies congestion controls.
    pub model: Option<PathBuf>,
    /// Reporting interval.
    #[serde(deserialize_with = "written::duration")]
    pub every: Span,
    /// Length of the slots into which packets are grouped.
    #[serde(deserialize_with = "written::duration")]
    pub slot: Span,
    /// Flows reported per interval, heaviest first; 0 for all.
    pub rows: usize,
    /// Which bytes count as having passed a tap at the end of a slot.
    #[serde(deserialize_with = "written::choice")]
    pub passed: PassedRule,
    /// The share of the packets with data that two taps read.
    #[serde(deserialize_with = "share")]
    pub sample: f64,
    /// Whether the kernel reports every packet instead of slots.
    pub each_packet: bool,
    /// Added to downstream timestamps; without it the smallest with which no packet leaves before
    /// it arrived.
    #[serde(deserialize_with = "written::offset_if_any")]
    pub egress_offset: Option<Span>,
    /// Flows that are followed at the same time.
    pub max_flows: Option<u32>,
}

impl Default for CcaSettings {
    fn default() -> Self {
        Self {
            ingress: None,
            egress: Vec::new(),
            model: None,
            every: Span::from_seconds(1),
            slot: Span::from_ns(1_000_000),
            rows: 10,
            passed: PassedRule::Highest,
            sample: 1.0,
            each_packet: false,
            egress_offset: None,
            max_flows: None,
        }
    }
}

/// Where packets come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taps {
    /// Interfaces, and no captures.
    pub are_live: bool,
    /// Upstream and downstream of a queue.
    pub are_two: bool,
}

/// What has an effect with some taps only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Setting {
    /// Acting on the queue.
    Act,
    /// A table painted over the one before.
    View,
    /// Ending after a time.
    Duration,
    /// [`CcaSettings::each_packet`]
    EachPacket,
    /// [`CcaSettings::sample`]
    Sample,
    /// [`PassedRule::First`]
    PassedFirst,
    /// [`CcaSettings::egress_offset`]
    EgressOffset,
    /// Leaving tunnels unopened.
    NoDecap,
    /// [`CcaSettings::ingress`]
    Ingress,
}

impl Setting {
    /// Its key.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Act => "act",
            Self::View => "view",
            Self::Duration => "duration",
            Self::EachPacket => "each-packet",
            Self::Sample => "sample",
            Self::PassedFirst => "passed",
            Self::EgressOffset => "egress-offset",
            Self::NoDecap => "no-decap",
            Self::Ingress => "ingress",
        }
    }
}

/// The taps that a setting has an effect with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TapScope {
    /// Interfaces.
    Live,
    /// Two.
    Two,
    /// Captures.
    Captures,
    /// All but two interfaces.
    OtherThanTwoLive,
}

impl TapScope {
    const fn are(self, taps: Taps) -> bool {
        match self {
            Self::Live => taps.are_live,
            Self::Two => taps.are_two,
            Self::Captures => !taps.are_live,
            Self::OtherThanTwoLive => !(taps.are_live && taps.are_two),
        }
    }

    const fn about(self) -> &'static str {
        match self {
            Self::Live => "interfaces",
            Self::Two => "taps upstream and downstream of a queue",
            Self::Captures => "captures",
            Self::OtherThanTwoLive => "captures, or a single tap",
        }
    }
}

/// In the order in which they are looked at.
const WANTED: [(Setting, TapScope); 14] = [
    (Setting::Act, TapScope::Live),
    (Setting::Act, TapScope::Two),
    (Setting::View, TapScope::Live),
    (Setting::View, TapScope::Two),
    (Setting::Duration, TapScope::Live),
    (Setting::EachPacket, TapScope::Live),
    (Setting::EachPacket, TapScope::Two),
    (Setting::Sample, TapScope::Two),
    (Setting::PassedFirst, TapScope::Two),
    (Setting::EgressOffset, TapScope::Captures),
    (Setting::EgressOffset, TapScope::Two),
    (Setting::NoDecap, TapScope::OtherThanTwoLive),
    (Setting::Ingress, TapScope::Live),
    (Setting::Ingress, TapScope::Two),
];

/// Why settings cannot be had.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum SettingsError {
    /// A period is no whole number of slots.
    NotWhole {
        /// The period.
        every: Span,
        /// The slot.
        slot: Span,
    },
    /// One would be ignored.
    WithoutEffect {
        /// Which.
        setting: Setting,
        /// What it has an effect with.
        wanted: TapScope,
    },
    /// Flows that are followed are those that are reported, and both were limited.
    FollowedTwice,
    /// More flows than taps in the kernel follow.
    Followed {
        /// So many.
        asked: u32,
    },
    /// None, or more flows than there may be.
    Flows,
    /// Too many slots in a period for packets that are not sampled.
    SampledSlots {
        /// So many.
        slots: i64,
        /// The most.
        max: i64,
    },
}

impl SettingsError {
    /// The key that is at fault.
    #[must_use]
    pub const fn key(&self) -> &'static str {
        match self {
            Self::NotWhole { .. } | Self::SampledSlots { .. } => "every",
            Self::WithoutEffect { setting, .. } => setting.key(),
            Self::FollowedTwice | Self::Followed { .. } | Self::Flows => "max-flows",
        }
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotWhole { every, slot } => {
                let (every, slot) = (every.as_seconds_f64(), slot.as_seconds_f64());
                write!(f, "{every}s is not a whole number of slots of {slot}s; wanted a multiple")
            }
            Self::WithoutEffect { wanted, .. } => {
                write!(f, "has no effect here; wanted {}, or leave it out", wanted.about())
            }
            Self::FollowedTwice => f.write_str(
                "with two interfaces `rows` sets how many flows are tracked; leave it out, or set \
                 rows to 0",
            ),
            Self::Followed { asked } => {
                write!(f, "{asked}; live taps track at most {FOLLOWED_MAX} flows")
            }
            Self::Flows => {
                write!(f, "wanted {} to {}", FLOW_COUNTS.start(), FLOW_COUNTS.end())
            }
            Self::SampledSlots { slots, max } => write!(
                f,
                "{slots} slots in a period; with sampled packets wanted {max} at most: give a \
                 longer slot, or a shorter period"
            ),
        }
    }
}

impl std::error::Error for SettingsError {}

impl CcaSettings {
    /// Where packets come from, if not from captures then from interfaces.
    #[must_use]
    pub const fn taps(&self, are_live: bool) -> Taps {
        Taps { are_live, are_two: !self.egress.is_empty() }
    }

    /// How time is cut: a period is a whole number of slots.
    ///
    /// # Errors
    /// [`SettingsError::NotWhole`]
    pub fn clock(&self) -> Result<SlotClock, SettingsError> {
        let Self { every, slot, .. } = *self;
        let clock = SlotClock::new(slot);
        if clock.count(every) < 1 || every.as_ns() % slot.as_ns() != 0 {
            return Err(SettingsError::NotWhole { every, slot });
        }
        Ok(clock)
    }

    /// Refuses what would be ignored or cut; `given` is what was asked for beside these settings.
    ///
    /// # Errors
    /// [`SettingsError`]
    pub fn check(&self, taps: Taps, given: &[Setting]) -> Result<(), SettingsError> {
        let ignored = WANTED.into_iter().find(|&(setting, wanted)| {
            !wanted.are(taps) && (self.gives(setting) || given.contains(&setting))
        });
        if let Some((setting, wanted)) = ignored {
            return Err(SettingsError::WithoutEffect { setting, wanted });
        }
        if self.max_flows.is_some_and(|flows| !FLOW_COUNTS.contains(&flows)) {
            return Err(SettingsError::Flows);
        }
        match self.max_flows.filter(|_| taps.are_live && taps.are_two) {
            Some(_) if self.rows != 0 => return Err(SettingsError::FollowedTwice),
            Some(asked) if asked > FOLLOWED_MAX => return Err(SettingsError::Followed { asked }),
            _ => {}
        }
        let (slots, max) = (self.every.as_ns() / self.slot.as_ns().max(1), SAMPLED_SLOTS_MAX);
        if self.is_sampled() && slots > max {
            return Err(SettingsError::SampledSlots { slots, max });
        }
        Ok(())
    }

    fn gives(&self, setting: Setting) -> bool {
        match setting {
            Setting::EachPacket => self.each_packet,
            Setting::Sample => self.is_sampled(),
            Setting::PassedFirst => self.passed == PassedRule::First,
            Setting::EgressOffset => self.egress_offset.is_some(),
            Setting::Ingress => self.ingress.is_some(),
            Setting::Act | Setting::View | Setting::Duration | Setting::NoDecap => false,
        }
    }

    /// Whether packets are not sampled.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.sample < 1.0
    }

    /// How what passed is read from slots.
    #[must_use]
    pub fn rules(&self) -> Rules {
        let passed = match self.passed {
            PassedRule::Highest => ProgressRule::Highest,
            PassedRule::First => ProgressRule::First,
        };
        let rules = Rules { passed, empty: Empty::Next, throughput: Throughput::Counted };
        if self.is_sampled() { rules.of_sampled() } else { rules }
    }

    /// What a tap keeps.
    #[must_use]
    pub fn tap_options(&self, clock: SlotClock, model: Option<&Model>) -> TapOptions {
        let looked_at = model.map(Model::looked_at).unwrap_or_default();
        let kept = self.every.max(looked_at);
        TapOptions {
            clock,
            flow_count_max: self.max_flows.unwrap_or(FLOWS_MAX) as usize,
            // What a model looks at, and as long as a packet may wait.
            kept: Span::from_ns(WAIT_MAX.as_ns().saturating_add(kept.as_ns())),
            sampler: self.is_sampled().then(|| Sampler::new(self.sample, SAMPLER_SEED)),
        }
    }

    /// Slots of a period.
    #[must_use]
    pub fn period_len(&self, clock: SlotClock) -> usize {
        usize::try_from(clock.count(self.every)).unwrap_or(usize::MAX)
    }

    /// Rows of a period at most.
    #[must_use]
    pub const fn row_count_max(&self) -> usize {
        // 0 stands for all.
        if self.rows == 0 { usize::MAX } else { self.rows }
    }

    /// Flows that taps of two interfaces follow at most: those that are reported.
    #[must_use]
    pub fn followed_max(&self) -> usize {
        let flows = self.max_flows.unwrap_or(FLOWS_MAX) as usize;
        let asked = if self.rows == 0 { flows } else { self.rows };
        asked.min(FOLLOWED_MAX as usize)
    }
}

/// Reads a share of something that is looked at.
///
/// # Errors
/// What was wanted, for the message of the argument.
pub fn parse_share(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| String::from(SHARE_WANTED)).and_then(share_in_range)
}

const SHARE_WANTED: &str = "wanted more than 0 and at most 1";

fn share_in_range(share: f64) -> Result<f64, String> {
    if share > 0.0 && share <= 1.0 { Ok(share) } else { Err(String::from(SHARE_WANTED)) }
}

fn share<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    share_in_range(f64::deserialize(from)?).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_LIVE: Taps = Taps { are_live: true, are_two: true };
    const TWO_CAPTURES: Taps = Taps { are_live: false, are_two: true };
    const ONE_CAPTURE: Taps = Taps { are_live: false, are_two: false };

    #[test]
    fn settings_are_written_as_the_options_are_called() {
        let text = "every = '100ms'\nslot = '2ms'\nrows = 0\nmax-flows = 9\npassed = 'first'\n\
                    sample = 0.5\neach-packet = true\negress-offset = '-3ms'\nmodel = 'cca'";
        let read: CcaSettings = toml::from_str(text).unwrap();
        assert_eq!(read.egress_offset, Some(Span::from_ns(-3_000_000)));
        assert_eq!(read.period_len(read.clock().unwrap()), 50);
        assert_eq!((read.row_count_max(), read.followed_max()), (usize::MAX, 9));
        assert!(read.is_sampled() && read.passed == PassedRule::First);
        for (wrong, wanted) in [
            ("sample = 0.0", "more than 0"),
            ("sample = 1.5", "at most 1"),
            ("passed = 'last'", "highest or first"),
            ("egress-offset = '3'", "a number with a unit"),
            ("max_flows = 9", "unknown field"),
        ] {
            let told = toml::from_str::<CcaSettings>(wrong).unwrap_err().to_string();
            assert!(told.contains(wanted), "{told}");
        }
    }

    #[test]
    fn what_would_be_ignored_is_refused_by_its_key() {
        let usual = CcaSettings::default;
        assert_eq!(usual().check(ONE_CAPTURE, &[]), Ok(()));
        let first = CcaSettings { passed: PassedRule::First, ..usual() };
        assert_eq!(first.check(TWO_CAPTURES, &[]), Ok(()));
        let error = first.check(ONE_CAPTURE, &[]).unwrap_err();
        assert_eq!(error.key(), "passed");
        assert!(error.to_string().contains("upstream and downstream"), "{error}");
        let offset = CcaSettings { egress_offset: Some(Span::default()), ..usual() };
        assert_eq!(offset.check(TWO_LIVE, &[]).unwrap_err().key(), "egress-offset");
        assert_eq!(offset.check(ONE_CAPTURE, &[]).unwrap_err().key(), "egress-offset");
        let (setting, wanted) = (Setting::Act, TapScope::Live);
        assert_eq!(
            usual().check(TWO_CAPTURES, &[Setting::View, Setting::Act]),
            Err(SettingsError::WithoutEffect { setting, wanted })
        );
    }

    #[test]
    fn numbers_that_would_be_cut_are_refused() {
        let flows =
            |rows, flows| CcaSettings { rows, max_flows: Some(flows), ..Default::default() };
        assert_eq!(flows(10, 5).check(TWO_LIVE, &[]), Err(SettingsError::FollowedTwice));
        assert_eq!(flows(10, 5).check(TWO_CAPTURES, &[]), Ok(()));
        let asked = FOLLOWED_MAX + 1;
        assert_eq!(flows(0, asked).check(TWO_LIVE, &[]), Err(SettingsError::Followed { asked }));
        assert_eq!(flows(0, 0).check(TWO_CAPTURES, &[]), Err(SettingsError::Flows));
        let long = Span::from_seconds(5_000);
        let sampled = CcaSettings { sample: 0.5, every: long, ..Default::default() };
        let error = sampled.check(TWO_CAPTURES, &[]).unwrap_err();
        assert_eq!(error.key(), "every");
        let slot = Span::from_ns(3_000_000);
        let every = Span::from_ns(10_000_000);
        let uneven = CcaSettings { every, slot, ..Default::default() };
        assert_eq!(uneven.clock(), Err(SettingsError::NotWhole { every, slot }));
    }
}
