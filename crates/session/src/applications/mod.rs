//! The applications there are: what a settings file may have tables of.

mod traffic;
mod unanswered;

use engine::columns::Schema;

use crate::application::Entry;
use crate::cca::Cca;
use crate::classify::Classify;
use crate::flows::Flows;
use crate::l4s::L4s;
use crate::latency::Latency;
use crate::packetlog::Packetlog;
use crate::top::Top;
use traffic::Traffic;
use unanswered::UnansweredFlows;

/// All of them, in the order of their pages.
pub const APPLICATIONS: &[Entry] = &[
    Entry::of::<Top>(),
    Entry::of::<Flows>(),
    Entry::of::<Classify>(),
    Entry::of::<Packetlog>(),
    Entry::of::<Cca>(),
    Entry::of::<Latency>(),
    Entry::of::<L4s>(),
    Entry::of::<UnansweredFlows>(),
    Entry::of::<Traffic>(),
];

/// The columns that applications declare, by the words that ask for them.
#[must_use]
pub fn declared_columns() -> Vec<(&'static str, Schema)> {
    let mut declared = crate::top::declared_columns();
    declared.extend(crate::flows::declared_columns());
    declared.extend(crate::networks::declared_columns());
    declared.extend(crate::classify::declared_columns());
    declared.extend(crate::cca::declared_columns());
    declared.extend(crate::latency::declared_columns());
    declared.extend(crate::l4s::declared_columns());
    declared.extend(crate::sensors::declared_columns());
    declared.extend(APPLICATIONS.iter().flat_map(|application| (application.declared)()));
    declared
}
