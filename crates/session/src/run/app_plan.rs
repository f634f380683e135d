//! One application of a plan, with where its rows go.

use engine::columns::Schema;
use sink::Format;

use super::outputs::{OutputSettings, OutputTarget};
use crate::application::{Entry, Ready};
use crate::exports::{Door, Export, Form};
use crate::networks::Enriching;
use crate::outlet::{OutletWriter, TakeRows};
use crate::toml_text::Mistake;

/// An application that is ready to begin.
pub struct AppPlan {
    /// The application.
    pub ready: Box<dyn Ready>,
    /// The file that its rows go to; none where it has no rows, or `door` takes them.
    pub output: Option<OutputSettings>,
    /// Whether it has rows for which the settings name no output.
    pub wants_door: bool,
    /// Who takes those.
    pub door: Option<Box<dyn TakeRows>>,
    /// What it answers, in a line.
    pub about: &'static str,
    /// Who shows values of its own, which it has been given the outlet for.
    pub shown: Option<OutletWriter>,
    /// What its rows get besides: what is known of their addresses.
    pub(super) enriching: Option<Enriching>,
    /// Where it stands in the file, for what is wrong when it begins; nothing where it was asked
    /// for by arguments.
    pub(super) place: Option<Mistake>,
}

impl AppPlan {
    /// An application that was asked for by arguments; its rows go nowhere yet.
    #[must_use]
    pub fn asked(ready: Box<dyn Ready>) -> Self {
        Self {
            ready,
            output: None,
            wants_door: false,
            door: None,
            about: "",
            shown: None,
            enriching: None,
            place: None,
        }
    }

    /// One that the settings have a table of, which stands there, with where its rows go.
    pub(super) fn written(
        entry: &Entry,
        ready: Box<dyn Ready>,
        written: Option<OutputTarget>,
        place: Mistake,
    ) -> Self {
        let wants_door = entry.has_rows && written.is_none();
        let (place, about) = (Some(place), entry.about);
        let one = Self { wants_door, place, about, ..Self::asked(ready) };
        match written {
            Some(OutputTarget::One(output)) => Self { output: Some(output), ..one },
            Some(OutputTarget::Exported(export)) => one.exported(export),
            None => one,
        }
    }

    /// The columns of its rows.
    #[must_use]
    pub fn schema(&self, has_capture: bool) -> Schema {
        let base = self.ready.schema(has_capture);
        self.enriching.as_ref().map_or(base, |enriching| enriching.with(base).schema())
    }

    /// With rows as records of another tool, or in many files.
    #[must_use]
    pub fn exported(self, asked: Export) -> Self {
        let (path, force) = (asked.path.clone(), asked.force);
        let format = match asked.form {
            Form::Rows(format) => format,
            Form::Records(_) => Format::Jsonl,
        };
        let output = Some(OutputSettings { path, format, force });
        Self { door: Some(Box::new(Door::new(asked))), output, ..self }
    }
}
