//! A small real log, plain or compressed, whose index, hashes, account and chunks say something
//! else under checksums that are right: nothing panics, and what is in the file is found once the
//! log is put right.
//!
//! Input: a byte whose lowest bit chooses the compressed form, then changes of twelve bytes: which
//! file, how many bytes, where (two), and the value (eight).
#![no_main]

use fuzz::input::Input;
use fuzz::place::fresh;
use fuzz::recorded::{PACKETS, base, record, walk};
use libfuzzer_sys::fuzz_target;
use packet::file::section_len;
use packetlog::log::recover;
use packetlog::recorder::Encoding;

const CHANGES_MAX: usize = 8;

/// Puts right the checksums of a file of this name.
fn seal(name: &str, bytes: &mut [u8], before: &[u8]) {
    if name.ends_with(".idx") {
        // Where records were: a length that was changed is tried under a right checksum, too.
        let mut at = 0;
        while let Some(len) = before.get(at + 4..).and_then(<[u8]>::first_chunk::<4>) {
            let len = u32::from_le_bytes(*len) as usize;
            let Some(record) = bytes.get_mut(at..at + len) else { return };
            let Some((head, sum)) = record.split_last_chunk_mut::<4>() else { return };
            *sum = crc32fast::hash(head).to_le_bytes();
            at += len;
        }
    } else if name.ends_with(".pcapng") {
        let mut at = 0;
        while let Some((head, len)) = before.get(at..).and_then(section_len) {
            let end = at + head + len as usize;
            let Some(chunk) = bytes.get_mut(at..end) else { return };
            let Some((body, tail)) = chunk.split_last_chunk_mut::<12>() else { return };
            tail[..4].copy_from_slice(&crc32fast::hash(body).to_le_bytes());
            at = end;
        }
    } else if name == "account" {
        let half = bytes.len() / 2;
        for slot in bytes.chunks_mut(half.max(24)) {
            let Some((head, text)) = slot.split_at_mut_checked(24) else { return };
            let len = u32::from_le_bytes([head[16], head[17], head[18], head[19]]) as usize;
            let mut sum = crc32fast::Hasher::new();
            sum.update(&head[8..20]);
            sum.update(text.get(..len).unwrap_or_default());
            head[20..24].copy_from_slice(&sum.finalize().to_le_bytes());
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let which = usize::from(input.u8());
    let mut files = base()[which >> 1 & 1][which & 1].clone();
    let before = files.clone();
    let mut is_data_whole = true;
    for _ in 0..CHANGES_MAX {
        if input.is_empty() {
            break;
        }
        let (file, width, at) = (input.u8(), input.u8(), input.u16());
        let value = input.u64().to_le_bytes();
        let index = usize::from(file) % files.len();
        let (name, bytes) = &mut files[index];
        let width = [1, 2, 4, 8][usize::from(width) % 4];
        let at = usize::from(at) % bytes.len().max(1);
        let Some(field) = bytes.get_mut(at..at + width) else { continue };
        field.copy_from_slice(&value[..width]);
        is_data_whole &= !name.contains(".pcapng");
    }
    let folder = fresh("packetlog-side");
    for ((name, bytes), (_, before)) in files.iter_mut().zip(&before) {
        seal(name, bytes, before);
        std::fs::write(folder.join(name), bytes).expect("room for a file");
    }
    let _ = walk(&folder);
    recover(&folder).expect("a folder that can be written");
    let found = walk(&folder);
    assert!(!is_data_whole || found == u64::from(PACKETS), "{found} packets are found");
    record(&folder, PACKETS..PACKETS + 2, Encoding::Compact);
    assert!(walk(&folder) >= found + 2);
    let _ = std::fs::remove_dir_all(&folder);
});
