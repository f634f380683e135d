//! Settings that are reloaded during a run.

use engine::flow::pass::LabelKind;
use toml::Table;

use super::plan::Plan;
use crate::networks::Networks;
use crate::rules::InForce;
use crate::toml_text::Mistake;

/// What a run keeps of its settings, to see what was changed.
pub struct Reload {
    tables: Table,
    rules: InForce,
    /// The labels that applications give since rules read them.
    given: Vec<LabelKind>,
    networks: Option<Networks>,
}

impl Reload {
    pub(super) fn new(
        tables: Table,
        rules: InForce,
        given: Vec<LabelKind>,
        networks: Option<Networks>,
    ) -> Self {
        Self { tables, rules, given, networks }
    }

    /// Applies what can be changed during a run: rules, and the files of `[networks]`. Changes that
    /// cannot be applied are refused and reported, and so is a file with mistakes; then all stays.
    #[must_use]
    pub fn take_up(&self, plan: Result<Plan, Vec<Mistake>>) -> Vec<String> {
        let plan = match plan {
            Ok(plan) => plan,
            Err(mistakes) => {
                let refused = "the settings were not applied; the previous ones stay in force";
                let told = mistakes.iter().map(ToString::to_string);
                return told.chain([String::from(refused)]).collect();
            }
        };
        let mut lines = Vec::new();
        let networks = self.networks.as_ref().zip(plan.networks.as_ref());
        let are_taken = networks.is_some_and(|(ours, others)| ours.take_up(others));
        if are_taken {
            lines.push(String::from("[networks] was reloaded"));
        }
        let names = changed(&self.tables, &plan.tables);
        for name in &names {
            // Rules about alerts are the front door's, which reports whether they are in force.
            let is_taken = are_taken && name == "networks";
            if !["rule", "alert"].contains(&name.as_str()) && !is_taken {
                lines.push(format!("[{name}] was changed: takes effect at the next start"));
            }
        }
        let wanted = plan.rules.reads(|_| true);
        // Flows are labelled by the places of the lists that were opened.
        let has_other_lists = names.iter().any(|name| name == "indicators");
        if let Some(kind) = wanted.iter().find(|kind| !self.given.contains(kind)) {
            let name = if *kind == LabelKind::Weight { "bytes" } else { kind.name() };
            lines.push(format!(
                "[[rule]] the first one about {name}: takes effect at the next start; rules were \
                 not changed"
            ));
        } else if has_other_lists && wanted.contains(&LabelKind::Indicator) {
            lines.push(String::from(
                "[[rule]] is about lists that were changed: rules were not changed",
            ));
        } else if plan.rules != *self.rules.now() {
            let count = plan.rules.len();
            self.rules.change(plan.rules);
            lines.push(format!("rules were changed: {count} in force"));
        }
        if lines.is_empty() && !names.iter().any(|name| name == "alert") {
            lines.push(String::from("the settings are unchanged"));
        }
        lines
    }
}

/// The tables that differ.
fn changed(before: &Table, after: &Table) -> Vec<String> {
    let mut names: Vec<_> = before.keys().chain(after.keys()).cloned().collect();
    names.sort();
    names.dedup();
    names.retain(|name| before.get(name) != after.get(name));
    names
}
