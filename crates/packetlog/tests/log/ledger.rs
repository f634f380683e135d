//! Whatever is changed in a log or its ledger is found, up to the last head that was anchored.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use packetlog::ledger::{Head, read_heads};
use packetlog::log::{Finding, Log, VerifyReport, compress, recover, verify};
use packetlog::recorder::{RecorderOptions, WhenFull};
use proptest::prelude::*;

use super::lab::*;

pub(super) fn small_files(folder: &Path) -> RecorderOptions {
    RecorderOptions { file_len_max: 256 << 10, ..options(folder) }
}

fn head(folder: &Path) -> Head {
    verify(folder, &[]).unwrap().records.unwrap().1
}

pub(super) fn copy(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for path in files(from, "") {
        std::fs::copy(&path, to.path().join(path.file_name().unwrap())).unwrap();
    }
    to
}

/// A log of several files, recorded in two runs with a change of mode, and its head.
fn log() -> (tempfile::TempDir, Head) {
    let folder = tempfile::tempdir().unwrap();
    let (mut recorder, _) = begin(small_files(folder.path()));
    for number in 0..5000 {
        if number == 2500 {
            recorder.mode(2, "log-all");
        }
        store(&mut recorder, &Packet::numbered(number), number);
    }
    recorder.finish().unwrap();
    record(small_files(folder.path()), 5000..8000);
    let head = head(folder.path());
    (folder, head)
}

pub(super) fn ledger(folder: &Path) -> Vec<PathBuf> {
    files(folder, ".jsonl")
}

pub(super) fn lines(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(&ledger(folder)[0]).unwrap();
    text.lines().map(str::to_owned).collect()
}

pub(super) fn set_lines(folder: &Path, lines: &[String]) {
    std::fs::write(&ledger(folder)[0], lines.join("\n") + "\n").unwrap();
}

#[test]
fn an_untouched_log_has_no_finding_plain_or_compressed_or_repaired() {
    let (folder, head) = log();
    let check = |when: &str| {
        let report = verify(folder.path(), &[head]).unwrap();
        assert_eq!(report.findings, [], "{when}");
        assert_eq!(report.anchored, Some(head), "{when}");
        assert!(report.is_stopped && report.files > 3 && report.chunks > 10, "{report:?}");
        assert_eq!((report.chunks_earlier, report.chunks_found, report.unclean), (0, 0, 0));
        report.chunks
    };
    let chunks = check("as recorded");
    compress(folder.path(), 1, false).unwrap();
    assert_eq!(check("compressed"), chunks);
    recover(folder.path()).unwrap();
    assert_eq!(check("after `recover`"), chunks);
    let text = std::fs::read_to_string(&ledger(folder.path())[0]).unwrap();
    for kind in ["segment", "start", "chunk", "mode", "stop"] {
        assert!(text.contains(&format!("\"{kind}\":{{")), "{kind}");
    }
    // As `docs/specs/packet-log.md` says it.
    let mut before = blake3::Hash::from_bytes([0; 32]);
    for line in text.lines() {
        let (content, hash) = line.rsplit_once(",\"hash\":\"").unwrap();
        let mut hasher = blake3::Hasher::new();
        hasher.update(before.as_bytes()).update(content.as_bytes());
        before = hasher.finalize();
        assert_eq!(hash, format!("{}\"}}", before.to_hex()));
    }
    assert_eq!(head.hash, *before.as_bytes());
}

