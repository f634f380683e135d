//! `wirelens top`: who sends what.

mod table;
pub(crate) mod view;

pub(crate) use table::grouped;

use std::io::Write as _;

use session::outlet::{RowsError, Taker};
use session::top::{By, Ranking, Top, needs_transport};

use crate::alone::{self, Typed, Ways};
use crate::args::TopArguments;
use crate::asked;
use crate::failure::{Failure, Status};
use crate::output::{self, Show};
use crate::summary;
use view::View;

/// Runs `wirelens top`.
pub(crate) fn run(arguments: &TopArguments) -> Result<Status, Failure> {
    if arguments.hash_names.is_some() && arguments.by != By::Name {
        return Err(Failure::usage("--hash-names: only --by name has names"));
    }
    let typed = Typed::new(&arguments.input, &arguments.live);
    let mut inputs = asked::find(typed.input, typed.live, needs_transport(arguments.by))?;
    asked::spare(&inputs, [arguments.output.output.as_ref()])?;
    let show = output::show(&arguments.output)?;
    let has_view = show == Show::Table && inputs.interface.is_some() && view::is_watched();
    let window = arguments.window.or(has_view.then_some(view::REFRESH));
    let settings = asked::top(arguments, window);
    let opened = alone::open(&mut inputs, typed, &Top::shown_by(settings.clone(), None))?;
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    let mut ways = Ways::rows(show, &arguments.output);
    let outlet = (show == Show::Table).then(|| {
        let view = has_view.then(|| View::new("top", &inputs, window.unwrap_or_default()));
        let (outlet, writer) = alone::show("top", Printed(view), &inputs);
        ways.shown = Some(writer);
        outlet
    });
    let top = Top::shown_by(settings, outlet);
    let finished = alone::run(top, ways, typed, inputs, opened)?;
    summary::finished(&finished, arguments.input.quiet)
}

/// Rankings as tables, or as a view that is painted again.
struct Printed(Option<View>);

impl Taker<Vec<Ranking>> for Printed {
    fn take(&mut self, rankings: &Vec<Ranking>) -> Result<(), RowsError> {
        for ranking in rankings {
            match &mut self.0 {
                Some(view) => view.put(ranking)?,
                None => table::print(ranking)?,
            }
        }
        Ok(())
    }

    fn look(&mut self) -> Result<(), RowsError> {
        if let Some(view) = &mut self.0 {
            view.look()?;
        }
        Ok(())
    }

    fn finish(self) -> Result<(), RowsError> {
        Ok(std::io::stdout().flush()?)
    }
}
