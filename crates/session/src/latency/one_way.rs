//! One-way delays: what the pass lends is the first tap, and the lens reads the second one as far
//! as that has come.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use engine::columns::{Columns, Field, Kind, RowMismatch, Schema, Value};
use engine::flow::pass::{Labels, Lens, Now, Piece};
use engine::group::Outcome;
use engine::run::Control;
use latency::{
    Estimate, Identity, Limits, Offset, OneWay, OneWayCounts, OneWayFlow, TakeSamples, Tap,
    TapPacket, WAIT_MAX,
};
use packet::community_id::CommunityId;
use packet::event_time::STEP_BACK;
use packet::{FlowDirection, FlowKey, Span, Timestamp};

use super::line::LatencyRows;
use super::settings::SortBy;
use crate::application::{Application as _, Closing, Count, ENDED_PER_PIECE, Refusal, Watcher};
use crate::done::RunTotals;
use crate::outlet::Outlet;
use crate::reading::{InputRequest, Inputs};
use crate::second::{Second, explained};
use crate::summary::SourceSummary;

/// Packets of each capture by which clocks are compared.
const COMPARED: usize = 1 << 18;
/// What packets lack that are not matched.
const KEY: &str = "an IP header and a timestamp";

/// One direction of a flow between two taps.
#[derive(Clone, Debug)]
pub struct Between {
    /// The conversation.
    pub key: FlowKey,
    /// Which way.
    pub direction: FlowDirection,
    /// What was found.
    pub flow: OneWayFlow,
}

const fn ns(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::U64, about).nullable()
}

/// The columns.
pub(super) const SCHEMA: Schema = &[
    Field::new("community_id", Kind::Text, "Community ID v1, seed 0."),
    Field::new("protocol", Kind::Text, "IP protocol."),
    Field::new("src_ip", Kind::Text, "Sender of these packets: each direction has a row."),
    Field::new("src_port", Kind::U16, "Its port."),
    Field::new("dst_ip", Kind::Text, "Their receiver."),
    Field::new("dst_port", Kind::U16, "Its port."),
    Field::new("first_tap", Kind::Text, "Tap that they pass first: `ingress` (-r) or `egress`."),
    Field::new("packets", Kind::U64, "Packets at that tap."),
    Field::new("lost", Kind::U64, "Of those, packets that the other tap did not see in 10 s."),
    Field::new("unseen", Kind::U64, "Packets that only the other tap saw."),
    Field::new("backwards", Kind::U64, "Packets that arrive before they leave, by these clocks."),
    Field::new("delay_count", Kind::U64, "Packets whose one-way delay was measured."),
    ns("delay_min_ns", "Minimum delay from tap to tap, in nanoseconds."),
    ns("delay_p50_ns", "The median, within 0.8 %."),
    ns("delay_p90_ns", "The 90th percentile."),
    ns("delay_p99_ns", "The 99th percentile."),
    ns("delay_max_ns", "The largest."),
    ns("jitter_ns", "Interarrival jitter as RFC 3550 estimates it."),
    ns("queue_p50_ns", "Queueing delay: the median above the minimum."),
    ns("queue_p99_ns", "Queueing delay: the 99th percentile above the minimum."),
    Field::new("sharp_changes", Kind::U64, "Sharp changes from one delay to the next."),
];

impl Between {
    /// The tap that its packets pass first.
    #[must_use]
    pub const fn first_tap(&self) -> &'static str {
        match self.flow.first {
            Tap::Ingress => "ingress",
            Tap::Egress => "egress",
        }
    }

    fn push(&self, columns: &mut Columns) -> Result<(), RowMismatch> {
        let Self { key, direction, flow } = self;
        let (source, destination) = key.endpoints(*direction);
        let delays = &flow.delays;
        let ns = |value: Option<u64>| value.map(Value::U64).into();
        let above = |share: f64| Some(delays.quantile(share)?.saturating_sub(delays.min()?));
        columns.push_row(&[
            Value::Text(&CommunityId(*key)),
            Value::Text(&key.protocol()),
            Value::Address(source.address),
            Value::U16(source.port),
            Value::Address(destination.address),
            Value::U16(destination.port),
            Value::Str(self.first_tap()),
            Value::U64(flow.packets),
            Value::U64(flow.lost),
            Value::U64(flow.unseen),
            Value::U64(flow.backwards),
            Value::U64(delays.count),
            ns(delays.min()),
            ns(delays.quantile(0.5)),
            ns(delays.quantile(0.9)),
            ns(delays.quantile(0.99)),
            ns(delays.max()),
            ns(delays.jitter()),
            ns(above(0.5)),
            ns(above(0.99)),
            Value::U64(flow.series.sharp),
        ])
    }
}

