//! How long packets take, which end is slow, what was retransmitted.

mod account;
mod application;
mod cells;
mod first;
mod flow;
mod line;
mod one_way;
mod packets;
mod settings;

pub use application::{Latency, LatencyView};
pub use flow::{Flow, Side};
pub use line::{LatencyRows, Line};
pub use one_way::Between;
pub use settings::{By, LatencySettings, SortBy};

use engine::columns::Schema;

/// The columns of each kind of row.
#[must_use]
pub fn declared_columns() -> Vec<(&'static str, Schema)> {
    vec![
        ("wirelens latency", flow::SCHEMA),
        ("wirelens latency --by destination", line::SCHEMA),
        ("wirelens latency --by destination --every DURATION", line::PERIOD_SCHEMA),
        ("wirelens latency --by packet", packets::SCHEMA),
        ("wirelens latency --egress FILE", one_way::SCHEMA),
    ]
}
