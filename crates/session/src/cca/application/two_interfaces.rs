//! Taps of two interfaces: alongside all passes, as the kernel itself processes the packets.

use engine::run::Control;
use packet::Span;

use super::choosing::Choosing;
use super::{Cca, Out};
use crate::application::{Beside, BesideReport, Opening, Refusal, Site, Watchers};
use crate::cca::live::{
    self, Departures, Device, DeviceError, FlowChoices, Watch, WatchError, WatchOptions,
};
use crate::cca::naming::Namer;
use crate::cca::rows::QueueReport;
use crate::cca::settings::CcaSettings;

/// The devices of both taps, and how they were named.
pub struct Devices {
    ingress: (String, Device),
    egress: (String, Departures),
    /// How long they are watched, where that is not as long as others look at packets.
    duration: Option<Span>,
    /// Whether no other application runs.
    are_alone: bool,
}

impl Devices {
    /// For a front end: no other application runs.
    ///
    /// # Errors
    /// [`DeviceError`]: a name that stands for no device, or the same one twice.
    pub fn alone(ingress: &str, egress: &str, duration: Option<Span>) -> Result<Self, DeviceError> {
        if ingress == egress {
            return Err(DeviceError::both_taps(egress));
        }
        let ingress = (ingress.to_owned(), ingress.parse()?);
        let egress = (egress.to_owned(), egress.parse()?);
        Ok(Self { ingress, egress, duration, are_alone: true })
    }

    /// Whether both taps can be attached; they are not afterwards.
    ///
    /// # Errors
    /// [`WatchError`]
    pub fn check(&self, options: WatchOptions) -> Result<(), WatchError> {
        Watch::begin(options, (&self.ingress.1, &self.egress.1)).map(drop)
    }

    /// Reads their names; whether they are there is seen when taps are attached.
    pub(super) fn find(settings: &CcaSettings, site: &Site<'_>) -> Result<Self, Refusal> {
        let [egress] = settings.egress.as_slice() else {
            let message = "only one interface is possible; wanted its name";
            return Err(Refusal::of("egress", message));
        };
        let behind = egress.to_string_lossy().into_owned();
        if egress.exists() && !crate::second::is_interface(egress) {
            return Err(Refusal::of(
                "egress",
                format_args!(
                    "{behind} is a file, and [input] has an interface; wanted: interfaces for \
                     both taps, or captures for both"
                ),
            ));
        }
        let listened_on = site.input.map(|input| input.interface.as_slice());
        let before = match (&settings.ingress, listened_on.unwrap_or_default()) {
            (Some(ingress), _) => ingress.clone(),
            (None, [only]) => only.clone(),
            (None, _) => {
                return Err(Refusal::of(
                    "egress",
                    "[input] has several interfaces; wanted: ingress, with the one upstream of the \
                     queue",
                ));
            }
        };
        if before == "any" {
            let message = "any is not an interface that can be tapped; give ingress";
            return Err(Refusal::of("egress", message));
        }
        let device = before.parse::<Device>().map_err(|error| Refusal::of("ingress", error))?;
        let departures =
            behind.parse::<Departures>().map_err(|error| Refusal::of("egress", error))?;
        if before == behind {
            return Err(Refusal::of("egress", DeviceError::both_taps(&behind)));
        }
        let (ingress, egress) = ((before, device), (behind, departures));
        Ok(Self { ingress, egress, duration: None, are_alone: false })
    }
}

pub(super) fn open(cca: Cca, mut opening: Opening) -> Result<Watchers, Refusal> {
    let Cca { settings, clock, mut namer, devices, shown, .. } = cca;
    let Some(Devices { ingress, egress, duration, are_alone }) = devices else {
        return Err(Refusal::new("no interfaces"));
    };
    let out = Out::new(&mut opening, shown.queue(), clock, namer.as_ref())?;
    let options = WatchOptions::new(&settings, clock, namer.as_ref().map(|namer| &namer.model));
    let mut watch = Watch::begin(options, (&ingress.1, &egress.1))?;
    if let Some(namer) = &mut namer {
        namer.followed_max = options.followed_max;
    }
    let names = [ingress.0, egress.0];
    if let Some(tell) = opening.tell.filter(|_| !are_alone) {
        let [before, behind] = &names;
        tell(&format!("cca: listening on {before}, and downstream of the queue on {behind}"));
    }
    // A rule about flows may come at a reload, where there is any rule.
    let mut watchers = Watchers::default();
    if !opening.rules.now().is_empty() {
        let (choices, chosen) = FlowChoices::new(&opening.rules);
        watch.follow_chosen(chosen);
        watchers = Choosing::new(&opening.rules, choices).into();
    }
    let counting = Some(watch.counting());
    let queue = Queue { watch, namer, out, names, duration, are_alone, tell: opening.tell };
    Ok(Watchers { beside: Some(Box::new(queue)), counting, ..watchers })
}

impl From<WatchError> for Refusal {
    fn from(error: WatchError) -> Self {
        Self::new(error)
    }
}

struct Queue {
    watch: Watch,
    namer: Option<Namer>,
    out: Out<QueueReport>,
    names: [String; 2],
    duration: Option<Span>,
    are_alone: bool,
    tell: Option<fn(&str)>,
}

impl Queue {
    fn watch(&mut self, over: &Control) -> Result<(), Refusal> {
        let Self { watch, namer, out, duration, .. } = self;
        watch.run(*duration, over, namer.as_mut(), |told| out.put(told))?;
        watch.count()?;
        // What was reported before is complete.
        Ok(watch.check_devices()?)
    }

    /// Before lines that stand among those of others.
    const fn prefix(&self) -> &'static str {
        if self.are_alone { "" } else { "cca: " }
    }

    fn lines(&self) -> Result<String, WatchError> {
        let counts = self.names.iter().zip(self.watch.counts()?);
        let own = self.prefix();
        let mut lines: String =
            counts.map(|(name, counts)| format!("{own}{}", live::lines(name, &counts))).collect();
        if let Some(count) =
            self.watch.chosen().map(FlowChoices::beyond_max).filter(|&count| count > 0)
        {
            lines.push_str(&format!(
                "cca: {count} times a flow exceeded those for which the taps know whether rules \
                 select them\n"
            ));
        }
        lines.push_str(&self.watch.late_line());
        if let Some(missed) = self.watch.missed() {
            lines.push_str(&missed.line());
        }
        Ok(lines)
    }
}

impl Beside for Queue {
    fn run(mut self: Box<Self>, over: &Control) -> BesideReport {
        let own = self.prefix();
        let failure = self.watch(over).err().map(|refusal| format!("{own}{refusal}"));
        if let (Some(failure), Some(tell), false) = (&failure, self.tell, self.are_alone) {
            tell(&format!("{failure}; the others continue"));
        }
        match self.lines() {
            Ok(lines) => BesideReport { lines, loss: failure },
            Err(error) => BesideReport { lines: format!("cca: {error}\n"), loss: failure },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_device_is_not_taken_for_both_taps() {
        let said = Devices::alone("r:up0", "r:up0", None).err().map(|error| error.to_string());
        assert!(said.is_some_and(|said| said.contains("xmit:r:up0")));
        assert!(Devices::alone("up0", "xmit:up0", None).is_ok());
        assert!(Devices::alone("r:up0", "up0", None).is_ok());
    }
}
