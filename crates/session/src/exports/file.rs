//! Text on its way into a file.

use std::io::Write as _;
use std::path::Path;

use sink::{Existing, OutputFile};

use crate::outlet::RowsError;

/// Text gathered before it is written.
const TEXT_LEN: usize = 256 * 1024;

/// A file that text is appended to.
pub(crate) struct TextFile {
    /// None after it could not be begun again.
    file: Option<OutputFile>,
    /// What is held back.
    pub(crate) text: String,
    /// Files that have their names.
    pub(crate) finished: u64,
}

impl TextFile {
    pub(crate) fn create(path: &Path, force: bool) -> Result<Self, RowsError> {
        let existing = if force { Existing::Replace } else { Existing::Refuse };
        let mut file = OutputFile::create(path, existing)?;
        // What is in it are lines: those before a disk was full can be recovered.
        file.holds_rows();
        let text = String::with_capacity(TEXT_LEN + TEXT_LEN / 4);
        Ok(Self { file: Some(file), text, finished: 0 })
    }

    /// With what is held back.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.file.as_ref().map_or(0, OutputFile::written_bytes) + self.text.len() as u64
    }

    /// Writes what is held back, where that is much.
    pub(crate) fn write_if_full(&mut self) -> Result<(), RowsError> {
        if self.text.len() >= TEXT_LEN { self.write_out() } else { Ok(()) }
    }

    /// Writes what is held back.
    pub(crate) fn write_out(&mut self) -> Result<(), RowsError> {
        let Some(file) = self.file.as_mut().filter(|_| !self.text.is_empty()) else {
            return Ok(());
        };
        let written = file.write_all(self.text.as_bytes());
        self.text.clear();
        Ok(written?)
    }

    /// Gives the file its name and begins the next; of a pipe nothing is finished, and `false` is
    /// returned.
    pub(crate) fn reopen(&mut self) -> Result<bool, RowsError> {
        self.write_out()?;
        match self.file.take() {
            Some(file) if file.is_stream() => self.file = Some(file),
            Some(file) => {
                self.file = Some(file.reopen()?.0);
                self.finished += 1;
                return Ok(true);
            }
            None => {}
        }
        Ok(false)
    }

    /// Whether it is a pipe or device.
    pub(crate) fn is_stream(&self) -> bool {
        self.file.as_ref().is_some_and(OutputFile::is_stream)
    }

    pub(crate) fn finish(mut self) -> Result<(), RowsError> {
        self.write_out()?;
        if let Some(file) = self.file {
            file.finish()?;
        }
        Ok(())
    }
}
