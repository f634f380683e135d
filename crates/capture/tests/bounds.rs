//! What reading takes is bounded, whatever captures say of themselves and however many they are.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use capture::input::resolve;
use capture::merged::MergedSource;
use capture::split::split;
use capture::{FileSource, Input, ReadOptions, open};
use packet::file::{FrameNote, Interface, PcapEncoder, PcapngEncoder, Section};
use packet::{LinkType, Source, Timestamp};

/// USB messages, one of the link types whose frames may have 128 MiB.
const USB: LinkType = LinkType(189);
const MIB: usize = 1 << 20;

fn open_path(path: &Path) -> FileSource {
    open(&Input::File(path.to_owned()), &ReadOptions::default()).unwrap()
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

/// A capture of frames of these lengths on interfaces of these link types.
fn pcapng(links: &[LinkType], frames: impl IntoIterator<Item = (u32, usize)>) -> Vec<u8> {
    let (mut encoder, mut bytes) = (PcapngEncoder::new(), Vec::new());
    encoder.section(&mut bytes, &Section::default());
    for link in links {
        let interface = Interface { link: *link, ..Interface::default() };
        encoder.interface(&mut bytes, &interface).unwrap();
    }
    for (interface, len) in frames {
        let note = FrameNote {
            timestamp: Timestamp::from_parts(1_700_000_000, 0),
            interface,
            wire_len: len as u32,
            ..FrameNote::default()
        };
        encoder.frame(&mut bytes, &note, &vec![interface as u8 + 1; len]).unwrap();
    }
    bytes
}

/// A pcap file of such messages, zeros, which takes no room on the disk.
fn messages(folder: &Path, name: &str, lens: &[usize]) -> PathBuf {
    let path = folder.join(name);
    let file = File::create(&path).unwrap();
    let mut header = Vec::new();
    PcapEncoder::nanoseconds(USB, 0).header(&mut header);
    file.write_all_at(&header, 0).unwrap();
    let mut at = header.len() as u64;
    for len in lens {
        let record = [1_700_000_000, 0, *len as u32, *len as u32].map(u32::to_le_bytes).concat();
        file.write_all_at(&record, at).unwrap();
        at += (record.len() + len) as u64;
    }
    file.set_len(at).unwrap();
    path
}

fn read_all(source: &mut impl Source) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Some(batch) = source.next_batch() {
        frames.extend(batch.frames().map(|frame| frame.bytes.to_vec()));
    }
    frames
}

#[test]
#[allow(clippy::disallowed_methods)]
fn the_time_to_split_a_capture_grows_with_its_interfaces_and_not_with_their_square() {
    let folder = tempfile::tempdir().unwrap();
    let links = vec![LinkType::ETHERNET; 30_000];
    let path = write(folder.path(), "a.pcapng", &pcapng(&links, vec![(0, 900); 10_000]));
    let begun = Instant::now();
    assert_eq!(split(open_path(&path), 2).len(), 2);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn frames_are_theirs_behind_four_gigabytes_of_other_blocks() {
    const BLOCK_LEN: usize = 16 * MIB;
    const CUSTOM: u32 = 0x0bad;
    let folder = tempfile::tempdir().unwrap();
    let whole = pcapng(&[LinkType::ETHERNET], [(0, 100)]);
    let frame_len = 100 + 32;
    let path = write(folder.path(), "a.pcapng", &whole);
    let file = File::options().write(true).open(&path).unwrap();
    let mut at = whole.len() as u64;
    // Sparse: a page at each end of a block is all that there is of it.
    for _ in 0..=u32::MAX as usize / BLOCK_LEN {
        let len = (BLOCK_LEN as u32).to_le_bytes();
        file.write_all_at(&[CUSTOM.to_le_bytes(), len].concat(), at).unwrap();
        at += BLOCK_LEN as u64;
        file.write_all_at(&len, at - 4).unwrap();
    }
    file.write_all_at(&whole[whole.len() - frame_len..], at).unwrap();
    let mut source = open_path(&path);
    assert_eq!(read_all(&mut source), vec![vec![1; 100]; 2]);
    assert_eq!((source.report().received, &source.report().damage), (2, &None));
}

#[test]
fn captures_of_long_messages_are_merged_a_few_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let long = messages(folder.path(), "long.pcap", &[8 * MIB; 20]);
    let short = messages(folder.path(), "short.pcap", &[8]);
    let mut merged = MergedSource::new(vec![open_path(&long), open_path(&short)]);
    let mut frame_count = 0;
    while let Some(batch) = merged.next_batch() {
        frame_count += batch.records.len();
        assert!(batch.bytes.len() <= 72 * MIB, "{} bytes", batch.bytes.len());
    }
    assert_eq!(frame_count, 21);
}

/// Descriptors of this process that lead to a file.
fn open_count(path: &Path) -> usize {
    let descriptors = fs::read_dir("/proc/self/fd").unwrap().flatten();
    descriptors.filter(|one| fs::read_link(one.path()).is_ok_and(|to| to == path)).count()
}

