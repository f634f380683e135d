//! Closed files become smaller, each chunk for itself, so that one can be read without the others.

use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::error::LogError;
use super::file::LogFile;
use super::recover::replace;
use crate::file_name::{FileName, Replacing, file_names};
use crate::index::{COMPRESSED_SUFFIX, FILE_SUFFIX, INDEX_SUFFIX, IndexRecord};

/// Files that may wait for the thread; what is beyond stays plain until a command compresses it.
const QUEUE_LEN: usize = 64;
/// Bytes of what is no chunk that become one frame.
const PIECE_LEN: u64 = 1 << 20;

/// What compressing brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CompressionReport {
    /// Files compressed.
    pub file_count: u64,
    /// Their bytes before.
    pub bytes_before: u64,
    /// Their bytes after.
    pub bytes_after: u64,
}

/// Compresses the plain files of a log, but not the newest of each priority where
/// `keeps_newest`, which a recorder may be writing to.
///
/// # Errors
/// A file cannot be read or written; what was compressed before it stays so.
pub fn compress(
    folder: &Path,
    level: i32,
    keeps_newest: bool,
) -> Result<CompressionReport, LogError> {
    let names = file_names(folder).map_err(|error| LogError::new(folder, error))?;
    let mut compressed = CompressionReport::default();
    for (index, name) in names.iter().enumerate() {
        let next = names.get(index + 1);
        let is_newest = next.is_none_or(|next| next.priority != name.priority);
        if !name.path(folder, FILE_SUFFIX).exists() || (keeps_newest && is_newest) {
            continue;
        }
        let replacing = Replacing::default();
        let (before, after) = one(folder, name, level, &replacing, &AtomicBool::new(false))?;
        compressed.file_count += u64::from(after < before);
        compressed.bytes_before += before;
        compressed.bytes_after += after;
    }
    Ok(compressed)
}

/// Compresses one file: written next to it, renamed when complete, the plain one deleted last.
/// Returns its bytes before and after, which are the same where it was given up or not smaller.
fn one(
    folder: &Path,
    name: &FileName,
    level: i32,
    replacing: &Replacing,
    stop: &AtomicBool,
) -> Result<(u64, u64), LogError> {
    let file = LogFile::open(folder, name)?;
    let partial = name.path(folder, &format!("{COMPRESSED_SUFFIX}.partial"));
    let packed = pack(&file, &partial, level, stop);
    let given_up = |error| {
        let _ = std::fs::remove_file(&partial);
        LogError::new(&partial, error)
    };
    // Compact blocks of few packets may not become smaller; such a file stays plain.
    let Some((records, after)) = packed.map_err(given_up)?.filter(|(_, after)| *after < file.len)
    else {
        let _ = std::fs::remove_file(&partial);
        return Ok((file.len, file.len));
    };
    let plain = name.path(folder, FILE_SUFFIX);
    let target = name.path(folder, COMPRESSED_SUFFIX);
    let _held = replacing.lock();
    if !plain.exists() {
        // Deleted meanwhile, to make room.
        let _ = std::fs::remove_file(&partial);
        return Ok((file.len, file.len));
    }
    let mut index = Vec::new();
    for record in &records {
        record.put(&mut index);
    }
    // The plain file goes only once the disk has the name of the other.
    std::fs::rename(&partial, &target)
        .and_then(|()| files::sync_folder(folder))
        .and_then(|()| replace(folder, name, INDEX_SUFFIX, &index))
        .and_then(|()| std::fs::remove_file(&plain))
        .map_err(|error| LogError::new(&target, error))?;
    Ok((file.len, after))
}

