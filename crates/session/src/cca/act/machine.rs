//! A device's queue in our hands: `tc` in its network namespace, a lock, and a guard that puts the
//! queue back if this process cannot.

use std::io;
use std::io::Write as _;
use std::process::{Command, Stdio};

use capture::tap::FlowSteer;
use serde_json::Value;

use super::ActError;
use super::tc::{self, DeviceQdisc};
use crate::Environment;
use crate::cca::live::Device;
use crate::guard::{Guard, Lock, PROGRAM_PATHS};

/// What the kernel puts on devices by itself.
const DEFAULT_QDISC: &str = "/proc/sys/net/core/default_qdisc";

/// A device whose queue is ours to change, or to look at.
pub struct Machine {
    device: Device,
    name: String,
    environment: Environment,
    lock: Option<Lock>,
    guard: Option<Guard>,
}

impl Machine {
    /// A device that is only read.
    #[must_use]
    pub fn look_at(device: &Device, environment: Environment) -> Self {
        let name = device.name().to_owned();
        Self { device: device.clone(), name, environment, lock: None, guard: None }
    }

    /// A device on which no other run acts.
    ///
    /// # Errors
    /// [`ActError`]: another run acts on it, or it cannot be locked.
    pub fn take(device: &Device, environment: Environment) -> Result<Self, ActError> {
        let mut machine = Self::look_at(device, environment);
        let lock = format!("wirelens-act-{}", machine.name);
        let lock = device.inside(|| Lock::take(&lock))?;
        let name = || machine.name.clone();
        let lock = lock.map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => ActError::Busy { device: name() },
            _ => ActError::Lock { device: name(), error },
        })?;
        machine.lock = Some(lock);
        Ok(machine)
    }

    /// The device's queue as `tc` reports it, with counts.
    pub(super) fn show(&self) -> Result<Value, ActError> {
        self.json("tc", &["-j", "-s", "-r", "qdisc", "show", "dev", &self.name, "invisible"])
    }

    /// What stands there.
    pub(super) fn found(&self, shown: &Value) -> Result<DeviceQdisc, ActError> {
        DeviceQdisc::read(shown).ok_or_else(|| ActError::Unknown { device: self.name.clone() })
    }

    /// Whether the kernel puts back what it put there by itself.
    ///
    /// # Errors
    /// [`ActError`]: it does not.
    pub(super) fn check(&self, found: &DeviceQdisc, shown: &Value) -> Result<(), ActError> {
        let DeviceQdisc::Default { kind } = found else { return Ok(()) };
        let device = || self.name.clone();
        if kind == "noqueue" && self.queue_len()? == 0 {
            return Err(ActError::NoQueueLen { device: device() });
        }
        // A network namespace of its own may have no such file.
        let Ok(default) = std::fs::read_to_string(DEFAULT_QDISC) else { return Ok(()) };
        let default = default.trim();
        tc::other_default(shown, default).map_or(Ok(()), |kind| {
            let default = default.to_owned();
            Err(ActError::OtherDefault { device: device(), kind, default })
        })
    }

    /// Packets that the device may queue; `ip` leaves a 0 out.
    fn queue_len(&self) -> Result<u64, ActError> {
        let shown = self.json("ip", &["-j", "link", "show", "dev", &self.name])?;
        Ok(shown.get(0).and_then(|shown| shown.get("txqlen")?.as_u64()).unwrap_or(0))
    }

    /// Runs commands of `tc`, one after the other.
    pub(super) fn run(&self, commands: &[String]) -> Result<(), ActError> {
        let lines: String = commands.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        self.read("tc", &["-batch", "-"], &lines).map(|_| ())
    }

    fn json(&self, program: &str, words: &[&str]) -> Result<Value, ActError> {
        let text = self.read(program, words, "")?;
        let device = || self.name.clone();
        serde_json::from_str(&text).map_err(|error| ActError::NoJson { device: device(), error })
    }

    fn read(&self, program: &str, words: &[&str], input: &str) -> Result<String, ActError> {
        let ran = self.device.inside(|| -> io::Result<_> {
            let mut running = self
                .command(program)
                .args(words)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()?;
            if let Some(mut stdin) = running.stdin.take() {
                // What it does not read it tells the reason of.
                let _ = stdin.write_all(input.as_bytes());
            }
            running.wait_with_output()
        })?;
        let ran = ran.map_err(ActError::NoTc)?;
        if ran.status.success() {
            return Ok(String::from_utf8_lossy(&ran.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&ran.stderr);
        let said = said.lines().map(str::trim).filter(|line| !line.is_empty());
        let said = said.collect::<Vec<_>>().join("; ").replace(char::is_control, " ");
        Err(ActError::Refused { device: self.name.clone(), said })
    }

    /// Removes what a killed run left; the command that did it, if there was anything.
    ///
    /// # Errors
    /// [`ActError`]: what `tc` refuses.
    pub fn undo(&self) -> Result<Option<String>, ActError> {
        let found = self.found(&self.show()?)?;
        self.undo_found(&found)
    }

    pub(super) fn undo_found(&self, found: &DeviceQdisc) -> Result<Option<String>, ActError> {
        let DeviceQdisc::Ours { under } = found else { return Ok(None) };
        let end = tc::end(&self.name, under.as_ref());
        self.run(std::slice::from_ref(&end))?;
        Ok(Some(end))
    }

    /// Has the queue put back by this command if this process ends without doing it.
    pub(super) fn guard(&mut self, end: &str) -> Result<(), ActError> {
        let Some(lock) = &self.lock else { return Ok(()) };
        let line = format!("tc {end}");
        let started = self.device.inside(|| Guard::start(lock, &[line]))?;
        self.guard = Some(started.map_err(ActError::Guard)?);
        Ok(())
    }

    /// Tells the guard that all is done.
    pub(super) fn dismiss(&mut self) {
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
    }

    /// Attaches what steers flows.
    pub(super) fn steer(&self) -> Result<FlowSteer, ActError> {
        Ok(self.device.inside(|| FlowSteer::attach(&self.name))??)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A program, found where administrators' programs lie as well.
    fn command(&self, program: &str) -> Command {
        let mut path = (self.environment)("PATH").unwrap_or_default();
        path.push(":");
        path.push(PROGRAM_PATHS);
        let mut command = Command::new(program);
        command.env("PATH", path).env("LC_ALL", "C");
        command
    }
}
