//! `wirelens top`: who sends what.

mod table;

pub(crate) use table::grouped;

use std::io::Write as _;

use packet::Span;
use session::outlet::{RowsError, Taker};
use session::top::{By, Ranking, SortBy, Top, needs_transport};
use terminal::First;

use crate::alone::{self, Sources, Ways};
use crate::args::TopArguments;
use crate::asked;
use crate::failure::{Failure, Status};
use crate::output::{self, Show};
use crate::{summary, view};

/// Windows of a view, unless others are asked for.
const REFRESH: Span = Span::from_seconds(1);

/// Runs `wirelens top`.
pub(crate) fn run(arguments: &TopArguments) -> Result<Status, Failure> {
    if arguments.hash_names.is_some() && arguments.by != By::Name {
        return Err(Failure::usage("--hash-names: only --by name has names"));
    }
    let typed = Sources::new(&arguments.input, &arguments.live);
    let mut inputs = asked::find(typed.input, typed.live, needs_transport(arguments.by))?;
    asked::spare(&inputs, [arguments.output.output.as_ref()])?;
    let show = output::show(&arguments.output)?;
    let has_view = view::is_wanted(show, &inputs);
    let window = arguments.window.or(has_view.then_some(REFRESH));
    let settings = asked::top(arguments, window);
    let opened = alone::open(&mut inputs, typed, &Top::shown_by(settings.clone(), None))?;
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    let mut ways = Ways::rows(show, &arguments.output);
    ways.view = has_view.then(|| first(arguments, window));
    let outlet = (show == Show::Table && !has_view).then(|| {
        let (outlet, writer) = alone::show("top", Printed, &inputs);
        ways.shown = Some(writer);
        outlet
    });
    let top = Top::shown_by(settings, outlet);
    let finished = alone::run(top, ways, typed, inputs, opened)?;
    summary::finished(&finished, arguments.input.quiet)
}

/// What a view begins with; rows of a window are those that were asked for.
fn first(arguments: &TopArguments, window: Option<Span>) -> First {
    let sort: &[_] = match arguments.sort {
        SortBy::Bytes => &["bytes"],
        SortBy::Packets => &["packets"],
    };
    First { table: "top", sort, rows: None, window_ns: window.map(Span::as_ns) }
}

/// Rankings as tables.
struct Printed;

impl Taker<Vec<Ranking>> for Printed {
    fn take(&mut self, rankings: &Vec<Ranking>) -> Result<(), RowsError> {
        Ok(rankings.iter().try_for_each(table::print)?)
    }

    fn finish(self) -> Result<(), RowsError> {
        Ok(std::io::stdout().flush()?)
    }
}
