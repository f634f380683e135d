//! Flows with the names that their packets carry.

use std::cmp::Ordering;
use std::marker::PhantomData;
use std::sync::Arc;

use engine::columns::{Columns, Schema, Value};
use engine::flow::pass::Now;
use engine::flow::{
    EndedFlow, FlowRecord, FlowSink, FlowState, FlowStatistics, Heaviest, PerFlow, With,
};
use names::found::FlowInfo;
use names::pseudonym::Pseudonyms;
use names::reader::{Limits, NameState, Reader};
use packet::Span;

use super::application::{FlowsView, ShownFlow};
use super::layout::{FlowColumns, Layout};
use super::lengths::Lengths;
use super::macs::WithMacs;
use super::row::{self, Row, StateColumns};
use super::{Flows, ROWS_PER_PIECE, RunTotals};
use crate::application::{
    Application as _, Closing, Count, Framing, FramingLens, OpenFlows, Opening, Refusal, Watcher,
    Watchers,
};
use crate::captures::Captures;
use crate::names_read::{Text, counts, lines, shown};
use crate::outlet::{Lay, Outlet, PartOutlet};

/// Begins: flows with their names, as rows or as a front end shows them.
pub(super) fn watch(
    layout: Layout,
    idle_timeout: Span,
    shown: FlowsView,
    pseudonyms: Option<Arc<Pseudonyms>>,
    opening: Opening,
) -> Result<Watchers, Refusal> {
    let text = Text::new(pseudonyms);
    let has_windows = layout.window.is_some();
    let limits = Limits { idle_timeout, has_windows, ..Limits::default() };
    match shown {
        FlowsView::Each(outlet) => Ok(frame::<(), _>(limits, Each { outlet, text })),
        FlowsView::Heaviest { flow_count, by_packets } => Ok(frame::<(), _>(
            limits,
            Largest { flows: Heaviest::new(flow_count, by_packets), text },
        )),
        FlowsView::Rows => {
            let begin = match (layout.is_exported, layout.statistics, layout.has_macs) {
                (true, _, false) => rows::<Lengths>,
                (true, _, true) => rows::<WithMacs<Lengths>>,
                (false, true, false) => rows::<FlowStatistics>,
                (false, true, true) => rows::<WithMacs<FlowStatistics>>,
                (false, false, false) => rows::<()>,
                (false, false, true) => rows::<WithMacs<()>>,
            };
            begin(layout, limits, text, opening)
        }
    }
}

fn rows<P: FlowColumns + PerFlow + 'static>(
    layout: Layout,
    limits: Limits,
    text: Text,
    opening: Opening,
) -> Result<Watchers, Refusal> {
    let Some(outlet) = opening.outlet else { return Err(Refusal::new("rows go nowhere")) };
    let captures = opening.captures;
    let lay = || Rows::<P> {
        schema: layout.schema(),
        window: layout.window,
        text: text.clone(),
        captures: captures.clone(),
        kept: PhantomData,
    };
    let (mut parts, merge) = PartOutlet::for_passes(Some(&outlet), lay, opening.sharing);
    let Some(out) = parts.pop() else { return Err(Refusal::new("rows go nowhere")) };
    Ok(Watchers { merge, ..frame::<P, _>(limits, Part { out, rows: lay() }) })
}

/// The lens: one, since what DNS answers on one flow names another.
fn frame<P: FlowColumns + PerFlow + 'static, T: NamedFlowSink<P>>(
    limits: Limits,
    output: T,
) -> Watchers {
    let reader = With::new(Reader::new(limits));
    let lens: Box<dyn Watcher> = Box::new(FramingLens::new(reader, output, Finish));
    Watchers { lenses: vec![lens], ..Watchers::default() }
}

/// Where flows with names go.
trait NamedFlowSink<P>: FlowSink<(NameState, P)> + Send + 'static {
    /// What could not be kept.
    fn refusal(&mut self) -> Option<Refusal> {
        None
    }

    /// How flows that have not ended are shown.
    fn open_rows(&self) -> Option<OpenFlows<With<Reader, P>>>
    where
        P: PerFlow,
    {
        None
    }

    /// What is found as a whole.
    fn found(&mut self) -> Option<Vec<ShownFlow>> {
        None
    }
}

/// Flows on their way out.
struct Part<P: FlowColumns + PerFlow + 'static> {
    out: PartOutlet<Rows<P>>,
    /// How rows are made of flows that have not ended.
    rows: Rows<P>,
}

impl<P: FlowColumns + PerFlow + 'static> FlowSink<(NameState, P)> for Part<P> {
    fn take(&mut self, flows: &[EndedFlow<(NameState, P)>]) {
        let flows = flows
            .iter()
            .map(|(record, FlowState((named, kept)))| (*record, named.seen.clone(), kept.clone()));
        self.out.put(&mut flows.collect());
    }
}

impl<P: FlowColumns + PerFlow + 'static> NamedFlowSink<P> for Part<P> {
    fn refusal(&mut self) -> Option<Refusal> {
        self.out.take_refusal()
    }

    fn open_rows(&self) -> Option<OpenFlows<With<Reader, P>>> {
        let rows = self.rows.clone();
        Some(Box::new(move |flows| {
            let flow = |(record, FlowState((named, kept))): &EndedFlow<(NameState, P)>| {
                (*record, named.seen.clone(), kept.clone())
            };
            let flows: Vec<_> = flows.iter().map(flow).collect();
            let mut columns = Columns::new(rows.schema);
            // What was laid before a refusal is shown.
            let _ = rows.clone().lay(&flows, &mut |laid| columns.append(&laid));
            columns
        }))
    }
}

