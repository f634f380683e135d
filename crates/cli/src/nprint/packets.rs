//! A row for each packet, in the order of the capture.

use engine::Stage;
use engine::columns::Value;
use engine::group::Outcome;
use engine::run::{Control, run_one};
use model::Layout;
use packet::{Batch, Frame, Protocol, Timestamp};
use session::first::index::PacketIndex;
use session::reading::{Inputs, OpenSources, ReceiveOutcome};

use super::args::NprintArguments;
use super::rows::Rows;
use crate::failure::Failure;

struct Packets<'a> {
    layout: Layout,
    index: PacketIndex,
    relative: bool,
    absolute: bool,
    all_ip: bool,
    rows: Rows,
    record: Vec<u8>,
    /// The stamp of the row before, in microseconds.
    before_us: Option<i64>,
    outcome: Outcome,
    control: &'a Control,
    failure: Option<Failure>,
}

/// Writes rows to their end.
pub(super) fn run(
    arguments: &NprintArguments,
    inputs: &Inputs,
    opened: OpenSources,
    layout: Layout,
    rows: Rows,
) -> Result<(Outcome, ReceiveOutcome), Failure> {
    let mut stage = Packets {
        layout,
        index: PacketIndex::new(arguments.index),
        relative: arguments.relative_timestamps,
        absolute: arguments.absolute_timestamps,
        all_ip: arguments.all_ip,
        rows,
        record: vec![0; layout.record_len()],
        before_us: None,
        outcome: Outcome::default(),
        control: &inputs.control,
        failure: None,
    };
    let mut source = inputs.in_order(opened);
    let bar = inputs.bar();
    run_one(&mut source, &mut stage, &inputs.control);
    drop(bar);
    if let Some(failure) = stage.failure {
        return Err(failure);
    }
    stage.rows.finish()?;
    Ok((stage.outcome, source.received()))
}

impl Packets<'_> {
    fn is_wanted(&self, frame: &Frame<'_>) -> bool {
        let layers = &frame.record.layers;
        let has_block = matches!(layers.protocol, Protocol::TCP | Protocol::UDP | Protocol::ICMP);
        layers.is_ip() && (has_block || self.all_ip)
    }

    #[inline]
    fn push(&mut self, frame: &Frame<'_>) -> Result<(), Failure> {
        self.layout.fill(frame, &mut self.record);
        let index = Value::Str(self.index.of(frame));
        if !self.relative && !self.absolute {
            return self.rows.push(&[index], &self.record);
        }
        let us = match frame.record.timestamp {
            Timestamp::UNKNOWN => 0,
            time => time.as_ns().div_euclid(1_000),
        };
        #[allow(clippy::cast_precision_loss)]
        let rts = Value::F64(us.saturating_sub(self.before_us.unwrap_or(us)) as f64);
        self.before_us = Some(us);
        let seconds = Value::U64(u64::try_from(us.div_euclid(1_000_000)).unwrap_or(0));
        let micros = Value::U32(u32::try_from(us.rem_euclid(1_000_000)).unwrap_or(0));
        match (self.relative, self.absolute) {
            (true, false) => self.rows.push(&[index, rts], &self.record),
            (false, _) => self.rows.push(&[index, seconds, micros], &self.record),
            (true, true) => self.rows.push(&[index, rts, seconds, micros], &self.record),
        }
    }
}

impl Stage for Packets<'_> {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        for frame in batch.frames() {
            if !self.is_wanted(&frame) {
                self.outcome.add_absent(&frame);
                continue;
            }
            self.outcome.keyed += 1;
            if self.failure.is_none()
                && let Err(failure) = self.push(&frame)
            {
                self.failure = Some(failure);
                self.control.fail();
            }
        }
    }
}
