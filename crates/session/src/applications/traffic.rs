//! `traffic`: how much comes, period by period.

use std::collections::BTreeMap;

use engine::columns::{Columns, Field, Kind, Schema, Value};
use engine::flow::pass::{FaultScope, Labels, Lens, Now, Piece};
use engine::flow::{FlowEnd, FlowMark, MarkKind, RemainingFlows};
use engine::window::LATENESS_ALLOWANCE;
use packet::{Protocol, Span, Timestamp};
use serde::Deserialize;
use std::ops::Range;

use crate::application::{
    Application, Closing, Count, OpenRows, Opening, Refusal, Site, Wants, Watcher, Watchers,
};
use crate::done::RunTotals;
use crate::flows::NEEDS;
use crate::outlet::Outlet;
use crate::written;

const SCHEMA: Schema = &[
    Field::new("start_ns", Kind::TimestampNs, "Start of the period."),
    Field::new("period_ns", Kind::U64, "Its length, in nanoseconds."),
    Field::new("packets", Kind::U64, "Packets."),
    Field::new("bytes", Kind::U64, "Bytes on the wire, link header included."),
    Field::new("tcp_bytes", Kind::U64, "Of these, bytes of TCP over IP."),
    Field::new("udp_bytes", Kind::U64, "Of these, bytes of UDP over IP."),
    Field::new("other_bytes", Kind::U64, "The rest of the bytes."),
    Field::new("new_flows", Kind::U64, "Flows whose first packet was in the period."),
    Field::new("ended_flows", Kind::U64, "Flows that ended in it."),
    Field::new(
        "dropped_packets",
        Kind::U64,
        "Packets dropped by the capture since the previous \
                                              row.",
    ),
];

/// Periods that are open together: packets of earlier ones are late, and are counted.
const OPEN_PERIODS_MAX: usize = 64;

/// The shortest period.
const LEAST: Span = Span::from_ns(10_000_000);

/// Settings of `traffic`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Settings {
    /// A row for each period of this length.
    #[serde(deserialize_with = "written::duration")]
    every: Span,
}

impl Default for Settings {
    fn default() -> Self {
        Self { every: Span::from_seconds(1) }
    }
}

/// The application.
pub(super) struct Traffic(Settings);

impl Application for Traffic {
    const NAME: &'static str = "traffic";
    const ABOUT: &'static str = "Traffic volume: packets, bytes and flows of each period";
    const EXAMPLE: &'static str = "\
# One row per period of this length.
# every = \"1s\"
";

    type Settings = Settings;

    fn ready(settings: Settings, _: &Site<'_>) -> Result<Self, Refusal> {
        if settings.every < LEAST {
            return Err(Refusal::of("every", "wanted: 10ms or longer"));
        }
        Ok(Self(settings))
    }

    fn wants(&self) -> Wants {
        // Every frame counts, whether it has a flow or not.
        Wants { has_frames: true, ..Wants::flows(NEEDS) }
    }

    fn schema(&self, _: bool) -> Schema {
        SCHEMA
    }

    fn declared() -> Vec<(&'static str, Schema)> {
        vec![("wirelens run, [traffic]", SCHEMA)]
    }

    fn open(self, opening: Opening) -> Result<Watchers, Refusal> {
        let Some(outlet) = opening.outlet else { return Err(Refusal::new("rows go nowhere")) };
        let every_ns = self.0.every.as_ns();
        let progress = opening.progress;
        Ok(Counting {
            every_ns,
            periods: BTreeMap::new(),
            closed_to: i64::MIN,
            generations: Vec::new(),
            late: 0,
            dropped: 0,
            progress,
            outlet,
        }
        .into())
    }
}

/// What came in a period.
#[derive(Clone, Copy, Default)]
struct Period {
    packets: u64,
    bytes: u64,
    tcp_bytes: u64,
    udp_bytes: u64,
    new_flows: u64,
    ended_flows: u64,
}

/// The lens.
struct Counting {
    every_ns: i64,
    /// Periods that may still grow, by their number.
    periods: BTreeMap<i64, Period>,
    /// Periods before this one were handed on.
    closed_to: i64,
    /// The generation of each slot whose flow was seen.
    generations: Vec<Option<u32>>,
    late: u64,
    /// Packets that the capture had lost at the last row.
    dropped: u64,
    progress: std::sync::Arc<capture::Progress>,
    outlet: Outlet,
}

impl Counting {
    /// The period of a time; nothing where that was handed on already, or the time is not known.
    fn period(&mut self, time: Timestamp) -> Option<&mut Period> {
        let number = time.as_ns().div_euclid(self.every_ns);
        if time == Timestamp::UNKNOWN || number < self.closed_to {
            return None;
        }
        Some(self.periods.entry(number).or_default())
    }

