//! Frames that an XDP program hands over by an `AF_XDP` socket.
//!
//! A batch is of chunks that lie next to each other, as they nearly always do: the kernel uses them
//! in the order in which they are given back. A frame of several chunks is copied, and is a batch
//! of its own.
//!
//! For each wait in poll(2) the kernel wakes the reader with the first frame that comes, which
//! takes longer than the frame. So the reader first sleeps for a millisecond, and polls only where
//! nothing came meanwhile.

use std::io;
use std::thread;
use std::time::Duration;

use packet::{BATCH_LEN_MAX, CutNote, Timestamp};

use super::frame::{RingFrame, Taker};
use super::hand_over::HandOver;
use crate::sys::clock::{ClockOffset, realtime_now};
use crate::sys::packet_socket::{PacketSocket, Readiness, Statistics, VNET_HEADER_LEN};
use crate::sys::xdp_socket::{CHUNK_LEN, XdpPiece, XdpSocket};

/// How long the reader sleeps while frames come.
const NAP: Duration = Duration::from_millis(1);

/// Room before a frame that was put together, for what else stands before frames.
const HEAD_LEN: usize = 64;

/// The longest frame that offloads make, with a note, and a little more.
const WHOLE_LEN_MAX: usize = HEAD_LEN + 65_536 + 128;

/// Drivers that count a frame which their program could not hand over among those that the
/// interface dropped: `rx_drops` of veth, `drops` of `virtio_net`. Others do not count it, or only
/// in statistics of their own.
const COUNTING_DRIVERS: [&str; 2] = ["veth", "virtio_net"];

/// Place of a reader in the receive ring.
#[derive(Debug)]
pub(crate) struct XdpReader {
    socket: XdpSocket,
    /// Says where the program runs.
    hand_over: HandOver,
    /// Whether the driver is one of [`COUNTING_DRIVERS`].
    is_counted_by_driver: bool,
    lent: Lent,
    /// Pieces of the batch that is lent.
    taken: Vec<XdpPiece>,
    /// Taken from the ring, and not in a batch yet.
    held: Option<XdpPiece>,
    /// A frame of several pieces.
    whole: Vec<u8>,
    /// Whether it sleeps before it waits.
    naps: bool,
    /// Whether it slept since the last frame.
    has_napped: bool,
    /// Pieces that may still be read, once it was stopped.
    left: Option<u32>,
    /// What was dropped until then.
    dropped_at_stop: Option<u64>,
    offset: ClockOffset,
    counts: Counts,
}

#[derive(Clone, Copy, Debug)]
enum Lent {
    Nothing,
    /// So many from the first on.
    Chunks(usize, usize),
    Whole,
}

/// What [`XdpReader::take_statistics`] said so far, since the socket was opened.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    received: u64,
    dropped: u64,
}

impl XdpReader {
    /// Of a socket of an interface with this driver, where that is known.
    pub(crate) fn new(
        socket: XdpSocket,
        hand_over: HandOver,
        driver: Option<&str>,
        naps: bool,
    ) -> Self {
        Self {
            socket,
            hand_over,
            is_counted_by_driver: driver.is_some_and(|name| COUNTING_DRIVERS.contains(&name)),
            lent: Lent::Nothing,
            taken: Vec::with_capacity(BATCH_LEN_MAX),
            held: None,
            whole: Vec::new(),
            naps,
            has_napped: false,
            left: None,
            dropped_at_stop: None,
            offset: ClockOffset::now(),
            counts: Counts::default(),
        }
    }

    /// Pieces in the ring that are to be read.
    #[inline]
    fn waiting(&self) -> u32 {
        let waiting = self.socket.waiting();
        self.left.map_or(waiting, |left| left.min(waiting))
    }

