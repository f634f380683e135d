//! Interfaces that a reload adds are opened by a helper: the run has given up the right to do so
//! before its first packet.
//!
//! The helper takes the word of no one for what may be listened on: it reads the settings itself,
//! each time, and opens only what they name.

use std::ffi::OsStr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use capture::live::{DetachedSocket, Latency, LiveOptions, LiveSource};
use capture::sys::libpcap::Instruction;
use capture::{Filter, ReadOptions};
use jail::Needs;
use packet::LinkType;
use serde::{Deserialize, Serialize};

use crate::device_keeper::{self, Chore, Helper, HelperError, OrderOutcome};
use crate::toml_text::settings_text;
use crate::written;

/// The helper of interfaces, if it is named so.
pub(crate) fn helper_of(chore: &OsStr) -> Option<fn(UnixStream) -> ExitCode> {
    (chore == InterfaceOpener::NAME).then_some(device_keeper::serve::<InterfaceOpener>)
}

/// What the helper knows from the start: how interfaces are listened on, and which settings name
/// them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenerTask {
    settings: PathBuf,
    filter: Option<String>,
    snaplen: u32,
    ring_size_bytes: usize,
    is_promiscuous: bool,
    is_low_latency: bool,
}

/// What opens interfaces.
pub(super) struct InterfaceOpener {
    settings: PathBuf,
    options: LiveOptions,
    read: ReadOptions,
}

/// An interface that was opened, as the helper describes it.
#[derive(Serialize, Deserialize)]
struct OpenInterface {
    link: Option<u16>,
    is_up: bool,
    /// Instructions: what to do, where to continue if a condition holds, and if not, what with.
    program: Vec<(u16, u8, u8, u32)>,
}

/// As much of the settings as names interfaces.
#[derive(Default, Deserialize)]
#[serde(default)]
struct NamingSettings {
    input: NamingInput,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamingInput {
    #[serde(deserialize_with = "written::texts")]
    interface: Vec<String>,
}

impl Chore for InterfaceOpener {
    const NAME: &'static str = "interfaces";
    type Task = OpenerTask;
    /// The name of an interface.
    type Order = String;

    fn prepare(task: OpenerTask) -> Result<Self, String> {
        let OpenerTask { settings, filter, snaplen, ring_size_bytes, .. } = task;
        let filter = filter.as_deref().map(Filter::new).transpose();
        let filter = filter.map_err(|error| error.to_string())?;
        let read_again = vec![settings.clone()];
        // What a kernel lacks the run reports, which enters a jail as well.
        let _ = jail::enter(&Needs { opens_interfaces: true, read_again, ..Needs::default() });
        let latency = if task.is_low_latency { Latency::Low } else { Latency::Throughput };
        let is_promiscuous = task.is_promiscuous;
        let options =
            LiveOptions { latency, ring_size_bytes, is_promiscuous, ..LiveOptions::default() };
        let read = ReadOptions { filter, snaplen, ..ReadOptions::default() };
        Ok(Self { settings, options, read })
    }

    fn begin(&mut self) -> Result<String, String> {
        Ok(String::new())
    }

    fn carry_out(&mut self, name: String) -> Result<OrderOutcome, String> {
        self.check(&name)?;
        let open = DetachedSocket::open(&name, &self.options, &self.read);
        let open = open.map_err(|error| error.to_string())?;
        let DetachedSocket { socket, link, is_up, program } = open;
        let instruction = |one: Instruction| (one.code, one.jump_true, one.jump_false, one.operand);
        let program = program.into_iter().map(instruction).collect();
        let described = OpenInterface { link: link.map(|link| link.0), is_up, program };
        let said = serde_json::to_string(&described).map_err(|error| error.to_string())?;
        Ok(OrderOutcome { said, opened: Some(socket) })
    }

