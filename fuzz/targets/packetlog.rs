//! Folders of a packet log: whatever files and indexes say, they are read, what is whole is found,
//! and what was put right once stays as it is.
//!
//! Input: bytes of the index (two), the index, then the file. Checksums are made here, as they
//! cannot be guessed; where the file ends with an odd byte they are left as they are.
#![no_main]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use fuzz::input::Input;
use libfuzzer_sys::fuzz_target;
use packet::file::section_len;
use packetlog::index::{IndexRecord, Note, Trailer};
use packetlog::log::{Log, Query, recover};

const STEM: &str = "p0-20261121T093000Z-000000";

/// Puts right the checksum of each record that the index seems to hold.
fn seal_index(index: &mut [u8]) {
    let mut at = 0;
    while let Some(&[a, b, c, d]) = index.get(at + 4..).and_then(<[u8]>::first_chunk) {
        let len = u32::from_le_bytes([a, b, c, d]) as usize;
        let Some(record) = index.get_mut(at..at.saturating_add(len)) else { return };
        let Some((before, sum)) = record.split_last_chunk_mut::<4>() else { return };
        *sum = crc32fast::hash(before).to_le_bytes();
        at += len;
    }
}

/// The same of each chunk.
fn seal_chunks(file: &mut [u8]) {
    let mut at = 0;
    while let Some(rest) = file.get_mut(at..).filter(|rest| !rest.is_empty()) {
        let len = section_len(rest).and_then(|(header, len)| len.checked_add(header as u64));
        let chunk = len.and_then(|len| rest.get_mut(..usize::try_from(len).ok()?));
        match chunk.and_then(|chunk| chunk.split_last_chunk_mut::<12>()) {
            Some((before, end)) => {
                end[..4].copy_from_slice(&crc32fast::hash(before).to_le_bytes());
                at += before.len() + 12;
            }
            None => at += 4096,
        }
    }
}

/// Packets that a question finds.
fn found(log: &Log, query: &Query) -> u64 {
    let mut count = 0;
    let report = log.query(query, &mut |packet| {
        count += 1;
        assert_eq!(packet.bytes.len(), packet.record.captured_len as usize);
        ControlFlow::Continue(())
    });
    assert_eq!(report.expect("files that can be read").packets_found, count);
    count
}

/// Packets of the log in a folder.
fn count(folder: &Path) -> u64 {
    let log = Log::open(folder).expect("a folder that can be read");
    let _ = log.stats();
    let all = found(&log, &Query::default());
    let host = Query { hosts: vec![[10, 0, 0, 1].into()], ..Query::default() };
    assert!(found(&log, &host) <= all);
    all
}

fn folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    place.join(format!("wirelens-fuzz-packetlog-{}", std::process::id()))
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let index_len = usize::from(input.u16());
    let mut index = input.bytes(index_len).to_vec();
    let mut file = input.rest().to_vec();
    if file.last().is_none_or(|last| last % 2 == 0) {
        seal_index(&mut index);
        seal_chunks(&mut file);
    }
    let _ = (IndexRecord::read(&index), Trailer::read(&file), Note::read(&file));
    let folder = folder();
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let write = |suffix: &str, bytes: &[u8]| {
        std::fs::write(folder.join(format!("{STEM}.{suffix}")), bytes).expect("room for a file");
    };
    write("pcapng", &file);
    if !index.is_empty() {
        write("idx", &index);
    }
    let before = count(&folder);
    recover(&folder).expect("a folder that can be written");
    let after = count(&folder);
    assert!(before <= after, "{before} packets before, {after} after it was put right");
    let again = recover(&folder).expect("a folder that can be written");
    assert_eq!((again.chunks_mended, again.indexes_made, again.packets_saved), (0, 0, 0));
    assert_eq!(count(&folder), after);
    let _ = std::fs::remove_dir_all(&folder);
});