/// Each case copies a log.
fn cases() -> ProptestConfig {
    ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_changed_byte_is_found_in_any_file_of_packets_index_or_ledger(
        at in any::<prop::sample::Index>(),
        file in any::<prop::sample::Index>(),
        bit in 0..8_u8,
        is_compressed in any::<bool>(),
    ) {
        let (folder, head) = shared();
        let folder = copy(folder);
        if is_compressed {
            compress(folder.path(), 1, false).unwrap();
        }
        let kinds = [".pcapng", ".zst", ".idx", ".keys", ".jsonl"];
        let all = kinds.iter().flat_map(|kind| files(folder.path(), kind));
        let mut all: Vec<PathBuf> = all.collect();
        all.retain(|path| path.metadata().unwrap().len() > 0);
        let path = &all[file.index(all.len())];
        let before = std::fs::read(path).unwrap();
        let mut bytes = before.clone();
        let place = at.index(bytes.len());
        bytes[place] ^= 1 << bit;
        std::fs::write(path, &bytes).unwrap();
        let report = verify(folder.path(), &[*head]).unwrap();
        // A bit of a zstd frame that no decoder reads changes no packet.
        let is_same = || {
            path.extension().unwrap() == "zst"
                && zstd::decode_all(&bytes[..]).unwrap() == zstd::decode_all(&before[..]).unwrap()
        };
        prop_assert!(!report.findings.is_empty() || is_same(), "{path:?} at {place}");
    }

    #[test]
    fn a_removed_swapped_or_cut_record_is_found_before_the_anchored_head(
        one in any::<prop::sample::Index>(),
        other in any::<prop::sample::Index>(),
        what in 0..4_u8,
    ) {
        let (folder, head) = shared();
        let folder = copy(folder);
        let mut all = lines(folder.path());
        let (one, other) = (one.index(all.len()), other.index(all.len()));
        match what {
            0 => drop(all.remove(one)),
            1 if all[one] != all[other] => all.swap(one, other),
            1 => drop(all.pop()),
            2 => all.truncate(one),
            _ => all.insert(one, all[other].clone()),
        }
        set_lines(folder.path(), &all);
        let report = verify(folder.path(), &[*head]).unwrap();
        prop_assert!(!report.findings.is_empty(), "{what}: {one} {other}");
    }
}

fn shared() -> &'static (PathBuf, Head) {
    static LOG: std::sync::OnceLock<(PathBuf, Head)> = std::sync::OnceLock::new();
    // Kept until the process ends: every case of a property copies it.
    LOG.get_or_init(|| {
        let (folder, head) = log();
        (folder.keep(), head)
    })
}

#[test]
fn a_removed_file_is_found_whatever_of_it_is_removed() {
    let (folder, head) = log();
    for path in files(folder.path(), ".pcapng") {
        let other = copy(folder.path());
        let name = path.file_stem().unwrap().to_str().unwrap();
        for part in files(other.path(), "") {
            if part.file_stem().unwrap().to_str().unwrap() == name {
                std::fs::remove_file(part).unwrap();
            }
        }
        let found = verify(other.path(), &[head]).unwrap().findings;
        assert!(matches!(&found[..], [Finding::Missing { file, .. }] if file == name), "{found:?}");
        // A recorder that starts records that it is gone, and so it stays known.
        record(small_files(other.path()), 8000..8010);
        let found = verify(other.path(), &[head]).unwrap().findings;
        assert!(matches!(&found[..], [Finding::Gone { file, .. }] if file == name), "{found:?}");
    }
}

#[test]
fn a_chunk_that_is_cut_off_or_added_is_found() {
    let (folder, head) = log();
    let path = files(folder.path(), ".pcapng").remove(0);
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..64 << 10]).unwrap();
    recover(folder.path()).unwrap();
    let found = verify(folder.path(), &[head]).unwrap().findings;
    assert!(found.iter().all(|found| matches!(found, Finding::Removed(_))), "{found:?}");
    assert!(!found.is_empty());
    // A whole chunk of the log, at the end of a file that is complete.
    let twice = [&whole[..], &whole[..64 << 10]].concat();
    std::fs::write(&path, twice).unwrap();
    let found = verify(folder.path(), &[head]).unwrap().findings;
    assert!(found.iter().any(|found| matches!(found, Finding::Added(_))), "{found:?}");
}

#[test]
fn a_ledger_rewritten_with_right_hashes_is_found_by_an_anchor_alone() {
    let (folder, head) = log();
    let other = tempfile::tempdir().unwrap();
    record(small_files(other.path()), 0..7000);
    record(small_files(other.path()), 7000..8000);
    let unanchored = verify(other.path(), &[]).unwrap();
    assert_eq!((unanchored.findings, unanchored.anchored), (vec![], None));
    let report = verify(other.path(), &[head]).unwrap();
    let is_found = |found: &Finding| matches!(found, Finding::Rewritten(_) | Finding::Truncated(_));
    assert!(report.findings.len() == 1 && is_found(&report.findings[0]), "{report:?}");
    assert!(verify(folder.path(), &[head]).unwrap().findings.is_empty());
    // Without a record that follows the anchored one, the end is cut off.
    let later = Head { number: head.number + 5, ..head };
    let report = verify(folder.path(), &[later]).unwrap();
    assert_eq!(report.findings, [Finding::Truncated(later)]);
}

/// What a record says, without its number and hash.
pub(super) fn content(line: &str) -> String {
    line.split_once(',').unwrap().1.rsplit_once(",\"hash").unwrap().0.to_owned()
}

