//! What is simulated: lines of `key value`, the same text that the ns-3 scenario reads.

use std::fmt;
use std::str::FromStr;

use dualq::Settings;
use l4s::{Control, ControlError, MarkerError, MarkerSettings};

use crate::congestion::Kind;
use crate::workload::Sizes;

/// A network and its flows. See `docs/guide/testbed-l4s.md` for each key.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// Rate of the router's link.
    pub rate_bps: u64,
    /// Rate of each sender's link to the router.
    pub access_bps: u64,
    /// Propagation delay from a sender to its receiver, and back again.
    pub delay_ns: u64,
    /// How long it runs.
    pub duration_ns: u64,
    /// Packets that arrive at the router before this are not in the summary.
    pub warmup_ns: u64,
    /// Decides every draw.
    pub seed: u64,
    /// The router.
    pub router: Settings,
    /// What steers the L4S flows of sender 1.
    pub control: SteeringPolicy,
    /// How senders find what is lost.
    pub recovery: Recovery,
    /// Packets that an acknowledgement may wait for: 1 acknowledges each immediately.
    pub delayed_acks: u32,
    /// The flows.
    pub groups: Vec<Group>,
}

/// What steers packets. As text as [`Control`] and [`MarkerSettings`] have it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum SteeringPolicy {
    /// A rule that learns nothing.
    Rule(Control),
    /// A model's predictions; the model is given to [`run`](crate::run).
    Predicted(MarkerSettings),
}

impl FromStr for SteeringPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("predicted") {
            return text
                .parse()
                .map(Self::Predicted)
                .map_err(|error: MarkerError| error.to_string());
        }
        text.parse().map(Self::Rule).map_err(|error: ControlError| error.to_string())
    }
}

/// How a sender finds what is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Recovery {
    /// By three segments above a gap that have arrived (RFC 6675), as ns-3 does.
    #[default]
    Dupacks,
    /// By time (RFC 8985), as Linux does: once packets were seen to overtake each other, those
    /// that are late have a share of a round trip to arrive, and what was taken for a loss by
    /// mistake is undone.
    Rack,
}

impl FromStr for Recovery {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "dupacks" => Ok(Self::Dupacks),
            "rack" => Ok(Self::Rack),
            _ => Err(format!("`{text}` is not a recovery; wanted dupacks or rack")),
        }
    }
}

/// Flows of one kind.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Group {
    /// Their congestion control.
    pub congestion: Kind,
    /// How many.
    pub count: u32,
    /// Which sender; that of number 1 is steered.
    pub sender: u16,
    /// Which receiver.
    pub receiver: u16,
    /// What they send.
    pub load: Load,
    /// When they begin.
    pub start_ns: u64,
}

/// What a flow sends.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Load {
    /// As much as it may.
    Greedy,
    /// Messages whose sizes are drawn, at random instants, so many bits a second on average.
    Messages {
        /// Where sizes are drawn from.
        sizes: Sizes,
        /// Bits a second.
        bps: f64,
    },
}

/// Text that is no scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScenarioError {
    /// Line, from 1; 0 for the whole.
    pub line: usize,
    /// What was seen and what was wanted.
    pub reason: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, reason } = self;
        if *line == 0 { out.write_str(reason) } else { write!(out, "line {line}: {reason}") }
    }
}

impl std::error::Error for ScenarioError {}

/// Flows that a scenario may have, so that memory is bounded.
const FLOWS_MAX: u32 = 10_000;
const RATE_MAX_BPS: u64 = 400_000_000_000;
const HOUR_NS: u64 = 3_600_000_000_000;

impl FromStr for Scenario {
    type Err = ScenarioError;

    /// Reads a scenario. Text behind `#` is not read.
    fn from_str(text: &str) -> Result<Self, ScenarioError> {
        let mut scenario = Self::empty();
        let mut access_bps = None;
        for (index, line) in text.lines().enumerate() {
            let failed = |reason| ScenarioError { line: index + 1, reason };
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let wanted = || failed(format!("`{line}` is not a setting; wanted KEY VALUE"));
            let (key, value) = line.split_once(char::is_whitespace).ok_or_else(wanted)?;
            let value = value.trim();
            if key == "access_bps" {
                access_bps = Some(number(key, value, 1, RATE_MAX_BPS).map_err(failed)?);
            } else {
                scenario.set(key, value).map_err(failed)?;
            }
        }
        scenario.access_bps = access_bps.unwrap_or(scenario.rate_bps.saturating_mul(100));
        scenario.check().map_err(|reason| ScenarioError { line: 0, reason })?;
        Ok(scenario)
    }
}

