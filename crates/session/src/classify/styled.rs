//! Verdicts as lines of other tools, on their way out.

use std::path::Path;
use std::sync::Arc;

use classify::{Cascade, Verdict};
use packet::Timestamp;

use super::{eve, zeek};
use crate::captures::Captures;
use crate::exports::{Style, TextFile};
use crate::outlet::RowsError;

/// An open output for lines.
pub struct StyledVerdicts {
    style: Style,
    cascade: Arc<Cascade>,
    captures: Captures,
    file: TextFile,
    /// Event time of the last line; nothing before the first.
    latest: Option<Timestamp>,
}

impl StyledVerdicts {
    /// The styles that verdicts can have.
    pub const STYLES: &'static [Style] = &[Style::Eve, Style::Zeek];

    /// Opens the output, before any work is done for it: a file, else standard output.
    ///
    /// # Errors
    /// [`RowsError`]
    pub fn create(
        path: Option<&Path>,
        force: bool,
        style: Style,
        cascade: Arc<Cascade>,
        captures: Captures,
    ) -> Result<Self, RowsError> {
        let file = TextFile::create(path.unwrap_or(Path::new("/dev/stdout")), force)?;
        Ok(Self { style, cascade, captures, file, latest: None })
    }

    /// Writes verdicts, all of them.
    ///
    /// # Errors
    /// [`RowsError`]
    pub fn put(&mut self, verdicts: &[Verdict]) -> Result<(), RowsError> {
        for verdict in verdicts {
            self.begin(verdict.decided);
            let Self { style, cascade, captures, file, .. } = self;
            match style {
                Style::Eve => {
                    eve::push(&mut file.text, cascade, verdict, captures.name(verdict.input));
                }
                _ => zeek::push(&mut file.text, cascade, verdict),
            }
            self.file.write_if_full()?;
        }
        self.write_out()
    }

    fn begin(&mut self, time: Timestamp) {
        if self.latest.is_none() && self.style == Style::Zeek {
            zeek::push_head(&mut self.file.text, time);
        }
        self.latest = self.latest.max(Some(time));
    }

    /// Hands on what is held back.
    ///
    /// # Errors
    /// [`RowsError`]
    pub fn write_out(&mut self) -> Result<(), RowsError> {
        self.file.write_out()
    }

    fn end(&mut self) {
        // A log without a line has a header all the same.
        let time = self.latest.unwrap_or(Timestamp::from_ns(0));
        self.begin(time);
        if self.style == Style::Zeek {
            zeek::push_end(&mut self.file.text, time);
        }
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// [`RowsError`]
    pub fn finish(mut self) -> Result<(), RowsError> {
        self.end();
        self.file.finish()
    }

    /// Finishes a file and goes on in a new one.
    ///
    /// # Errors
    /// [`RowsError`]
    pub fn reopen(mut self) -> Result<Self, RowsError> {
        if self.file.is_stream() {
            return Ok(self);
        }
        self.end();
        self.file.reopen()?;
        Ok(Self { latest: None, ..self })
    }
}
