//! One file of a log, plain or compressed, with its index.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::error::{LogError, LogFault};
use super::scan;
use crate::index::{
    ALIGNMENT, COMPRESSED_SUFFIX, ChunkFault, FILE_SUFFIX, INDEX_SUFFIX, IndexRecord, KEYS_SUFFIX,
    Trailer,
};
use crate::recorder::{ClassInfo, FileName, read_section_text};

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
    keys: Option<File>,
    /// Its chunks, in the order in which they lie.
    pub(crate) chunks: Vec<IndexRecord>,
    /// Places that are no chunk.
    pub(crate) faults: Vec<LogFault>,
    /// Chunks that no record named, or records that no chunk has: the index should be made anew.
    pub(crate) index_is_wrong: bool,
    /// The classes of its sections, read when they are first wanted.
    pub(crate) classes: Vec<ClassInfo>,
}

impl LogFile {
    pub(crate) fn open(folder: &Path, name: &FileName) -> Result<Self, LogError> {
        let plain = name.path(folder, FILE_SUFFIX);
        let (path, is_compressed, data) = match File::open(&plain) {
            Ok(data) => (plain, false, data),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let path = name.path(folder, COMPRESSED_SUFFIX);
                let data = File::open(&path).map_err(|error| LogError::new(&path, error))?;
                (path, true, data)
            }
            Err(error) => return Err(LogError::new(&plain, error)),
        };
        // The length is asked before the index is read: a recorder may be adding to both.
        let index = std::fs::read(name.path(folder, INDEX_SUFFIX)).unwrap_or_default();
        let len = data.metadata().map_err(|error| LogError::new(&path, error))?.len();
        let keys = File::open(name.path(folder, KEYS_SUFFIX)).ok();
        let keys_len = keys.as_ref().and_then(|keys| keys.metadata().ok()).map_or(0, |m| m.len());
        let mut file = Self {
            name: name.clone(),
            path,
            data,
            is_compressed,
            len,
            side_len: index.len() as u64 + keys_len,
            keys,
            chunks: Vec::new(),
            faults: Vec::new(),
            index_is_wrong: false,
            classes: Vec::new(),
        };
        file.read_index(&index, keys_len);
        let found = if is_compressed { scan::compressed(&file) } else { scan::gaps(&file) };
        let (chunks, faults) = found.map_err(|error| LogError::new(&file.path, error))?;
        file.index_is_wrong |= !chunks.is_empty();
        file.chunks.extend(chunks);
        file.chunks.sort_by_key(|record| record.offset);
        file.faults.extend(faults);
        file.read_classes();
        Ok(file)
    }

    /// Takes the records that can be true.
    fn read_index(&mut self, index: &[u8], keys_len: u64) {
        let mut at = 0;
        while let Some(rest) = index.get(at..).filter(|rest| !rest.is_empty()) {
            match IndexRecord::read(rest) {
                Ok((record, len)) => {
                    at += len;
                    self.chunks.push(record);
                }
                Err(_) => {
                    // The next record begins somewhere behind.
                    self.index_is_wrong = true;
                    let next = rest.get(1..).unwrap_or_default();
                    let step = next.windows(4).position(|window| window == b"WLX1");
                    at = step.map_or(index.len(), |step| at + 1 + step);
                }
            }
        }
        self.chunks.sort_by_key(|record| record.offset);
        let (mut end, count, mut are_short) = (0, self.chunks.len(), false);
        let (is_compressed, len) = (self.is_compressed, self.len);
        self.chunks.retain_mut(|record| {
            let record_end = record.offset.saturating_add(record.len.into());
            let reach = if is_compressed {
                record.compressed_offset.saturating_add(record.compressed_len.into())
            } else {
                record_end
            };
            let is_aligned = record.offset.is_multiple_of(ALIGNMENT as u64)
                && (record.len as usize).is_multiple_of(ALIGNMENT);
            let is_there = is_aligned
                && record.offset >= end
                && record.len > 0
                && record.len <= packet::file::BLOCK_LEN_MAX
                && reach <= len
                && (!is_compressed || record.compressed_len > 0);
            if is_there {
                end = record_end;
            }
            let keys = &mut record.keys;
            let words = u64::from(keys.host_count) + u64::from(keys.flow_count);
            let is_short = keys.offset.saturating_add(words * 4) > keys_len;
            are_short |= is_short;
            keys.are_incomplete |= is_short;
            is_there
        });
        self.index_is_wrong |= self.chunks.len() != count || are_short;
    }

    /// The classes stand in each section; a file is of one recorder, so the first will do.
    fn read_classes(&mut self) {
        let mut bytes = Vec::new();
        for record in self.chunks.iter().take(4) {
            if self.read(record, &mut bytes).is_ok_and(|result| result.is_ok()) {
                if let Some((_, classes)) = section_classes(&bytes) {
                    self.classes = classes;
                }
                return;
            }
        }
    }

    /// The name of a class.
    pub(crate) fn class_name(&self, class: u16) -> &str {
        self.classes.get(usize::from(class)).map_or("unknown", |class| &class.name)
    }

    /// Reads a chunk into `bytes` and holds it against its checksum.
    ///
    /// # Errors
    /// The file cannot be read. The inner error: what was read is no whole chunk.
    pub(crate) fn read(
        &self,
        record: &IndexRecord,
        bytes: &mut Vec<u8>,
    ) -> io::Result<Result<(Trailer, usize), ChunkFault>> {
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
        Ok(Trailer::read(bytes).map(|(trailer, start, _)| (trailer, start)))
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
        let hosts_len = u64::from(keys.host_count) * 4;
        let (offset, count, crc) = if is_hosts {
            (keys.offset, keys.host_count, keys.hosts_crc)
        } else {
            (keys.offset + hosts_len, keys.flow_count, keys.flows_crc)
        };
        let Some(file) = self.keys.as_ref().filter(|_| !keys.are_incomplete) else { return false };
        bytes.clear();
        bytes.resize(count as usize * 4, 0);
        file.read_exact_at(bytes, offset).is_ok() && crc32fast::hash(bytes) == crc
    }

    pub(crate) fn fault(&self, record: &IndexRecord, fault: ChunkFault) -> LogFault {
        let (offset, len) = (record.offset, record.len.into());
        LogFault { path: self.path.clone(), offset, len, fault }
    }
}

/// Mode and classes of the section that `chunk` begins with.
pub(super) fn section_classes(chunk: &[u8]) -> Option<((u64, String), Vec<ClassInfo>)> {
    packet::file::section_custom(chunk, crate::index::ENTERPRISE)
        .find_map(|text| read_section_text(std::str::from_utf8(text).ok()?))
}
