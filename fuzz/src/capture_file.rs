//! Files in memory that captures are read from, and what is read of them.

use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, PipeReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use capture::report::{Damage, DamageCause};
use capture::{FileSource, Input};
use packet::{BATCH_LEN_MAX, Record, Source};

use crate::promises::assert_one_line;

/// What a pipe holds before somebody reads it.
pub const PIPE_LEN_MAX: usize = 1 << 16;
/// Bytes of a frame that are compared at either end.
const COMPARED_LEN: usize = 64;

/// A file that has no name any more, so that nothing stays behind.
pub struct MemoryFile {
    file: File,
}

impl MemoryFile {
    /// A file with these bytes.
    ///
    /// # Errors
    /// The system's.
    pub fn new(bytes: &[u8]) -> io::Result<Self> {
        let shared = Path::new("/dev/shm");
        let folder = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
        let path = folder.join(format!("wirelens-fuzz-{}", std::process::id()));
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(true).open(&path)?;
        fs::remove_file(&path)?;
        file.write_all(bytes)?;
        Ok(Self { file })
    }

    /// A name under which the file can be opened as long as this lives.
    #[must_use]
    pub fn input(&self) -> Input {
        descriptor(&self.file)
    }

    /// Writes over some bytes.
    ///
    /// # Errors
    /// The system's.
    pub fn write_at(&self, bytes: &[u8], offset: usize) -> io::Result<()> {
        self.file.write_all_at(bytes, offset as u64)
    }
}

/// A pipe that holds `bytes` and nothing after them; at most [`PIPE_LEN_MAX`].
///
/// # Errors
/// The system's.
pub fn pipe(bytes: &[u8]) -> io::Result<(PipeReader, Input)> {
    let (reader, mut writer) = io::pipe()?;
    writer.write_all(bytes)?;
    let input = descriptor(&reader);
    Ok((reader, input))
}

fn descriptor(file: &impl AsRawFd) -> Input {
    Input::File(PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())))
}

/// Frames that were read: each with a hash of its bytes; and why reading ended.
#[derive(PartialEq, Debug, Default)]
pub struct Frames {
    /// The frames in order.
    pub frames: Vec<(Record, u64)>,
    /// Where reading ended early, after how many frames, and why.
    pub damage: Option<(u64, u64, DamageCause)>,
}

/// Reads a source to its end and holds it to what sources promise.
pub fn read(source: &mut FileSource) -> Frames {
    let mut read = Frames::default();
    while let Some(batch) = source.next_batch() {
        assert!((1..=BATCH_LEN_MAX).contains(&batch.records.len()));
        for frame in batch.frames() {
            assert_eq!(frame.bytes.len(), frame.record.captured_len as usize);
            let record = Record { offset: 0, ..*frame.record };
            read.frames.push((record, hash_of(frame.bytes)));
        }
    }
    assert!(source.next_batch().is_none(), "a source went on after its end");
    let report = source.report();
    assert_eq!(report.received, read.frames.len() as u64 + report.filtered);
    if let Some(damage) = &report.damage {
        assert_one_line(damage);
        let Damage { offset, frames_before, ref cause, .. } = *damage;
        assert_eq!(frames_before, report.received);
        read.damage = Some((offset, frames_before, cause.clone()));
    }
    read
}

fn hash_of(bytes: &[u8]) -> u64 {
    let mut hash = DefaultHasher::new();
    hash.write(&bytes[..bytes.len().min(COMPARED_LEN)]);
    hash.write(&bytes[bytes.len().saturating_sub(COMPARED_LEN)..]);
    hash.finish()
}

/// `bytes` as a gzip file that is not compressed (RFC 1952, RFC 1951 §3.2.4).
#[must_use]
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    const BLOCK_LEN_MAX: usize = 0xffff;
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    for block in bytes.chunks(BLOCK_LEN_MAX) {
        let len = (block.len() as u16).to_le_bytes();
        file.extend_from_slice(&[0, len[0], len[1], !len[0], !len[1]]);
        file.extend_from_slice(block);
    }
    file.extend_from_slice(&[1, 0, 0, 0xff, 0xff]);
    file.extend_from_slice(&crc32(bytes).to_le_bytes());
    file.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    file
}

/// `bytes` as a zstd file that is not compressed (RFC 8878 §3.1.1).
#[must_use]
pub fn zstd(bytes: &[u8]) -> Vec<u8> {
    const BLOCK_LEN_MAX: usize = 1 << 16;
    // No content size, no checksum; a window of 1 MiB.
    let mut file = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 10 << 3];
    for block in bytes.chunks(BLOCK_LEN_MAX) {
        file.extend_from_slice(&((block.len() as u32) << 3).to_le_bytes()[..3]);
        file.extend_from_slice(block);
    }
    file.extend_from_slice(&[1, 0, 0]);
    file
}

fn crc32(bytes: &[u8]) -> u32 {
    const POLYNOMIAL_REFLECTED: u32 = 0xedb8_8320;
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            let is_carry = crc & 1 == 1;
            crc = (crc >> 1) ^ if is_carry { POLYNOMIAL_REFLECTED } else { 0 };
        }
    }
    !crc
}
