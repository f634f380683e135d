//! A queue that is watched while it runs: taps by eBPF, the heaviest flows of the link.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::Duration;

use capture::Place;
use capture::sys::namespace;
use capture::tap::{SlotTap, SlotTapCounts, SlotTapOptions, TapError, TapSide, Told as Heard};
use cca::{Change, FlowWay, Follow, Pair, Period, Rules, Segment, TapOptions};
use packet::flow_key::Endpoint;
use packet::{FlowKey, Protocol, SlotClock, Span, Timestamp};

use super::args::CcaArguments;
use super::departures::{Departures, Missed};
use crate::failure::Failure;
use crate::interrupt;
use session::cca::naming::Namer;
use session::cca::rows::Told;

/// One packet in so many is told of flows that are not followed. A flow that brings a hundredth of
/// a link of 100 Mbit/s shows within half a second.
const SEEN_ONE_IN: f64 = 16.0;

/// A packet that has come is stamped at once, and takes less than this until a slot shows it, but
/// on a machine that has no time for it: what comes later still is part of the next period's past.
const SETTLED_AFTER: Duration = Duration::from_millis(10);

/// Slots are taken from the kernel this often, so that its ring needs room for little.
const DRAIN_EVERY: Duration = Duration::from_millis(20);

/// A device, in this network namespace or another.
#[derive(Clone, Debug)]
pub(super) enum Device {
    Here(String),
    Elsewhere(Place),
}

impl Device {
    /// `DEV` or `NETNS:DEV`.
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        if text.contains(':') {
            return text.parse().map(Self::Elsewhere).map_err(Failure::usage);
        }
        Ok(Self::Here(text.to_owned()))
    }

    /// Its name where it is.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Here(device) => device,
            Self::Elsewhere(place) => &place.device,
        }
    }

    /// Attaches a tap to it, in its namespace.
    pub(super) fn attach(
        &self,
        attach: impl FnOnce(&str) -> Result<(), TapError> + Send,
    ) -> Result<(), Failure> {
        self.inside(|| attach(self.name()))?.map_err(Failure::error)
    }

    /// Does something in its network namespace.
    pub(super) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Failure> {
        match self {
            Self::Here(_) => Ok(work()),
            Self::Elsewhere(place) => {
                let file = place.namespace_file();
                // A thread of its own, since a thread that went there does not come back.
                let working =
                    thread::scope(|scope| scope.spawn(|| enter(&file).map(|()| work())).join());
                working.unwrap_or_else(|_| Err(Failure::error("the thread that went there ended")))
            }
        }
    }
}

fn enter(namespace_file: &Path) -> Result<(), Failure> {
    let entering = namespace::open(namespace_file).and_then(|file| namespace::enter(&file));
    entering.map_err(|error| {
        let file = namespace_file.display();
        Failure::error(format_args!(
            "{file}: {error}; wanted a network namespace, as `ip netns list` names them, and root"
        ))
    })
}

/// A queue, and what is known of it.
pub(super) struct Watch {
    tap: SlotTap,
    pair: Pair,
    follow: Follow,
    clock: SlotClock,
    /// Whether the taps tell packets and not slots.
    each_packet: bool,
    missed: Option<Missed>,
}

impl Watch {
    /// Attaches both taps.
    pub(super) fn begin(
        arguments: &CcaArguments,
        options: TapOptions,
        (ingress, egress): (&Device, &Departures),
    ) -> Result<Self, Failure> {
        let each_packet = arguments.each_packet;
        let options_of_tap = SlotTapOptions {
            slot: options.clock.length(),
            share: arguments.sample,
            each_packet,
            seen_share: 1.0 / SEEN_ONE_IN,
        };
        let mut tap = SlotTap::load(options_of_tap).map_err(Failure::error)?;
        ingress.attach(|name| tap.attach(name, TapSide::Ingress))?;
        egress.attach(&mut tap)?;
        let followed_max = followed_max(arguments, options);
        Ok(Self {
            tap,
            pair: Pair::new(options),
            follow: Follow::new(followed_max),
            clock: options.clock,
            each_packet,
            missed: egress.missed(),
        })
    }

    /// Watches until it is told to end, and tells of each period.
    pub(super) fn run(
        &mut self,
        period_len: usize,
        duration: Option<Span>,
        rules: Rules,
        mut namer: Option<&mut Namer>,
        mut put: impl FnMut(&Told) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let control = interrupt::control();
        let len = i64::try_from(period_len).unwrap_or(i64::MAX);
        let now = self.time()?;
        let end = duration.map(|duration| now.plus(duration));
        // The first whole one.
        let mut start = (self.clock.slot(now).div_euclid(len) + 1).saturating_mul(len);
        while !control.is_stopped() && end.is_none_or(|end| self.clock.start(start) < end) {
            let period = Period { start, len: period_len };
            let past = self.clock.start(period.end().saturating_add(1));
            if !self.wait_until(past, &control)? {
                break;
            }
            self.look_at_open_slots()?;
            let mut told =
                Told::of(&mut self.pair, period, rules, usize::MAX, namer.as_deref_mut());
            told.unseen = self
                .missed
                .as_ref()
                .map(|missed| told.ways().map(|way| missed.bytes(way)).collect());
            put(&told)?;
            let brought = told.flows.iter().map(|flow| (flow.way, flow.ingress_bytes)).collect();
            self.choose(&brought)?;
            self.pair.forget_old();
            let behind = self.clock.slot(self.time()?).div_euclid(len).saturating_mul(len);
            // Periods that whoever takes rows had no time for are left out, not queued.
            start = period.end().max(behind);
        }
        Ok(())
    }

