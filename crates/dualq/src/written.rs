//! Settings as text: `mode=partitioned,l4s-share=30,limit=500`.

use std::fmt;
use std::str::FromStr;

use crate::settings::{Aqm, Mode, Scheduler, Settings, SettingsError};

impl FromStr for Settings {
    type Err = SettingsError;

    /// Reads keys and values, separated by commas. `mode` chooses the defaults, wherever it
    /// stands; empty text is `mode=dualpi2`.
    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let mut pairs = Vec::new();
        for written in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let Some((key, value)) = written.split_once('=') else {
                return Err(SettingsError { key: "router", wanted: "KEY=VALUE,KEY=VALUE" });
            };
            pairs.push((key.trim(), value.trim()));
        }
        let mode = pairs.iter().rev().find(|(key, _)| *key == "mode");
        let mut settings = Self::of(mode.map_or(Ok(Mode::default()), |(_, value)| value.parse())?);
        for &(key, value) in &pairs {
            set(&mut settings, key, value)?;
        }
        let is_divided = pairs.iter().all(|(key, _)| *key != "limit-l4s");
        if settings.mode == Mode::Partitioned && is_divided {
            divide(&mut settings);
        }
        settings.check()?;
        Ok(settings)
    }
}

fn set(settings: &mut Settings, key: &str, value: &str) -> Result<(), SettingsError> {
    match key {
        "mode" => {}
        "limit" => settings.limit = number("limit", value)?,
        "limit-l4s" => settings.limit_l4s = Some(number("limit-l4s", value)?),
        "target" => settings.target_ns = time("target", value)?,
        "tupdate" => settings.tupdate_ns = time("tupdate", value)?,
        "alpha" => settings.alpha_hz = number("alpha", value)?,
        "beta" => settings.beta_hz = number("beta", value)?,
        "coupling" => settings.coupling = number("coupling", value)?,
        "l4s-aqm" => settings.l4s_aqm = value.parse()?,
        "step" => settings.step_ns = time("step", value)?,
        "ramp-from" => settings.ramp_from_ns = time("ramp-from", value)?,
        "ramp-to" => settings.ramp_to_ns = time("ramp-to", value)?,
        "min-qlen-step" => settings.min_qlen_step = number("min-qlen-step", value)?,
        "pi2" => settings.has_pi2 = switch("pi2", value)?,
        "drop-early" => settings.drop_early = switch("drop-early", value)?,
        "drop-overload" => settings.drop_overload = switch("drop-overload", value)?,
        "scheduler" => settings.scheduler = value.parse()?,
        "c-protection" => settings.c_protection = number("c-protection", value)?,
        "l4s-share" => {
            let share = number::<u32>("l4s-share", value)?;
            let key_wanted =
                SettingsError { key: "l4s-share", wanted: "from 0 to 100 percent of the link" };
            settings.c_protection = 100_u32.checked_sub(share).ok_or(key_wanted)?;
        }
        "tshift" => settings.tshift_ns = time("tshift", value)?,
        "mtu" => settings.mtu = number("mtu", value)?,
        _ => return Err(SettingsError { key: "router", wanted: KEYS }),
    }
    Ok(())
}

/// Of a partitioned link the queues have what their shares have of the limit.
fn divide(settings: &mut Settings) {
    let share = u64::from(100_u32.saturating_sub(settings.c_protection));
    let of_l4s = u64::from(settings.limit) * share / 100;
    settings.limit_l4s = u32::try_from(of_l4s.max(1)).ok();
}

const KEYS: &str = "one of mode, limit, limit-l4s, target, tupdate, alpha, beta, coupling, \
    l4s-aqm, step, ramp-from, ramp-to, min-qlen-step, pi2, drop-early, drop-overload, scheduler, \
    c-protection, l4s-share, tshift and mtu";

fn number<T: FromStr>(key: &'static str, value: &str) -> Result<T, SettingsError> {
    value.parse().map_err(|_| SettingsError { key, wanted: "a number" })
}

fn switch(key: &'static str, value: &str) -> Result<bool, SettingsError> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(SettingsError { key, wanted: "yes or no" }),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn time(key: &'static str, value: &str) -> Result<u64, SettingsError> {
    let refused = SettingsError { key, wanted: "a time such as 500us, 15ms or 1s" };
    let unit_start = value.find(|c: char| c.is_ascii_alphabetic()).ok_or(refused)?;
    let (number, unit) = value.split_at(unit_start);
    let unit_ns = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return Err(refused),
    };
    let ns = number.parse::<f64>().map_err(|_| refused)? * unit_ns;
    if (0.0..=3_600e9).contains(&ns) { Ok(ns.round() as u64) } else { Err(refused) }
}

