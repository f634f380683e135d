//! Reasons of marked packets: with the chunk of their class's priority to a file next to its own.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use super::Recorder;
use super::state::RecorderState;
use super::writer::Writer;
use crate::cause::Cause;
use crate::index::WHY_SUFFIX;
use crate::own::create_own;
use crate::reasons::{Reason, WHY_LEN_MAX, put_names, put_reason, start};

/// Reasons that wait for a chunk at most: those of half a minute.
const WAITING_MAX: usize = 4096;

/// The reasons of a file of the log; not there until there is one.
#[derive(Debug, Default)]
pub(super) struct WhyFile {
    pub(super) file: Option<File>,
    /// Where the next goes.
    pub(super) end: u64,
    /// Columns whose names it has.
    named: Vec<u16>,
}

impl Recorder {
    /// Keeps why a packet is marked, with the packets that its class's priority has next.
    pub fn explain(&mut self, reason: &Reason) {
        let class = usize::from(reason.class).min(self.classes.len());
        let stream = self.stream_of.get(class).copied();
        let Some(stream) = stream.and_then(|index| self.streams.get_mut(index)) else { return };
        if stream.reasons.len() < WAITING_MAX {
            stream.reasons.push(*reason);
        } else {
            RecorderState::add(&self.state.reasons_lost, 1);
        }
    }

    /// No chunk comes any more that reasons could go with.
    pub(super) fn lose_reasons(&mut self) {
        for stream in &mut self.streams {
            RecorderState::add(&self.state.reasons_lost, stream.reasons.len() as u64);
            stream.reasons.clear();
        }
    }
}

impl Writer {
    /// Writes the reasons that came with a chunk; returns their bytes.
    pub(super) fn write_reasons(&mut self, index: usize, reasons: &[Reason]) -> u64 {
        if reasons.is_empty() {
            return 0;
        }
        let (folder, names) = (&self.options.folder, &self.options.columns);
        let series = self.series.get_mut(index);
        let Some(file) = series.and_then(|series| series.open.as_mut()) else {
            RecorderState::add(&self.state.reasons_lost, reasons.len() as u64);
            return 0;
        };
        let why = &mut file.why;
        let named = why.named.len();
        let mut bytes = Vec::new();
        if why.end == 0 {
            start(&mut bytes, names);
        }
        let mut written = 0;
        for reason in reasons {
            let before = bytes.len();
            put_names(&mut bytes, reason, names, &mut why.named);
            put_reason(&mut bytes, reason);
            if why.end + bytes.len() as u64 > WHY_LEN_MAX {
                bytes.truncate(before);
                break;
            }
            written += 1;
        }
        let path = file.name.path(folder, WHY_SUFFIX);
        let access = self.options.access;
        let put = |why: &mut WhyFile| -> io::Result<()> {
            let file = match why.file.take() {
                Some(file) => file,
                None => create_own(&path, access)?,
            };
            let done = file.write_all_at(&bytes, why.end);
            why.file = Some(file);
            done
        };
        let mut len = bytes.len() as u64;
        if let Err(error) = put(why) {
            // The packets are there; the next reasons take the place of what was written of these.
            why.named.truncate(named);
            (written, len) = (0, 0);
            self.state.count_error(Cause::of(&error), format!("{}: {error}", path.display()));
        }
        why.end += len;
        RecorderState::add(&self.state.reasons_written, written);
        RecorderState::add(&self.state.reasons_lost, reasons.len() as u64 - written);
        len
    }
}
