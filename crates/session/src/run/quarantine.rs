//! Pieces of packets by which an application panicked, kept for whoever finds out why.
//!
//! **Bounds.** The folder has at most [`FILES_MAX`] files and [`BYTES_MAX`] bytes, those of earlier
//! runs included. The first pieces stay, as the first fault is the one to look at; those that find
//! no room are counted.
//!
//! **Privacy.** The files hold packets as they were captured. Nobody but the user of the run reads
//! them, and no file goes through a link.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use engine::flow::pass::{Fault, Piece};
use files::FileMode;
use packet::Frame;
use packet::file::Interface;

use crate::application::{Count, Counting};
use crate::copied::CaptureBuffer;

/// The folder where settings name none, in the folder of the process.
pub(super) const FOLDER: &str = "wirelens-quarantine";

/// Files in the folder.
pub(super) const FILES_MAX: usize = 32;

/// Their bytes.
pub(super) const BYTES_MAX: u64 = 16 << 20;

/// The folder of a run.
pub(super) struct Quarantine {
    /// None where nothing is kept.
    folder: Option<PathBuf>,
    /// One file at a time is made, so that the bounds hold.
    making: Mutex<()>,
    written: AtomicU64,
    no_room: AtomicU64,
    failed: AtomicU64,
}

/// Why a piece is not kept.
enum NotKept {
    NotWanted,
    NoRoom,
    Failed(io::Error),
}

impl From<io::Error> for NotKept {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// The folder as it is granted to a run in a jail, which makes none later: one that settings name
/// is made; the other is there or not, as a run without a fault leaves nothing behind.
pub(super) fn ready(named: Option<&Path>) -> Option<PathBuf> {
    let folder = named.unwrap_or(Path::new(FOLDER));
    if named.is_some() && !folder.as_os_str().is_empty() {
        // Where it fails, the first piece that finds no folder says so.
        let _ = files::create_folder(folder, FileMode::OWNER);
    }
    folder.is_dir().then(|| folder.to_owned())
}

impl Quarantine {
    /// Where settings say; a blank name keeps nothing.
    pub(super) fn new(named: Option<&Path>) -> Self {
        let folder = named.unwrap_or(Path::new(FOLDER)).to_owned();
        let folder = (!folder.as_os_str().is_empty()).then_some(folder);
        let (written, no_room, failed) = Default::default();
        Self { folder, making: Mutex::default(), written, no_room, failed }
    }

    /// Keeps a piece; what there is to say of that.
    pub(super) fn keep(&self, application: &str, fault: &Fault, piece: &Piece<'_>) -> String {
        match self.make(application, fault, piece) {
            Ok(path) => {
                self.written.fetch_add(1, Ordering::Relaxed);
                format!("its packets are in {}", path.display())
            }
            Err(NotKept::NotWanted) => String::from("its packets are not kept"),
            Err(NotKept::NoRoom) => {
                self.no_room.fetch_add(1, Ordering::Relaxed);
                format!(
                    "its packets are not kept, as the quarantine {} is full: move its files away",
                    self.folder.as_deref().unwrap_or(Path::new("")).display()
                )
            }
            Err(NotKept::Failed(error)) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                let folder = self.folder.as_deref().unwrap_or(Path::new("")).display();
                let wanted = "wanted: a folder that is there when the run begins";
                format!("its packets cannot be kept in {folder}: {error}; {wanted}")
            }
        }
    }

    fn make(
        &self,
        application: &str,
        fault: &Fault,
        piece: &Piece<'_>,
    ) -> Result<PathBuf, NotKept> {
        let folder = self.folder.as_deref().ok_or(NotKept::NotWanted)?;
        let capture = capture(application, fault, piece)?;
        let _one = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        files::create_folder(folder, FileMode::OWNER)?;
        check_own(folder)?;
        let (file_count, byte_count) = held(folder)?;
        let is_fitting = byte_count.saturating_add(capture.len() as u64) <= BYTES_MAX;
        if file_count >= FILES_MAX || !is_fitting {
            return Err(NotKept::NoRoom);
        }
        for number in 1..=FILES_MAX {
            let path = folder.join(format!("fault-{number:02}-{application}.pcapng"));
            match files::create(&path, FileMode::OWNER) {
                Ok(mut file) => {
                    let mut capture = capture;
                    capture.write(&mut file)?;
                    file.sync_data()?;
                    return Ok(path);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(NotKept::NoRoom)
    }

    /// What is shown of it while it runs.
    pub(super) fn counting(self: &std::sync::Arc<Self>) -> Counting {
        let quarantine = std::sync::Arc::clone(self);
        Box::new(move || {
            let about = "Pieces of packets that applications panicked at, by outcome.";
            let Self { written, no_room, failed, .. } = &*quarantine;
            [("written", written), ("no_room", no_room), ("failed", failed)]
                .map(|(outcome, count)| {
                    let count = count.load(Ordering::Relaxed);
                    Count::total("quarantined_pieces", about, count).with("outcome", outcome)
                })
                .into()
        })
    }
}

/// A folder of another user would let that one have files replaced, and a link leads elsewhere.
fn check_own(folder: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(folder)?;
    // As the kernel names the user of a process; where it does not, the other checks have to do.
    let is_ours = fs::metadata("/proc/self").map_or(true, |us| us.uid() == found.uid());
    let wanted = match (found.is_dir(), is_ours) {
        (true, true) => return Ok(()),
        (false, _) => "is a link or no folder",
        (true, false) => "is the folder of another user",
    };
    Err(io::Error::other(format!("it {wanted}; wanted: a folder of the user of this process")))
}

/// Files and bytes in the folder.
fn held(folder: &Path) -> io::Result<(usize, u64)> {
    let (mut file_count, mut byte_count) = (0, 0);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        file_count += 1;
        byte_count += entry.metadata()?.len();
    }
    Ok((file_count, byte_count))
}

/// The piece as a capture whose comment says why.
fn capture(application: &str, fault: &Fault, piece: &Piece<'_>) -> io::Result<CaptureBuffer> {
    let mut comment = format!(
        "wirelens {}: {application} {}\n{} packets, each as far as the run reads it. They may hold \
         private data: read docs/guide/faults.md before you send them to anybody.\n",
        env!("CARGO_PKG_VERSION"),
        fault.panic,
        fault.packet_count,
    );
    let frames = frames(piece);
    if frames.is_empty() {
        comment.push_str("The run reads no frames; the packets are of these flows:\n");
        for packet in piece.packets {
            comment.push_str(&format!("{} {}\n", packet.timestamp.as_ns(), packet.key()));
        }
    }
    let mut capture = CaptureBuffer::with_comment(Some(comment));
    for frame in frames {
        let link = frame.record.link;
        let interface = Interface { link, ..Interface::default() };
        let name = (link.0, &interface);
        let put = capture.frame(name, frame.record, frame.bytes, None);
        put.map_err(|error| io::Error::other(error.to_string()))?;
    }
    Ok(capture)
}

/// The frames of a piece: all of them, or those of its flows where it has no other.
fn frames<'a>(piece: &Piece<'a>) -> Vec<Frame<'a>> {
    match piece.records.is_empty() {
        true => piece.flows().map(|(_, frame, ..)| frame).collect(),
        false => piece.frames().collect(),
    }
}
