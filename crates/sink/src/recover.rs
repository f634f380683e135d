//! Recovers the complete rows of an output whose writer was killed.
//!
//! A partial file is complete up to some row: text up to its last line, Arrow
//! up to its last batch, Parquet up to the last row group that is noted
//! ([`crate::footer`]). That much is written to a file of its own; the partial
//! one is only read, so that nothing is lost where this goes wrong. It may even
//! belong to a run that still writes: then the rows so far are recovered.

use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom, Write};
use std::mem;
use std::path::{Path, PathBuf};

use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::FileWriter;
use arrow_schema::ArrowError;

use crate::messages::{self, MARK as ARROW_MESSAGE};
use crate::{Existing, Format, OutputError, OutputFile, WriteError, footer};

/// Begins the file layout of Arrow; a stream follows.
const ARROW_MAGIC: &[u8; 8] = b"ARROW1\0\0";

/// Arrow's own alignment is 8; writers that align buffers to cache lines pad the magic to them.
const ARROW_PADDED_LEN_MAX: usize = 64;

/// Begins a log of Zeek: lines without quotes, of which those with `#` are no rows. It is called
/// CSV, whose tab-separated kind it is.
const ZEEK_HEAD: &[u8] = b"#separator";

const BUFFER_LEN_BYTES: usize = 1 << 20;

/// What was saved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecoveryReport {
    /// The format, which stays the same.
    pub format: Format,
    /// Rows saved.
    pub row_count: u64,
    /// Bytes at the end of the partial file that belong to no complete row.
    pub cut_bytes: u64,
}

/// Nothing could be saved.
#[derive(Debug)]
pub enum RecoverError {
    /// The partial file cannot be read.
    Source {
        /// Its name.
        path: PathBuf,
        /// The operating system's refusal.
        source: io::Error,
    },
    /// No row of the partial file is complete.
    NoRows(PathBuf),
    /// The target's suffix stands for another format than the partial file has.
    OtherFormat {
        /// The target.
        path: PathBuf,
        /// What the partial file has.
        format: Format,
    },
    /// The target cannot be made.
    Output(OutputError),
    /// The target cannot be written.
    Write(WriteError),
}

/// Writes to `target` what is complete in `partial`, whose first bytes tell its format.
///
/// # Errors
/// [`RecoverError`]; the partial file stays as it was, and no target is begun.
pub fn recover(
    partial: &Path,
    target: &Path,
    existing: Existing,
) -> Result<RecoveryReport, RecoverError> {
    let source = Source::open(partial)?;
    if Format::from_suffix(target).is_ok_and(|format| format != source.format) {
        return Err(RecoverError::OtherFormat { path: target.to_owned(), format: source.format });
    }
    let mut output = OutputFile::create_recovered(target, existing)?;
    let (row_count, end) = match source.format {
        Format::Csv | Format::Jsonl => source.lines(&mut output),
        Format::Parquet => source.row_groups(&mut output),
        Format::Arrow => source.batches(&mut output),
    }?;
    if row_count == 0 {
        return Err(RecoverError::NoRows(partial.to_owned()));
    }
    output.finish()?;
    let cut_bytes = source.size_bytes.saturating_sub(end);
    Ok(RecoveryReport { format: source.format, row_count, cut_bytes })
}

/// Whether [`recover`] would find a row, from as little of the file as possible.
pub(crate) fn has_row(partial: &Path) -> bool {
    let Ok(source) = Source::open(partial) else { return false };
    match source.format {
        Format::Csv | Format::Jsonl => source.has_line(),
        Format::Parquet => matches!(footer::read_back(&source.file), Ok(Some(_))),
        Format::Arrow => source.has_batch(),
    }
}

/// The partial file.
struct Source<'a> {
    path: &'a Path,
    file: File,
    /// When it was opened: it may still grow.
    size_bytes: u64,
    format: Format,
    is_zeek: bool,
    /// Where an Arrow stream begins in it.
    stream_start: u64,
}

