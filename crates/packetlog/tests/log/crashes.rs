//! A recorder is killed at any moment: what it had acknowledged is there.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use packet::file::Section;
use packetlog::log::{Log, Query, recover};
use packetlog::recorder::{Direct, Disk, PlainDisk, Recorder, RecorderOptions};

use super::lab::*;

/// Says in the child's environment where to record, from which number, and how.
const FOLDER: &str = "WIRELENS_CRASH_FOLDER";
const FROM: &str = "WIRELENS_CRASH_FROM";
const WAY: &str = "WIRELENS_CRASH_WAY";
/// Rounds; set to more by who has the time.
const ROUNDS: &str = "WIRELENS_CRASH_ROUNDS";

const PLAIN: &str = "plain";
const DIRECT: &str = "direct";
/// Plainly, a page at a time, so that the end comes in the middle of most chunks.
const PIECES: &str = "pieces";

struct Pieces;

impl Disk for Pieces {
    fn write(&mut self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        for (index, piece) in bytes.chunks(4096).enumerate() {
            PlainDisk.write(file, piece, offset + index as u64 * 4096)?;
            std::thread::sleep(Duration::from_micros(100));
        }
        Ok(())
    }
}

/// The child: records until it is killed, and prints what was acknowledged.
fn record_until_killed(folder: PathBuf) {
    let from: u32 = std::env::var(FROM).unwrap().parse().unwrap();
    let way = std::env::var(WAY).unwrap();
    let options = RecorderOptions {
        direct: if way == DIRECT { Direct::Auto } else { Direct::Never },
        flush_after: Duration::from_micros(300),
        file_len_max: 512 << 10,
        ..options(&folder)
    };
    let disk: Option<Box<dyn Disk>> = (way == PIECES).then(|| Box::new(Pieces) as Box<_>);
    let section = Section::default();
    let (mut recorder, _) =
        Recorder::create_on(options, &classes(), &section, clock, disk).unwrap();
    recorder.interface(0, &interface());
    let state = recorder.state();
    for number in from.. {
        store(&mut recorder, &Packet::numbered(number), number);
        if number % 64 == 0 {
            recorder.on_time();
            let acknowledged: Vec<String> = state
                .streams()
                .iter()
                .map(|stream| stream.packets.load(Ordering::Relaxed).to_string())
                .collect();
            // The parent reads; when it does not, this waits, as any pipe.
            println!("acknowledged {}", acknowledged.join(" "));
        }
    }
}

