//! Who talks to whom: flows, from a first packet to an end.

mod application;
mod brought;
mod heaviest;
mod labelled;
mod layout;
mod lengths;
mod named;
mod nfstream;
mod row;

pub use crate::done::Done;
pub use application::{Flows, Settings, Shown, ShownFlow};
pub use brought::Brought;
pub use labelled::LabelledFlows;

use engine::columns::Schema;
use engine::flow::EndReason;
use engine::flow::pass::Now;
use layout::{Laid, Layout, Rows};

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
        Nfstream = "nfstream", "NFStream's, statistics included, for programs written for it";
    }
}

/// The columns of flows, in every form.
#[must_use]
pub fn declared_columns() -> Vec<(&'static str, Schema)> {
    vec![
        ("wirelens flows", row::PLAIN[0]),
        ("wirelens flows --window DURATION", row::WINDOWED[0]),
        ("wirelens flows --stats", row::WITH_STATISTICS[0]),
        ("wirelens flows --names nfstream", nfstream::SCHEMAS[0]),
        ("wirelens flows -r FOLDER", row::PLAIN[1]),
        ("wirelens flows --read-names", row::NAMED[0]),
        ("wirelens flows --read-names --stats", row::NAMED_WITH_STATISTICS[0]),
        ("wirelens flows --model DIR", row::LABELLED[0]),
        ("wirelens flows --model DIR --stats", row::LABELLED_WITH_STATISTICS[0]),
    ]
}

/// What is counted of flows while a run goes on.
fn counts(now: &Now<'_>) -> Vec<Count> {
    #[allow(clippy::cast_precision_loss)]
    let open = Count::gauge("open", "Flows that have not ended.", now.flow_count() as f64);
    let ended = |reason: EndReason| {
        let count = Count::total("ended", "Flows that have ended.", now.ended.of(reason));
        count.with("reason", reason.name())
    };
    EndReason::ALL.into_iter().map(ended).chain([open]).collect()
}