    /// Whether frames can be had without waiting.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.held.is_some() || self.waiting() > 0
    }

    /// What comes from now on is not read, and not counted where there is no room for it: the
    /// program hands frames over until it is detached.
    pub(crate) fn stop(&mut self) {
        if self.left.is_some() {
            return;
        }
        // Before the ring: what comes in between is read.
        self.dropped_at_stop = Some(self.dropped().unwrap_or(self.counts.dropped));
        self.left = Some(self.socket.waiting());
    }

    /// Gives back what was lent and has been read.
    #[inline]
    pub(crate) fn give_back(&mut self) {
        if let Lent::Chunks(first, count) = self.lent {
            self.socket.give_back(first, count);
        }
        self.lent = Lent::Nothing;
    }

    /// Waits until there is something to look at, at most so long.
    pub(crate) fn wait(&mut self, interface: &PacketSocket, timeout_ms: u32) -> Readiness {
        if self.naps && !self.has_napped {
            self.has_napped = true;
            thread::sleep(NAP);
            return Readiness::Ready;
        }
        interface.wait_with(Some(self.socket.fd()), timeout_ms)
    }

    /// The next piece, in a batch or not.
    fn next(&mut self) -> Option<XdpPiece> {
        if let Some(held) = self.held.take() {
            return Some(held);
        }
        if self.waiting() == 0 {
            return None;
        }
        self.left = self.left.map(|left| left.saturating_sub(1));
        self.socket.take()
    }

    /// Takes frames while there is room; they lie where [`XdpReader::lent`] says.
    pub(crate) fn fill(&mut self, taker: &mut Taker<'_>) {
        self.has_napped = false;
        self.taken.clear();
        let room = taker.slots.len();
        while self.taken.len() < room {
            let Some(piece) = self.next() else { break };
            if piece.goes_on {
                if self.taken.is_empty() {
                    self.fill_whole(piece, taker);
                    return;
                }
                self.held = Some(piece);
                break;
            }
            if self.taken.last().is_some_and(|last| last.chunk + 1 != piece.chunk) {
                self.held = Some(piece);
                break;
            }
            self.taken.push(piece);
        }
        self.socket.release();
        let Some(&XdpPiece { chunk: first, .. }) = self.taken.first() else { return };
        let count = self.taken.len();
        self.lent = Lent::Chunks(first, count);
        let clocks = self.clocks();
        let Some(area) = self.socket.lent_mut(first, count) else { return };
        for (place, piece) in self.taken.iter().enumerate() {
            clocks.take(taker, area, place * CHUNK_LEN + piece.at, piece.len);
        }
    }

    /// Puts a frame together, of which this is the first piece.
    fn fill_whole(&mut self, first: XdpPiece, taker: &mut Taker<'_>) {
        self.whole.clear();
        self.whole.resize(HEAD_LEN, 0);
        let mut next = Some(first);
        while let Some(XdpPiece { chunk, at, len, goes_on }) = next {
            let bytes = self.socket.lent(chunk, 1).and_then(|chunk| chunk.get(at..at + len));
            let room = WHOLE_LEN_MAX - self.whole.len();
            let bytes = bytes.unwrap_or_default();
            self.whole.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
            self.socket.give_back(chunk, 1);
            next = if goes_on { self.next() } else { None };
        }
        self.socket.release();
        self.lent = Lent::Whole;
        let len = self.whole.len() - HEAD_LEN;
        self.clocks().take(taker, &mut self.whole, HEAD_LEN, len);
    }

    /// The bytes in which what was taken lies.
    #[inline]
    pub(crate) fn lent(&self) -> &[u8] {
        match self.lent {
            Lent::Nothing => &[],
            Lent::Chunks(first, count) => self.socket.lent(first, count).unwrap_or_default(),
            Lent::Whole => &self.whole,
        }
    }

    /// What was received and dropped since the last call.
    pub(crate) fn take_statistics(&mut self) -> io::Result<Statistics> {
        let dropped = self.dropped()?;
        let waiting = self.waiting();
        let received = self.socket.frames(waiting) + dropped;
        let since =
            |now: u64, before| u32::try_from(now.saturating_sub(before)).unwrap_or(u32::MAX);
        let statistics = Statistics {
            received: since(received, self.counts.received),
            dropped: since(dropped, self.counts.dropped),
            freezes: 0,
        };
        self.counts = Counts { received, dropped };
        Ok(statistics)
    }

    /// Frames for which there was no room, until it was stopped.
    fn dropped(&self) -> io::Result<u64> {
        if let Some(dropped) = self.dropped_at_stop {
            return Ok(dropped);
        }
        let losses = self.socket.losses()?;
        Ok(losses.without_chunk + losses.ring_full)
    }

    /// Of the frames that statistics had as dropped, those that the interface counts as well.
    pub(crate) fn dropped_of_interface(&self) -> u64 {
        let is_counted = self.is_counted_by_driver && self.hand_over.is_in_driver();
        if is_counted { self.counts.dropped } else { 0 }
    }

    fn clocks(&mut self) -> Clocks {
        self.offset = ClockOffset::now().or_earlier(self.offset);
        Clocks { now: realtime_now(), ahead_ns: self.offset.ahead.as_ns() }
    }
}

/// The clocks when a batch was read.
struct Clocks {
    now: Timestamp,
    /// Nanoseconds by which it is ahead of the clock of programs in the kernel.
    ahead_ns: i64,
}

impl Clocks {
    /// Makes a record of a frame that begins at `start` of `area`: of the time in its note, or of
    /// now, where it has none.
    #[inline]
    fn take(&self, taker: &mut Taker<'_>, area: &mut [u8], start: usize, len: usize) {
        let Some(before) = start.checked_sub(VNET_HEADER_LEN) else { return };
        // What lies there may be of an earlier frame.
        let Some(header) = area.get_mut(before..start) else { return };
        header.fill(0);
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let mut frame = RingFrame {
            start,
            captured_len: len,
            wire_len: len,
            seconds: 0,
            ns: 0,
            status: libc::TP_STATUS_USER,
            vlan_control: 0,
            vlan_tpid: 0,
            interface_index: 0,
            hardware_type: libc::ARPHRD_ETHER,
            packet_type: libc::PACKET_HOST,
        };
        let note = taker.note(area, &frame);
        let (seconds, ns) = self.stamp(note.as_ref());
        (frame.seconds, frame.ns) = (seconds, ns);
        taker.take(area, &frame);
    }

    fn stamp(&self, note: Option<&CutNote>) -> (u32, u32) {
        const NS: i64 = 1_000_000_000;
        let of_note = |note: &CutNote| note.time_ns.cast_signed().saturating_add(self.ahead_ns);
        let ns = note.map_or(self.now.as_ns(), of_note).max(0);
        (u32::try_from(ns / NS).unwrap_or(u32::MAX), u32::try_from(ns % NS).unwrap_or(0))
    }
}
