//! The outcome of every packet that a log ever saw, in a file that outlives the packets.
//!
//! Files of the log are overwritten, and a disk that is full takes no trailer that could tell of a
//! loss. So the sums lie in `account`, whose bytes are taken from the disk before the first packet
//! comes and written over from then on: two slots in turn, each with a checksum, so that a reader
//! that ends in the middle of one leaves the other.
//!
//! A slot says up to which sequence number of each priority its sums reach. What chunks from there
//! on say is added by the reader: a recorder that was killed leaves no more uncounted than what it
//! had not yet written to the disk at all.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::cause::Cause;
use crate::index::ClassRow;
use crate::log::LogFile;
use crate::own::{Access, create_own, open_in_to_write, open_own};

/// Its name in the log's folder.
pub(crate) const FILE_NAME: &str = "account";
const PARTIAL_NAME: &str = "account.partial";
const MAGIC: &[u8; 8] = b"WLACCNT1";
/// Magic, generation, length of the text, checksum.
const HEAD_LEN: usize = 24;
/// A slot is a multiple of this; disks take one in one go.
const SLOT_STEP: usize = 4096;
/// Bytes of a slot at most, and so many of a file that are believed.
const SLOT_LEN_MAX: usize = 1 << 20;
/// Bytes of a class's line at most: a name of 64 bytes and six numbers.
const CLASS_LINE_LEN: usize = 208;
/// Classes by name; those that come later are put together.
const CLASS_COUNT_MAX: usize = 1024;
/// Sequence numbers beyond are no recorder's.
pub(crate) const SEQUENCE_MAX: u64 = 1 << 62;
/// The name under which classes without one are added up.
pub(crate) const UNKNOWN: &str = "unknown";

/// The outcome of every packet that a log ever saw.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Account {
    /// By class, by name: recorders of one log may number them differently.
    pub(crate) classes: Vec<(String, ClassRow)>,
    /// What the next chunk of a priority will say.
    pub(crate) owed: Vec<(u8, String, ClassRow)>,
    /// The sequence number of each priority up to which chunks are counted in.
    pub(crate) next: Vec<(u8, u64)>,
    /// Packets lost, by cause.
    pub(crate) lost: [u64; Cause::ALL.len()],
    /// Packets that the capture lost before the log saw them.
    pub(crate) ring_lost: u64,
}

impl Account {
    /// Adds the outcome of packets of a class.
    pub(crate) fn add(&mut self, name: &str, row: &ClassRow) {
        let row = ClassRow { overwritten_packets: 0, overwritten_bytes: 0, ..*row };
        let is_full = self.classes.len() >= CLASS_COUNT_MAX;
        match self.classes.iter_mut().find(|(known, _)| known == name) {
            Some((_, sums)) => sums.add(&row),
            None if is_full && name != UNKNOWN => self.add(UNKNOWN, &row),
            None => self.classes.push((name.to_owned(), row)),
        }
    }

    /// Packets that were stored are not there any more, though nothing should have deleted them.
    pub(crate) fn lose_stored(&mut self, name: &str, row: &ClassRow) {
        if let Some((_, sums)) = self.classes.iter_mut().find(|(known, _)| known == name) {
            *sums = sums.without_stored(row);
        }
    }

    /// The sequence number up to which chunks of a priority are counted in.
    pub(crate) fn next_of(&self, priority: u8) -> u64 {
        self.next.iter().find(|(known, _)| *known == priority).map_or(0, |(_, next)| *next)
    }

    /// From here on chunks of a priority are not counted in.
    pub(crate) fn set_next(&mut self, priority: u8, next: u64) {
        match self.next.iter_mut().find(|(known, _)| *known == priority) {
            Some((_, known)) => *known = next,
            None => self.next.push((priority, next)),
        }
    }

