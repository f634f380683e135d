//! How bytes get to the disk: plainly, or around the page cache with several writes on their way.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use files::FileMode;

use super::chunk::Block;
use super::options::Direct;
use crate::index::ALIGNMENT;
use crate::own::Access;
use crate::uring::{Ring, Ticket};

/// Where chunks are written. What is not a plain disk, such as one that is slow on purpose, is
/// given to [`Recorder::create_on`](super::Recorder::create_on).
pub trait Disk: Send {
    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// What the system said.
    fn write(&mut self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Chunks that are begun before the outcome of the first is asked for.
    fn depth(&self) -> usize {
        1
    }

    /// How complete files are synchronised, on a thread of their own.
    fn syncing(&self) -> SyncFile {
        Box::new(File::sync_data)
    }
}

/// Waits until the disk has a file.
pub type SyncFile = Box<dyn FnMut(&File) -> io::Result<()> + Send>;

/// A file as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainDisk;

impl Disk for PlainDisk {
    fn write(&mut self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }
}

/// Writes on their way at a time: enough to keep a disk busy while one is acknowledged.
const DEPTH: usize = 4;

/// A write that was begun.
pub(super) enum WriteState {
    /// It is over.
    Done(Block, io::Result<()>),
    /// The kernel has it.
    InFlight(Ticket),
}

/// The way that is used.
pub(super) enum Way {
    Plain(Box<dyn Disk>),
    Ring(Box<Ring>),
}

impl Way {
    /// Finds out what is possible in `folder`.
    pub(super) fn find(
        direct: Direct,
        folder: &Path,
        disk: Option<Box<dyn Disk>>,
        blocks: &[&Block],
    ) -> io::Result<Self> {
        if let Some(disk) = disk {
            return Ok(Self::Plain(disk));
        }
        let plain = Self::Plain(Box::new(PlainDisk));
        if direct == Direct::Never {
            return Ok(plain);
        }
        match Ring::new(DEPTH, blocks).and_then(|ring| probe(ring, folder)) {
            Ok(ring) => Ok(Self::Ring(Box::new(ring))),
            Err(error) if direct == Direct::Always => Err(error),
            Err(_) => Ok(plain),
        }
    }

    pub(super) const fn is_direct(&self) -> bool {
        matches!(self, Self::Ring(_))
    }

    /// Writes that may be on their way at a time.
    pub(super) fn depth(&self) -> usize {
        match self {
            Self::Plain(disk) => disk.depth(),
            Self::Ring(_) => DEPTH,
        }
    }

    /// Makes a file for it.
    pub(super) fn create(&self, path: &Path, access: Access) -> io::Result<File> {
        if self.is_direct() {
            return files::create_direct(path, access.mode());
        }
        files::create(path, access.mode())
    }

    /// Begins to write the first `len` bytes of a block.
    pub(super) fn begin(
        &mut self,
        file: &Arc<File>,
        block: Block,
        len: usize,
        offset: u64,
    ) -> WriteState {
        match self {
            Self::Plain(disk) => {
                let bytes = block.bytes().get(..len).unwrap_or_default();
                let result = disk.write(file, bytes, offset);
                WriteState::Done(block, result)
            }
            Self::Ring(ring) => match ring.begin(Arc::clone(file), block, len, offset) {
                Ok(ticket) => WriteState::InFlight(ticket),
                Err((block, error)) => WriteState::Done(block, Err(error)),
            },
        }
    }

    /// Waits until a write is over.
    pub(super) fn end(&mut self, ticket: Ticket) -> Option<(Block, io::Result<()>)> {
        match self {
            Self::Plain(_) => None,
            Self::Ring(ring) => ring.end(ticket),
        }
    }

    /// Writes immediately, as a repetition: blocks are aligned, so that it does for direct files
    /// too.
    pub(super) fn again(&mut self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self {
            Self::Plain(disk) => disk.write(file, bytes, offset),
            Self::Ring(_) => file.write_all_at(bytes, offset),
        }
    }
}

/// Writes a block around the page cache into a file that is deleted again.
fn probe(mut ring: Ring, folder: &Path) -> io::Result<Ring> {
    let path = folder.join(format!("probe-{}.partial", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let result = files::create_direct(&path, FileMode::OWNER).and_then(|file| {
        let file = Arc::new(file);
        let block = Block::new(ALIGNMENT, Block::UNNUMBERED);
        let ticket = ring.begin(file, block, ALIGNMENT, 0).map_err(|(_, error)| error)?;
        ring.end(ticket).map_or(Ok(()), |(_, result)| result)
    });
    let _ = std::fs::remove_file(&path);
    result.map(|()| ring)
}
