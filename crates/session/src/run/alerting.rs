//! Alerts, as a file of settings has them: `[[alert]]`, `[[notify]]`, `[[indicators]]`.

use std::ops::Range;

use alerts::{IndicatorKind, Part, Settings};
use engine::columns::Schema;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::plan::tables_of;
use crate::toml_text::{Mistakes, read_table};

/// What was written, and where.
pub(super) struct LocatedSettings {
    settings: Settings,
    places: [Vec<Range<usize>>; 3],
}

/// The names of these tables.
pub(super) const NAMES: [&str; 3] =
    [Part::Alert.name(), Part::Notify.name(), Part::Indicators.name()];

/// Takes them out of the settings.
pub(super) fn take(root: &mut DeTable<'_>, mistakes: &mut Mistakes) -> LocatedSettings {
    let [alert, notify, indicators] = NAMES;
    let (alert, of_alerts) = list(alert, root.remove(alert), mistakes);
    let (notify, of_notify) = list(notify, root.remove(notify), mistakes);
    let (indicators, of_lists) = list(indicators, root.remove(indicators), mistakes);
    let settings = Settings { alert, notify, indicators };
    LocatedSettings { settings, places: [of_alerts, of_notify, of_lists] }
}

fn list<T: DeserializeOwned>(
    name: &str,
    value: Option<Spanned<DeValue<'_>>>,
    mistakes: &mut Mistakes,
) -> (Vec<T>, Vec<Range<usize>>) {
    let tables = tables_of(name, value, mistakes);
    let read = tables.into_iter().filter_map(|table| {
        let at = table.span();
        Some((read_table(name, &table, mistakes)?, at))
    });
    read.unzip()
}

impl LocatedSettings {
    /// The names of lists of indicators.
    pub(super) fn lists(&self) -> Vec<String> {
        self.settings.indicators.iter().map(|list| list.name.clone()).collect()
    }

    /// Whether any of them is of names or fingerprints.
    pub(super) fn has_names(&self) -> bool {
        self.settings.indicators.iter().any(|list| list.kind != IndicatorKind::Ip)
    }

    /// Whether there is anything.
    pub(super) fn is_empty(&self) -> bool {
        self.settings.is_empty()
    }

    /// Checks them against the tables that the run has.
    pub(super) fn check(self, tables: &[(&str, Schema)], mistakes: &mut Mistakes) -> Settings {
        let Self { settings, places } = self;
        for wrong in settings.mistakes(tables) {
            let [of_alerts, of_notify, of_lists] = &places;
            let of_part = match wrong.part {
                Part::Alert => of_alerts,
                Part::Notify => of_notify,
                Part::Indicators => of_lists,
            };
            let at = of_part.get(wrong.index).cloned().unwrap_or(0..0);
            let (part, key, message) = (wrong.part.name(), wrong.key, &wrong.message);
            mistakes.add(at, format_args!("[[{part}]] {key}: {message}"));
        }
        settings
    }
}

/// Their keys, as `--init` prints them.
pub(super) const EXAMPLE: &str = "
# Alerts: rules over the rows of any table, lists of indicators, and where alerts go.
# docs/guide/alerts.md has one for each purpose.
# [[alert]]
# name = \"large upload\"
# table = \"flows\"
# when = \"src_bytes > 1G\"
# labels = { severity = \"warning\" }
#
# [[indicators]]
# name = \"blocklist\"
# kind = \"ip\"
# file = \"blocklist.txt\"
#
# [[notify]]
# kind = \"jsonl\"
# to = \"alerts.jsonl\"
";