impl Scenario {
    fn empty() -> Self {
        Self {
            rate_bps: 100_000_000,
            access_bps: 0,
            delay_ns: 20_000_000,
            duration_ns: 20_000_000_000,
            warmup_ns: 0,
            seed: 1,
            router: Settings::default(),
            control: SteeringPolicy::Rule(Control::None),
            recovery: Recovery::default(),
            delayed_acks: 1,
            groups: Vec::new(),
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "rate_bps" => self.rate_bps = number(key, value, 1_000, RATE_MAX_BPS)?,
            "delay_ns" => self.delay_ns = number(key, value, 0, HOUR_NS)?,
            "duration_ns" => self.duration_ns = number(key, value, 1, 24 * HOUR_NS)?,
            "warmup_ns" => self.warmup_ns = number(key, value, 0, 24 * HOUR_NS)?,
            "seed" => self.seed = number(key, value, 0, u64::MAX)?,
            "router" => {
                self.router =
                    value.parse().map_err(|error: dualq::SettingsError| error.to_string())?;
            }
            "control" => {
                self.control = value.parse()?;
            }
            "recovery" => self.recovery = value.parse()?,
            "delayed_acks" => self.delayed_acks = narrow(number(key, value, 1, 1_000)?),
            "group" => self.groups.push(value.parse()?),
            _ => return Err(format!("`{key}` is not a key; wanted one of {KEYS}")),
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        let flows: u64 = self.groups.iter().map(|group| u64::from(group.count)).sum();
        if flows == 0 || flows > u64::from(FLOWS_MAX) {
            return Err(format!(
                "{flows} flows; wanted from 1 to {FLOWS_MAX}, by lines of `group`"
            ));
        }
        Ok(())
    }
}

const KEYS: &str = "rate_bps, access_bps, delay_ns, duration_ns, warmup_ns, seed, router, control, \
    recovery, delayed_acks and group";

impl FromStr for Group {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut congestion = None;
        let mut group = Self {
            congestion: Kind::Prague,
            count: 1,
            sender: 1,
            receiver: 1,
            load: Load::Greedy,
            start_ns: 0,
        };
        for pair in text.split_whitespace() {
            let (key, value) = pair
                .split_once('=')
                .ok_or_else(|| format!("`{pair}` is not a setting of a group; wanted KEY=VALUE"))?;
            match key {
                "congestion" => congestion = Some(value.parse()?),
                "count" => group.count = narrow(number(key, value, 1, u64::from(FLOWS_MAX))?),
                "sender" => group.sender = narrow(number(key, value, 1, 1_000)?),
                "receiver" => group.receiver = narrow(number(key, value, 1, 1_000)?),
                "load" => group.load = value.parse()?,
                "start_ns" => group.start_ns = number(key, value, 0, 24 * HOUR_NS)?,
                _ => {
                    return Err(format!(
                        "`{key}` is not a key of a group; wanted one of congestion, count, sender, \
                         receiver, load and start_ns"
                    ));
                }
            }
        }
        group.congestion = congestion.ok_or("a group needs congestion=NAME")?;
        Ok(group)
    }
}

impl FromStr for Load {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused =
            || format!("`{text}` is not a load; wanted greedy or messages:SIZES:BITS_PER_SECOND");
        if text == "greedy" {
            return Ok(Self::Greedy);
        }
        let (sizes, bps) = text
            .strip_prefix("messages:")
            .and_then(|rest| rest.split_once(':'))
            .ok_or_else(refused)?;
        let bps = bps.parse().map_err(|_| refused())?;
        if !(1.0..=RATE_MAX_BPS as f64).contains(&bps) {
            return Err(refused());
        }
        Ok(Self::Messages { sizes: sizes.parse()?, bps })
    }
}

fn number(key: &str, value: &str, least: u64, most: u64) -> Result<u64, String> {
    let read = value.parse().ok().filter(|number| (least..=most).contains(number));
    read.ok_or_else(|| format!("`{key} {value}`: wanted a whole number from {least} to {most}"))
}

/// A number that was checked to be small enough.
fn narrow<T: TryFrom<u64> + Default>(number: u64) -> T {
    T::try_from(number).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_read_line_by_line() {
        let text = "# the paper's\nrate_bps 50000000\nrouter mode=partitioned,l4s-share=30\n\
            control random:0.2   # of sender 1\ngroup congestion=prague count=6\n\
            group congestion=cubic count=4 sender=2 load=messages:websearch:5e6 start_ns=7\n";
        let scenario: Scenario = text.parse().unwrap();
        assert_eq!((scenario.rate_bps, scenario.access_bps), (50_000_000, 5_000_000_000));
        assert_eq!((scenario.router.c_protection, scenario.delay_ns), (70, 20_000_000));
        assert_eq!(scenario.control, SteeringPolicy::Rule(Control::Random(0.2)));
        let [first, second] = scenario.groups[..] else { panic!("two groups") };
        assert_eq!((first.count, first.sender, first.load), (6, 1, Load::Greedy));
        let load = Load::Messages { sizes: "websearch".parse().unwrap(), bps: 5e6 };
        assert_eq!((second.congestion, second.load, second.start_ns), (Kind::Cubic, load, 7));
    }

    #[test]
    fn what_is_no_scenario_is_refused_with_its_line() {
        let refused = |text: &str| text.parse::<Scenario>().unwrap_err().to_string();
        assert!(refused("").contains("0 flows; wanted from 1"));
        assert!(refused("seed 1\nqueue 3").contains("line 2: `queue` is not a key; wanted one of"));
        assert!(refused("router mode=red").contains("line 1: `mode`: wanted dualpi2"));
        assert!(refused("group count=3").contains("congestion=NAME"));
        assert!(refused("group congestion=vegas").contains("`vegas`"));
        assert!(refused("group congestion=bbr load=messages:mail:1").contains("`mail`"));
        assert!(refused("rate_bps fast").contains("wanted a whole number from 1000"));
    }
}
