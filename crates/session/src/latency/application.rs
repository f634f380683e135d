//! `latency` on a pass that others share.

use engine::columns::{Columns, RowRefused, Schema};
use engine::flow::pass::{Labels, Lens, Piece};
use engine::flow::{Ended, FlowMark, FlowRecord, Left};
use latency::{Destinations, Missing, TakeSamples};
use packet::FlowSlot;

use super::flow::{self, Flow, Sums};
use super::line::{self, Found, Line};
use super::packets::{self, Packets};
use super::settings::{By, LatencySettings, SortBy};
use crate::application::{
    Application, Closing, ENDED_PER_PIECE, Opening, Refusal, Site, Wants, Watcher, Watchers,
};
use crate::done::Done;
use crate::outlet::Outlet;
use crate::reading::Needs;

/// The headers of TCP with its options, and the first bytes of DNS and QUIC.
pub(super) const NEEDS: Needs =
    Needs { stage: "latency", len: Needs::TRANSPORT_LEN + 40, takes_all: false };

/// Round-trip times, retransmissions and delays of each packet.
pub struct Latency {
    settings: LatencySettings,
    shown: Shown,
}

/// What a front end is shown, besides rows.
#[derive(Clone, Copy, Debug, Default)]
pub enum Shown {
    /// Nothing.
    #[default]
    Nothing,
    /// The first rows of a whole run, as [`Found`].
    First(usize, SortBy),
}

impl Latency {
    /// For a front end, which may show what is found otherwise than as rows.
    #[must_use]
    pub const fn shown_by(settings: LatencySettings, shown: Shown) -> Self {
        Self { settings, shown }
    }
}

impl Application for Latency {
    const NAME: &'static str = "latency";
    const ABOUT: &'static str =
        "RTT, jitter, retransmissions and queueing delay per flow, destination or packet";
    const EXAMPLE: &'static str = "\
# A row for each: flow, destination or packet.
# by = \"flow\"
# Destinations only: a row for each period; required on an interface.
# every = \"10s\"
# Shortest delayed-ACK timer: later ACKs of single packets are marked.
# delayed-ack = \"35ms\"
# Sharp change: at least both of these from one latency to the next.
# sharp-change = \"20ms\"
# sharp-share = 0.2
# Flows measured at once, and packets that wait for an ACK, of all flows.
# max-flows = 262144
# max-waiting = 1048576
";

    type Settings = LatencySettings;

    fn ready(settings: LatencySettings, site: &Site<'_>) -> Result<Self, Refusal> {
        settings.check(site.is_live)?;
        Ok(Self { settings, shown: Shown::Nothing })
    }

    fn wants(&self) -> Wants {
        Wants::flows(NEEDS)
    }

    fn schema(&self, _: bool) -> Schema {
        match self.settings.by {
            By::Flow => flow::SCHEMA,
            By::Destination if self.settings.every.is_some() => line::PERIOD_SCHEMA,
            By::Destination => line::SCHEMA,
            By::Packet => packets::SCHEMA,
        }
    }

