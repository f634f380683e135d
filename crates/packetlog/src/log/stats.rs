//! How much of what is in a log.

use std::path::Path;

use packet::Timestamp;

use super::Log;
use crate::account::{self, Account};
use crate::cause::Cause;
use crate::index::ClassRow;
use crate::ledger::{Deletion, Head, ledger_bytes, scan_newest};

/// What happened to the recorder; who records writes it.
pub const EVENTS_NAME: &str = "events.jsonl";
/// The events before those, as the file is begun again when it is full.
pub const OLD_EVENTS_NAME: &str = "events.jsonl.1";
/// Bytes of either file at most, at least, and as a part of what the whole log may have.
const EVENTS_LEN_MAX: u64 = 4 << 20;
const EVENTS_LEN_LEAST: u64 = 16 << 10;
const EVENTS_LOG_SHARE: u64 = 128;

/// Bytes with which the file of events of a log with so many bytes is full.
#[must_use]
pub fn events_len_max(log_bytes_max: Option<u64>) -> u64 {
    let share = |max: u64| (max / EVENTS_LOG_SHARE).clamp(EVENTS_LEN_LEAST, EVENTS_LEN_MAX);
    log_bytes_max.map_or(EVENTS_LEN_MAX, share)
}

/// Bytes of a file of a folder, if there is such a file.
fn bytes_of(folder: &Path, name: &str) -> u64 {
    let metadata = std::fs::symlink_metadata(folder.join(name)).ok();
    metadata.filter(std::fs::Metadata::is_file).map_or(0, |metadata| metadata.len())
}

/// Bytes of the events in a folder.
pub(crate) fn event_bytes(folder: &Path) -> u64 {
    bytes_of(folder, EVENTS_NAME).saturating_add(bytes_of(folder, OLD_EVENTS_NAME))
}

/// The outcome of the packets of one class, over the whole log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassTotals {
    /// Its name.
    pub name: String,
    /// The outcome of its packets since the log was begun, whatever was overwritten since: stored
    /// is what is in the files now, overwritten what was and is not any more.
    pub sums: ClassRow,
}

/// What the ledger of a log says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LedgerStats {
    /// Its last record.
    pub head: Head,
    /// Files deleted over the log's whole life, and their packets, by cause.
    pub deleted: Vec<(Deletion, u64, u64)>,
    /// Recorders that did not end properly.
    pub unclean: u64,
    /// Why the account is not believed; the totals are then the ledger's.
    pub account_fault: Option<String>,
}

/// How much of what is in a log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogStats {
    /// Files.
    pub file_count: u64,
    /// Those of them that are compressed.
    pub compressed_count: u64,
    /// Bytes of all files of the folder, as they lie there: those with packets, and the following.
    pub bytes: u64,
    /// Bytes of index and hashes.
    pub index_bytes: u64,
    /// Bytes of the reasons of marked packets.
    pub reason_bytes: u64,
    /// Bytes of the account.
    pub account_bytes: u64,
    /// Bytes of the events, where they are in the folder.
    pub event_bytes: u64,
    /// Bytes of the chunks, not compressed.
    pub chunk_bytes: u64,
    /// Chunks.
    pub chunk_count: u64,
    /// Packets.
    pub packet_count: u64,
    /// The earliest stamp.
    pub first: Option<Timestamp>,
    /// The latest.
    pub last: Option<Timestamp>,
    /// Chunks that were put together again after a tear.
    pub repaired_count: u64,
    /// Places that are no whole chunk.
    pub fault_count: u64,
    /// Packets lost, by cause.
    pub lost: Vec<(Cause, u64)>,
    /// Packets that the capture lost before the log saw them.
    pub ring_lost: u64,
    /// Whether the sums reach back to the first packet; not where a log has neither account nor
    /// ledger.
    pub is_whole: bool,
    /// Bytes of the ledger.
    pub ledger_bytes: u64,
    /// What the ledger says, if there is one.
    pub ledger: Option<LedgerStats>,
    /// By class.
    pub classes: Vec<ClassTotals>,
}

impl LogStats {
    /// Sums over classes.
    #[must_use]
    pub fn total(&self) -> ClassRow {
        let mut total = ClassRow::default();
        for class in &self.classes {
            total.add(&class.sums);
        }
        total
    }

    /// Bytes of the log for each byte that was seen on the wire; `None` where none was.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn share(&self) -> Option<f64> {
        let seen = self.total().seen_bytes;
        (seen > 0).then(|| self.bytes as f64 / seen as f64)
    }
}

