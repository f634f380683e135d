//! What flows are, from their first packets, by a trained cascade.

mod application;
mod artifact;
mod counted;
mod drift;
mod escalated;
pub mod eve;
mod evidence;
mod failing;
mod lens;
mod naming;
mod out;
mod serving;
mod styled;
mod summary;
mod versions;
pub mod zeek;

pub use application::{Classes, Classify, Settings, Totals};
pub use artifact::read;
pub(crate) use escalated::evidence_of;
pub use evidence::{KeepEvidence, KeptEvidence};
pub(crate) use naming::{NamedClassifier, Naming, NamingOutcome};
pub use out::{By, HOST_TITLES, VerdictView, host_cells, no_memory};
pub use styled::StyledVerdicts;
pub(crate) use summary::lines;

use std::fmt;

use classify::{Cascade, Counts, columns};
use engine::columns::Schema;
use model::Headers;
use model::block::Block;

use crate::application::Wants;
use crate::done::RunTotals;
use crate::reading::Needs;

/// Rows turned into columns at once, so that text buffers stay small.
const ROWS_PER_PIECE: usize = 1 << 12;

/// What is read of RTP.
const RTP_HEADER_LEN: u16 = 12;

/// The columns of verdicts.
#[must_use]
pub fn declared_columns() -> Vec<(&'static str, Schema)> {
    vec![
        ("wirelens classify", columns::SCHEMAS[0]),
        ("wirelens classify -r FOLDER", columns::SCHEMAS[1]),
        ("wirelens classify --every DURATION", columns::WINDOW_SCHEMAS[0]),
        ("wirelens classify --by host", columns::HOST_SCHEMA),
    ]
}

/// Flows without a verdict, or with two: a fault of ours, never of the traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct VerdictsMissing {
    begun: u64,
    decided: u64,
}

impl fmt::Display for VerdictsMissing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { begun, decided } = self;
        write!(f, "verdicts are missing: {begun} flows, {decided} verdicts; please report this")
    }
}

impl std::error::Error for VerdictsMissing {}

/// Checks that every flow has its verdict.
///
/// # Errors
/// [`VerdictsMissing`] where one has none.
fn account_for(
    cascade: &Cascade,
    done: &RunTotals,
    counts: &Counts,
) -> Result<(), VerdictsMissing> {
    let (begun, decided) = (counts.begun, counts.decided());
    // In windows a flow has as many verdicts as windows. One that was given up after a fault has
    // one where packets came later.
    let (flows, given_up) = (done.counts.total(), counts.given_up);
    let has_all =
        cascade.every().is_some() || (flows.saturating_sub(given_up)..=flows).contains(&decided);
    if begun == decided && has_all { Ok(()) } else { Err(VerdictsMissing { begun, decided }) }
}

/// Whether it was trained on the headers inside of tunnels.
#[must_use]
pub fn wants_inner(cascade: &Cascade) -> bool {
    cascade.features().headers() == Headers::Innermost
}

/// What a run wants that has flows as they were in training.
pub(crate) fn of_model(cascade: &Cascade, flow_count_max: Option<usize>) -> Wants {
    let (timeouts, needs) = (cascade.flows(), needs(cascade));
    Wants {
        inner: Some(wants_inner(cascade)),
        idle_timeout: Some(timeouts.idle),
        active_timeout: Some(timeouts.active),
        window: Some(None),
        flow_count_max,
        reads_payload: needs.payload_len_max() > 0,
        ..Wants::flows(needs)
    }
}

/// What models look at of a frame.
fn needs(cascade: &Cascade) -> Needs {
    if cascade.names().is_some() {
        return crate::names_read::needs("classify");
    }
    let layout_len = cascade.features().layout().len(Block::Payload);
    let reads_rtp = cascade.window().is_some_and(model::WindowFeatures::reads_rtp);
    let payload_len = layout_len.max(if reads_rtp { RTP_HEADER_LEN } else { 0 });
    let len = Needs::TRANSPORT_LEN + u32::from(payload_len);
    Needs { stage: "classify", len, takes_all: false }
}