impl<'a> Source<'a> {
    fn open(path: &'a Path) -> Result<Self, RecoverError> {
        let refused = |source| RecoverError::Source { path: path.to_owned(), source };
        let file = File::open(path).map_err(refused)?;
        let metadata = file.metadata().map_err(refused)?;
        if !metadata.is_file() {
            return Err(refused(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file")));
        }
        let mut head = Vec::new();
        let head_len = ARROW_PADDED_LEN_MAX + ARROW_MESSAGE.len();
        (&file).take(head_len as u64).read_to_end(&mut head).map_err(refused)?;
        let (format, stream_start) = match head.as_slice() {
            head if head.starts_with(footer::MAGIC) => (Format::Parquet, 0),
            head if head.starts_with(ARROW_MAGIC) => {
                let mut words = head.chunks(ARROW_MAGIC.len());
                let message = words.position(|word| word.starts_with(ARROW_MESSAGE));
                (Format::Arrow, (message.unwrap_or(1) * ARROW_MAGIC.len()) as u64)
            }
            head if head.starts_with(ARROW_MESSAGE) => (Format::Arrow, 0),
            [b'{', ..] => (Format::Jsonl, 0),
            _ => (Format::Csv, 0),
        };
        let is_zeek = head.starts_with(ZEEK_HEAD);
        Ok(Self { path, file, size_bytes: metadata.len(), format, is_zeek, stream_start })
    }

    fn refused(&self, source: io::Error) -> RecoverError {
        RecoverError::Source { path: self.path.to_owned(), source }
    }

    /// From `start` on, from the beginning of the file.
    fn reader(&self, start: u64) -> Result<BufReader<&File>, RecoverError> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(start)).map_err(|error| self.refused(error))?;
        Ok(BufReader::with_capacity(BUFFER_LEN_BYTES, file))
    }

    /// Copies the first `len` bytes.
    fn copy(&self, len: u64, output: &mut OutputFile) -> Result<(), RecoverError> {
        let mut reader = self.reader(0)?.take(len);
        let mut buffer = vec![0; BUFFER_LEN_BYTES];
        loop {
            let len = reader.read(&mut buffer).map_err(|error| self.refused(error))?;
            match buffer.get(..len) {
                Some(bytes) if len > 0 => output.write_all(bytes).map_err(WriteError::Io)?,
                _ => return Ok(()),
            }
        }
    }

    /// Rows kept and where the last one ends, as the other two say it.
    fn lines(&self, output: &mut OutputFile) -> Result<(u64, u64), RecoverError> {
        let mut line_end = self.line_end();
        let (mut at, mut row_count, mut end) = (0, 0_u64, 0);
        for byte in self.reader(0)?.take(self.size_bytes).bytes() {
            at += 1;
            if let Some(is_row) = line_end(byte.map_err(|error| self.refused(error))?) {
                (row_count, end) = (row_count + u64::from(is_row), at);
            }
        }
        self.copy(end, output)?;
        Ok((row_count, end))
    }

    fn has_line(&self) -> bool {
        let Ok(reader) = self.reader(0) else { return false };
        let mut line_end = self.line_end();
        reader.bytes().map_while(Result::ok).any(|byte| line_end(byte) == Some(true))
    }

    /// Of the bytes of a text, one after the other: whether one ends a line, and that is a row.
    fn line_end(&self) -> impl FnMut(u8) -> Option<bool> + use<> {
        let (is_csv, is_zeek) = (self.format == Format::Csv && !self.is_zeek, self.is_zeek);
        let (mut is_header, mut is_quoted, mut first) = (is_csv, false, None);
        move |byte| {
            // In CSV a quote inside a quoted value is doubled, which turns this twice.
            is_quoted ^= is_csv && byte == b'"';
            let begins_with = *first.get_or_insert(byte);
            if byte != b'\n' || is_quoted {
                return None;
            }
            first = None;
            let is_head = mem::take(&mut is_header) || is_zeek && begins_with == b'#';
            Some(!is_head)
        }
    }