#[test]
fn a_compressed_capture_that_was_read_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let plain = pcapng(&[LinkType::ETHERNET], vec![(0, 100); 1_000]);
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&plain).unwrap();
    let stored = [
        write(folder.path(), "a.gz", &gz.finish().unwrap()),
        write(folder.path(), "b.zst", &zstd::encode_all(&*plain, 1).unwrap()),
    ];
    for path in &stored {
        let mut source = open_path(path);
        assert!(source.next_batch().is_some());
        assert_eq!(open_count(path), 1);
        read_all(&mut source);
        assert_eq!(open_count(path), 0);
        assert_eq!(source.report().received, 1_000);
        assert!(source.next_batch().is_none());
    }
    let mut merged = MergedSource::new(stored.iter().map(|path| open_path(path)).collect());
    assert_eq!(read_all(&mut merged).len(), 2_000);
    assert_eq!(stored.iter().map(|path| open_count(path)).sum::<usize>(), 0);
    drop(merged);
}

#[test]
fn a_stop_in_the_middle_of_a_compressed_stream_is_no_damage() {
    let plain = pcapng(&[LinkType::ETHERNET], vec![(0, 100); 1_000]);
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&plain).unwrap();
    gz.flush().unwrap();
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(gz.get_ref()).unwrap();
    let path = PathBuf::from(format!("/proc/self/fd/{}", reader.as_raw_fd()));
    let options = ReadOptions::default();
    let mut source = open(&Input::File(path), &options).unwrap();
    let mut frame_count = 0;
    while frame_count < 1_000 {
        frame_count += source.next_batch().unwrap().records.len();
    }
    // The writer waits, and so would the reader.
    options.stop.store(true, Ordering::Relaxed);
    assert!(source.next_batch().is_none());
    assert_eq!(source.report().damage, None);
    drop(writer);
}

/// Kilobytes of a mapped file that are resident.
fn resident_kb(path: &Path) -> u64 {
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let mut lines = maps.lines();
    let mut sum = 0;
    while lines.any(|line| line.ends_with(path.to_str().unwrap())) {
        let resident = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
        sum += resident.trim().trim_end_matches(" kB").parse::<u64>().unwrap();
    }
    sum
}

#[test]
fn a_mapped_capture_that_was_read_is_not_resident() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = pcapng(&[LinkType::ETHERNET], vec![(0, 1_000); 3_000]);
    let path = write(folder.path(), "a.pcapng", &bytes);
    let mut source = open_path(&path);
    assert!(source.next_batch().is_some());
    assert!(resident_kb(&path) > 1_000);
    read_all(&mut source);
    assert_eq!(resident_kb(&path), 0);
    assert_eq!(source.report().received, 3_000);
}

#[test]
fn captures_that_wait_to_be_merged_are_not_resident() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = pcapng(&[LinkType::ETHERNET], vec![(0, 1_000); 12_000]);
    let path = write(folder.path(), "a.pcapng", &bytes);
    let mut merged = MergedSource::new(vec![open_path(&path)]);
    let resident_kb = resident_kb(&path);
    // The kernel maps what is near a page along with it, 2 MiB at most.
    assert!(resident_kb < 4_200, "{resident_kb} kB");
    assert_eq!(read_all(&mut merged).len(), 12_000);
}

#[test]
fn link_types_that_are_not_decoded_are_in_the_order_of_their_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let links = [300, 147, 189, 1].map(LinkType);
    let frames = [(0, 60), (1, 60), (2, 60), (3, 60), (1, 60)];
    let path = write(folder.path(), "a.pcapng", &pcapng(&links, frames));
    let mut source = open_path(&path);
    assert_eq!(read_all(&mut source).len(), 5);
    let undecoded = source.report().undecoded.iter().map(|(link, count)| (link.0, *count));
    assert_eq!(undecoded.collect::<Vec<_>>(), [(147, 2), (189, 1), (300, 1)]);
    assert_eq!(source.report().undecoded_total(), 4);
}

#[test]
fn folders_that_are_too_deep_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = pcapng(&[LinkType::ETHERNET], [(0, 60)]);
    write(folder.path(), "a.pcapng", &bytes);
    let deep = (0..17).fold(folder.path().to_owned(), |path, level| path.join(level.to_string()));
    fs::create_dir_all(&deep).unwrap();
    write(deep.parent().unwrap(), "b.pcapng", &bytes);
    write(&deep, "c.pcapng", &bytes);
    let resolved = resolve(&[folder.path().to_owned()]).unwrap();
    assert_eq!(resolved.inputs.len(), 2);
    let [refused] = resolved.refused.as_slice() else { panic!("{:?}", resolved.refused) };
    assert!(refused.starts_with(deep.to_str().unwrap()), "{refused}");
    assert!(refused.contains("16 folders deep"), "{refused}");
}