impl fmt::Display for Settings {
    /// Every setting, as it is read.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let yes = |set: bool| if set { "yes" } else { "no" };
        write!(out, "mode={},limit={}", self.mode, self.limit)?;
        if let Some(of_l4s) = self.limit_l4s {
            write!(out, ",limit-l4s={of_l4s}")?;
        }
        write!(out, ",target={}ns,tupdate={}ns", self.target_ns, self.tupdate_ns)?;
        write!(out, ",alpha={},beta={}", self.alpha_hz, self.beta_hz)?;
        write!(out, ",coupling={},l4s-aqm={}", self.coupling, self.l4s_aqm)?;
        write!(out, ",step={}ns", self.step_ns)?;
        write!(out, ",ramp-from={}ns,ramp-to={}ns", self.ramp_from_ns, self.ramp_to_ns)?;
        write!(out, ",min-qlen-step={},pi2={}", self.min_qlen_step, yes(self.has_pi2))?;
        write!(out, ",drop-early={}", yes(self.drop_early))?;
        write!(out, ",drop-overload={}", yes(self.drop_overload))?;
        write!(out, ",scheduler={},c-protection={}", self.scheduler, self.c_protection)?;
        write!(out, ",tshift={}ns,mtu={}", self.tshift_ns, self.mtu)
    }
}

/// Words of an enumeration: how each is written.
macro_rules! words {
    ($name:ty, $key:literal, $wanted:literal, $($word:literal => $value:path),+) => {
        impl FromStr for $name {
            type Err = SettingsError;

            fn from_str(text: &str) -> Result<Self, SettingsError> {
                match text {
                    $($word => Ok($value),)+
                    _ => Err(SettingsError { key: $key, wanted: $wanted }),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(match self { $($value => $word,)+ })
            }
        }
    };
}

words!(Mode, "mode", "dualpi2, partitioned or tail-drop",
    "dualpi2" => Mode::Dualpi2, "partitioned" => Mode::Partitioned, "tail-drop" => Mode::TailDrop);
words!(Scheduler, "scheduler", "weighted or ts-fifo",
    "weighted" => Scheduler::Weighted, "ts-fifo" => Scheduler::TimeShiftedFifo);
words!(Aqm, "l4s-aqm", "step, ramp or none",
    "step" => Aqm::Step, "ramp" => Aqm::Ramp, "none" => Aqm::None);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            mode in prop::sample::select(vec![Mode::Dualpi2, Mode::Partitioned, Mode::TailDrop]),
            limit in 1_u32..100_000, alpha_hz in 0.001..1.0_f64, target_ns in 0..1_000_000_000_u64,
            drop_early: bool, c_protection in 0_u32..100,
        ) {
            let limit_l4s = Some(limit.div_ceil(3));
            let settings = Settings {
                limit, limit_l4s, alpha_hz, target_ns, drop_early, c_protection,
                ..Settings::of(mode)
            };
            prop_assert_eq!(settings.to_string().parse(), Ok(settings));
        }

        #[test]
        fn no_text_is_the_end_of_the_program(text in ".{0,60}") {
            let _ = text.parse::<Settings>();
        }
    }

    #[test]
    fn defaults_are_those_of_linux() {
        let read: Settings = "".parse().unwrap();
        assert_eq!(read, Settings::default());
        assert_eq!((read.target_ns, read.tupdate_ns), (15_000_000, 16_000_000));
        assert_eq!((read.coupling, read.step_ns, read.c_protection), (2, 1_000_000, 10));
        assert_eq!((read.limit, read.drop_early, read.drop_overload), (10_000, false, true));
    }

    #[test]
    fn a_partitioned_link_divides_its_limit() {
        let read: Settings = "l4s-share=30,mode=partitioned,limit=500".parse().unwrap();
        assert_eq!((read.c_protection, read.limit_l4s, read.coupling), (70, Some(150), 0));
    }

    #[test]
    fn the_limit_of_a_queue_is_what_is_written_wherever_it_stands() {
        for text in ["limit-l4s=7,limit=500,l4s-share=30", "l4s-share=30,limit=500,limit-l4s=7"] {
            let read: Settings = format!("mode=partitioned,{text}").parse().unwrap();
            assert_eq!((read.limit, read.limit_l4s, read.c_protection), (500, Some(7), 70));
        }
        for text in ["c-protection=70,limit=500", "limit=500,c-protection=70"] {
            let read: Settings = format!("mode=partitioned,{text}").parse().unwrap();
            assert_eq!(read.limit_l4s, Some(150), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let refused = |text: &str| text.parse::<Settings>().unwrap_err().to_string();
        assert!(refused("mode=red").contains("`mode`: wanted dualpi2, partitioned or tail-drop"));
        assert!(refused("step=1").contains("`step`: wanted a time"));
        assert!(refused("l4s-share=130").contains("`l4s-share`: wanted from 0 to 100"));
        assert!(refused("bandwidth=3").contains("one of mode, limit"));
        assert!(refused("limit=0").contains("`limit`: wanted from 1"));
        assert!(refused("dualpi2").contains("KEY=VALUE"));
    }
}
