//! Lists of indicators: addresses, domain names and JA4 fingerprints, reloaded while in use.

pub mod addresses;
mod file;
pub mod names;
mod rows;

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

pub use file::Account;
pub(crate) use rows::{ListStates, RowLook};

use crate::settings::{IndicatorKind, IndicatorSettings};
use file::Entries;

/// Lists that rules about flows may name.
pub const LISTS_OF_RULES_MAX: usize = 15;

/// Entries of a list, unless another maximum is given.
const ENTRIES_MAX: usize = 2_000_000;

/// How often files are examined.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The lists of a run. A look-up takes what is loaded now; a file that changed is read alongside it
/// and put in its place whole, so that no look-up waits or sees part of a list.
pub struct Lists {
    lists: Vec<List>,
    wanted: AtomicBool,
    is_over: Mutex<bool>,
    over: Condvar,
}

struct List {
    settings: IndicatorSettings,
    loaded: RwLock<Arc<LoadedList>>,
    reloads: AtomicU64,
    failures: AtomicU64,
    /// Why it was not reloaded.
    failed: Mutex<Option<String>>,
    stamps: Mutex<Stamps>,
}

struct LoadedList {
    entries: Entries,
    account: Account,
}

/// When a file changed, and its size.
type Stamp = (Option<SystemTime>, u64);

#[derive(Default)]
struct Stamps {
    loaded: Stamp,
    seen: Stamp,
}

/// How a list is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListState {
    /// Its name.
    pub name: String,
    /// What was read of its file.
    pub account: Account,
    /// How often it was reloaded.
    pub reloads: u64,
    /// How often that failed; the entries before stay then.
    pub failures: u64,
    /// Why it failed last, if it did not succeed since.
    pub failed: Option<String>,
}

fn stamp(path: &Path) -> io::Result<Stamp> {
    let facts = fs::metadata(path)?;
    Ok((facts.modified().ok(), facts.len()))
}

impl List {
    fn read(settings: &IndicatorSettings) -> io::Result<LoadedList> {
        let max = settings.entries_max.unwrap_or(ENTRIES_MAX);
        let file::Contents { entries, account } = file::read(&settings.file, settings.kind, max)?;
        Ok(LoadedList { entries, account })
    }

    fn open(settings: &IndicatorSettings) -> io::Result<Self> {
        // Before it is read: what changes while it is read is read again.
        let stamp = stamp(&settings.file)?;
        let loaded = Self::read(settings)?;
        Ok(Self {
            settings: settings.clone(),
            loaded: RwLock::new(Arc::new(loaded)),
            reloads: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            failed: Mutex::default(),
            stamps: Mutex::new(Stamps { loaded: stamp, seen: stamp }),
        })
    }

