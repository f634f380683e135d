//! One file of a log, plain or compressed, with its index.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::error::{LogError, LogFault};
use super::scan;
use crate::compact::expand;
use crate::file_name::FileName;
use crate::index::{
    ALIGNMENT, COMPRESSED_SUFFIX, ChunkFault, FILE_SUFFIX, INDEX_SUFFIX, IndexFault, IndexRecord,
    KEYS_SUFFIX, Trailer, WHY_SUFFIX,
};
use crate::own::open_own;
use crate::section::{ClassInfo, read_section_text};

/// The longest file that is believed, not compressed.
const FILE_LEN_MAX: u64 = 1 << 56;
/// The longest index; that of a file of 1 GiB has some 100 kB.
const INDEX_LEN_MAX: u64 = 256 << 20;

/// One file of a log.
#[derive(Debug)]
pub(crate) struct LogFile {
    pub(crate) name: FileName,
    pub(crate) path: PathBuf,
    pub(super) data: File,
    pub(crate) is_compressed: bool,
    /// Bytes of the file as it lies there.
    pub(crate) len: u64,
    /// Bytes of index and hashes.
    pub(crate) side_len: u64,
    /// Bytes of its reasons.
    pub(crate) why_len: u64,
    keys: Option<File>,
    /// Its chunks, in the order in which they lie.
    pub(crate) chunks: Vec<IndexRecord>,
    /// Places that are no chunk.
    pub(crate) faults: Vec<LogFault>,
    /// Damage outside the chunks.
    pub(crate) side_faults: Vec<LogFault>,
    /// Chunks that no record named, or records that no chunk has: the index should be made again.
    pub(crate) index_is_wrong: bool,
    /// The classes of its sections, read when they are first wanted.
    pub(crate) classes: Vec<ClassInfo>,
}

impl LogFile {
    pub(crate) fn open(folder: &Path, name: &FileName) -> Result<Self, LogError> {
        Self::open_by(folder, name, true)
    }

    /// The same from the file alone, as if it had no index.
    pub(crate) fn open_without_index(folder: &Path, name: &FileName) -> Result<Self, LogError> {
        Self::open_by(folder, name, false)
    }

