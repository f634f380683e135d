//! Flows for an application that a front end adds, such as a class in Python: rows as
//! those of `[flows]`, under a name of its own.

use std::path::Path;

use engine::columns::Schema;

use super::{Flows, Settings, needs};
use crate::application::{
    Application, CombinedWants, Opening, Ready, Refusal, Site, Wants, Watchers,
};
use crate::toml_text::{Mistake, Mistakes, read_table};

/// Flows under another name. How they are cut is left to others wherever its settings do not say.
pub struct FlowsAlias {
    name: &'static str,
    flows: Flows,
    wants: Wants,
}

impl FlowsAlias {
    /// By settings as `[flows]` has them, without an output; `united` is what the other
    /// applications of the run want.
    ///
    /// # Errors
    /// Every mistake in the settings.
    pub fn new(
        name: &'static str,
        text: &str,
        united: &CombinedWants,
        site: &Site<'_>,
    ) -> Result<Self, Vec<Mistake>> {
        let (table, mut mistakes) = Mistakes::parse(Path::new(name), text);
        let given = |key: &str| table.get_ref().contains_key(key);
        let read = read_table::<Settings>(name, &table, &mut mistakes);
        let Some(settings) = read.filter(|_| mistakes.is_empty()) else {
            return Err(mistakes.into_found());
        };
        let window = if given("window") { settings.window } else { united.flow_options().window };
        let wants = Wants {
            idle_timeout: given("idle-timeout").then_some(settings.idle_timeout),
            active_timeout: given("active-timeout").then_some(settings.active_timeout),
            window: given("window").then_some(settings.window),
            flow_count_max: given("max-flows").then_some(settings.max_flows),
            has_frames: settings.reads_frames(),
            ..Wants::flows(needs(settings.reads_names()))
        };
        match Flows::ready(Settings { window, ..settings }, site) {
            Ok(flows) => Ok(Self { name, flows, wants }),
            Err(refusal) => {
                mistakes.add(0..0, format_args!("[{name}] {refusal}"));
                Err(mistakes.into_found())
            }
        }
    }
}

impl Ready for FlowsAlias {
    fn name(&self) -> &'static str {
        self.name
    }

    fn is_by_flow(&self) -> bool {
        Application::is_by_flow(&self.flows)
    }

    fn wants(&self) -> Wants {
        self.wants
    }

    fn schema(&self, has_capture: bool) -> Schema {
        Application::schema(&self.flows, has_capture)
    }

    fn open(self: Box<Self>, opening: Opening) -> Result<Watchers, Refusal> {
        Application::open(self.flows, opening)
    }
}
