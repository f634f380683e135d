//! What a recorder that ended suddenly left unfinished is repaired.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use packet::{FlowKey, Frame};

use super::adopt::{adopt, open_files};
use super::decode::packets;
use super::error::LogError;
use super::file::LogFile;
use super::mend::mend;
use super::query::decoded_count;
use crate::file_name::{FileName, file_names};
use crate::index::{
    COMPRESSED_SUFFIX, ChunkFault, FILE_SUFFIX, INDEX_SUFFIX, IndexRecord, KEYS_SUFFIX, Keys,
    Trailer, WHY_SUFFIX, key_lists,
};
use crate::ledger::{FileEntry, Journal, ledger_len_max, scan_newest};
use crate::own::{Access, boot_id, create_like, is_none_of_ours, open_own_to_write};

/// The end of the name of a file that is being made.
const PARTIAL: &str = ".partial";
/// What a recorder locks, see [`FolderLock`].
const LOCK_NAME: &str = "recorder.lock";

/// What was repaired.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecoveryReport {
    /// Files examined.
    pub file_count: u64,
    /// Files in which nothing was found, or that were never finished; deleted.
    pub files_deleted: u64,
    /// Files whose index was made again.
    pub indexes_made: u64,
    /// Chunks that no index had named.
    pub chunks_found: u64,
    /// Torn chunks of which packets were saved.
    pub chunks_mended: u64,
    /// Packets saved from them.
    pub packets_saved: u64,
    /// Bytes behind tears, cut off or made void.
    pub bytes_lost: u64,
    /// Places that the index calls chunks and that are none; left as they are.
    pub faults: u64,
}

/// Tries of a lock. One that was let go may be held for a moment by a program that is just being
/// started and has a copy of all files.
const LOCK_TRY_COUNT: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// A folder that no other process records to or repairs, until the value is dropped or the process
/// dies. A file is locked, which other users cannot open: the folder itself could be locked by
/// any user who may read the log.
#[derive(Debug)]
pub(crate) struct FolderLock {
    _held: File,
}

impl FolderLock {
    /// Locks a folder that is there.
    pub(crate) fn new(folder: &Path) -> Result<Self, LogError> {
        let path = folder.join(LOCK_NAME);
        // Held for reading: a file system with a file open for writing cannot be made read-only.
        let opened = files::open_lock(&path).and_then(|_made| files::open(&path));
        let opened = opened.or_else(|error| match error.kind() {
            // Nothing is recorded there.
            io::ErrorKind::ReadOnlyFilesystem => File::open(folder),
            _ => Err(error),
        });
        let held = opened.map_err(|error| LogError::new(&path, error))?;
        for _ in 0..LOCK_TRY_COUNT {
            match held.try_lock() {
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
                // A file system without locks is used without.
                Ok(()) | Err(TryLockError::Error(_)) => return Ok(Self { _held: held }),
            }
        }
        let busy = io::Error::new(io::ErrorKind::ResourceBusy, "another recorder is running here");
        Err(LogError::new(folder, busy))
    }
}

/// Puts right what a recorder that ended suddenly left unfinished in `folder`: the packets before
/// a tear become a chunk, indexes are made again where they are not whole, half-made files go.
/// Twice is the same as once, also where the first time was cut short. No recorder may be at work
/// in the folder.
///
/// # Errors
/// A recorder is at work there, or the folder or one of its files cannot be read or written.
pub fn recover(folder: &Path) -> Result<RecoveryReport, LogError> {
    let (boot, lock) = (boot_id(), FolderLock::new(folder)?);
    let recovered = recover_locked(folder, true, &boot, &lock)?;
    let wrong = |error| LogError::new(folder, error);
    if scan_newest(folder).map_err(wrong)?.is_some() {
        let access = Access::of_folder(folder);
        let len_max = ledger_len_max(None);
        let mut journal = Journal::open(folder, access, len_max, &boot).map_err(wrong)?;
        adopt(&mut journal, &open_files(folder)?, &boot)?;
        journal.sync().map_err(wrong)?;
    }
    Ok(recovered)
}