    fn open_by(folder: &Path, name: &FileName, by_index: bool) -> Result<Self, LogError> {
        let plain = name.path(folder, FILE_SUFFIX);
        let (path, is_compressed, data) = match open_own(&plain) {
            Ok(data) => (plain, false, data),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let path = name.path(folder, COMPRESSED_SUFFIX);
                let data = open_own(&path).map_err(|error| LogError::new(&path, error))?;
                (path, true, data)
            }
            Err(error) => return Err(LogError::new(&plain, error)),
        };
        // The length is asked after the index was read: a recorder may be adding to both.
        let index = match by_index {
            true => read_bounded(&name.path(folder, INDEX_SUFFIX)),
            false => Vec::new(),
        };
        let len = data.metadata().map_err(|error| LogError::new(&path, error))?.len();
        let keys = open_own(&name.path(folder, KEYS_SUFFIX)).ok();
        let keys_len = keys.as_ref().and_then(|keys| keys.metadata().ok()).map_or(0, |m| m.len());
        let why = std::fs::symlink_metadata(name.path(folder, WHY_SUFFIX));
        let mut file = Self {
            why_len: why.map_or(0, |why| why.len()),
            name: name.clone(),
            path,
            data,
            is_compressed,
            len,
            side_len: index.len() as u64 + keys_len,
            keys,
            chunks: Vec::new(),
            faults: Vec::new(),
            side_faults: Vec::new(),
            index_is_wrong: false,
            classes: Vec::new(),
        };
        file.read_index(&index, keys_len);
        if is_compressed && file.index_is_wrong {
            // Where one record is wrong, the others may point into the middle of frames.
            file.chunks.clear();
        }
        let found = if is_compressed { scan::compressed(&file) } else { scan::gaps(&file) };
        let (chunks, faults) = found.map_err(|error| LogError::new(&file.path, error))?;
        file.index_is_wrong |= !chunks.is_empty();
        file.chunks.extend(chunks);
        file.chunks.sort_by_key(|record| record.offset);
        file.faults.extend(faults);
        file.read_classes();
        Ok(file)
    }

    /// Whether the index hides chunks or says of one what the chunk does not, though its checksums
    /// are right. Reads the whole file.
    pub(crate) fn is_misled(&self) -> bool {
        let mut bytes = Vec::new();
        let hides = self.chunks.iter().any(|record| {
            match self.read(record, &mut bytes) {
                Ok(Ok((trailer, _))) => trailer != record.trailer,
                // A chunk that the disk has spoilt stays named: it is evidence.
                Ok(Err(_)) if self.is_compressed => !scan::is_frame(self, record, &mut bytes),
                Ok(Err(_)) => scan::hides_chunk(self, record),
                Err(_) => false,
            }
        });
        // A record that begins within a chunk makes a place of what is before it.
        hides || !self.is_compressed && scan::is_cut_by_index(self)
    }

    /// Takes the records that can be true.
    fn read_index(&mut self, index: &[u8], keys_len: u64) {
        let (mut at, mut damaged) = (0, 0_u64);
        while let Some(rest) = index.get(at..).filter(|rest| !rest.is_empty()) {
            match IndexRecord::read(rest) {
                Ok((record, len)) => {
                    at += len;
                    self.chunks.push(record);
                }
                Err(fault) => {
                    // The next record begins somewhere behind. One that is cut at the end is what
                    // a recorder that was killed leaves, or one that is at work.
                    self.index_is_wrong = true;
                    damaged += u64::from(fault != IndexFault::Cut);
                    let next = rest.get(1..).unwrap_or_default();
                    let step = next.windows(4).position(|window| window == b"WLX1");
                    at = step.map_or(index.len(), |step| at + 1 + step);
                }
            }
        }
        self.chunks.sort_by_key(|record| record.offset);
        let (count, mut short) = (self.chunks.len(), 0);
        let (mut end, mut packed_end) = (0, 0);
        let (is_compressed, len) = (self.is_compressed, self.len);
        self.chunks.retain_mut(|record| {
            let Some((record_end, reach)) = ends(record) else { return false };
            let is_there = record.offset >= end
                && if is_compressed {
                    record.compressed_len > 0
                        && record.compressed_offset >= packed_end
                        && reach <= len
                } else {
                    record_end <= len
                };
            if !is_there {
                return false;
            }
            (end, packed_end) = (record_end, reach);
            if !record.keys.is_within(keys_len) {
                short += 1;
                record.keys.are_incomplete = true;
            }
            true
        });
        damaged += (count - self.chunks.len()) as u64;
        self.index_is_wrong |= damaged > 0 || short > 0;
        self.note(INDEX_SUFFIX, damaged, ChunkFault::Index { records: damaged });
        self.note(KEYS_SUFFIX, short, ChunkFault::Keys { chunks: short });
    }

    /// Keeps what is wrong outside the chunks.
    fn note(&mut self, suffix: &str, count: u64, fault: ChunkFault) {
        if count > 0 {
            let folder = self.path.parent().unwrap_or(Path::new(""));
            let path = self.name.path(folder, suffix);
            self.side_faults.push(LogFault { path, offset: 0, len: 0, fault });
        }
    }

    /// The classes stand in each section; a file is of one recorder, so the first will do that is
    /// not one made of what nothing could be saved from.
    fn read_classes(&mut self) {
        let mut bytes = Vec::new();
        let has_packets = |record: &&IndexRecord| record.trailer.packet_count > 0;
        for record in self.chunks.iter().filter(has_packets).take(4) {
            if self.read(record, &mut bytes).is_ok_and(|result| result.is_ok())
                && let Some((_, classes)) = section_classes(&bytes)
            {
                self.classes = classes;
                return;
            }
        }
    }

    /// The name of a class.
    pub(crate) fn class_name(&self, class: u16) -> &str {
        self.classes.get(usize::from(class)).map_or("unknown", |class| &class.name)
    }

    /// Reads a chunk into `bytes`, holds it against its checksum, and expands its packets.
    ///
    /// # Errors
    /// The file cannot be read. The inner error: what was read is no whole chunk.
    pub(crate) fn read(
        &self,
        record: &IndexRecord,
        bytes: &mut Vec<u8>,
    ) -> io::Result<Result<(Trailer, usize), ChunkFault>> {
        if let Err(fault) = self.read_stored(record, bytes)? {
            return Ok(Err(fault));
        }
        let read = Trailer::read(bytes);
        Ok(read.and_then(|(trailer, start, _)| Ok((trailer, expand(bytes, start)?))))
    }

    /// Reads the bytes of a chunk as they were written, before they were compressed.
    ///
    /// # Errors
    /// The file cannot be read. The inner error: the bytes are not there.
    pub(crate) fn read_stored(
        &self,
        record: &IndexRecord,
        bytes: &mut Vec<u8>,
    ) -> io::Result<Result<(), ChunkFault>> {
        bytes.clear();
        bytes.resize(record.len as usize, 0);
        if self.is_compressed {
            let mut packed = vec![0; record.compressed_len as usize];
            self.data.read_exact_at(&mut packed, record.compressed_offset)?;
            let Ok(len) = zstd::bulk::decompress_to_buffer(&packed, &mut bytes[..]) else {
                return Ok(Err(ChunkFault::NoSection));
            };
            bytes.truncate(len);
        } else {
            match self.data.read_exact_at(bytes, record.offset) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    let wanted = record.len.into();
                    return Ok(Err(ChunkFault::Cut { wanted, got: 0 }));
                }
                result => result?,
            }
        }
        Ok(Ok(()))
    }

    /// Reads the hashes of a chunk's hosts, or of its flows, into `bytes`; false where they are
    /// not known, not whole or not those that were written.
    pub(crate) fn read_keys(
        &self,
        record: &IndexRecord,
        is_hosts: bool,
        bytes: &mut Vec<u8>,
    ) -> bool {
        let keys = &record.keys;
        // Where they are is believed only of records that were held against the file's length.
        let Some(file) = self.keys.as_ref().filter(|_| !keys.are_incomplete) else { return false };
        let hosts_len = u64::from(keys.host_count) * 4;
        let (offset, count, crc) = if is_hosts {
            (keys.offset, keys.host_count, keys.hosts_crc)
        } else {
            (keys.offset.saturating_add(hosts_len), keys.flow_count, keys.flows_crc)
        };
        bytes.clear();
        bytes.resize(count as usize * 4, 0);
        file.read_exact_at(bytes, offset).is_ok() && crc32fast::hash(bytes) == crc
    }

    /// Whether the hashes of a chunk are those that were written.
    pub(crate) fn keys_are_right(&self, record: &IndexRecord) -> bool {
        let mut bytes = Vec::new();
        record.keys.are_incomplete
            || self.read_keys(record, true, &mut bytes) && self.read_keys(record, false, &mut bytes)
    }

    /// Whether a chunk that a record names is none, or has not its hashes. Reads the whole file.
    pub(crate) fn is_damaged(&self) -> bool {
        let mut bytes = Vec::new();
        self.chunks.iter().any(|record| {
            !matches!(self.read(record, &mut bytes), Ok(Ok(_))) || !self.keys_are_right(record)
        })
    }

    /// Whether there is a file of hashes.
    pub(crate) const fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    /// Hashes of a chunk that are not those that were written.
    pub(crate) fn keys_fault(&self, chunks: u64) -> LogFault {
        let path = self.name.path(self.path.parent().unwrap_or(Path::new("")), KEYS_SUFFIX);
        LogFault { path, offset: 0, len: 0, fault: ChunkFault::Keys { chunks } }
    }

    pub(crate) fn fault(&self, record: &IndexRecord, fault: ChunkFault) -> LogFault {
        let (offset, len) = (record.offset, record.len.into());
        LogFault { path: self.path.clone(), offset, len, fault }
    }
}

/// Where a chunk ends in its file, and its frame in a compressed one; `None` where a record says
/// what no recorder does.
fn ends(record: &IndexRecord) -> Option<(u64, u64)> {
    let is_chunk = record.offset.is_multiple_of(ALIGNMENT as u64)
        && (record.len as usize).is_multiple_of(ALIGNMENT)
        && record.len > 0
        && record.len <= packet::file::BLOCK_LEN_MAX;
    let end = record.offset.checked_add(record.len.into())?;
    let reach = record.compressed_offset.checked_add(record.compressed_len.into())?;
    // What is added up on the way through a file stays far from where numbers end.
    (is_chunk && end <= FILE_LEN_MAX).then_some((end, reach))
}

/// The bytes of an index; one that is longer than any is cut there.
fn read_bounded(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = open_own(path) {
        let _ = file.take(INDEX_LEN_MAX).read_to_end(&mut bytes);
    }
    bytes
}

/// Mode and classes of the section that `chunk` begins with.
pub(super) fn section_classes(chunk: &[u8]) -> Option<((u64, String), Vec<ClassInfo>)> {
    packet::file::section_custom(chunk, crate::index::ENTERPRISE)
        .find_map(|text| read_section_text(std::str::from_utf8(text).ok()?))
}
