//! `unanswered`: flows in which one side alone has sent. A small application, whole: begin here to
//! write one of your own (`docs/specs/application.md`).

use std::any::Any;
use std::cmp::Ordering;

use engine::columns::{Columns, Field, Kind, RowRefused, Schema, Value};
use engine::flow::pass::{Labels, Lens, Piece};
use engine::flow::{Ended, FlowMark, FlowRecord, Left};
use packet::Timestamp;
use packet::community_id::CommunityId;
use serde::Deserialize;

use crate::application::{Application, Closing, Opening, Refusal, Site, Wants, Watcher, Watchers};
use crate::done::Done;
use crate::flows::NEEDS;
use crate::outlet::{Lay, PartOutlet};

/// What it writes: a row for each flow that nobody answered.
const SCHEMA: Schema = &[
    Field::new("community_id", Kind::Text, "Community ID v1, seed 0."),
    Field::new("protocol", Kind::Text, "IP protocol."),
    Field::new("src_ip", Kind::Text, "Who asks."),
    Field::new("src_port", Kind::U16, "From which port."),
    Field::new("dst_ip", Kind::Text, "Who does not answer."),
    Field::new("dst_port", Kind::U16, "On which port."),
    Field::new("first_ns", Kind::TimestampNs, "Earliest stamp; empty without one.").nullable(),
    Field::new("packets", Kind::U64, "Packets that were sent."),
];

/// Rows turned into columns at once.
const ROWS_PER_PIECE: usize = 1 << 12;

/// Its settings. Names in a file have `-` where these have `_`; what is left out is the default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Settings {
    /// Flows of fewer packets are not told.
    least_packets: u64,
}

/// The application: what is kept of its settings until a run begins.
pub(super) struct Unanswered(Settings);

impl Application for Unanswered {
    const NAME: &'static str = "unanswered";
    const ABOUT: &'static str = "Who asks and gets no answer: flows in which one side alone sent";
    const EXAMPLE: &'static str = "\
# Flows of fewer packets are not told.
# least-packets = 0
";
    // A flow is answered or not whatever others do: several threads may share them.
    const BY_FLOW: bool = true;

    type Settings = Settings;

    fn ready(settings: Settings, _: &Site<'_>) -> Result<Self, Refusal> {
        Ok(Self(settings))
    }

    fn wants(&self) -> Wants {
        // Headers as flows have them; how flows are cut is left to others.
        Wants::flows(NEEDS)
    }

    fn schema(&self, _: bool) -> Schema {
        SCHEMA
    }

    fn declared() -> Vec<(&'static str, Schema)> {
        vec![("wirelens run, [unanswered]", SCHEMA)]
    }

    fn open(self, opening: Opening) -> Result<Watchers, Refusal> {
        let Some(outlet) = opening.outlet else { return Err(Refusal::new("rows go nowhere")) };
        let least_packets = self.0.least_packets;
        let (parts, merge) = PartOutlet::for_passes(outlet, Rows, opening.pass_count);
        let lenses = parts.into_iter().map(|out| -> Box<dyn Watcher> {
            Box::new(Watching { least_packets, ended: Vec::new(), out })
        });
        Ok(Watchers { lenses: lenses.collect(), merge, beside: None })
    }
}

/// The lens: it sees flows end, and needs nothing of their packets.
struct Watching {
    least_packets: u64,
    ended: Vec<FlowRecord>,
    out: PartOutlet<Rows>,
}

impl Watching {
    fn take(&mut self, record: &FlowRecord) {
        let packets = record.packets_total();
        let sides = record.packets.iter().filter(|&&of_side| of_side > 0).count();
        if sides == 1 && packets >= self.least_packets {
            self.ended.push(*record);
        }
    }

    /// Hands on what has gathered, in an order that does not depend on how flows are kept.
    fn put(&mut self) {
        self.ended.sort_by_key(FlowRecord::order);
        self.out.put(&mut self.ended);
    }
}

/// Flows as rows, in one order however many passes found them.
struct Rows;

impl Lay for Rows {
    type Row = FlowRecord;

    fn compare(one: &FlowRecord, other: &FlowRecord) -> Ordering {
        one.order().cmp(&other.order())
    }

    fn lay(&mut self, rows: &[FlowRecord], put: &mut dyn FnMut(Columns)) -> Result<(), Refusal> {
        for piece in rows.chunks(ROWS_PER_PIECE) {
            let mut columns = Columns::new(SCHEMA);
            let pushed = piece.iter().try_for_each(|record| push(&mut columns, record));
            pushed.map_err(Refusal::new)?;
            put(columns);
        }
        Ok(())
    }
}

fn push(columns: &mut Columns, record: &FlowRecord) -> Result<(), RowRefused> {
    let (source, destination) = record.endpoints();
    let first = Some(record.first).filter(|&first| first != Timestamp::UNKNOWN);
    columns.push_row(&[
        Value::Text(&CommunityId(record.key)),
        Value::Text(&record.key.protocol()),
        Value::Address(source.address),
        Value::U16(source.port),
        Value::Address(destination.address),
        Value::U16(destination.port),
        first.map(|first| Value::TimestampNs(first.as_ns())).into(),
        Value::U64(record.packets_total()),
    ])
}

impl Lens for Watching {
    fn on_piece(&mut self, _: &Piece<'_>, _: &mut Labels) {}

    fn on_ended(&mut self, ended: &[Ended], _: &mut Labels) {
        ended.iter().for_each(|ended| self.take(&ended.record));
    }

    fn on_marked(&mut self, _: FlowMark) {
        self.put();
    }

    fn on_left(&mut self, left: &Left<'_>, _: &Labels) {
        left.in_order(ROWS_PER_PIECE, |flows| {
            flows.iter().for_each(|(record, _)| self.take(record));
            self.put();
        });
    }
}

impl Watcher for Watching {
    fn name(&self) -> &'static str {
        Unanswered::NAME
    }

    fn fold(&mut self, _: Box<dyn Any>) -> Result<(), Refusal> {
        // Nothing is counted here; who counts adds up.
        Ok(())
    }

    fn close(self: Box<Self>, flows: &Done) -> Result<Closing, Refusal> {
        let outcome = flows.outcome.clone();
        let closing = Closing { outcome, key: Done::KEY, ..Closing::default() };
        self.out.into_refusal().map_or(Ok(closing), Err)
    }
}
