//! A row for each flow that has ended: what several applications are, whatever their columns.

use std::any::Any;
use std::cmp::Ordering;
use std::ops::Range;

use engine::columns::Columns;
use engine::flow::pass::{FaultScope, Labels, Lens, Now, Piece};
use engine::flow::{FlowEnd, FlowMark, FlowRecord, PerFlow, RemainingFlows, SideSlab};

use super::{Closing, Count, OpenRows, Opening, Refusal, Watcher, Watchers};
use crate::done::RunTotals;
use crate::outlet::{Lay, PartOutlet};

/// Flows that are turned into columns together, so that text buffers stay small.
pub const ENDED_PER_PIECE: usize = 1 << 14;

/// How flows that have ended become rows.
pub trait EndedRows: Clone + Send + Sync + 'static {
    /// What is kept for a flow while its packets come; `()` for nothing.
    type State: PerFlow + 'static;
    /// The application's name.
    const NAME: &'static str;
    /// Whether it makes columns; one that does not hands flows on in a way of its own.
    const HAS_COLUMNS: bool = true;

    /// Turns at most [`ENDED_PER_PIECE`] flows into columns, and hands those to `put`.
    ///
    /// # Errors
    /// [`Refusal`]: a row that its columns do not take.
    fn lay(
        &mut self,
        flows: &[(FlowRecord, Self::State)],
        put: &mut dyn FnMut(Columns),
    ) -> Result<(), Refusal>;

    /// As [`Watcher::counts`].
    #[must_use]
    fn counts(_now: &Now<'_>) -> Vec<Count> {
        Vec::new()
    }

    /// Closing lines of its own, each ended.
    #[must_use]
    fn lines(_flows: &RunTotals) -> String {
        String::new()
    }
}

/// Begins: flows that `takes` lets through become rows, in one order on any number of passes.
///
/// # Errors
/// [`Refusal`], where rows have no outlet.
pub fn watch_ended<R: EndedRows>(
    rows: R,
    opening: Opening,
    takes: impl Fn(&FlowRecord) -> bool + Clone + Send + 'static,
) -> Result<Watchers, Refusal> {
    if R::HAS_COLUMNS && opening.outlet.is_none() {
        return Err(Refusal::new("rows go nowhere"));
    }
    let lay = || InOrder(rows.clone());
    let (parts, merge) = PartOutlet::for_passes(opening.outlet.as_ref(), lay, opening.sharing);
    let lenses = parts.into_iter().map(|out| -> Box<dyn Watcher> {
        let (states, ended, rows) = (SideSlab::default(), Vec::new(), rows.clone());
        Box::new(Watching { states, ended, takes: takes.clone(), out, rows })
    });
    Ok(Watchers { lenses: lenses.collect(), merge, ..Watchers::default() })
}

/// Rows in the order of flows, piece by piece.
struct InOrder<R>(R);

impl<R: EndedRows> Lay for InOrder<R> {
    type Row = (FlowRecord, R::State);

    fn compare(one: &Self::Row, other: &Self::Row) -> Ordering {
        one.0.order().cmp(&other.0.order())
    }

    fn lay(&mut self, rows: &[Self::Row], put: &mut dyn FnMut(Columns)) -> Result<(), Refusal> {
        rows.chunks(ENDED_PER_PIECE).try_for_each(|flows| self.0.lay(flows, put))
    }
}

/// The lens: keeps flows from their ends to the next mark.
struct Watching<R: EndedRows, T> {
    states: SideSlab<R::State>,
    ended: Vec<(FlowRecord, R::State)>,
    takes: T,
    out: PartOutlet<InOrder<R>>,
    /// How rows are made of flows that have not ended.
    rows: R,
}

impl<R: EndedRows, T: Fn(&FlowRecord) -> bool> Lens for Watching<R, T> {
    fn on_piece(&mut self, piece: &Piece<'_>, _: &mut Labels) {
        self.states.on_piece(piece);
    }

    fn on_ended(&mut self, ended: &[FlowEnd], _: &mut Labels) {
        let Self { states, ended: kept, takes, .. } = self;
        let taken = ended.iter().filter(|ended| takes(&ended.record));
        kept.extend(taken.map(|ended| (ended.record, states.kept(ended.slot))));
    }

    fn on_marked(&mut self, _: FlowMark) {
        FlowRecord::sort(&mut self.ended, |(record, _)| record);
        self.out.put(&mut self.ended);
        // Many end together only after a silence, or where a clock was set.
        self.ended.shrink_to(ENDED_PER_PIECE);
    }

    fn on_left(&mut self, left: &RemainingFlows<'_>, _: &Labels) {
        let Self { states, ended, takes, out, .. } = self;
        left.in_order(ENDED_PER_PIECE, |flows| {
            let taken = flows.iter().filter(|(record, _)| takes(record));
            ended.extend(taken.map(|&(record, slot)| (record, states.kept(slot))));
            out.put(ended);
        });
    }

    fn on_fault(&mut self, lost: &FaultScope<'_>) -> bool {
        self.states.forget(lost.slots());
        true
    }
}

impl<R: EndedRows, T: Fn(&FlowRecord) -> bool + Send + 'static> Watcher for Watching<R, T> {
    fn name(&self) -> &'static str {
        R::NAME
    }

    fn counts(&self, now: &Now<'_>) -> Vec<Count> {
        R::counts(now)
    }

    fn open_rows(&self, now: &Now<'_>, slots: Range<u32>) -> Option<(usize, OpenRows)> {
        if !R::HAS_COLUMNS {
            return None;
        }
        let mut open = Vec::new();
        now.flows(slots, |record, slot| {
            if (self.takes)(&record) {
                open.push((record, self.states.kept(slot)));
            }
        });
        let rows = self.rows.clone();
        Some((open.len(), Box::new(move || columns(rows.clone(), &open))))
    }

    fn fold(&mut self, _: Box<dyn Any>) -> Result<(), Refusal> {
        // All that is said is said of the passes.
        Ok(())
    }

    fn close(self: Box<Self>, flows: &RunTotals) -> Result<Closing, Refusal> {
        match self.out.into_refusal() {
            Some(refusal) => Err(refusal),
            None => Ok(Closing { lines: R::lines(flows), ..flows.closing() }),
        }
    }
}

/// Rows of flows that have not ended; those that its columns do not take are left out.
fn columns<R: EndedRows>(mut rows: R, flows: &[(FlowRecord, R::State)]) -> Columns {
    let mut columns: Option<Columns> = None;
    let mut put = |laid: Columns| match &mut columns {
        Some(columns) => columns.append(&laid),
        None => columns = Some(laid),
    };
    // What was laid before a refusal is shown.
    let _ = rows.lay(flows, &mut put);
    columns.unwrap_or_else(|| Columns::new(&[]))
}