/// When packets of a tap were seen.
#[derive(Clone, Copy, Debug, Default)]
struct Times(Option<(Timestamp, Timestamp)>);

impl Times {
    fn add(&mut self, time: Timestamp) {
        let (first, last) = self.0.unwrap_or((time, time));
        self.0 = Some((first.min(time), last.max(time)));
    }

    fn said(self) -> String {
        match self.0 {
            Some((first, last)) => format!("from {first} to {last}"),
            None => String::from("without any packet"),
        }
    }
}

/// Packets of a tap in the order of time, but for those with wrong stamps. One of the year 2106
/// would have the other tap read to its end, and no packet after it matched. So the first packet,
/// and one after a gap, waits for the next, which shows whether time has come there; both taps are
/// captures, and no row is late by it.
#[derive(Debug)]
struct Steady<T> {
    latest: Timestamp,
    held: Option<(Timestamp, T)>,
    /// Packets whose stamps are far ahead of those before and after them.
    strays: u64,
}

impl<T> Steady<T> {
    const fn new() -> Self {
        Self { latest: Timestamp::MIN, held: None, strays: 0 }
    }

    /// Takes in a packet; what is in the order of time, by then.
    fn take(&mut self, time: Timestamp, packet: T) -> [Option<T>; 2] {
        let held = self.held.take().filter(|(then, _)| {
            let is_steady = then.since(time) < STEP_BACK;
            self.strays += u64::from(!is_steady);
            is_steady
        });
        let before = held.map(|(then, held)| {
            self.latest = then;
            held
        });
        if time.since(self.latest) >= STEP_BACK {
            self.held = Some((time, packet));
            return [before, None];
        }
        self.latest = self.latest.max(time);
        [before, Some(packet)]
    }

    /// The one that waits, where no packet comes after it.
    fn last(&mut self) -> Option<T> {
        let (time, packet) = self.held.take()?;
        self.latest = time;
        Some(packet)
    }
}

/// The second tap.
pub(super) struct Egress {
    second: Second,
    identity: Identity,
    /// Packets that are read, and later than the first tap has come.
    ahead: VecDeque<TapPacket>,
    steady: Steady<TapPacket>,
    times: Times,
    outcome: Outcome,
}

impl Egress {
    /// Reads some packets more; `false` where there are none.
    fn read(&mut self) -> bool {
        let Self { second, identity, ahead, steady, times, outcome } = self;
        let is_read = second.next(|batch| {
            for frame in batch.frames() {
                match identity.of(&frame) {
                    Some(seen) => {
                        outcome.keyed += 1;
                        for seen in steady.take(seen.time, seen).into_iter().flatten() {
                            times.add(seen.time);
                            ahead.push_back(seen);
                        }
                    }
                    None => outcome.without_key += 1,
                }
            }
        });
        let last = if is_read { None } else { steady.last() };
        ahead.extend(last.inspect(|seen| times.add(seen.time)));
        is_read || last.is_some()
    }

    /// Reads to the end; how many packets that are, with those that were read ahead.
    fn count_rest(&mut self) -> u64 {
        let mut count = 0;
        loop {
            count += self.ahead.len() as u64;
            self.ahead.clear();
            if !self.read() {
                return count;
            }
        }
    }
}

/// What the egress tap is, and by what its clock is set right.
pub(super) struct EgressTap {
    egress: Egress,
    said: String,
}

/// Opens the second tap, and compares its clock with the first one's.
pub(super) fn open(
    request: &InputRequest,
    egress: &[PathBuf],
    offset: Option<Span>,
    control: &Arc<Control>,
) -> Result<EgressTap, Refusal> {
    let behind = crate::second::behind(request, egress);
    let (add, said) = match offset {
        Some(offset) => (offset, String::new()),
        None => {
            let found = compare(request, &behind, control)?;
            let add = found.map(|found| found.add).unwrap_or_default();
            (add, found.map_or_else(not_compared_said, offset_said))
        }
    };
    let inputs = Inputs::find(&behind, true, Arc::clone(control)).map_err(explained)?;
    let egress = Egress {
        second: Second::open(inputs, add).map_err(explained)?,
        identity: Identity::default(),
        ahead: VecDeque::new(),
        steady: Steady::new(),
        times: Times::default(),
        outcome: Outcome::default(),
    };
    Ok(EgressTap { egress, said })
}

