//! Settings that are reloaded during a run.

use std::sync::mpsc::{self, Receiver, Sender};

use engine::flow::pass::LabelKind;
use toml::{Table, Value};

use super::interfaces::Interfaces;
use super::plan::Plan;
use crate::application::Replace;
use crate::networks::Networks;
use crate::rules::InForce;
use crate::toml_text::Mistake;

const REFUSED: &str = "the settings were not applied; the previous ones stay in force";

/// What a run keeps of its settings, to see what was changed.
pub struct Reload {
    tables: Table,
    rules: InForce,
    /// The labels that applications give since rules read them.
    given: Vec<LabelKind>,
    networks: Option<Networks>,
    /// By application, in the order of the plan: who takes a replacement.
    pub(super) replaces: Vec<(&'static str, Option<Replace>)>,
    /// Those that packets are read from.
    pub(super) interfaces: Interfaces,
}

impl Reload {
    pub(super) fn new(
        tables: Table,
        rules: InForce,
        given: Vec<LabelKind>,
        networks: Option<Networks>,
    ) -> Self {
        let interfaces = Interfaces::fixed();
        Self { tables, rules, given, networks, replaces: Vec::new(), interfaces }
    }

    /// Replaces what applications take in place of their own; of which application and table what
    /// was said.
    fn replace(&self, plan: &Plan, lines: &mut Vec<String>) -> Vec<&'static str> {
        let mut replaced = Vec::new();
        for ((name, replace), planned) in self.replaces.iter().zip(&plan.applications) {
            let replacement = planned.ready.replacement().filter(|_| planned.ready.name() == *name);
            let Some((replace, replacement)) = replace.as_ref().zip(replacement) else { continue };
            match replace(&replacement) {
                Ok(None) => {}
                Ok(Some(told)) => {
                    lines.push(format!("[{name}] {told}"));
                    replaced.push(*name);
                }
                Err(why) => {
                    lines.push(format!("[{name}] {why}: takes effect at the next start"));
                    replaced.push(*name);
                }
            }
        }
        replaced
    }

    /// Has others listened on where `[input]` names other interfaces, and is otherwise as it was;
    /// whether it is being done.
    fn take_up_input(&mut self, plan: &Plan, lines: &mut Vec<String>) -> bool {
        let [before, after] = [&self.tables, &plan.tables];
        let rest = |tables: &Table| without(tables, "input", "interface");
        if rest(before) != rest(after) {
            lines.push(String::from("[input] was changed: takes effect at the next start"));
            return false;
        }
        let others = before.get("input") != after.get("input");
        self.interfaces.take_up(&plan.input.interface, others).unwrap_or_else(|line| {
            lines.push(line);
            false
        })
    }

    /// Applies what can be changed during a run: rules, the files of `[networks]`, and interfaces,
    /// of which it is reported later what was done. Changes that cannot be applied are refused and
    /// reported, and so is a file with mistakes; then all stays.
    #[must_use]
    pub fn take_up(&mut self, plan: Result<Plan, Vec<Mistake>>) -> Vec<String> {
        let plan = match plan {
            Ok(plan) => plan,
            Err(mistakes) => {
                let told = mistakes.iter().map(ToString::to_string);
                return told.chain([String::from(REFUSED)]).collect();
            }
        };
        if let Err(why) = plan.check_cut() {
            return vec![why, String::from(REFUSED)];
        }
        let mut lines = Vec::new();
        let networks = self.networks.as_ref().zip(plan.networks.as_ref());
        let are_taken = networks.is_some_and(|(ours, others)| ours.take_up(others));
        if are_taken {
            lines.push(String::from("[networks] was reloaded"));
        }
        let replaced = self.replace(&plan, &mut lines);
        let is_asked = self.take_up_input(&plan, &mut lines);
        let names = changed(&self.tables, &plan.tables);
        for name in &names {
            if replaced.contains(&name.as_str())
                && without(&self.tables, name, "model") == without(&plan.tables, name, "model")
            {
                continue;
            }
            // Rules about alerts are the front door's, which reports whether they are in force.
            let is_taken = are_taken && name == "networks";
            if !["rule", "alert", "input"].contains(&name.as_str()) && !is_taken {
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
        if lines.is_empty() && !is_asked && !names.iter().any(|name| name == "alert") {
            lines.push(String::from("the settings are unchanged"));
        }
        lines
    }
}

/// Settings that are read again, each time on another thread. One that was begun before those in
/// force is out of date, whichever of them was read first.
pub struct Readings<T> {
    to: Sender<(u64, T)>,
    from: Receiver<(u64, T)>,
    begun: u64,
    taken: u64,
}

impl<T> Default for Readings<T> {
    fn default() -> Self {
        let (to, from) = mpsc::channel();
        Self { to, from, begun: 0, taken: 0 }
    }
}

impl<T> Readings<T> {
    /// Begins one: where to hand in what was read.
    pub fn begin(&mut self) -> impl FnOnce(T) + use<T> {
        self.begun += 1;
        let (number, to) = (self.begun, self.to.clone());
        move |read| {
            // Where no one takes it any more, the run is over.
            let _ = to.send((number, read));
        }
    }

    /// The latest that was read, unless a later one was taken before. `on_end` is called for each
    /// that has ended since this was asked last: someone may wait for those that are out of date.
    pub fn take(&mut self, mut on_end: impl FnMut()) -> Option<T> {
        let ended = self.from.try_iter().inspect(|_| on_end());
        let (number, read) = ended.max_by_key(|(number, _)| *number)?;
        if number <= self.taken {
            return None;
        }
        self.taken = number;
        Some(read)
    }
}

/// A table, or several of a name, but for a key.
fn without(tables: &Table, name: &str, key: &str) -> Option<Value> {
    let mut value = tables.get(name).cloned()?;
    let tables = match &mut value {
        Value::Array(tables) => tables.iter_mut().filter_map(Value::as_table_mut).collect(),
        Value::Table(table) => vec![table],
        _ => Vec::new(),
    };
    for table in tables {
        table.remove(key);
    }
    Some(value)
}

/// The tables that differ.
fn changed(before: &Table, after: &Table) -> Vec<String> {
    let mut names: Vec<_> = before.keys().chain(after.keys()).cloned().collect();
    names.sort();
    names.dedup();
    names.retain(|name| before.get(name) != after.get(name));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_that_was_begun_earlier_is_not_taken_later() {
        let mut readings = Readings::default();
        let (first, second, third) = (readings.begin(), readings.begin(), readings.begin());
        let take = |readings: &mut Readings<&'static str>| {
            let mut ended = 0;
            let taken = readings.take(|| ended += 1);
            (ended, taken)
        };
        assert_eq!(take(&mut readings), (0, None));
        second("second");
        assert_eq!(take(&mut readings), (1, Some("second")));
        // Out of date, and over all the same.
        first("first");
        assert_eq!(take(&mut readings), (1, None));
        let fourth = readings.begin();
        fourth("fourth");
        third("third");
        assert_eq!(take(&mut readings), (2, Some("fourth")));
        assert_eq!(take(&mut readings), (0, None));
    }
}
