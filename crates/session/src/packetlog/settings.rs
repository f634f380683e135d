//! What stands in a file of settings: modes of one's own, priorities, and limits of resources.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::duration::parse_duration;
use packetlog::manager::{Limit, Limits, Shortage};
use packetlog::policy::{Granularity, Mode};
use serde::Deserialize;

use super::LogError;

/// More would be no choice.
const MODES_MAX: usize = 256;
/// Bytes of a file of settings.
const FILE_LEN_MAX: u64 = 1 << 20;
/// Priorities: each has files of its own.
pub const PRIORITY_MAX: u8 = 7;

/// Everything that a file of settings may say.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    modes: BTreeMap<String, WrittenMode>,
    #[serde(default)]
    priorities: BTreeMap<String, u8>,
    #[serde(default)]
    manager: WrittenManager,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenMode {
    #[serde(default)]
    purpose: String,
    benign: String,
    anomalous: String,
    #[serde(default)]
    classes: BTreeMap<String, String>,
    #[serde(default)]
    level: u8,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenManager {
    both: Option<String>,
    overwrite: Option<bool>,
    disk: Option<WrittenLimit>,
    copy: Option<WrittenLimit>,
    queue: Option<WrittenLimit>,
    log_loss: Option<WrittenLimit>,
    ring_loss: Option<WrittenLimit>,
    busy: Option<WrittenLimit>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenLimit {
    on: Option<f64>,
    off: Option<f64>,
    hold: Option<String>,
    mode: Option<String>,
}

/// Settings that make sense.
#[derive(Clone, Debug)]
pub struct Settings {
    /// All modes: the recommended ones, and one's own.
    pub modes: Vec<Mode>,
    /// Of classes by name; others are unimportant if they are a model's first, else important.
    pub priorities: BTreeMap<String, u8>,
    /// When resources are under pressure.
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        let (modes, limits) = (Mode::recommended(), Limits::default());
        Self { modes, priorities: BTreeMap::new(), limits }
    }
}

impl Settings {
    /// Reads a file; without one everything is as it comes.
    pub fn read(path: Option<&Path>) -> Result<Self, LogError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let name = path.display();
        let len = fs::metadata(path).map(|metadata| metadata.len());
        if len.is_ok_and(|len| len > FILE_LEN_MAX) {
            let wanted = "wanted: settings in TOML of at most 1 MiB";
            return Err(LogError::usage(format_args!("{name}: too large; {wanted}")));
        }
        let text = fs::read_to_string(path).map_err(|error| {
            LogError::error(format_args!("{name}: {error}; give a file of settings in TOML"))
        })?;
        Self::parse(&text).map_err(|reason| LogError::usage(format_args!("{name}: {reason}")))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let written: Written =
            toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        let mut settings = Self::default();
        for (name, mode) in written.modes {
            settings.add_mode(own_mode(name, mode)?)?;
        }
        for (class, priority) in &written.priorities {
            if *priority > PRIORITY_MAX {
                return Err(format!(
                    "priorities: {class} = {priority}; wanted: 0, which is overwritten first, to \
                     {PRIORITY_MAX}"
                ));
            }
        }
        settings.priorities = written.priorities;
        settings.set_limits(written.manager)?;
        Ok(settings)
    }

    fn add_mode(&mut self, mode: Mode) -> Result<(), String> {
        if self.modes.len() == MODES_MAX {
            return Err(format!("more than {MODES_MAX} modes; wanted: fewer"));
        }
        match self.modes.iter_mut().find(|known| known.name == mode.name) {
            // One of the recommended ones in another way, under its own name.
            Some(known) => *known = mode,
            None => self.modes.push(mode),
        }
        Ok(())
    }

    fn set_limits(&mut self, written: WrittenManager) -> Result<(), String> {
        let WrittenManager { both, overwrite, disk, copy, queue, log_loss, ring_loss, busy } =
            written;
        let given = [
            (Shortage::Disk, disk),
            (Shortage::Copy, copy),
            (Shortage::Queue, queue),
            (Shortage::LogLoss, log_loss),
            (Shortage::RingLoss, ring_loss),
            (Shortage::Busy, busy),
        ];
        for (shortage, given) in given {
            let Some(given) = given else { continue };
            let limit = self.limit(shortage, given)?;
            self.limits.set(shortage, limit).map_err(|error| format!("manager.{error}"))?;
        }
        if let Some(both) = both {
            self.limits.both = self.known(&both, "manager.both")?;
        }
        self.limits.overwrites = overwrite.unwrap_or(self.limits.overwrites);
        Ok(())
    }

    fn limit(&self, shortage: Shortage, given: WrittenLimit) -> Result<Limit, String> {
        let usual = self.limits.of(shortage);
        let at = format!("manager.{shortage}");
        let mode = match given.mode.as_deref() {
            None => usual.mode.clone(),
            Some("") => None,
            Some(name) => Some(self.known(name, &at)?),
        };
        let hold = match given.hold {
            None => usual.hold,
            Some(text) => {
                let span = parse_duration(&text).map_err(|why| format!("{at}.hold: {why}"))?;
                Duration::from_nanos(u64::try_from(span.as_ns()).unwrap_or(0))
            }
        };
        let (on, off) = (given.on.unwrap_or(usual.on), given.off.unwrap_or(usual.off));
        Ok(Limit { on, off, hold, mode })
    }

    fn known(&self, name: &str, at: &str) -> Result<String, String> {
        self.mode(name).map(|mode| mode.name.clone()).map_err(|reason| format!("{at}: {reason}"))
    }

    /// A mode by its name, or what there is instead.
    pub fn mode(&self, name: &str) -> Result<&Mode, String> {
        self.modes.iter().find(|mode| mode.name == name).ok_or_else(|| {
            let names: Vec<_> = self.modes.iter().map(|mode| mode.name.as_str()).collect();
            format!("{name:?} is not a mode; wanted: one of {}", names.join(", "))
        })
    }

    /// Of a class of a model, by its index and name.
    pub fn priority(&self, index: usize, class: &str) -> u8 {
        self.priorities.get(class).copied().unwrap_or(u8::from(index > 0))
    }
}

