//! Reading the records of a ledger, each compared with its hash.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::entry::Entry;
use super::head::{Digest, Head, digest, hex, unhex};
use super::state::LedgerState;
use crate::own::open_own;

/// The longest line that is read: the sums of a segment with 100,000 files.
const LINE_LEN_MAX: u64 = 32 << 20;
/// What is between the content of a record and its hash.
const HASH_KEY: &str = ",\"hash\":\"";

/// The name of a segment.
pub(super) fn segment_name(number: u64) -> String {
    format!("ledger-{number:06}.jsonl")
}

/// Its path.
pub(super) fn segment_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(segment_name(number))
}

/// The numbers of the segments in a folder, in order.
pub(super) fn segments(folder: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let Some(name) = name.to_str() else { continue };
        let digits = name.strip_prefix("ledger-").and_then(|name| name.strip_suffix(".jsonl"));
        let number = digits.and_then(|digits| digits.parse().ok());
        let is_ours = |&number: &u64| segment_path(folder, number).ends_with(name);
        numbers.extend(number.filter(is_ours));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// A record as a line, and its head.
pub(super) fn seal(before: &Head, entry: &Entry) -> (String, Head) {
    let number = before.number.saturating_add(1);
    let (kind, content) = entry.json();
    let mut line = if matches!(entry, Entry::Segment(_)) {
        // So that a segment can be read without the one before it.
        let before = hex(&before.hash);
        format!("{{\"n\":{number},\"before\":\"{before}\",\"{kind}\":{content}")
    } else {
        format!("{{\"n\":{number},\"{kind}\":{content}")
    };
    let hash = digest(&[&before.hash, line.as_bytes()]);
    line.push_str(&format!("{HASH_KEY}{}\"}}\n", hex(&hash)));
    (line, Head { number, hash })
}

/// Why a segment cannot be read on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Damage {
    /// A line is not complete, as when a recorder is killed while it writes.
    Torn,
    /// A line has bytes that are 0, as no record has: the disk had not all of the segment when the
    /// power failed. A recorder that is killed leaves none.
    Zeros,
    /// A line is longer than is read.
    TooLong,
    /// A line is no record of a ledger.
    NoRecord,
    /// The hash of a record does not follow from its content and the record before.
    Hash,
    /// Records or segments before this one are missing.
    Gap,
}

/// A step on the way through a ledger.
pub(crate) enum Step<'a> {
    /// A record that follows from the one before.
    Record(&'a Head, &'a Entry),
    /// The rest of a segment is not read: its path, the line, why.
    Damage(&'a Path, u64, Damage),
}

/// Reads a line: number, the hash before if it begins a segment, what it says, and its hash.
fn read_line(line: &str) -> Option<(u64, Option<Digest>, Entry, Digest, &str)> {
    let (content, hash) = line.strip_suffix("\"}")?.rsplit_once(HASH_KEY)?;
    let Ok(Value::Object(fields)) = serde_json::from_str(&format!("{content}}}")) else {
        return None;
    };
    let number = fields.get("n")?.as_u64()?;
    let before = match fields.get("before") {
        Some(before) => Some(unhex(before.as_str()?)?),
        None => None,
    };
    let mut kinds = fields.iter().filter(|(name, _)| *name != "n" && *name != "before");
    let (kind, body) = kinds.next()?;
    Some((number, before, Entry::read(kind, body)?, unhex(hash)?, content))
}

/// A segment as far as it could be read.
pub(super) struct SegmentEnd {
    /// Where the last record ends.
    pub(super) end: u64,
    /// Bytes of its first record.
    pub(super) first_len: u64,
    pub(super) damage: Option<Damage>,
}

