//! Services: flows by their class, with the bytes that the table `flows` has of them.

use std::collections::{HashMap, HashSet};

use engine::columns::Schema;
use store::query::{Filter, cell};
use store::{Store, Table};

use super::{Row, Sheet, Subject, measure};
use crate::screens::{SERVICES, Source};
use crate::value::Value;

/// Classes at most; protocols and names of services are far fewer.
const CLASS_COUNT_MAX: usize = 5_000;

/// Flows whose bytes are looked up at most.
const FLOW_COUNT_MAX: usize = 200_000;

/// The column by which flows of a table without a classifier have services.
pub(super) fn column_of_flows(schema: Schema) -> Option<&'static str> {
    let has = |name: &str| schema.iter().any(|field| field.name == name);
    // Rows of a classifier have a label but no bytes, and are found by their table's name.
    let names = ["label", "app_protocol"];
    names.into_iter().find(|name| has(name) && has("src_bytes"))
}

/// The column of a table by which its flows are put together; none where rows are of hosts.
pub(super) fn column(schema: Schema) -> Option<&'static str> {
    let has = |name: &str| schema.iter().any(|field| field.name == name);
    if has("host") {
        return None;
    }
    column_of_flows(schema).or_else(|| has("label").then_some("label"))
}

#[derive(Default)]
struct Class {
    flow_count: f64,
    confident: (f64, f64),
    bytes: f64,
}

/// Flows of a table by class.
pub(super) fn sheet(store: &Store, table: &Table, filter: &Filter) -> Sheet {
    let columns = SERVICES.to_vec();
    let name = column(table.schema()).unwrap_or("label");
    let Some(label) = measure(table, name) else { return Sheet { columns, ..Sheet::default() } };
    let (confidence, own_bytes) = (measure(table, "confidence"), measure(table, "bytes"));
    let id = table.schema().iter().position(|field| field.name == "community_id");
    let mut classes: HashMap<String, Class> = HashMap::new();
    let mut class_of: HashMap<String, String> = HashMap::new();
    let mut flow_count = 0.0;
    for held in table.view().chunks() {
        let rows = held.columns();
        for at in (0..rows.row_count()).filter(|&at| filter.has(rows, at)) {
            let class = label.cell(rows, at).text().filter(|text| !text.is_empty());
            let class = class.unwrap_or("(none)");
            if classes.len() >= CLASS_COUNT_MAX && !classes.contains_key(class) {
                continue;
            }
            if own_bytes.is_none() && class_of.len() < FLOW_COUNT_MAX {
                let id = id.and_then(|id| cell(rows, id, at).text());
                class_of.extend(id.map(|id| (id.to_owned(), class.to_owned())));
            }
            let sums = classes.entry(class.to_owned()).or_default();
            sums.flow_count += 1.0;
            flow_count += 1.0;
            let bytes = own_bytes.as_ref().and_then(|bytes| bytes.cell(rows, at).number());
            sums.bytes += bytes.unwrap_or(0.0);
            let confidence = confidence.as_ref().and_then(|one| one.cell(rows, at).number());
            if let Some(confidence) = confidence {
                sums.confident = (sums.confident.0 + confidence, sums.confident.1 + 1.0);
            }
        }
    }
    let has_bytes = own_bytes.is_some() || add_bytes(store, &class_of, &mut classes);
    let matched = classes.len();
    let row = |(class, sums): (String, Class)| sums.row(name, class, flow_count, has_bytes);
    let rows = classes.into_iter().map(row).collect();
    let note = if has_bytes { "" } else { "bytes of services need the table [flows]" };
    Sheet { columns, rows, matched, note: note.to_owned(), ..Sheet::default() }
}

impl Class {
    fn row(self, column: &'static str, class: String, flow_count: f64, has_bytes: bool) -> Row {
        let (sum, count) = self.confident;
        let mean = if count > 0.0 { Value::Number(sum / count) } else { Value::None };
        let bytes = if has_bytes { Value::Number(self.bytes) } else { Value::None };
        let share = Value::Number(self.flow_count / f64::max(flow_count, 1.0));
        let values = vec![
            Value::Text(class.clone()),
            Value::None,
            bytes,
            Value::Number(self.flow_count),
            share,
            mean,
        ];
        let subject = Subject::Named(column, class.clone());
        Row { id: class, subject, values, is_warning: false }
    }
}

/// Adds the bytes of flows, open and ended, to their classes.
fn add_bytes(
    store: &Store,
    class_of: &HashMap<String, String>,
    classes: &mut HashMap<String, Class>,
) -> bool {
    let Some(flows) = store.find("flows") else { return false };
    let id = flows.schema().iter().position(|field| field.name == "community_id");
    let Some((id, bytes)) = id.zip(measure(&flows, "bytes")) else { return false };
    for held in flows.view().chunks() {
        let rows = held.columns();
        for at in 0..rows.row_count() {
            let class = cell(rows, id, at).text().and_then(|id| class_of.get(id));
            if let Some(sums) = class.and_then(|class| classes.get_mut(class)) {
                sums.bytes += bytes.cell(rows, at).number().unwrap_or(0.0);
            }
        }
    }
    true
}

/// Names the services of flows that have no name of their own by the classes of `classify`.
pub(super) fn label(store: &Store, sheet: &mut Sheet) {
    let place = sheet.columns.iter().position(|column| column.source == Source::Service);
    let classify = store.tables().into_iter().find(|table| {
        let has = |name: &str| table.schema().iter().any(|field| field.name == name);
        table.name().starts_with("classify") && has("community_id") && has("label")
    });
    let (Some(place), Some(classify)) = (place, classify) else { return };
    let unnamed = sheet.rows.iter().filter(|row| row.values.get(place) == Some(&Value::None));
    let wanted: HashSet<&str> = unnamed
        .filter_map(|row| match &row.subject {
            Subject::Flow(id) => Some(id.as_str()),
            _ => None,
        })
        .collect();
    let position = |name: &str| classify.schema().iter().position(|field| field.name == name);
    let Some((id, label)) = position("community_id").zip(position("label")) else { return };
    let mut labels: HashMap<String, String> = HashMap::new();
    for held in classify.view().chunks() {
        let rows = held.columns();
        for at in 0..rows.row_count() {
            let Some(id) = cell(rows, id, at).text().filter(|id| wanted.contains(id)) else {
                continue;
            };
            let label = cell(rows, label, at).text().unwrap_or_default();
            labels.insert(id.to_owned(), label.to_owned());
        }
    }
    for row in &mut sheet.rows {
        let Subject::Flow(id) = &row.subject else { continue };
        let (Some(label), Some(value)) = (labels.get(id), row.values.get_mut(place)) else {
            continue;
        };
        if *value == Value::None {
            *value = Value::Text(label.clone());
        }
    }
}
