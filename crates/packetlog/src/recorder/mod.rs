//! From a frame and how much of it is kept to files on a disk.
//!
//! [`Recorder::store`] writes the packet into the open chunk of its class's priority and nothing
//! else: no allocation, no system call, no lock. A full chunk crosses to the writer's thread,
//! which ends it with trailer and checksum, writes it, indexes it and sends the memory back. When
//! no memory is left, packets are lost and counted, unless [`RecorderOptions::waits`].
//!
//! | file | holds |
//! |---|---|
//! | `options`, `fault`, `state` | what goes in, what goes wrong, what others read meanwhile |
//! | `chunk`, `head` | memory of a chunk; what each begins with |
//! | `book` | the account of all packets, in a file that outlives them |
//! | `ledger` | the journal of what was written and deleted, and its anchors |
//! | `syncing` | closed files on their way down to the disk |
//! | `why` | reasons of marked packets |
//! | `writer` | the thread; `loss` what could not be written, `room` what is deleted, `files` and `shelf` what the folder holds, `disk` how bytes get there |

mod book;
mod chunk;
mod disk;
mod fault;
mod files;
mod head;
mod ledger;
mod loss;
mod options;
mod room;
mod shelf;
mod state;
mod syncing;
mod why;
mod writer;

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use packet::file::{FrameFields, Interface, InterfaceStatistics, Section};
use packet::{Frame, HashSeed};

pub use crate::cause::Cause;
pub use crate::section::ClassInfo;
pub use disk::{Disk, PlainDisk, SyncFile};
pub use fault::RecorderError;
pub use options::{Clock, Direct, Encoding, Notes, RecorderOptions, WhenFull};
pub use state::{RecorderState, StreamState};

pub(crate) use chunk::Block;

use crate::index::{ALIGNMENT, ClassRow, FlowBook, Note, Trailer, add_row};
use crate::judged::PacketVerdict;
use crate::log::{FolderLock, RecoveryReport, recover_locked};
use crate::own::create_folder;
use crate::pipeline::{KeepOutcome, Keeper};
use crate::policy::Table;
use crate::reasons::Reason;
use crate::section::class_label;
use chunk::Chunk;
use head::{Head, nameless};
use writer::{Message, Writer, WriterContext};

/// Classes a recorder knows: their rows fit a trailer.
const CLASS_COUNT_MAX: usize = 800;
/// Bytes that a packet takes besides its own, at most: header, note as a comment, flags.
const FRAME_OVERHEAD_MAX: usize = 2048;

/// The outcome of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreOutcome {
    /// It is in a chunk.
    Yes,
    /// It is lost, and counted.
    NoRoom(Cause),
}

/// The classes of one priority, whose packets share files.
#[derive(Debug)]
struct Stream {
    chunk: Option<Box<Chunk>>,
    flows: FlowBook,
    /// Since the last chunk was given away; by class, then unknown ones.
    rows: Vec<ClassRow>,
    /// When counting began, where nothing is stored.
    counting_since: Option<Duration>,
    /// Since the last chunk was given away.
    reasons: Vec<Reason>,
}

/// What was recorded, when all of it is on the disk or lost.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecorderReport {
    /// The outcome of packets, by class: stored is what is in the files now, or was until it had
    /// to make room.
    pub rows: Vec<ClassRow>,
    /// Packets lost, by cause.
    pub lost: Vec<(Cause, u64)>,
    /// Chunks written.
    pub chunks: u64,
    /// Bytes of them on the disk, with index and hashes, as files were compressed or not.
    pub bytes: u64,
    /// Files that the disk may not have: it reported an error, or took longer than
    /// [`RecorderOptions::sync_wait`].
    pub files_unsynced: u64,
    /// Reasons of marked packets stored.
    pub reasons: u64,
    /// Those that could not be.
    pub reasons_lost: u64,
    /// Stamps before 1970, written as 1970.
    pub stamps_clamped: u64,
    /// Frames longer than a chunk, cut.
    pub frames_cut: u64,
}

