//! `cca` in a run: a lens on one tap, a lens that also reads the downstream tap of captures in the
//! pass, or taps in the kernel alongside all passes.

#[cfg(all(target_os = "linux", feature = "tap"))]
mod choosing;
mod one_tap;
mod two_captures;
#[cfg(all(target_os = "linux", feature = "tap"))]
mod two_interfaces;

use std::fmt;
use std::path::{Path, PathBuf};

use engine::columns::Schema;
use packet::SlotClock;

#[cfg(all(target_os = "linux", feature = "tap"))]
pub use two_interfaces::Devices;

use super::naming::{Namer, OtherTaps};
use super::period::PeriodReport;
use super::settings::{CcaSettings, SettingsError, Taps};
use super::taps::Downstream;
use super::{flight, read_model, rows};
use crate::application::{Application, Opening, Refusal, Site, Wants, Watchers};
use crate::outlet::Outlet;
use crate::reading::Needs;
use crate::second;

/// What flows have in a queue, or in flight beyond one tap.
pub struct Cca {
    settings: CcaSettings,
    clock: SlotClock,
    namer: Option<Namer>,
    taps: Taps,
    /// Captures of the downstream tap.
    reads: Vec<PathBuf>,
    /// The downstream tap, if a front end has opened it.
    downstream: Option<Downstream>,
    /// Devices of both taps.
    #[cfg(all(target_os = "linux", feature = "tap"))]
    devices: Option<two_interfaces::Devices>,
    shown: PeriodView,
}

/// Values of periods for a front end, in addition to rows.
#[derive(Default)]
pub enum PeriodView {
    /// Nothing.
    #[default]
    Nothing,
    /// What flows have in flight beyond one tap.
    Flight(Outlet<Vec<flight::FlightReport>>),
    /// What flows have in a queue between two taps.
    Queue(Outlet<Vec<rows::QueueReport>>),
}

impl Cca {
    /// For a front end that has checked the settings, read the model, and opened the downstream
    /// tap where that is a capture.
    #[must_use]
    pub fn shown_by(
        settings: CcaSettings,
        (clock, namer): (SlotClock, Option<Namer>),
        downstream: Option<Downstream>,
        shown: PeriodView,
    ) -> Self {
        let taps = settings.taps(false);
        Self { downstream, shown, ..Self::new(settings, clock, namer, taps) }
    }

    /// The same with both taps in the kernel, for so long.
    #[cfg(all(target_os = "linux", feature = "tap"))]
    #[must_use]
    pub fn of_devices(
        settings: CcaSettings,
        (clock, namer): (SlotClock, Option<Namer>),
        devices: Devices,
        shown: PeriodView,
    ) -> Self {
        let taps = settings.taps(true);
        let devices = Some(devices);
        Self { devices, shown, ..Self::new(settings, clock, namer, taps) }
    }

    /// The same, which reads this file again while packets come.
    #[must_use]
    pub fn reads_again(mut self, path: Option<&Path>) -> Self {
        self.reads.extend(path.map(Path::to_owned));
        self
    }

    const fn new(
        settings: CcaSettings,
        clock: SlotClock,
        namer: Option<Namer>,
        taps: Taps,
    ) -> Self {
        Self {
            settings,
            clock,
            namer,
            taps,
            reads: Vec::new(),
            downstream: None,
            #[cfg(all(target_os = "linux", feature = "tap"))]
            devices: None,
            shown: PeriodView::Nothing,
        }
    }
}

/// Nothing of any frame: taps in the kernel look at packets themselves.
const NOTHING: Needs = Needs { stage: "cca", len: 0, takes_all: false };

impl Application for Cca {
    const NAME: &'static str = "cca";
    const ABOUT: &'static str =
        "Bytes of heavy flows in a queue, or in flight: congestion control, RTT, losses";
    const EXAMPLE: &'static str = "\
# Reporting interval, and flows per interval, the heaviest; 0 for all.
# every = \"1s\"
# rows = 10
# Length of the slots into which packets are grouped.
# slot = \"1ms\"
# Two taps: [input] is upstream of a queue, this downstream of it. Captures, or an interface that is
# tapped by eBPF; ingress names the upstream interface if it is not that of [input].
# egress = \"after.pcapng\"
# ingress = \"lan0\"
# Two taps only: which bytes have passed (highest or first), the fraction of packets read, and an
# offset added to downstream timestamps of captures.
# passed = \"highest\"
# sample = 1.0
# egress-offset = \"0ms\"
# Two interfaces only: the kernel reports every packet instead of slots.
# each-packet = false
# Identify congestion controls: with two taps by the model cca, with one by a model that was trained
# on bytes in flight.
# model = \"cca\"
# max-flows = 65536
";

    type Settings = CcaSettings;

