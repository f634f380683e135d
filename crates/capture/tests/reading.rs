//! Captures written by our own encoder, read in every way there is.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use capture::input::resolve;
use capture::merged::MergedSource;
use capture::split::{parts_agree, split};
use capture::{FileSource, Input, OpenError, ReadOptions, open};
use packet::file::{FrameNote, Interface, PcapEncoder, PcapngEncoder, Section};
use packet::{Direction, LinkType, Source, Timestamp};

/// A frame as it is compared: stamp, bytes, wire length.
type Seen = (i64, Vec<u8>, u32);

fn frames(count: usize, first_second: i64, payload_len: usize) -> Vec<Seen> {
    (0..count)
        .map(|index| {
            let mut bytes = vec![0x02; 14 + payload_len + index % 50];
            bytes[..8].copy_from_slice(&(index as u64).to_be_bytes());
            let stamp = first_second * 1_000_000_000 + index as i64 * 1_000_003;
            (stamp, bytes, 2_000)
        })
        .collect()
}

fn pcap(frames: &[Seen]) -> Vec<u8> {
    let mut encoder = PcapEncoder::nanoseconds(LinkType::ETHERNET, 262_144);
    let mut out = Vec::new();
    encoder.header(&mut out);
    for (stamp, bytes, wire_len) in frames {
        encoder.frame(&mut out, Timestamp::from_ns(*stamp), *wire_len, bytes);
    }
    out
}

fn pcapng(frames: &[Seen], second_interface_at: Option<usize>) -> Vec<u8> {
    let mut encoder = PcapngEncoder::new();
    let mut out = Vec::new();
    encoder.section(&mut out, &Section::default());
    let interface = Interface { link: LinkType::ETHERNET, ..Interface::default() };
    encoder.interface(&mut out, &interface).unwrap();
    for (index, (stamp, bytes, wire_len)) in frames.iter().enumerate() {
        if second_interface_at == Some(index) {
            encoder.interface(&mut out, &interface).unwrap();
        }
        let note = FrameNote {
            timestamp: Timestamp::from_ns(*stamp),
            interface: 0,
            wire_len: *wire_len,
            direction: Direction::Unknown,
            comments: &[],
        };
        encoder.frame(&mut out, &note, bytes).unwrap();
    }
    out
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

fn read_all(source: &mut impl Source) -> Vec<Seen> {
    let mut seen = Vec::new();
    while let Some(batch) = source.next_batch() {
        assert!(!batch.records.is_empty());
        for frame in batch.frames() {
            let record = frame.record;
            seen.push((record.timestamp.as_ns(), frame.bytes.to_vec(), record.wire_len));
        }
    }
    seen
}

fn open_path(path: &Path) -> FileSource {
    open(&Input::File(path.to_owned()), &ReadOptions::default()).unwrap()
}

#[test]
fn every_way_of_storing_gives_the_same_frames() {
    let folder = tempfile::tempdir().unwrap();
    let expected = frames(3_000, 100, 60);
    for (name, plain) in [("pcap", pcap(&expected)), ("pcapng", pcapng(&expected, None))] {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(&plain).unwrap();
        let stored = [
            write(folder.path(), &format!("a.{name}"), &plain),
            write(folder.path(), &format!("b.{name}"), &gz.finish().unwrap()),
            write(folder.path(), &format!("c.{name}"), &zstd::encode_all(&*plain, 1).unwrap()),
        ];
        for path in stored {
            let mut source = open_path(&path);
            assert_eq!(read_all(&mut source), expected, "{}", path.display());
            assert_eq!(source.report().received, 3_000);
            assert_eq!(source.report().damage, None);
        }
    }
}

#[test]
fn link_types_are_known_before_the_first_frame_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let expected = frames(300, 100, 60);
    let plain = pcapng(&expected, None);
    let packed = zstd::encode_all(&*plain, 1).unwrap();
    for (name, bytes) in [("a.pcapng", plain), ("b", packed), ("c.pcap", pcap(&expected))] {
        let mut source = open_path(&write(folder.path(), name, &bytes));
        assert_eq!(source.first_links(), [LinkType::ETHERNET], "{name}");
        assert_eq!(read_all(&mut source), expected, "{name}: nothing was taken");
    }
}