/// Stores packets; see [the module](self).
#[derive(Debug)]
pub struct Recorder {
    options: RecorderOptions,
    clock: Clock,
    head: Head,
    classes: Vec<ClassInfo>,
    /// Index of the stream of each class; the last is that of unknown ones.
    stream_of: Vec<usize>,
    streams: Vec<Stream>,
    /// Sums over chunks that were given away.
    totals: Vec<ClassRow>,
    scratch: Vec<u8>,
    state: Arc<RecorderState>,
    to_writer: Sender<Message>,
    free: Receiver<Box<Chunk>>,
    /// Chunks that came back.
    #[allow(clippy::vec_box)] // They come and go in their boxes.
    shelf: Vec<Box<Chunk>>,
    thread: Option<JoinHandle<()>>,
    stamps_clamped: u64,
    frames_cut: u64,
    /// Packets lost here since the last report to the writer, by cause.
    lost: [u64; Cause::ALL.len()],
    _locked: FolderLock,
}

impl Recorder {
    /// Puts right what an earlier recorder left unfinished in the folder, and begins new files.
    ///
    /// # Errors
    /// See [`RecorderError`].
    pub fn create(
        options: RecorderOptions,
        classes: &[ClassInfo],
        section: &Section,
        clock: Clock,
    ) -> Result<(Self, RecoveryReport), RecorderError> {
        Self::create_on(options, classes, section, clock, None)
    }

    /// [`Recorder::create`] with a disk of the caller's, which is then written plainly.
    ///
    /// # Errors
    /// See [`RecorderError`].
    pub fn create_on(
        mut options: RecorderOptions,
        classes: &[ClassInfo],
        section: &Section,
        clock: Clock,
        disk: Option<Box<dyn Disk>>,
    ) -> Result<(Self, RecoveryReport), RecorderError> {
        check(&options, classes)?;
        let folder = options.folder.clone();
        create_folder(&folder, options.access)
            .map_err(|error| RecorderError::Folder { path: folder, error })?;
        // A head elsewhere would show that all of a log was removed if the disk had not its folder.
        if options.sync || options.anchor.is_some() {
            // The folder may be new, with some above it; what others own need not be ours to open.
            for above in options.folder.ancestors().skip(1) {
                let _ = ::files::sync_folder(above);
            }
        }
        let locked = FolderLock::new(&options.folder)?;
        let recovered = recover_locked(&options.folder, false, &options.boot, &locked)?;
        let mut priorities: Vec<u8> = classes.iter().map(|class| class.priority).collect();
        priorities.sort_unstable();
        priorities.dedup();
        options.chunk_count = options.chunk_count.max(2 * priorities.len() + 2).min(4096);
        options.fit_chunks(priorities.len(), Trailer::len(classes.len() + 2));
        let place = |priority| priorities.iter().position(|&known| known == priority).unwrap_or(0);
        let mut stream_of: Vec<usize> = classes.iter().map(|class| place(class.priority)).collect();
        // What no class explains is as dear as the dearest.
        stream_of.push(priorities.len() - 1);
        let state = Arc::new(RecorderState::new(options.chunk_count, &priorities));
        let (to_writer, messages) = channel();
        let (give_back, free) = channel();
        let mut blocks = Vec::new();
        for number in 0..options.chunk_count as u16 {
            blocks.push(Box::new(Chunk::new(options.chunk_len, number)));
        }
        let names: Vec<String> = classes.iter().map(|class| class_label(&class.name)).collect();
        let shared = WriterContext { clock, state: Arc::clone(&state), free: give_back.clone() };
        let writer = Writer::new(&options, &priorities, names, shared, disk, &blocks)?;
        for chunk in blocks {
            // The receiver is ours and alive.
            let _ = give_back.send(chunk);
        }
        let thread = std::thread::Builder::new()
            .name("packetlog".into())
            .spawn(move || writer.run(&messages))
            .map_err(|error| RecorderError::Thread(error.to_string()))?;
        let rows = || (0..=classes.len()).map(|class| empty_row(class, classes.len())).collect();
        let streams = priorities.iter().map(|_| Stream {
            chunk: None,
            // What is written does not depend on it.
            flows: FlowBook::new(HashSeed::new(RandomState::new().hash_one(0_u64))),
            rows: rows(),
            counting_since: None,
            reasons: Vec::new(),
        });
        let recorder = Self {
            head: Head::new(section, classes, options.chunk_len / 2),
            clock,
            classes: classes.to_vec(),
            stream_of,
            streams: streams.collect(),
            totals: rows(),
            scratch: Vec::with_capacity(4096),
            state,
            to_writer,
            free,
            shelf: Vec::new(),
            thread: Some(thread),
            stamps_clamped: 0,
            frames_cut: 0,
            lost: [0; Cause::ALL.len()],
            _locked: locked,
            options,
        };
        Ok((recorder, recovered))
    }

