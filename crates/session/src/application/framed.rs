//! What is kept of flows' frames, as a lens: what several applications are, whoever decides.

use std::any::Any;

use std::ops::Range;

use engine::columns::Columns;
use engine::flow::pass::{FaultScope, Labels, Lens, Now, Piece};
use engine::flow::{EndedFlow, FlowEnd, FlowMark, FlowSink, FrameLens, FromFrames, RemainingFlows};

use super::{Closing, Count, OpenRows, Refusal, Watcher, of_same};
use crate::done::RunTotals;

/// What an application makes of who decided, and of who received flows, at the end.
pub(crate) trait Framing<K: FromFrames, T>: Send + 'static {
    /// The application's name.
    const NAME: &'static str;

    /// Takes in who decided in another pass.
    fn fold(&mut self, keep: K);

    /// Flows that had ended by a mark were handed over.
    fn on_marked(&mut self, _output: &mut T, _mark: FlowMark) {}

    /// As [`Watcher::counts`].
    fn counts(&self, _keep: &K, _now: &Now<'_>) -> Vec<Count> {
        Vec::new()
    }

    /// Rows of flows that have not ended, where it has such.
    fn open_rows(_output: &T) -> Option<OpenFlows<K>> {
        None
    }

    /// As [`Watcher::close`].
    fn close(self, keep: K, output: T, flows: &RunTotals) -> Result<Closing, Refusal>;
}

/// Makes rows of flows that have not ended, and of what is kept of them so far.
pub(crate) type OpenFlows<K> =
    Box<dyn Fn(&[EndedFlow<<K as FromFrames>::State>]) -> Columns + Send + Sync>;

/// The lens.
pub(crate) struct FramingLens<K: FromFrames, T, F> {
    lens: FrameLens<K, T>,
    framing: F,
}

impl<K: FromFrames, T: FlowSink<K::State>, F> FramingLens<K, T, F> {
    pub(crate) fn new(keep: K, output: T, framing: F) -> Self {
        Self { lens: FrameLens::new(keep, output), framing }
    }
}

impl<K: FromFrames, T: FlowSink<K::State>, F: Framing<K, T>> Lens for FramingLens<K, T, F> {
    fn on_piece(&mut self, piece: &Piece<'_>, labels: &mut Labels) {
        self.lens.on_piece(piece, labels);
    }

    fn on_ended(&mut self, ended: &[FlowEnd], labels: &mut Labels) {
        self.lens.on_ended(ended, labels);
    }

    fn on_batch_end(&mut self, labels: &mut Labels) {
        self.lens.on_batch_end(labels);
    }

    fn on_mark(&mut self, mark: FlowMark, labels: &mut Labels) {
        self.lens.on_mark(mark, labels);
    }

    fn on_marked(&mut self, mark: FlowMark) {
        self.lens.on_marked(mark);
        self.framing.on_marked(&mut self.lens.output, mark);
    }

    fn on_left(&mut self, left: &RemainingFlows<'_>, labels: &Labels) {
        self.lens.on_left(left, labels);
    }

    fn on_fault(&mut self, lost: &FaultScope<'_>) -> bool {
        self.lens.on_fault(lost)
    }
}

impl<K, T, F> Watcher for FramingLens<K, T, F>
where
    K: FromFrames<State: 'static> + Send + 'static,
    T: FlowSink<K::State> + Send + 'static,
    F: Framing<K, T>,
{
    fn name(&self) -> &'static str {
        F::NAME
    }

    fn counts(&self, now: &Now<'_>) -> Vec<Count> {
        self.framing.counts(&self.lens.keep, now)
    }

    fn open_rows(&self, now: &Now<'_>, slots: Range<u32>) -> Option<(usize, OpenRows)> {
        let rows = F::open_rows(&self.lens.output)?;
        let open = self.lens.open(now, slots);
        Some((open.len(), Box::new(move || rows(&open))))
    }

    fn fold(&mut self, other: Box<dyn Any>) -> Result<(), Refusal> {
        let other = of_same::<Self>(other)?;
        self.framing.fold(other.lens.keep);
        Ok(())
    }

    fn close(self: Box<Self>, flows: &RunTotals) -> Result<Closing, Refusal> {
        let Self { lens, framing } = *self;
        framing.close(lens.keep, lens.output, flows)
    }
}
