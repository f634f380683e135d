//! What happened to each packet of a way with queues, without holding up the way: its thread
//! notes instants, and another makes records of them and writes.
//!
//! Notes go over in batches. Where the writer falls behind by [`BATCHES_MAX`] batches, notes are
//! lost and counted: a trace with losses says so, and its journal does not replay.

mod follow;
mod writer;

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender};

use dualq::{Arrival, Departure, EnqueueOutcome, OfQueue, Router, Settings, SettingsError};
use l4s::journal::{ENTRY_LEN, ReplayOutcome};

use crate::prefix::Prefix;

pub use follow::{FlowReport, TraceSummary};
pub use writer::{TraceReport, Writing};

/// What is written, and how hosts are numbered in it.
#[derive(Clone, Debug, Default)]
pub struct TraceSettings {
    /// A record of each packet (`docs/specs/l4s-trace.md`).
    pub trace: Option<PathBuf>,
    /// Each question to the router, and its answer.
    pub journal: Option<PathBuf>,
    /// Sources, the first of them sender 0.
    pub senders: Vec<Prefix>,
    /// Destinations, the first of them receiver 0.
    pub receivers: Vec<Prefix>,
}

/// Asks a new router what the journal of another says that was asked; `None` for what is none.
///
/// # Errors
/// A setting cannot be.
pub fn replay(
    settings: Settings,
    seed: u64,
    start_ns: u64,
    journal: &[u8],
) -> Result<Option<ReplayOutcome>, SettingsError> {
    let router = Router::new(settings, seed, start_ns)?;
    let is_whole = journal.len().is_multiple_of(ENTRY_LEN);
    Ok(is_whole.then(|| l4s::journal::replay(router, journal)))
}

/// Bytes kept of a packet: headers of IPv6 and TCP with all options.
const HEAD_LEN: usize = 100;

/// Notes that go over together.
const BATCH_LEN: usize = 512;

/// Batches on their way: at 40,000 notes a second, of which 100 Mbit/s makes some 30,000, three
/// seconds of a writer that does not get its turn. 20 MB.
const BATCHES_MAX: usize = 256;

/// How a packet begins.
#[derive(Clone, Copy, Debug)]
struct Head {
    bytes: [u8; HEAD_LEN],
    len: u8,
}

impl Head {
    fn of(packet: &[u8]) -> Self {
        let len = packet.len().min(HEAD_LEN);
        let mut bytes = [0; HEAD_LEN];
        bytes.iter_mut().zip(packet).for_each(|(to, from)| *to = *from);
        Self { bytes, len: u8::try_from(len).unwrap_or(0) }
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

/// Something that happened to a packet.
#[derive(Debug)]
enum Note {
    /// It came to the router.
    Arrived { arrival: Arrival, entered: EnqueueOutcome, found: OfQueue<u32>, head: Head },
    /// The link was free.
    Left { at_ns: u64, left: Option<Departure> },
    /// It left the relay, or was lost on the link.
    Delivered { tag: u64, at_ns: Option<u64> },
    /// A packet of the other way left the relay.
    Acknowledged { at_ns: u64, head: Head },
}

/// Takes notes on the thread that carries packets.
#[derive(Debug)]
pub(crate) struct Teller(Option<Telling>);

#[derive(Debug)]
struct Telling {
    batch: Vec<Note>,
    /// Batches that were made; no more are than may be on their way.
    made: usize,
    full: SyncSender<Vec<Note>>,
    used: Receiver<Vec<Note>>,
    lost: u64,
}

impl Teller {
    /// Takes none.
    pub(crate) const fn silent() -> Self {
        Self(None)
    }

    fn to(full: SyncSender<Vec<Note>>, used: Receiver<Vec<Note>>) -> Self {
        Self(Some(Telling { batch: Vec::with_capacity(BATCH_LEN), made: 1, full, used, lost: 0 }))
    }

    #[inline]
    pub(crate) fn arrived(
        &mut self,
        arrival: &Arrival,
        entered: EnqueueOutcome,
        found: OfQueue<usize>,
        packet: &[u8],
    ) {
        let Some(telling) = &mut self.0 else { return };
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let found = OfQueue { l4s: number(found.l4s), classic: number(found.classic) };
        let head = Head::of(packet);
        telling.note(Note::Arrived { arrival: *arrival, entered, found, head });
    }

    #[inline]
    pub(crate) fn left(&mut self, at_ns: u64, left: Option<&Departure>) {
        let Some(telling) = &mut self.0 else { return };
        telling.note(Note::Left { at_ns, left: left.copied() });
    }

    #[inline]
    pub(crate) fn delivered(&mut self, tag: u64, at_ns: Option<u64>) {
        let Some(telling) = &mut self.0 else { return };
        telling.note(Note::Delivered { tag, at_ns });
    }

    #[inline]
    pub(crate) fn acknowledged(&mut self, at_ns: u64, packet: &[u8]) {
        let Some(telling) = &mut self.0 else { return };
        telling.note(Note::Acknowledged { at_ns, head: Head::of(packet) });
    }

    /// Hands over the last notes; how many were lost. The writer ends when it has them.
    fn end(self) -> u64 {
        let Some(mut telling) = self.0 else { return 0 };
        let batch = std::mem::take(&mut telling.batch);
        telling.lost + telling.full.send(batch).err().map_or(0, |error| error.0.len() as u64)
    }
}

impl Telling {
    fn note(&mut self, note: Note) {
        self.batch.push(note);
        if self.batch.len() == BATCH_LEN {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        let empty = match self.used.try_recv() {
            Ok(used) => Some(used),
            Err(_) if self.made < BATCHES_MAX => {
                self.made += 1;
                Some(Vec::with_capacity(BATCH_LEN))
            }
            Err(_) => None,
        };
        let Some(empty) = empty else {
            self.lost += self.batch.len() as u64;
            self.batch.clear();
            return;
        };
        let batch = std::mem::replace(&mut self.batch, empty);
        // There are never more batches than places; only a writer that failed takes none.
        if let Err(refused) = self.full.try_send(batch) {
            let (std::sync::mpsc::TrySendError::Full(batch)
            | std::sync::mpsc::TrySendError::Disconnected(batch)) = refused;
            self.lost += batch.len() as u64;
        }
    }
}
