//! `unanswered`: flows in which one side alone has sent. A small application, whole: begin here to
//! write one of your own (`docs/specs/application.md`).

use engine::columns::{Columns, Field, Kind, RowMismatch, Schema, Value};
use engine::flow::FlowRecord;
use packet::Timestamp;
use packet::community_id::CommunityId;
use serde::Deserialize;

use crate::application::{
    Application, EndedRows, Opening, Refusal, Site, Wants, Watchers, watch_ended,
};
use crate::flows::NEEDS;

/// Its columns: a row for each flow without an answer.
const SCHEMA: Schema = &[
    Field::new("community_id", Kind::Text, "Community ID v1, seed 0."),
    Field::new("protocol", Kind::Text, "IP protocol."),
    Field::new("src_ip", Kind::Text, "Client."),
    Field::new("src_port", Kind::U16, "Its port."),
    Field::new("dst_ip", Kind::Text, "Server that does not answer."),
    Field::new("dst_port", Kind::U16, "Its port."),
    Field::new("first_ns", Kind::TimestampNs, "Earliest timestamp; empty without one.").nullable(),
    Field::new("packets", Kind::U64, "Packets sent."),
];

/// Its settings. Names in a file have `-` where these have `_`; what is left out is the default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Settings {
    /// Flows of fewer packets are not reported.
    least_packets: u64,
}

/// The application: what is kept of its settings until a run begins.
pub(super) struct UnansweredFlows(Settings);

impl Application for UnansweredFlows {
    const NAME: &'static str = "unanswered";
    const ABOUT: &'static str = "Unanswered flows: only one side sent packets";
    const EXAMPLE: &'static str = "\
# Leave out flows with fewer packets.
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
        Wants { has_frames: false, ..Wants::flows(NEEDS) }
    }

    fn schema(&self, _: bool) -> Schema {
        SCHEMA
    }

    fn declared() -> Vec<(&'static str, Schema)> {
        vec![("wirelens run, [unanswered]", SCHEMA)]
    }

    fn open(self, opening: Opening) -> Result<Watchers, Refusal> {
        let Settings { least_packets } = self.0;
        watch_ended(Rows, opening, move |record| {
            let sides = record.packets.iter().filter(|&&of_side| of_side > 0).count();
            sides == 1 && record.packets_total() >= least_packets
        })
    }
}

/// How flows become rows; nothing has to be kept of their packets.
#[derive(Clone)]
struct Rows;

impl EndedRows for Rows {
    type State = ();
    const NAME: &'static str = UnansweredFlows::NAME;

    fn lay(
        &mut self,
        flows: &[(FlowRecord, ())],
        put: &mut dyn FnMut(Columns),
    ) -> Result<(), Refusal> {
        let mut columns = Columns::new(SCHEMA);
        for (record, ()) in flows {
            push(&mut columns, record).map_err(Refusal::new)?;
        }
        put(columns);
        Ok(())
    }
}

fn push(columns: &mut Columns, record: &FlowRecord) -> Result<(), RowMismatch> {
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
