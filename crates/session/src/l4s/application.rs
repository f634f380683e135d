//! `l4s` on a pass: predictions for each packet of named flows, and acting by them.

use std::sync::Arc;

use engine::columns::Schema;
use engine::flow::pass::{FaultScope, Labels, Lens, Now, Piece};
use engine::flow::{FlowEnd, RemainingFlows};
use l4s::{Marker, Model};
use packet::{EcnRefusal, EventTime, Span, TimeMove, Timestamp};

#[cfg(all(target_os = "linux", feature = "tap"))]
use super::act::Acting;
use super::budgets::Kernel;
use super::follower::{Follower, Lag};
use super::rows::{self, MarkingReport};
use super::settings::{L4sSettings, ns};
use super::{closing, read_model};
use crate::application::{
    Application, Closing, Count, ENDED_PER_PIECE, Opening, Refusal, Site, Wants, Watcher, Watchers,
};
use crate::done::RunTotals;
use crate::outlet::Outlet;
use crate::reading::Needs;

/// The headers of TCP with its options.
const NEEDS: Needs = Needs { stage: "l4s", len: Needs::TRANSPORT_LEN + 40, takes_all: false };

/// What is done with packets on an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Marking {
    /// The interface by which they leave.
    pub interface: String,
    /// Whether nothing is changed, and what would be re-marked is counted.
    pub is_dry_run: bool,
}

/// Predicted latencies of named flows in both queues, and re-marking by them.
pub struct L4s {
    settings: L4sSettings,
    model: Arc<Model>,
    shown: Option<Outlet<Vec<MarkingReport>>>,
    marking: Option<Marking>,
    /// By itself it looks at the outer headers, which routers do; beside others flows are cut as
    /// they want them.
    is_alone: bool,
}

impl L4s {
    /// For a front door that has checked the settings and read the model.
    #[must_use]
    pub const fn shown_by(
        settings: L4sSettings,
        model: Arc<Model>,
        shown: Option<Outlet<Vec<MarkingReport>>>,
        marking: Option<Marking>,
    ) -> Self {
        Self { settings, model, shown, marking, is_alone: true }
    }
}

impl Application for L4s {
    const NAME: &'static str = "l4s";
    const ABOUT: &'static str =
        "Predicted latency of packets in either queue of an L4S router, and what to re-mark";
    const EXAMPLE: &'static str = "\
# Latency model: the shipped one, or a folder that `wirelens train l4s` wrote.
model = \"l4s\"
# Destinations of the flows to track; no other flow is touched.
to = [\"192.0.2.1:443\"]
# Reporting interval [default: 1s on interfaces, one row per flow for captures].
# every = \"1s\"
# Re-mark if the classic queue is predicted to be faster by this, up to this share of L4S packets.
# margin = \"3ms\"
# max-share = 0.8
# Packets keep their marking if ACKs stopped for this long, or a prediction is this late.
# silence = \"500ms\"
# late = \"5ms\"
# Fine-tune the model this often, on the last minute [default: never].
# tune = \"5m\"
";

    type Settings = L4sSettings;

    fn ready(settings: L4sSettings, _: &Site<'_>) -> Result<Self, Refusal> {
        settings.check()?;
        let folder = settings.model.as_deref().unwrap_or("".as_ref());
        let model = Arc::new(read_model(folder)?);
        Ok(Self { settings, model, shown: None, marking: None, is_alone: false })
    }

    fn wants(&self) -> Wants {
        Wants { inner: self.is_alone.then_some(false), ..Wants::flows(NEEDS) }
    }

    fn schema(&self, _: bool) -> Schema {
        rows::SCHEMA
    }

    fn has_maps(&self) -> bool {
        self.marking.is_some()
    }

    fn open(self, opening: Opening) -> Result<Watchers, Refusal> {
        let Self { settings, model, shown, marking, is_alone: _ } = self;
        if opening.outlet.is_none() && shown.is_none() {
            return Err(Refusal::new("rows go nowhere"));
        }
        let is_live = opening.is_live;
        let mut marker = Marker::new(model, settings.marker()).map_err(Refusal::new)?;
        if let Some(tuning) = settings.tuning(is_live) {
            marker.tune(tuning).map_err(|error| Refusal::of("tune", error))?;
        }
        let (acting, kernel) = begin(marking.as_ref(), opening.tell)?;
        let lag = is_live.then(|| Lag::new(opening.clock.realtime, ns(settings.late)));
        let every = settings.every.or(is_live.then_some(Span::from_seconds(1)));
        let follower = Follower::new(settings.to, marker, kernel, lag);
        let periods = Periods::new(every);
        let outlet = opening.outlet;
        let tell = opening.tell;
        Ok(Watching { follower, periods, outlet, shown, acting, tell, refusal: None }.into())
    }
}

/// Nothing acts on packets in this build.
#[cfg(not(all(target_os = "linux", feature = "tap")))]
enum Acting {}

#[cfg(not(all(target_os = "linux", feature = "tap")))]
impl Acting {
    fn begin(_: &str, _: bool) -> Result<(Self, String), Refusal> {
        let seen = "no programs for interfaces in this build; wanted: the command `wirelens`";
        Err(Refusal::new(seen))
    }

