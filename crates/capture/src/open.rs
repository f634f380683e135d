//! Opens one capture, by its content.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use flate2::read::MultiGzDecoder;
use packet::file::{Decoder, Magic};
use packet::{Batch, LinkType, Source, Timestamp};

use crate::error::OpenError;
use crate::input::{Input, read_prefix, unreadable};
use crate::mapped::{self, MappedSource};
use crate::reading::{ReadOptions, Reading};
use crate::report::{Damage, DamageCause, Report};
use crate::split;
use crate::stream::{CountingReader, StreamSource};
use crate::sys::interruptible::Interruptible;

/// Frames of one capture, however it is stored.
pub enum FileSource {
    /// From a memory map.
    Mapped(Box<MappedSource>),
    /// From a stream.
    Stream(Box<StreamSource>),
    /// A compressed file that was examined and is opened again when its turn
    /// comes: thousands of them would otherwise be open together.
    Later(Box<Later>),
}

/// A capture to be opened when the first batch is asked for.
pub struct Later {
    path: PathBuf,
    options: ReadOptions,
    decoder: Decoder,
    report: Report,
}

/// Opens a capture and looks at its first header.
///
/// # Errors
/// There is none, it cannot be read, it is empty, or it is something else.
pub fn open(input: &Input, options: &ReadOptions) -> Result<FileSource, OpenError> {
    match input {
        Input::Stdin => {
            let unreadable = |error| OpenError::Unreadable(PathBuf::from(STDIN), error);
            let stdin = io::stdin().as_fd().try_clone_to_owned().map_err(unreadable)?;
            open_pipe(File::from(stdin), input, options)
        }
        Input::File(path) => open_file(path, input, options),
    }
}

fn open_file(path: &Path, input: &Input, options: &ReadOptions) -> Result<FileSource, OpenError> {
    let unreadable = |error| unreadable(path, error);
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return open_pipe(file, input, options);
    }
    if metadata.len() == 0 {
        return Err(OpenError::Empty(input.to_string()));
    }
    let Ok(map) = mapped::map(&file) else {
        // Some file systems do not map; all of them read.
        return open_stream(Box::new(file), input, options);
    };
    if Magic::detect(&map).is_some_and(Magic::is_compressed) {
        return match open_stream(Box::new(file), input, options)? {
            FileSource::Stream(stream) => Ok(FileSource::Later(Box::new(Later {
                path: path.to_owned(),
                options: options.clone(),
                decoder: stream.decoder().clone(),
                report: Report::default(),
            }))),
            opened => Ok(opened),
        };
    }
    let (decoder, header_len) = decoder_for(&map, input)?;
    let reading = Reading::new(input.to_string(), decoder, options.clone());
    Ok(FileSource::Mapped(Box::new(MappedSource::new(Arc::new(map), reading, header_len))))
}

/// What standard input is called in messages.
const STDIN: &str = "standard input";

fn open_pipe(file: File, named: &Input, options: &ReadOptions) -> Result<FileSource, OpenError> {
    let input = Interruptible::new(file, Arc::clone(&options.stop));
    open_stream(Box::new(input), named, options)
}

fn open_stream(
    input: Box<dyn Read + Send>,
    named: &Input,
    options: &ReadOptions,
) -> Result<FileSource, OpenError> {
    let cannot_read = |error| match named {
        Input::Stdin => OpenError::Unreadable(PathBuf::from(STDIN), error),
        Input::File(path) => unreadable(path, error),
    };
    let (mut input, consumed) = decompress(input).map_err(cannot_read)?;
    let prefix = read_prefix(&mut input).map_err(cannot_read)?;
    if prefix.is_empty() {
        return Err(OpenError::Empty(named.to_string()));
    }
    let (decoder, header_len) = decoder_for(&prefix, named)?;
    let reading = Reading::new(named.to_string(), decoder, options.clone());
    let stream = StreamSource::new(input, consumed, &prefix, header_len, reading);
    Ok(FileSource::Stream(Box::new(stream)))
}

