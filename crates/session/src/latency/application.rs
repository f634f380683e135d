//! `latency` on a pass that others share.

use std::ops::Range;
use std::path::PathBuf;

use engine::columns::{Columns, RowMismatch, Schema};
use engine::flow::pass::{FaultScope, Labels, Lens, Now, Piece};
use engine::flow::{FlowEnd, FlowMark, FlowRecord, RemainingFlows};
use latency::{Destinations, TakeSamples};
use packet::{FlowSlot, Span, Timestamp};

use super::account::{Sums, counts, said, shown};
use super::first::{First, Recent};
use super::flow::{self, Flow};
use super::line::{self, LatencyRows, Line};
use super::one_way;
use super::packets::{self, Packets};
use super::settings::{By, LatencySettings, SortBy};
use crate::application::{
    Application, Closing, Count, ENDED_PER_PIECE, OpenRows, Opening, Refusal, Site, Wants, Watcher,
    Watchers,
};
use crate::done::RunTotals;
use crate::outlet::Outlet;
use crate::reading::Needs;
use crate::second;

/// The headers of TCP with its options, and the first bytes of DNS and QUIC.
pub(super) const NEEDS: Needs =
    Needs { stage: "latency", len: Needs::TRANSPORT_LEN + 40, takes_all: false };

/// Round-trip times, retransmissions and delays of each packet.
pub struct Latency {
    settings: LatencySettings,
    /// Captures of the second tap.
    reads: Vec<PathBuf>,
    shown: LatencyView,
}

/// What a front end is shown, besides rows.
#[derive(Clone, Default)]
pub enum LatencyView {
    /// Nothing.
    #[default]
    Nothing,
    /// The first rows of a whole run, as [`LatencyRows`].
    First(usize, SortBy),
    /// The first rows of flows that had packets since the last time, so often; or of each period.
    Each(Outlet<Vec<LatencyRows>>, Span, usize, SortBy),
}

impl Latency {
    /// For a front end that reads these captures at the first tap, and may show what is found
    /// otherwise than as rows.
    ///
    /// # Errors
    /// [`Refusal`]: captures of the second tap that cannot be read.
    pub fn shown_by(
        settings: LatencySettings,
        shown: LatencyView,
        upstream: &[PathBuf],
    ) -> Result<Self, Refusal> {
        let reads = match settings.egress.is_empty() {
            true => Vec::new(),
            false => second::find_beside(&settings.egress, upstream)?,
        };
        Ok(Self { settings, reads, shown })
    }
}

impl Application for Latency {
    const NAME: &'static str = "latency";
    const ABOUT: &'static str =
        "RTT, jitter, retransmissions and queueing delay per flow, destination or packet";
    const EXAMPLE: &'static str = "\
# One row per flow, destination or packet.
# by = \"flow\"
# Destinations only: one row per period; required on an interface.
# every = \"10s\"
# Shortest delayed-ACK timer: later ACKs of single packets are marked.
# delayed-ack = \"35ms\"
# Sharp change: at least both of these from one latency to the next.
# sharp-change = \"20ms\"
# sharp-share = 0.2
# Maximum numbers of flows measured, and of packets that wait for an ACK, over all flows.
# max-flows = 262144
# max-waiting = 1048576
# Second tap: measure one-way delays from [input] to these captures. An offset is added to their
# timestamps; without one it is estimated, 0ms is for taps of one clock.
# egress = \"after.pcapng\"
# egress-offset = \"0ms\"
";

    type Settings = LatencySettings;

    fn ready(settings: LatencySettings, site: &Site<'_>) -> Result<Self, Refusal> {
        settings.check(site.is_live)?;
        let upstream = site.input.map(|input| input.read.as_slice()).unwrap_or_default();
        Self::shown_by(settings, LatencyView::Nothing, upstream)
    }

    fn has_shares(&self) -> bool {
        // A destination is that of many flows, as is the queue whose sharp changes packets name; a
        // second tap is read as a whole.
        self.settings.by == By::Flow && self.settings.egress.is_empty()
    }

    fn wants(&self) -> Wants {
        // DNS and the spin bit of QUIC.
        Wants { reads_payload: true, ..Wants::flows(NEEDS) }
    }

    fn schema(&self, _: bool) -> Schema {
        match self.settings.by {
            By::Flow if !self.settings.egress.is_empty() => one_way::SCHEMA,
            By::Flow => flow::SCHEMA,
            By::Destination if self.settings.every.is_some() => line::PERIOD_SCHEMA,
            By::Destination => line::SCHEMA,
            By::Packet => packets::SCHEMA,
        }
    }

    fn reads(&self) -> &[PathBuf] {
        &self.reads
    }

