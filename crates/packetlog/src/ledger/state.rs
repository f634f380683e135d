//! What all records so far say together: which files there are, what was deleted.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::entry::{ChunkEntry, Deletion, Entry, Hole};
use super::head::{Digest, digest, hex, unhex};

/// A file that is there, by what was recorded of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct FileEntry {
    pub(crate) chunks: u64,
    pub(crate) packets: u64,
    /// Where its last chunk ends.
    pub(crate) end: u64,
    /// Places of chunks that could not be written, in order. A recorder ends a file after the
    /// first, so these are no more than the writes that it has on their way at a time.
    pub(crate) holes: Vec<Hole>,
    /// Chunks before this offset are older than the ledger: their content is not known.
    pub(crate) earlier_end: u64,
    /// Over the other chunks, in the order in which they are in the file.
    pub(crate) digest: Digest,
    /// What of it the disk has.
    pub(crate) synced: SyncedPart,
    /// The disk reported an error for the rest. The kernel reports each error once and then takes
    /// the pages for written, so that only a read after the next boot shows what is there.
    pub(crate) has_failed: bool,
}

/// The first chunks of a file, which are known to be on the disk: chunks, packets, end and digest
/// as of [`FileEntry`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SyncedPart {
    pub(crate) chunks: u64,
    pub(crate) packets: u64,
    pub(crate) end: u64,
    pub(crate) digest: Digest,
}

impl FileEntry {
    /// One that is older than the ledger.
    pub(crate) fn earlier(chunks: u64, packets: u64, end: u64) -> Self {
        let synced = SyncedPart { chunks, packets, end, digest: [0; 32] };
        Self { chunks, packets, end, earlier_end: end, synced, ..Self::default() }
    }

    const fn whole(&self) -> SyncedPart {
        let Self { chunks, packets, end, digest, .. } = *self;
        SyncedPart { chunks, packets, end, digest }
    }

    /// Whether the disk has all of it.
    pub(crate) fn is_synced(&self) -> bool {
        self.synced == self.whole()
    }

    /// What is left of it after a power cut that only kept what the disk had for certain.
    pub(crate) fn synced_part(&self) -> Self {
        let SyncedPart { chunks, packets, end, digest } = self.synced;
        let (earlier_end, synced) = (self.earlier_end, self.synced);
        let holes = self.holes.iter().filter(|hole| hole.end() <= end).cloned().collect();
        Self { chunks, packets, end, holes, earlier_end, digest, synced, has_failed: false }
    }

    /// Whether all writes to a place failed, as far as they are recorded.
    pub(crate) fn is_hole(&self, start: u64, end: u64) -> bool {
        let reach = self.holes.iter().fold(start, |reach, hole| {
            if hole.offset <= reach { reach.max(hole.end()) } else { reach }
        });
        start < end && end <= reach
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
    /// When the machine had been started on which the last recorder started.
    pub(crate) boot: String,
    /// It records chunks once the disk has them.
    pub(crate) syncs: bool,
    /// Chunks and packets lost in power cuts.
    pub(crate) lost: [u64; 2],
}

impl LedgerState {
    /// Files of which the disk may not have all that was recorded, if the machine was started again
    /// since: the page cache outlives a recorder, and no power cut.
    pub(crate) fn doubtful(&self, boot: &str) -> Vec<String> {
        let files = self.files.iter().filter(|_| self.was_cut(boot));
        files.filter(|(_, file)| !file.is_synced()).map(|(name, _)| name.clone()).collect()
    }

    /// Whether the machine was started again since the last recorder started.
    pub(crate) fn was_cut(&self, boot: &str) -> bool {
        !self.boot.is_empty() && !boot.is_empty() && self.boot != boot
    }

    /// Whether the power may have failed since the last record: only the same boot rules it out.
    pub(crate) fn may_be_cut(&self, boot: &str) -> bool {
        !boot.is_empty() && self.boot != boot
    }

