//! `wirelens run --view`: the tables of the run in this terminal, while it goes on.

use std::env;
use std::io::{self, IsTerminal as _, Write};
use std::sync::{Arc, OnceLock};

use engine::run::Control;
use session::run::Plan;
use store::Store;
use terminal::{Facts, Glyphs, Messages};

use super::page;
use crate::clock;
use crate::failure::Failure;
use session::reading::Inputs;

/// What would be lines on standard error; they would be written into the view.
static MESSAGES: OnceLock<Messages> = OnceLock::new();

/// Tells people what happens: a line below the view.
pub(super) fn tell(line: &str) {
    MESSAGES.get_or_init(Messages::default).put(line);
}

/// Refuses a view where there is no terminal, or rows would be written into it.
pub(super) fn check(plan: &Plan) -> Result<(), Failure> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(Failure::usage(
            "--view: standard input and output are no terminal; use --page to look at a run from \
             elsewhere",
        ));
    }
    let to_stdout = |one: &&session::run::Planned| {
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

/// What is shown beside the tables.
pub(super) struct Shown(Facts);

impl Shown {
    /// Of a run that reads this.
    pub(super) fn of(inputs: &Inputs) -> Self {
        let facts = page::facts(inputs, false);
        let is_utf8 = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()))
            .is_some_and(|value| value.to_lowercase().replace('-', "").contains("utf8"));
        Self(Facts {
            title: String::from("wirelens run"),
            inputs: facts.inputs,
            packets: facts.packets,
            out: || -> Box<dyn Write + Send> { Box::new(io::stdout()) },
            messages: MESSAGES.get_or_init(Messages::default).clone(),
            now: clock::now,
            glyphs: if is_utf8 { Glyphs::Unicode } else { Glyphs::Ascii },
            has_colour: env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        })
    }

    /// Shows the run until someone has seen enough, which ends it.
    pub(super) fn show(self, store: Arc<Store>, control: &Control) {
        let shown = terminal::run(store, self.0, || control.is_stopped(), || control.stop());
        if let Err(error) = shown {
            // The terminal is gone, or cannot be used: no one looks any more.
            eprintln!("wirelens: view: {error}");
            control.stop();
        }
    }
}
