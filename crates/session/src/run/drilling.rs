//! Drills of a plan: those without effect are refused.

use std::ops::Range;

use toml::de::DeTable;

use super::app_plan::AppPlan;
use super::plan::Plan;
use crate::drills::DrillSite;
use crate::toml_text::Mistakes;

/// Where the settings ask for drills.
pub(super) fn drills_at(root: &DeTable<'_>) -> Range<usize> {
    let table = root.get("run").and_then(|run| run.get_ref().as_table());
    let key = table.and_then(|table| table.get_key_value("simulate"));
    key.map(|(key, _)| key.span()).unwrap_or_default()
}

impl Plan {
    /// The same, as a mistake in settings.
    pub(super) fn refuse_idle_drills(&self, at: Range<usize>, mistakes: &mut Mistakes) {
        // Of an application that is not there because of a mistake its drills are none.
        if mistakes.is_empty()
            && let Err(message) = self.check_drills()
        {
            mistakes.add(at, format_args!("[run] {message}"));
        }
    }

    /// Whether packets come to user space.
    pub(super) fn takes_packets(&self) -> bool {
        let takes_packets = |one: &AppPlan| one.ready.wants().needs.len > 0;
        // Labels that rules read are of packets, too.
        !self.rules.is_empty() || self.applications.iter().any(takes_packets)
    }

    /// Refuses [drills](crate::drills) that have no effect on this run.
    ///
    /// # Errors
    /// Which one, and why.
    pub fn check_drills(&self) -> Result<(), String> {
        let drills = &self.run.simulate;
        if self.sensors.is_some() && !drills.is_empty() {
            return Err(String::from(
                "simulate has no effect with [sensors], which reads no packets; give it to a \
                 sensor",
            ));
        }
        let names: Vec<_> = self.applications.iter().map(|one| one.ready.name()).collect();
        let has_flows = self.applications.iter().any(|one| one.ready.wants().has_flows);
        let is_file = |one: &AppPlan| {
            let has_output = one.output.as_ref().is_some_and(|output| !output.is_stdout());
            has_output || one.ready.log_folder().is_some()
        };
        drills.check(&DrillSite {
            takes_live_packets: self.input.is_live() && self.takes_packets(),
            flow_count_max: has_flows.then(|| self.wants.flow_options().flow_count_max),
            has_files: self.applications.iter().any(is_file),
            names: &names,
        })
    }
}