/// A stream without its compression, and the count of bytes taken from below it.
#[allow(clippy::type_complexity)]
fn decompress(
    mut input: Box<dyn Read + Send>,
) -> io::Result<(Box<dyn Read + Send>, Arc<AtomicU64>)> {
    let prefix = read_prefix(&mut input)?;
    let magic = Magic::detect(&prefix);
    let (counted, consumed) = CountingReader::new(io::Cursor::new(prefix).chain(input));
    let plain: Box<dyn Read + Send> = match magic {
        Some(Magic::Gzip) => Box::new(MultiGzDecoder::new(BufReader::new(counted))),
        Some(Magic::Zstd) => Box::new(zstd::stream::read::Decoder::new(counted)?),
        _ => Box::new(counted),
    };
    Ok((plain, consumed))
}

/// The first bytes of what a compressed file holds.
pub(crate) fn decompressed_prefix(path: &Path) -> Option<Vec<u8>> {
    let file = File::open(path).ok()?;
    let (mut input, _) = decompress(Box::new(file)).ok()?;
    read_prefix(&mut input).ok()
}

fn decoder_for(prefix: &[u8], input: &Input) -> Result<(Decoder, usize), OpenError> {
    let prefix = prefix.get(..packet::file::PREFIX_LEN).unwrap_or(prefix);
    Decoder::new(prefix).map_err(|fault| match Magic::detect(prefix) {
        Some(magic) if magic.is_capture() => OpenError::HeaderDamaged(input.to_string(), fault),
        magic => OpenError::NotACapture { name: input.to_string(), prefix: prefix.to_vec(), magic },
    })
}

impl Later {
    fn open(&self) -> Result<FileSource, OpenError> {
        self.open_with(&self.options)
    }

    fn open_with(&self, options: &ReadOptions) -> Result<FileSource, OpenError> {
        let unreadable = |error| unreadable(&self.path, error);
        let file = File::open(&self.path).map_err(unreadable)?;
        open_stream(Box::new(file), &Input::File(self.path.clone()), options)
    }
}

impl FileSource {
    /// What was read, filtered and found damaged.
    #[must_use]
    pub fn report(&self) -> &Report {
        match self {
            Self::Mapped(source) => source.report(),
            Self::Stream(source) => source.report(),
            Self::Later(later) => &later.report,
        }
    }

    /// Time of the first frame, without taking it; `None` of a stream that
    /// cannot be read twice, or where there is no frame.
    #[must_use]
    pub fn first_timestamp(&self) -> Option<Timestamp> {
        let first = |mut source: FileSource| {
            source.next_batch()?.records.first().map(|record| record.timestamp)
        };
        match self {
            Self::Mapped(source) => first(Self::Mapped(Box::new(source.look_ahead()))),
            Self::Later(later) => later.open().ok().and_then(first),
            Self::Stream(_) => None,
        }
    }

    /// Link types that the capture names before its first frame, found without
    /// taking one; none of a stream, which cannot be read twice.
    #[must_use]
    pub fn first_links(&self) -> Vec<LinkType> {
        let links = |decoder: &Decoder| {
            decoder.interfaces().iter().map(|interface| interface.link).collect()
        };
        match self {
            Self::Mapped(source) => split::read_preamble(source)
                .map_or_else(|| links(source.decoder()), |ahead| links(ahead.decoder())),
            Self::Later(later) => {
                // Without the filter, which may have to read far for a frame that passes.
                let options = ReadOptions { filter: None, ..later.options.clone() };
                let Ok(mut source) = later.open_with(&options) else { return Vec::new() };
                source.next_batch();
                links(source.decoder())
            }
            Self::Stream(source) => links(source.decoder()),
        }
    }

    /// The decoder, with what the capture says of itself.
    #[must_use]
    pub fn decoder(&self) -> &Decoder {
        match self {
            Self::Mapped(source) => source.decoder(),
            Self::Stream(source) => source.decoder(),
            Self::Later(later) => &later.decoder,
        }
    }
}

impl Source for FileSource {
    fn next_batch(&mut self) -> Option<Batch<'_>> {
        if let Self::Later(later) = self {
            if later.report.damage.is_some() {
                return None;
            }
            match later.open() {
                Ok(opened) => *self = opened,
                Err(error) => {
                    later.report.damage = Some(Damage {
                        name: later.path.display().to_string(),
                        offset: 0,
                        frames_before: 0,
                        cause: DamageCause::Unreadable(error.to_string()),
                    });
                }
            }
        }
        match self {
            Self::Mapped(source) => source.next_batch(),
            Self::Stream(source) => source.next_batch(),
            Self::Later(_) => None,
        }
    }
}
