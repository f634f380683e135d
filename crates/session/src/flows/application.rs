//! `flows` on a pass that others share.

use std::any::Any;
use std::cmp::Ordering;
use std::marker::PhantomData;

use engine::columns::{Columns, Schema};
use engine::flow::pass::{Labels, Lens, Piece};
use engine::flow::{Ended, FlowMark, FlowRecord, FlowStatistics, Left, PerFlow, SideSlab};
use packet::Span;
use serde::Deserialize;

use super::{Done, Laid, Layout, NEEDS, Names, ROWS_PER_PIECE, Rows};
use crate::application::{Application, Closing, Opening, Refusal, Site, Wants, Watcher, Watchers};
use crate::outlet::{Lay, PartOutlet};
use crate::written;

/// Settings of `flows`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// A flow ends when nothing of it comes for this long.
    #[serde(deserialize_with = "written::duration")]
    pub idle_timeout: Span,
    /// A flow is cut when it is this old.
    #[serde(deserialize_with = "written::duration")]
    pub active_timeout: Span,
    /// Each flow is cut at the borders of windows of this length.
    #[serde(deserialize_with = "written::duration_if_any")]
    pub window: Option<Span>,
    /// Sizes, gaps and flags as well.
    pub stats: bool,
    /// Whose names columns have.
    #[serde(deserialize_with = "written::choice")]
    pub names: Names,
    /// Flows kept at most.
    pub max_flows: usize,
}

impl Default for Settings {
    fn default() -> Self {
        let usual = engine::flow::FlowOptions::default();
        Self {
            idle_timeout: usual.idle_timeout,
            active_timeout: usual.active_timeout,
            window: None,
            stats: false,
            names: Names::Wirelens,
            max_flows: usual.flow_count_max,
        }
    }
}

/// Every flow as a row when it has ended.
pub struct Flows(Settings);

impl Application for Flows {
    const NAME: &'static str = "flows";
    const ABOUT: &'static str = "Who talks to whom: every flow when it has ended";
    const EXAMPLE: &'static str = "\
# A flow ends when nothing of it comes for this long, and is cut when it is this old.
# idle-timeout = \"120s\"
# active-timeout = \"1800s\"
# Cut each flow at the borders of windows of this length.
# window = \"60s\"
# Sizes, gaps and flags as well.
# stats = false
# Whose names columns have: wirelens or nfstream.
# names = \"wirelens\"
# max-flows = 4194304
";

    const BY_FLOW: bool = true;

    type Settings = Settings;

    fn ready(settings: Settings, _: &Site<'_>) -> Result<Self, Refusal> {
        if !crate::KEY_COUNTS.contains(&settings.max_flows) {
            let (least, most) = (crate::KEY_COUNTS.start(), crate::KEY_COUNTS.end());
            return Err(Refusal::of("max-flows", format_args!("wanted {least} to {most}")));
        }
        if settings.names == Names::Nfstream && settings.window.is_some() {
            return Err(Refusal::of(
                "window",
                "NFStream's columns have no window; leave `names` or `window` out",
            ));
        }
        Ok(Self(settings))
    }

    fn wants(&self) -> Wants {
        let Settings { idle_timeout, active_timeout, window, max_flows, .. } = self.0;
        Wants {
            idle_timeout: Some(idle_timeout),
            active_timeout: Some(active_timeout),
            window: Some(window),
            flow_count_max: Some(max_flows),
            ..Wants::flows(NEEDS)
        }
    }

    fn schema(&self, has_capture: bool) -> Schema {
        self.layout(has_capture).schema()
    }

    fn open(self, opening: Opening) -> Result<Watchers, Refusal> {
        let layout = self.layout(opening.captures.are_named());
        let rows = Rows::new(layout, opening.captures.clone());
        if layout.needs_statistics() {
            watch::<FlowStatistics>(rows, opening)
        } else {
            watch::<()>(rows, opening)
        }
    }
}

impl Flows {
    const fn layout(&self, has_capture: bool) -> Layout {
        let Settings { names, stats, window, .. } = self.0;
        Layout { names, statistics: stats, window, has_capture }
    }
}

fn watch<S: PerFlow + Laid + 'static>(rows: Rows, opening: Opening) -> Result<Watchers, Refusal> {
    let Some(outlet) = opening.outlet else { return Err(Refusal::new("rows go nowhere")) };
    let out = Out { rows, kept: PhantomData };
    let (parts, merge) = PartOutlet::for_passes(outlet, out, opening.pass_count);
    let lenses = parts.into_iter().map(|out| -> Box<dyn Watcher> {
        Box::new(Watching::<S> { states: SideSlab::default(), ended: Vec::new(), out })
    });
    Ok(Watchers { lenses: lenses.collect(), merge, beside: None })
}

/// Flows on their way out.
struct Out<S> {
    rows: Rows,
    kept: PhantomData<S>,
}

impl<S: Laid + Send + 'static> Lay for Out<S> {
    type Row = (FlowRecord, S);

    fn compare(one: &Self::Row, other: &Self::Row) -> Ordering {
        one.0.order().cmp(&other.0.order())
    }

    fn lay(&mut self, rows: &[Self::Row], put: &mut dyn FnMut(Columns)) -> Result<(), Refusal> {
        self.rows.put(rows, |columns| {
            put(columns.map_err(Refusal::new)?.clone());
            Ok(())
        })
    }
}

/// What is kept of flows until they end.
struct Watching<S: PerFlow + Laid + 'static> {
    states: SideSlab<S>,
    ended: Vec<(FlowRecord, S)>,
    out: PartOutlet<Out<S>>,
}

impl<S: PerFlow + Laid> Lens for Watching<S> {
    fn on_piece(&mut self, piece: &Piece<'_>, _: &mut Labels) {
        self.states.on_packets(piece.packets, piece.slots);
    }

    fn on_ended(&mut self, ended: &[Ended], _: &mut Labels) {
        let Self { states, ended: kept, .. } = self;
        kept.extend(ended.iter().map(|ended| (ended.record, states.kept(ended.slot))));
    }

    fn on_marked(&mut self, _: FlowMark) {
        self.ended.sort_by_key(|(record, _)| record.order());
        self.out.put(&mut self.ended);
    }

    fn on_left(&mut self, left: &Left<'_>, _: &Labels) {
        let Self { states, ended, out } = self;
        left.in_order(ROWS_PER_PIECE, |flows| {
            ended.extend(flows.iter().map(|&(record, slot)| (record, states.kept(slot))));
            out.put(ended);
        });
    }
}

impl<S: PerFlow + Laid> Watcher for Watching<S> {
    fn name(&self) -> &'static str {
        Flows::NAME
    }

    fn fold(&mut self, _: Box<dyn Any>) -> Result<(), Refusal> {
        // All that is said is said of the passes.
        Ok(())
    }

    fn close(self: Box<Self>, flows: &Done) -> Result<Closing, Refusal> {
        let (outcome, key) = (flows.outcome.clone(), Done::KEY);
        match self.out.into_refusal() {
            Some(refusal) => Err(refusal),
            None => Ok(Closing { outcome, key, lines: flows.lines(), ..Closing::default() }),
        }
    }
}
