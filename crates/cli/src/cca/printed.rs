//! Periods as people read them, one table after the other, or as a view; and who acts on them.

use std::io::{self, Write as _};
use std::sync::mpsc::Receiver;

use cca::model::ControlVerdict;
use cca::{FlowWay, Period};
use comfy_table::{CellAlignment, Table};
use packet::SlotClock;
use session::cca::act::Act;
use session::cca::rows::QueueReport;
use session::cca::{PeriodReport, naming};
use session::outlet::{RowsError, Taker};

use crate::failure::Failure;
use crate::run::tell_line;
use crate::{table, view};

/// What flows did in a period, as people read it.
pub(super) trait PrintablePeriod: PeriodReport {
    /// To standard output.
    fn print(&self, clock: SlotClock, controls: &[String]) -> io::Result<()>;
}

/// Tables, with names of controls where there is a model.
pub(super) struct Tables {
    /// How time is cut.
    pub clock: SlotClock,
    /// The controls of the model.
    pub controls: Vec<String>,
}

impl<T: PrintablePeriod> Taker<Vec<T>> for Tables {
    fn take(&mut self, told: &Vec<T>) -> Result<(), RowsError> {
        // Nothing is said of a period without flows.
        for told in told.iter().filter(|told| !told.is_empty()) {
            told.print(self.clock, &self.controls)?;
        }
        Ok(())
    }

    fn finish(self) -> Result<(), RowsError> {
        Ok(io::stdout().flush()?)
    }
}

/// What is done with periods of a queue that is watched.
pub(super) struct PeriodOutputs {
    /// Tables, unless there is a view or rows.
    pub tables: Tables,
    /// Whether they are printed.
    pub has_tables: bool,
    /// Whether people look at a view, below which what was done is shown.
    pub has_view: bool,
    /// Who acts on the queue.
    pub act: Option<Act>,
    /// Where that comes from, once nothing can refuse the run.
    pub acting: Receiver<Act>,
}

impl PeriodOutputs {
    fn act(&mut self) -> Option<&mut Act> {
        if self.act.is_none() {
            self.act = self.acting.try_recv().ok();
        }
        self.act.as_mut()
    }

    fn look(&mut self, period: &QueueReport) -> Result<(), RowsError> {
        let (clock, has_view) = (self.tables.clock, self.has_view);
        if let Some(act) = self.act() {
            act.look(period, clock).map_err(in_words)?;
            let tell = if has_view { view::tell } else { tell_line };
            act.take_warning().iter().for_each(|line| tell(line));
            act.take_recent().filter(|_| has_view).for_each(|line| tell(&line));
        }
        Ok(())
    }
}

impl Taker<Vec<QueueReport>> for PeriodOutputs {
    fn take(&mut self, told: &Vec<QueueReport>) -> Result<(), RowsError> {
        told.iter().try_for_each(|period| self.look(period))?;
        if self.has_tables { self.tables.take(told) } else { Ok(()) }
    }

    fn finish(mut self) -> Result<(), RowsError> {
        if let Some(act) = self.act() {
            act.end("the command ends").map_err(in_words)?;
        }
        Ok(io::stdout().flush()?)
    }
}

/// What is wrong with acting on a queue, in the words of the arguments.
fn in_words(error: session::cca::act::ActError) -> RowsError {
    RowsError::Door(Failure::from(error).to_string())
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

/// Titles above rows of cells, of which all but the first and the last are numbers, with what is
/// named behind them where there is a model; and how many flows are left out.
pub(super) fn lines(
    titles: &[&str],
    rows: impl Iterator<Item = (Vec<String>, Option<ControlVerdict>)>,
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
    for column in table.column_iter_mut().skip(1).take(titles.len().saturating_sub(2)) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = table::fitted(&mut table, &["highest"]);
    if other_count > 0 {
        text.push_str(&format!("\n… and {other_count} more (-n 0 shows all)"));
    }
    text
}