    /// Adds a record. A segment's sums take the place of all before it.
    pub(crate) fn apply(&mut self, entry: &Entry) {
        match entry {
            Entry::Segment(state) => *self = (**state).clone(),
            Entry::Start { is_clean, account, boot, syncs, .. } => {
                self.unclean = self.unclean.saturating_add(u64::from(!is_clean));
                (self.is_stopped, self.account) = (false, account.clone());
                (self.boot, self.syncs) = (boot.clone(), *syncs);
            }
            Entry::Stop { account, .. } => {
                (self.is_stopped, self.account) = (true, account.clone());
            }
            Entry::Chunk(chunk) => {
                let file = self.files.entry(chunk.file.clone()).or_default();
                let was_synced = file.is_synced();
                file.add(chunk);
                if self.syncs && was_synced && !chunk.is_found {
                    file.synced = file.whole();
                }
                if chunk.packets > 0 {
                    self.last_ns = self.last_ns.max(chunk.last_ns);
                }
            }
            Entry::Failed { file, hole } => {
                let file = self.files.entry(file.clone()).or_default();
                let was_synced = file.is_synced();
                file.end = file.end.max(hole.end());
                file.holes.push(hole.clone());
                if self.syncs && was_synced {
                    file.synced = file.whole();
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
            Entry::Synced { file } => {
                if let Some(file) = self.files.get_mut(file) {
                    (file.synced, file.has_failed) = (file.whole(), false);
                }
            }
            Entry::Unsynced { file, .. } => {
                if let Some(file) = self.files.get_mut(file) {
                    file.has_failed = true;
                }
            }
            Entry::Lost { file, chunks, packets } => {
                if let Some(known) = self.files.remove(file)
                    && known.synced != SyncedPart::default()
                {
                    self.files.insert(file.clone(), known.synced_part());
                }
                for (sum, more) in self.lost.iter_mut().zip([chunks, packets]) {
                    *sum = sum.saturating_add(*more);
                }
            }
            Entry::Account { text } => self.account.clone_from(text),
            Entry::Mode { .. } | Entry::Unknown => {}
        }
    }

    /// As a segment begins with it.
    pub(super) fn json(&self) -> Value {
        let file = |(name, file): (&String, &FileEntry)| {
            let synced = match &file.synced {
                _ if file.is_synced() => Value::Bool(true),
                part if *part == SyncedPart::default() => Value::Bool(false),
                part => json!({
                    "chunks": part.chunks, "packets": part.packets, "end": part.end,
                    "blake3": hex(&part.digest),
                }),
            };
            let mut json = json!({
                "file": name, "chunks": file.chunks, "packets": file.packets, "end": file.end,
                "earlier_end": file.earlier_end, "blake3": hex(&file.digest), "synced": synced,
            });
            if file.has_failed {
                json["failed"] = Value::Bool(true);
            }
            if !file.holes.is_empty() {
                json["holes"] = file.holes.iter().map(Hole::json).collect();
            }
            json
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
            "boot": self.boot,
            "sync": self.syncs,
            "lost_chunks_packets": self.lost,
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
            // What the first recorders with a ledger did not say yet.
            boot: content.get("boot").and_then(Value::as_str).unwrap_or_default().to_owned(),
            syncs: content.get("sync").and_then(Value::as_bool).unwrap_or(false),
            ..Self::default()
        };
        let lost = content.get("lost_chunks_packets").and_then(Value::as_array);
        for (sum, read) in state.lost.iter_mut().zip(lost.into_iter().flatten()) {
            *sum = read.as_u64()?;
        }
        for file in content.get("files")?.as_array()? {
            let mut entry = FileEntry {
                chunks: number(file, "chunks")?,
                packets: number(file, "packets")?,
                end: number(file, "end")?,
                earlier_end: number(file, "earlier_end")?,
                digest: unhex(file.get("blake3")?.as_str()?)?,
                holes: match file.get("holes").and_then(Value::as_array) {
                    Some(holes) => holes.iter().map(Hole::read).collect::<Option<_>>()?,
                    None => Vec::new(),
                },
                synced: SyncedPart::default(),
                has_failed: file.get("failed").and_then(Value::as_bool).unwrap_or(false),
            };
            entry.synced = match file.get("synced") {
                None | Some(Value::Bool(false)) => SyncedPart::default(),
                Some(Value::Bool(true)) => entry.whole(),
                Some(part) => SyncedPart {
                    chunks: number(part, "chunks")?,
                    packets: number(part, "packets")?,
                    end: number(part, "end")?,
                    digest: unhex(part.get("blake3")?.as_str()?)?,
                },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_in_the_sums_and_only_what_they_cover_is_one() {
        let mut state = LedgerState::default();
        for (offset, len) in [(4096, 4096), (8192, 4096), (65536, 4096)] {
            let cause = String::from("write_failed");
            let hole = Hole { offset, len, packets: 3, cause, digest: [7; 32] };
            state.apply(&Entry::Failed { file: String::from("p0"), hole });
        }
        assert_eq!(LedgerState::read(&state.json()), Some(state.clone()));
        let file = state.files.get_mut("p0").unwrap();
        assert!(!file.is_synced(), "after a power cut it is compared with what is there");
        assert!(file.is_hole(4096, 12_288) && file.is_hole(8192, 8193));
        for (start, end) in [(0, 4096), (0, 8192), (8192, 12_289), (4096, 69_632), (9000, 9000)] {
            assert!(!file.is_hole(start, end), "{start} to {end}");
        }
        file.synced.end = 12_288;
        assert_eq!(file.synced_part().holes, file.holes[..2]);
    }
}
