//! Rows that outlive memory, as a file of settings says it: `[history]`.

use std::path::PathBuf;

use packet::Span;
use serde::Deserialize;

use crate::written;

/// Settings of `[history]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct HistorySettings {
    /// The folder.
    pub folder: PathBuf,
    /// Rows older than this go.
    #[serde(deserialize_with = "written::duration")]
    pub keep: Span,
    /// The oldest rows go where files have more bytes than this.
    #[serde(deserialize_with = "written::bytes")]
    pub keep_bytes: u64,
}

impl Default for HistorySettings {
    fn default() -> Self {
        let keep = Span::from_seconds(7 * 86_400);
        Self { folder: PathBuf::from("history"), keep, keep_bytes: 2 << 30 }
    }
}

/// Its keys with their defaults, as `--init` prints them.
pub(crate) const EXAMPLE: &str = "
# Store the rows of every table on disk, by hour, so that the page shows earlier hours and runs.
# [history]
# folder = \"history\"
# keep = \"7d\"
# keep-bytes = \"2G\"
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_has_the_defaults() {
        let commented = EXAMPLE.lines().filter_map(|line| line.strip_prefix("# "));
        let keys: Vec<_> = commented.filter(|line| line.contains(" = ")).collect();
        let read: HistorySettings = toml::from_str(&keys.join("\n")).unwrap();
        assert_eq!((keys.len(), read), (3, HistorySettings::default()));
    }
}