    fn end(&mut self) -> Result<String, String> {
        Ok(String::new())
    }
}

impl InterfaceOpener {
    /// Whether the settings name an interface now.
    fn check(&self, name: &str) -> Result<(), String> {
        let text = settings_text(&self.settings).map_err(|mistake| mistake.to_string())?;
        let path = self.settings.display();
        let named: Result<NamingSettings, _> = toml::from_str(&text);
        let named = named.map_err(|error| format!("{path}: {}", error.message()))?;
        let named = named.input.interface;
        if named.iter().any(|one| one == name) {
            return Ok(());
        }
        let (named, wanted) = (named.join(", "), "wanted: one of its [input] interface");
        Err(format!("{name}: not named by {path}; {wanted}: {named}"))
    }
}

/// Opens interfaces, in the process that reads them.
pub(crate) struct Opener {
    helper: Helper,
    options: LiveOptions,
    read: ReadOptions,
}

impl Opener {
    /// Starts the helper of a run with these settings, whose interfaces are opened as these options
    /// say.
    ///
    /// # Errors
    /// The helper does not start.
    pub(super) fn start(
        settings: &Path,
        filter: Option<String>,
        (options, read): (LiveOptions, ReadOptions),
    ) -> Result<Self, String> {
        let task = OpenerTask {
            settings: settings.to_owned(),
            filter: filter.filter(|expression| !expression.trim().is_empty()),
            snaplen: read.snaplen,
            ring_size_bytes: options.ring_size_bytes,
            is_promiscuous: options.is_promiscuous,
            is_low_latency: options.latency == Latency::Low,
        };
        let started = Helper::start::<InterfaceOpener>(None, &task);
        let (helper, _) = started.map_err(|error| error.to_string())?;
        Ok(Self { helper, options, read })
    }

    /// Opens an interface, whose frames are let in once it is asked to.
    ///
    /// # Errors
    /// Why that is not possible, in words for users.
    pub(super) fn open(&mut self, name: &str) -> Result<LiveSource, String> {
        let carried = self.helper.ask_to_open::<InterfaceOpener>(name.to_owned());
        let OrderOutcome { said, opened } = carried.map_err(|error| match error {
            HelperError::Refused(said) => said,
            error => format!("{name}: {error}; start the run again"),
        })?;
        let described: Result<OpenInterface, _> = serde_json::from_str(&said);
        let (Ok(described), Some(socket)) = (described, opened) else {
            return Err(format!("{name}: the helper process has opened nothing"));
        };
        let OpenInterface { link, is_up, program } = described;
        let instruction = |(code, jump_true, jump_false, operand)| Instruction {
            code,
            jump_true,
            jump_false,
            operand,
        };
        let program = program.into_iter().map(instruction).collect();
        let open = DetachedSocket { socket, link: link.map(LinkType), is_up, program };
        open.into_source(name, &self.options, &self.read).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn opener(settings: &Path) -> InterfaceOpener {
        let (options, read) = (LiveOptions::default(), ReadOptions::default());
        InterfaceOpener { settings: settings.to_owned(), options, read }
    }

    #[test]
    fn only_what_the_settings_name_now_may_be_opened() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("settings.toml");
        let opener = opener(&path);
        let refusal = |name: &str| opener.check(name).unwrap_err();
        assert!(refusal("eth0").contains("settings.toml"));
        for (text, named, other) in [
            ("[input]\ninterface = \"eth0\"\n[top]\n", "eth0", "eth1"),
            ("[input]\ninterface = [\"eth1\", \"eth2\"]\nfilter = \"tcp\"\n", "eth2", "eth0"),
            ("[input]\ninterface = \"any\"\n", "any", "eth0"),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(opener.check(named), Ok(()), "{text}");
            let said = refusal(other);
            assert!(said.contains("not named by") && said.contains(other), "{said}");
        }
        for text in ["", "[input]\n", "[top]\n", "[input]\ninterface = []\n"] {
            fs::write(&path, text).unwrap();
            assert!(refusal("eth0").contains("not named by"), "{text}");
        }
        for text in ["[input", "[input]\ninterface = 7\n", "[input]\ninterface = [7]\n"] {
            fs::write(&path, text).unwrap();
            assert!(refusal("eth0").contains("settings.toml"), "{text}");
        }
    }
}