/// Writes the frames of a file to `path`; `None` if it was asked to stop.
fn pack(
    file: &LogFile,
    path: &Path,
    level: i32,
    stop: &AtomicBool,
) -> io::Result<Option<(Vec<IndexRecord>, u64)>> {
    let mut out = super::recover::fresh(path, &file.path)?;
    let mut compressor = zstd::bulk::Compressor::new(level)?;
    compressor.include_checksum(true)?;
    let (mut records, mut at, mut end) = (Vec::new(), 0, 0);
    let mut bytes = Vec::new();
    let mut frame = |start: u64, len: u64, at: &mut u64| -> io::Result<(u64, u32)> {
        bytes.resize(len as usize, 0);
        file.data.read_exact_at(&mut bytes, start)?;
        let packed = compressor.compress(&bytes)?;
        out.write_all(&packed)?;
        let place = (*at, packed.len() as u32);
        *at += packed.len() as u64;
        Ok(place)
    };
    for record in &file.chunks {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        // What is no chunk is kept too: decompressed, the file is the one that was there.
        while end < record.offset {
            let len = (record.offset - end).min(PIECE_LEN);
            frame(end, len, &mut at)?;
            end += len;
        }
        let mut record = record.clone();
        let place = frame(record.offset, record.len.into(), &mut at)?;
        (record.compressed_offset, record.compressed_len) = place;
        end = record.offset + u64::from(record.len);
        records.push(record);
    }
    while end < file.len {
        let len = (file.len - end).min(PIECE_LEN);
        frame(end, len, &mut at)?;
        end += len;
    }
    out.sync_data()?;
    Ok(Some((records, at)))
}

/// Files that became smaller, and by how many bytes.
type Saved = Arc<Mutex<Vec<(FileName, u64)>>>;

/// A thread that compresses files as they are closed.
#[derive(Debug)]
pub(crate) struct Compressor {
    names: Option<SyncSender<FileName>>,
    /// Files that wait, and the one that it is at.
    pending: Arc<AtomicUsize>,
    saved: Saved,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread needs.
struct Job<T> {
    folder: PathBuf,
    level: i32,
    replacing: Replacing,
    tell: T,
    pending: Arc<AtomicUsize>,
    saved: Saved,
    stop: Arc<AtomicBool>,
}

impl Compressor {
    /// Begins the thread, which calls `tell` for each file that became smaller or could not.
    pub(crate) fn start(
        folder: &Path,
        level: i32,
        replacing: &Replacing,
        tell: impl Fn(Result<(), LogError>) + Send + 'static,
    ) -> io::Result<Self> {
        let (names, received) = sync_channel(QUEUE_LEN);
        let (saved, stop, pending) = (Saved::default(), Arc::default(), Arc::default());
        let job = Job {
            folder: folder.to_owned(),
            level,
            replacing: Arc::clone(replacing),
            tell,
            pending: Arc::clone(&pending),
            saved: Arc::clone(&saved),
            stop: Arc::clone(&stop),
        };
        let thread = std::thread::Builder::new()
            .name("packetlog-zstd".into())
            .spawn(move || job.run(&received))?;
        Ok(Self { names: Some(names), pending, saved, stop, thread: Some(thread) })
    }

    /// Hands a closed file over, where there is room for its name.
    pub(crate) fn offer(&self, name: &FileName) {
        let Some(names) = &self.names else { return };
        self.pending.fetch_add(1, Ordering::Relaxed);
        if names.try_send(name.clone()).is_err() {
            self.pending.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether a file is being compressed, or will be next.
    pub(crate) fn is_busy(&self) -> bool {
        self.pending.load(Ordering::Relaxed) > 0
    }

    /// Files that became smaller since this was last asked, and by how many bytes.
    pub(crate) fn take_saved(&self) -> Vec<(FileName, u64)> {
        std::mem::take(&mut *self.saved.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the thread: after all files that wait for it where it `completes`; else the file that
    /// it is at stays plain, unless it is nearly done.
    pub(crate) fn finish(&mut self, completes: bool) {
        self.stop.store(!completes, Ordering::Relaxed);
        self.names = None;
        if let Some(thread) = self.thread.take() {
            // Its panic would have lost nothing: the plain file is there until the end.
            let _ = thread.join();
        }
    }
}

impl<T: Fn(Result<(), LogError>)> Job<T> {
    fn run(&self, names: &Receiver<FileName>) {
        while let Ok(name) = names.recv() {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            match one(&self.folder, &name, self.level, &self.replacing, &self.stop) {
                Ok((before, after)) if after < before => {
                    let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
                    saved.push((name, before - after));
                    drop(saved);
                    (self.tell)(Ok(()));
                }
                Ok(_) => {}
                Err(error) => (self.tell)(Err(error)),
            }
            self.pending.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
