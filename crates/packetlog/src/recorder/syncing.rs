//! Closed files go down to the disk on a thread of their own, and the ledger says so of each. A
//! power cut can then explain missing packets of the last files alone, not of all that a recorder
//! ever wrote. With `sync`, chunks are on the disk already.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::writer::Writer;
use crate::cause::Cause;
use crate::file_name::FileName;
use crate::index::{COMPRESSED_SUFFIX, FILE_SUFFIX, INDEX_SUFFIX, KEYS_SUFFIX, WHY_SUFFIX};
use crate::ledger::Entry;
use crate::own::open_own;

/// Files that may wait. One that finds no place is not recorded as being on the disk, so that the
/// next start after a power cut reads it.
const QUEUE_LEN: usize = 256;

/// The thread, and what it has done.
#[derive(Debug)]
pub(super) struct Syncer {
    names: Option<SyncSender<FileName>>,
    done: Arc<Mutex<Vec<FileName>>>,
    thread: Option<JoinHandle<()>>,
}

impl Syncer {
    pub(super) fn start(folder: &Path) -> io::Result<Self> {
        let (names, received) = sync_channel(QUEUE_LEN);
        let done: Arc<Mutex<Vec<FileName>>> = Arc::default();
        let (folder, thread_done) = (folder.to_owned(), Arc::clone(&done));
        let thread = std::thread::Builder::new()
            .name("packetlog-sync".into())
            .spawn(move || run(&folder, &received, &thread_done))?;
        Ok(Self { names: Some(names), done, thread: Some(thread) })
    }

    /// Hands a closed file over.
    pub(super) fn offer(&self, name: &FileName) {
        if let Some(names) = &self.names {
            let _ = names.try_send(name.clone());
        }
    }

    /// Files that the disk has since this was last asked.
    fn take_done(&self) -> Vec<FileName> {
        std::mem::take(&mut *self.done.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the thread after all files that wait for it.
    pub(super) fn finish(&mut self) {
        self.names = None;
        if let Some(thread) = self.thread.take() {
            // Its panic would have lost nothing but the records of what it did.
            let _ = thread.join();
        }
    }
}

fn run(folder: &Path, names: &Receiver<FileName>, done: &Mutex<Vec<FileName>>) {
    while let Ok(name) = names.recv() {
        if sync_file(folder, &name).is_ok() {
            done.lock().unwrap_or_else(PoisonError::into_inner).push(name);
        }
    }
}

fn sync_file(folder: &Path, name: &FileName) -> io::Result<()> {
    let sync = |path: &PathBuf| open_own(path)?.sync_data();
    let [plain, compressed] =
        [FILE_SUFFIX, COMPRESSED_SUFFIX].map(|suffix| name.path(folder, suffix));
    // Compressed meanwhile, it is there under its other name.
    let synced = sync(&plain).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => sync(&compressed),
        _ => Err(error),
    });
    synced?;
    for suffix in [INDEX_SUFFIX, KEYS_SUFFIX, WHY_SUFFIX] {
        match sync(&name.path(folder, suffix)) {
            // Not each file has reasons.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    files::sync_folder(folder)
}

impl Writer {
    /// What is kept is on the disk when the recorder ends: what a cache could not get rid of is
    /// lost, and counted.
    pub(super) fn synchronise(&mut self, index: usize) {
        let file = self.series.get_mut(index).and_then(|series| series.open.as_mut());
        let Some(file) = file.filter(|file| !file.is_gone()) else { return };
        if let Err(error) = file.data.sync_data() {
            let rows = std::mem::take(&mut file.rows);
            let path = file.name.path(&self.options.folder, FILE_SUFFIX);
            self.state.count_error(Cause::of(&error), format!("{}: {error}", path.display()));
            self.lose_file(Cause::of(&error), &rows);
        }
    }

    /// Files of earlier recorders may not be on the disk yet.
    pub(super) fn sync_earlier(&mut self) {
        let files = &self.ledger.state().files;
        let unsynced = files.iter().filter(|(_, file)| !file.is_synced());
        for name in unsynced.filter_map(|(name, _)| FileName::parse(name)) {
            self.syncer.offer(&name);
        }
    }

    /// Records which files the disk has.
    pub(super) fn record_synced(&mut self) {
        for name in self.syncer.take_done() {
            let file = name.stem();
            // One that was deleted meanwhile is none any more.
            if self.ledger.state().files.get(&file).is_some_and(|file| !file.is_synced()) {
                self.record(&Entry::Synced { file });
            }
        }
    }
}