    /// What is less here than in an earlier account of the same log, where all only grows.
    pub(crate) fn falls_short_of(&self, earlier: &Self) -> Option<String> {
        let seen = |account: &Self, name: &str| {
            let known = account.classes.iter().find(|(known, _)| known == name);
            known.map_or(0, |(_, row)| row.seen_packets)
        };
        let of_class = earlier.classes.iter().find_map(|(name, row)| {
            let (now, before) = (seen(self, name), row.seen_packets);
            (now < before).then(|| format!("{now} packets of {name} received, before {before}"))
        });
        let of_cause = || {
            let pairs = Cause::ALL.iter().zip(self.lost.iter().zip(&earlier.lost));
            let mut shorter = pairs.filter(|(_, (now, before))| now < before);
            let (cause, (now, before)) = shorter.next()?;
            Some(format!("{now} packets lost for {cause}, before {before}"))
        };
        let of_ring = || {
            let (now, before) = (self.ring_lost, earlier.ring_lost);
            (now < before).then(|| format!("{now} packets dropped by the capture, before {before}"))
        };
        of_class.or_else(of_cause).or_else(of_ring)
    }

    /// Counts the chunks in that came after the account was last written.
    pub(crate) fn settle<'a>(&mut self, files: impl Iterator<Item = &'a LogFile>) {
        let before = self.next.clone();
        let counted = |priority| before.iter().find(|(known, _)| *known == priority);
        let mut settled = Vec::new();
        for file in files {
            let priority = file.name.priority;
            let counted = counted(priority).map_or(0, |(_, next)| *next);
            for record in &file.chunks {
                let trailer = &record.trailer;
                if trailer.sequence < counted || trailer.sequence > SEQUENCE_MAX {
                    continue;
                }
                for row in &trailer.rows {
                    self.add(file.class_name(row.class), row);
                }
                if !trailer.is_repaired {
                    settled.push(priority);
                }
                if trailer.sequence >= self.next_of(priority) {
                    self.set_next(priority, trailer.sequence + 1);
                }
            }
        }
        for (priority, name, row) in std::mem::take(&mut self.owed) {
            // The first chunk after it has said it already.
            if !settled.contains(&priority) {
                self.add(&name, &row);
            }
        }
    }

    /// The sums of a log that has no account: what its files say, which is nothing of packets that
    /// were seen before the oldest of them.
    pub(crate) fn of_files<'a>(files: impl Iterator<Item = &'a LogFile> + Clone) -> Self {
        let mut account = Self::default();
        account.settle(files.clone());
        for file in files {
            for row in file.chunks.iter().flat_map(|record| &record.trailer.rows) {
                let gone = ClassRow {
                    class: row.class,
                    seen_packets: row.overwritten_packets,
                    stored_packets: row.overwritten_packets,
                    kept_bytes: row.overwritten_bytes,
                    ..ClassRow::default()
                };
                if row.overwritten_packets > 0 {
                    account.add(file.class_name(row.class), &gone);
                }
            }
        }
        account
    }

    /// As lines: a word and what it says, parted by tabs.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let line = |text: &mut String, words: &[&str], row: &ClassRow| {
            text.push_str(&words.join("\t"));
            for number in [
                row.seen_packets,
                row.seen_bytes,
                row.stored_packets,
                row.stored_bytes,
                row.kept_bytes,
                row.lost_packets,
            ] {
                text.push_str(&format!("\t{number}"));
            }
            text.push('\n');
        };
        for (name, row) in &self.classes {
            line(&mut text, &["class", &one_line(name)], row);
        }
        for (priority, name, row) in &self.owed {
            line(&mut text, &["owed", &priority.to_string(), &one_line(name)], row);
        }
        for (priority, next) in &self.next {
            text.push_str(&format!("next\t{priority}\t{next}\n"));
        }
        for &cause in Cause::ALL {
            let lost = self.lost.get(cause as usize).copied().unwrap_or(0);
            if lost > 0 {
                text.push_str(&format!("lost\t{cause}\t{lost}\n"));
            }
        }
        if self.ring_lost > 0 {
            text.push_str(&format!("ring_lost\t{}\n", self.ring_lost));
        }
        text
    }

    /// What [`Account::text`] wrote; lines of later versions are passed over.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut account = Self::default();
        for line in text.lines() {
            let mut words = line.split('\t');
            match words.next()? {
                "class" => {
                    let name = words.next()?;
                    account.add(name, &row(&mut words)?);
                }
                "owed" => {
                    let (priority, name) = (words.next()?.parse().ok()?, words.next()?);
                    let row = row(&mut words)?;
                    account.owed.push((priority, name.to_owned(), row));
                }
                "next" => {
                    let (priority, next) = (number(&mut words)?, number(&mut words)?);
                    if next > SEQUENCE_MAX {
                        return None;
                    }
                    account.set_next(u8::try_from(priority).ok()?, next);
                }
                "lost" => {
                    let name = words.next()?;
                    let lost = number(&mut words)?;
                    let cause = Cause::ALL.iter().find(|cause| cause.name() == name);
                    let place = cause.and_then(|&cause| account.lost.get_mut(cause as usize));
                    *place? = lost;
                }
                "ring_lost" => account.ring_lost = number(&mut words)?,
                _ => {}
            }
        }
        Some(account)
    }

    /// Bytes of a slot that has room for so many classes, twice over for what is owed of them.
    fn slot_len(&self, class_count: usize) -> usize {
        let lines = self.classes.len() + 2 * class_count + self.next.len() + 20;
        let len = HEAD_LEN + lines * CLASS_LINE_LEN;
        len.next_multiple_of(SLOT_STEP).min(SLOT_LEN_MAX)
    }
}

