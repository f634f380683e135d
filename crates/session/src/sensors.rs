//! Sensors whose results are shown, from the settings file: `[sensors]`.

use engine::columns::Schema;
use packet::Span;
use serde::Deserialize;

use crate::written;

/// Settings of `[sensors]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct SensorsSettings {
    /// Rows that the broker has stored for longer are not read.
    #[serde(deserialize_with = "written::duration")]
    pub since: Span,
    /// A sensor without a message for so long is silent.
    #[serde(deserialize_with = "written::duration")]
    pub silent_after: Span,
    /// A flow waits so long for rows of other sensors.
    #[serde(deserialize_with = "written::duration")]
    pub join_wait: Span,
}

impl Default for SensorsSettings {
    fn default() -> Self {
        let since = Span::from_seconds(3_600);
        let (silent_after, join_wait) = (Span::from_seconds(30), Span::from_seconds(60));
        Self { since, silent_after, join_wait }
    }
}

/// Its keys with their defaults, as `--init` prints them.
pub(crate) const EXAMPLE: &str = "
# In place of [input]: show the results that other runs publish over [nats]. The tables of this file
# are then those of the sensors, with a column `sensor`; give them the keys that the sensors have.
# docs/guide/sensors.md has an example.
# [sensors]
# Rows that the broker has stored for longer are not read.
# since = \"1h\"
# silent-after = \"30s\"
# How long a flow waits for the rows of other sensors.
# join-wait = \"1m\"
";

/// The columns of its own tables, for the reference pages.
pub(crate) fn declared_columns() -> Vec<(&'static str, Schema)> {
    vec![
        ("wirelens run, [sensors]: the table `sensors`", bus::SENSORS_SCHEMA),
        ("wirelens run, [sensors]: the table `joined`", bus::JOINED_SCHEMA),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_has_the_defaults() {
        let commented = EXAMPLE.lines().filter_map(|line| line.strip_prefix("# "));
        let keys: Vec<_> = commented.filter(|line| line.contains(" = ")).collect();
        let read: SensorsSettings = toml::from_str(&keys.join("\n")).unwrap();
        assert_eq!((keys.len(), read), (3, SensorsSettings::default()));
    }
}
