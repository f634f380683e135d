//! Where the frames of one socket come from: a ring, or a program in the kernel.

use std::io;
use std::thread;
use std::time::Duration;

use super::frame::Taker;
use super::ring::Reader;
use super::xdp::XdpReader;
use crate::sys::packet_ring::PacketRing;
use crate::sys::packet_socket::{PacketSocket, Readiness, Statistics};

/// What a packet socket receives, or what a program hands over in its place; then the packet socket
/// only detects what becomes of the interface.
#[derive(Debug)]
pub(crate) enum Frames {
    Ring(PacketRing, Reader, Option<Nap>),
    Xdp(Box<XdpReader>),
}

/// How long a reader sleeps between two looks at a block that is being filled, in place of poll(2).
///
/// The kernel closes a block in two steps, and wakes the reader between them. Since Linux 5.3 a
/// packet that another processor has in between is dropped, as if the ring were full: one of 92
/// million at 80,000 a second. Where no reader has to be woken, the steps follow each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nap(Duration);

impl Nap {
    const LONGEST_MS: usize = 5;

    /// For a ring of so many bytes: a quarter of the time that 1 GB/s takes to fill it, and no more
    /// than half of a block's time-out.
    pub(crate) fn for_ring(size_bytes: usize, block_timeout_ms: u32) -> Self {
        let timeout = usize::try_from(block_timeout_ms / 2).unwrap_or(usize::MAX);
        let longest = Self::LONGEST_MS.min(timeout).max(1);
        let ms = (size_bytes >> 22).clamp(1, longest);
        Self(Duration::from_millis(u64::try_from(ms).unwrap_or(1)))
    }
}

impl Frames {
    /// Whether frames can be had without waiting.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        match self {
            Self::Ring(ring, reader, _) => reader.is_ready(ring),
            Self::Xdp(reader) => reader.is_ready(),
        }
    }

    /// Whether there is nothing at all, not even what cannot be had yet.
    pub(crate) fn is_quiet(&self) -> bool {
        match self {
            Self::Ring(ring, reader, _) => reader.is_quiet(ring),
            Self::Xdp(reader) => !reader.is_ready(),
        }
    }

    /// Gives back what was lent and has been read.
    #[inline]
    pub(crate) fn give_back(&mut self) {
        match self {
            Self::Ring(ring, reader, _) => reader.give_back(ring),
            Self::Xdp(reader) => reader.give_back(),
        }
    }

    /// Takes frames while there is room.
    #[inline]
    pub(crate) fn fill(&mut self, taker: &mut Taker<'_>) {
        match self {
            Self::Ring(ring, reader, _) => reader.fill(ring, taker),
            Self::Xdp(reader) => reader.fill(taker),
        }
    }

    /// The bytes in which what was taken lies.
    #[inline]
    pub(crate) fn lent(&self) -> &[u8] {
        match self {
            Self::Ring(ring, reader, _) => reader.lent(ring),
            Self::Xdp(reader) => reader.lent(),
        }
    }

    /// Waits until there is something to look at, at most so long.
    pub(crate) fn wait(&mut self, socket: &PacketSocket, timeout_ms: u32) -> Readiness {
        match self {
            Self::Ring(ring, reader, Some(nap)) if !reader.is_quiet(ring) => {
                thread::sleep(nap.0.min(Duration::from_millis(timeout_ms.into())));
                Readiness::Ready
            }
            Self::Ring(..) => socket.wait(timeout_ms),
            Self::Xdp(reader) => reader.wait(socket, timeout_ms),
        }
    }

    /// What comes from now on is not read; a ring's filter sees to that.
    pub(crate) fn stop(&mut self) {
        match self {
            Self::Ring(..) => {}
            Self::Xdp(reader) => reader.stop(),
        }
    }

    /// Whether a program in the kernel hands them over.
    pub(crate) const fn are_handed_over(&self) -> bool {
        matches!(self, Self::Xdp(_))
    }

    /// Of the frames that statistics had as dropped, those that the interface counts as well.
    pub(crate) fn dropped_of_interface(&self) -> u64 {
        match self {
            Self::Ring(..) => 0,
            Self::Xdp(reader) => reader.dropped_of_interface(),
        }
    }

    /// What the kernel counted since the last call.
    pub(crate) fn take_statistics(&mut self, socket: &PacketSocket) -> io::Result<Statistics> {
        match self {
            Self::Ring(..) => socket.take_statistics(),
            Self::Xdp(reader) => reader.take_statistics(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naps_are_short_where_a_ring_is_small_or_blocks_are() {
        let ms =
            |size_mib: usize, timeout_ms| Nap::for_ring(size_mib << 20, timeout_ms).0.as_millis();
        assert_eq!((ms(64, 10), ms(12, 10), ms(2, 10), ms(0, 10)), (5, 3, 1, 1));
        assert_eq!((ms(64, 1), ms(64, 4), ms(64, 1_000)), (1, 2, 5));
    }
}
