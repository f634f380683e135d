//! Acting on a queue: flows are grouped by control into classes that share the link by how many
//! flows each has.
//!
//! [`cca::Grouping`] decides which flows move; this module does, reports and undoes it. From the
//! first packet on `tc` is started by a helper process alone.

mod by;
mod error;
mod events;
mod keeper;
mod machine;
mod program;
mod tc;

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use capture::tap::{FLOW_COUNT_MAX, FlowSteer};
use cca::{FlowWay, Grouping, GroupingRules, Sizes, Step};
use packet::{SlotClock, Span, Timestamp};
use serde_json::{Value, json};

use super::live::ends;
use super::rows::QueueReport;
use crate::clock::Clock;
use crate::device_keeper::{self, Chore as _, Helper, HelperError};
use events::Events;
use keeper::QueueKeeper;
use tc::{DeviceQdisc, Queue};

pub use by::By;
pub use error::ActError;
pub use machine::Machine;

/// A flow that was not seen for so long no longer counts.
const IDLE: Span = Span::from_seconds(10);

/// The default queue length: the link's rate times this.
const BUFFERED: Span = Span::from_ns(100_000_000);

/// What flows without a class are called.
const REST: &str = "rest";

/// The helper of a queue, if it is named so.
pub(crate) fn helper_of(chore: &OsStr) -> Option<fn(UnixStream) -> ExitCode> {
    (chore == QueueKeeper::NAME).then_some(device_keeper::serve::<QueueKeeper>)
}

/// How a queue is acted on.
#[derive(Clone, Debug)]
pub struct ActSettings {
    /// The link's rate in bits a second; of a tbf, its own.
    pub rate_bit: Option<u64>,
    /// Bytes that all classes queue together; those of the tbf, or 100 ms at the rate, where not
    /// given.
    pub buffer_bytes: Option<u64>,
    /// Periods in which a flow must have the same control before it joins a class.
    pub after_periods: u32,
    /// How long a flow stays in a class before it may move to another.
    pub hold: Span,
    /// Whether nothing is changed, and only reported what would be done.
    pub is_dry: bool,
}

/// Who names controls where it is not the model; before anything is touched.
///
/// # Errors
/// [`ActError`]: a file that cannot be read or understood, or, where `acts`, nobody names any.
pub fn names(file: Option<&Path>, acts: bool, has_model: bool) -> Result<Option<By>, ActError> {
    let by = file.map(By::open).transpose()?;
    if acts && by.is_none() && !has_model {
        return Err(ActError::Unnamed);
    }
    Ok(by)
}

/// A queue that is acted on, until it is dropped.
pub struct Act {
    machine: Machine,
    queue: Queue,
    /// Nothing in a dry run, as the next.
    helper: Option<Helper>,
    steer: Option<FlowSteer>,
    /// What is to be said once the helper is gone, and whether it was.
    loss: Option<String>,
    is_loss_said: bool,
    by: Option<By>,
    /// Of classes, by their index.
    names: Vec<String>,
    /// Classes that exist.
    made: Vec<bool>,
    sizes: Sizes,
    grouping: Grouping,
    events: Events,
    clock: Clock,
}

