//! The tables of a run in this terminal, live: `run --view`, and commands that listen.

use std::env;
use std::io::{self, IsTerminal as _, Write};
use std::sync::{Arc, OnceLock};
use std::thread;

use engine::run::Control;
use session::run::{Again, Plan, RunError, Session, SessionOutcome};
use store::Store;
use terminal::{Facts, First, Glyphs, Messages};

use crate::clock;
use crate::failure::Failure;
use crate::output::Show;
use crate::run::page;
use session::reading::Inputs;

/// What would be lines on standard error; they would be written into the view.
static MESSAGES: OnceLock<Messages> = OnceLock::new();

/// Shows messages for users: a line below the view.
pub(crate) fn tell(line: &str) {
    MESSAGES.get_or_init(Messages::default).put(line);
}

/// Whether a person looks at what is shown, and can press keys.
pub(crate) fn is_watched() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Whether a command that shows tables has a view of an interface.
pub(crate) fn is_wanted(show: Show, inputs: &Inputs) -> bool {
    show == Show::Table && inputs.interface.is_some() && is_watched()
}

/// Refuses a view where there is no terminal, or rows would be written into it.
pub(crate) fn check(plan: &Plan) -> Result<(), Failure> {
    if !is_watched() {
        return Err(Failure::usage(
            "--view: standard input and output are not a terminal; use --page to watch a run in a \
             browser",
        ));
    }
    let to_stdout = |one: &&session::run::AppPlan| {
        one.output.as_ref().is_some_and(session::run::OutputSettings::is_stdout)
    };
    match plan.applications.iter().find(to_stdout) {
        Some(one) => Err(Failure::usage(format_args!(
            "--view: [{}] writes its rows to standard output; give it a file, or none",
            one.ready.name()
        ))),
        None => Ok(()),
    }
}

/// A view of a run.
pub(crate) struct View {
    facts: Facts,
    store: Arc<Store>,
}

impl View {
    /// Of a run of this name that reads this, and keeps its rows there.
    pub(crate) fn of(name: &str, inputs: &Inputs, store: Arc<Store>, first: Option<First>) -> Self {
        let facts = page::facts(inputs, false);
        let is_utf8 = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()))
            .is_some_and(|value| value.to_lowercase().replace('-', "").contains("utf8"));
        let facts = Facts {
            title: format!("wirelens {name}"),
            inputs: facts.inputs,
            packets: facts.packets,
            out: || -> Box<dyn Write + Send> { Box::new(io::stdout()) },
            messages: MESSAGES.get_or_init(Messages::default).clone(),
            now: clock::now,
            glyphs: if is_utf8 { Glyphs::Unicode } else { Glyphs::Ascii },
            first,
            has_colour: env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        };
        Self { facts, store }
    }

    /// Shows the run until someone has seen enough, which ends it.
    fn show(self, control: &Control) {
        let Self { facts, store } = self;
        let shown = terminal::run(store, facts, || control.is_stopped(), || control.stop());
        if let Err(error) = shown {
            // The terminal is gone, or cannot be used: no one looks any more.
            eprintln!("wirelens: view: {error}");
            control.stop();
        }
    }
}

/// Runs a session to its end, with its view. Results of captures are
/// shown until the user ends the view; a removed interface ends it.
pub(crate) fn run(
    session: Session,
    view: Option<View>,
    hangup: impl FnMut() -> Option<Again>,
    tell: fn(&str),
) -> Result<SessionOutcome, RunError> {
    let control = Arc::clone(&session.inputs().control);
    thread::scope(|scope| {
        let shown = view.map(|view| scope.spawn(|| view.show(&control)));
        let finished = session.run(hangup, tell);
        if finished.as_ref().map_or(true, |finished| finished.inputs.interface.is_some()) {
            control.stop();
        }
        if let Some(shown) = shown
            && let Err(panic) = shown.join()
        {
            std::panic::resume_unwind(panic);
        }
        finished
    })
}
