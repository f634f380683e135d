//! The thread that writes: ends chunks, keeps files in order, makes room, counts what fails.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::Duration;

use super::book::{Book, Urgency};
use super::chunk::{Block, Chunk, encoder_of, settle_owed};
use super::disk::{Disk, PlainDisk, Way, WriteState};
use super::fault::RecorderError;
use super::files::{OpenFile, Series, delete_files};
use super::ledger::Ledger;
use super::options::{Clock, RecorderOptions};
use super::state::RecorderState;
use super::syncing::Syncer;
use crate::cause::Cause;
use crate::compact::Encoder;
use crate::file_name::{FileName, Replacing};
use crate::index::{
    ALIGNMENT, ClassRow, FILE_SUFFIX, INDEX_SUFFIX, IndexRecord, Keys, Trailer, add_row, add_rows,
    sort_once,
};
use crate::ledger::{Digest, Entry, digest, ledger_len_max};
use crate::log::Compressor;
use crate::own::create_folder;

/// How long the thread sleeps when nothing comes, before it looks at the disk.
const IDLE: Duration = Duration::from_millis(250);
/// Interfaces that all sections of a file describe together: readers number them, ours with 16
/// bits.
const FILE_INTERFACE_COUNT_MAX: u32 = 60_000;
/// Tries of a write that fails, and the pause before the second, which doubles.
const TRY_COUNT: u32 = 3;
const TRY_PAUSE: Duration = Duration::from_millis(20);
/// Of all that the log may have a file has at most this part, so that deleting one loses little.
pub(super) const FILE_SHARE: u64 = 8;

/// What the thread is sent.
#[derive(Debug)]
pub(super) enum Message {
    Chunk(Box<Chunk>),
    /// The outcome of packets of a stream that has no chunk open.
    Counts {
        stream: usize,
        rows: Vec<ClassRow>,
        lost: [u64; Cause::ALL.len()],
    },
    /// Packets that follow are stored by this mode.
    Mode {
        generation: u64,
        name: String,
    },
    Finish,
}

/// What the thread shares with others.
pub(super) struct WriterContext {
    pub(super) clock: Clock,
    pub(super) state: Arc<RecorderState>,
    /// Where chunks go back to.
    pub(super) free: Sender<Box<Chunk>>,
}

/// A chunk on its way.
pub(super) struct Flight {
    pub(super) chunk: Box<Chunk>,
    pub(super) trailer: Trailer,
    pub(super) len: usize,
    pub(super) offset: u64,
    /// Of its bytes.
    pub(super) digest: Digest,
    begun: Option<WriteState>,
    since: Duration,
}

impl Flight {
    /// What its trailer says of other chunks.
    pub(super) fn owed(&self) -> Vec<ClassRow> {
        let mut owed = Vec::new();
        for row in &self.trailer.rows {
            let own = self.chunk.rows.iter().find(|own| own.class == row.class);
            let rest = own.map_or(*row, |own| row.minus(own));
            if !rest.is_empty() {
                add_row(&mut owed, &rest);
            }
        }
        owed
    }
}

pub(super) struct Writer {
    pub(super) options: RecorderOptions,
    pub(super) clock: Clock,
    pub(super) state: Arc<RecorderState>,
    pub(super) free: Sender<Box<Chunk>>,
    way: Way,
    /// By priority, lowest first.
    pub(super) series: Vec<Series>,
    pub(super) flights: VecDeque<Flight>,
    pub(super) book: Book,
    pub(super) ledger: Ledger,
    /// The log's folder, wherever it is mounted.
    pub(super) handle: Option<File>,
    /// Why the last chunk failed: others then get one try only.
    pub(super) failing: Option<Cause>,
    /// Bytes of closed files.
    pub(super) closed_bytes: u64,
    /// Bytes of the files of events, which lie among them.
    pub(super) event_bytes: u64,
    pub(super) replacing: Replacing,
    pub(super) compressor: Option<Compressor>,
    pub(super) syncer: Syncer,
    encoder: Option<Encoder>,
    pub(super) asked_disk: Duration,
    /// Up to when writes are counted in the time that the disk was busy.
    busy_since: Duration,
    hashes: Vec<u32>,
    scratch: Vec<u8>,
}