    /// Whether a flow begins with this packet.
    fn is_new(&mut self, index: u32, generation: u32) -> bool {
        let index = index as usize;
        if self.generations.len() <= index {
            self.generations.resize(index + 1, None);
        }
        let seen = self.generations.get_mut(index);
        seen.is_some_and(|seen| seen.replace(generation) != Some(generation))
    }

    /// Hands on the periods before this one.
    fn close_before(&mut self, number: i64) {
        let open = self.periods.split_off(&number);
        let closed = std::mem::replace(&mut self.periods, open);
        self.closed_to = self.closed_to.max(number);
        let dropped = self.progress.frames_dropped();
        let lost = dropped.saturating_sub(std::mem::replace(&mut self.dropped, dropped));
        if !closed.is_empty() {
            self.outlet.put(rows(&closed, self.every_ns, lost));
        } else {
            self.dropped -= lost;
        }
    }
}

fn rows(periods: &BTreeMap<i64, Period>, every_ns: i64, lost: u64) -> Columns {
    let mut columns = Columns::new(SCHEMA);
    let last = periods.len().saturating_sub(1);
    for (at, (number, period)) in periods.iter().enumerate() {
        let Period { packets, bytes, tcp_bytes, udp_bytes, new_flows, ended_flows } = *period;
        let row = [
            Value::TimestampNs(number.saturating_mul(every_ns)),
            Value::U64(every_ns.unsigned_abs()),
            Value::U64(packets),
            Value::U64(bytes),
            Value::U64(tcp_bytes),
            Value::U64(udp_bytes),
            Value::U64(bytes - tcp_bytes - udp_bytes),
            Value::U64(new_flows),
            Value::U64(ended_flows),
            Value::U64(if at == last { lost } else { 0 }),
        ];
        // Kinds are those of the schema above.
        let _ = columns.push_row(&row);
    }
    columns
}

impl Lens for Counting {
    fn on_piece(&mut self, piece: &Piece<'_>, _: &mut Labels) {
        for frame in piece.frames() {
            match self.period(frame.record.timestamp) {
                Some(period) => {
                    period.packets += 1;
                    period.bytes += u64::from(frame.record.wire_len);
                }
                None => self.late += 1,
            }
        }
        for (_, frame, packet, slot) in piece.flows() {
            let is_new = self.is_new(slot.index, slot.generation);
            let protocol = packet.key().protocol();
            let Some(period) = self.period(frame.record.timestamp) else { continue };
            period.new_flows += u64::from(is_new);
            let bytes = u64::from(frame.record.wire_len);
            match protocol {
                Protocol::TCP => period.tcp_bytes += bytes,
                Protocol::UDP => period.udp_bytes += bytes,
                _ => {}
            }
        }
    }

    fn on_ended(&mut self, ended: &[FlowEnd], _: &mut Labels) {
        for ended in ended {
            if let Some(period) = self.period(ended.seen) {
                period.ended_flows += 1;
            }
        }
    }

    /// With an epoch ([`packet::event_time`]) what was open is over, and periods begin again.
    fn on_mark(&mut self, mark: FlowMark, _: &mut Labels) {
        if mark.kind == MarkKind::Step {
            self.close_before(i64::MAX);
            self.closed_to = i64::MIN;
        }
    }

    fn on_marked(&mut self, mark: FlowMark) {
        let latest = self.periods.last_key_value().map_or(i64::MIN, |(number, _)| *number);
        let before = latest.saturating_sub(i64::try_from(OPEN_PERIODS_MAX).unwrap_or(i64::MAX));
        let settled = mark.watermark.as_ns().saturating_sub(LATENESS_ALLOWANCE.as_ns());
        self.close_before(settled.div_euclid(self.every_ns).max(before));
    }

    fn on_left(&mut self, _: &RemainingFlows<'_>, _: &Labels) {
        self.close_before(i64::MAX);
    }

    /// Sums are of packets, and whole after each of them.
    fn on_fault(&mut self, _: &FaultScope<'_>) -> bool {
        true
    }
}

impl Watcher for Counting {
    fn name(&self) -> &'static str {
        Traffic::NAME
    }

    fn counts(&self, now: &Now<'_>) -> Vec<Count> {
        let about = "Packets of periods already written, or without a timestamp.";
        #[allow(clippy::cast_precision_loss)]
        let open_count = now.flow_count() as f64;
        vec![
            Count::total("packets_late", about, self.late),
            Count::gauge("flows_open", "Flows that have not ended.", open_count),
        ]
    }

    fn open_rows(&self, _: &Now<'_>, slots: Range<u32>) -> Option<(usize, OpenRows)> {
        // They do not lie in slots: all of them come with the first.
        if slots.start > 0 {
            return None;
        }
        let (periods, every_ns) = (self.periods.clone(), self.every_ns);
        Some((periods.len(), Box::new(move || rows(&periods, every_ns, 0))))
    }

    fn close(self: Box<Self>, flows: &RunTotals) -> Result<Closing, Refusal> {
        let counts = vec![("packets_late", self.late)];
        Ok(Closing { counts, ..flows.closing() })
    }
}