impl Act {
    /// Cuts the queue of a machine into classes; events go to `out`, a line of JSON each, and
    /// `controls` are those of the model.
    ///
    /// # Errors
    /// [`ActError`]: the queue is none of those that can be cut and restored, or `tc` refuses.
    pub fn begin(
        machine: Machine,
        settings: &ActSettings,
        (by, controls): (Option<By>, &[String]),
        out: Option<Box<dyn Write + Send>>,
        clock: Clock,
    ) -> Result<Self, ActError> {
        let is_dry = settings.is_dry;
        let mut events = Events::new(out, is_dry);
        let mut shown = machine.show()?;
        let mut found = machine.found(&shown)?;
        if let DeviceQdisc::Ours { under } = &found {
            let command = tc::end(machine.name(), under.as_ref());
            let fields = json!({"device": machine.name(), "commands": [command]});
            events.put((clock.realtime)(), "undo", "left by a killed run", fields)?;
            if is_dry {
                found = match under.clone() {
                    Some(tbf) => DeviceQdisc::Tbf(tbf),
                    None => DeviceQdisc::Default { kind: String::from("default") },
                };
            } else {
                machine.undo_found(&found)?;
                shown = machine.show()?;
                found = machine.found(&shown)?;
            }
        }
        let queue = queue(settings, machine.name(), &found)?;
        machine.check(&found, &shown)?;
        let rules = GroupingRules {
            after_periods: settings.after_periods,
            hold: settings.hold,
            idle: IDLE,
            flow_count_max: FLOW_COUNT_MAX as usize,
        };
        let names = by.as_ref().map_or(controls, |by| &by.names).to_vec();
        let mut act = Self {
            machine,
            queue,
            helper: None,
            steer: None,
            loss: None,
            is_loss_said: false,
            by,
            made: Vec::new(),
            sizes: Sizes { classes: vec![0; names.len()], rest: 0 },
            names,
            grouping: Grouping::new(rules),
            events,
            clock,
        };
        act.cut(is_dry, &found, tc::waiting(&shown))?;
        Ok(act)
    }

    /// Puts our classes where the queue was.
    fn cut(&mut self, is_dry: bool, found: &DeviceQdisc, waiting: u64) -> Result<(), ActError> {
        let commands = self.queue.begin();
        let stood = match found {
            DeviceQdisc::Tbf(tbf) => format!("tbf, class {}", tbf.class),
            DeviceQdisc::Default { kind } | DeviceQdisc::Other { kind, .. } => kind.clone(),
            DeviceQdisc::Ours { .. } => String::new(),
        };
        let fields = json!({
            "device": self.machine.name(), "found": stood, "rate_bit": self.queue.rate_bit,
            "buffer_bytes": self.queue.buffer_bytes, "packets_lost_max": waiting,
            "commands": commands, "undone_by": self.queue.end(),
        });
        self.events.put((self.clock.realtime)(), "begin", "--act", fields)?;
        if is_dry {
            return Ok(());
        }
        self.helper = self.machine.help(&self.queue)?;
        self.steer = Some(self.machine.steer()?);
        Ok(())
    }

    /// The helper is gone: the queue stays as it is, and nothing acts on it from here on. Another
    /// run may, and can put it back.
    fn lose(&mut self, how: &str) -> Result<(), ActError> {
        (self.helper, self.steer) = (None, None);
        self.machine.release();
        let (device, command) = (self.machine.name(), self.queue.end());
        self.loss = Some(format!(
            "{device}: the process that changes its queue and restores it has ended ({how}): the \
             queue stays as it is, nothing is changed any more, and counting continues; restore \
             it: tc {command}"
        ));
        let fields = json!({"device": device, "undone_by": command});
        self.events.put(
            (self.clock.realtime)(),
            "lost",
            &format!("the helper has ended: {how}"),
            fields,
        )
    }

    /// Once, that the helper is gone.
    pub fn take_warning(&mut self) -> Option<String> {
        let is_said = std::mem::replace(&mut self.is_loss_said, self.loss.is_some());
        self.loss.clone().filter(|_| !is_said)
    }