    fn open(self, opening: Opening) -> Result<Watchers, Refusal> {
        let Self { settings, shown } = self;
        let first = match shown {
            Shown::Nothing => None,
            Shown::First(count, sort) => Some(First { count, sort, flows: Vec::new(), total: 0 }),
        };
        if opening.outlet.is_none() && first.is_none() {
            return Err(Refusal::new("rows go nowhere"));
        }
        let latency = latency::Latency::new(settings.limits());
        let outlet = opening.outlet;
        let (sums, ended, refused) = (Sums::default(), Vec::new(), None);
        macro_rules! watch {
            ($out:expr) => {
                Watching { latency, out: $out, sums, ended, outlet, first, refused }.into()
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

/// The first rows in an order, of all that were found.
struct First {
    count: usize,
    sort: SortBy,
    flows: Vec<Flow>,
    total: u64,
}

impl First {
    /// Flows kept beyond those that are wanted before the last ones are dropped.
    const SPARE: usize = 1024;

    fn rank(&self, flow: &Flow) -> u64 {
        let [src, dst] = [&flow.src, &flow.dst];
        match self.sort {
            SortBy::Packets => src.rtt_count + dst.rtt_count,
            SortBy::P50 => src.rtt_p50_ns.max(dst.rtt_p50_ns).unwrap_or(0),
            SortBy::P99 => src.rtt_p99_ns.max(dst.rtt_p99_ns).unwrap_or(0),
            SortBy::Retransmissions => flow.retransmissions(),
        }
    }

    fn add(&mut self, flow: Flow) {
        self.total += 1;
        self.flows.push(flow);
        if self.flows.len() >= self.count.saturating_add(Self::SPARE) {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let mut flows = std::mem::take(&mut self.flows);
        flows.sort_by_key(|flow| (std::cmp::Reverse(self.rank(flow)), flow.record.order()));
        flows.truncate(self.count);
        self.flows = flows;
    }

    fn finish(mut self) -> Found {
        self.cut();
        Found::Flows(self.flows, self.total)
    }

    fn finish_lines(self, mut lines: Vec<Line>) -> Found {
        let total = lines.len() as u64;
        let rank = |line: &Line| match self.sort {
            SortBy::Packets => line.destination.rtt.count,
            SortBy::P50 => line.destination.rtt.quantile(0.5).unwrap_or(0),
            SortBy::P99 => line.destination.rtt.quantile(0.99).unwrap_or(0),
            SortBy::Retransmissions => line.destination.retransmissions,
        };
        lines.sort_by_key(|line| (line.start, std::cmp::Reverse(rank(line)), line.address));
        lines.truncate(self.count);
        Found::Destinations(lines, total)
    }
}

/// Where samples go, and what becomes of them at the end.
trait Rows: TakeSamples + Send + 'static {
    /// Whether flows are rows.
    const HAS_FLOWS: bool = false;

    /// Hands on what is complete.
    fn put(&mut self, _outlet: Option<&Outlet>) -> Result<(), RowRefused> {
        Ok(())
    }

    /// Hands on all that is left; what a front end is shown of it.
    fn finish(&mut self, _outlet: Option<&Outlet>) -> Result<Vec<Line>, Refusal> {
        Ok(Vec::new())
    }
}

impl Rows for () {
    const HAS_FLOWS: bool = true;
}

impl Rows for Packets {
    fn finish(&mut self, _: Option<&Outlet>) -> Result<Vec<Line>, Refusal> {
        self.flush();
        self.refusal().map_or(Ok(Vec::new()), Err)
    }
}

impl Rows for Destinations {
    fn put(&mut self, outlet: Option<&Outlet>) -> Result<(), RowRefused> {
        if let Some(outlet) = outlet {
            lines(self).chunks(ENDED_PER_PIECE).try_for_each(|lines| put_lines(lines, outlet))?;
        }
        Ok(())
    }

    fn finish(&mut self, outlet: Option<&Outlet>) -> Result<Vec<Line>, Refusal> {
        self.close();
        match outlet {
            Some(_) => self.put(outlet).map(|()| Vec::new()).map_err(Refusal::new),
            None => Ok(lines(self)),
        }
    }
}

fn lines(destinations: &mut Destinations) -> Vec<Line> {
    let closed = destinations.take_closed().into_iter();
    let lines = closed.flat_map(|(start, found)| {
        found.into_iter().map(move |(address, destination)| Line { start, address, destination })
    });
    lines.collect()
}

fn put_lines(lines: &[Line], outlet: &Outlet) -> Result<(), RowRefused> {
    let Some(first) = lines.first() else { return Ok(()) };
    let schema = if first.start.is_some() { line::PERIOD_SCHEMA } else { line::SCHEMA };
    let mut columns = Columns::new(schema);
    lines.iter().try_for_each(|line| line.push(&mut columns))?;
    outlet.put(columns);
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
    refused: Option<RowRefused>,
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

    fn put(&mut self) {
        let Self { ended, outlet, first, refused, out, .. } = self;
        let mut put = || -> Result<(), RowRefused> {
            out.put(outlet.as_ref())?;
            let Some(outlet) = outlet else { return Ok(()) };
            for flows in ended.chunks(ENDED_PER_PIECE) {
                let mut columns = Columns::new(flow::SCHEMA);
                flows.iter().try_for_each(|flow| flow.push(&mut columns))?;
                outlet.put(columns);
            }
            Ok(())
        };
        if let Err(error) = put() {
            refused.get_or_insert(error);
        }
        match first {
            Some(first) => ended.drain(..).for_each(|flow| first.add(flow)),
            None => ended.clear(),
        }
    }
}

impl<R: Rows> Lens for Watching<R> {
    fn on_piece(&mut self, piece: &Piece<'_>, _: &mut Labels) {
        self.latency.take(piece, &mut self.out);
    }

    fn on_ended(&mut self, ended: &[Ended], _: &mut Labels) {
        ended.iter().for_each(|ended| self.end(&ended.record, ended.slot));
    }

    fn on_marked(&mut self, _: FlowMark) {
        self.ended.sort_by_key(|flow| flow.record.order());
        self.put();
    }

    fn on_left(&mut self, left: &Left<'_>, _: &Labels) {
        left.in_order(ENDED_PER_PIECE, |flows| {
            flows.iter().for_each(|(record, slot)| self.end(record, *slot));
            self.put();
        });
    }
}

impl<R: Rows> Watcher for Watching<R> {
    fn name(&self) -> &'static str {
        Latency::NAME
    }

    fn close(mut self: Box<Self>, flows: &Done) -> Result<Closing, Refusal> {
        self.put();
        let Self { latency, mut out, sums, outlet, first, refused, .. } = *self;
        let lines = out.finish(outlet.as_ref())?;
        if let Some(refused) = refused {
            return Err(Refusal::new(refused));
        }
        let found = first.map(|first| match R::HAS_FLOWS {
            true => first.finish(),
            false => first.finish_lines(lines),
        });
        debug_assert_eq!(latency.in_use(), [0; 3], "what ended flows kept is given back");
        let of_flows = flows.closing();
        let mut counts = counts(&sums, &latency);
        counts.extend(&of_flows.counts);
        Ok(Closing {
            lines: said(&sums, &latency),
            counts,
            found: found.map(|found| -> Box<dyn std::any::Any + Send> { Box::new(found) }),
            ..of_flows
        })
    }
}

/// Counters, by name.
fn counts(sums: &Sums, latency: &latency::Latency) -> Vec<(&'static str, u64)> {
    let of = latency.counts();
    let mut counts = vec![
        ("rtt_samples", sums.rtts),
        ("measured_packets", sums.packets),
        ("retransmitted_packets", sums.retransmissions),
        ("late_packets", sums.late),
        ("keep_alives", sums.keep_alives),
        ("held_covered", sums.held_covered),
        ("held_lone", sums.held_lone),
        ("unseen_acks", sums.unseen_acks),
        ("out_of_window_acks", sums.out_of_window),
        ("unranked_rtts", sums.unranked),
        ("random_spin_flows", sums.random_spin_flows),
        ("no_place_packets", of.no_place),
        ("no_time_packets", of.no_time),
        ("unreadable_packets", of.unreadable),
        ("other_packets", of.other),
    ];
    let names = [
        "missing_ambiguous",
        "missing_lost",
        "missing_needless",
        "missing_blocked",
        "missing_unanswered",
        "missing_clock_step",
        "missing_no_room",
    ];
    counts.extend(names.into_iter().zip(sums.missing));
    counts
}

/// What there is to say at the end, each line ended.
fn said(sums: &Sums, latency: &latency::Latency) -> String {
    let of = latency.counts();
    let mut text = format!(
        "latency: {} RTT samples of {} flows; {} of {} packets retransmitted\n",
        sums.rtts,
        sums.flows - sums.unmeasured_flows,
        sums.retransmissions,
        sums.packets,
    );
    let missing: Vec<String> = Missing::ALL
        .iter()
        .zip(sums.missing)
        .filter(|&(_, count)| count > 0)
        .map(|(missing, count)| format!("{count} {}", missing.name()))
        .collect();
    if !missing.is_empty() {
        let total: u64 = sums.missing.iter().sum();
        text.push_str(&format!(
            "latency: {total} packets without a latency = {}\n",
            missing.join(" + ")
        ));
    }
    let (queue, queue_prompt, left_out) = latency.queues();
    let [flow, flow_prompt] = sums.sharp;
    if flow + queue > 0 {
        text.push_str(&format!(
            "latency: {flow} sharp changes within flows, {flow_prompt} without delayed ACKs"
        ));
        if queue > 0 {
            text.push_str(&format!("; {queue} within queues, {queue_prompt} without"));
        }
        text.push('\n');
    }
    if sums.packets > 0 && sums.rtts == 0 {
        text.push_str(
            "latency: nothing was answered: the capture may hold one direction only; capture both, \
             or give the other tap with --egress\n",
        );
    }
    for (count, what) in [
        (
            of.no_place,
            "packets are of flows for which there was no room; --max-flows sets how many",
        ),
        (sums.unseen_acks, "ACKs are of data that the tap did not see"),
        (sums.unranked, "RTT samples found no room in a histogram; quantiles lack them"),
        (sums.random_spin_flows, "QUIC flows have random spin bits, which measure nothing"),
        (left_out, "latencies are of senders for which there was no room"),
        (of.no_time, "packets have no timestamp"),
    ] {
        if count > 0 {
            text.push_str(&format!("latency: {count} {what}\n"));
        }
    }
    text
}