    fn open(self, opening: Opening) -> Result<Watchers, Refusal> {
        let Self { settings, shown, .. } = self;
        if !settings.egress.is_empty() {
            return open_one_way(&settings, shown, opening);
        }
        if opening.outlet.is_none() && matches!(shown, LatencyView::Nothing) {
            return Err(Refusal::new("rows go nowhere"));
        }
        let (first, recent) = match shown {
            LatencyView::Nothing => (None, None),
            LatencyView::First(count, sort) => (Some(First::new(count, sort)), None),
            LatencyView::Each(to, every, count, sort) => {
                (None, Some(Recent::new(to, every, First::new(count, sort))))
            }
        };
        let latency = latency::Latency::new(settings.limits());
        let outlet = opening.outlet;
        let (sums, ended, refused) = (Sums::default(), Vec::new(), None);
        macro_rules! watch {
            ($out:expr) => {
                Watching { latency, out: $out, sums, ended, outlet, first, recent, refused }.into()
            };
        }
        Ok(match settings.by {
            By::Flow => watch!(()),
            By::Destination => {
                watch!(Destinations::new(settings.every, settings.max_flows))
            }
            By::Packet => match outlet.clone() {
                Some(outlet) => watch!(Packets::new(outlet, opening.seed)),
                None => return Err(Refusal::new("rows go nowhere")),
            },
        })
    }
}

fn open_one_way(
    settings: &LatencySettings,
    shown: LatencyView,
    opening: Opening,
) -> Result<Watchers, Refusal> {
    let Opening { outlet, request, control, seed, .. } = opening;
    let opened = one_way::open(&request, &settings.egress, settings.egress_offset, &control)?;
    let (limits, rows) = (settings.limits(), "rows go nowhere");
    let shown = match shown {
        LatencyView::First(count, sort) => Some((count, sort)),
        LatencyView::Nothing | LatencyView::Each(..) => None,
    };
    if settings.by == By::Packet {
        let packets = Packets::new(outlet.ok_or_else(|| Refusal::new(rows))?, seed);
        let finish = |packets: &mut Packets| packets.finish();
        return Ok(one_way::Watching::new(limits, opened, (packets, finish), None, None).into());
    }
    if outlet.is_none() && shown.is_none() {
        return Err(Refusal::new(rows));
    }
    Ok(one_way::Watching::new(limits, opened, ((), |()| Ok(())), outlet, shown).into())
}

/// Where samples go, and what becomes of them.
trait Rows: TakeSamples + Send + 'static {
    /// Whether flows are rows.
    const HAS_FLOWS: bool = false;

    /// No packet comes, and time has come so far.
    fn on_tick(&mut self, _time: Timestamp) {}

    /// Periods that are complete; at the end all that is left.
    fn periods(&mut self, _is_last: bool) -> Vec<Vec<Line>> {
        Vec::new()
    }

    /// Packets for which there was no room.
    fn left_out(&self) -> u64 {
        0
    }

    /// Hands on what waits.
    fn finish(&mut self) -> Result<(), Refusal> {
        Ok(())
    }
}

impl Rows for () {
    const HAS_FLOWS: bool = true;
}

impl Rows for Packets {
    fn finish(&mut self) -> Result<(), Refusal> {
        self.flush();
        self.refusal().map_or(Ok(()), Err)
    }
}

impl Rows for Destinations {
    fn on_tick(&mut self, time: Timestamp) {
        Self::on_tick(self, time);
    }

    fn left_out(&self) -> u64 {
        self.no_place
    }

    fn periods(&mut self, is_last: bool) -> Vec<Vec<Line>> {
        if is_last {
            self.close();
        }
        let lines = |(start, found): (Option<Timestamp>, Vec<_>)| {
            let line = |(address, destination)| Line { start, address, destination };
            found.into_iter().map(line).collect()
        };
        self.take_closed().into_iter().map(lines).collect()
    }
}

fn put_lines(lines: &[Line], outlet: &Outlet) -> Result<(), RowMismatch> {
    for lines in lines.chunks(ENDED_PER_PIECE) {
        let is_period = lines.first().is_some_and(|line| line.start.is_some());
        let schema = if is_period { line::PERIOD_SCHEMA } else { line::SCHEMA };
        let mut columns = Columns::new(schema);
        lines.iter().try_for_each(|line| line.push(&mut columns))?;
        outlet.put(columns);
    }
    Ok(())
}

fn put_flows(flows: &[Flow], outlet: &Outlet) -> Result<(), RowMismatch> {
    for flows in flows.chunks(ENDED_PER_PIECE) {
        let mut columns = Columns::new(flow::SCHEMA);
        flows.iter().try_for_each(|flow| flow.push(&mut columns))?;
        outlet.put(columns);
    }
    Ok(())
}

/// The lens.
struct Watching<R> {
    latency: latency::Latency,
    out: R,
    sums: Sums,
    /// Flows that have ended since the last mark.
    ended: Vec<Flow>,
    outlet: Option<Outlet>,
    first: Option<First>,
    recent: Option<Recent>,
    refused: Option<RowMismatch>,
}