fn start(test: &str, folder: &Path, from: u32, way: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(FOLDER, folder)
        .env(FROM, from.to_string())
        .env(WAY, way)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Kills a recorder after so many lines; returns what it had acknowledged of each priority.
fn run_and_kill(test: &str, folder: &Path, from: u32, way: &str, lines: u32) -> Vec<usize> {
    let mut child = start(test, folder, from, way);
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut last = vec![0, 0];
    let mut count = 0;
    let mut line = String::new();
    while count < lines {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "the recorder ended by itself");
        let Some(numbers) = line.strip_prefix("acknowledged ") else { continue };
        last = numbers.split_whitespace().map(|number| number.parse().unwrap()).collect();
        count += 1;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    last
}

/// Holds what is in the log against what was acknowledged of the numbers from `from` on.
fn audit(folder: &Path, from: u32, acknowledged: &[usize], when: &str) -> BTreeSet<u32> {
    let (got, report) = ask(folder, &Query::default());
    let _ = report;
    let found: BTreeSet<u32> = got.iter().map(|got| got.number).collect();
    assert_eq!(found.len(), got.len(), "{when}: no packet is there twice");
    for got in &got {
        let packet = Packet::numbered(got.number);
        let bytes = packet.bytes(got.number);
        let kept = &bytes[..bytes.len().min(packet.kept_len as usize)];
        assert!(got.bytes == kept, "{when}: packet {}", got.number);
    }
    for (priority, &count) in acknowledged.iter().enumerate() {
        let of_priority =
            (from..).filter(|&number| usize::from(Packet::numbered(number).class) == priority);
        for number in of_priority.take(count) {
            assert!(found.contains(&number), "{when}: {number}, acknowledged, is not there");
        }
    }
    found
}

fn kill_in_a_loop(test: &str, way: &str) {
    if let Ok(folder) = std::env::var(FOLDER) {
        return record_until_killed(folder.into());
    }
    let rounds: u32 = std::env::var(ROUNDS).map_or(10, |text| text.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let mut from = 0;
    let mut random = 0x9e37_79b9_u32;
    let (mut saved, mut before) = (0, BTreeSet::new());
    for round in 0..rounds {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let lines = 1 + (random >> 16) % 200;
        let acknowledged = run_and_kill(test, folder.path(), from, way, lines);
        let when = format!("round {round}, {acknowledged:?} acknowledged");
        audit(folder.path(), from, &acknowledged, &format!("{when}, as it was left"));
        let recovered = recover(folder.path()).unwrap();
        saved += recovered.packets_saved;
        let found = audit(folder.path(), from, &acknowledged, &format!("{when}, put right"));
        assert!(before.is_subset(&found), "{when}: earlier rounds are all there");
        assert_eq!(Log::open(folder.path()).unwrap().faults().count(), 0, "{when}");
        let again = recover(folder.path()).unwrap();
        assert_eq!((again.indexes_made, again.chunks_mended), (0, 0), "{when}: right stays right");
        from = found.last().map_or(from, |last| last + 1);
        before = found;
    }
    assert!(way != PIECES || saved > 0, "in {rounds} rounds no chunk was torn");
    println!("{rounds} rounds, {} packets, {saved} saved from torn chunks", before.len());
}

#[test]
fn what_was_acknowledged_survives_kill_9_with_plain_writes() {
    kill_in_a_loop("crashes::what_was_acknowledged_survives_kill_9_with_plain_writes", PLAIN);
}

#[test]
fn what_was_acknowledged_survives_kill_9_with_direct_writes() {
    kill_in_a_loop("crashes::what_was_acknowledged_survives_kill_9_with_direct_writes", DIRECT);
}

#[test]
fn what_was_acknowledged_survives_kill_9_in_the_middle_of_a_chunk() {
    kill_in_a_loop(
        "crashes::what_was_acknowledged_survives_kill_9_in_the_middle_of_a_chunk",
        PIECES,
    );
}

/// A log of 5,000 packets, whose last file is one of the first class.
fn small(folder: &Path) -> PathBuf {
    record(options(folder), 0..5000);
    files(folder, ".pcapng")
        .into_iter()
        .rfind(|path| path.to_str().unwrap().contains("/p0-"))
        .unwrap()
}

#[test]
fn packets_before_a_tear_are_saved_wherever_it_is() {
    for cut in [1, 13, 4096, 4097, 20_000, 40_000] {
        let folder = tempfile::tempdir().unwrap();
        let last = small(folder.path());
        let whole: BTreeSet<u32> = numbers(folder.path()).into_iter().collect();
        let file = OpenOptions::new().write(true).open(&last).unwrap();
        let len = file.metadata().unwrap().len();
        file.set_len(len - cut).unwrap();
        let recovered = recover(folder.path()).unwrap();
        let left: BTreeSet<u32> = numbers(folder.path()).into_iter().collect();
        assert!(left.is_subset(&whole), "{cut}");
        assert!(
            recovered.packets_saved > 0 && recovered.chunks_mended == 1,
            "{cut}: {recovered:?}"
        );
        let lost = whole.len() - left.len();
        // The shortest packet of these takes 100 bytes in the file.
        assert!(lost as u64 <= cut / 100 + 1, "{cut}: {lost} lost");
        assert_eq!(Log::open(folder.path()).unwrap().stats().repaired_count, 1);
        // A host of a saved packet is found through the index made anew.
        let number = *left.iter().next_back().unwrap();
        let query =
            Query { hosts: vec![Packet::numbered(number).source.into()], ..Query::default() };
        assert!(ask(folder.path(), &query).0.iter().any(|got| got.number == number));
    }
}

#[test]
fn a_half_written_place_between_chunks_becomes_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let last = small(folder.path());
    let whole = numbers(folder.path()).len();
    let index = last.with_extension("idx");
    // The second half of the first chunk never came to the disk, and its record neither.
    let file = OpenOptions::new().write(true).open(&last).unwrap();
    file.write_all_at(&vec![0; 30_000], 65_536 - 30_000).unwrap();
    std::fs::remove_file(&index).unwrap();
    let recovered = recover(folder.path()).unwrap();
    assert!(recovered.packets_saved > 100, "{recovered:?}");
    let left = numbers(folder.path()).len();
    assert!(left < whole && left > whole - 400, "{left} of {whole}");
    assert_eq!(Log::open(folder.path()).unwrap().faults().count(), 0);
    if has("tshark") {
        let output = Command::new("tshark").arg("-n").arg("-r").arg(&last).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn an_index_that_is_gone_cut_or_wrong_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let last = small(folder.path());
    let whole = numbers(folder.path());
    let (index, keys) = (last.with_extension("idx"), last.with_extension("keys"));
    let kept = (std::fs::read(&index).unwrap(), std::fs::read(&keys).unwrap());
    let spoil: [&dyn Fn(); 5] = [
        &|| std::fs::remove_file(&index).unwrap(),
        &|| std::fs::write(&index, &kept.0[..kept.0.len() - 5]).unwrap(),
        &|| {
            let mut wrong = kept.0.clone();
            wrong[30] ^= 1;
            std::fs::write(&index, wrong).unwrap();
        },
        &|| std::fs::remove_file(&keys).unwrap(),
        &|| std::fs::write(&keys, &kept.1[..kept.1.len() / 2]).unwrap(),
    ];
    let query = Query { hosts: vec![Packet::numbered(4999).source.into()], ..Query::default() };
    let wanted = ask(folder.path(), &query).0;
    for (number, spoil) in spoil.iter().enumerate() {
        spoil();
        assert_eq!(numbers(folder.path()), whole, "{number}: also before it is put right");
        assert_eq!(ask(folder.path(), &query).0, wanted, "{number}");
        let recovered = recover(folder.path()).unwrap();
        assert_eq!(recovered.indexes_made, 1, "{number}: {recovered:?}");
        assert_eq!(std::fs::read(&index).unwrap(), kept.0, "{number}");
        assert_eq!(std::fs::read(&keys).unwrap(), kept.1, "{number}");
    }
}

#[test]
fn files_without_anything_and_half_made_ones_go() {
    let folder = tempfile::tempdir().unwrap();
    let last = small(folder.path());
    let whole = numbers(folder.path());
    let stem = "p0-20261121T093000Z-000099";
    for suffix in ["pcapng", "idx", "keys"] {
        std::fs::write(folder.path().join(format!("{stem}.{suffix}")), "").unwrap();
    }
    let mut partial = last.into_os_string();
    partial.push(".zst.partial");
    std::fs::write(&partial, "x").unwrap();
    let stranger = folder.path().join("notes.partial");
    std::fs::write(&stranger, "mine").unwrap();
    let recovered = recover(folder.path()).unwrap();
    assert_eq!(recovered.files_deleted, 2, "{recovered:?}");
    assert!(stranger.exists(), "what is not ours stays");
    assert_eq!(numbers(folder.path()), whole);
}

#[test]
fn a_record_of_what_never_came_to_the_disk_is_not_believed_later() {
    let folder = tempfile::tempdir().unwrap();
    let last = small(folder.path());
    let log_len = last.metadata().unwrap().len();
    // The power failed: index and hashes are there, the last two chunks are not, save a page.
    let file = OpenOptions::new().write(true).open(&last).unwrap();
    file.set_len(log_len - 100_000).unwrap();
    let before = numbers(folder.path());
    let recovered = recover(folder.path()).unwrap();
    assert_eq!(recovered.chunks_mended, 1, "{recovered:?}");
    let after = numbers(folder.path());
    assert!(after.len() > before.len());
    assert_eq!(recover(folder.path()).unwrap().indexes_made, 0);
    let (got, report) = ask(folder.path(), &Query::default());
    assert_eq!((got.len(), report.faults.len()), (after.len(), 0));
}
