//! Who talks to whom: flows, from a first packet to an end.

mod application;
mod brought;
mod heaviest;
mod labelled;
mod layout;
mod lengths;
mod macs;
mod named;
mod nfstream;
mod row;

pub use crate::done::RunTotals;
pub use application::{Flows, FlowsView, Settings, ShownFlow};
pub use brought::FlowsAlias;
pub use labelled::LabelledFlows;

use engine::columns::Schema;
use engine::flow::EndReason;
use engine::flow::pass::Now;
use layout::{FlowColumns, Layout, Rows};

use crate::application::{Count, ENDED_PER_PIECE};
use crate::choice::choice;
use crate::reading::Needs;

/// What flows are made of.
pub const NEEDS: Needs = Needs { stage: "flows", len: Needs::TRANSPORT_LEN, takes_all: false };

/// What is looked at of each frame.
const fn needs(reads_names: bool) -> Needs {
    if reads_names { crate::names_read::needs("flows") } else { NEEDS }
}

/// Rows turned into columns together.
const ROWS_PER_PIECE: usize = ENDED_PER_PIECE;

choice! {
    /// Whose names columns have.
    Names: "set of names" {
        Wirelens = "wirelens", "Our own";
        Nfstream = "nfstream", "NFStream's, with statistics, for programs written for it";
    }
}

/// The columns of flows, in every form.
#[must_use]
pub fn declared_columns() -> Vec<(&'static str, Schema)> {
    let plain = Layout::PLAIN;
    let with_names = Layout { reads_names: true, ..plain };
    let labelled = Layout { has_label: true, ..plain };
    let layouts = [
        ("wirelens flows", plain),
        (
            "wirelens flows --window DURATION",
            Layout { window: Some(packet::Span::from_seconds(1)), ..plain },
        ),
        ("wirelens flows --stats", Layout { statistics: true, ..plain }),
        ("wirelens flows --names nfstream", Layout { names: Names::Nfstream, ..plain }),
        ("wirelens flows --macs", Layout { has_macs: true, ..plain }),
        ("wirelens flows -r FOLDER", Layout { has_capture: true, ..plain }),
        ("wirelens flows --read-names", with_names),
        ("wirelens flows --read-names --stats", Layout { statistics: true, ..with_names }),
        ("wirelens flows --model DIR", labelled),
        ("wirelens flows --model DIR --stats", Layout { statistics: true, ..labelled }),
    ];
    layouts.into_iter().map(|(command, layout)| (command, layout.schema())).collect()
}

/// Counts of flows during a run.
fn counts(now: &Now<'_>) -> Vec<Count> {
    #[allow(clippy::cast_precision_loss)]
    let open = Count::gauge("open", "Flows that have not ended.", now.flow_count() as f64);
    let ended = |reason: EndReason| {
        let count = Count::total("ended", "Flows that have ended.", now.ended.of(reason));
        count.with("reason", reason.name())
    };
    EndReason::ALL.into_iter().map(ended).chain([open]).collect()
}
