//! Hits of lists among the rows of tables.

use std::sync::Arc;

use engine::columns::{Columns, Kind, Schema};
use store::query::cell;

use super::Lists;
use crate::alert::{Alert, FlowColumns};
use crate::rules::{At, Facts, States, labels};
use crate::settings::{IndicatorSettings, span_or};
use crate::text::{TEXT_LEN_MAX, Template, VALUE_LEN_MAX, key, push_clean};

/// Event time after which an alert without a further hit is resolved, unless another is given.
const RESOLVE_AFTER_S: i64 = 600;

/// The alerts of a list: one for an entry and the hosts that met it, whichever tables show it.
pub(crate) struct ListStates {
    pub states: States,
    pub hits: u64,
}

impl ListStates {
    pub(crate) fn new(settings: &IndicatorSettings) -> Self {
        let resolve_after = span_or(settings.resolve_after, RESOLVE_AFTER_S);
        Self { states: States::new(packet::Span::default(), resolve_after), hits: 0 }
    }
}

/// How a list is looked up in the rows of a table.
pub(crate) struct RowLook {
    list: usize,
    columns: Vec<usize>,
    facts: Facts,
    key: Vec<usize>,
}

impl RowLook {
    /// For a table; nothing where it has none of the columns.
    pub(crate) fn bind(
        list: usize,
        settings: &IndicatorSettings,
        table: &str,
        schema: Schema,
    ) -> Option<Self> {
        let place = |name: &str| schema.iter().position(|field| field.name == name);
        let is_text = |&place: &usize| schema.get(place).is_some_and(|f| f.kind == Kind::Text);
        let columns: Vec<_> = match &settings.columns {
            Some(names) => names.iter().filter_map(|name| place(name)).filter(is_text).collect(),
            None => {
                let names = settings.kind.columns().iter();
                names.filter_map(|name| place(name)).filter(is_text).collect()
            }
        };
        let is_wanted =
            settings.tables.as_ref().is_none_or(|names| names.iter().any(|n| n == table));
        if columns.is_empty() || !is_wanted {
            return None;
        }
        let names = ["src_ip", "dst_ip", "host"];
        let label_columns: Vec<_> =
            names.iter().filter_map(|name| Some((*name, place(name)?))).collect();
        let text = ["src_ip", "dst_ip", "dst_port", "host"];
        let text = text.iter().filter(|name| place(name).is_some());
        let text: Vec<_> = text.map(|name| format!("{name} {{{name}}}")).collect();
        let (labels, severity) = labels(&settings.name, &settings.labels, "critical");
        let facts = Facts {
            name: settings.name.as_str().into(),
            table: table.into(),
            severity: severity.as_str().into(),
            labels,
            label_columns,
            text: Template::new(&text.join(", "), schema).ok()?,
            annotations: Vec::new(),
            community_id: place("community_id"),
            host: place("host").or_else(|| place("src_ip")).or_else(|| place("dst_ip")),
            flow: FlowColumns::find(place),
        };
        let key = facts.label_columns.iter().map(|(_, place)| *place).collect();
        Some(Self { list, columns, facts, key })
    }

    /// Looks at a row.
    pub(crate) fn look(
        &self,
        lists: &Lists,
        all: &mut [ListStates],
        (rows, row): (&Columns, usize),
        at: At,
        out: &mut Vec<Arc<Alert>>,
    ) {
        let (Some(list), Some(states)) = (lists.lists.get(self.list), all.get_mut(self.list))
        else {
            return;
        };
        let loaded = list.loaded();
        let found = self.columns.iter().find_map(|&place| {
            let seen = cell(rows, place, row).text()?;
            Some((rows.schema().get(place)?.name, seen, loaded.find(seen)?))
        });
        let Some((column, seen, entry)) = found else { return };
        states.hits += u64::from(!at.is_open);
        let key = format!("{entry}\u{1f}{}", key(rows, row, &self.key));
        let make = |first, count| {
            let mut alert = self.facts.alert((rows, row), at, (first, count), None);
            let mut text = format!("{entry} in {column} ");
            push_clean(&mut text, seen, VALUE_LEN_MAX);
            text.push_str(": ");
            text.push_str(&alert.text);
            alert.text.clear();
            push_clean(&mut alert.text, &text, TEXT_LEN_MAX);
            alert.labels.insert("indicator".into(), entry.clone());
            alert
        };
        states.states.matched(key, at, make, out);
    }
}