fn own_mode(name: String, written: WrittenMode) -> Result<Mode, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
        return Err(format!("modes: {name:?}; wanted: up to 64 letters, digits, - and _"));
    }
    let read = |at: &str, text: &str| -> Result<Granularity, String> {
        text.parse().map_err(|error| format!("modes.{name}.{at}: {error}"))
    };
    let benign = read("benign", &written.benign)?;
    let anomalous = read("anomalous", &written.anomalous)?;
    let classes = written
        .classes
        .iter()
        .map(|(class, text)| Ok((class.clone(), read(&format!("classes.{class}"), text)?)));
    let classes = classes.collect::<Result<_, String>>()?;
    let WrittenMode { purpose, level, .. } = written;
    Ok(Mode { name, purpose, benign, anomalous, classes, level })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_ones_own_stand_beside_the_recommended() {
        let settings = Settings::parse(
            "[modes.night]\nbenign = 'header,1/16'\nanomalous = 'partial:256'\nlevel = 2\n\
             [modes.night.classes]\nscan = 'header'\n\
             [priorities]\nscan = 0\n\
             [manager]\noverwrite = true\nboth = 'night'\n\
             [manager.disk]\non = 0.1\noff = 0.2\nhold = '5s'\n\
             [manager.busy]\nmode = ''\n",
        )
        .unwrap();
        assert_eq!(settings.modes.len(), 6);
        assert_eq!(settings.mode("night").unwrap().benign.to_string(), "header,1/16");
        assert_eq!((settings.priority(1, "scan"), settings.priority(2, "flood")), (0, 1));
        assert_eq!(settings.limits.of(Shortage::Disk).hold, Duration::from_secs(5));
        assert_eq!(settings.limits.of(Shortage::Disk).mode.as_deref(), Some("log-sampled"));
        assert_eq!(settings.limits.of(Shortage::Busy).mode, None);
        assert!(settings.limits.overwrites && settings.limits.both == "night");
    }

    #[test]
    fn what_makes_no_sense_is_told_with_what_would() {
        let cases = [
            ("[modes.x]\nbenign = 'whole'\nanomalous = 'full'\n", "modes.x.benign"),
            ("[modes.x]\nbenign = 'full'\n", "anomalous"),
            ("[modes.'a b']\nbenign = 'full'\nanomalous = 'full'\n", "letters"),
            ("[manager.disk]\non = 0.5\noff = 0.1\n", "manager.disk: on 0.5"),
            ("[manager.queue]\nmode = 'log-some'\n", "log-minimum"),
            ("[manager.queue]\nhold = 'long'\n", "manager.queue.hold"),
            ("[priorities]\nbenign = 9\n", "overwritten first"),
            ("[mode.x]\n", "mode"),
        ];
        for (text, wanted) in cases {
            let reason = Settings::parse(text).unwrap_err();
            assert!(reason.contains(wanted), "{text}: {reason}");
        }
    }
}
