//! A report: the page in one file, with what a run has found inside it.

use std::fmt::Write as _;

use store::query::{Filter, Measure, Order, RowsQuery, TimeRange};
use store::{Store, Table};

use crate::api::state::RunState;
use crate::app::Facts;
use crate::{json, page};

/// Where the data goes in the page.
const PLACE: &str = "<!--WIRELENS-REPORT-DATA-->";

/// Bytes of a report at most: what can be sent to a colleague.
pub const REPORT_BYTES_MAX: usize = 3_000_000;

/// What is left for the state with all columns.
const STATE_BYTES: usize = 100_000;

/// By what rows matter, the first that a table has; of a table without any the latest rows do.
const WEIGHTS: [&str; 4] = ["bytes", "ingress_bytes", "sent_bytes", "packets"];

/// A report of what is in the store; nothing where the program was built without its page.
#[must_use]
pub fn report(store: &Store, facts: &Facts) -> Option<String> {
    let template = page::report()?;
    let (before, after) = template.split_once(PLACE)?;
    let room = REPORT_BYTES_MAX.saturating_sub(template.len() + STATE_BYTES);
    let state = RunState::of(store, facts, (facts.now_ns)(), true);
    // Writing to a string cannot fail.
    let mut data = String::from("{\"state\":");
    data.push_str(&serde_json::to_string(&state).unwrap_or_default());
    data.push_str(",\"health\":null,\"packetlog\":null,\"tables\":{");
    for (at, (name, rows)) in tables(store, room).into_iter().enumerate() {
        let _ = write!(data, "{}\"{name}\":{rows}", if at > 0 { "," } else { "" });
    }
    data.push_str("}}");
    // No text from traffic may end the element.
    let data = data.replace('<', "\\u003c");
    let element = "<script id=\"wirelens-report\" type=\"application/json\">";
    Some(format!("{before}{element}{data}</script>{after}"))
}

/// Rows of each table, as many as fit: small tables leave their room to large ones.
fn tables(store: &Store, room: usize) -> Vec<(String, String)> {
    let mut tables = store.tables();
    tables.sort_by_key(|table| table.state().byte_count);
    let mut left = room;
    let mut written = Vec::new();
    let count = tables.len();
    for (at, table) in tables.iter().enumerate() {
        let rows = rows(table, left / (count - at).max(1));
        left = left.saturating_sub(rows.len());
        written.push((table.name().to_owned(), rows));
    }
    written
}

/// The rows that matter most within so many bytes.
fn rows(table: &Table, room: usize) -> String {
    let schema = table.schema();
    let measure = WEIGHTS.iter().find_map(|name| Measure::find(schema, name).ok());
    let order = measure.map(|measure| Order { measure, is_descending: true });
    let everything = RowsQuery {
        filter: Filter::all(),
        range: TimeRange::default(),
        order: order.into_iter().collect(),
        offset: 0,
        limit: usize::MAX,
    };
    let found = everything.run(&table.view());
    let wanted = json::all(schema);
    // As `<` takes six bytes, it counts as such.
    let len = |text: &str| text.len() + 5 * text.matches('<').count();
    let mut sum = len(&json::table(&wanted, std::iter::empty()));
    let fit = found.each().take_while(|&(columns, row)| {
        sum += 1 + len(&json::row(columns, row, &wanted));
        sum <= room
    });
    json::table(&wanted, fit)
}
