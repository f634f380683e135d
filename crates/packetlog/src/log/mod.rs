//! A log read back: found, asked, counted, repaired, compressed.
//!
//! [`Log::open`] reads the index of each file and looks itself for chunks that no record names.
//! [`Log::find`] determines from index and hashes which chunks may hold what is asked for,
//! [`Log::query`] reads those and lends the packets in time order. Every chunk that is read is
//! compared with its checksum: one that does not fit is named, counted and passed over.

mod adopt;
mod compress;
mod decode;
mod error;
mod file;
mod mend;
mod query;
mod reasons;
mod recover;
mod scan;
mod stats;
mod verify;

use std::io;
use std::path::{Path, PathBuf};

pub use compress::{CompressionReport, compress};
pub use decode::StoredPacket;
pub use error::{LogError, LogFault};
pub use query::{FlowQuery, PacketMatch, Plan, Query, QueryReport};
pub use reasons::{ReasonsReport, StoredEvidence, StoredReason};
pub(crate) use recover::{FolderLock, recover_locked};
pub use recover::{RecoveryReport, recover};
pub use stats::{ClassTotals, EVENTS_NAME, LedgerStats, LogStats, OLD_EVENTS_NAME, events_len_max};
pub use verify::{FailedWrite, Finding, Place, PowerLoss, VerifyReport, head, verify};

pub(crate) use adopt::{adopt, open_files};
pub(crate) use compress::Compressor;
pub(crate) use file::LogFile;
pub(crate) use stats::event_bytes;

use crate::account::{self, Account};
use crate::file_name::file_names;
use crate::index::ChunkFault;
use crate::own::is_none_of_ours;

/// A folder of recorded files, as it was when it was opened.
#[derive(Debug)]
pub struct Log {
    folder: PathBuf,
    files: Vec<LogFile>,
    /// Names that are no files, and an account that is damaged.
    faults: Vec<LogFault>,
    account: account::AccountSlot,
}

/// A fault of a whole file.
fn of_file(path: PathBuf, fault: ChunkFault) -> LogFault {
    LogFault { path, offset: 0, len: 0, fault }
}

/// The outcome of every packet of a log with these files: its account, or what the ledger
/// `recorded` of it if the account is missing, damaged or has less. Else the totals and losses of
/// files that are gone would be forgotten for good.
pub(crate) fn account_of(folder: &Path, files: &[LogFile], recorded: &str) -> Account {
    let recorded = Account::parse(recorded).filter(|recorded| *recorded != Account::default());
    let is_short =
        recorded.as_ref().is_some_and(|recorded| account::shortfall(folder, recorded).is_some());
    let whole = match account::read(folder) {
        _ if is_short => recorded,
        Ok(account::AccountSlot::Whole(account, _)) => Some(*account),
        // What cannot be read is as good as none: opening the log reports it.
        _ => None,
    };
    let Some(mut account) = whole else { return Account::of_files(files.iter()) };
    account.settle(files.iter());
    account
}

impl Log {
    /// Reads what the files of a folder say of themselves. A recorder may be writing there.
    ///
    /// # Errors
    /// The folder cannot be read, or one of its files cannot.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, LogError> {
        let folder = folder.into();
        let names = file_names(&folder).map_err(|error| LogError::new(&folder, error))?;
        // Before the files: what it does not count in is looked for in them.
        let account = account::read(&folder);
        let (mut files, mut faults) = (Vec::new(), Vec::new());
        for name in names {
            match LogFile::open(&folder, &name) {
                Ok(file) => files.push(file),
                // Deleted to make room between the listing and now.
                Err(LogError { error, .. }) if error.kind() == io::ErrorKind::NotFound => {}
                Err(LogError { path, error }) if is_none_of_ours(&error) => {
                    faults.push(of_file(path, ChunkFault::NoFile));
                }
                Err(error) => return Err(error),
            }
        }
        let account = account.unwrap_or(account::AccountSlot::Damaged);
        if account == account::AccountSlot::Damaged {
            faults.push(of_file(folder.join(account::FILE_NAME), ChunkFault::Account));
        }
        Ok(Self { folder, files, faults, account })
    }

    /// Where it lies.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Files in it.
    #[must_use]
    pub fn file_count(&self) -> usize {
        self.files.len()
    }

    /// What in the files is no intact chunk, so far as opening them showed.
    pub fn faults(&self) -> impl Iterator<Item = &LogFault> {
        self.files.iter().flat_map(|file| &file.faults)
    }

    /// What is damaged outside the chunks: indexes, hashes, the account, and names of files that
    /// are none. Nothing of it keeps a packet from being found.
    pub fn side_faults(&self) -> impl Iterator<Item = &LogFault> {
        self.files.iter().flat_map(|file| &file.side_faults).chain(&self.faults)
    }
}
