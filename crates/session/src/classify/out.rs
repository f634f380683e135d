//! Verdicts on their way out: a row a flow, or a row a host.

use std::cmp::Ordering;
use std::sync::Arc;

use classify::{Cascade, HostVerdict, TakeVerdicts, Verdict, columns};
use engine::columns::{Columns, RowMismatch, Schema};
use packet::Timestamp;

use super::ROWS_PER_PIECE;
use super::serving::MarkVerdicts;
use super::versions::ModelVersions;
use crate::application::Refusal;
use crate::captures::Captures;
use crate::choice::choice;
use crate::outlet::{Lay, Merge, Outlet, PartOutlet, Sharing};

choice! {
    /// What each row describes.
    By: "kind of row" {
        Flow = "flow", "Flow, when it is decided";
        Host = "host", "Host, from its flows: if its label changes, and at the end";
    }
}

/// Where a front door shows verdicts as they come.
#[derive(Clone, Default)]
pub enum VerdictView {
    /// Nowhere.
    #[default]
    Nothing,
    /// Those on flows.
    Flows(Outlet<Vec<Verdict>>),
    /// Those on hosts.
    Hosts(Outlet<Vec<HostVerdict>>),
}

/// What is said where rows are to be of hosts, and the model has no memory of them.
#[must_use]
pub fn no_memory(cascade: &Cascade) -> String {
    format!(
        "{} has no memory of hosts; give a model that has one (memory in its cascade.json), or \
         leave it out",
        cascade.name()
    )
}

/// What a table of hosts shows, as [`host_cells`] has it.
pub const HOST_TITLES: [&str; 6] =
    ["host", "label", "confidence", "flows", "first seen", "last seen"];

/// A host for people.
#[must_use]
pub fn host_cells(
    cascade: &Cascade,
    verdict: &HostVerdict,
    number: fn(u64) -> String,
) -> [String; HOST_TITLES.len()] {
    let is_unknown = verdict.label.is_unknown();
    let time = |time: Timestamp| match time {
        Timestamp::UNKNOWN => String::from("-"),
        time => time.to_string(),
    };
    [
        verdict.host.to_string(),
        verdict.label.name(cascade).into_owned(),
        if is_unknown { String::from("-") } else { format!("{:.3}", verdict.confidence) },
        number(verdict.flow_count),
        time(verdict.first),
        time(verdict.decided),
    ]
}

/// The columns of rows.
pub(super) const fn schema(by: By, cascade: &Cascade, has_capture: bool) -> Schema {
    match by {
        By::Flow => cascade.schema(has_capture),
        By::Host => columns::HOST_SCHEMA,
    }
}

/// What becomes a row.
pub(super) trait VerdictColumns: Clone + Send + 'static {
    fn schema(cascade: &Cascade, captures: &Captures) -> Schema;

    fn compare(&self, other: &Self) -> Ordering;

    /// The number of the model that it is of.
    fn version(&self) -> u16;

    fn push(
        &self,
        into: &mut Columns,
        cascade: &Cascade,
        captures: &Captures,
    ) -> Result<(), RowMismatch>;
}

impl VerdictColumns for Verdict {
    fn schema(cascade: &Cascade, captures: &Captures) -> Schema {
        schema(By::Flow, cascade, captures.are_named())
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }

    fn version(&self) -> u16 {
        self.version
    }

    fn push(
        &self,
        into: &mut Columns,
        cascade: &Cascade,
        captures: &Captures,
    ) -> Result<(), RowMismatch> {
        columns::push(into, cascade, self, captures.value(self.input))
    }
}

impl VerdictColumns for HostVerdict {
    fn schema(cascade: &Cascade, _: &Captures) -> Schema {
        schema(By::Host, cascade, false)
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.host.cmp(&other.host)
    }

    fn version(&self) -> u16 {
        0
    }

    fn push(&self, into: &mut Columns, cascade: &Cascade, _: &Captures) -> Result<(), RowMismatch> {
        columns::push_host(into, cascade, self)
    }
}

/// Verdicts that are laid out as rows.
#[derive(Clone)]
pub(super) struct Out<R: VerdictColumns> {
    /// The first model, by which there are columns.
    cascade: Arc<Cascade>,
    models: ModelVersions,
    captures: Captures,
    has_columns: bool,
    shown: Option<Outlet<Vec<R>>>,
}