    fn control(&self) -> Box<dyn packet::EcnControl> {
        match *self {}
    }

    fn loss(&mut self) -> Option<String> {
        match *self {}
    }

    fn end(self) -> (String, Option<String>) {
        match self {}
    }
}

/// Begins to re-mark packets, where that is asked for.
fn begin(
    marking: Option<&Marking>,
    tell: Option<fn(&str)>,
) -> Result<(Option<Acting>, Option<Kernel>), Refusal> {
    let Some(Marking { interface, is_dry_run }) = marking else { return Ok((None, None)) };
    let (acting, line) = Acting::begin(interface, *is_dry_run)?;
    if let Some(tell) = tell {
        tell(&line);
    }
    let kernel = Kernel::new(acting.control(), *is_dry_run);
    Ok((Some(acting), Some(kernel)))
}

/// Where one period ends and the next begins, by the time of packets.
struct Periods {
    every: Option<Span>,
    start: Option<Timestamp>,
    time: EventTime,
}

impl Periods {
    fn new(every: Option<Span>) -> Self {
        // A clock that was set back by more than a period begins another one. One row of all of a
        // capture has no periods.
        let step_back = every.map_or(i64::MAX, |every| every.as_ns().saturating_mul(2));
        Self { every, start: None, time: EventTime::new(Span::from_ns(step_back)) }
    }

    /// A packet was stamped so: the period that it ends, if any, and how long that was.
    fn on_packet(&mut self, time: Timestamp) -> Option<(Timestamp, u64)> {
        if time == Timestamp::UNKNOWN {
            return None;
        }
        let is_epoch = self.time.on_packet(time) == TimeMove::Epoch;
        self.turn(is_epoch)
    }

    /// Time has come so far without a packet.
    fn on_tick(&mut self, time: Timestamp) -> Option<(Timestamp, u64)> {
        self.time.on_tick(time);
        self.turn(false)
    }

    fn turn(&mut self, is_epoch: bool) -> Option<(Timestamp, u64)> {
        let latest = self.time.latest();
        let begin = self.every.map_or(latest, |every| latest.window_start(every));
        let start = *self.start.get_or_insert(begin);
        let every = self.every?;
        if !is_epoch && latest < start.plus(every) {
            return None;
        }
        self.start = Some(begin);
        Some((start, ns(every)))
    }

    /// The period in which the input ended.
    fn last(&self) -> Option<(Timestamp, u64)> {
        let start = self.start?;
        Some((start, self.every.map_or_else(|| ns(self.time.latest().since(start)), ns)))
    }
}

/// The lens.
struct Watching {
    follower: Follower,
    periods: Periods,
    outlet: Option<Outlet>,
    shown: Option<Outlet<Vec<MarkingReport>>>,
    acting: Option<Acting>,
    tell: Option<fn(&str)>,
    refusal: Option<Refusal>,
}

impl Watching {
    /// Re-marks nothing any more where offloads could not be put back, and says so once.
    fn look_after(&mut self) {
        let Some(kernel) = self.follower.kernel.as_mut().filter(|one| one.failure.is_none()) else {
            return;
        };
        if let Some(loss) = self.acting.as_mut().and_then(Acting::loss) {
            if let Some(tell) = self.tell {
                tell(&format!(
                    "l4s: nothing is re-marked any more, and counting continues: {loss}"
                ));
            }
            kernel.failure = Some(EcnRefusal::Failed(loss));
        }
    }

