//! What is wrong with settings, before anything begins.

use std::fmt;

use engine::columns::Schema;

use crate::notify;
use crate::rules::{COUNTS, Rule, Wrong, check_labels};
use crate::settings::{IndicatorSettings, Settings};

/// The table whose rows are the alerts.
pub const TABLE: &str = "alerts";

/// The table of counters, which is made for rules alone.
pub(crate) const COUNTS_TABLE: &str = "counts";

/// A list of settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// `[[alert]]`
    Alert,
    /// `[[notify]]`
    Notify,
    /// `[[indicators]]`
    Indicators,
}

impl Part {
    /// Its name in settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alert => "alert",
            Self::Notify => "notify",
            Self::Indicators => "indicators",
        }
    }
}

/// What is wrong with one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mistake {
    /// The list.
    pub part: Part,
    /// Which of it, from 0 on.
    pub index: usize,
    /// The key.
    pub key: &'static str,
    /// What was seen, what was wanted.
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, index, key, message } = self;
        write!(f, "[[{}]] {}: {key}: {message}", part.name(), index + 1)
    }
}

impl Mistake {
    pub(crate) fn all(part: Part, index: usize, wrong: Vec<Wrong>) -> Vec<Self> {
        let one = |(key, message)| Self { part, index, key, message };
        wrong.into_iter().map(one).collect()
    }
}

/// The columns of a table that a rule names.
pub(crate) fn schema_of(name: &str, tables: &[(&str, Schema)]) -> Result<Schema, Wrong> {
    if name == COUNTS_TABLE {
        return Ok(COUNTS);
    }
    let found = tables.iter().find(|(one, _)| *one == name && *one != TABLE);
    found.map(|(_, schema)| *schema).ok_or_else(|| {
        let mut names: Vec<_> = tables.iter().map(|(name, _)| *name).collect();
        names.retain(|name| *name != TABLE);
        names.push(COUNTS_TABLE);
        ("table", format!("no table {name:?}; this run has: {}", names.join(", ")))
    })
}

/// The columns of a list, where none of the tables has them.
pub(crate) fn check_list(settings: &IndicatorSettings, tables: &[(&str, Schema)]) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    check_labels(&settings.labels, &mut wrong);
    for name in settings.tables.iter().flatten() {
        wrong.extend(schema_of(name, tables).err().map(|(_, told)| ("tables", told)));
    }
    let default = || settings.kind.columns().iter().map(|&name| name.to_owned()).collect();
    let columns: Vec<String> = settings.columns.clone().unwrap_or_else(default);
    let is_looked_at =
        |name: &str| settings.tables.as_ref().is_none_or(|of| of.iter().any(|n| n == name));
    let has = |schema: &Schema| schema.iter().any(|field| columns.iter().any(|c| c == field.name));
    let mut looked_at = tables.iter().filter(|(name, _)| *name != TABLE && is_looked_at(name));
    if wrong.is_empty() && !looked_at.any(|(_, schema)| has(schema)) {
        let told = format!("no table has a column of: {}", columns.join(", "));
        let hint = match settings.kind {
            crate::IndicatorKind::Ip => "",
            _ => "; names are read with read-names = true in [flows]",
        };
        wrong.push(("columns", format!("{told}{hint}")));
    }
    wrong
}

impl Settings {
    /// Whether nothing is asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.alert.is_empty() && self.notify.is_empty() && self.indicators.is_empty()
    }

    /// All that is wrong, given the tables of a run. No file is opened and nothing is sent.
    #[must_use]
    pub fn mistakes(&self, tables: &[(&str, Schema)]) -> Vec<Mistake> {
        let mut mistakes = Vec::new();
        for (index, settings) in self.alert.iter().enumerate() {
            let bound = schema_of(&settings.table, tables)
                .map_err(|wrong| vec![wrong])
                .and_then(|schema| Rule::bind(settings, schema));
            let wrong = bound.err().unwrap_or_default();
            mistakes.extend(Mistake::all(Part::Alert, index, wrong));
        }
        for (index, settings) in self.notify.iter().enumerate() {
            let wrong = notify::mistakes(settings);
            mistakes.extend(Mistake::all(Part::Notify, index, wrong));
        }
        for (index, settings) in self.indicators.iter().enumerate() {
            let mut wrong = check_list(settings, tables);
            let mut before = self.indicators.iter().take(index);
            if before.any(|other| other.name == settings.name) {
                wrong
                    .push(("name", format!("{:?} is already used by another list", settings.name)));
            }
            mistakes.extend(Mistake::all(Part::Indicators, index, wrong));
        }
        mistakes
    }
}

#[cfg(test)]
mod tests {
    use engine::columns::{Field, Kind};

    use super::*;

    const FLOWS: Schema = &[Field::new("src_ip", Kind::Text, "")];

    #[test]
    fn every_mistake_is_told_with_its_place() {
        let text = "
            [[alert]]
            name = 'a'
            table = 'flow'
            [[alert]]
            name = 'b'
            table = 'flows'
            when = 'port > 1'
            text = '{x}'
            [[alert]]
            name = 'c'
            table = 'counts'
            when = 'increase > 0'
            [[notify]]
            kind = 'webhook'
            to = 'hooks.example'
            facility = 'daemon'
            [[notify]]
            kind = 'jsonl'
            [[notify]]
            kind = 'syslog'
            to = 'log'
            user = 'a'
            [[indicators]]
            name = 'ips'
            file = 'f'
            kind = 'ip'
            [[indicators]]
            name = 'names'
            file = 'f'
            kind = 'domain'
            tables = ['flows', 'no']
            [[indicators]]
            name = 'prints'
            file = 'f'
            kind = 'ja4'
        ";
        let settings: Settings = toml::from_str(text).unwrap();
        let mistakes = settings.mistakes(&[("flows", FLOWS), ("alerts", crate::SCHEMA)]);
        let told: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
        for (at, wanted) in [
            "[[alert]] 1: table: no table \"flow\"; this run has: flows, counts",
            "[[alert]] 2: when: no column \"port\"",
            "[[alert]] 2: text: {x} is not a column",
            "[[notify]] 1: to: wanted: a URL",
            "[[notify]] 1: facility: ",
            "[[notify]] 2: to: wanted: the path",
            "[[notify]] 3: to: \"log\"; wanted: udp://",
            "[[notify]] 3: user: has an effect",
            "[[notify]] 3: user: user and password-file",
            "[[indicators]] 2: tables: no table \"no\"",
            "[[indicators]] 3: columns: no table has a column of: ja4; names are read",
        ]
        .iter()
        .enumerate()
        {
            assert!(
                told.get(at).is_some_and(|told| told.starts_with(wanted)),
                "{wanted}: {told:#?}"
            );
        }
        assert_eq!(told.len(), 11, "{told:#?}");
    }
}
