//! The run at a glance: rates over time, the largest hosts and services.

use std::time::Instant;

use store::RowChunk;
use store::query::cell;

use super::{Model, Question, Sheet};
use crate::screens::Screen;

/// Periods of the rate that are kept: the columns of a wide terminal.
const PERIODS_MAX: usize = 300;

/// What the overview shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overview {
    /// Whether the run has the table traffic.
    pub(crate) has_traffic: bool,
    /// Bytes per second of the last periods, the newest last.
    pub(crate) bytes: Vec<f64>,
    /// Packets per second.
    pub(crate) packets: Vec<f64>,
    pub(crate) period_s: f64,
    pub(crate) new_flows: f64,
    pub(crate) ended_flows: f64,
    /// Packets that the capture lost in these periods.
    pub(crate) dropped: f64,
    pub(crate) open_flows: usize,
    pub(crate) hosts: Sheet,
    pub(crate) services: Sheet,
}

impl Model {
    /// The overview.
    pub(crate) fn overview(&mut self, now: Instant) -> Overview {
        let of = |screen| Question { screen, table: 0, sort: None, filter: String::new() };
        let mut overview = Overview {
            hosts: self.sheet(&of(Screen::Hosts), now),
            services: self.sheet(&of(Screen::Services), now),
            ..Overview::default()
        };
        if let Some(flows) = self.store.find("flows") {
            overview.open_flows = flows.state().open_row_count;
        }
        if let Some(traffic) = self.store.find("traffic") {
            overview.has_traffic = true;
            overview.put_traffic(&traffic.view().latest(PERIODS_MAX));
        }
        overview
    }
}

impl Overview {
    fn put_traffic(&mut self, held: &[RowChunk]) {
        for rows in held.iter().map(RowChunk::columns) {
            let place = |name: &str| rows.schema().iter().position(|field| field.name == name);
            let number = |name: &str, at| match place(name) {
                Some(column) => cell(rows, column, at).number().unwrap_or(0.0),
                None => 0.0,
            };
            for at in 0..rows.row_count() {
                self.put_period(&|name| number(name, at));
            }
        }
    }

    fn put_period(&mut self, number: &dyn Fn(&str) -> f64) {
        let seconds = number("period_ns") / 1e9;
        let seconds = if seconds > 0.0 { seconds } else { 1.0 };
        self.period_s = seconds;
        self.bytes.push(number("bytes") / seconds);
        self.packets.push(number("packets") / seconds);
        self.new_flows = number("new_flows");
        self.ended_flows = number("ended_flows");
        self.dropped += number("dropped_packets");
    }
}