fn offset_said(found: Offset) -> String {
    let assumption = if found.is_symmetric {
        "assumed: the smallest delay is the same in both directions"
    } else {
        "packets go in one direction only; assumed: the smallest delay is 0, so delays are \
         relative to it"
    };
    format!(
        "latency: egress clock: {:+.6} s are added to its timestamps ({assumption}); \
         --egress-offset sets another, 0ms for taps of one clock\n",
        found.add.as_seconds_f64()
    )
}

/// Why delays may be off by any amount.
fn not_compared_said(reason: &'static str) -> String {
    format!(
        "latency: egress clock: its offset is not known ({reason}): its timestamps are used as \
         they are; --egress-offset sets one\n"
    )
}

/// Compares clocks by the packets at the beginning of both captures. Standard input cannot be read
/// twice: its clock is taken as it is. Why there is no offset, if there is none.
fn compare(
    before: &InputRequest,
    behind: &InputRequest,
    control: &Arc<Control>,
) -> Result<Result<Offset, &'static str>, Refusal> {
    let is_pipe = |request: &InputRequest| request.names.iter().any(|name| name.as_os_str() == "-");
    if is_pipe(before) || is_pipe(behind) {
        return Ok(Err("standard input can be read only once"));
    }
    let identity = Identity::default();
    let mut seen: HashMap<u64, Timestamp> = HashMap::new();
    let mut estimate = Estimate::default();
    let read = |request: &InputRequest, take: &mut dyn FnMut(TapPacket)| -> Result<(), Refusal> {
        let inputs = Inputs::find(request, true, Arc::clone(control)).map_err(explained)?;
        let mut source = Second::open(inputs, Span::default()).map_err(explained)?;
        let (mut count, mut steady) = (0, Steady::new());
        while count < COMPARED
            && source.next(|batch| {
                count += batch.records.len();
                let seen = batch.frames().filter_map(|frame| identity.of(&frame));
                seen.flat_map(|seen| steady.take(seen.time, seen)).flatten().for_each(&mut *take);
            })
        {}
        steady.last().into_iter().for_each(take);
        Ok(())
    };
    // Of copies that are equal neither says which it is.
    let mut twice = std::collections::HashSet::new();
    read(before, &mut |packet| {
        if seen.insert(packet.id(), packet.time).is_some() {
            twice.insert(packet.id());
        }
    })?;
    read(behind, &mut |packet| {
        if let Some(time) = seen.remove(&packet.id()).filter(|_| !twice.contains(&packet.id())) {
            estimate.add(&packet, time, packet.time);
        }
    })?;
    Ok(estimate.offset().ok_or("no packet is among the first ones of both captures"))
}

/// Hands on what samples have become.
type Finish<T> = fn(&mut T) -> Result<(), Refusal>;

/// The lens.
pub(super) struct Watching<T> {
    pub(super) one_way: OneWay,
    identity: Identity,
    opened: EgressTap,
    out: T,
    finish: Finish<T>,
    outlet: Option<Outlet>,
    shown: Option<(usize, SortBy)>,
    steady: Steady<TapPacket>,
    latest: Timestamp,
    times: Times,
}

impl<T: TakeSamples + Send + 'static> Watching<T> {
    pub(super) fn new(
        limits: Limits,
        opened: EgressTap,
        (out, finish): (T, Finish<T>),
        outlet: Option<Outlet>,
        shown: Option<(usize, SortBy)>,
    ) -> Self {
        let identity = opened.egress.identity.clone();
        let (steady, latest, times) = (Steady::new(), Timestamp::MIN, Times::default());
        let one_way = OneWay::new(limits);
        Self { one_way, identity, opened, out, finish, outlet, shown, steady, latest, times }
    }

    fn take(&mut self, seen: TapPacket) {
        self.times.add(seen.time);
        self.latest = self.latest.max(seen.time);
        self.advance(self.latest);
        self.one_way.add(Tap::Ingress, seen, &mut self.out);
    }

    /// Packets of both taps with wrong stamps.
    const fn strays(&self) -> u64 {
        self.steady.strays + self.opened.egress.steady.strays
    }

    /// Takes in what the second tap has seen before a moment, a batch at a time: it may have seen
    /// much more than the first one until then.
    fn advance(&mut self, until: Timestamp) {
        let Self { one_way, opened, out, .. } = self;
        let egress = &mut opened.egress;
        loop {
            while egress.ahead.front().is_some_and(|seen| seen.time < until) {
                let Some(seen) = egress.ahead.pop_front() else { break };
                one_way.add(Tap::Egress, seen, out);
            }
            if egress.steady.latest >= until {
                return;
            }
            if !egress.read() {
                return one_way.end(Tap::Egress);
            }
        }
    }
}