    /// A period has ended. Without its helper nothing is done any more, which is no error yet.
    ///
    /// # Errors
    /// [`ActError`]: what `tc` refuses, or events that cannot be written.
    pub fn look(&mut self, told: &QueueReport, clock: SlotClock) -> Result<(), ActError> {
        let time = clock.start(told.period.end());
        if let Some(how) = self.helper.as_mut().and_then(Helper::lost) {
            self.lose(&how)?;
        }
        if self.loss.is_some() {
            return Ok(());
        }
        self.read_names(time)?;
        let mut seen = Vec::with_capacity(told.flows.len());
        for (flow, named) in told.flows.iter().zip(&told.named) {
            let name = match &self.by {
                Some(by) => by.name(ends(flow.way).0),
                None => named.and_then(|named| named.control),
            };
            // What only waits brings nothing that could be steered.
            if flow.ingress_bytes > 0 {
                seen.push((flow.way, name, named.and_then(|named| named.probability())));
            }
        }
        let names = seen.iter().map(|&(way, name, _)| (way, name));
        let steps = self.grouping.look(time, names);
        self.share(time)?;
        if self.loss.is_some() {
            return Ok(());
        }
        for step in steps {
            let probability = |way: FlowWay| {
                seen.iter()
                    .find(|(seen, ..)| *seen == way)
                    .and_then(|&(.., probability)| probability)
            };
            self.step(time, step, probability)?;
        }
        Ok(())
    }

    fn read_names(&mut self, time: Timestamp) -> Result<(), ActError> {
        let Some(by) = &mut self.by else { return Ok(()) };
        if let Err(said) = by.read() {
            let fields = json!({"file": by.path().display().to_string()});
            return self.events.put(time, "names", &format!("as before: {said}"), fields);
        }
        self.names.clone_from(&by.names);
        Ok(())
    }

    /// Updates the shares of the link if numbers of flows have changed.
    fn share(&mut self, time: Timestamp) -> Result<(), ActError> {
        let sizes = self.grouping.sizes(self.names.len());
        if sizes == self.sizes {
            return Ok(());
        }
        self.sizes = sizes;
        self.made.resize(self.names.len(), false);
        let mut minors = vec![(tc::minor(None), self.sizes.rest)];
        let mut names = vec![REST];
        for (class, (&size, made)) in self.sizes.classes.iter().zip(&mut self.made).enumerate() {
            *made |= size > 0;
            // A class that is empty stays: what waits in it still has to leave.
            if *made {
                minors.push((tc::minor(Some(class)), size));
                names.push(self.names.get(class).map_or("", String::as_str));
            }
        }
        let parts = self.queue.parts(&minors);
        let commands: Vec<String> = parts.iter().flat_map(|&part| self.queue.part(part)).collect();
        let classes: Vec<Value> = parts
            .iter()
            .zip(&names)
            .map(|(part, name)| {
                json!({
                    "class": name, "id": format!("{}{:x}", tc::HANDLE, part.minor),
                    "flows": part.flows, "rate_bit": part.rate_bit,
                    "buffer_bytes": part.buffer_bytes,
                })
            })
            .collect();
        let fields = json!({"classes": classes, "commands": commands});
        self.events.put(time, "share", "flows arrived, ended or moved", fields)?;
        let Some(helper) = &mut self.helper else { return Ok(()) };
        match helper.ask::<QueueKeeper>(minors) {
            Err(HelperError::Lost(how)) => self.lose(&how),
            done => done.map_err(|error| self.machine.error(error)),
        }
    }

    fn step(
        &mut self,
        time: Timestamp,
        step: Step,
        probability: impl Fn(FlowWay) -> Option<f64>,
    ) -> Result<(), ActError> {
        let name = |class: Option<usize>| {
            class.map_or(REST, |class| self.names.get(class).map_or("", String::as_str))
        };
        match step {
            Step::Move { way, from, to, times } => {
                let whose = match &self.by {
                    Some(by) => by.path().display().to_string(),
                    None => probability(way)
                        .map_or(String::from("the model"), |sure| format!("the model, {sure:.2}")),
                };
                let to_name = name(Some(to));
                let cause = format!("identified as {to_name} {times} times in a row by {whose}");
                let fields = json!({"flow": flow(way), "from": name(from), "to": to_name});
                self.events.put(time, "move", &cause, fields)?;
                let class_id = tc::class_id(tc::minor(Some(to)));
                match &mut self.steer {
                    Some(steer) => Ok(steer.put(ends(way), class_id)?),
                    None => Ok(()),
                }
            }
            Step::Leave { way, from } => {
                let cause = format!("sent nothing for {} s", IDLE.as_seconds_f64());
                let fields = json!({"flow": flow(way), "from": name(Some(from))});
                self.events.put(time, "leave", &cause, fields)?;
                match &mut self.steer {
                    Some(steer) => Ok(steer.leave(ends(way))?),
                    None => Ok(()),
                }
            }
        }
    }