impl Writer {
    pub(super) fn new(
        options: &RecorderOptions,
        priorities: &[u8],
        names: Vec<String>,
        shared: WriterContext,
        disk: Option<Box<dyn Disk>>,
        chunks: &[Box<Chunk>],
    ) -> Result<Self, RecorderError> {
        let WriterContext { clock, state, free } = shared;
        let mut options = options.clone();
        if let Some(max) = options.keep_bytes_max {
            let share = (max / FILE_SHARE).max(options.chunk_len as u64);
            options.file_len_max = options.file_len_max.min(share);
        }
        let sync = disk.as_ref().map_or_else(|| PlainDisk.syncing(), |disk| disk.syncing());
        let blocks: Vec<&Block> = chunks.iter().map(|chunk| &chunk.block).collect();
        let way = Way::find(options.direct, &options.folder, disk, &blocks)
            .map_err(RecorderError::Direct)?;
        let ledger_len = ledger_len_max(options.keep_bytes_max);
        let super::shelf::Shelf { series, closed_bytes, account, journal, was_stopped } =
            super::shelf::read(&options.folder, priorities, &options, ledger_len)?;
        let ledger = Ledger::new(journal, options.anchor.as_deref(), &options.folder)?;
        RecorderState::set(&state.is_direct, u64::from(way.is_direct()));
        let replacing = Replacing::default();
        let counts = state.counts_compressed();
        let start = |level| Compressor::start(&options.folder, level, &replacing, counts);
        let compressor = options.compress.map(start).transpose();
        let compressor = compressor.map_err(|error| RecorderError::Thread(error.to_string()))?;
        let syncer = Syncer::start(&options.folder, sync);
        let syncer = syncer.map_err(|error| RecorderError::Thread(error.to_string()))?;
        let encoder = encoder_of(options.encoding);
        let encoder = encoder.map_err(|error| RecorderError::Thread(error.to_string()))?;
        let mut writer = Self {
            handle: File::open(&options.folder).ok(),
            book: Book::new(account, names),
            ledger,
            options,
            clock,
            state,
            free,
            way,
            series,
            flights: VecDeque::new(),
            failing: None,
            closed_bytes,
            event_bytes: 0,
            replacing,
            compressor,
            syncer,
            encoder,
            asked_disk: Duration::ZERO,
            busy_since: Duration::ZERO,
            hashes: Vec::new(),
            scratch: Vec::new(),
        };
        while let Err(error) = writer.book.open(&writer.options) {
            // Where old files may go for new ones, they may for the account, too.
            let last = writer.series.len().saturating_sub(1);
            let cause = match &error {
                RecorderError::Account { error, .. } => Cause::of(error),
                _ => Cause::WriteFailed,
            };
            if !writer.frees(last, cause) {
                return Err(error);
            }
        }
        writer.closed_bytes = writer.closed_bytes.saturating_add(writer.book.len());
        writer.record_start(was_stopped);
        writer.offer_unsynced();
        writer.ask_disk(true);
        Ok(writer)
    }

    pub(super) fn run(mut self, messages: &Receiver<Message>) {
        loop {
            let message = if self.flights.is_empty() {
                match messages.recv_timeout(IDLE) {
                    Ok(message) => Some(message),
                    Err(RecvTimeoutError::Timeout) => {
                        self.ask_disk(true);
                        self.tell_account(Urgency::Idle);
                        continue;
                    }
                    Err(RecvTimeoutError::Disconnected) => Some(Message::Finish),
                }
            } else {
                match messages.try_recv() {
                    Ok(message) => Some(message),
                    Err(TryRecvError::Empty) => None,
                    Err(TryRecvError::Disconnected) => Some(Message::Finish),
                }
            };
            match message {
                Some(Message::Chunk(chunk)) => {
                    self.take(chunk);
                    if self.flights.len() >= self.way.depth() {
                        self.settle_oldest();
                    }
                }
                Some(Message::Counts { stream, rows, lost }) => {
                    self.book.lose(&lost);
                    if let Some(series) = self.series.get_mut(stream) {
                        add_rows(&mut series.owed, &rows);
                    }
                }
                Some(Message::Mode { generation, name }) => {
                    self.settle_all();
                    self.record(&Entry::Mode { generation, name });
                }
                None => self.settle_oldest(),
                Some(Message::Finish) => break,
            }
            self.tell_account(Urgency::Sometimes);
        }
        self.settle_all();
        for index in 0..self.series.len() {
            self.close(index);
        }
        self.look_back();
        if let Some(compressor) = &mut self.compressor {
            // Who reads captures waits for it; a service that is stopped does not.
            compressor.finish(self.options.waits);
        }
        self.sync_rest();
        self.ask_disk(true);
        self.tell_account(Urgency::Last);
        let unsynced = self.count_unsynced();
        self.record_stop(unsynced);
    }