/// A name without what would end it.
pub(crate) fn one_line(name: &str) -> String {
    name.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

fn number<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<u64> {
    words.next()?.parse().ok()
}

fn row<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<ClassRow> {
    Some(ClassRow {
        seen_packets: number(words)?,
        seen_bytes: number(words)?,
        stored_packets: number(words)?,
        stored_bytes: number(words)?,
        kept_bytes: number(words)?,
        lost_packets: number(words)?,
        ..ClassRow::default()
    })
}

/// What is in the file of an account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum AccountSlot {
    /// There is none: a recorder before accounts wrote this log.
    None,
    /// Neither slot is whole.
    Damaged,
    /// The younger of the slots that are whole, and its generation.
    Whole(Box<Account>, u64),
}

/// Reads the account of a log.
pub(crate) fn read(folder: &Path) -> io::Result<AccountSlot> {
    let file = match open_own(&folder.join(FILE_NAME)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(AccountSlot::None),
        Err(error) => return Err(error),
    };
    read_from(&file)
}

/// Why the account of a folder is not to be believed, by what its ledger recorded of it: it may
/// only have more.
pub(crate) fn shortfall(folder: &Path, recorded: &Account) -> Option<String> {
    match read(folder) {
        Ok(AccountSlot::Whole(account, _)) => account.falls_short_of(recorded),
        Ok(AccountSlot::None) => Some(String::from("removed")),
        Ok(AccountSlot::Damaged) => Some(String::from("damaged")),
        Err(error) => Some(error.to_string()),
    }
}

fn read_from(file: &File) -> io::Result<AccountSlot> {
    let len = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    if len > 2 * SLOT_LEN_MAX {
        return Ok(AccountSlot::Damaged);
    }
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0)?;
    let (first, second) = bytes.split_at(len / 2);
    let whole = [first, second].into_iter().filter_map(read_slot);
    Ok(match whole.max_by_key(|(_, generation)| *generation) {
        Some((account, generation)) => AccountSlot::Whole(Box::new(account), generation),
        None => AccountSlot::Damaged,
    })
}