impl<T: TakeSamples + Send + 'static> Lens for Watching<T> {
    fn on_piece(&mut self, piece: &Piece<'_>, _: &mut Labels) {
        for frame in piece.frames() {
            let Some(seen) = self.identity.of(&frame) else { continue };
            let due = self.steady.take(seen.time, seen);
            due.into_iter().flatten().for_each(|seen| self.take(seen));
        }
    }
}

impl<T: TakeSamples + Send + 'static> Watcher for Watching<T> {
    fn name(&self) -> &'static str {
        super::Latency::NAME
    }

    fn counts(&self, _: &Now<'_>) -> Vec<Count> {
        at_both(self.one_way.counts(), [0, self.strays()])
    }

    fn close(mut self: Box<Self>, flows: &RunTotals) -> Result<Closing, Refusal> {
        if let Some(last) = self.steady.last() {
            self.take(last);
        }
        self.advance(self.latest.plus(WAIT_MAX));
        // What is later than any packet of the first tap cannot have come from there.
        let left = self.opened.egress.count_rest();
        let strays = self.strays();
        let Self { mut one_way, opened, mut out, finish, outlet, shown, times, .. } = *self;
        let EgressTap { egress, said } = opened;
        one_way.finish(&mut out);
        finish(&mut out)?;
        let counts = *one_way.counts();
        if counts.matched == 0 && !egress.second.is_stopped() {
            return Err(apart(times, egress.times));
        }
        let mut lines = said;
        let drift = one_way.clocks.drift_ppm();
        let flows_found: Vec<Between> = one_way
            .take_flows()
            .into_iter()
            .map(|(key, direction, flow)| Between { key, direction, flow })
            .collect();
        lines.push_str(&totals_said(&flows_found, counts.matched, drift));
        lines.push_str(&unmatched_said(&counts, left, strays));
        if let Some(outlet) = outlet {
            put(&flows_found, &outlet).map_err(Refusal::new)?;
        }
        let found = shown.map(|(count, sort)| first(flows_found, count, sort));
        let (inputs, received) = egress.second.finish();
        let own = SourceSummary {
            inputs,
            received,
            outcome: egress.outcome,
            key: KEY,
            beyond_max_keys: 0,
            lines: String::new(),
        };
        Ok(Closing {
            lines,
            shown: at_both(&counts, [left, strays]),
            counts: vec![
                ("matched_packets", counts.matched),
                ("elsewhere_packets", counts.elsewhere + left),
                ("no_room_packets", counts.no_room),
                ("stray_packets", strays),
            ],
            own: vec![own],
            found: found.map(|found| -> Box<dyn std::any::Any + Send> { Box::new(found) }),
            ..flows.closing()
        })
    }
}

/// Packets at two taps while a run goes on; `left` are those that the first tap cannot have seen,
/// `strays` those with wrong stamps.
fn at_both(counts: &OneWayCounts, [left, strays]: [u64; 2]) -> Vec<Count> {
    vec![
        Count::total("matched_packets", "Packets seen at both taps.", counts.matched),
        Count::total(
            "elsewhere_packets",
            "Packets of flows seen at one tap only.",
            counts.elsewhere + left,
        ),
        Count::total("no_room_packets", "Packets that did not fit into the table.", counts.no_room),
        Count::total("stray_packets", "Packets with a timestamp far ahead of others.", strays),
    ]
}

/// No packet was seen at both taps.
fn apart(first: Times, second: Times) -> Refusal {
    Refusal::of(
        "egress",
        format_args!(
            "no packet was seen at both taps: the first has packets {}, the second {}; wanted: \
             captures of the same traffic at the same time, without address translation between \
             them, or --egress-offset, if their clocks differ",
            first.said(),
            second.said()
        ),
    )
}

/// Packets that were not matched, by cause, each on a line.
fn unmatched_said(counts: &OneWayCounts, left: u64, strays: u64) -> String {
    let mut text = String::new();
    for (count, what) in [
        (counts.elsewhere + left, "packets are of flows seen at one tap only"),
        (
            counts.outside,
            "packets passed one tap before the first packet of the other, or after its last one: \
             if that capture is shorter, they are not lost",
        ),
        (strays, "packets have timestamps far ahead of those around them, and are not matched"),
        (counts.no_room, "packets exceeded a table; --max-waiting and --max-flows set its size"),
    ] {
        if count > 0 {
            text.push_str(&format!("latency: {count} {what}\n"));
        }
    }
    text
}

