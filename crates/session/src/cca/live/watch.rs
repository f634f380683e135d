//! A queue that is watched while it runs: taps by eBPF, the heaviest flows of the link.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use capture::tap::{SlotTap, SlotTapCounts, SlotTapOptions, TapEvent as Heard, TapSide};
use cca::trained::SETTLED;
use cca::{Change, FlowWay, Follow, Model, Pair, Period, Rules, Segment, TapOptions};
use engine::run::Control;
use packet::flow_key::Endpoint;
use packet::{FlowKey, Protocol, SlotClock, Span, Timestamp};
use store::{Count, Counting};

use super::{Departures, Device, FlowChoices, MissedDepartures, WatchError};
use crate::cca::counted::{forgotten_early, late, late_line, of_kernel};
use crate::cca::naming::Namer;
use crate::cca::rows::QueueReport;
use crate::cca::settings::CcaSettings;

/// One packet in so many is told of flows that are not followed. A flow that brings a hundredth of
/// a link of 100 Mbit/s shows within half a second.
const SEEN_ONE_IN: f64 = 16.0;

/// A packet that has come is stamped at once, and takes less than this until a slot shows it, but
/// on a machine that has no time for it: what comes later still is counted, and is part of the next
/// period's past.
const SETTLED_AFTER: Duration = Duration::from_millis(10);

/// Slots are taken from the kernel this often, so that its ring needs room for little.
const DRAIN_EVERY: Duration = Duration::from_millis(20);

/// How a queue is watched.
#[derive(Clone, Copy, Debug)]
pub struct WatchOptions {
    /// What its taps keep.
    pub taps: TapOptions,
    /// How what passed is read from slots.
    pub rules: Rules,
    /// Slots of a period.
    pub period_len: usize,
    /// The share of the packets with data that the kernel takes.
    pub share: f64,
    /// Whether the kernel tells packets and not slots.
    pub each_packet: bool,
    /// Flows that are followed at most.
    pub followed_max: usize,
}

impl WatchOptions {
    /// As settings have it.
    #[must_use]
    pub fn new(settings: &CcaSettings, clock: SlotClock, model: Option<&Model>) -> Self {
        Self {
            taps: settings.tap_options(clock, model),
            rules: settings.rules(),
            period_len: settings.period_len(clock),
            share: settings.sample,
            each_packet: settings.each_packet,
            followed_max: settings.followed_max(),
        }
    }
}

/// A queue, and what is known of it.
pub struct Watch {
    tap: SlotTap,
    pair: Pair,
    follow: Follow,
    /// Since when every flow has been followed as soon as it was seen.
    room_since: Option<Timestamp>,
    options: WatchOptions,
    missed: Option<MissedDepartures>,
    /// Which flows may be followed; all where nothing chooses.
    chosen: Option<FlowChoices>,
    /// Counts up to the last period that was evaluated.
    counted: Arc<Mutex<Vec<Count>>>,
}

impl Watch {
    /// Attaches both taps.
    ///
    /// # Errors
    /// [`WatchError`]
    pub fn begin(
        options: WatchOptions,
        (ingress, egress): (&Device, &Departures),
    ) -> Result<Self, WatchError> {
        let mut tap = SlotTap::load(SlotTapOptions {
            slot: options.taps.clock.length(),
            share: options.share,
            each_packet: options.each_packet,
            seen_share: 1.0 / SEEN_ONE_IN,
        })?;
        ingress.attach(|name| tap.attach(name, TapSide::Ingress))?;
        egress.attach(&mut tap)?;
        Ok(Self {
            tap,
            pair: Pair::of_sampled(options.taps),
            follow: Follow::new(options.followed_max),
            room_since: None,
            options,
            missed: egress.missed(),
            chosen: None,
            counted: Arc::default(),
        })
    }

