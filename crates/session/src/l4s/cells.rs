//! Flows in a period as people read them: the cells of a table.

use super::rows::{MarkingReport, Row};

/// The titles of the columns.
pub const TITLES: &[&str] = &[
    "source",
    "destination",
    "packets",
    "L4S",
    "re-marked",
    "L4S p50",
    "p99",
    "classic p50",
    "p99",
    "error",
];
/// Which of them hold text.
pub const TEXT_COLUMNS: &[usize] = &[0, 1];

/// A duration in ms.
pub(super) fn ms(ns: Option<u64>) -> String {
    #[allow(clippy::cast_precision_loss)]
    ns.map_or_else(|| String::from("-"), |ns| format!("{:.2} ms", ns as f64 / 1e6))
}

impl Row {
    fn cells(&self, counted: fn(u64) -> String) -> Vec<String> {
        let (source, destination) = self.flow.key.endpoints(self.flow.direction);
        let (l4s, classic) = (self.measured.l4s, self.measured.classic);
        vec![
            source.to_string(),
            destination.to_string(),
            counted(self.packets),
            counted(self.counts.asked),
            format!("{:.1} %", self.remark_share() * 100.0),
            ms(l4s.p50_ns),
            ms(l4s.p99_ns),
            ms(classic.p50_ns),
            ms(classic.p99_ns),
            ms(self.error_mean_ns),
        ]
    }
}

impl MarkingReport {
    /// The cells of its rows.
    #[must_use]
    pub fn cells(&self, counted: fn(u64) -> String) -> Vec<Vec<String>> {
        self.rows.iter().map(|row| row.cells(counted)).collect()
    }

    /// What stands above the table.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn head(&self) -> String {
        let seconds = self.period_ns as f64 / 1e9;
        format!("from {}, {seconds:.3} s: {} flows", self.start, self.rows.len())
    }
}
