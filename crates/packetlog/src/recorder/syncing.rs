//! Complete files go down to the disk on a thread of their own, and the ledger says so of each. A
//! power cut can then explain missing packets of the last files alone, not of all that a recorder
//! ever wrote. With `sync`, chunks are on the disk already.
//!
//! The ledger knows which files are not there yet, so nothing else has to: as many of them as find
//! a place wait for the thread, and the writer passes through the rest as places become free.
//!
//! Each is asked for by the descriptor that wrote it: the kernel says an error of writing back
//! once, and to those who had the file open then. A file that is opened again, because many wait or
//! another recorder wrote it, hears of it only while the kernel remembers the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::disk::SyncFile;
use super::state::RecorderState;
use super::writer::Writer;
use crate::cause::Cause;
use crate::file_name::FileName;
use crate::index::{COMPRESSED_SUFFIX, FILE_SUFFIX, INDEX_SUFFIX, KEYS_SUFFIX, WHY_SUFFIX};
use crate::ledger::Entry;
use crate::own::open_own;

/// Files that may wait, and that are kept open until then.
const QUEUE_LEN: usize = 256;

/// A complete file, and what its packets were written by if it is still open.
type Complete = (FileName, Weak<File>);

/// The thread. It ends by itself once this is dropped, or never if the disk never answers.
#[derive(Debug)]
pub(super) struct Syncer {
    files: SyncSender<Complete>,
    outcomes: Receiver<(FileName, Result<(), SyncError>)>,
    /// Files that were handed over, and whose outcome has not come.
    waiting: BTreeSet<String>,
    /// Complete files by what wrote them, until there is an outcome or they are deleted, so that
    /// the disk gets their room back.
    written: BTreeMap<String, Arc<File>>,
    /// From this name on there may be files that are still to be handed over.
    rest: Option<String>,
    /// The file that the thread has at hand.
    at_hand: Arc<Mutex<Option<String>>>,
}

/// Why the disk may not have a file.
#[derive(Debug)]
struct SyncError {
    /// The file, its index, or another that belongs to it.
    path: PathBuf,
    error: io::Error,
    /// The disk did not take packets; an index can be made again.
    loses_packets: bool,
    /// Asked again, the disk would say that it has what it has not.
    is_final: bool,
}

impl SyncError {
    fn is_missing(&self) -> bool {
        self.error.kind() == io::ErrorKind::NotFound
    }
}

impl Syncer {
    /// Starts the thread. Files of earlier recorders may not be on the disk yet either.
    pub(super) fn start(folder: &Path, sync: SyncFile) -> io::Result<Self> {
        let (files, received) = sync_channel(QUEUE_LEN);
        let (done, outcomes) = channel();
        let folder = folder.to_owned();
        let at_hand: Arc<Mutex<Option<String>>> = Arc::default();
        let at_work = Arc::clone(&at_hand);
        let put = move |file| *at_work.lock().unwrap_or_else(PoisonError::into_inner) = file;
        std::thread::Builder::new()
            .name("packetlog-sync".into())
            .spawn(move || run(&folder, &received, &done, sync, put))?;
        let (waiting, written) = (BTreeSet::new(), BTreeMap::new());
        Ok(Self { files, outcomes, waiting, written, rest: Some(String::new()), at_hand })
    }

    /// A file is complete.
    pub(super) fn complete(&mut self, file: String, written: Arc<File>) {
        if self.written.len() < QUEUE_LEN {
            self.written.insert(file.clone(), written);
        }
        self.look_from(file);
    }

    /// A file is deleted.
    pub(super) fn forget(&mut self, file: &str) {
        self.written.remove(file);
    }

    /// Files from this name on are still to be handed over.
    fn look_from(&mut self, file: String) {
        self.rest = Some(self.rest.take().map_or(file.clone(), |rest| rest.min(file)));
    }
}

fn run(
    folder: &Path,
    files: &Receiver<Complete>,
    done: &Sender<(FileName, Result<(), SyncError>)>,
    mut sync: SyncFile,
    put_at_hand: impl Fn(Option<String>),
) {
    while let Ok((name, written)) = files.recv() {
        put_at_hand(Some(name.stem()));
        let outcome = sync_file(folder, &name, written.upgrade().as_deref(), &mut sync);
        drop(written);
        if done.send((name, outcome)).is_err() {
            return;
        }
    }
}

