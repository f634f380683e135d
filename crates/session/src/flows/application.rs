//! `flows` on a pass that others share.

use std::marker::PhantomData;
use std::path::PathBuf;

use engine::columns::{Columns, Schema};
use engine::flow::pass::Now;
use engine::flow::{FlowRecord, FlowStatistics, PerFlow};
use packet::Span;
use serde::Deserialize;

use super::macs::WithMacs;
use super::{FlowColumns, Layout, Names, Rows, RunTotals, heaviest, named, needs};
use crate::application::{
    Application, Count, EndedRows, Opening, Refusal, Site, Wants, Watchers, watch_ended,
};
use crate::choice::Choice as _;
use crate::exports::Style;
use crate::outlet::Outlet;
use crate::{names_read, written};

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
    /// MAC addresses as well.
    pub macs: bool,
    /// Whose names columns have.
    #[serde(deserialize_with = "written::choice")]
    pub names: Names,
    /// Flows kept at most.
    pub max_flows: usize,
    /// Names and protocols that the payload shows, as well.
    pub read_names: bool,
    /// Pseudonyms instead of these names, by the key in this file.
    pub hash_names: Option<PathBuf>,
    /// As records of another tool.
    #[serde(deserialize_with = "written::choice_if_any")]
    pub format: Option<Style>,
}

impl Default for Settings {
    fn default() -> Self {
        let usual = engine::flow::FlowOptions::default();
        Self {
            idle_timeout: usual.idle_timeout,
            active_timeout: usual.active_timeout,
            window: None,
            stats: false,
            macs: false,
            names: Names::Wirelens,
            max_flows: usual.flow_count_max,
            read_names: false,
            hash_names: None,
            format: None,
        }
    }
}

impl Settings {
    /// Whether the payload is looked at.
    #[must_use]
    pub const fn reads_names(&self) -> bool {
        self.read_names || self.hash_names.is_some() || self.format.is_some()
    }

    /// Whether MAC addresses are looked for: NFStream's columns always have them.
    #[must_use]
    pub fn reads_macs(&self) -> bool {
        self.macs || self.names == Names::Nfstream
    }

    /// Whether frames are looked at.
    #[must_use]
    pub fn reads_frames(&self) -> bool {
        self.reads_names() || self.reads_macs()
    }

    /// Refuses what has no effect on records of another tool.
    ///
    /// # Errors
    /// [`Refusal`], which names the setting.
    pub fn check_format(&self) -> Result<(), Refusal> {
        let Some(format) = self.format else { return Ok(()) };
        let idle = [
            ("names", self.names == Names::Nfstream),
            ("window", self.window.is_some()),
            ("stats", self.stats),
            ("read-names", self.read_names && self.hash_names.is_none()),
            ("hash-names", self.hash_names.is_some() && format == Style::Ipfix),
        ];
        match idle.into_iter().find(|(_, is_given)| *is_given) {
            Some((key, _)) => Err(Refusal::of(
                key,
                format_args!("records of {} have their own fields; leave it out", format.name()),
            )),
            None => Ok(()),
        }
    }
}

/// Every flow as a row when it has ended.
pub struct Flows {
    settings: Settings,
    shown: FlowsView,
}

/// A flow as tables show it; with what its payload shows, where names are read.
pub type ShownFlow = (FlowRecord, Option<String>);

/// What a front door is shown of flows.
pub enum FlowsView {
    /// Rows alone.
    Rows,
    /// Each flow when it has ended.
    Each(Outlet<Vec<ShownFlow>>),
    /// As what is found as a whole, a `Vec` of the heaviest [`ShownFlow`]s, by packets or else by
    /// bytes.
    Heaviest {
        /// How many.
        flow_count: usize,
        /// Whether by packets.
        by_packets: bool,
    },
}

impl Flows {
    /// For a front door, which may show flows otherwise than as rows.
    #[must_use]
    pub const fn shown_by(settings: Settings, shown: FlowsView) -> Self {
        Self { settings, shown }
    }
}