    /// Puts a chunk on its way, or counts it as lost.
    fn take(&mut self, chunk: Box<Chunk>) {
        let since = (self.clock)();
        match self.place(chunk, since) {
            Ok(flight) => self.flights.push_back(flight),
            Err((chunk, cause)) => self.lose(chunk, cause),
        }
        self.ask_disk(false);
    }

    /// Finds a place for a chunk, ends it, and begins to write it.
    fn place(
        &mut self,
        mut chunk: Box<Chunk>,
        since: Duration,
    ) -> Result<Flight, (Box<Chunk>, Cause)> {
        let index = chunk.stream;
        chunk.encode(self.encoder.as_mut());
        let Some(series) = self.series.get_mut(index) else {
            return Err((chunk, Cause::WriteFailed));
        };
        let rows_max = chunk.rows.len() + series.owed.len();
        let len_max = (chunk.end + Trailer::len(rows_max)).next_multiple_of(ALIGNMENT);
        if let Err(cause) = self.ready(&chunk, len_max) {
            return Err((chunk, cause));
        }
        // Only now: what was deleted or lost to make room is owed as well.
        let Some(series) = self.series.get_mut(index) else {
            return Err((chunk, Cause::WriteFailed));
        };
        let mut trailer = Trailer {
            sequence: series.next_sequence,
            first_ns: if chunk.packets == 0 { 0 } else { chunk.first_ns },
            last_ns: if chunk.packets == 0 { 0 } else { chunk.last_ns },
            packet_count: chunk.packets,
            priority: series.priority,
            is_repaired: false,
            rows: chunk.rows.clone(),
        };
        let end = chunk.end;
        settle_owed(&mut trailer.rows, &series.owed, chunk.block.bytes().len(), end);
        let len = trailer.chunk_len(end);
        let bytes = chunk.block.bytes_mut().get_mut(..len);
        let is_sealed = bytes.is_some_and(|bytes| trailer.seal(bytes, end, &mut self.scratch));
        let Some(file) = series.open.as_mut().filter(|_| is_sealed) else {
            return Err((chunk, Cause::WriteFailed));
        };
        series.next_sequence = series.next_sequence.saturating_add(1);
        series.owed.clear();
        let offset = file.end;
        file.end += len as u64;
        file.interfaces += chunk.interfaces;
        if chunk.packets > 0 {
            file.first_ns = file.first_ns.min(chunk.first_ns);
            file.last_ns = file.last_ns.max(chunk.last_ns);
        }
        let digest = digest(&[chunk.block.bytes().get(..len).unwrap_or_default()]);
        let block = std::mem::replace(&mut chunk.block, Block::empty());
        let begun = Some(self.way.begin(&file.data, block, len, offset));
        Ok(Flight { chunk, trailer, len, offset, digest, begun, since })
    }

    /// Sees to it that there is room, and a file that is open and still there.
    fn ready(&mut self, chunk: &Chunk, len: usize) -> Result<(), Cause> {
        let index = chunk.stream;
        if chunk.packets > 0 {
            self.expire(index, chunk.first_ns);
        }
        if self.is_over(index, chunk, len) {
            self.settle_all();
            self.close(index);
        }
        self.make_room(index, (len as u64).saturating_add(chunk.side_len()))?;
        let first_ns = if chunk.packets == 0 { 0 } else { chunk.first_ns };
        loop {
            let Some(error) = self.open_next(index, first_ns) else { return Ok(()) };
            let cause = Cause::of(&error);
            if !self.frees(index, cause) && !self.frees_open(index, cause) {
                return Err(cause);
            }
        }
    }