    /// Describes the interface that records call `index`. One that is met undescribed is written
    /// without a name.
    pub fn interface(&mut self, index: u16, interface: &Interface) {
        if self.head.number(index).is_some() {
            return;
        }
        self.head.add(index, interface);
        // Chunks that are open know fewer interfaces: they are given away as they are.
        self.flush();
    }

    /// Stores the first `kept_len` bytes of a frame.
    #[inline]
    pub fn store(
        &mut self,
        frame: &Frame<'_>,
        kept_len: u32,
        judged: &PacketVerdict,
    ) -> StoreOutcome {
        let last = self.classes.len();
        let class = usize::from(judged.class).min(last);
        let stream_index = self.stream_of.get(class).copied().unwrap_or(0);
        let record = frame.record;
        let Some(interface) = self.head.number(record.interface) else {
            self.interface(record.interface, &nameless(record.link));
            return self.store(frame, kept_len, judged);
        };
        let Some(stream) = self.streams.get_mut(stream_index) else {
            return StoreOutcome::NoRoom(Cause::WriterEnded);
        };
        let note;
        let options: &[u8] = match (judged.class, self.options.notes) {
            (0, _) => &[],
            (_, Notes::Option) => {
                note = Note::option(judged);
                &note
            }
            (_, Notes::Comment) => {
                let name = self.classes.get(class).map_or("unknown", |class| &class.name);
                comment(&mut self.scratch, &Note::text(judged, name));
                &self.scratch
            }
        };
        let ns = record.timestamp.as_ns();
        let ticks = u64::try_from(ns).unwrap_or_else(|_| {
            self.stamps_clamped += 1;
            0
        });
        let kept = frame.bytes.get(..kept_len as usize).unwrap_or(frame.bytes);
        let direction = record.direction;
        let wire_len = record.wire_len;
        let fields = FrameFields { interface, ticks, wire_len, direction, options };
        let Some(chunk) = &mut stream.chunk else {
            return self.store_in_next(stream_index, frame, kept_len, judged);
        };
        if !chunk.put(&fields, kept, ticks.cast_signed()) {
            return self.store_in_next(stream_index, frame, kept_len, judged);
        }
        if let Some((key, _)) = &judged.flow {
            stream.flows.list(key, &mut chunk.keys);
        }
        if let Some(row) = stream.rows.get_mut(class) {
            let wire_len = u64::from(wire_len);
            row.seen_packets += 1;
            row.seen_bytes += wire_len;
            row.stored_packets += 1;
            row.stored_bytes += wire_len;
            row.kept_bytes += kept.len() as u64;
        }
        StoreOutcome::Yes
    }

    /// Asks for what is known of the flow of a packet that is about to come.
    #[inline(always)]
    pub fn expect(&self, judged: &PacketVerdict) {
        let class = usize::from(judged.class).min(self.classes.len());
        let stream = self.stream_of.get(class).and_then(|&index| self.streams.get(index));
        if let (Some(stream), Some((key, _))) = (stream, &judged.flow) {
            stream.flows.prefetch(key);
        }
    }