/// Reads a segment. `head` is that of the record before, if it is known; afterwards that of the
/// last record that was read.
pub(super) fn read_segment(
    path: &Path,
    head: &mut Option<Head>,
    see: &mut dyn FnMut(Step<'_>),
) -> io::Result<SegmentEnd> {
    let mut input = BufReader::with_capacity(1 << 20, open_own(path)?);
    let mut read = SegmentEnd { end: 0, first_len: 0, damage: None };
    let (mut line, mut number) = (Vec::new(), 0);
    loop {
        line.clear();
        let len = input.by_ref().take(LINE_LEN_MAX).read_until(b'\n', &mut line)?;
        if len == 0 {
            break;
        }
        number += 1;
        let is_cut = len as u64 == LINE_LEN_MAX && line.last() != Some(&b'\n');
        let damage = match record_of(&line, number == 1, *head) {
            Ok((next, entry)) => {
                *head = Some(next);
                read.end += len as u64;
                if number == 1 {
                    read.first_len = read.end;
                }
                see(Step::Record(&next, &entry));
                continue;
            }
            Err(Damage::Torn | Damage::Zeros) if is_cut => Damage::TooLong,
            Err(damage) => damage,
        };
        see(Step::Damage(path, number, damage.clone()));
        read.damage = Some(damage);
        break;
    }
    if read.first_len == 0 && read.damage.is_none() {
        see(Step::Damage(path, 1, Damage::Torn));
        read.damage = Some(Damage::Torn);
    }
    Ok(read)
}

/// The record of a line that follows `before`; the first of a segment may follow what is not
/// known.
fn record_of(line: &[u8], is_first: bool, before: Option<Head>) -> Result<(Head, Entry), Damage> {
    if line.contains(&0) {
        return Err(Damage::Zeros);
    }
    let line = line.strip_suffix(b"\n").ok_or(Damage::Torn)?;
    let line = std::str::from_utf8(line).map_err(|_| Damage::NoRecord)?;
    let (number, named, entry, hash, content) = read_line(line).ok_or(Damage::NoRecord)?;
    if is_first != matches!(entry, Entry::Segment(_)) || is_first != named.is_some() {
        return Err(if is_first { Damage::Gap } else { Damage::NoRecord });
    }
    let before_hash = named.or(before.map(|before| before.hash)).ok_or(Damage::Gap)?;
    if let Some(before) = before
        && (before.hash != before_hash || before.number.saturating_add(1) != number)
    {
        return Err(Damage::Gap);
    }
    if digest(&[&before_hash, content.as_bytes()]) != hash {
        return Err(Damage::Hash);
    }
    Ok((Head { number, hash }, entry))
}

/// Reads a whole ledger in order. A segment that does not follow the one before is read all the
/// same, after the damage was shown. Returns the numbers of its segments.
///
/// # Errors
/// The folder or a segment cannot be read.
pub(crate) fn scan(folder: &Path, see: &mut dyn FnMut(Step<'_>)) -> io::Result<Vec<u64>> {
    let numbers = segments(folder)?;
    let mut head = None;
    for (place, &number) in numbers.iter().enumerate() {
        let path = segment_path(folder, number);
        let follows = place == 0 || numbers.get(place - 1) == Some(&number.saturating_sub(1));
        if !follows {
            see(Step::Damage(&path, 1, Damage::Gap));
            head = None;
        }
        let known = head;
        let read = match read_segment(&path, &mut head, see) {
            // Deleted between the listing and now: the next one has its sums.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                head = None;
                continue;
            }
            read => read?,
        };
        if read.damage == Some(Damage::Gap) && read.end == 0 && known.is_some() {
            head = None;
            read_segment(&path, &mut head, see)?;
        } else if read.damage.is_some() {
            head = None;
        }
    }
    Ok(numbers)
}

/// Bytes of all segments in a folder.
pub(crate) fn ledger_bytes(folder: &Path) -> u64 {
    let numbers = segments(folder).unwrap_or_default().into_iter();
    let len = |number| std::fs::symlink_metadata(segment_path(folder, number)).map(|m| m.len());
    numbers.filter_map(|number| len(number).ok()).fold(0, u64::saturating_add)
}

/// What the newest segment says, without those before it; `None` if there is no ledger.
pub(crate) fn scan_newest(folder: &Path) -> io::Result<Option<(Head, LedgerState)>> {
    for number in segments(folder)?.into_iter().rev() {
        let (mut head, mut state) = (None, LedgerState::default());
        read_segment(&segment_path(folder, number), &mut head, &mut |seen| {
            if let Step::Record(_, entry) = seen {
                state.apply(entry);
            }
        })?;
        if let Some(head) = head {
            return Ok(Some((head, state)));
        }
    }
    Ok(None)
}
