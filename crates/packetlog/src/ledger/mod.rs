//! The ledger: a journal of what a log was given and what was deleted of it, in a chain of hashes.
//!
//! Records are lines of JSON that are only appended. Each carries the BLAKE3 hash of the one before
//! and of its own content, so that the hash of one record, its [`Head`], fixes all before it. Who
//! has a head where a log's owner cannot change it can prove of every chunk up to there that it
//! was neither changed nor removed, except by the recorder itself for room or age.
//!
//! The ledger is divided into segments. A segment begins with the sums of all before it, so that
//! the oldest can be deleted: the ledger stays within its maximum however long a log lives.

mod entry;
mod head;
mod journal;
mod scan;
mod state;

pub use entry::Deletion;
pub use head::{Head, read_heads};

pub(crate) use entry::{ChunkEntry, Entry, Hole};
pub(crate) use head::{Digest, digest};
pub(crate) use journal::{Journal, ledger_len_max};
pub(crate) use scan::{Damage, Step, ledger_bytes, scan, scan_newest};
pub(crate) use state::{FileEntry, LedgerState};
