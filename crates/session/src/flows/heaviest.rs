//! The flows of most bytes or packets, of all that were seen.

use std::any::Any;

use engine::flow::pass::{FaultScope, Labels, Lens, Piece};
use engine::flow::{FlowEnd, FlowRecord, Heaviest, RemainingFlows};

use super::{Flows, RunTotals, ShownFlow};
use crate::application::{Application as _, Closing, Refusal, Watcher, Watchers, of_same};

/// Lenses for so many passes; what is found as a whole is a `Vec` of [`ShownFlow`], heaviest
/// first.
pub(super) fn watch(flow_count: usize, by_packets: bool, pass_count: usize) -> Watchers {
    let lens = |_| -> Box<dyn Watcher> {
        Box::new(Watching { heaviest: Heaviest::new(flow_count, by_packets) })
    };
    Watchers { lenses: (0..pass_count).map(lens).collect(), ..Watchers::default() }
}

struct Watching {
    heaviest: Heaviest,
}

impl Watching {
    fn add(&mut self, record: FlowRecord) {
        let make = || Some((record, ()));
        self.heaviest.add(record.packets_total(), record.bytes_total(), make);
    }
}

impl Lens for Watching {
    fn on_piece(&mut self, _: &Piece<'_>, _: &mut Labels) {}

    fn on_ended(&mut self, ended: &[FlowEnd], _: &mut Labels) {
        ended.iter().for_each(|ended| self.add(ended.record));
    }

    fn on_left(&mut self, left: &RemainingFlows<'_>, _: &Labels) {
        left.each(|packets, bytes, make| {
            self.heaviest.add(packets, bytes, || make().map(|record| (record, ())));
        });
    }

    /// Nothing is kept of flows that have not ended.
    fn on_fault(&mut self, _: &FaultScope<'_>) -> bool {
        true
    }
}

impl Watcher for Watching {
    fn name(&self) -> &'static str {
        Flows::NAME
    }

    fn fold(&mut self, other: Box<dyn Any>) -> Result<(), Refusal> {
        let mut heaviest = of_same::<Self>(other)?.heaviest;
        heaviest.take_records().into_iter().for_each(|record| self.add(record));
        Ok(())
    }

    fn close(mut self: Box<Self>, flows: &RunTotals) -> Result<Closing, Refusal> {
        let flows_shown = self.heaviest.take_records().into_iter().map(|record| (record, None));
        let found: Vec<ShownFlow> = flows_shown.collect();
        Ok(Closing { found: Some(Box::new(found)), ..flows.closing() })
    }
}
