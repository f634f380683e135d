//! Logs of compact blocks hold what those of enhanced packet blocks do.

use std::os::unix::fs::FileExt as _;

use packetlog::log::{FlowQuery, Log, Query, compress, recover};
use packetlog::recorder::{Encoding, RecorderOptions};

use super::lab::*;

const COUNT: u32 = 20_000;

fn compact(folder: &std::path::Path) -> RecorderOptions {
    RecorderOptions { encoding: Encoding::Compact, ..options(folder) }
}

#[test]
fn a_compact_log_answers_byte_by_byte_as_another_and_is_smaller() {
    let (plain, small) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    record(options(plain.path()), 0..COUNT);
    record(compact(small.path()), 0..COUNT);
    let stamp = |number: u32| packet::Timestamp::from_ns(Packet::numbered(number).ns);
    let queries = [
        Query::default(),
        Query { hosts: vec![[10, 0, 0, 7].into()], ..Query::default() },
        Query { classes: vec!["scan".into()], ..Query::default() },
        Query { from: Some(stamp(100)), to: Some(stamp(200)), ..Query::default() },
    ];
    for query in &queries {
        let (wanted, _) = ask(plain.path(), query);
        let (got, report) = ask(small.path(), query);
        assert_eq!((got == wanted, report.faults), (true, vec![]), "{query:?}");
        assert!(!wanted.is_empty());
    }
    let stats = |folder: &std::path::Path| Log::open(folder).unwrap().stats();
    let (of_plain, of_small) = (stats(plain.path()), stats(small.path()));
    assert!(of_small.bytes * 2 < of_plain.bytes, "{} of {}", of_small.bytes, of_plain.bytes);
    assert_eq!(of_small.total(), of_plain.total());
    let flow = FlowQuery::CommunityId([0; 20]);
    assert_eq!(ask(small.path(), &Query { flow: Some(flow), ..Query::default() }).0, vec![]);
}

#[test]
fn a_compact_log_loses_its_index_and_is_compressed_without_losing_a_packet() {
    let folder = tempfile::tempdir().unwrap();
    record(compact(folder.path()), 0..COUNT);
    let wanted = ask(folder.path(), &Query::default()).0;
    for file in files(folder.path(), ".idx").into_iter().chain(files(folder.path(), ".keys")) {
        std::fs::remove_file(file).unwrap();
    }
    assert!(ask(folder.path(), &Query::default()).0 == wanted);
    assert!(recover(folder.path()).unwrap().indexes_made > 1);
    let host = Query { hosts: vec![[9, 9, 9, 9].into()], ..Query::default() };
    assert_eq!(ask(folder.path(), &host).1.chunks_read, 0, "hosts are known again");
    let done = compress(folder.path(), 3, false).unwrap();
    assert!(done.bytes_after < done.bytes_before, "{done:?}");
    assert!(ask(folder.path(), &Query::default()).0 == wanted);
}

#[test]
fn a_recorder_that_continues_may_encode_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    record(options(folder.path()), 0..1_000);
    record(compact(folder.path()), 1_000..2_000);
    record(options(folder.path()), 2_000..3_000);
    assert_eq!(numbers(folder.path()), (0..3_000).collect::<Vec<_>>());
}

#[test]
fn wherever_a_compact_file_is_torn_what_was_complete_is_saved() {
    let whole = tempfile::tempdir().unwrap();
    record(compact(whole.path()), 0..3_000);
    let path = files(whole.path(), ".pcapng").remove(0);
    let bytes = std::fs::read(&path).unwrap();
    let all = ask(whole.path(), &Query::default()).0;
    for len in (0..bytes.len()).step_by(997) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(path.file_name().unwrap()), &bytes[..len]).unwrap();
        let before = ask(folder.path(), &Query::default()).0;
        let recovered = recover(folder.path()).unwrap();
        let (after, report) = ask(folder.path(), &Query::default());
        assert_eq!(report.faults, [], "{len}");
        assert_eq!(after.len(), before.len() + recovered.packets_saved as usize, "{len}");
        assert!(after.iter().all(|packet| all.contains(packet)), "{len}");
        assert_eq!(recover(folder.path()).unwrap().packets_saved, 0, "{len}");
    }
    // A tear behind the compact block takes the trailer alone.
    let folder = tempfile::tempdir().unwrap();
    let torn = folder.path().join(path.file_name().unwrap());
    std::fs::write(&torn, &bytes).unwrap();
    let file = std::fs::File::options().write(true).open(&torn).unwrap();
    file.write_all_at(&[0; 64], bytes.len() as u64 - 64).unwrap();
    assert!(recover(folder.path()).unwrap().packets_saved > 0);
    let benign = all.iter().filter(|packet| packet.class == "benign").count();
    assert_eq!(ask(folder.path(), &Query::default()).0.len(), benign);
}

#[test]
fn a_spoilt_compact_block_is_passed_over_and_named() {
    let folder = tempfile::tempdir().unwrap();
    record(compact(folder.path()), 0..COUNT);
    let wanted = ask(folder.path(), &Query::default()).0;
    let path = files(folder.path(), ".pcapng").remove(0);
    let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 2_000).unwrap();
    file.write_all_at(&[byte[0] ^ 1], 2_000).unwrap();
    let (got, report) = ask(folder.path(), &Query::default());
    assert_eq!(report.faults.len(), 1, "{:?}", report.faults);
    assert!(got.len() < wanted.len() && !got.is_empty());
}