impl Log {
    /// Counts what is in the log, from its index and its account alone.
    #[must_use]
    pub fn stats(&self) -> LogStats {
        let mut stats =
            LogStats { fault_count: self.faults().count() as u64, ..LogStats::default() };
        let mut present: Vec<ClassTotals> = Vec::new();
        for file in &self.files {
            stats.file_count += 1;
            stats.compressed_count += u64::from(file.is_compressed);
            stats.bytes = stats.bytes.saturating_add(file.len);
            stats.index_bytes = stats.index_bytes.saturating_add(file.side_len);
            stats.reason_bytes = stats.reason_bytes.saturating_add(file.why_len);
            for record in &file.chunks {
                let trailer = &record.trailer;
                stats.chunk_count += 1;
                stats.chunk_bytes += u64::from(record.len);
                stats.packet_count += u64::from(trailer.packet_count);
                stats.repaired_count += u64::from(trailer.is_repaired);
                if trailer.packet_count > 0 {
                    let (first, last) =
                        (Timestamp::from_ns(trailer.first_ns), Timestamp::from_ns(trailer.last_ns));
                    stats.first = Some(stats.first.map_or(first, |earlier| earlier.min(first)));
                    stats.last = Some(stats.last.map_or(last, |later| later.max(last)));
                }
                for row in &trailer.rows {
                    let name = file.class_name(row.class);
                    match present.iter_mut().find(|class| class.name == name) {
                        Some(class) => class.sums.add(row),
                        None => present.push(ClassTotals { name: name.to_owned(), sums: *row }),
                    }
                }
            }
        }
        stats.account_bytes = bytes_of(&self.folder, account::FILE_NAME);
        stats.event_bytes = event_bytes(&self.folder);
        stats.ledger_bytes = ledger_bytes(&self.folder);
        let others = [stats.index_bytes, stats.reason_bytes, stats.account_bytes];
        for more in others.into_iter().chain([stats.event_bytes, stats.ledger_bytes]) {
            stats.bytes = stats.bytes.saturating_add(more);
        }
        present.sort_by_key(|class| class.sums.class);
        self.add_account(&mut stats, present);
        stats
    }

    /// The account, or what the ledger has of it if it is missing, damaged or has less.
    fn account_or_ledger(&self) -> (Option<Account>, Option<LedgerStats>) {
        let account = match &self.account {
            account::AccountSlot::Whole(account, _) => Some((**account).clone()),
            _ => None,
        };
        // A ledger that cannot be read is as good as none here; `verify` names what is wrong.
        let Ok(Some((head, state))) = scan_newest(&self.folder) else { return (account, None) };
        let recorded = Account::parse(&state.account);
        // Read again: a running recorder may have added to both.
        let shortfall = |recorded| account::shortfall(&self.folder, recorded);
        let account_fault = recorded.as_ref().and_then(shortfall);
        let account = if account_fault.is_some() { recorded } else { account };
        let deleted = Deletion::ALL.iter().zip(state.deleted);
        let deleted = deleted.map(|(&cause, [files, packets, _])| (cause, files, packets));
        let (deleted, unclean) = (deleted.collect(), state.unclean);
        (account, Some(LedgerStats { head, deleted, unclean, account_fault }))
    }

    /// From what is in the files to the outcome of all packets.
    fn add_account(&self, stats: &mut LogStats, present: Vec<ClassTotals>) {
        let (account, ledger) = self.account_or_ledger();
        stats.is_whole = account.is_some();
        stats.ledger = ledger;
        let account = account.map(|mut account| {
            account.settle(self.files.iter());
            account
        });
        let account = account.unwrap_or_else(|| Account::of_files(self.files.iter()));
        stats.ring_lost = account.ring_lost;
        let lost = Cause::ALL.iter().zip(account.lost);
        stats.lost =
            lost.map(|(&cause, lost)| (cause, lost)).filter(|(_, lost)| *lost > 0).collect();
        for (name, ever) in account.classes {
            let there = present.iter().find(|class| class.name == name);
            let there = there.map_or(ClassRow::default(), |class| class.sums);
            let sums = ClassRow {
                class: there.class,
                seen_packets: ever.seen_packets,
                seen_bytes: ever.seen_bytes,
                stored_packets: there.stored_packets,
                stored_bytes: there.stored_bytes,
                kept_bytes: there.kept_bytes,
                lost_packets: ever.lost_packets,
                overwritten_packets: ever.stored_packets.saturating_sub(there.stored_packets),
                overwritten_bytes: ever.kept_bytes.saturating_sub(there.kept_bytes),
            };
            stats.classes.push(ClassTotals { name, sums });
        }
        // What the account does not know of, as where its files came from elsewhere.
        for class in &present {
            if !stats.classes.iter().any(|known| known.name == class.name) {
                stats.classes.push(class.clone());
            }
        }
        let place = |name: &str| present.iter().position(|class| class.name == name);
        stats.classes.sort_by_key(|class| place(&class.name).unwrap_or(usize::MAX));
    }
}