/// Records with numbers and hashes that are right, whatever they say.
pub(super) fn sealed(contents: &[String]) -> Vec<String> {
    let (mut lines, mut before) = (Vec::new(), [0; 32]);
    for (number, content) in (1..).zip(contents) {
        let line = format!("{{\"n\":{number},{content}");
        let hash = blake3::Hasher::new().update(&before).update(line.as_bytes()).finalize();
        before = *hash.as_bytes();
        lines.push(format!("{line},\"hash\":\"{hash}\"}}"));
    }
    lines
}

#[test]
fn sums_of_a_ledger_that_someone_else_wrote_end_at_the_largest_number() {
    let folder = tempfile::tempdir().unwrap();
    record(small_files(folder.path()), 0..5000);
    let lines = lines(folder.path());
    let mut contents = vec![content(&lines[0])];
    for file in files(folder.path(), ".pcapng").iter().take(2) {
        let file = file.file_stem().unwrap().to_str().unwrap();
        contents.push(format!(
            "\"earlier\":{{\"file\":\"{file}\",\"chunks\":{0},\"end\":{0},\"packets\":{0}}}",
            u64::MAX
        ));
    }
    assert_eq!(contents.len(), 3);
    set_lines(folder.path(), &sealed(&contents));
    let report = verify(folder.path(), &[]).unwrap();
    assert_eq!(report.records.map(|(first, head)| (first, head.number)), Some((1, 3)));
    assert_eq!(report.chunks_earlier, u64::MAX);
    assert_eq!(report.findings.len(), 2, "{report:?}");
    record(small_files(folder.path()), 5000..5010);
    assert!(!verify(folder.path(), &[]).unwrap().findings.is_empty());
}

#[test]
fn what_the_recorder_deletes_for_room_is_recorded_and_no_finding() {
    let folder = tempfile::tempdir().unwrap();
    let mut heads = Vec::new();
    for round in 0..30 {
        let options = RecorderOptions {
            keep_bytes_max: Some(1 << 20),
            when_full: WhenFull::OverwriteUnimportant,
            ..small_files(folder.path())
        };
        let (mut recorder, _) = begin(options);
        for number in round * 5000..(round + 1) * 5000 {
            let packet = Packet { class: 0, ..Packet::numbered(number) };
            store(&mut recorder, &packet, number);
        }
        assert_eq!(recorder.finish().unwrap().lost, []);
        heads.push(head(folder.path()));
    }
    let report = verify(folder.path(), &heads).unwrap();
    assert_eq!(report.findings, []);
    assert_eq!(report.anchored, heads.last().copied());
    let segments = ledger(folder.path());
    assert!(segments.len() < 8, "old segments are deleted: {segments:?}");
    assert!(report.anchors_before > 0 && report.records.unwrap().0 > 1, "{report:?}");
    let bytes: u64 =
        files(folder.path(), "").iter().map(|path| path.metadata().unwrap().len()).sum();
    assert!(bytes <= (1 << 20) + 4096, "{bytes}");
    let stats = Log::open(folder.path()).unwrap().stats();
    let ledger = stats.ledger.clone().unwrap();
    let (_, deleted, packets) = ledger.deleted[0];
    assert!(deleted > 10, "{ledger:?}");
    assert_eq!(stats.total().overwritten_packets, packets);
    // The oldest records are summed up: a change of what they had is found all the same.
    let first = files(folder.path(), ".pcapng").remove(0);
    let mut bytes = std::fs::read(&first).unwrap();
    bytes[5000] ^= 1;
    std::fs::write(&first, bytes).unwrap();
    let found = verify(folder.path(), &heads).unwrap().findings;
    assert!(!found.is_empty());
}

#[test]
fn totals_are_those_of_the_ledger_if_the_account_is_removed_or_has_less() {
    let (folder, head) = log();
    let account = folder.path().join("account");
    let before = Log::open(folder.path()).unwrap().stats();
    assert!(before.ledger.as_ref().unwrap().account_fault.is_none());
    std::fs::remove_file(&account).unwrap();
    let stats = Log::open(folder.path()).unwrap().stats();
    assert_eq!((stats.total(), stats.is_whole), (before.total(), true));
    assert!(stats.ledger.unwrap().account_fault.is_some());
    let found = verify(folder.path(), &[head]).unwrap().findings;
    assert!(matches!(&found[..], [Finding::Account(_)]), "{found:?}");
    // One of another log, which has seen less.
    let other = tempfile::tempdir().unwrap();
    record(small_files(other.path()), 0..100);
    std::fs::copy(other.path().join("account"), &account).unwrap();
    let stats = Log::open(folder.path()).unwrap().stats();
    assert_eq!(stats.total(), before.total());
    let found = verify(folder.path(), &[head]).unwrap().findings;
    assert!(matches!(&found[..], [Finding::Account(_)]), "{found:?}");
}

