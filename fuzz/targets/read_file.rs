//! The readers of files: a memory map, a pipe, gzip and zstd give the same
//! frames of the same bytes, and two captures of them merge into twice as many.
//!
//! Input: a file as it is, so that captures serve as seeds. Its last byte, which
//! stays part of it, chooses what is done with it.
#![no_main]

use capture::merged::MergedSource;
use capture::{FileSource, Input, OpenError, ReadOptions, open};
use fuzz::capture_file::{Frames, MemoryFile, PIPE_LEN_MAX, gzip, pipe, read, zstd};
use fuzz::promises::assert_one_line;
use libfuzzer_sys::fuzz_target;
use packet::dissect::DissectOptions;
use packet::file::Magic;
use packet::{BATCH_LEN_MAX, Source};

/// What opening and reading came to.
#[derive(PartialEq, Debug)]
enum Outcome {
    Refused(String),
    Read(Frames),
}

fuzz_target!(|bytes: &[u8]| {
    let choice = bytes.last().copied().unwrap_or_default();
    let options = ReadOptions {
        dissect: DissectOptions { decapsulate: choice & 1 == 0, transport: choice & 2 == 0 },
        snaplen: if choice & 4 == 0 { u32::MAX } else { 48 },
        ..ReadOptions::default()
    };
    let plain = outcome_of(bytes, &options);
    // What is packed already is unpacked once, so that packing it again is another file.
    if Magic::detect(bytes).is_some_and(Magic::is_compressed) {
        return;
    }
    if choice & 8 != 0 && bytes.len() <= PIPE_LEN_MAX {
        let (_held, input) = pipe(bytes).expect("a pipe");
        assert_eq!(outcome(&input, &options), plain);
    }
    let packed = match choice >> 4 & 3 {
        0 => gzip(bytes),
        1 => zstd(bytes),
        _ => return,
    };
    if choice & 64 == 0 {
        if !bytes.is_empty() {
            assert_eq!(outcome_of(&packed, &options), plain);
        }
        if let (true, Outcome::Read(frames)) = (choice & 128 != 0, &plain) {
            check_merged([bytes, &packed], &options, frames);
        }
    } else {
        outcome_of(&packed[..packed.len() - packed.len() / 7 - 1], &options);
    }
});

fn outcome_of(bytes: &[u8], options: &ReadOptions) -> Outcome {
    let file = MemoryFile::new(bytes).expect("a file in memory");
    outcome(&file.input(), options)
}

/// Two captures of the same frames as one: each frame twice, none left over.
fn check_merged(files: [&[u8]; 2], options: &ReadOptions, frames: &Frames) {
    let files = files.map(|bytes| MemoryFile::new(bytes).expect("a file in memory"));
    let sources = files.iter().map(|file| open(&file.input(), options).expect("a capture"));
    let mut merged = MergedSource::new(sources.collect());
    let mut stamps = Vec::new();
    while let Some(batch) = merged.next_batch() {
        assert!((1..=BATCH_LEN_MAX).contains(&batch.records.len()));
        stamps.extend(batch.frames().map(|frame| {
            assert_eq!(frame.bytes.len(), frame.record.captured_len as usize);
            frame.record.timestamp
        }));
    }
    let (sources, waiting) = merged.into_sources();
    assert_eq!((sources.len(), waiting.count), (2, 0));
    let mut expected: Vec<_> =
        frames.frames.iter().flat_map(|(record, _)| [record.timestamp; 2]).collect();
    if expected.is_sorted() {
        assert_eq!(stamps, expected);
    }
    stamps.sort_unstable();
    expected.sort_unstable();
    assert_eq!(stamps, expected);
}

fn outcome(input: &Input, options: &ReadOptions) -> Outcome {
    let mut source = match open(input, options) {
        Ok(source) => source,
        Err(error) => {
            assert_one_line(&error);
            return Outcome::Refused(cause(&error));
        }
    };
    let is_pipe = matches!(source, FileSource::Stream(_));
    let first = source.first_timestamp();
    let frames = read(&mut source);
    if !is_pipe {
        assert_eq!(first, frames.frames.first().map(|(record, _)| record.timestamp));
    }
    Outcome::Read(frames)
}

/// Why a file was refused, without its name.
fn cause(error: &OpenError) -> String {
    match error {
        OpenError::NotACapture { prefix, magic, .. } => format!("{prefix:02x?} {magic:?}"),
        OpenError::HeaderDamaged(_, fault) => fault.to_string(),
        OpenError::Empty(_) => String::from("empty"),
        other => other.to_string(),
    }
}