    /// Counts for who looks while it is watched: those up to the last period, and in the end all.
    #[must_use]
    pub fn counting(&self) -> Counting {
        let counted = Arc::clone(&self.counted);
        Box::new(move || counted.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Has who looks see counts as they are.
    ///
    /// # Errors
    /// [`WatchError::Tap`]
    pub fn count(&self) -> Result<(), WatchError> {
        let [ingress, egress] = self.counts()?;
        let mut counts = of_kernel("ingress", &ingress);
        counts.extend(of_kernel("egress", &egress));
        counts.push(forgotten_early(self.pair.forgotten_early()));
        counts.extend(late(self.pair.late()));
        if let Some(chosen) = &self.chosen {
            let about = "Times that a flow exceeded those for which the taps know the selection.";
            counts.push(Count::total("choices_beyond_max", about, chosen.beyond_max()));
        }
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner) = counts;
        Ok(())
    }

    /// Follows only flows that are chosen.
    pub fn follow_chosen(&mut self, chosen: FlowChoices) {
        self.chosen = Some(chosen);
    }

    /// By what flows are chosen.
    #[must_use]
    pub const fn chosen(&self) -> Option<&FlowChoices> {
        self.chosen.as_ref()
    }

    /// Watches for so long, or until it is told to end, and hands each period to `put`.
    ///
    /// # Errors
    /// [`WatchError`], and what `put` returns, at once.
    pub fn run<E: From<WatchError>>(
        &mut self,
        duration: Option<Span>,
        control: &Control,
        mut namer: Option<&mut Namer>,
        mut put: impl FnMut(&QueueReport) -> Result<(), E>,
    ) -> Result<(), E> {
        let WatchOptions { rules, period_len, .. } = self.options;
        let clock = self.clock();
        let len = i64::try_from(period_len).unwrap_or(i64::MAX);
        let now = self.time()?;
        let end = duration.map(|duration| now.plus(duration));
        // The first whole one.
        let mut start = (clock.slot(now).div_euclid(len) + 1).saturating_mul(len);
        while !control.is_stopped() && end.is_none_or(|end| clock.start(start) < end) {
            let period = Period { start, len: period_len };
            let past = clock.start(period.end().saturating_add(1));
            if !self.wait_until(past, control)? {
                break;
            }
            // A slot that a packet completes meanwhile is drained after the look.
            self.look_at_open_slots()?;
            self.drain();
            let mut told =
                QueueReport::of(&mut self.pair, period, rules, usize::MAX, namer.as_deref_mut());
            told.unseen = self
                .missed
                .as_ref()
                .map(|missed| told.ways().map(|way| missed.bytes(way)).collect());
            put(&told)?;
            self.pair.set_evaluated(period);
            self.count()?;
            let brought = told.flows.iter().map(|flow| (flow.way, flow.ingress_bytes)).collect();
            self.choose(brought)?;
            self.pair.advance(clock.start(period.end()));
            self.pair.forget_old();
            self.pair.make_room(period.end());
            let behind = clock.slot(self.time()?).div_euclid(len).saturating_mul(len);
            // Periods that whoever takes rows had no time for are left out, not queued.
            start = period.end().max(behind);
        }
        Ok(())
    }

    /// Takes slots from the kernel until a moment is past; `false` when it is told to end before.
    fn wait_until(&mut self, past: Timestamp, control: &Control) -> Result<bool, WatchError> {
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

    const fn clock(&self) -> SlotClock {
        self.options.taps.clock
    }

    fn time(&mut self) -> Result<Timestamp, WatchError> {
        Ok(self.tap.keep_time()?)
    }

    fn drain(&mut self) {
        let each_packet = self.options.each_packet;
        let Self { tap, pair, follow, missed, chosen, .. } = self;
        if let Some(chosen) = chosen {
            chosen.look();
        }
        let may_follow = |way: &FlowWay| may_follow(chosen.as_ref(), way);
        tap.read(|heard| match heard {
            Heard::Slot { side, flow, slot } => {
                let Some(way) = follow.way(flow) else { return };
                if let Some(missed) = missed.as_mut().filter(|_| side == TapSide::Egress) {
                    missed.put(way, &slot);
                }
                let tap = match side {
                    TapSide::Ingress => &mut pair.ingress,
                    TapSide::Egress => &mut pair.egress,
                };
                if each_packet {
                    tap.add(way, &Segment::from_lone_slot(&slot));
                } else {
                    tap.put(way, slot);
                }
            }
            Heard::Seen { source, destination, data_len } => {
                // Each stands for those that were not told.
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                let bytes = (f64::from(data_len) * SEEN_ONE_IN) as u64;
                let way = way(source, destination);
                if may_follow(&way) {
                    follow.note(way, bytes);
                }
            }
        });
    }

    fn look_at_open_slots(&mut self) -> Result<(), WatchError> {
        let Self { tap, pair, follow, .. } = self;
        for (way, index) in follow.followed() {
            if let Some(slot) = tap.open_slot(index, TapSide::Ingress)? {
                pair.ingress.put_open(way, slot);
            }
            if let Some(slot) = tap.open_slot(index, TapSide::Egress)? {
                pair.egress.put_open(way, slot);
            }
        }
        Ok(())
    }

    fn choose(&mut self, mut brought: HashMap<FlowWay, u64>) -> Result<(), WatchError> {
        let Self { pair, follow, chosen, .. } = self;
        let may_follow = |way: &FlowWay| may_follow(chosen.as_ref(), way);
        brought.retain(|way, _| may_follow(way));
        let is_known = |way: &FlowWay| pair.ingress.knows(way) || pair.egress.knows(way);
        let changes = follow.choose(&brought, |way| may_follow(way) && is_known(way));
        self.change(changes)
    }

    fn change(&mut self, changes: Vec<Change>) -> Result<(), WatchError> {
        let (now, clock) = (self.time()?, self.clock());
        // Where there has been room, a flow that comes is one that begins, or that does so again
        // after a pause: its first two seconds are like none that models were trained on.
        let is_new = self.room_since.is_some_and(|since| now.since(since) >= SETTLED);
        let Self { tap, pair, missed, follow, room_since, .. } = self;
        *room_since = follow.has_room().then(|| room_since.unwrap_or(now));
        for change in changes {
            match change {
                Change::Leave { way } => {
                    tap.leave(ends(way))?;
                    pair.forget(&way);
                    if let Some(missed) = missed {
                        missed.forget(&way);
                    }
                }
                Change::Follow { way, slot } => {
                    tap.follow(ends(way), slot)?;
                    if is_new {
                        pair.follow_new(way, clock.slot(now));
                    }
                }
            }
        }
        Ok(())
    }

    /// Packets that the downstream tap missed, if it may miss any.
    #[must_use]
    pub const fn missed(&self) -> Option<&MissedDepartures> {
        self.missed.as_ref()
    }

    /// What the machine had no time for, for the summary.
    #[must_use]
    pub fn late_line(&self) -> String {
        late_line(self.pair.late())
    }

    /// Whether both devices are still there.
    ///
    /// # Errors
    /// [`WatchError::Tap`], with the one that is gone.
    pub fn check_devices(&self) -> Result<(), WatchError> {
        Ok(self.tap.check_devices()?)
    }

    /// The outcome of the packets of each tap.
    ///
    /// # Errors
    /// [`WatchError::Tap`]
    pub fn counts(&self) -> Result<[SlotTapCounts; 2], WatchError> {
        Ok([self.tap.counts(TapSide::Ingress)?, self.tap.counts(TapSide::Egress)?])
    }
}

fn may_follow(chosen: Option<&FlowChoices>, way: &FlowWay) -> bool {
    chosen.is_none_or(|chosen| chosen.may_follow(way))
}

/// Who sends the data, and who receives it.
#[must_use]
pub fn ends(way: FlowWay) -> (SocketAddr, SocketAddr) {
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

/// Lines of the summary, each ended.
#[must_use]
pub fn lines(name: &str, counts: &SlotTapCounts) -> String {
    let SlotTapCounts { taken, not_followed, left_out, no_room, not_tcp, no_data, unreadable } =
        *counts;
    let mut text = format!(
        "{name}: {} packets passed = {taken} of tracked flows + {not_followed} of others + \
         {no_data} TCP without data + {not_tcp} not TCP + {unreadable} unreadable",
        counts.received()
    );
    for (count, what) in [(left_out, "not sampled"), (no_room, "whose slot was lost")] {
        if count > 0 {
            text.push_str(&format!(" + {count} {what}"));
        }
    }
    text.push('\n');
    text
}
