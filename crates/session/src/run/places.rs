//! Where a run would write.

use std::path::{Path, PathBuf};

use toml::Value;

use super::plan::Plan;
use crate::exports::is_collector;
use crate::written::parse_bytes;

/// A folder that a run writes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFolder {
    /// The table of the settings.
    pub table: &'static str,
    /// The folder.
    pub path: PathBuf,
    /// Bytes that the run keeps there at most; nothing where nothing limits it.
    pub keep_bytes: Option<u64>,
    /// Whether a run of years writes there all the time.
    pub is_growing: bool,
}

impl Plan {
    /// The folders of `[packetlog]`, of `[history]` and of rows that go to files.
    #[must_use]
    pub fn folders(&self) -> Vec<RunFolder> {
        let mut folders = Vec::new();
        for one in &self.applications {
            let table = one.ready.name();
            if let Some(path) = one.ready.log_folder() {
                let (path, keep_bytes) = (path.to_owned(), self.log_budget());
                folders.push(RunFolder { table, path, keep_bytes, is_growing: true });
            }
            let file = one.output.as_ref().filter(|output| {
                // What goes to a collector needs no disk.
                !output.is_stdout() && !is_collector(&output.path)
            });
            if let Some(path) = file.and_then(|output| output.path.parent()) {
                let here = path.as_os_str().is_empty();
                let path = if here { Path::new(".") } else { path }.to_owned();
                folders.push(RunFolder { table, path, keep_bytes: None, is_growing: false });
            }
        }
        if let Some(history) = &self.history {
            let (path, keep_bytes) = (history.folder.clone(), Some(history.keep_bytes));
            folders.push(RunFolder { table: "history", path, keep_bytes, is_growing: true });
        }
        folders
    }

    fn log_budget(&self) -> Option<u64> {
        // One application gives each kind of labels, so there is one log.
        let packetlog = match self.tables.get("packetlog")? {
            Value::Array(tables) => tables.first()?,
            table => table,
        };
        match packetlog.get("log")?.get("keep-bytes")? {
            Value::Integer(bytes) => u64::try_from(*bytes).ok(),
            Value::String(text) => parse_bytes(text).ok(),
            _ => None,
        }
    }

    /// Whether programs in the kernel are asked for, such as taps of an interface.
    #[must_use]
    pub fn has_taps(&self) -> bool {
        self.input.is_live() && self.applications.iter().any(|one| one.ready.attaches())
    }
}
