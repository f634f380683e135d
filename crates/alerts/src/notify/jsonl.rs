//! JSON lines, or Suricata's events, appended to a file.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;

use files::FileMode;

use super::{Batch, Destination, Failure};
use crate::begin::EveLine;
use crate::rules::Wrong;
use crate::settings::NotifySettings;

/// A file that grows. Each delivery is one write of whole lines, so that several programs may
/// append to one file.
pub(super) struct JsonLines {
    path: PathBuf,
    line: EveLine,
    file: Option<File>,
    /// A write failed in the middle of a line, here or in a run before.
    is_torn: bool,
}

impl JsonLines {
    /// `line` writes an alert; those of which it makes nothing are left out.
    pub(super) fn open(settings: &NotifySettings, line: EveLine) -> Result<Self, Wrong> {
        let path = PathBuf::from(&settings.to);
        let mut opened = Self { path, line, file: None, is_torn: false };
        let told = |error| ("to", format!("{}: {error}", settings.to));
        opened.file().map_err(told)?;
        Ok(opened)
    }

    fn file(&mut self) -> io::Result<&mut File> {
        let file = match self.file.take() {
            Some(file) => file,
            // Alerts name hosts and what they do.
            None => {
                let file = files::append(&self.path, FileMode::asked())?;
                self.is_torn = files::ends_torn(&self.path, &file);
                file
            }
        };
        Ok(self.file.insert(file))
    }
}

impl Destination for JsonLines {
    fn deliver(&mut self, batch: &Batch<'_>) -> Result<(), Failure> {
        self.file().map_err(Failure::later)?;
        let mut lines = String::from(if self.is_torn { "\n" } else { "" });
        for line in batch.alerts.iter().filter_map(|alert| (self.line)(alert)) {
            lines.push_str(&line);
            lines.push('\n');
        }
        let written = self.file().and_then(|file| file.write_all(lines.as_bytes()));
        self.is_torn = written.is_err();
        written.map_err(|error| {
            self.file = None;
            Failure::later(error)
        })
    }

    fn reopen(&mut self) {
        self.file = None;
        // The new file is there immediately; where it cannot be, the next delivery says why.
        let _ = self.file();
    }

    fn batch_max(&self) -> usize {
        1_024
    }
}
