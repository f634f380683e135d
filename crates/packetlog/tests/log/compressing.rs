//! Logs become smaller and stay the same.

use std::path::Path;
use std::process::{Command, Stdio};

use packetlog::log::{Log, Query, compress, recover};
use packetlog::recorder::RecorderOptions;

use super::lab::*;

const COUNT: u32 = 20_000;

/// A compressed log, and what it holds.
fn compressed(folder: &Path) -> Vec<LogPacket> {
    record(options(folder), 0..COUNT);
    let wanted = ask(folder, &Query::default()).0;
    let done = compress(folder, 3, false).unwrap();
    assert!(done.file_count > 2 && done.bytes_after < done.bytes_before / 2, "{done:?}");
    assert_eq!(files(folder, ".pcapng"), Vec::<std::path::PathBuf>::new());
    wanted
}

#[test]
fn a_compressed_log_answers_as_before_and_reads_only_what_it_must() {
    let folder = tempfile::tempdir().unwrap();
    let wanted = compressed(folder.path());
    let (got, report) = ask(folder.path(), &Query::default());
    assert_eq!(got, wanted);
    assert_eq!(report.faults, []);
    let stamp = |number: u32| packet::Timestamp::from_ns(Packet::numbered(number).ns);
    let query = Query { from: Some(stamp(100)), to: Some(stamp(200)), ..Query::default() };
    let (got, report) = ask(folder.path(), &query);
    assert_eq!((got.len(), report.chunks_read < 10), (100, true), "{report:?}");
    let stats = Log::open(folder.path()).unwrap().stats();
    assert!(stats.bytes < stats.chunk_bytes / 2 && stats.compressed_count == stats.file_count);
}

#[test]
fn another_program_decompresses_what_another_reads() {
    let folder = tempfile::tempdir().unwrap();
    compressed(folder.path());
    if !has("zstdcat") || !has("tshark") {
        return;
    }
    let mut count = 0;
    for file in files(folder.path(), ".pcapng.zst") {
        let mut cat = Command::new("zstdcat").arg(&file).stdout(Stdio::piped()).spawn().unwrap();
        let plain = cat.stdout.take().unwrap();
        let output = Command::new("tshark").args(["-n", "-r", "-"]).stdin(plain).output().unwrap();
        assert!(cat.wait().unwrap().success() && output.status.success());
        count += String::from_utf8_lossy(&output.stdout).lines().count();
    }
    assert_eq!(count, COUNT as usize);
}

#[test]
fn wherever_compressing_was_cut_short_the_log_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    record(options(folder.path()), 0..COUNT);
    let plain = files(folder.path(), ".pcapng").remove(0);
    let kept = std::fs::read(&plain).unwrap();
    let wanted = ask(folder.path(), &Query::default()).0;
    compress(folder.path(), 3, false).unwrap();
    // The plain file was not deleted yet: both are there.
    std::fs::write(&plain, &kept).unwrap();
    assert_eq!(ask(folder.path(), &Query::default()).0, wanted);
    recover(folder.path()).unwrap();
    assert_eq!(ask(folder.path(), &Query::default()).0, wanted);
    assert!(plain.exists() && !plain.with_extension("pcapng.zst").exists());
    assert_eq!(compress(folder.path(), 3, false).unwrap().file_count, 1);
    // The index is still that of the plain file, or gone.
    let index = plain.with_extension("idx");
    std::fs::remove_file(&index).unwrap();
    assert_eq!(ask(folder.path(), &Query::default()).0, wanted);
    assert_eq!(recover(folder.path()).unwrap().indexes_made, 1);
    assert_eq!(ask(folder.path(), &Query::default()).0, wanted);
    let query = Query { hosts: vec![[9, 9, 9, 9].into()], ..Query::default() };
    assert_eq!(ask(folder.path(), &query).1.chunks_read, 0, "hosts are known again");
}

#[test]
fn a_spoilt_frame_is_passed_over_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let wanted = compressed(folder.path());
    let file = files(folder.path(), ".pcapng.zst").remove(0);
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let (got, report) = ask(folder.path(), &Query::default());
    assert_eq!(report.faults.len(), 1, "{:?}", report.faults);
    assert!(got.len() < wanted.len() && got.len() > wanted.len() * 9 / 10);
}

#[test]
fn files_are_compressed_as_they_are_closed() {
    let folder = tempfile::tempdir().unwrap();
    let options =
        RecorderOptions { compress: Some(1), file_len_max: 256 << 10, ..options(folder.path()) };
    let (mut recorder, _) = begin(options);
    let state = recorder.state();
    let done = || state.files_compressed.load(std::sync::atomic::Ordering::Relaxed);
    let mut number = 0;
    while done() < 3 {
        store(&mut recorder, &Packet::numbered(number), number);
        number += 1;
        assert!(number < 5_000_000, "{:?}", state.last_error());
    }
    assert_eq!(recorder.finish().unwrap().lost, []);
    assert!(files(folder.path(), ".pcapng.zst").len() >= 3);
    recover(folder.path()).unwrap();
    assert_eq!(numbers(folder.path()), (0..number).collect::<Vec<_>>());
}