    /// Counts a packet of which the policy keeps nothing.
    #[inline]
    pub fn pass_over(&mut self, frame: &Frame<'_>, judged: &PacketVerdict) {
        self.count(frame, judged, false);
    }

    fn count(&mut self, frame: &Frame<'_>, judged: &PacketVerdict, is_lost: bool) {
        let class = usize::from(judged.class).min(self.classes.len());
        let stream_index = self.stream_of.get(class).copied().unwrap_or(0);
        let Some(stream) = self.streams.get_mut(stream_index) else { return };
        if let Some(row) = stream.rows.get_mut(class) {
            row.seen_packets += 1;
            row.seen_bytes += u64::from(frame.record.wire_len);
            row.lost_packets += u64::from(is_lost);
        }
        if stream.chunk.is_none() && stream.counting_since.is_none() {
            stream.counting_since = Some((self.clock)());
        }
    }

    /// The open chunk is missing or has no room: takes another and tries again, once.
    #[cold]
    #[inline(never)]
    fn store_in_next(
        &mut self,
        stream: usize,
        frame: &Frame<'_>,
        kept_len: u32,
        judged: &PacketVerdict,
    ) -> StoreOutcome {
        let is_new = self.streams.get(stream).and_then(|stream| stream.chunk.as_ref());
        if let Some(chunk) = is_new.filter(|chunk| chunk.packets == 0) {
            // It does not fit an empty chunk: what of it does.
            let room = chunk.limit.saturating_sub(chunk.end + FRAME_OVERHEAD_MAX) as u32;
            if kept_len == 0 || room >= kept_len {
                return self.refuse(frame, judged, Cause::WriteFailed);
            }
            self.frames_cut += 1;
            return self.store(frame, room, judged);
        }
        self.give_away(stream);
        let stopped = self.state.stopped().map_or(Ok(()), Err);
        match stopped.and_then(|()| self.open(stream)) {
            Ok(()) => self.store(frame, kept_len, judged),
            Err(cause) => self.refuse(frame, judged, cause),
        }
    }

    /// Counts a packet that found no room.
    fn refuse(&mut self, frame: &Frame<'_>, judged: &PacketVerdict, cause: Cause) -> StoreOutcome {
        self.count(frame, judged, true);
        self.state.count_lost(cause, 1);
        if let Some(lost) = self.lost.get_mut(cause as usize) {
            *lost += 1;
        }
        StoreOutcome::NoRoom(cause)
    }

    /// Takes a free chunk for a stream.
    fn open(&mut self, stream_index: usize) -> Result<(), Cause> {
        // The one that came back last: the caches may still have it.
        self.shelf.extend(self.free.try_iter());
        let mut chunk = match self.shelf.pop() {
            Some(chunk) => chunk,
            None if self.options.waits => self.free.recv().map_err(|_| Cause::WriterEnded)?,
            None => self.free.try_recv().map_err(|_| Cause::WriterBehind)?,
        };
        self.state.chunks_free.fetch_sub(1, Ordering::Relaxed);
        let tail_len = self.head.statistics_len() + Trailer::len(self.classes.len() + 2);
        chunk.begin(self.head.blocks(), self.head.interface_count() as u32, tail_len);
        chunk.opened = (self.clock)();
        chunk.stream = stream_index;
        let Some(stream) = self.streams.get_mut(stream_index) else {
            return Err(Cause::WriterEnded);
        };
        stream.flows.begin();
        stream.counting_since = None;
        stream.chunk = Some(chunk);
        Ok(())
    }

