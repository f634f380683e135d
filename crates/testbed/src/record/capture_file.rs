//! A pcapng file that grows under another name.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use packet::file::{FrameNote, Interface, InterfaceStatistics, PcapngEncoder, Section};
use packet::{Direction, Frame};

/// What its name ends in until it is complete.
const PARTIAL_SUFFIX: &str = ".partial";

/// Bytes that are written at once.
const WRITTEN_AT_ONCE: usize = 1 << 20;

/// One growing file with one interface.
#[derive(Debug)]
pub(super) struct CaptureFile {
    path: PathBuf,
    partial: PathBuf,
    file: File,
    buffer: Vec<u8>,
    encoder: PcapngEncoder,
    interface: u32,
    has_directions: bool,
}

impl CaptureFile {
    /// Begins a file. `has_directions` notes with each frame which way it passed.
    pub(super) fn create(
        path: &Path,
        section: &Section,
        interface: &Interface,
        has_directions: bool,
    ) -> io::Result<Self> {
        if path.try_exists()? {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let mut partial = OsString::from(path);
        partial.push(PARTIAL_SUFFIX);
        let partial = PathBuf::from(partial);
        let file = File::create(&partial)?;
        let mut buffer = Vec::with_capacity(2 * WRITTEN_AT_ONCE);
        let mut encoder = PcapngEncoder::new();
        encoder.section(&mut buffer, section);
        let interface = encoder.interface(&mut buffer, interface).map_err(io::Error::other)?;
        Ok(Self {
            path: path.to_owned(),
            partial,
            file,
            buffer,
            encoder,
            interface,
            has_directions,
        })
    }

    /// Adds a frame.
    pub(super) fn write(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        let direction =
            if self.has_directions { frame.record.direction } else { Direction::Unknown };
        let note = FrameNote {
            timestamp: frame.record.timestamp,
            interface: self.interface,
            wire_len: frame.record.wire_len,
            direction,
            comments: &[],
        };
        self.encoder.frame(&mut self.buffer, &note, frame.bytes).map_err(io::Error::other)?;
        if self.buffer.len() >= WRITTEN_AT_ONCE { self.flush() } else { Ok(()) }
    }

    /// Adds what was counted, and gives the file its name.
    pub(super) fn finish(mut self, statistics: &InterfaceStatistics) -> io::Result<()> {
        self.encoder
            .statistics(&mut self.buffer, self.interface, statistics)
            .map_err(io::Error::other)?;
        self.flush()?;
        fs::rename(&self.partial, &self.path)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}