fn sync_file(
    folder: &Path,
    name: &FileName,
    written: Option<&File>,
    sync: &mut SyncFile,
) -> Result<(), SyncError> {
    let wrong = |suffix, loses_packets| {
        let path = name.path(folder, suffix);
        move |error| SyncError { path, error, loses_packets, is_final: loses_packets }
    };
    if let Some(file) = written {
        sync(file).map_err(wrong(FILE_SUFFIX, true))?;
    }
    let mut sync = |suffix: &'static str, has_packets: bool| {
        let file = open_own(&name.path(folder, suffix)).map_err(wrong(suffix, false))?;
        if written.is_some() && suffix == FILE_SUFFIX {
            return Ok(());
        }
        sync(&file).map_err(wrong(suffix, has_packets))
    };
    let mut synced = sync(FILE_SUFFIX, true);
    if synced.as_ref().is_err_and(SyncError::is_missing) {
        // Compressed meanwhile, it is there under its other name.
        synced = sync(COMPRESSED_SUFFIX, true);
    }
    synced?;
    for suffix in [INDEX_SUFFIX, KEYS_SUFFIX, WHY_SUFFIX] {
        // Not each file has reasons.
        sync(suffix, false)
            .or_else(|error| if error.is_missing() { Ok(()) } else { Err(error) })?;
    }
    // Its name may be lost, and with it all of the file.
    let wrong = |error| {
        let path = folder.to_owned();
        SyncError { path, error, loses_packets: false, is_final: true }
    };
    files::sync_folder(folder).map_err(wrong)
}

impl Writer {
    /// Hands over complete files that the disk may not have, as many as find a place.
    pub(super) fn offer_unsynced(&mut self) {
        let Some(from) = self.syncer.rest.take() else { return };
        let open = self.series.iter().filter_map(|series| series.open.as_ref());
        let open: Vec<String> = open.map(|file| file.name.stem()).collect();
        for (stem, file) in self.ledger.state().files.range(from..) {
            let is_over = file.is_synced() || file.has_failed;
            if is_over || open.contains(stem) || self.syncer.waiting.contains(stem) {
                continue;
            }
            let Some(name) = FileName::parse(stem) else { continue };
            let written = self.syncer.written.get(stem).map(Arc::downgrade);
            if self.syncer.files.try_send((name, written.unwrap_or_default())).is_err() {
                self.syncer.rest = Some(stem.clone());
                return;
            }
            self.syncer.waiting.insert(stem.clone());
        }
    }

    /// Records which files the disk has, and hands over others.
    pub(super) fn note_synced(&mut self) {
        while let Ok((name, outcome)) = self.syncer.outcomes.try_recv() {
            self.record_outcome(&name, outcome);
        }
        self.offer_unsynced();
    }

    /// Waits for the files that the disk may not have, as long as the options say.
    pub(super) fn sync_rest(&mut self) {
        let begun = (self.clock)();
        // What could not be opened before may be there by now.
        self.syncer.look_from(String::new());
        loop {
            self.note_synced();
            let waited = (self.clock)().saturating_sub(begun);
            let left = self.options.sync_wait.saturating_sub(waited);
            if self.syncer.waiting.is_empty() || left.is_zero() {
                break;
            }
            let Ok((name, outcome)) = self.syncer.outcomes.recv_timeout(left) else { break };
            self.record_outcome(&name, outcome);
        }
        let at_hand = Arc::clone(&self.syncer.at_hand);
        let at_hand = at_hand.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Of its outcome nothing is heard any more, so that an error of it would be none.
        if let Some(file) = at_hand.filter(|file| self.syncer.waiting.contains(file)) {
            self.record(&Entry::Unsynced { file, cause: String::from("timeout") });
        }
    }

    /// Counts the files that the disk may not have.
    pub(super) fn count_unsynced(&mut self) -> u64 {
        let files = self.ledger.state().files.values();
        let unsynced = files.filter(|file| !file.is_synced()).count() as u64;
        RecorderState::set(&self.state.files_unsynced, unsynced);
        unsynced
    }

    fn record_outcome(&mut self, name: &FileName, outcome: Result<(), SyncError>) {
        let file = name.stem();
        self.syncer.waiting.remove(&file);
        self.syncer.written.remove(&file);
        // One that was deleted meanwhile is none any more.
        if self.ledger.state().files.get(&file).is_none_or(|file| file.is_synced()) {
            return;
        }
        match outcome {
            Ok(()) => self.record(&Entry::Synced { file }),
            // Another program deleted it, as is noticed at the end or when there is to be room.
            Err(error) if error.is_missing() => {}
            Err(SyncError { path, error, loses_packets, is_final }) => {
                let cause = Cause::of(&error);
                let text = format!("synchronising {}: {error}", path.display());
                self.state.count_error(cause, text);
                if is_final {
                    self.record(&Entry::Unsynced { file, cause: cause.name().to_owned() });
                }
                if loses_packets {
                    self.lose_closed(name, cause);
                }
            }
        }
    }

    /// Packets that the cache could not get rid of are lost: the disk keeps of them what it has.
    fn lose_closed(&mut self, name: &FileName, cause: Cause) {
        let mut closed = self.series.iter_mut().flat_map(|series| &mut series.closed);
        let file = closed.find(|file| file.is_own && file.name == *name);
        let rows = file.map(|file| std::mem::take(&mut file.rows)).unwrap_or_default();
        self.lose_file(cause, &rows);
    }
}