    fn ready(settings: CcaSettings, site: &Site<'_>) -> Result<Self, Refusal> {
        let of = |error: SettingsError| Refusal::of(error.key(), error);
        let taps = settings.taps(site.is_live);
        let clock = settings.clock().map_err(of)?;
        settings.check(taps, &[]).map_err(of)?;
        let namer = namer(&settings, clock)?;
        let mut cca = Self::new(settings, clock, namer, taps);
        match taps {
            Taps { are_two: false, .. } => {}
            Taps { are_live: false, .. } => {
                cca.reads = second::find(&cca.settings.egress, site)?;
            }
            #[cfg(all(target_os = "linux", feature = "tap"))]
            Taps { .. } => cca.devices = Some(two_interfaces::Devices::find(&cca.settings, site)?),
            #[cfg(not(all(target_os = "linux", feature = "tap")))]
            Taps { .. } => {
                let wanted = "wanted: captures, or the command `wirelens`";
                let message = format_args!("no taps of interfaces in this build; {wanted}");
                return Err(Refusal::of("egress", message));
            }
        }
        Ok(cca)
    }

    fn wants(&self) -> Wants {
        match self.taps {
            Taps { are_live: true, are_two: true } => Wants::frames(NOTHING),
            _ => Wants::frames(flight::NEEDS),
        }
    }

    fn schema(&self, _: bool) -> Schema {
        if self.taps.are_two { rows::SCHEMA } else { flight::SCHEMA }
    }

    fn reads(&self) -> &[PathBuf] {
        &self.reads
    }

    fn has_maps(&self) -> bool {
        self.taps.are_live && self.taps.are_two
    }

    fn unsteered(&self) -> Option<&'static str> {
        let are_two_captures = self.taps.are_two && !self.taps.are_live;
        are_two_captures.then_some(
            "two taps of captures report all flows of a queue, heaviest first, and cannot select \
             flows",
        )
    }

    fn open(self, opening: Opening) -> Result<Watchers, Refusal> {
        let Taps { are_live, are_two } = self.taps;
        if !are_two {
            one_tap::open(self, opening)
        } else if !are_live {
            two_captures::open(self, opening)
        } else {
            #[cfg(all(target_os = "linux", feature = "tap"))]
            return two_interfaces::open(self, opening);
            #[cfg(not(all(target_os = "linux", feature = "tap")))]
            return Err(Refusal::new("no taps of interfaces in this build"));
        }
    }
}

/// Who names controls, if that is asked for.
fn namer(settings: &CcaSettings, clock: SlotClock) -> Result<Option<Namer>, Refusal> {
    let Some(folder) = &settings.model else { return Ok(None) };
    let of = |error: &dyn fmt::Display| Refusal::of("model", error);
    let model = read_model(folder, clock).map_err(|error| of(&error))?;
    let named = if settings.egress.is_empty() {
        Namer::of_flight(model)
    } else {
        Namer::of_queue(model, settings.is_sampled())
    };
    named.map(Some).map_err(|other| {
        let wanted = match other {
            OtherTaps::One => "leave egress out, or try \"cca\", which reads two taps",
            OtherTaps::Two => {
                "give the downstream tap with egress, or try \"cca-onetap\", which reads one"
            }
        };
        of(&format_args!("{other}; {wanted}"))
    })
}

/// Periods on their way out.
struct Out<T> {
    outlet: Option<Outlet>,
    shown: Option<Outlet<Vec<T>>>,
    clock: SlotClock,
    controls: Vec<String>,
}

impl<T: PeriodReport> Out<T> {
    fn new(
        opening: &mut Opening,
        shown: Option<Outlet<Vec<T>>>,
        clock: SlotClock,
        namer: Option<&Namer>,
    ) -> Result<Self, Refusal> {
        let outlet = opening.outlet.take();
        if outlet.is_none() && shown.is_none() {
            return Err(Refusal::new("rows go nowhere"));
        }
        Ok(Self { outlet, shown, clock, controls: Namer::controls(namer) })
    }

    /// Of a period without flows there are no rows.
    fn put(&self, told: &T) -> Result<(), Refusal> {
        if let Some(shown) = &self.shown {
            shown.put(vec![told.clone()]);
        }
        if let Some(outlet) = self.outlet.as_ref().filter(|_| !told.is_empty()) {
            let columns = told.columns(self.clock, &self.controls);
            outlet.put(columns.map_err(Refusal::new)?);
        }
        Ok(())
    }
}

impl PeriodView {
    fn flight(self) -> Option<Outlet<Vec<flight::FlightReport>>> {
        if let Self::Flight(outlet) = self { Some(outlet) } else { None }
    }

    fn queue(self) -> Option<Outlet<Vec<rows::QueueReport>>> {
        if let Self::Queue(outlet) = self { Some(outlet) } else { None }
    }
}