/// The same where the folder is locked already. Where `is_thorough`, each record of an index is
/// compared with the chunk that it names. So are those of files of which a power cut may have left
/// less than was recorded, as `boot` names another start of the machine; chunks of these that are
/// none are repaired like those that no record names.
pub(crate) fn recover_locked(
    folder: &Path,
    is_thorough: bool,
    boot: &str,
    _: &FolderLock,
) -> Result<RecoveryReport, LogError> {
    let wrong = |error| LogError::new(folder, error);
    let mut recovered = RecoveryReport::default();
    delete_partial(folder, &mut recovered)?;
    delete_stray(folder).map_err(wrong)?;
    let newest = scan_newest(folder).map_err(wrong)?;
    let (_, recorded) = newest.unwrap_or_default();
    let doubtful: BTreeSet<String> = recorded.doubtful(boot).into_iter().collect();
    let was_cut = recorded.was_cut(boot);
    let names = file_names(folder).map_err(wrong)?;
    for (place, name) in names.iter().enumerate() {
        recovered.file_count += 1;
        let compressed = name.path(folder, COMPRESSED_SUFFIX);
        if name.path(folder, FILE_SUFFIX).exists() && compressed.exists() {
            // The compressed form is complete only once the plain one is gone.
            std::fs::remove_file(&compressed).map_err(|error| LogError::new(&compressed, error))?;
        }
        let stem = name.stem();
        let is_doubtful =
            doubtful.contains(&stem) || was_cut && !recorded.files.contains_key(&stem);
        let next = names.get(place + 1);
        let is_newest = was_cut && next.is_none_or(|next| next.priority != name.priority);
        let depth = Depth { is_thorough, is_doubtful, is_newest };
        let known = recorded.files.get(&stem);
        match one(folder, name, (depth, known), &mut recovered) {
            Err(LogError { error, .. }) if is_none_of_ours(&error) => recovered.faults += 1,
            done => done?,
        }
    }
    Ok(recovered)
}

fn delete_partial(folder: &Path, recovered: &mut RecoveryReport) -> Result<(), LogError> {
    let entries = std::fs::read_dir(folder).map_err(|error| LogError::new(folder, error))?;
    for entry in entries {
        let path = entry.map_err(|error| LogError::new(folder, error))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_ours = name.starts_with("probe-")
            || [COMPRESSED_SUFFIX, INDEX_SUFFIX, KEYS_SUFFIX]
                .iter()
                .any(|suffix| name.ends_with(&format!("{suffix}{PARTIAL}")));
        if is_ours && name.ends_with(PARTIAL) {
            std::fs::remove_file(&path).map_err(|error| LogError::new(&path, error))?;
            recovered.files_deleted += 1;
        }
    }
    Ok(())
}

/// What belongs to files that are gone: deleting a file was cut short, or a recorder of a version
/// without reasons deleted it.
fn delete_stray(folder: &Path) -> io::Result<()> {
    let names = file_names(folder)?;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let suffixes = [INDEX_SUFFIX, KEYS_SUFFIX, WHY_SUFFIX];
        let stem = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix));
        if stem.and_then(FileName::parse).is_some_and(|name| !names.contains(&name)) {
            let _ = std::fs::remove_file(&path);
        }
    }
    Ok(())
}

/// How closely a file is inspected.
#[derive(Clone, Copy)]
struct Depth {
    is_thorough: bool,
    /// The disk may not have all of it.
    is_doubtful: bool,
    /// It may not have all of its index and hashes, which `sync` does not wait for.
    is_newest: bool,
}

fn one(
    folder: &Path,
    name: &FileName,
    (depth, known): (Depth, Option<&FileEntry>),
    recovered: &mut RecoveryReport,
) -> Result<(), LogError> {
    let mut file = LogFile::open(folder, name)?;
    if depth.is_thorough && file.is_misled() || depth.is_doubtful && file.is_damaged() {
        // Its index has right checksums and says what is not so: the chunks themselves tell. What
        // the disk had not when the power failed is no evidence that has to stay as it is.
        file = LogFile::open_without_index(folder, name)?;
        file.index_is_wrong = true;
    }
    if depth.is_newest && file.chunks.iter().any(|record| !file.keys_are_right(record)) {
        file.index_is_wrong = true;
    }
    let path = file.path.clone();
    let wrong = |error| LogError::new(&path, error);
    recovered.chunks_found +=
        file.chunks.iter().filter(|record| record.keys.are_incomplete).count() as u64;
    if !file.is_compressed && !file.faults.is_empty() {
        let writable = open_own_to_write(&path).map_err(wrong)?;
        if file.index_is_wrong {
            // A record that points behind the file's end would be believed once the file grows.
            index_anew(folder, &file).map_err(wrong)?;
        }
        let faults = std::mem::take(&mut file.faults);
        for fault in &faults {
            let end = fault.offset + fault.len;
            let like = before(&file.chunks, fault.offset);
            let is_tail = end == file.len;
            let is_lost = known.is_some_and(|known| known.is_hole(fault.offset, end));
            let mended =
                mend(&writable, fault.offset, end, is_tail, is_lost, &like).map_err(wrong)?;
            recovered.packets_saved += mended.packets;
            recovered.chunks_mended += u64::from(mended.packets > 0);
            recovered.bytes_lost += mended.bytes_lost;
        }
        drop(writable);
        file = LogFile::open(folder, name)?;
        file.index_is_wrong = true;
    }
    recovered.faults += file.faults.len() as u64;
    if file.chunks.is_empty() && file.faults.is_empty() {
        for suffix in [FILE_SUFFIX, COMPRESSED_SUFFIX, INDEX_SUFFIX, KEYS_SUFFIX, WHY_SUFFIX] {
            let _ = std::fs::remove_file(name.path(folder, suffix));
        }
        recovered.files_deleted += 1;
        return Ok(());
    }
    if file.index_is_wrong {
        recovered.faults += index_anew(folder, &file).map_err(wrong)?;
        recovered.indexes_made += 1;
    }
    Ok(())
}