fn read_slot(slot: &[u8]) -> Option<(Account, u64)> {
    let rest = slot.strip_prefix(MAGIC)?;
    let (generation, rest) = rest.split_first_chunk::<8>()?;
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<4>()?;
    let text = rest.get(..u32::from_le_bytes(*len) as usize)?;
    if checksum(generation, len, text) != u32::from_le_bytes(*sum) {
        return None;
    }
    let account = Account::parse(std::str::from_utf8(text).ok()?)?;
    Some((account, u64::from_le_bytes(*generation)))
}

fn checksum(generation: &[u8; 8], len: &[u8; 4], text: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    for part in [&generation[..], &len[..], text] {
        sum.update(part);
    }
    sum.finalize()
}

/// The file of an account, whose bytes are the log's already.
#[derive(Debug)]
pub(crate) struct AccountFile {
    folder: PathBuf,
    /// The folder itself, wherever it is mounted.
    handle: File,
    access: Access,
    slot_len: usize,
    generation: u64,
}

impl AccountFile {
    /// Opens the account of a folder for a recorder with so many classes, or makes one of `begun`.
    /// From then on it needs no more of the disk.
    pub(crate) fn open(
        folder: &Path,
        begun: &Account,
        class_count: usize,
        access: Access,
    ) -> io::Result<Self> {
        let mut made = Self {
            folder: folder.to_owned(),
            handle: File::open(folder)?,
            access,
            slot_len: begun.slot_len(class_count),
            generation: 0,
        };
        if made.goes_on()? {
            made.write(begun, true)?;
        } else {
            made.make(begun)?;
        }
        Ok(made)
    }