/// Flows on their way to who shows them.
struct Each {
    outlet: Outlet<Vec<ShownFlow>>,
    text: Text,
}

impl FlowSink<(NameState, ())> for Each {
    fn take(&mut self, flows: &[EndedFlow<(NameState, ())>]) {
        let text = &self.text;
        let shown = |(record, FlowState((named, ()))): &EndedFlow<(NameState, ())>| {
            (*record, Some(text.shown(&named.seen)))
        };
        self.outlet.put(flows.iter().map(shown).collect());
    }
}

impl NamedFlowSink<()> for Each {}

/// The heaviest flows.
struct Largest {
    flows: Heaviest<FlowInfo>,
    text: Text,
}

impl FlowSink<(NameState, ())> for Largest {
    fn take(&mut self, flows: &[EndedFlow<(NameState, ())>]) {
        for (record, FlowState((named, ()))) in flows {
            let make = || Some((*record, named.seen.clone()));
            self.flows.add(record.packets_total(), record.bytes_total(), make);
        }
    }
}

impl NamedFlowSink<()> for Largest {
    fn found(&mut self) -> Option<Vec<ShownFlow>> {
        let flows = self.flows.take_sorted().into_iter();
        Some(flows.map(|(record, seen)| (record, Some(self.text.shown(&seen)))).collect())
    }
}

/// What is reported at the end.
struct Finish;

impl<P: FlowColumns + PerFlow + 'static, T: NamedFlowSink<P>> Framing<With<Reader, P>, T>
    for Finish
{
    const NAME: &'static str = Flows::NAME;

    fn fold(&mut self, _: With<Reader, P>) {}

    fn counts(&self, keep: &With<Reader, P>, now: &Now<'_>) -> Vec<Count> {
        let names = shown(&keep.keep.counts());
        super::counts(now).into_iter().chain(names).collect()
    }

    fn open_rows(output: &T) -> Option<OpenFlows<With<Reader, P>>> {
        output.open_rows()
    }

    fn close(
        self,
        keep: With<Reader, P>,
        mut output: T,
        flows: &RunTotals,
    ) -> Result<Closing, Refusal> {
        if let Some(refusal) = output.refusal() {
            return Err(refusal);
        }
        let counted = keep.keep.counts();
        let mut closing = flows.closing();
        closing.lines.push_str(&lines(&counted));
        closing.counts.extend(counts(&counted));
        let found = output.found();
        closing.found = found.map(|found| -> Box<dyn std::any::Any + Send> { Box::new(found) });
        Ok(closing)
    }
}

/// What is kept for a flow, and its names, as columns.
struct WithNames<'a, P> {
    kept: &'a P,
    seen: &'a FlowInfo,
    server_name: Option<String>,
    resolved_name: Option<String>,
    query: Option<String>,
    query_type: Option<String>,
}

impl<P: StateColumns> StateColumns for WithNames<'_, P> {
    fn push<'a>(&'a self, record: &FlowRecord, row: &mut Row<'a>) {
        self.kept.push(record, row);
        let text = |text: &'a Option<String>| text.as_deref().map(Value::Str).into();
        let hello = self.seen.found.as_ref().and_then(|found| found.hello.as_ref());
        row.extend([
            self.seen.protocol.map(|protocol| Value::Str(protocol.name())).into(),
            text(&self.server_name),
            text(&self.resolved_name),
            text(&self.query),
            text(&self.query_type),
            hello.and_then(|hello| hello.version_name()).map(Value::Str).into(),
            hello.and_then(|hello| hello.alpn.as_deref()).map(Value::Str).into(),
            hello.and_then(|hello| hello.ja4.as_ref()).map(|ja4| Value::Str(ja4.as_str())).into(),
            hello.map(|hello| Value::I8(i8::from(hello.ech_offered))).into(),
        ]);
    }
}

/// Flows and their names as columns, piece by piece.
#[derive(Clone)]
struct Rows<P> {
    schema: Schema,
    window: Option<Span>,
    text: Text,
    captures: Captures,
    kept: PhantomData<P>,
}

impl<P: FlowColumns + PerFlow + 'static> Lay for Rows<P> {
    type Row = (FlowRecord, FlowInfo, P);

    fn compare(one: &Self::Row, other: &Self::Row) -> Ordering {
        one.0.order().cmp(&other.0.order())
    }

    fn lay(&mut self, rows: &[Self::Row], put: &mut dyn FnMut(Columns)) -> Result<(), Refusal> {
        let Self { schema, window, text, captures, .. } = self;
        for piece in rows.chunks(ROWS_PER_PIECE) {
            let mut columns = Columns::new(schema);
            for (record, seen, kept) in piece {
                let found = seen.found.as_deref();
                let query = found.and_then(|found| found.query.as_ref());
                let with_names = WithNames {
                    kept,
                    seen,
                    server_name: text.of(found.and_then(|found| found.server_name.as_deref())),
                    resolved_name: text.of(found.and_then(|found| found.resolved.as_deref())),
                    query: text.of(query.map(|(name, _)| &**name)),
                    query_type: query.map(|(_, kind)| kind.to_string()),
                };
                row::push(&mut columns, *window, record, &with_names, captures)
                    .map_err(Refusal::new)?;
            }
            put(columns);
        }
        Ok(())
    }
}
