//! Flows with what a trained cascade says of them, as columns.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::marker::PhantomData;
use std::sync::Arc;

use classify::serve::Decision;
use classify::{Cascade, Counts, Options, StageName, Standing, TakeVerdicts, Verdict};
use engine::columns::{Columns, Schema, Value};
use engine::flow::{EndedFlow, FlowRecord, FlowSink, FlowState, FlowStatistics, PerFlow, With};

use super::layout::{FlowColumns, Layout};
use super::lengths::Lengths;
use super::macs::WithMacs;
use super::row::{self, Row, StateColumns};
use super::{Flows, ROWS_PER_PIECE, RunTotals, Settings};
use crate::application::{
    Application as _, Closing, Framing, FramingLens, Opening, Ready, Refusal, Wants, Watcher,
    Watchers,
};
use crate::captures::Captures;
use crate::classify::{NamedClassifier, NamingOutcome, lines, of_model};
use crate::names_read;
use crate::outlet::{Lay, PartOutlet};
use crate::outside::Outside;

/// Flows with labels: what `flows` writes where a model is named.
pub struct LabelledFlows {
    cascade: Arc<Cascade>,
    flow_count_max: usize,
    layout: Layout,
}

impl LabelledFlows {
    /// Labels are a cascade's of flows, not of windows; statistics, MAC addresses and records of
    /// other tools are as these settings have them.
    #[must_use]
    pub fn new(cascade: Arc<Cascade>, settings: &Settings) -> Self {
        let is_exported = settings.format.is_some();
        let layout = Layout {
            statistics: settings.stats && !is_exported,
            has_macs: settings.macs,
            is_exported,
            has_label: true,
            ..Layout::PLAIN
        };
        Self { cascade, flow_count_max: settings.max_flows, layout }
    }
}

impl Ready for LabelledFlows {
    fn name(&self) -> &'static str {
        Flows::NAME
    }

    fn is_by_flow(&self) -> bool {
        self.cascade.is_by_flow()
    }

    fn wants(&self) -> Wants {
        of_model(&self.cascade, Some(self.flow_count_max))
    }

    fn schema(&self, has_capture: bool) -> Schema {
        Layout { has_capture, ..self.layout }.schema()
    }

    fn open(self: Box<Self>, opening: Opening) -> Result<Watchers, Refusal> {
        let schema = Ready::schema(&*self, opening.captures.are_named());
        let Layout { is_exported, statistics, has_macs, .. } = self.layout;
        let begin = match (is_exported, statistics, has_macs) {
            (true, _, false) => watch::<Lengths>,
            (true, _, true) => watch::<WithMacs<Lengths>>,
            (false, true, false) => watch::<FlowStatistics>,
            (false, true, true) => watch::<WithMacs<FlowStatistics>>,
            (false, false, false) => watch::<()>,
            (false, false, true) => watch::<WithMacs<()>>,
        };
        begin(self.cascade, schema, opening)
    }
}

fn watch<P: FlowColumns + PerFlow + 'static>(
    cascade: Arc<Cascade>,
    schema: Schema,
    opening: Opening,
) -> Result<Watchers, Refusal> {
    let Some(outlet) = opening.outlet else { return Err(Refusal::new("rows go nowhere")) };
    let lay = || Rows::<P> {
        cascade: Arc::clone(&cascade),
        captures: opening.captures.clone(),
        schema,
        kept: PhantomData,
    };
    let (parts, merge) = PartOutlet::for_passes(Some(&outlet), lay, opening.sharing);
    let options = Options { is_live: opening.is_live, ..Options::default() };
    let waiting_max = options.waiting_max.div_ceil(parts.len());
    let options = Options { waiting_max, ..options };
    let lenses = parts.into_iter().map(|out| -> Box<dyn Watcher> {
        let classifier =
            NamedClassifier::new(Arc::clone(&cascade), options, Outside::None, NoVerdicts);
        let found = LabelSummary { cascade: Arc::clone(&cascade), folded: Counts::default() };
        Box::new(FramingLens::new(With::new(classifier), Part(out), found))
    });
    Ok(Watchers { lenses: lenses.collect(), merge, ..Watchers::default() })
}