#[test]
fn totals_and_losses_outlive_an_account_that_is_removed_damaged_or_of_less() {
    let folder = tempfile::tempdir().unwrap();
    let small = RecorderOptions { keep_bytes_max: Some(1 << 20), ..small_files(folder.path()) };
    let (mut recorder, _) = begin(small);
    for number in 0..20_000 {
        store(&mut recorder, &Packet::numbered(number), number);
    }
    let [(_, lost)] = recorder.finish().unwrap().lost[..] else { panic!("the log was not full") };
    let account = folder.path().join("account");
    let of_less = tempfile::tempdir().unwrap();
    record(small_files(of_less.path()), 0..100);
    for round in 0..3 {
        match round {
            0 => std::fs::remove_file(&account).unwrap(),
            1 => std::fs::write(&account, "none").unwrap(),
            _ => drop(std::fs::copy(of_less.path().join("account"), &account).unwrap()),
        }
        record(small_files(folder.path()), 20_000 + round * 100..20_000 + (round + 1) * 100);
        let total = Log::open(folder.path()).unwrap().stats().total();
        let seen = 20_000 + u64::from(round + 1) * 100;
        assert_eq!((total.seen_packets, total.lost_packets), (seen, lost), "{round}");
        let report = verify(folder.path(), &[head(folder.path())]).unwrap();
        assert_eq!(report.findings, [], "{round}");
    }
}

#[test]
fn a_recorder_that_forgot_totals_is_found_by_the_accounts_before() {
    // As of a recorder that began a smaller account: the ledger of a log of less, renumbered.
    let (folder, _) = log();
    let text = std::fs::read_to_string(&ledger(folder.path())[0]).unwrap();
    let mut before = blake3::Hash::from_bytes([0; 32]);
    let mut starts = 0;
    let mut forged = String::new();
    for line in text.lines() {
        let (content, _) = line.rsplit_once(",\"hash\":\"").unwrap();
        let mut content = content.to_owned();
        if content.contains("\"start\":{") {
            starts += 1;
            if starts == 2 {
                let at = content.find("class\\tbenign\\t").unwrap() + 15;
                content.insert_str(at, "1\\t1\\t1\\t1\\t1\\t1\\nother\\t");
            }
        }
        let mut hasher = blake3::Hasher::new();
        before = hasher.update(before.as_bytes()).update(content.as_bytes()).finalize();
        forged.push_str(&format!("{content},\"hash\":\"{}\"}}\n", before.to_hex()));
    }
    std::fs::write(&ledger(folder.path())[0], forged).unwrap();
    let found = verify(folder.path(), &[]).unwrap().findings;
    let is_fall = |found: &Finding| matches!(found, Finding::Account(text) if text.contains("rec"));
    assert!(found.len() == 1 && is_fall(&found[0]), "{found:?}");
}

#[test]
fn a_log_of_a_version_before_ledgers_is_read_and_gets_one() {
    let (folder, _) = log();
    for path in ledger(folder.path()) {
        std::fs::remove_file(path).unwrap();
    }
    let report = verify(folder.path(), &[]).unwrap();
    assert_eq!(report, VerifyReport::default());
    assert!(Log::open(folder.path()).unwrap().stats().ledger.is_none());
    record(small_files(folder.path()), 8000..9000);
    let report = verify(folder.path(), &[]).unwrap();
    assert_eq!(report.findings, []);
    assert!(report.chunks_earlier > 10 && report.chunks > 0, "{report:?}");
    assert_eq!(numbers(folder.path()), (0..9000).collect::<Vec<_>>());
}

