//! Settings of `[run]`.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use files::FileMode;
use serde::{Deserialize, Deserializer, de};

use crate::drills::Drills;
use crate::input::InputSettings;

/// Settings of `[run]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct RunSettings {
    /// Seed of the hash that spreads keys; drawn at start where it is left out.
    pub seed: Option<u64>,
    /// Threads for captures; one per core where it is left out.
    pub threads: Option<u16>,
    /// Permissions of files that are created.
    #[serde(deserialize_with = "file_mode")]
    pub file_mode: Option<FileMode>,
    /// The user that the run has once its interfaces are open.
    pub user: Option<String>,
    /// Panics after which an application ends.
    pub faults_max: Option<u32>,
    /// The folder for packets by which an application panicked; blank for none.
    pub quarantine: Option<PathBuf>,
    /// What is to go wrong on purpose.
    pub simulate: Drills,
}

/// As many threads as may be asked for.
const THREADS: RangeInclusive<u16> = 1..=256;

impl RunSettings {
    /// Checks what serde cannot: the key that is wrong, and why.
    ///
    /// # Errors
    /// The key and the message.
    pub fn check(&self, input: &InputSettings) -> Result<(), (&'static str, String)> {
        if self.faults_max == Some(0) {
            return Err(("faults-max", String::from("faults-max = 0; wanted: 1 or more")));
        }
        if let Some(user) = self.user.as_ref().filter(|_| !input.may_have_user()) {
            let why = "has no effect without an interface; run the command as that user instead";
            return Err(("user", format!("user = {user:?} {why}")));
        }
        let Some(threads) = self.threads else { return Ok(()) };
        let idle = match input {
            _ if input.is_live() => "an interface, which is read by one thread",
            InputSettings { pace: Some(_), .. } => "a replay, which uses one thread",
            _ if THREADS.contains(&threads) => return Ok(()),
            _ => {
                let (least, most) = (THREADS.start(), THREADS.end());
                return Err(("threads", format!("threads = {threads}; wanted {least} to {most}")));
            }
        };
        Err(("threads", format!("threads has no effect on {idle}; leave it out")))
    }
}

fn file_mode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<FileMode>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_read_and_a_user_needs_an_interface() {
        let read = |text: &str| toml::from_str::<RunSettings>(text);
        let run = read("file-mode = \"0640\"\nuser = \"x\"").unwrap();
        assert_eq!(run.file_mode.map(FileMode::file), Some(0o640));
        let mut live = InputSettings::default();
        live.interface.push(String::from("eth0"));
        assert_eq!(run.check(&live), Ok(()));
        assert_eq!(run.check(&InputSettings::default()).unwrap_err().0, "user");
        let mut replaced = live.clone();
        replaced.take_instead(&["x.pcap".into()], &[], None);
        assert_eq!(run.check(&replaced), Ok(()));
        assert!(read("file-mode = 640").is_err() && read("file-mode = \"0777\"").is_err());
    }
}
