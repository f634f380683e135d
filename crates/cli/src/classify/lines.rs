//! Verdicts as lines of other tools, on their way out.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;

use classify::{Cascade, Verdict};
use packet::Timestamp;
use session::captures::Captures;
use sink::{Existing, OutputFile, WriteError};

use super::args::ClassifyOutputArguments;
use super::{eve, zeek};
use crate::failure::Failure;
use crate::live::Held;

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
    fn write(&mut self, text: &str) -> Result<(), Failure> {
        let written = match self {
            Self::File(file) => file.write_all(text.as_bytes()),
            Self::Stdout(file) => file.write_all(text.as_bytes()),
        };
        Ok(written.map_err(WriteError::Io)?)
    }
}

impl Lines {
    /// Opens the output, before any work is done for it.
    pub(super) fn create(
        arguments: &ClassifyOutputArguments,
        style: Style,
    ) -> Result<Self, Failure> {
        let existing = if arguments.force { Existing::Replace } else { Existing::Refuse };
        let out = match &arguments.output {
            Some(path) => Output::File(OutputFile::create(path, existing)?),
            None => Output::Stdout(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
        };
        Ok(Self { style, out, text: String::with_capacity(TEXT_LEN * 2), latest: None })
    }

    /// Writes verdicts, all of them.
    pub(super) fn put(
        &mut self,
        cascade: &Cascade,
        captures: &Captures,
        verdicts: &[Verdict],
    ) -> Result<(), Failure> {
        for verdict in verdicts {
            self.begin(verdict.decided);
            match self.style {
                Style::Eve => {
                    let capture = captures.name(verdict.input);
                    eve::push(&mut self.text, cascade, verdict, capture);
                }
                Style::Zeek => zeek::push(&mut self.text, cascade, verdict),
            }
            if self.text.len() >= TEXT_LEN {
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

    fn write_out(&mut self) -> Result<(), Failure> {
        if self.text.is_empty() {
            return Ok(());
        }
        let written = self.out.write(&self.text);
        self.text.clear();
        written
    }

    fn end(&mut self) -> Result<(), Failure> {
        // A log without a line has a header all the same.
        let time = self.latest.unwrap_or(Timestamp::from_ns(0));
        self.begin(time);
        if self.style == Style::Zeek {
            zeek::push_end(&mut self.text, time);
        }
        self.write_out()
    }

    /// Gives the file its name.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.end()?;
        match self.out {
            Output::File(file) => {
                file.finish()?;
            }
            Output::Stdout(mut file) => file.flush()?,
        }
        Ok(())
    }
}

impl Held for Lines {
    fn reopen(mut self) -> Result<Self, Failure> {
        let Output::File(_) = self.out else { return Ok(self) };
        self.end()?;
        if let Output::File(file) = self.out {
            let (file, _) = file.reopen()?;
            self.out = Output::File(file);
        }
        Ok(Self { latest: None, ..self })
    }

    fn flush_held(&mut self) -> Result<(), Failure> {
        self.write_out()
    }
}
