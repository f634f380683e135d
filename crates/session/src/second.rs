//! Captures of a second tap, which an application reads in addition to those of its pass, up to the
//! same time.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use capture::{Input, OpenError};
use engine::run::Control;
use packet::{Batch, Record, Source as _, Span, Timestamp};

use crate::application::{Refusal, Site};
use crate::reading::{
    InOrder, InputError, InputRequest, Inputs, OpenSources, ReceiveOutcome, is_same_file,
};

/// Captures that are read as far as is needed.
pub(crate) struct Second {
    inputs: Inputs,
    source: InOrder,
    /// Stamps are later by this than the captures have them.
    shift: Span,
    has_ended: bool,
    shifted: Vec<Record>,
}

impl Second {
    /// Opens captures whose stamps are later by `shift` than they have them.
    ///
    /// # Errors
    /// [`InputError`]: a capture that cannot be read.
    pub(crate) fn open(inputs: Inputs, shift: Span) -> Result<Self, InputError> {
        let opened = OpenSources::Files(inputs.open()?);
        let source = inputs.in_order(opened);
        Ok(Self { inputs, source, shift, has_ended: false, shifted: Vec::new() })
    }

    /// Lends the next batch; `false` where there is nothing more to read.
    pub(crate) fn next(&mut self, take: impl FnOnce(&Batch<'_>)) -> bool {
        if self.has_ended || self.is_stopped() {
            return false;
        }
        let Some(batch) = self.source.next_batch() else {
            self.has_ended = true;
            return false;
        };
        if self.shift == Span::default() {
            take(&batch);
            return true;
        }
        self.shifted.clear();
        self.shifted.extend(batch.records.iter().map(|record| Record {
            timestamp: if record.timestamp == Timestamp::UNKNOWN {
                record.timestamp
            } else {
                record.timestamp.plus(self.shift)
            },
            ..*record
        }));
        take(&Batch { records: &self.shifted, ..batch });
        true
    }

    /// Whether all was read.
    pub(crate) const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether the run is to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.inputs.control.is_stopped()
    }

    /// What was read, and its outcome before.
    pub(crate) fn finish(self) -> (Inputs, ReceiveOutcome) {
        (self.inputs, self.source.received())
    }
}

fn refuse(message: impl std::fmt::Display) -> Refusal {
    Refusal::of("egress", message)
}

/// The request for a second tap: as that for the first, of other captures.
pub fn behind(before: &InputRequest, egress: &[PathBuf]) -> InputRequest {
    InputRequest { names: egress.to_vec(), ..before.clone() }
}

/// Finds the captures of the second tap, none of which is read at the first one as well.
pub(crate) fn find(egress: &[PathBuf], site: &Site<'_>) -> Result<Vec<PathBuf>, Refusal> {
    let upstream = site.input.map(|input| input.read.as_slice()).unwrap_or_default();
    find_beside(egress, upstream)
}

/// The same together with these captures.
pub(crate) fn find_beside(
    egress: &[PathBuf],
    upstream: &[PathBuf],
) -> Result<Vec<PathBuf>, Refusal> {
    let is_pipe = |name: &PathBuf| name.as_os_str() == "-";
    if egress.iter().chain(upstream).filter(|name| is_pipe(name)).count() > 1 {
        return Err(refuse("standard input can be read only once"));
    }
    let request = InputRequest { names: egress.to_vec(), ..InputRequest::default() };
    let found = Inputs::find(&request, true, Arc::new(Control::default())).map_err(explained)?;
    if !egress.iter().any(is_pipe) {
        // What is no capture says so now; it is opened again once nothing refuses the run.
        found.open().map_err(explained)?;
    }
    let reads: Vec<PathBuf> = found.resolved.inputs.into_iter().filter_map(path).collect();
    // Upstream captures that cannot be found are a mistake of their own.
    let before = capture::input::resolve(upstream).unwrap_or_default();
    for read in before.inputs.into_iter().filter_map(path) {
        if reads.iter().any(|other| is_same_file(other, &read)) {
            return Err(refuse(format_args!(
                "{} is read upstream of the queue as well, by [input]; wanted: what was captured \
                 downstream of it",
                read.display()
            )));
        }
    }
    Ok(reads)
}

fn path(input: Input) -> Option<PathBuf> {
    match input {
        Input::Stdin => None,
        Input::File(path) => Some(path),
    }
}

/// Why captures of the second tap cannot be read.
pub(crate) fn explained(error: InputError) -> Refusal {
    match &error {
        InputError::Open(OpenError::NotFound(path)) if is_interface(path) => refuse(format_args!(
            "{} is an interface, and [input] reads captures; wanted: captures for both taps, \
                 or interfaces for both",
            path.display()
        )),
        _ => refuse(error),
    }
}

/// Whether a name is that of an interface here, which a user of captures may have meant.
pub(crate) fn is_interface(name: &Path) -> bool {
    let Ok(devices) = capture::devices::list() else { return false };
    name.to_str().is_some_and(|name| devices.iter().any(|device| device.name == name))
}