    /// The latest that was done since the last time, for people.
    pub fn take_recent(&mut self) -> impl Iterator<Item = String> {
        self.events.take_recent()
    }

    /// Puts back what was there.
    ///
    /// # Errors
    /// [`ActError`]: what `tc` refuses, or events that cannot be written.
    pub fn end(&mut self, cause: &str) -> Result<(), ActError> {
        let beyond = self.grouping.not_kept();
        let Some(helper) = self.helper.take() else {
            return self.loss.take().map_or(Ok(()), |said| Err(ActError::Lost(said)));
        };
        let command = self.queue.end();
        // First nobody is steered, then there is nowhere to steer to.
        self.steer = None;
        let shown = match helper.end() {
            Err(HelperError::Lost(how)) => {
                self.lose(&how)?;
                return self.end(cause);
            }
            ended => ended.map_err(|error| self.machine.error(error))?,
        };
        let shown: Value = serde_json::from_str(&shown).unwrap_or(Value::Null);
        let made = self.made.iter().enumerate().filter(|(_, made)| **made);
        let classes = made.map(|(class, _)| Some(class)).chain([None]).map(|class| {
            let name = class.map_or(REST, |class| self.names.get(class).map_or("", String::as_str));
            let of = |what: &str| tc::counts(&shown, tc::minor(class))?.get(what).cloned();
            json!({
                "class": name, "sent_bytes": of("bytes"), "drops": of("drops"),
                "packets_lost_max": of("qlen"),
            })
        });
        let classes: Vec<Value> = classes.collect();
        let fields = json!({
            "device": self.machine.name(), "classes": classes, "commands": [command],
            "times_no_room": beyond,
        });
        self.events.put((self.clock.realtime)(), "end", cause, fields)
    }
}

impl Drop for Act {
    fn drop(&mut self) {
        // On the way of another error, which is what is reported. What fails here the helper tries
        // again.
        let _ = self.end("the command ends with an error");
    }
}

/// How the queue is to be cut, where that can be.
fn queue(settings: &ActSettings, device: &str, found: &DeviceQdisc) -> Result<Queue, ActError> {
    let device = || device.to_owned();
    let (under, rate_bit) = match (found, settings.rate_bit) {
        (DeviceQdisc::Tbf(tbf), None) => (Some(tbf.clone()), tbf.rate_bit),
        (DeviceQdisc::Tbf(tbf), Some(_)) => {
            return Err(ActError::RateOfTbf { device: device(), rate_bit: tbf.rate_bit });
        }
        (DeviceQdisc::Default { .. } | DeviceQdisc::Ours { .. }, Some(rate)) => (None, rate),
        (DeviceQdisc::Default { kind }, None) => {
            return Err(ActError::RateUnknown { device: device(), kind: Some(kind.clone()) });
        }
        (DeviceQdisc::Ours { .. }, None) => {
            return Err(ActError::RateUnknown { device: device(), kind: None });
        }
        (DeviceQdisc::Other { kind, handle }, _) => {
            let (kind, handle) = (kind.clone(), handle.clone());
            return Err(ActError::Operators { device: device(), kind, handle });
        }
    };
    let buffered = (rate_bit / 8).saturating_mul(BUFFERED.as_ns().unsigned_abs()) / 1_000_000_000;
    let own = under.as_ref().map_or(buffered, |tbf| tbf.limit_bytes);
    let buffer_bytes = settings.buffer_bytes.unwrap_or(own);
    Ok(Queue { device: device(), under, rate_bit, buffer_bytes })
}

fn flow(way: FlowWay) -> String {
    let (source, destination) = ends(way);
    format!("{source} → {destination}")
}