    /// Gives a stream's chunk to the writer.
    fn give_away(&mut self, stream_index: usize) {
        let Some(stream) = self.streams.get_mut(stream_index) else { return };
        let Some(mut chunk) = stream.chunk.take() else { return };
        let unknown = self.classes.len();
        for (class, row) in stream.rows.iter_mut().enumerate() {
            if !row.is_empty() {
                chunk.rows.push(*row);
                add_row(&mut self.totals, row);
                *row = empty_row(class, unknown);
            }
        }
        std::mem::swap(&mut chunk.reasons, &mut stream.reasons);
        chunk.lost = std::mem::take(&mut self.lost);
        self.scratch.clear();
        self.head.put_statistics(&mut self.scratch, chunk.interfaces);
        chunk.append(&self.scratch);
        self.state.chunks_queued.fetch_add(1, Ordering::Relaxed);
        if let Err(unsent) = self.to_writer.send(Message::Chunk(chunk)) {
            self.state.chunks_queued.fetch_sub(1, Ordering::Relaxed);
            if let Message::Chunk(chunk) = unsent.0 {
                self.state.count_unwritten(Cause::WriterEnded, &chunk.rows);
            }
        }
    }

    /// Reports to the writer what was counted of a stream that has no chunk open, for the account.
    fn give_counts(&mut self, stream_index: usize) {
        let Some(stream) = self.streams.get_mut(stream_index) else { return };
        stream.counting_since = None;
        let unknown = self.classes.len();
        let mut rows = Vec::new();
        for (class, row) in stream.rows.iter_mut().enumerate() {
            if !row.is_empty() {
                rows.push(*row);
                add_row(&mut self.totals, row);
                *row = empty_row(class, unknown);
            }
        }
        let lost = std::mem::take(&mut self.lost);
        // A writer that has ended has said so already.
        let _ = self.to_writer.send(Message::Counts { stream: stream_index, rows, lost });
    }

    /// Gives all that was stored to the writer.
    pub fn flush(&mut self) {
        for stream in 0..self.streams.len() {
            self.give_away(stream);
        }
    }

    /// From here on packets are kept by another mode, whose name and generation stand in the
    /// sections that follow.
    pub fn mode(&mut self, generation: u64, name: &str) {
        self.head.set_mode(generation, name);
        self.flush();
        let _ = self.to_writer.send(Message::Mode { generation, name: name.to_owned() });
    }

    /// What was counted on an interface so far; written at the end of each chunk.
    pub fn losses(&mut self, interface: u16, statistics: &InterfaceStatistics) {
        self.head.set_statistics(interface, statistics);
        if let Some(dropped) = statistics.os_dropped {
            self.state.ring_lost.store(dropped, Ordering::Relaxed);
        }
    }

    /// Gives chunks away that were opened long ago. To be called often: it asks the clock.
    pub fn on_time(&mut self) {
        let now = (self.clock)();
        let flush_after = self.options.flush_after;
        for index in 0..self.streams.len() {
            let Some(stream) = self.streams.get(index) else { continue };
            if let Some(chunk) = &stream.chunk {
                if now.saturating_sub(chunk.opened) >= flush_after {
                    self.give_away(index);
                }
            } else if let Some(since) = stream.counting_since
                && now.saturating_sub(since) >= flush_after
            {
                self.give_counts(index);
            }
        }
    }

    /// What others may read meanwhile.
    #[must_use]
    pub fn state(&self) -> Arc<RecorderState> {
        Arc::clone(&self.state)
    }

    /// The outcome of packets so far, by class; what the writer lost later is not in it.
    #[must_use]
    pub fn rows(&self) -> Vec<ClassRow> {
        let mut rows = self.totals.clone();
        for row in self.streams.iter().flat_map(|stream| &stream.rows) {
            add_row(&mut rows, row);
        }
        rows
    }

