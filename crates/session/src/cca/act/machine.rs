//! A device's queue in our hands: `tc` in its network namespace, a lock, and the helper that
//! changes the queue later and puts it back.

use std::io;

use capture::tap::FlowSteer;
use serde_json::Value;

use super::ActError;
use super::keeper::{QueueKeeper, QueueTask};
use super::program::{Program, ProgramError};
use super::tc::{self, DeviceQdisc, Queue};
use crate::Environment;
use crate::cca::live::Device;
use crate::device_keeper::{Helper, HelperError};
use crate::lock::Lock;

/// What the kernel puts on devices by itself.
const DEFAULT_QDISC: &str = "/proc/sys/net/core/default_qdisc";

/// A device whose queue is ours to change, or to look at.
pub struct Machine {
    device: Device,
    name: String,
    environment: Environment,
    lock: Option<Lock>,
}

impl Machine {
    /// A device that is only read.
    #[must_use]
    pub fn look_at(device: &Device, environment: Environment) -> Self {
        let name = device.name().to_owned();
        Self { device: device.clone(), name, environment, lock: None }
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
        self.json("tc", &tc::show(&self.name))
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
    fn run(&self, commands: &[String]) -> Result<(), ActError> {
        let lines: String = commands.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        self.read("tc", &["-batch", "-"], &lines).map(|_| ())
    }

    fn json(&self, program: &str, words: &[&str]) -> Result<Value, ActError> {
        let text = self.read(program, words, "")?;
        let device = || self.name.clone();
        serde_json::from_str(&text).map_err(|error| ActError::NoJson { device: device(), error })
    }

    fn read(&self, program: &str, words: &[&str], input: &str) -> Result<String, ActError> {
        let program = self.program(program)?;
        let ran = self.device.inside(|| program.run(words, input))?;
        ran.map_err(|error| match error {
            ProgramError::Start(error) => ActError::NoTc(error),
            ProgramError::Refused(said) => ActError::Refused { device: self.name.clone(), said },
        })
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

    /// Has a helper cut the queue, who puts it back when that is asked, or when this process ends.
    pub(super) fn help(&self, queue: &Queue) -> Result<Option<Helper>, ActError> {
        let Some(lock) = &self.lock else { return Ok(None) };
        let task = QueueTask { tc: self.program("tc")?, queue: queue.clone() };
        let started = self.device.inside(|| Helper::start::<QueueKeeper>(Some(lock), &task))?;
        started.map(|(helper, _)| Some(helper)).map_err(|error| self.error(error))
    }

    /// Lets others act on the device.
    pub(super) fn release(&mut self) {
        self.lock = None;
    }

    /// What a helper did not do.
    pub(super) fn error(&self, error: HelperError) -> ActError {
        let device = self.name.clone();
        match error {
            HelperError::Refused(said) => ActError::Refused { device, said },
            error @ (HelperError::Start(_) | HelperError::Lost(_)) => {
                ActError::Helper { device, said: error.to_string() }
            }
        }
    }

    /// Attaches what steers flows.
    pub(super) fn steer(&self) -> Result<FlowSteer, ActError> {
        Ok(self.device.inside(|| FlowSteer::attach(&self.name))??)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn program(&self, name: &str) -> Result<Program, ActError> {
        Program::find(name, (self.environment)("PATH")).map_err(ActError::NoTc)
    }
}