impl<R: VerdictColumns> Lay for Out<R> {
    type Row = R;

    fn compare(one: &R, other: &R) -> Ordering {
        one.compare(other)
    }

    fn lay(&mut self, rows: &[R], put: &mut dyn FnMut(Columns)) -> Result<(), Refusal> {
        let Self { cascade, models, captures, has_columns, shown } = self;
        if let Some(shown) = shown {
            shown.put(rows.to_vec());
        }
        if !*has_columns {
            return Ok(());
        }
        let models = models.all();
        let model = |row: &R| models.get(usize::from(row.version())).unwrap_or(cascade);
        for piece in rows.chunks(ROWS_PER_PIECE) {
            let mut columns = Columns::new(R::schema(cascade, captures));
            let mut rows = piece.iter();
            rows.try_for_each(|row| row.push(&mut columns, model(row), captures))
                .map_err(Refusal::new)?;
            put(columns);
        }
        Ok(())
    }
}

/// Verdicts of one pass. Where nobody takes them they are only counted.
pub(super) enum Part {
    Nowhere,
    Flows(PartOutlet<Out<Verdict>>),
    Hosts(PartOutlet<Out<HostVerdict>>),
}

/// What rows are, and where they go.
pub(super) struct Ways<'a> {
    pub(super) cascade: &'a Arc<Cascade>,
    pub(super) models: &'a ModelVersions,
    pub(super) captures: &'a Captures,
    pub(super) outlet: Option<&'a Outlet>,
    pub(super) sharing: Sharing,
}

impl Ways<'_> {
    /// A part for each pass, and who puts their rows together.
    pub(super) fn parts(&self, by: By, shown: VerdictView) -> (Vec<Part>, Option<Box<dyn Merge>>) {
        let is_wanted = self.outlet.is_some() || !matches!(shown, VerdictView::Nothing);
        let (flows, hosts) = match shown {
            VerdictView::Nothing => (None, None),
            VerdictView::Flows(shown) => (Some(shown), None),
            VerdictView::Hosts(shown) => (None, Some(shown)),
        };
        match by {
            _ if !is_wanted => {
                ((0..self.sharing.pass_count()).map(|_| Part::Nowhere).collect(), None)
            }
            By::Flow => self.laid_out(flows, Part::Flows),
            By::Host => self.laid_out(hosts, Part::Hosts),
        }
    }

    fn laid_out<R: VerdictColumns>(
        &self,
        shown: Option<Outlet<Vec<R>>>,
        part: fn(PartOutlet<Out<R>>) -> Part,
    ) -> (Vec<Part>, Option<Box<dyn Merge>>) {
        let out = Out {
            cascade: Arc::clone(self.cascade),
            models: self.models.clone(),
            captures: self.captures.clone(),
            has_columns: self.outlet.is_some(),
            shown,
        };
        let (outlets, merge) = PartOutlet::for_passes(self.outlet, || out.clone(), self.sharing);
        (outlets.into_iter().map(part).collect(), merge)
    }
}

impl Part {
    /// Takes the verdicts of a mark, in their order.
    pub(super) fn put(&mut self, made: &mut MarkVerdicts) {
        match self {
            Self::Nowhere => {}
            Self::Flows(out) => out.put(&mut made.verdicts),
            Self::Hosts(out) => out.put(&mut made.hosts),
        }
    }

    /// Why a row was refused, where this is the only pass.
    pub(super) fn into_refusal(self) -> Option<Refusal> {
        match self {
            Self::Nowhere => None,
            Self::Flows(out) => out.into_refusal(),
            Self::Hosts(out) => out.into_refusal(),
        }
    }
}

impl TakeVerdicts for Part {
    fn take(&mut self, verdicts: &[Verdict]) {
        if let Self::Flows(out) = self {
            out.put(&mut verdicts.to_vec());
        }
    }

    fn take_hosts(&mut self, verdicts: &[HostVerdict]) {
        if let Self::Hosts(out) = self {
            out.put(&mut verdicts.to_vec());
        }
    }
}