fn totals_said(flows: &[Between], matched: u64, drift: Option<f64>) -> String {
    let sum = |of: fn(&OneWayFlow) -> u64| flows.iter().map(|found| of(&found.flow)).sum::<u64>();
    let (lost, backwards) = (sum(|flow| flow.lost), sum(|flow| flow.backwards));
    let mut text =
        format!("latency: {matched} packets seen at both taps; {lost} lost between them\n");
    if backwards > 0 {
        text.push_str(&format!(
            "latency: {backwards} packets arrive before they leave: the clocks differ by more than \
             their offset\n"
        ));
    }
    if let Some(ppm) = drift {
        text.push_str(&format!("latency: the egress clock drifts by {ppm:+.1} ppm\n"));
    }
    text
}

fn put(flows: &[Between], outlet: &Outlet) -> Result<(), RowMismatch> {
    for flows in flows.chunks(ENDED_PER_PIECE) {
        let mut columns = Columns::new(SCHEMA);
        flows.iter().try_for_each(|flow| flow.push(&mut columns))?;
        outlet.put(columns);
    }
    Ok(())
}

fn first(mut flows: Vec<Between>, count: usize, sort: SortBy) -> LatencyRows {
    let total = flows.len() as u64;
    let rank = |found: &Between| match sort {
        SortBy::Packets => found.flow.packets,
        SortBy::P50 => found.flow.delays.quantile(0.5).unwrap_or(0),
        SortBy::P99 => found.flow.delays.quantile(0.99).unwrap_or(0),
        SortBy::Retransmissions => found.flow.lost,
    };
    flows.sort_by_key(|found| std::cmp::Reverse(rank(found)));
    flows.truncate(count);
    LatencyRows::OneWay(flows, total)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    const COUNT: u32 = 5_000;

    /// A capture of datagrams, one each millisecond.
    fn capture(path: &Path, count: u32) -> PathBuf {
        let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
        bytes.extend([[0; 4], [0; 4], 65_535_u32.to_le_bytes(), 1_u32.to_le_bytes()].concat());
        for number in 0..count {
            let head = [1_000 + number / 1_000, number % 1_000 * 1_000, 42, 42];
            bytes.extend(head.map(u32::to_le_bytes).concat());
            bytes.extend([0; 12]);
            bytes.extend([8, 0, 0x45, 0, 0, 28]);
            bytes.extend(u16::try_from(number).unwrap().to_be_bytes());
            bytes.extend([0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
            bytes.extend([0, 9, 0, 9, 0, 8, 0, 0]);
        }
        fs::write(path, bytes).unwrap();
        path.to_owned()
    }

    fn watching(folder: &Path) -> Watching<()> {
        let request = InputRequest {
            names: vec![capture(&folder.join("ingress.pcap"), 1)],
            ..InputRequest::default()
        };
        let egress = [capture(&folder.join("egress.pcap"), COUNT)];
        let offset = Some(Span::default());
        let opened = open(&request, &egress, offset, &Arc::new(Control::default())).unwrap();
        Watching::new(Limits::default(), opened, ((), |()| Ok(())), None, None)
    }

    #[test]
    fn a_packet_far_ahead_is_believed_where_the_next_one_follows_it() {
        let at = |seconds| Timestamp::from_parts(seconds, 0);
        let mut steady = Steady::new();
        let mut take = |seconds| steady.take(at(seconds), seconds);
        assert_eq!(take(1_000), [None, None]);
        // Of another century, and alone.
        assert_eq!(take(4_000_000_000), [Some(1_000), None]);
        assert_eq!(take(1_001), [None, Some(1_001)]);
        // A silence, and the end in another one.
        assert_eq!(take(5_000), [None, None]);
        assert_eq!(take(4_999), [Some(5_000), Some(4_999)]);
        assert_eq!(take(9_000), [None, None]);
        assert_eq!((steady.last(), steady.last()), (Some(9_000), None));
        assert_eq!((steady.latest, steady.strays), (at(9_000), 1));
    }

    #[test]
    fn of_a_second_tap_that_has_seen_much_more_little_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let mut watching = watching(folder.path());
        watching.advance(Timestamp::from_parts(2_000, 0));
        let Egress { ahead, outcome, .. } = &watching.opened.egress;
        assert_eq!((outcome.keyed, ahead.len()), (COUNT.into(), 0));
        assert!(ahead.capacity() <= 1_024, "{} packets were held", ahead.capacity());
    }

    #[test]
    fn what_comes_after_the_first_tap_is_counted_and_not_held() {
        let folder = tempfile::tempdir().unwrap();
        let mut watching = watching(folder.path());
        watching.advance(Timestamp::from_parts(1_000, 1));
        let egress = &mut watching.opened.egress;
        assert_eq!(egress.count_rest(), u64::from(COUNT) - 1);
        assert!(egress.ahead.capacity() <= 1_024, "{} packets", egress.ahead.capacity());
    }
}