/// Verdicts are written with their flows.
struct NoVerdicts;

impl TakeVerdicts for NoVerdicts {
    fn take(&mut self, _: &[Verdict]) {}
}

/// Flows of one pass on their way out.
struct Part<P: FlowColumns + PerFlow + 'static>(PartOutlet<Rows<P>>);

impl<P: FlowColumns + PerFlow + 'static> FlowSink<(Standing, P)> for Part<P> {
    fn take(&mut self, flows: &[EndedFlow<(Standing, P)>]) {
        self.0.put(&mut flows.to_vec());
    }
}

/// Who decides, and what is kept besides.
type Deciding<P> = With<NamedClassifier<Outside, NoVerdicts>, P>;

/// What is said at the end.
struct LabelSummary {
    cascade: Arc<Cascade>,
    /// What other passes found.
    folded: Counts,
}

impl<P: FlowColumns + PerFlow + 'static> Framing<Deciding<P>, Part<P>> for LabelSummary {
    const NAME: &'static str = Flows::NAME;

    fn fold(&mut self, keep: Deciding<P>) {
        self.folded.fold(&keep.keep.finish().counts);
    }

    fn close(
        self,
        keep: Deciding<P>,
        output: Part<P>,
        flows: &RunTotals,
    ) -> Result<Closing, Refusal> {
        let Self { cascade, folded } = self;
        if let Some(refusal) = output.0.into_refusal() {
            return Err(refusal);
        }
        let NamingOutcome { mut counts, names, .. } = keep.keep.finish();
        counts.fold(&folded);
        let closing = flows.closing();
        let of_names = names.as_ref().map(names_read::lines).unwrap_or_default();
        let lines = flows.lines() + &lines(&cascade, &counts) + &of_names;
        Ok(Closing { lines, ..closing })
    }
}

/// What is kept for a flow, and what a cascade says of it, as columns.
struct LabelColumns<'a, P> {
    kept: &'a P,
    cascade: &'a Cascade,
    label: Cow<'a, str>,
    guess: Cow<'a, str>,
    decision: Decision,
}

impl<P: StateColumns> StateColumns for LabelColumns<'_, P> {
    fn push<'a>(&'a self, record: &FlowRecord, row: &mut Row<'a>) {
        self.kept.push(record, row);
        let confidence = Value::F64(self.decision.confidence);
        row.extend([
            Value::Text(&self.label),
            if self.decision.label.is_unknown() { Value::Null } else { confidence },
            Value::Text(&self.guess),
            confidence,
            Value::Str(self.decision.stage.map_or("none", StageName::name)),
            Value::U16(self.decision.packets_used),
            Value::Str(self.cascade.id()),
        ]);
    }
}

/// Flows and their verdicts as columns, piece by piece.
struct Rows<P> {
    cascade: Arc<Cascade>,
    captures: Captures,
    schema: Schema,
    kept: PhantomData<P>,
}

impl<P: FlowColumns + PerFlow + 'static> Lay for Rows<P> {
    type Row = EndedFlow<(Standing, P)>;

    fn compare(one: &Self::Row, other: &Self::Row) -> Ordering {
        one.0.order().cmp(&other.0.order())
    }

    fn lay(&mut self, rows: &[Self::Row], put: &mut dyn FnMut(Columns)) -> Result<(), Refusal> {
        let Self { cascade, captures, schema, .. } = self;
        for piece in rows.chunks(ROWS_PER_PIECE) {
            let mut columns = Columns::new(schema);
            for (record, FlowState((standing, kept))) in piece {
                let Standing::Decided(decision) = *standing else {
                    return Err(Refusal::new("a flow has no verdict; please report this"));
                };
                let label = decision.label.name(cascade);
                let guess = decision.label.guess(cascade);
                let labelled = LabelColumns { kept, cascade, label, guess, decision };
                row::push(&mut columns, None, record, &labelled, captures).map_err(Refusal::new)?;
            }
            put(columns);
        }
        Ok(())
    }
}