impl<R: Rows> Watching<R> {
    fn end(&mut self, record: &FlowRecord, slot: FlowSlot) {
        let Self { latency, out, sums, ended, .. } = self;
        let found = latency.end(slot, record.key, out, |flow| {
            sums.add(flow);
            R::HAS_FLOWS.then(|| Flow::of(record, flow))
        });
        ended.extend(found.flatten().filter(Flow::is_measured));
    }

    fn put(&mut self, is_last: bool) {
        let Self { ended, outlet, first, recent, refused, out, .. } = self;
        for lines in out.periods(is_last) {
            if let Some(Err(error)) = outlet.as_ref().map(|outlet| put_lines(&lines, outlet)) {
                refused.get_or_insert(error);
            }
            if let Some(recent) = recent {
                recent.put_lines(lines);
            } else if let Some(first) = first {
                first.add_lines(lines);
            }
        }
        if let Some(Err(error)) = outlet.as_ref().map(|outlet| put_flows(ended, outlet)) {
            refused.get_or_insert(error);
        }
        match first {
            Some(first) => ended.drain(..).for_each(|flow| first.add(flow)),
            None => ended.clear(),
        }
        // Many end together only after a silence, or where a clock was set.
        ended.shrink_to(ENDED_PER_PIECE);
    }

    /// Shows flows that had packets lately, where it is time for that.
    fn show(&mut self) {
        if let Some(recent) = self.recent.as_mut().filter(|_| R::HAS_FLOWS) {
            recent.show(&self.latency);
        }
    }
}

impl<R: Rows> Lens for Watching<R> {
    fn on_piece(&mut self, piece: &Piece<'_>, _: &mut Labels) {
        self.latency.take(piece, &mut self.out);
        if let Some(recent) = &mut self.recent {
            recent.note(piece);
        }
    }

    fn on_batch_end(&mut self, _: &mut Labels) {
        self.show();
    }

    fn on_tick(&mut self, time: Timestamp) {
        self.out.on_tick(time);
        if let Some(recent) = &mut self.recent {
            recent.on_tick(time);
        }
        self.show();
    }

    fn on_ended(&mut self, ended: &[FlowEnd], _: &mut Labels) {
        ended.iter().for_each(|ended| self.end(&ended.record, ended.slot));
    }

    /// Samples that were taken stand; those of packets that wait are none.
    fn on_fault(&mut self, lost: &FaultScope<'_>) -> bool {
        for (slot, key) in lost.flows() {
            self.latency.end(slot, key, &mut (), |_| ());
        }
        true
    }

    fn on_marked(&mut self, _: FlowMark) {
        FlowRecord::sort(&mut self.ended, |flow| &flow.record);
        self.put(false);
    }

    fn on_left(&mut self, left: &RemainingFlows<'_>, _: &Labels) {
        left.in_order(ENDED_PER_PIECE, |flows| {
            flows.iter().for_each(|(record, slot)| self.end(record, *slot));
            self.put(false);
        });
    }
}

impl<R: Rows> Watcher for Watching<R> {
    fn name(&self) -> &'static str {
        Latency::NAME
    }

    fn open_rows(&self, now: &Now<'_>, slots: Range<u32>) -> Option<(usize, OpenRows)> {
        if !R::HAS_FLOWS {
            return None;
        }
        let mut open = Vec::new();
        now.flows(slots, |record, slot| {
            open.extend(self.latency.look(slot, |flow| Flow::of(&record, flow)));
        });
        open.retain(Flow::is_measured);
        let count = open.len();
        let rows = move || {
            let mut columns = Columns::new(flow::SCHEMA);
            // What was laid before a refusal is shown.
            let _ = open.iter().try_for_each(|flow| flow.push(&mut columns));
            columns
        };
        Some((count, Box::new(rows)))
    }

    fn counts(&self, _: &Now<'_>) -> Vec<Count> {
        shown(&self.sums, &self.latency, self.out.left_out())
    }

    fn close(mut self: Box<Self>, flows: &RunTotals) -> Result<Closing, Refusal> {
        self.put(true);
        let Self { latency, mut out, sums, first, refused, .. } = *self;
        out.finish()?;
        if let Some(refused) = refused {
            return Err(Refusal::new(refused));
        }
        let found = first.map(|first| first.finish(R::HAS_FLOWS));
        debug_assert_eq!(latency.in_use(), [0; 3], "what ended flows kept is given back");
        let of_flows = flows.closing();
        let mut counts = counts(&sums, &latency, out.left_out());
        counts.extend(&of_flows.counts);
        Ok(Closing {
            lines: said(&sums, &latency, out.left_out()),
            counts,
            found: found.map(|found| -> Box<dyn std::any::Any + Send> { Box::new(found) }),
            ..of_flows
        })
    }
}