impl Application for Flows {
    const NAME: &'static str = "flows";
    const ABOUT: &'static str = "Flow records: every flow when it has ended";
    const EXAMPLE: &'static str = "\
# Idle timeout, and active timeout.
# idle-timeout = \"120s\"
# active-timeout = \"1800s\"
# Split flows at the boundaries of windows of this length.
# window = \"60s\"
# Add statistics of sizes, gaps and flags.
# stats = false
# Add the MAC addresses of both ends.
# macs = false
# Column names: those of wirelens or of nfstream.
# names = \"wirelens\"
# max-flows = 4194304
# Add names and protocols from the payload; as pseudonyms, with the key in a file.
# read-names = false
# hash-names = \"names.key\"
# Partition rows into folders by time, or rotate files by size or by packet time.
# partition = \"hour\"
# rotate-bytes = \"100M\"
# rotate-time = \"1h\"
# Records of other tools: format = \"eve\", \"zeek\", \"zeek-json\" or \"ipfix\". Of IPFIX: both
# directions in one record; private elements, by an enterprise number of one's own.
# biflow = false
# enterprise = 32473
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
        if settings.names == Names::Nfstream && settings.stats {
            return Err(Refusal::of(
                "stats",
                "NFStream's columns have statistics already; leave it out",
            ));
        }
        if settings.names == Names::Nfstream && settings.macs {
            return Err(Refusal::of(
                "macs",
                "NFStream's columns have MAC addresses already; leave it out",
            ));
        }
        if settings.names == Names::Nfstream && settings.reads_names() {
            return Err(Refusal::of(
                "read-names",
                "not with the columns of NFStream; leave `names` or `read-names` out",
            ));
        }
        settings.check_format()?;
        settings.hash_names.as_deref().map(names_read::read_key).transpose()?;
        Ok(Self { settings, shown: FlowsView::Rows })
    }

    fn is_by_flow(&self) -> bool {
        // What DNS answers on one flow names another.
        !self.settings.reads_names()
    }

    fn wants(&self) -> Wants {
        let Settings { idle_timeout, active_timeout, window, max_flows, .. } = self.settings;
        Wants {
            idle_timeout: Some(idle_timeout),
            active_timeout: Some(active_timeout),
            window: Some(window),
            flow_count_max: Some(max_flows),
            has_frames: self.settings.reads_frames(),
            ..Wants::flows(needs(self.settings.reads_names()))
        }
    }

    fn schema(&self, has_capture: bool) -> Schema {
        self.layout(has_capture).schema()
    }

    fn open(self, opening: Opening) -> Result<Watchers, Refusal> {
        let layout = self.layout(opening.captures.are_named());
        if self.settings.reads_names() {
            let key = self.settings.hash_names.as_deref().map(names_read::read_key);
            let idle_timeout = self.settings.idle_timeout;
            return named::watch(layout, idle_timeout, self.shown, key.transpose()?, opening);
        }
        let rows = Rows::new(layout, opening.captures.clone());
        match self.shown {
            FlowsView::Rows => {}
            FlowsView::Each(outlet) => return watch_ended(Each(outlet), opening, |_| true),
            FlowsView::Heaviest { flow_count, by_packets } => {
                let count = opening.sharing.pass_count();
                return Ok(heaviest::watch(flow_count, by_packets, count));
            }
        }
        match (layout.needs_statistics(), layout.has_macs) {
            (false, false) => Out::<()>::watch(rows, opening),
            (false, true) => Out::<WithMacs<()>>::watch(rows, opening),
            (true, false) => Out::<FlowStatistics>::watch(rows, opening),
            (true, true) => Out::<WithMacs<FlowStatistics>>::watch(rows, opening),
        }
    }
}

impl Flows {
    fn layout(&self, has_capture: bool) -> Layout {
        let Settings { names, stats, window, .. } = self.settings;
        Layout {
            names,
            statistics: stats,
            window,
            has_macs: self.settings.reads_macs(),
            reads_names: self.settings.reads_names(),
            is_exported: self.settings.format.is_some(),
            has_label: false,
            has_capture,
        }
    }
}

/// Flows on their way to who shows them.
#[derive(Clone)]
struct Each(Outlet<Vec<ShownFlow>>);

impl EndedRows for Each {
    type State = ();
    const NAME: &'static str = Flows::NAME;
    const HAS_COLUMNS: bool = false;

    fn lay(
        &mut self,
        flows: &[(FlowRecord, ())],
        _: &mut dyn FnMut(Columns),
    ) -> Result<(), Refusal> {
        self.0.put(flows.iter().map(|&(record, ())| (record, None)).collect());
        Ok(())
    }

    fn counts(now: &Now<'_>) -> Vec<Count> {
        super::counts(now)
    }

    fn lines(flows: &RunTotals) -> String {
        flows.lines()
    }
}

/// Flows on their way out.
#[derive(Clone)]
struct Out<S> {
    rows: Rows,
    kept: PhantomData<S>,
}

impl<S: PerFlow + FlowColumns + 'static> Out<S> {
    fn watch(rows: Rows, opening: Opening) -> Result<Watchers, Refusal> {
        watch_ended(Self { rows, kept: PhantomData }, opening, |_| true)
    }
}

impl<S: PerFlow + FlowColumns + 'static> EndedRows for Out<S> {
    type State = S;
    const NAME: &'static str = Flows::NAME;

    fn lay(
        &mut self,
        flows: &[(FlowRecord, S)],
        put: &mut dyn FnMut(Columns),
    ) -> Result<(), Refusal> {
        self.rows.put(flows, |columns| {
            put(columns.map_err(Refusal::new)?.clone());
            Ok(())
        })
    }

    fn counts(now: &Now<'_>) -> Vec<Count> {
        super::counts(now)
    }

    fn lines(flows: &RunTotals) -> String {
        flows.lines()
    }
}