    /// Opens the next file of a series that has none open.
    fn open_next(&mut self, index: usize, first_ns: i64) -> Option<io::Error> {
        let series = self.series.get_mut(index).filter(|series| series.open.is_none())?;
        let name = FileName::new(series.priority, first_ns, series.next_number);
        let folder = &self.options.folder;
        let mut made = OpenFile::create(folder, name.clone(), &self.way, self.options.access);
        if made.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            // The folder was removed under us.
            made = create_folder(folder, self.options.access).and_then(|()| {
                OpenFile::create(folder, name.clone(), &self.way, self.options.access)
            });
        }
        // A name that is taken is not asked for again.
        series.next_number = series.next_number.saturating_add(1);
        if self.options.sync {
            // A chunk is on the disk with its file's name, or is not acknowledged.
            made = made.and_then(|file| match files::sync_folder(folder) {
                Ok(()) => Ok(file),
                Err(error) => {
                    let _ = delete_files(folder, &file.name);
                    Err(error)
                }
            });
        }
        match made {
            Ok(file) => {
                series.open = Some(file);
                None
            }
            Err(error) => {
                let text = format!("{}: {error}", name.path(folder, FILE_SUFFIX).display());
                self.state.count_error(Cause::of(&error), text);
                Some(error)
            }
        }
    }

    /// Whether the open file is at its end: full, too long a time, spoilt, or gone.
    fn is_over(&mut self, index: usize, chunk: &Chunk, len: usize) -> bool {
        let Some(series) = self.series.get_mut(index) else { return false };
        let Some(file) = &mut series.open else { return false };
        if file.is_gone() {
            let path = file.name.path(&self.options.folder, FILE_SUFFIX);
            self.state.count_error(Cause::Gone, format!("{}: deleted", path.display()));
            return true;
        }
        if file.is_spoilt || file.is_bare() {
            return true;
        }
        let is_long = file.end > 0 && file.end + len as u64 > self.options.file_len_max;
        let is_old = self.options.file_span_max.is_some_and(|span| {
            let reach = i128::from(chunk.last_ns) - i128::from(file.first_ns);
            // A clock that stepped back further than a file is long begins a new one as well.
            chunk.packets > 0
                && file.first_ns != i64::MAX
                && reach.unsigned_abs() > u128::from(span.as_ns().unsigned_abs())
        });
        is_long || is_old || file.interfaces + chunk.interfaces > FILE_INTERFACE_COUNT_MAX
    }

    /// Acknowledges the oldest chunk on its way, or repeats it, or counts it as lost: then those
    /// that follow find room where the disk is full and old packets may go for new ones.
    fn settle_oldest(&mut self) {
        let Some((index, cause)) = self.settle() else { return };
        // No closed file was left to delete, or it would not be lost.
        if self.frees_open(index, cause) {
            self.failing = None;
        }
    }

    /// The outcome of the oldest chunk on its way: its series and the cause if it is lost.
    fn settle(&mut self) -> Option<(usize, Cause)> {
        let mut flight = self.flights.pop_front()?;
        let busy_since = self.busy_since.max(flight.since);
        let result = self.land(&mut flight);
        let result = match result {
            Ok(()) => Ok(()),
            Err(error) => self.repeat(&mut flight, error),
        };
        match result.and_then(|()| self.acknowledge(&mut flight)) {
            Ok(()) => {
                self.failing = None;
                let now = (self.clock)();
                let took = now.saturating_sub(flight.since).as_nanos() as u64;
                let busy = now.saturating_sub(busy_since).as_nanos() as u64;
                self.busy_since = now;
                RecorderState::add(&self.state.write_ns_total, busy);
                RecorderState::set(&self.state.write_ns_last, took);
                self.give_back(flight.chunk);
                None
            }
            Err(cause) => {
                let index = flight.chunk.stream;
                self.take_back(&flight, cause);
                self.lose(flight.chunk, cause);
                Some((index, cause))
            }
        }
    }

    pub(super) fn settle_all(&mut self) {
        while !self.flights.is_empty() {
            self.settle();
        }
    }

    /// Waits for a write; its memory is in the chunk again afterwards.
    fn land(&mut self, flight: &mut Flight) -> io::Result<()> {
        let (block, result) = match flight.begun.take() {
            Some(WriteState::Done(block, result)) => (block, result),
            Some(WriteState::InFlight(ticket)) => match self.way.end(ticket) {
                Some(landed) => landed,
                None => return Err(io::ErrorKind::Other.into()),
            },
            None => return Ok(()),
        };
        flight.chunk.block = block;
        result
    }

    /// Tries a write that failed again, a few times, making room where that may help.
    fn repeat(&mut self, flight: &mut Flight, mut error: io::Error) -> Result<(), Cause> {
        let index = flight.chunk.stream;
        let mut pause = TRY_PAUSE;
        let mut tries = 1;
        loop {
            let cause = Cause::of(&error);
            let Some(file) = self.series.get(index).and_then(|series| series.open.as_ref()) else {
                return Err(cause);
            };
            let path = file.name.path(&self.options.folder, FILE_SUFFIX);
            let file = Arc::clone(&file.data);
            if error.kind() != io::ErrorKind::WriteZero {
                self.state.count_error(cause, format!("{}: {error}", path.display()));
            }
            // Files to delete come to an end, and so does this loop.
            if !self.frees(index, cause) {
                // A short write says nothing of its cause: the next try does.
                let is_short = error.kind() == io::ErrorKind::WriteZero && tries == 1;
                if !is_short && (tries >= TRY_COUNT || self.failing == Some(cause)) {
                    self.failing = Some(cause);
                    return Err(cause);
                }
                if !is_short {
                    std::thread::sleep(pause);
                    pause *= 2;
                }
                tries += 1;
            }
            let bytes = flight.chunk.block.bytes().get(..flight.len).unwrap_or_default();
            match self.way.again(&file, bytes, flight.offset) {
                Ok(()) => return Ok(()),
                Err(again) => error = again,
            }
        }
    }

    /// Indexes a chunk that is written, and counts it as acknowledged.
    fn acknowledge(&mut self, flight: &mut Flight) -> Result<(), Cause> {
        let index = flight.chunk.stream;
        let Some(series) = self.series.get_mut(index) else { return Err(Cause::WriteFailed) };
        let Some(file) = &mut series.open else { return Err(Cause::Gone) };
        if self.options.sync
            && let Err(error) = file.data.sync_data()
        {
            self.state.count_error(Cause::of(&error), format!("synchronising: {error}"));
            return Err(Cause::of(&error));
        }
        let lists = &mut flight.chunk.keys;
        sort_once(&mut lists.hosts, &mut self.hashes);
        sort_once(&mut lists.flows, &mut self.hashes);
        self.scratch.clear();
        for hash in lists.hosts.iter().chain(&lists.flows) {
            self.scratch.extend_from_slice(&hash.to_le_bytes());
        }
        let split = (lists.hosts.len() * 4).min(self.scratch.len());
        let (host_bytes, flow_bytes) = self.scratch.split_at(split);
        let keys = Keys {
            offset: file.keys_end,
            host_count: lists.hosts.len() as u32,
            flow_count: lists.flows.len() as u32,
            hosts_crc: crc32fast::hash(host_bytes),
            flows_crc: crc32fast::hash(flow_bytes),
            are_incomplete: lists.are_incomplete,
        };
        let mut written = file.keys.write_all_at(&self.scratch, file.keys_end);
        file.keys_end += self.scratch.len() as u64;
        let record = IndexRecord {
            offset: flight.offset,
            len: flight.len as u32,
            compressed_offset: 0,
            compressed_len: 0,
            keys,
            trailer: flight.trailer.clone(),
        };
        let keys_len = self.scratch.len() as u64;
        self.scratch.clear();
        record.put(&mut self.scratch);
        let side_len = keys_len + self.scratch.len() as u64;
        written = written.and_then(|()| file.index.write_all_at(&self.scratch, file.index_end));
        file.index_end += self.scratch.len() as u64;
        if let Err(error) = written {
            // The chunk is whole, and found without an index: only slower, until the next start.
            file.is_spoilt = true;
            let path = file.name.path(&self.options.folder, INDEX_SUFFIX);
            self.state.count_error(Cause::of(&error), format!("{}: {error}", path.display()));
        }
        add_rows(&mut file.rows, &flight.trailer.rows);
        let (name, holes) = (file.name.stem(), std::mem::take(&mut file.holes));
        self.record_chunk(name, flight, holes);
        self.say(&flight.trailer.rows);
        self.book.lose(&flight.chunk.lost);
        let side_len = side_len + self.write_reasons(index, &flight.chunk.reasons);
        let packets = u64::from(flight.chunk.packets);
        RecorderState::add(&self.state.chunks_written, 1);
        RecorderState::add(&self.state.packets_written, packets);
        RecorderState::add(&self.state.bytes_written, flight.len as u64 + side_len);
        if let Some(stream) = self.state.streams().get(index) {
            RecorderState::add(&stream.packets, packets);
            RecorderState::add(&stream.chunks, 1);
        }
        Ok(())
    }
}