/// The trailer of the last chunk before `offset`.
fn before(chunks: &[IndexRecord], offset: u64) -> Trailer {
    let place = chunks.partition_point(|record| record.offset < offset);
    let last = place.checked_sub(1).and_then(|place| chunks.get(place));
    last.map(|record| record.trailer.clone()).unwrap_or_default()
}

/// Writes index and hashes from the chunks themselves; returns how many are none.
fn index_anew(folder: &Path, file: &LogFile) -> io::Result<u64> {
    let (mut index, mut hashes) = (Vec::new(), Vec::new());
    let (mut faults, mut bytes) = (0, Vec::new());
    for record in &file.chunks {
        let mut record = record.clone();
        let read = file.read(&record, &mut bytes)?.and_then(|(trailer, end)| {
            // Also of a chunk whose packets cannot all be read: a query reads those that can.
            record.trailer = trailer;
            flows_of(&bytes, end, record.trailer.packet_count)
        });
        match read {
            Ok(flows) => record.keys = put_keys(&flows, &mut hashes),
            // It stays named, so that a query counts it.
            Err(_) => {
                faults += 1;
                record.keys = Keys { are_incomplete: true, ..Keys::default() };
            }
        }
        record.put(&mut index);
    }
    // The hashes first: an index that names what is not there yet would be believed.
    replace(folder, &file.name, INDEX_SUFFIX, &[])?;
    replace(folder, &file.name, KEYS_SUFFIX, &hashes)?;
    replace(folder, &file.name, INDEX_SUFFIX, &index)?;
    Ok(faults)
}

/// Appends the hashes of flows and their hosts.
fn put_keys(flows: &[FlowKey], hashes: &mut Vec<u8>) -> Keys {
    let (mut host_list, mut flow_list) = (Vec::new(), Vec::new());
    key_lists(flows, &mut host_list, &mut flow_list);
    let offset = hashes.len() as u64;
    let put = |list: &[u32], hashes: &mut Vec<u8>| {
        let start = hashes.len();
        for hash in list {
            hashes.extend_from_slice(&hash.to_le_bytes());
        }
        crc32fast::hash(hashes.get(start..).unwrap_or_default())
    };
    let hosts_crc = put(&host_list, hashes);
    let flows_crc = put(&flow_list, hashes);
    Keys {
        offset,
        host_count: host_list.len() as u32,
        flow_count: flow_list.len() as u32,
        hosts_crc,
        flows_crc,
        are_incomplete: false,
    }
}

/// Each flow of a chunk's packets once.
fn flows_of(chunk: &[u8], end: usize, count: u32) -> Result<Vec<FlowKey>, ChunkFault> {
    let mut flows = BTreeMap::new();
    let (decoder, at) = packets(chunk, end, |mut packet| {
        packet.dissect(chunk);
        if let Some((key, _)) = FlowKey::from_frame(&Frame::new(chunk, &packet.record)) {
            flows.insert(key, ());
        }
        true
    })?;
    // As a query has it: what its trailer does not count is not believed to be all.
    let is_whole = at == end && decoded_count(&decoder) == u64::from(count);
    if is_whole { Ok(flows.into_keys().collect()) } else { Err(ChunkFault::Nonsense) }
}

/// A new file in place of whatever has this name, for users that may read the folder, and for the
/// owner of `like`.
pub(super) fn fresh(path: &Path, like: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    create_like(path, Access::of_folder(files::folder_of(path)), like)
}

/// Puts `bytes` where the file with this suffix is, in one step.
pub(super) fn replace(
    folder: &Path,
    name: &FileName,
    suffix: &str,
    bytes: &[u8],
) -> io::Result<()> {
    let path = name.path(folder, suffix);
    let partial = name.path(folder, &format!("{suffix}{PARTIAL}"));
    let data = [FILE_SUFFIX, COMPRESSED_SUFFIX].map(|suffix| name.path(folder, suffix));
    let like = data.iter().find(|path| path.exists()).unwrap_or(&path);
    let mut file = fresh(&partial, like)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    std::fs::rename(&partial, &path)
}