    fn has_batch(&self) -> bool {
        let sound_end = messages::sound_end(&self.file, self.stream_start, self.size_bytes);
        let (Ok(end), Ok(reader)) = (sound_end, self.reader(self.stream_start)) else {
            return false;
        };
        let sound = reader.take(end.saturating_sub(self.stream_start));
        let first = StreamReader::try_new(sound, None).map(|mut batches| batches.next());
        matches!(first, Ok(Some(Ok(batch))) if batch.num_rows() > 0)
    }

    fn row_groups(&self, output: &mut OutputFile) -> Result<(u64, u64), RecoverError> {
        let back = footer::read_back(&self.file).map_err(|error| self.refused(error))?;
        let Some(back) = back else { return Ok((0, 0)) };
        let encoding =
            |error| WriteError::Encoding { format: Format::Parquet, cause: format!("{error}") };
        let bytes = footer::footer(&back.groups, &back.schema).map_err(encoding)?;
        self.copy(back.end, output)?;
        output.write_all(&bytes).map_err(WriteError::Io)?;
        let row_count = back
            .groups
            .iter()
            .fold(0, |sum: u64, group| sum.saturating_add(group.num_rows().unsigned_abs()));
        Ok((row_count, back.end))
    }

    fn batches(&self, output: &mut OutputFile) -> Result<(u64, u64), RecoverError> {
        let sound_end = messages::sound_end(&self.file, self.stream_start, self.size_bytes)
            .map_err(|error| self.refused(error))?;
        if sound_end == self.stream_start {
            return Ok((0, 0));
        }
        // What is behind that is as good as torn off.
        let sound = self.reader(self.stream_start)?.take(sound_end - self.stream_start);
        let reader = match StreamReader::try_new(sound, None) {
            Ok(reader) => reader,
            Err(error) => return self.torn(&error).map(|()| (0, 0)),
        };
        let refused = |error| RecoverError::Write(crate::ipc::refused(error));
        let schema = reader.schema();
        let mut writer = FileWriter::try_new_buffered(output, &schema).map_err(refused)?;
        let mut reader = reader;
        let (mut row_count, mut end) = (0, 0);
        while let Some(batch) = reader.next() {
            match batch {
                Ok(batch) => {
                    row_count += batch.num_rows() as u64;
                    writer.write(&batch).map_err(refused)?;
                }
                Err(error) => {
                    self.torn(&error)?;
                    break;
                }
            }
            end = sound_end - reader.get_ref().limit();
        }
        writer.finish().map_err(refused)?;
        Ok((row_count, end))
    }

    /// An end that was torn off, in whatever way, is what we are here for; a
    /// disk that cannot be read is not.
    fn torn(&self, error: &ArrowError) -> Result<(), RecoverError> {
        match error {
            ArrowError::IoError(_, error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                Err(self.refused(io::Error::new(error.kind(), error.to_string())))
            }
            _ => Ok(()),
        }
    }
}

impl From<OutputError> for RecoverError {
    fn from(error: OutputError) -> Self {
        Self::Output(error)
    }
}

impl From<WriteError> for RecoverError {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

impl fmt::Display for RecoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source { path, source } => {
                write!(f, "cannot read `{}`: {source}; give a file left by a run", path.display())
            }
            Self::NoRows(path) => write!(
                f,
                "`{}` has no complete row, so there is nothing to recover; remove it",
                path.display()
            ),
            Self::OtherFormat { path, format } => write!(
                f,
                "`{}` names another format, but what is recovered stays {format}; give a name \
                 with the suffix .{}",
                path.display(),
                format.suffixes().first().unwrap_or(&format.name())
            ),
            Self::Output(error) => error.fmt(f),
            Self::Write(error) => error.fmt(f),
        }
    }
}

impl Error for RecoverError {}