#[test]
fn parts_of_a_capture_are_the_capture() {
    let folder = tempfile::tempdir().unwrap();
    let expected = frames(20_000, 100, 900);
    for (name, bytes) in [("a.pcap", pcap(&expected)), ("a.pcapng", pcapng(&expected, None))] {
        let path = write(folder.path(), name, &bytes);
        let mut parts = split(open_path(&path), 4);
        assert_eq!(parts.len(), 4, "{name} is large enough to be split");
        let seen: Vec<Seen> = parts.iter_mut().flat_map(read_all).collect();
        assert!(parts_agree(&parts), "{name}");
        assert_eq!(seen, expected, "{name}");
    }
}

#[test]
fn an_interface_in_the_middle_makes_parts_disagree() {
    let folder = tempfile::tempdir().unwrap();
    let frames = frames(20_000, 100, 900);
    let path = write(folder.path(), "a.pcapng", &pcapng(&frames, Some(7_000)));
    let mut parts = split(open_path(&path), 4);
    assert!(parts.len() > 1);
    for part in &mut parts {
        read_all(part);
    }
    assert!(!parts_agree(&parts));
    assert_eq!(read_all(&mut open_path(&path)), frames, "in one part it is read whole");
}

#[test]
fn a_truncated_tail_is_named_and_what_came_before_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let expected = frames(100, 100, 60);
    let bytes = pcap(&expected);
    let path = write(folder.path(), "a.pcap", &bytes[..bytes.len() - 5]);
    let mut source = open_path(&path);
    assert_eq!(read_all(&mut source), expected[..99]);
    let damage = source.report().damage.clone().unwrap();
    assert_eq!(damage.frames_before, 99);
    assert!(damage.to_string().contains("the 99 frames before it were read"), "{damage}");
}

#[test]
fn captures_are_merged_in_order_of_time() {
    let folder = tempfile::tempdir().unwrap();
    // The second begins while the first runs; the third, compressed, follows both.
    let (first, second, third) = (frames(600, 100, 60), frames(700, 100, 70), frames(50, 200, 80));
    write(folder.path(), "b.pcap", &pcap(&first));
    write(folder.path(), "a.pcapng", &pcapng(&second, None));
    write(folder.path(), "c.zst", &zstd::encode_all(&*pcap(&third), 1).unwrap());
    write(folder.path(), "notes.txt", b"no capture");
    let resolved = resolve(&[folder.path().to_owned()]).unwrap();
    assert_eq!((resolved.inputs.len(), resolved.skipped.len()), (3, 1));
    let options = ReadOptions::default();
    let sources: Vec<_> =
        resolved.inputs.iter().rev().map(|input| open(input, &options).unwrap()).collect();
    let mut merged = MergedSource::new(sources);
    let seen = read_all(&mut merged);
    let mut expected: Vec<Seen> = first.into_iter().chain(second).chain(third).collect();
    // Stable, so that of two at the same time the one whose capture was named first stays first.
    expected.sort_by_key(|frame| frame.0);
    assert_eq!(seen.len(), expected.len());
    assert!(seen.iter().map(|frame| frame.0).eq(expected.iter().map(|frame| frame.0)));
    let (sources, waiting) = merged.into_sources();
    assert_eq!(waiting.count, 0);
    assert_eq!(sources.iter().map(|source| source.report().received).sum::<u64>(), 1_350);
}

#[test]
fn what_cannot_be_opened_is_told_with_what_was_seen() {
    let folder = tempfile::tempdir().unwrap();
    let open_named = |name: &str| {
        let input = Input::File(folder.path().join(name));
        open(&input, &ReadOptions::default()).err().map(|error| error.to_string()).unwrap()
    };
    write(folder.path(), "empty", b"");
    write(folder.path(), "text", b"no capture at all, only words");
    write(folder.path(), "short", &pcap(&[])[..10]);
    assert!(open_named("missing").contains("no such file"));
    assert!(open_named("empty").contains("is empty"));
    assert!(open_named("text").contains("begins with 6e 6f 20 63"));
    assert!(open_named("short").contains("wanted pcap or pcapng"));
    fs::remove_file(folder.path().join("short")).unwrap();
    let resolved = resolve(&[folder.path().to_owned()]);
    assert!(matches!(resolved, Err(OpenError::FolderWithoutCaptures { file_count: 2, .. })));
}