#[test]
fn a_torn_record_of_a_killed_recorder_is_repaired_and_unrecorded_blocks_are_recorded() {
    let (folder, head) = log();
    // As if it had been killed before it recorded its last two blocks, in the middle of a record.
    let all = lines(folder.path());
    let cut = all.iter().rposition(|line| line.contains("\"chunk\":{")).unwrap() - 1;
    let torn = all[..cut].join("\n") + "\n" + &all[cut][..20];
    std::fs::write(&ledger(folder.path())[0], torn).unwrap();
    let killed = verify(folder.path(), &[]).unwrap();
    assert!(!killed.is_stopped && killed.findings.is_empty(), "{killed:?}");
    assert!(killed.chunks_unrecorded > 0);
    // With a head of later, it is no longer taken for that.
    let found = verify(folder.path(), &[head]).unwrap().findings;
    assert_eq!(found, [Finding::Truncated(head)]);
    recover(folder.path()).unwrap();
    let recovered = verify(folder.path(), &[]).unwrap();
    assert_eq!(recovered.findings, []);
    assert_eq!(
        (recovered.chunks_unrecorded, recovered.chunks_found),
        (0, killed.chunks_unrecorded)
    );
    record(small_files(folder.path()), 8000..9000);
    let report = verify(folder.path(), &[]).unwrap();
    assert_eq!((report.findings, report.unclean), (vec![], 1));
}

#[test]
fn a_damaged_ledger_stays_as_evidence_and_another_segment_continues() {
    let (folder, head) = log();
    let mut all = lines(folder.path());
    all[5] = all[5].replace("packets\":", "packets\":1");
    set_lines(folder.path(), &all);
    record(small_files(folder.path()), 8000..9000);
    assert_eq!(ledger(folder.path()).len(), 2);
    let report = verify(folder.path(), &[head]).unwrap();
    let is_damage = |found: &&Finding| matches!(found, Finding::Ledger { line: 6, .. });
    assert!(report.findings.iter().any(|found| is_damage(&found)), "{report:?}");
}

#[test]
fn a_start_that_was_killed_goes_on_to_list_files_without_their_content() {
    for cut in 0..6 {
        let (folder, _) = log();
        for path in ledger(folder.path()) {
            std::fs::remove_file(path).unwrap();
        }
        record(small_files(folder.path()), 8000..8001);
        let earlier = verify(folder.path(), &[]).unwrap().chunks_earlier;
        // The segment, some of the files, and a part of the next record.
        let mut text = lines(folder.path())[..cut].join("\n");
        text.push_str(if cut > 0 { "\n{\"n\":" } else { "{\"n\":" });
        std::fs::write(&ledger(folder.path())[0], text).unwrap();
        record(small_files(folder.path()), 8001..8002);
        let report = verify(folder.path(), &[]).unwrap();
        assert_eq!((report.findings, report.chunks_found), (vec![], 0), "{cut}");
        assert!(report.chunks_earlier >= earlier && earlier > 0, "{cut}: {earlier}");
    }
}

#[test]
fn a_segment_that_begins_with_a_line_too_long_to_read_is_kept_as_evidence() {
    let (folder, head) = log();
    let long = folder.path().join("ledger-000002.jsonl");
    std::fs::write(&long, vec![b' '; 32 << 20]).unwrap();
    record(small_files(folder.path()), 8000..8100);
    assert_eq!(long.metadata().unwrap().len(), 32 << 20);
    let report = verify(folder.path(), &[head]).unwrap();
    assert_eq!(report.anchored, Some(head));
    let is_long = |found: &Finding| matches!(found, Finding::Ledger { path, .. } if *path == long);
    assert!(report.findings.iter().any(is_long), "{report:?}");
    // A killed recorder can have left a shorter one.
    std::fs::write(&long, vec![b' '; 1 << 20]).unwrap();
    std::fs::remove_file(folder.path().join("ledger-000003.jsonl")).unwrap();
    record(small_files(folder.path()), 8100..8200);
    assert!(!long.exists());
}

#[test]
fn heads_are_appended_to_a_file_elsewhere() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = elsewhere.path().join("heads");
    for round in 0..2 {
        let options = RecorderOptions { anchor: Some(path.clone()), ..small_files(folder.path()) };
        record(options, round * 3000..(round + 1) * 3000);
    }
    let heads = read_heads(&std::fs::read_to_string(&path).unwrap());
    assert_eq!(heads.len(), 4);
    assert_eq!(heads.iter().map(|head| head.number).collect::<BTreeSet<_>>().len(), 4);
    let report = verify(folder.path(), &heads).unwrap();
    assert_eq!((&report.findings[..], report.anchored), (&[][..], heads.last().copied()));
    let inside =
        RecorderOptions { anchor: Some(folder.path().join("heads")), ..small_files(folder.path()) };
    let refused = packetlog::recorder::Recorder::create(
        inside,
        &classes(),
        &packet::file::Section::default(),
        clock,
    );
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("in the log's own folder"), "{refused}");
}
