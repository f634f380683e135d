//! What all records so far say together: which files there are, what was deleted.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::entry::{ChunkEntry, Deletion, Entry};
use super::head::{Digest, digest, hex, unhex};

/// A file that is there, by what was recorded of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct FileEntry {
    pub(crate) chunks: u64,
    pub(crate) packets: u64,
    /// Where its last chunk ends.
    pub(crate) end: u64,
    /// Chunks before this offset are older than the ledger: their content is not known.
    pub(crate) earlier_end: u64,
    /// Over the other chunks, in the order in which they are in the file.
    pub(crate) digest: Digest,
}

impl FileEntry {
    /// One that is older than the ledger.
    pub(crate) const fn earlier(chunks: u64, packets: u64, end: u64) -> Self {
        Self { chunks, packets, end, earlier_end: end, digest: [0; 32] }
    }

    /// Adds a chunk.
    pub(crate) fn add(&mut self, chunk: &ChunkEntry) {
        self.chunks = self.chunks.saturating_add(1);
        self.packets = self.packets.saturating_add(chunk.packets);
        self.end = chunk.offset.saturating_add(chunk.len);
        self.fold(chunk.offset, chunk.len, &chunk.digest);
    }

    /// From the digest of the chunks before to that with one more.
    pub(crate) fn fold(&mut self, offset: u64, len: u64, content: &Digest) {
        let (offset, len) = (offset.to_le_bytes(), len.to_le_bytes());
        self.digest = digest(&[&self.digest, &offset, &len, content]);
    }
}

/// Files, packets and stored bytes that were deleted.
pub(crate) type DeletedSums = [u64; 3];

/// What all records so far say together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct LedgerState {
    /// Files that are there, by name.
    pub(crate) files: BTreeMap<String, FileEntry>,
    /// By [`Deletion`].
    pub(crate) deleted: [DeletedSums; 3],
    /// Records that could not be written.
    pub(crate) omitted: u64,
    /// Recorders that did not end properly.
    pub(crate) unclean: u64,
    /// Whether no recorder has started since one ended properly.
    pub(crate) is_stopped: bool,
    /// The latest timestamp of all packets, so far as recorded.
    pub(crate) last_ns: i64,
    /// The last text of the account.
    pub(crate) account: String,
}

impl LedgerState {
    /// Adds a record. A segment's sums take the place of all before it.
    pub(crate) fn apply(&mut self, entry: &Entry) {
        match entry {
            Entry::Segment(state) => *self = (**state).clone(),
            Entry::Start { is_clean, account, .. } => {
                self.unclean = self.unclean.saturating_add(u64::from(!is_clean));
                (self.is_stopped, self.account) = (false, account.clone());
            }
            Entry::Stop { account } => {
                (self.is_stopped, self.account) = (true, account.clone());
            }
            Entry::Chunk(chunk) => {
                self.files.entry(chunk.file.clone()).or_default().add(chunk);
                if chunk.packets > 0 {
                    self.last_ns = self.last_ns.max(chunk.last_ns);
                }
            }
            Entry::Earlier { file, chunks, end, packets } => {
                self.files.insert(file.clone(), FileEntry::earlier(*chunks, *packets, *end));
            }
            Entry::Delete { file, cause, packets, bytes } => {
                self.files.remove(file);
                if let Some(sums) = self.deleted.get_mut(*cause as usize) {
                    for (sum, more) in sums.iter_mut().zip([1, *packets, *bytes]) {
                        *sum = sum.saturating_add(more);
                    }
                }
            }
            Entry::Account { text } => self.account.clone_from(text),
            Entry::Mode { .. } | Entry::Unknown => {}
        }
    }

    /// As a segment begins with it.
    pub(super) fn json(&self) -> Value {
        let file = |(name, file): (&String, &FileEntry)| {
            json!({
                "file": name, "chunks": file.chunks, "packets": file.packets, "end": file.end,
                "earlier_end": file.earlier_end, "blake3": hex(&file.digest),
            })
        };
        let sums = |cause: Deletion| self.deleted.get(cause as usize).copied().unwrap_or_default();
        json!({
            "version": 1,
            "files": self.files.iter().map(file).collect::<Vec<_>>(),
            "deleted": Deletion::ALL.map(|cause| json!({
                "cause": cause.name(), "files_packets_bytes": sums(cause),
            })),
            "omitted": self.omitted,
            "unclean": self.unclean,
            "stopped": self.is_stopped,
            "last_ns": self.last_ns,
            "account": self.account,
        })
    }

    /// What [`LedgerState::json`] wrote.
    pub(super) fn read(content: &Value) -> Option<Self> {
        let number = |of: &Value, name: &str| of.get(name)?.as_u64();
        let mut state = Self {
            omitted: number(content, "omitted")?,
            unclean: number(content, "unclean")?,
            is_stopped: content.get("stopped")?.as_bool()?,
            last_ns: content.get("last_ns")?.as_i64()?,
            account: content.get("account")?.as_str()?.to_owned(),
            ..Self::default()
        };
        for file in content.get("files")?.as_array()? {
            let entry = FileEntry {
                chunks: number(file, "chunks")?,
                packets: number(file, "packets")?,
                end: number(file, "end")?,
                earlier_end: number(file, "earlier_end")?,
                digest: unhex(file.get("blake3")?.as_str()?)?,
            };
            state.files.insert(file.get("file")?.as_str()?.to_owned(), entry);
        }
        for (sums, read) in state.deleted.iter_mut().zip(content.get("deleted")?.as_array()?) {
            let read = read.get("files_packets_bytes")?.as_array()?;
            for (sum, number) in sums.iter_mut().zip(read) {
                *sum = number.as_u64()?;
            }
        }
        Some(state)
    }
}