    /// Takes slots from the kernel until a moment is past; `false` when it is told to end before.
    fn wait_until(
        &mut self,
        past: Timestamp,
        control: &engine::run::Control,
    ) -> Result<bool, Failure> {
        loop {
            let left_ns = past.since(self.time()?).as_ns();
            let left = Duration::from_nanos(u64::try_from(left_ns).unwrap_or(0)) + SETTLED_AFTER;
            thread::sleep(left.min(DRAIN_EVERY));
            self.drain();
            // Nobody waits a period for a flow that there is a place for.
            let changes = self.follow.fill();
            self.change(changes)?;
            if left <= DRAIN_EVERY {
                return Ok(true);
            }
            if control.is_stopped() || self.tap.check_devices().is_err() {
                return Ok(false);
            }
        }
    }

    fn time(&mut self) -> Result<Timestamp, Failure> {
        self.tap.keep_time().map_err(Failure::error)
    }

    fn drain(&mut self) {
        let Self { tap, pair, follow, each_packet, missed, .. } = self;
        tap.read(|heard| match heard {
            Heard::Slot { side, flow, slot } => {
                let Some(way) = follow.way(flow.index, flow.generation) else { return };
                if let Some(missed) = missed.as_mut().filter(|_| side == TapSide::Egress) {
                    missed.put(way, &slot);
                }
                let tap = match side {
                    TapSide::Ingress => &mut pair.ingress,
                    TapSide::Egress => &mut pair.egress,
                };
                if *each_packet {
                    tap.add(way, &Segment::from_lone_slot(&slot));
                } else {
                    tap.put(way, slot);
                }
            }
            Heard::Seen { source, destination, data_len } => {
                // Each stands for those that were not told.
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                let bytes = (f64::from(data_len) * SEEN_ONE_IN) as u64;
                follow.note(way(source, destination), bytes);
            }
        });
    }

    fn look_at_open_slots(&mut self) -> Result<(), Failure> {
        let Self { tap, pair, follow, .. } = self;
        let mut looking = || -> Result<(), TapError> {
            for (way, index) in follow.followed() {
                if let Some(slot) = tap.open_slot(index, TapSide::Ingress)? {
                    pair.ingress.put_open(way, slot);
                }
                if let Some(slot) = tap.open_slot(index, TapSide::Egress)? {
                    pair.egress.put_open(way, slot);
                }
            }
            Ok(())
        };
        looking().map_err(Failure::error)
    }

    fn choose(&mut self, brought: &HashMap<FlowWay, u64>) -> Result<(), Failure> {
        let Self { pair, follow, .. } = self;
        let changes =
            follow.choose(brought, |way| pair.ingress.knows(way) || pair.egress.knows(way));
        self.change(changes)
    }

    fn change(&mut self, changes: Vec<Change>) -> Result<(), Failure> {
        let Self { tap, pair, missed, .. } = self;
        for change in changes {
            match change {
                Change::Leave { way } => {
                    tap.leave(ends(way)).map_err(Failure::error)?;
                    pair.ingress.forget(&way);
                    pair.egress.forget(&way);
                    if let Some(missed) = missed {
                        missed.forget(&way);
                    }
                }
                Change::Follow { way, index, generation } => {
                    let place = capture::tap::FlowPlace { index, generation };
                    tap.follow(ends(way), place).map_err(Failure::error)?;
                }
            }
        }
        Ok(())
    }

    /// What the tap behind the queue missed, where it may miss anything.
    pub(super) const fn missed(&self) -> Option<&Missed> {
        self.missed.as_ref()
    }

    /// Whether both devices are still there.
    pub(super) fn check_devices(&self) -> Result<(), Failure> {
        self.tap.check_devices().map_err(Failure::error)
    }

    /// What became of the packets of each tap.
    pub(super) fn counts(&self) -> Result<[SlotTapCounts; 2], Failure> {
        let of = |side| self.tap.counts(side).map_err(Failure::error);
        Ok([of(TapSide::Ingress)?, of(TapSide::Egress)?])
    }
}

/// Flows that are followed at most.
pub(super) fn followed_max(arguments: &CcaArguments, options: TapOptions) -> usize {
    let asked = if arguments.rows == 0 { options.flow_count_max } else { arguments.rows };
    asked.min(capture::tap::FLOW_COUNT_MAX as usize)
}

/// Who sends the data, and who receives it.
pub(super) fn ends(way: FlowWay) -> (SocketAddr, SocketAddr) {
    let (source, destination) = way.key.endpoints(way.direction);
    let end = |end: Endpoint| SocketAddr::new(end.address, end.port);
    (end(source), end(destination))
}

fn way(source: SocketAddr, destination: SocketAddr) -> FlowWay {
    let (key, direction) = FlowKey::from_tuple(
        source.ip(),
        destination.ip(),
        source.port(),
        destination.port(),
        Protocol::TCP,
    );
    FlowWay { key, direction }
}

/// Lines of the summary.
pub(super) fn lines(name: &str, counts: &SlotTapCounts) -> String {
    let SlotTapCounts { taken, not_followed, left_out, no_room, not_tcp, no_data, unreadable } =
        *counts;
    let mut text = format!(
        "{name}: {} packets passed = {taken} of flows followed + {not_followed} of others + \
         {no_data} TCP without data + {not_tcp} not TCP + {unreadable} unreadable",
        counts.received()
    );
    for (count, what) in [(left_out, "left out by chance"), (no_room, "whose slot was lost")] {
        if count > 0 {
            text.push_str(&format!(" + {count} {what}"));
        }
    }
    text.push('\n');
    text
}
