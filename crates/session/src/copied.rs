//! Frames that are written again as pcapng, some with a comment.

use std::collections::BTreeMap;
use std::io::{self, Write};

use packet::Record;
use packet::file::{Comments, FileFault, FrameNote, Interface, PcapngEncoder, Section};

/// Bytes gathered before they are written.
const BUFFER_LEN: usize = 256 * 1024;

/// A capture in one section, that grows in memory until it is written out.
pub struct CaptureBuffer {
    encoder: PcapngEncoder,
    /// Number in the file of each interface, by what its caller calls it.
    interfaces: BTreeMap<u16, u32>,
    bytes: Vec<u8>,
}

impl Default for CaptureBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl CaptureBuffer {
    /// Begins with what says who wrote it.
    #[must_use]
    pub fn new() -> Self {
        Self::with_comment(None)
    }

    /// The same, with what is to be said of all frames.
    #[must_use]
    pub fn with_comment(comment: Option<String>) -> Self {
        let mut encoder = PcapngEncoder::new();
        let mut bytes = Vec::with_capacity(BUFFER_LEN * 2);
        let comments = Comments { texts: comment.into_iter().collect(), ..Comments::default() };
        let application = String::from("wirelens");
        let section = Section { application, comments, ..Section::default() };
        encoder.section(&mut bytes, &section);
        Self { encoder, interfaces: BTreeMap::new(), bytes }
    }

    /// Adds a frame; `name` is that of its interface, which is described before its first frame.
    ///
    /// # Errors
    /// [`FileFault`]: what a file of this kind cannot hold.
    pub fn frame(
        &mut self,
        (name, interface): (u16, &Interface),
        record: &Record,
        bytes: &[u8],
        comment: Option<&str>,
    ) -> Result<(), FileFault> {
        let interface = match self.interfaces.get(&name) {
            Some(&number) => number,
            None => {
                let number = self.encoder.interface(&mut self.bytes, interface)?;
                self.interfaces.insert(name, number);
                number
            }
        };
        let note = FrameNote {
            timestamp: record.timestamp,
            interface,
            wire_len: record.wire_len,
            direction: record.direction,
            comments: comment.as_slice(),
        };
        self.encoder.frame(&mut self.bytes, &note, bytes)
    }

    /// Bytes that have gathered.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing has: all of it was written.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether it is time to write.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= BUFFER_LEN
    }

    /// Writes what has gathered.
    ///
    /// # Errors
    /// The system's.
    pub fn write(&mut self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&self.bytes)?;
        self.bytes.clear();
        Ok(())
    }
}
