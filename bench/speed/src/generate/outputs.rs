//! The forms in which the same packets are written.

use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use packet::dissect::{DissectOptions, dissect};
use packet::file::PcapEncoder;
use packet::{Frame, LinkType, Record, Timestamp};

use super::{HEADERS_SNAPLEN, OutputArguments, Resolution};
use crate::Failure;
use crate::records::PacketRecord;

/// Bytes kept before they are written.
const BUFFER_LEN: usize = 1 << 20;

/// A file that grows under a name ending in `.partial`.
struct Growing {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
}

/// A pcap file.
struct Frames {
    encoder: PcapEncoder,
    file: Growing,
}

/// Every form that was asked for.
pub(super) struct Outputs {
    frames: Vec<Frames>,
    records: Option<Growing>,
    columns: Option<[Growing; 2]>,
    written: OutputTotals,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OutputTotals {
    packets: u64,
    bytes: u64,
    records: u64,
}

impl Outputs {
    pub(super) fn create(arguments: &OutputArguments) -> Result<Self, Failure> {
        let encoder = |snaplen| match arguments.resolution {
            Resolution::Us => PcapEncoder::microseconds(LinkType::ETHERNET, snaplen),
            Resolution::Ns => PcapEncoder::nanoseconds(LinkType::ETHERNET, snaplen),
        };
        let pcaps = [(&arguments.output, arguments.snaplen), (&arguments.headers, HEADERS_SNAPLEN)];
        let mut frames = Vec::new();
        for (path, snaplen) in pcaps {
            if let Some(path) = path {
                let mut file = Growing::create(path)?;
                encoder(snaplen).header(&mut file.buffer);
                frames.push(Frames { encoder: encoder(snaplen), file });
            }
        }
        let columns = match &arguments.columns {
            Some(folder) => {
                fs::create_dir_all(folder)
                    .map_err(|error| format!("{}: {error}", folder.display()))?;
                let column = |name| Growing::create(&folder.join(name));
                Some([column("src.u32")?, column("len.u32")?])
            }
            None => None,
        };
        let records = arguments.records.as_deref().map(Growing::create).transpose()?;
        if frames.is_empty() && records.is_none() && columns.is_none() {
            return Err(String::from("nothing to write; try --output FILE"));
        }
        Ok(Self { frames, records, columns, written: OutputTotals::default() })
    }

    /// Writes one Ethernet frame in every form.
    pub(super) fn write(
        &mut self,
        timestamp: Timestamp,
        wire_len: u32,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        self.written.packets += 1;
        self.written.bytes += u64::from(wire_len);
        for Frames { encoder, file } in &mut self.frames {
            encoder.frame(&mut file.buffer, timestamp, wire_len, bytes);
            file.flush_if_full()?;
        }
        if self.records.is_none() && self.columns.is_none() {
            return Ok(());
        }
        let record = Record {
            timestamp,
            captured_len: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
            wire_len,
            link: LinkType::ETHERNET,
            layers: dissect(LinkType::ETHERNET, bytes, wire_len, DissectOptions::default()),
            ..Record::default()
        };
        let Some(record) = PacketRecord::of_frame(&Frame { record: &record, bytes }) else {
            return Ok(());
        };
        self.written.records += 1;
        if let Some(file) = &mut self.records {
            record.encode(&mut file.buffer);
            file.flush_if_full()?;
        }
        if let Some([sources, lens]) = &mut self.columns {
            sources.buffer.extend_from_slice(&record.source.to_le_bytes());
            lens.buffer.extend_from_slice(&u32::from(record.wire_len).to_le_bytes());
            sources.flush_if_full()?;
            lens.flush_if_full()?;
        }
        Ok(())
    }

    /// Writes what is left and gives every file its own name.
    pub(super) fn finish(self) -> Result<OutputTotals, Failure> {
        let frames = self.frames.into_iter().map(|frames| frames.file);
        let columns = self.columns.into_iter().flatten();
        frames.chain(self.records).chain(columns).try_for_each(Growing::finish)?;
        Ok(self.written)
    }
}

impl fmt::Display for OutputTotals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packets, bytes, records } = self;
        write!(f, "{packets} packets, {bytes} bytes on the wire, {records} of them IPv4 records")
    }
}

impl Growing {
    fn create(path: &Path) -> Result<Self, Failure> {
        let partial = partial(path);
        let file =
            File::create(&partial).map_err(|error| format!("{}: {error}", partial.display()))?;
        let buffer = Vec::with_capacity(BUFFER_LEN + BUFFER_LEN / 8);
        Ok(Self { path: path.to_owned(), file, buffer })
    }

    #[inline]
    fn flush_if_full(&mut self) -> Result<(), Failure> {
        if self.buffer.len() >= BUFFER_LEN { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.file.write_all(&self.buffer).map_err(|error| self.failure(&error))?;
        self.buffer.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<(), Failure> {
        self.flush()?;
        fs::rename(partial(&self.path), &self.path).map_err(|error| self.failure(&error))
    }

    fn failure(&self, error: &std::io::Error) -> Failure {
        format!("{}: {error}", self.path.display())
    }
}

fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}
