//! The capture again, with each verdict as a comment on the packet that decided.
//!
//! A verdict may come long after that packet, so the capture is read twice. In between, verdicts
//! wait in memory: some 120 bytes a flow.

use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use classify::{Cascade, Verdict};
use engine::flow::FlowClock;
use packet::file::Interface;
use packet::{FlowKey, Source as _, Timestamp};
use session::copied::CaptureBuffer;
use session::reading::{Inputs, OpenSources};
use sink::{Existing, OutputFile, WriteError};

use super::args::ClassifyArguments;
use crate::failure::Failure;

/// What is to be written when all verdicts are there.
pub(super) struct CommentedCapture {
    path: PathBuf,
    file: OutputFile,
    kept: VerdictBuffer,
}

/// Verdicts that wait for the second reading.
#[derive(Clone, Default)]
pub(super) struct VerdictBuffer(Arc<Mutex<Vec<Verdict>>>);

impl VerdictBuffer {
    /// Remembers verdicts.
    pub(super) fn put(&self, verdicts: &[Verdict]) {
        self.lock().extend_from_slice(verdicts);
    }

    /// All of them, by the packet that decided.
    fn in_order(&self) -> Vec<Verdict> {
        let mut verdicts = mem::take(&mut *self.lock());
        verdicts.sort_by_key(place);
        verdicts
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Verdict>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What identifies a packet in two readings of a capture.
type Place = (Timestamp, FlowKey);

fn place(verdict: &Verdict) -> Place {
    (verdict.deciding, verdict.key)
}

impl CommentedCapture {
    /// Opens the output, before any work is done for it.
    pub(super) fn create(arguments: &ClassifyArguments, path: &Path) -> Result<Self, Failure> {
        if arguments.input.read.iter().any(|name| name.as_os_str() == "-") {
            return Err(Failure::usage(
                "--pcapng: the capture is read twice, and standard input can be read only once; \
                 give a file",
            ));
        }
        let existing = if arguments.output.force { Existing::Replace } else { Existing::Refuse };
        let file = OutputFile::create(path, existing)?;
        Ok(Self { path: path.to_owned(), file, kept: VerdictBuffer::default() })
    }

    /// Where verdicts are remembered until then.
    pub(super) fn kept(&self) -> VerdictBuffer {
        self.kept.clone()
    }

    /// Reads the captures again and writes their first `frame_count` frames.
    pub(super) fn finish(
        mut self,
        inputs: &Inputs,
        cascade: &Cascade,
        frame_count: u64,
    ) -> Result<(), Failure> {
        if inputs.control.is_stopped() {
            return Err(Failure::error(format_args!(
                "{}: not written, since reading was interrupted",
                self.path.display()
            )));
        }
        let mut verdicts = self.kept.in_order();
        inputs.options.progress.restart();
        let mut source = inputs.in_order(OpenSources::Files(inputs.open()?));
        let _bar = inputs.bar();
        let idle = cascade.flows().idle;
        let mut clock = FlowClock::new(idle, None);
        let mut copy = CaptureBuffer::new();
        let (mut left, mut next) = (frame_count, 0);
        while let Some(batch) = source.next_batch() {
            for frame in batch.frames() {
                if left == 0 {
                    break;
                }
                left -= 1;
                let (time, _) = clock.on_packet(frame.record.timestamp);
                let key = FlowKey::from_frame(&frame).map(|(key, _)| key);
                let found = key.and_then(|key| take(&mut verdicts, &mut next, (time, key)));
                let comment = found.map(|verdict| comment(cascade, &verdict));
                // An interface for each link type.
                let record = frame.record;
                let interface = Interface { link: record.link, ..Interface::default() };
                let of_link = (record.link.0, &interface);
                copy.frame(of_link, record, frame.bytes, comment.as_deref())
                    .map_err(Failure::error)?;
            }
            if copy.is_full() {
                copy.write(&mut self.file).map_err(WriteError::Io)?;
            }
            if left == 0 {
                break;
            }
        }
        copy.write(&mut self.file).map_err(WriteError::Io)?;
        self.file.finish()?;
        let missing = verdicts.len().saturating_sub(next);
        if missing > 0 {
            return Err(Failure::error(format_args!(
                "{}: {missing} verdicts found no packet when the capture was read again; was it \
                 changed in between?",
                self.path.display()
            )));
        }
        Ok(())
    }
}

/// The first verdict of this packet that was not taken; `taken` counts those that were. Flows of
/// one key with one stamp stand side by side, and each is taken once.
fn take(verdicts: &mut [Verdict], taken: &mut usize, wanted: Place) -> Option<Verdict> {
    let mut at = verdicts.partition_point(|verdict| place(verdict) < wanted);
    loop {
        let verdict = verdicts.get_mut(at).filter(|verdict| place(verdict) == wanted)?;
        if verdict.packets_used > 0 {
            let found = *verdict;
            verdict.packets_used = 0;
            *taken += 1;
            return Some(found);
        }
        at += 1;
    }
}

fn comment(cascade: &Cascade, verdict: &Verdict) -> String {
    let plural = if verdict.packets_used == 1 { "" } else { "s" };
    format!(
        "wirelens: {} {:.3} ({}, {} packet{plural}, {}) {}",
        verdict.label.name(cascade),
        verdict.confidence,
        verdict.stage_name(),
        verdict.packets_used,
        verdict.cause.name(),
        cascade.id()
    )
}