    /// Whether one is there that has room, and whose bytes are on the disk.
    fn goes_on(&mut self) -> io::Result<bool> {
        let file = match open_own(&self.folder.join(FILE_NAME)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let AccountSlot::Whole(_, generation) = read_from(&file)? else { return Ok(false) };
        let metadata = file.metadata()?;
        let slot_len = usize::try_from(metadata.len() / 2).unwrap_or(0);
        let is_taken = metadata.blocks().saturating_mul(512) >= metadata.len();
        let fits = slot_len >= self.slot_len && slot_len.is_multiple_of(SLOT_STEP) && is_taken;
        if fits {
            (self.slot_len, self.generation) = (slot_len, generation);
        }
        Ok(fits)
    }

    /// Takes the bytes from the disk, and gives them their name with the account in them.
    fn make(&mut self, account: &Account) -> io::Result<()> {
        let partial = self.folder.join(PARTIAL_NAME);
        match std::fs::remove_file(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = create_own(&partial, self.access)?;
        let taken = file
            .write_all_at(&vec![0; 2 * self.slot_len], 0)
            .and_then(|()| self.write_to(&file, account, true))
            .and_then(|()| std::fs::rename(&partial, self.folder.join(FILE_NAME)))
            .and_then(|()| files::sync_folder(&self.folder));
        if taken.is_err() {
            let _ = std::fs::remove_file(&partial);
        }
        taken
    }

    /// Bytes that one takes which is made.
    pub(crate) fn len(begun: &Account, class_count: usize) -> u64 {
        2 * begun.slot_len(class_count) as u64
    }

    /// Bytes of this one.
    pub(crate) const fn file_len(&self) -> u64 {
        2 * self.slot_len as u64
    }

    /// Writes the account over the older slot; if it was deleted, it is made again.
    pub(crate) fn write(&mut self, account: &Account, sync: bool) -> io::Result<()> {
        // It is not held open: a disk may be made read-only, or unmounted, meanwhile.
        match open_in_to_write(&self.handle, FILE_NAME) {
            Ok(file) => self.write_to(&file, account, sync),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.handle = File::open(&self.folder)?;
                self.generation = 0;
                self.make(account)
            }
            Err(error) => Err(error),
        }
    }

    /// Waits until the disk has it.
    pub(crate) fn sync(&self) -> io::Result<()> {
        open_in_to_write(&self.handle, FILE_NAME)?.sync_data()
    }

    fn write_to(&mut self, file: &File, account: &Account, sync: bool) -> io::Result<()> {
        let text = account.text();
        if text.len() > self.slot_len.saturating_sub(HEAD_LEN) {
            return Err(io::Error::other("more classes than the account has room for"));
        }
        let generation = self.generation.wrapping_add(1);
        let (stamp, len) = (generation.to_le_bytes(), (text.len() as u32).to_le_bytes());
        let mut slot = Vec::with_capacity(HEAD_LEN + text.len());
        slot.extend_from_slice(MAGIC);
        slot.extend_from_slice(&stamp);
        slot.extend_from_slice(&len);
        slot.extend_from_slice(&checksum(&stamp, &len, text.as_bytes()).to_le_bytes());
        slot.extend_from_slice(text.as_bytes());
        let place = if generation.is_multiple_of(2) { self.slot_len as u64 } else { 0 };
        file.write_all_at(&slot, place)?;
        if sync {
            file.sync_data()?;
        }
        self.generation = generation;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> Account {
        let mut account = Account::default();
        let row =
            ClassRow { seen_packets: 9, stored_packets: 4, lost_packets: 3, ..ClassRow::default() };
        account.add("benign", &row);
        account.add("port\tscan", &row);
        account.owed.push((1, "benign".into(), row));
        account.set_next(0, 7);
        account.lost[Cause::DiskFull as usize] = 3;
        account.ring_lost = 5;
        account
    }

    #[test]
    fn an_account_is_read_as_it_was_written_and_a_torn_one_as_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()).unwrap(), AccountSlot::None);
        let mut first = account();
        let mut file = AccountFile::open(folder.path(), &first, 3, Access::Owner).unwrap();
        first.classes[1].0 = "port scan".into();
        let AccountSlot::Whole(got, 1) = read(folder.path()).unwrap() else { panic!() };
        assert_eq!(*got, first);
        let mut second = first.clone();
        second.ring_lost = 6;
        file.write(&second, false).unwrap();
        let AccountSlot::Whole(got, 2) = read(folder.path()).unwrap() else { panic!() };
        assert_eq!(*got, second);
        // The younger slot is torn.
        let on_disk = File::options().write(true).open(folder.path().join(FILE_NAME)).unwrap();
        on_disk.write_all_at(b"x", file.slot_len as u64 + 30).unwrap();
        let AccountSlot::Whole(got, 1) = read(folder.path()).unwrap() else { panic!() };
        assert_eq!(*got, first);
        on_disk.write_all_at(b"x", 30).unwrap();
        assert_eq!(read(folder.path()).unwrap(), AccountSlot::Damaged);
        on_disk.set_len(1 << 40).unwrap();
        assert_eq!(read(folder.path()).unwrap(), AccountSlot::Damaged);
    }

    #[test]
    fn classes_beyond_the_limit_are_put_together_and_fit() {
        let folder = tempfile::tempdir().unwrap();
        let mut all = Account::default();
        let most = ClassRow {
            class: 0,
            seen_packets: u64::MAX,
            seen_bytes: u64::MAX,
            stored_packets: u64::MAX,
            stored_bytes: u64::MAX,
            kept_bytes: u64::MAX,
            lost_packets: u64::MAX,
            overwritten_packets: 1,
            overwritten_bytes: 1,
        };
        for class in 0..3000 {
            all.add(&format!("{class:064}"), &most);
        }
        assert_eq!(all.classes.len(), CLASS_COUNT_MAX + 1);
        let file = AccountFile::open(folder.path(), &all, 800, Access::Owner).unwrap();
        assert!(file.slot_len < SLOT_LEN_MAX);
        assert!(matches!(read(folder.path()).unwrap(), AccountSlot::Whole(..)));
    }
}