    fn loaded(&self) -> Arc<LoadedList> {
        Arc::clone(&self.loaded.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reloads it where its file changed and is at rest since the look before, or where that is
    /// asked for. A file that is still being written is thus not read in part.
    fn look(&self, is_wanted: bool) {
        let mut stamps = self.stamps.lock().unwrap_or_else(PoisonError::into_inner);
        let done = stamp(&self.settings.file).and_then(|stamp| {
            let is_at_rest = stamp == stamps.seen;
            stamps.seen = stamp;
            if !is_wanted && (stamp == stamps.loaded || !is_at_rest) {
                return Ok(false);
            }
            let loaded = Arc::new(Self::read(&self.settings)?);
            stamps.loaded = stamp;
            let mut place = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
            let before = std::mem::replace(&mut *place, loaded);
            drop(place);
            // A million entries are freed here, not under the lock.
            drop(before);
            Ok(true)
        });
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        match done {
            Ok(false) => {}
            Ok(true) => {
                self.reloads.fetch_add(1, Relaxed);
                *failed = None;
            }
            Err(error) => {
                // A file that is missing for an hour failed once, not 3,600 times.
                let told = Some(error.to_string());
                self.failures.fetch_add(u64::from(*failed != told), Relaxed);
                *failed = told;
            }
        }
    }

    fn state(&self) -> ListState {
        ListState {
            name: self.settings.name.clone(),
            account: self.loaded().account.clone(),
            reloads: self.reloads.load(Relaxed),
            failures: self.failures.load(Relaxed),
            failed: self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

impl LoadedList {
    fn find(&self, text: &str) -> Option<String> {
        match &self.entries {
            Entries::Addresses(addresses) => {
                addresses.find(text.parse().ok()?).map(|prefix| prefix.to_string())
            }
            Entries::Domains(names) => names.find_domain(text).map(str::to_owned),
            Entries::Fingerprints(names) => names.find(text).map(str::to_owned),
        }
    }
}

impl Lists {
    /// Reads all lists.
    ///
    /// # Errors
    /// Each file that cannot be read: which list, and why.
    pub fn open(settings: &[IndicatorSettings]) -> Result<Arc<Self>, Vec<(usize, io::Error)>> {
        let (mut lists, mut errors) = (Vec::new(), Vec::new());
        for (number, settings) in settings.iter().enumerate() {
            match List::open(settings) {
                Ok(list) => lists.push(list),
                Err(error) => errors.push((number, error)),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let (wanted, is_over) = (AtomicBool::new(false), Mutex::new(false));
        Ok(Arc::new(Self { lists, wanted, is_over, over: Condvar::new() }))
    }

    /// The lists of addresses with this one, a bit each: of the first [`LISTS_OF_RULES_MAX`].
    #[must_use]
    pub fn with_address(&self, address: IpAddr) -> u16 {
        self.with(|entries| match entries {
            Entries::Addresses(addresses) => addresses.find(address).is_some(),
            _ => false,
        })
    }

    /// The lists of domain names with this one, or one that it is below; as of addresses.
    #[must_use]
    pub fn with_domain(&self, name: &str) -> u16 {
        self.with(|entries| match entries {
            Entries::Domains(names) => names.find_domain(name).is_some(),
            _ => false,
        })
    }

    /// The lists of fingerprints with this one; as of addresses.
    #[must_use]
    pub fn with_ja4(&self, fingerprint: &str) -> u16 {
        self.with(|entries| match entries {
            Entries::Fingerprints(names) => names.find(fingerprint).is_some(),
            _ => false,
        })
    }

    fn with(&self, has: impl Fn(&Entries) -> bool) -> u16 {
        let lists = self.lists.iter().take(LISTS_OF_RULES_MAX).enumerate();
        let found = lists.filter(|(_, one)| has(&one.loaded().entries));
        found.fold(0, |all, (list, _)| all | 1 << list)
    }

    /// Whether any list is of names or fingerprints.
    #[must_use]
    pub fn has_names(&self) -> bool {
        self.lists.iter().any(|one| one.settings.kind != IndicatorKind::Ip)
    }

    /// How each list is.
    #[must_use]
    pub fn states(&self) -> Vec<ListState> {
        self.lists.iter().map(List::state).collect()
    }

    /// Asks for all files to be read again; returns before that is done.
    pub fn reload(&self) {
        self.wanted.store(true, Relaxed);
        self.over.notify_all();
    }

    /// Looks at the files until it is over.
    pub(crate) fn watch(&self) {
        let mut is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_over {
            let waited = self.over.wait_timeout(is_over, LOOK_EVERY);
            is_over = waited.unwrap_or_else(PoisonError::into_inner).0;
            if *is_over {
                return;
            }
            drop(is_over);
            let is_wanted = self.wanted.swap(false, Relaxed);
            self.lists.iter().for_each(|list| list.look(is_wanted));
            is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends [`watch`](Self::watch).
    pub(crate) fn end(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.over.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn settings(name: &str, kind: IndicatorKind, text: &str) -> (IndicatorSettings, PathBuf) {
        let path = std::env::temp_dir().join(format!("wirelens-{}-{name}", std::process::id()));
        fs::write(&path, text).unwrap();
        let (columns, tables, entries_max, resolve_after) = (None, None, None, None);
        let (file, labels, name) = (path.clone(), Default::default(), name.to_owned());
        let settings = IndicatorSettings {
            name,
            file,
            kind,
            columns,
            tables,
            entries_max,
            resolve_after,
            labels,
        };
        (settings, path)
    }

    #[test]
    fn a_list_is_reloaded_once_its_file_is_at_rest() {
        let (list, path) = settings("reload", IndicatorKind::Ip, "192.0.2.1\n");
        let lists = Lists::open(&[list]).unwrap();
        let (old, new) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        assert!(lists.with_address(old) == 1 && lists.with_address(new) == 0);
        fs::write(&path, "192.0.2.2\n# longer\n").unwrap();
        let list = &lists.lists[0];
        list.look(false);
        assert!(lists.with_address(old) == 1, "it may still be written");
        list.look(false);
        assert!(lists.with_address(old) == 0 && lists.with_address(new) == 1);
        list.look(false);
        assert_eq!(lists.states()[0].reloads, 1);
        fs::remove_file(&path).unwrap();
        for _ in 0..3 {
            list.look(false);
        }
        let state = &lists.states()[0];
        assert_eq!((state.failures, state.failed.is_some()), (1, true));
        assert!(lists.with_address(new) == 1, "what was loaded stays");
        fs::write(&path, "192.0.2.1\n").unwrap();
        list.look(true);
        assert!(lists.with_address(old) == 1 && lists.states()[0].failed.is_none());
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn lists_are_asked_by_kind() {
        let (ip, one) = settings("kind-ip", IndicatorKind::Ip, "192.0.2.0/24\n");
        let (domain, two) = settings("kind-domain", IndicatorKind::Domain, "evil.example\n");
        let print = "t13d1516h2_8daaf6152771_b186095e22b6";
        let (ja4, three) = settings("kind-ja4", IndicatorKind::Ja4, print);
        let lists = Lists::open(&[ip, domain, ja4]).unwrap();
        assert_eq!(lists.with_address("192.0.2.9".parse().unwrap()), 0b1);
        assert_eq!(lists.with_domain("a.evil.example"), 0b10);
        assert_eq!(lists.with_ja4(print), 0b100);
        assert_eq!(lists.with_ja4("evil.example"), 0);
        [one, two, three].iter().for_each(|path| fs::remove_file(path).unwrap());
        let (gone, path) = settings("gone", IndicatorKind::Ip, "");
        fs::remove_file(path).unwrap();
        assert_eq!(Lists::open(&[gone]).err().unwrap().len(), 1);
    }
}
