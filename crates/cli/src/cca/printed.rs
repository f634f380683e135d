//! Where periods go: a table for people, or rows.

use cca::model::Told as Named;
use cca::{FlowWay, Period};
use comfy_table::{CellAlignment, Table};
use packet::SlotClock;

use session::cca::{PeriodTold, naming};

use crate::args::OutputArguments;
use crate::failure::Failure;
use crate::output::{self, Rows, Show};

/// What flows did in a period, as people read it.
pub(super) trait Shown: PeriodTold {
    /// To standard output.
    fn print(&self, clock: SlotClock, controls: &[String]) -> Result<(), Failure>;
}

/// A table or rows, with names of controls where there is a model.
pub(super) struct Printed {
    rows: Option<Rows>,
    pub(super) controls: Vec<String>,
}

impl Printed {
    pub(super) fn create<T: PeriodTold>(
        arguments: &OutputArguments,
        show: Show,
        controls: Vec<String>,
    ) -> Result<Self, Failure> {
        let rows = match show {
            Show::Table => None,
            Show::Rows(format) => Some(output::create(arguments, format, T::SCHEMA)?),
        };
        Ok(Self { rows, controls })
    }

    /// Nothing is said of a period without flows.
    pub(super) fn put(&mut self, told: &impl Shown, clock: SlotClock) -> Result<(), Failure> {
        match &mut self.rows {
            _ if told.is_empty() => Ok(()),
            None => told.print(clock, &self.controls),
            Some(rows) => rows.write(&told.columns(clock, &self.controls).map_err(Failure::error)?),
        }
    }

    pub(super) fn finish(self) -> Result<(), Failure> {
        self.rows.map_or(Ok(()), Rows::finish)
    }
}

/// A flow as people read it, data going to the right.
pub(super) fn name(way: &FlowWay) -> String {
    let (source, destination) = way.key.endpoints(way.direction);
    format!("{source} → {destination}")
}

/// Seconds of a period.
#[allow(clippy::cast_precision_loss)]
pub(super) fn seconds(clock: SlotClock, period: Period) -> f64 {
    clock.length().as_seconds_f64() * period.len as f64
}

/// Titles above rows of cells, of which the second to the sixth are numbers, with what is named
/// behind them where there is a model; and how many flows are left out.
pub(super) fn lines(
    titles: &[&str],
    rows: impl Iterator<Item = (Vec<String>, Option<Named>)>,
    controls: &[String],
    other_count: usize,
) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    let is_named = !controls.is_empty();
    table.set_header(titles.iter().copied().chain(is_named.then_some("control")));
    for (mut cells, named) in rows {
        if is_named {
            cells.push(named.map(|named| naming::text(&named, controls)).unwrap_or_default());
        }
        table.add_row(cells);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for column in table.column_iter_mut().skip(1).take(5) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = table.trim_fmt();
    if other_count > 0 {
        text.push_str(&format!("\n… and {other_count} more (-n 0 shows all)"));
    }
    text
}
