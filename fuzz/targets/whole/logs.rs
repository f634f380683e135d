//! Folders of the packet log that someone else has written into: nothing panics, what reads them
//! ends, and a recorder that starts on one records.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use fuzz::input::Input;
use fuzz::place::fresh;
use fuzz::recorded::{PACKETS, base, record_within, walk};
use packetlog::ledger::{Head, read_heads};
use packetlog::log::{Log, head, recover, verify};
use session::packetlog::verified_lines;

const CHANGES_MAX: usize = 8;
/// What is between the content of a record and its hash.
const HASH_KEY: &str = ",\"hash\":\"";

/// Numbers that someone would choose.
const NUMBERS: [u64; 8] = [0, 1, 2, 0xffff_ffff, 1 << 62, i64::MAX as u64, u64::MAX - 1, u64::MAX];

/// A ledger whose records say something else, in a chain of hashes that are right.
///
/// Input: a byte that chooses the log, then changes: the record (which is left out if the upper bit
/// is set, or comes twice), the number in it that changes, and what it becomes, an index into
/// [`NUMBERS`] or eight bytes.
pub(crate) fn ledger(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let which = usize::from(input.u8());
    let files = &base()[which >> 1 & 1][which & 1];
    let is_ledger = |name: &str| name.starts_with("ledger-");
    let text = files.iter().find(|(name, _)| is_ledger(name)).expect("a ledger");
    let text = String::from_utf8_lossy(&text.1);
    let mut contents: Vec<String> =
        text.lines().filter_map(|line| Some(line.rsplit_once(HASH_KEY)?.0.to_owned())).collect();
    for _ in 0..CHANGES_MAX {
        if input.is_empty() {
            break;
        }
        change(&mut contents, &mut input);
    }
    let folder = fresh("ledger");
    for (name, bytes) in files.iter().filter(|(name, _)| !is_ledger(name)) {
        fs::write(folder.join(name), bytes).expect("room for a file");
    }
    let (sealed, last) = sealed(&contents);
    fs::write(folder.join("ledger-000001.jsonl"), sealed).expect("room for a file");
    read_all(&folder, &[last]);
    assert!(walk(&folder) <= u64::from(PACKETS));
    let _ = recover(&folder);
    let _ = record_within(&folder, PACKETS..PACKETS + 2, 40 << 10);
    read_all(&folder, &[]);
    let _ = fs::remove_dir_all(&folder);
}

fn change(contents: &mut Vec<String>, input: &mut Input<'_>) {
    let (record, place, value) = (input.u8(), input.u8(), input.u8());
    if contents.is_empty() {
        return;
    }
    let at = usize::from(record & 0x3f) % contents.len();
    match record >> 6 {
        2 => drop(contents.remove(at)),
        3 => contents.push(contents[at].clone()),
        _ => {
            let value = NUMBERS.get(usize::from(value)).copied();
            let value = value.unwrap_or_else(|| input.u64());
            contents[at] = with_number(&contents[at], usize::from(place), value);
        }
    }
}

/// A text in which one of the numbers, counted and in turn, is another.
fn with_number(text: &str, place: usize, value: u64) -> String {
    let is_digit = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let is_start = |&at: &usize| is_digit(at) && (at == 0 || !is_digit(at - 1));
    let starts: Vec<usize> = (0..text.len()).filter(is_start).collect();
    let Some(start) = starts.get(place % starts.len().max(1)).copied() else { return text.into() };
    let end = (start..).find(|&at| !is_digit(at)).unwrap_or(text.len());
    format!("{}{value}{}", &text[..start], &text[end..])
}

/// Records with numbers and hashes that are right, and the head of the last.
fn sealed(contents: &[String]) -> (String, Head) {
    let (mut text, mut head) = (String::new(), Head::default());
    for content in contents {
        head.number += 1;
        let rest = content.split_once(',').map_or("", |(_, rest)| rest);
        let line = format!("{{\"n\":{},{rest}", head.number);
        let hash = blake3::Hasher::new().update(&head.hash).update(line.as_bytes()).finalize();
        head.hash = *hash.as_bytes();
        text.push_str(&format!("{line}{HASH_KEY}{hash}\"}}\n"));
    }
    (text, head)
}

/// What reads a log and its ledger.
fn read_all(folder: &Path, anchors: &[Head]) {
    if let Ok(report) = verify(folder, anchors) {
        assert!(!verified_lines(&report, anchors).is_empty());
    }
    if let Ok(Some(head)) = head(folder) {
        assert_eq!(read_heads(&head.to_string()), [head]);
    }
    if let Ok(log) = Log::open(folder) {
        let stats = log.stats();
        let _ = (stats.total(), stats.share());
    }
}

/// A folder in which files of a log are missing, cut, changed, or something else.
///
/// Input: a byte that chooses the log, then for files: which, what happens to it, and two bytes.
pub(crate) fn start(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let which = usize::from(input.u8());
    let folder = fresh("start");
    let files = &base()[which >> 1 & 1][which & 1];
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).expect("room for a file");
    }
    let others = ["ledger-000002.jsonl", "ledger-18446744073709551615.jsonl", "account.partial"];
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).chain(others).collect();
    for _ in 0..CHANGES_MAX {
        if input.is_empty() {
            break;
        }
        let path = folder.join(names[usize::from(input.u8()) % names.len()]);
        damage(&path, &mut input);
    }
    read_all(&folder, &[]);
    let _ = recover(&folder);
    if record_within(&folder, PACKETS..PACKETS + 2, 1 << 20) {
        let _ = record_within(&folder, PACKETS..PACKETS + 8, 40 << 10);
    }
    read_all(&folder, &[]);
    assert!(fs::read_dir(&folder).expect("a folder").count() < 64);
    let _ = fs::remove_dir_all(&folder);
}

fn damage(path: &Path, input: &mut Input<'_>) {
    let (what, value) = (input.u8(), usize::from(input.u16()));
    let mut bytes = fs::read(path).unwrap_or_default();
    let _ = fs::remove_file(path);
    match what % 6 {
        0 => return,
        1 => bytes.truncate(value),
        2 => {
            let len = input.u8();
            let written = input.bytes(usize::from(len));
            let at = value % (bytes.len() + 1);
            bytes.resize(bytes.len().max(at + written.len()), 0);
            bytes[at..at + written.len()].copy_from_slice(written);
        }
        3 => bytes.extend_from_within(value % (bytes.len() + 1)..),
        4 => return drop(fs::create_dir(path)),
        _ => return drop(symlink("/dev/null", path)),
    }
    let _ = fs::write(path, bytes);
}
