//! The thread that writes: notes become records and entries of a journal.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use l4s::journal;
use l4s::trace::MAGIC;

use super::follow::{Following, TraceSummary};
use super::{BATCHES_MAX, Note, Teller, TraceSettings};
use crate::TestbedError;

/// What was written.
#[derive(Clone, Debug)]
pub struct TraceReport {
    /// Records of packets, and what is known of their flows.
    pub followed: TraceSummary,
    /// Entries of the journal.
    pub entries: u64,
    /// Notes that were lost because the writer fell behind.
    pub lost: u64,
}

/// The thread that writes, until [`Self::end`].
#[derive(Debug)]
pub struct Writing {
    thread: JoinHandle<Result<(TraceSummary, u64), TestbedError>>,
}

impl Writing {
    /// Begins the files that are asked for, and returns where notes go; nowhere without a file.
    pub(crate) fn begin(settings: &TraceSettings) -> Result<(Teller, Option<Self>), TestbedError> {
        if settings.trace.is_none() && settings.journal.is_none() {
            return Ok((Teller::silent(), None));
        }
        let mut trace = settings.trace.as_deref().map(Growing::create).transpose()?;
        if let Some(file) = &mut trace {
            file.write(&MAGIC)?;
        }
        let journal = settings.journal.as_deref().map(Growing::create).transpose()?;
        let following = Following::new(settings.senders.clone(), settings.receivers.clone());
        let (full, to_write) = sync_channel(BATCHES_MAX);
        let (used, to_use) = channel();
        let writer = Writer { trace, journal, following, entries: 0 };
        let thread = thread::Builder::new()
            .name(String::from("trace"))
            .spawn(move || writer.run(&to_write, &used))
            .map_err(TestbedError::Wait)?;
        Ok((Teller::to(full, to_use), Some(Self { thread })))
    }

    /// Waits until all is written.
    pub(crate) fn end(self, teller: Teller) -> Result<TraceReport, TestbedError> {
        let lost = teller.end();
        let ended = self.thread.join().unwrap_or_else(|_| {
            Err(TestbedError::Wait(io::Error::other("the thread that writes traces has ended")))
        });
        let (followed, entries) = ended?;
        Ok(TraceReport { followed, entries, lost })
    }
}

struct Writer {
    trace: Option<Growing>,
    journal: Option<Growing>,
    following: Following,
    entries: u64,
}

impl Writer {
    fn run(
        mut self,
        to_write: &Receiver<Vec<Note>>,
        used: &Sender<Vec<Note>>,
    ) -> Result<(TraceSummary, u64), TestbedError> {
        for mut batch in to_write {
            for note in batch.drain(..) {
                self.enter(&note)?;
                self.following.note(&note);
            }
            self.write_records(false)?;
            // Where nobody takes it any more, nothing follows.
            let _ = used.send(batch);
        }
        self.write_records(true)?;
        for file in [self.trace, self.journal].into_iter().flatten() {
            file.finish()?;
        }
        Ok((self.following.end(), self.entries))
    }

    fn enter(&mut self, note: &Note) -> Result<(), TestbedError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let entry = match note {
            Note::Arrived { arrival, entered, .. } => journal::arrived(arrival, *entered),
            Note::Left { at_ns, left } => journal::left(*at_ns, left.as_ref()),
            Note::Delivered { .. } | Note::Acknowledged { .. } => return Ok(()),
        };
        self.entries += 1;
        journal.write(&entry)
    }

    fn write_records(&mut self, is_end: bool) -> Result<(), TestbedError> {
        while let Some(record) = self.following.next_done(is_end) {
            if let Some(trace) = &mut self.trace {
                trace.write(&record.to_bytes())?;
            }
        }
        Ok(())
    }
}

/// A file that grows under another name.
struct Growing {
    path: PathBuf,
    partial: PathBuf,
    file: BufWriter<File>,
}

impl Growing {
    fn create(path: &Path) -> Result<Self, TestbedError> {
        let refused = |error| TestbedError::File { path: path.to_owned(), error };
        if path.try_exists().map_err(refused)? {
            return Err(refused(io::ErrorKind::AlreadyExists.into()));
        }
        let mut partial = OsString::from(path);
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file = BufWriter::with_capacity(1 << 20, File::create(&partial).map_err(refused)?);
        Ok(Self { path: path.to_owned(), partial, file })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), TestbedError> {
        let written = self.file.write_all(bytes);
        written.map_err(|error| TestbedError::File { path: self.path.clone(), error })
    }

    fn finish(mut self) -> Result<(), TestbedError> {
        let done = self.file.flush().and_then(|()| fs::rename(&self.partial, &self.path));
        done.map_err(|error| TestbedError::File { path: self.path, error })
    }
}