    fn put(&mut self, (start, period_ns): (Timestamp, u64)) {
        self.look_after();
        let told = self.follower.tell(start, period_ns);
        if told.rows.is_empty() {
            return;
        }
        if let Some(outlet) = &self.outlet {
            match told.columns() {
                Ok(columns) => outlet.put(columns),
                Err(refused) => drop(self.refusal.get_or_insert(Refusal::new(refused))),
            }
        }
        if let Some(shown) = &self.shown {
            shown.put(vec![told]);
        }
    }

    fn turn(&mut self, period: Option<(Timestamp, u64)>) {
        period.into_iter().for_each(|period| self.put(period));
    }
}

impl Lens for Watching {
    fn on_piece(&mut self, piece: &Piece<'_>, _: &mut Labels) {
        for (_, frame, packet, slot) in piece.flows() {
            let period = self.periods.on_packet(frame.record.timestamp);
            self.turn(period);
            self.follower.take(&frame, packet, slot);
        }
        self.follower.renew();
    }

    fn on_tick(&mut self, time: Timestamp) {
        let period = self.periods.on_tick(time);
        self.turn(period);
        self.follower.tick(time);
    }

    fn on_ended(&mut self, ended: &[FlowEnd], _: &mut Labels) {
        ended.iter().for_each(|ended| self.follower.end(ended.slot, ended.record.key));
    }

    fn on_fault(&mut self, lost: &FaultScope<'_>) -> bool {
        lost.flows().for_each(|(slot, key)| self.follower.forget(slot, key));
        true
    }

    fn on_left(&mut self, left: &RemainingFlows<'_>, _: &Labels) {
        left.in_order(ENDED_PER_PIECE, |flows| {
            flows.iter().for_each(|(record, slot)| self.follower.end(*slot, record.key));
        });
    }
}

impl Watcher for Watching {
    fn name(&self) -> &'static str {
        L4s::NAME
    }

    fn counts(&self, _: &Now<'_>) -> Vec<Count> {
        closing::shown(&self.follower)
    }

    fn close(mut self: Box<Self>, flows: &RunTotals) -> Result<Closing, Refusal> {
        if let Some(period) = self.periods.last() {
            self.put(period);
        }
        let Self { follower, acting, refusal, .. } = *self;
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        let of_flows = flows.closing();
        let mut counts = closing::counts(&follower);
        counts.extend(&of_flows.counts);
        let mut lines = closing::lines(&follower);
        let failure = follower.kernel.as_ref().and_then(|kernel| kernel.failure.clone());
        // Nobody holds the program but who ends it.
        drop(follower);
        let (said, not_back) = acting.map(Acting::end).unwrap_or_default();
        lines.push_str(&said);
        let loss = failure.map(|failure| format!("l4s: re-marking ended early: {failure}"));
        Ok(Closing { lines, counts, loss: loss.or(not_back), ..of_flows })
    }
}

#[cfg(test)]
mod tests {
    use packet::event_time::EPOCHS_FREE;

    use super::*;

    #[test]
    fn a_period_ends_once_in_its_time_and_clocks_that_alternate_end_few() {
        let at = |seconds| Timestamp::from_parts(seconds, 0);
        let every = Span::from_seconds(1);
        let mut periods = Periods::new(Some(every));
        let second = 1_000_000_000;
        assert_eq!(periods.on_packet(at(10)), None);
        assert_eq!(periods.on_packet(at(11)), Some((at(10), second)));
        // Late by less than two periods, and a tick that is behind.
        assert_eq!((periods.on_packet(at(10)), periods.on_tick(at(3))), (None, None));
        assert_eq!(periods.on_tick(at(20)), Some((at(11), second)));
        assert_eq!(periods.on_packet(at(5)), Some((at(20), second)));
        assert_eq!(periods.last(), Some((at(5), second)));
        let ended = (0..10_000).filter_map(|number| {
            let is_later = number % 2 == 0;
            periods.on_packet(at(if is_later { 3_600 } else { 5 }))
        });
        assert!(ended.count() <= 2 * EPOCHS_FREE as usize);
        let mut whole = Periods::new(None);
        assert_eq!((whole.on_packet(at(9)), whole.on_packet(at(12))), (None, None));
        assert_eq!((whole.on_packet(at(1)), whole.last()), (None, Some((at(9), 3 * second))));
    }
}
