//! A row for each flow: its first packets side by side.

use engine::flow::{
    EndedFlow, FlowFrames, FlowOptions, FlowPacket, FlowSlot, FramesDone, FromFrames, Held,
    TakeEnded,
};
use engine::run::{Control, run_one};
use model::{Layout, Subscription};
use packet::{Frame, HashSeed};

use super::index;
use super::rows::Rows;
use crate::failure::Failure;
use crate::flows::Done;
use crate::reading::{Inputs, Opened};

/// Keeps the records of a flow's first packets, end to end.
struct FirstRecords {
    layout: Layout,
    len_max: usize,
}

impl FromFrames for FirstRecords {
    type State = Vec<u8>;

    #[inline]
    fn on_frame(&mut self, records: &mut Vec<u8>, frame: &Frame<'_>, _: &FlowPacket, _: FlowSlot) {
        let (len, record_len) = (records.len(), self.layout.record_len());
        if len >= self.len_max {
            return;
        }
        if len == 0 {
            // Most flows of a flood have one packet: no more is set aside for it.
            records.reserve_exact(record_len);
        }
        records.resize(len + record_len, 0);
        self.layout.fill(frame, records.get_mut(len..).unwrap_or_default());
    }
}

struct Written<'a> {
    rows: Rows,
    control: &'a Control,
    failure: Option<Failure>,
}

impl TakeEnded<Vec<u8>> for Written<'_> {
    fn take(&mut self, flows: &[EndedFlow<Vec<u8>>]) {
        for (record, Held(records)) in flows {
            if self.failure.is_some() {
                return;
            }
            let rows = &mut self.rows;
            if let Err(failure) = index::of_flow(record, |index| rows.push(index, records)) {
                self.failure = Some(failure);
                self.control.stop();
            }
        }
    }
}

/// Writes rows to their end.
pub(super) fn run(
    options: FlowOptions,
    seed: HashSeed,
    inputs: &Inputs,
    opened: Opened,
    subscription: &Subscription,
    rows: Rows,
) -> Result<Done, Failure> {
    let layout = subscription.layout();
    let keep = FirstRecords { layout, len_max: subscription.depth() * layout.record_len() };
    let written = Written { rows, control: &inputs.control, failure: None };
    let mut stage = FlowFrames::new(options, seed, keep, written);
    let mut source = inputs.in_order(opened);
    let bar = inputs.bar();
    run_one(&mut source, &mut stage, &inputs.control);
    drop(bar);
    let FramesDone { output, outcome, clock, counts, .. } = stage.finish();
    if let Some(failure) = output.failure {
        return Err(failure);
    }
    output.rows.finish()?;
    let received = source.received();
    Ok(Done { outcome, received, late: clock.late, clock_steps: clock.steps, counts })
}