    /// Writes what is left and ends.
    ///
    /// # Errors
    /// The writer's thread panicked.
    pub fn finish(mut self) -> Result<RecorderReport, RecorderError> {
        self.stop()?;
        let mut rows = self.totals.clone();
        for lost in self.state.unwritten() {
            if let Some(row) = rows.iter_mut().find(|row| row.class == lost.class) {
                *row = row.without_stored(&lost);
            }
        }
        let bytes = self.state.bytes_written.load(Ordering::Relaxed);
        let mut report = RecorderReport {
            rows: rows.into_iter().filter(|row| !row.is_empty()).collect(),
            chunks: self.state.chunks_written.load(Ordering::Relaxed),
            bytes: bytes.saturating_sub(self.state.bytes_saved.load(Ordering::Relaxed)),
            files_unsynced: self.state.files_unsynced.load(Ordering::Relaxed),
            reasons: self.state.reasons_written.load(Ordering::Relaxed),
            reasons_lost: self.state.reasons_lost.load(Ordering::Relaxed),
            stamps_clamped: self.stamps_clamped,
            frames_cut: self.frames_cut,
            lost: Vec::new(),
        };
        for &cause in Cause::ALL {
            let lost = self.state.lost(cause);
            if lost > 0 {
                report.lost.push((cause, lost));
            }
        }
        Ok(report)
    }

    fn stop(&mut self) -> Result<(), RecorderError> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        self.flush();
        for index in 0..self.streams.len() {
            self.give_counts(index);
        }
        self.lose_reasons();
        let _ = self.to_writer.send(Message::Finish);
        thread.join().map_err(|_| RecorderError::Thread("it panicked".into()))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Who wants to know how it went asks `finish`.
        let _ = self.stop();
    }
}

impl Keeper for Recorder {
    #[inline]
    fn expect(&mut self, judged: &PacketVerdict) {
        Self::expect(self, judged);
    }

    fn keep(&mut self, frame: &Frame<'_>, kept_len: u32, judged: &PacketVerdict) -> KeepOutcome {
        match self.store(frame, kept_len, judged) {
            StoreOutcome::Yes => KeepOutcome::Yes,
            StoreOutcome::NoRoom(_) => KeepOutcome::NoRoom,
        }
    }

    fn pass_over(&mut self, frame: &Frame<'_>, judged: &PacketVerdict) {
        Self::pass_over(self, frame, judged);
    }

    fn explain(&mut self, reason: &Reason) {
        Self::explain(self, reason);
    }

    fn on_mode(&mut self, table: &Table) {
        self.mode(table.generation, &table.mode);
    }

    fn on_pause(&mut self) {
        self.on_time();
    }
}

/// The row of a class of which nothing is to be said yet.
fn empty_row(class: usize, unknown: usize) -> ClassRow {
    let class = if class == unknown { ClassRow::UNKNOWN } else { class as u16 };
    ClassRow { class, ..ClassRow::default() }
}

/// A comment option in `scratch`.
fn comment(scratch: &mut Vec<u8>, text: &str) {
    scratch.clear();
    scratch.extend_from_slice(&1_u16.to_le_bytes());
    let text = text.as_bytes().get(..1024).unwrap_or(text.as_bytes());
    scratch.extend_from_slice(&(text.len() as u16).to_le_bytes());
    scratch.extend_from_slice(text);
    scratch.resize(scratch.len().next_multiple_of(4), 0);
}

fn check(options: &RecorderOptions, classes: &[ClassInfo]) -> Result<(), RecorderError> {
    let (least, most) = RecorderOptions::CHUNK_LEN;
    let wrong = |name, wanted| Err(RecorderError::Option { name, wanted });
    if !(least..=most).contains(&options.chunk_len) || !options.chunk_len.is_multiple_of(ALIGNMENT)
    {
        return wrong("block-bytes", "a multiple of 4096 from 65536 to 16777216");
    }
    if classes.is_empty() || classes.len() > CLASS_COUNT_MAX {
        return wrong("classes", "1 to 800 of them");
    }
    if Trailer::len(classes.len() + 2) > options.chunk_len / 8 {
        return wrong("block-bytes", "eight times what a row of 72 bytes for each class takes");
    }
    if options.file_len_max < options.chunk_len as u64 {
        return wrong("file-bytes", "at least block-bytes");
    }
    if options.compress.is_some_and(|level| !(1..=22).contains(&level)) {
        return wrong("compress", "a level from 1 to 22");
    }
    Ok(())
}
