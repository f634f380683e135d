//! Verdicts as lines of other tools, on their way out.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::sync::Arc;

use classify::{Cascade, Verdict};
use packet::Timestamp;
use session::captures::Captures;
use session::classify::{eve, zeek};
use session::outlet::RowsError;
use sink::{Existing, OutputFile};

use super::args::ClassifyOutputArguments;

use crate::failure::Failure;

/// Text gathered before it is written.
const TEXT_LEN: usize = 256 * 1024;

/// Whose lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Style {
    /// Suricata's events.
    Eve,
    /// Zeek's logs.
    Zeek,
}

/// An open output for lines.
pub(super) struct Lines {
    style: Style,
    cascade: Arc<Cascade>,
    captures: Captures,
    out: Output,
    text: String,
    /// Event time of the last line; nothing before the first.
    latest: Option<Timestamp>,
}

enum Output {
    File(OutputFile),
    Stdout(File),
}

impl Output {
    fn write(&mut self, text: &str) -> io::Result<()> {
        match self {
            Self::File(file) => file.write_all(text.as_bytes()),
            Self::Stdout(file) => file.write_all(text.as_bytes()),
        }
    }
}

impl Lines {
    /// Opens the output, before any work is done for it.
    pub(super) fn create(
        arguments: &ClassifyOutputArguments,
        style: Style,
        cascade: Arc<Cascade>,
        captures: Captures,
    ) -> Result<Self, Failure> {
        let existing = if arguments.force { Existing::Replace } else { Existing::Refuse };
        let out = match &arguments.output {
            Some(path) => Output::File(OutputFile::create(path, existing)?),
            None => Output::Stdout(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
        };
        let text = String::with_capacity(TEXT_LEN * 2);
        Ok(Self { style, cascade, captures, out, text, latest: None })
    }

    /// Writes verdicts, all of them.
    pub(super) fn put(&mut self, verdicts: &[Verdict]) -> Result<(), RowsError> {
        for verdict in verdicts {
            self.begin(verdict.decided);
            let Self { style, cascade, captures, text, .. } = self;
            match style {
                Style::Eve => eve::push(text, cascade, verdict, captures.name(verdict.input)),
                Style::Zeek => zeek::push(text, cascade, verdict),
            }
            if text.len() >= TEXT_LEN {
                self.write_out()?;
            }
        }
        self.write_out()
    }

    fn begin(&mut self, time: Timestamp) {
        if self.latest.is_none() && self.style == Style::Zeek {
            zeek::push_head(&mut self.text, time);
        }
        self.latest = self.latest.max(Some(time));
    }

    /// Hands on what is held back.
    pub(super) fn write_out(&mut self) -> Result<(), RowsError> {
        if self.text.is_empty() {
            return Ok(());
        }
        let written = self.out.write(&self.text);
        self.text.clear();
        Ok(written?)
    }

    fn end(&mut self) -> Result<(), RowsError> {
        // A log without a line has a header all the same.
        let time = self.latest.unwrap_or(Timestamp::from_ns(0));
        self.begin(time);
        if self.style == Style::Zeek {
            zeek::push_end(&mut self.text, time);
        }
        self.write_out()
    }

    /// Gives the file its name.
    pub(super) fn finish(mut self) -> Result<(), RowsError> {
        self.end()?;
        match self.out {
            Output::File(file) => {
                file.finish()?;
            }
            Output::Stdout(mut file) => file.flush()?,
        }
        Ok(())
    }

    /// Finishes a file and goes on in a new one.
    pub(super) fn reopen(mut self) -> Result<Self, RowsError> {
        let Output::File(_) = self.out else { return Ok(self) };
        self.end()?;
        if let Output::File(file) = self.out {
            let (file, _) = file.reopen()?;
            self.out = Output::File(file);
        }
        Ok(Self { latest: None, ..self })
    }
}
