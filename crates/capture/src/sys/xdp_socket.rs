//! An `AF_XDP` socket and the memory that it shares with the kernel; see
//! `Documentation/networking/af_xdp.rst` there.
//!
//! The memory is a row of chunks of one length. A chunk is the kernel's from the moment its place
//! is put into the fill ring until a descriptor of it is taken from the receive ring; then it is
//! ours until it is given back. Whose each is, is noted here, so that a slice of chunks may be lent
//! while all of them are ours, and [`XdpSocket::give_back`] needs the socket alone, so that nothing
//! is lent any more.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use super::packet_socket::len_of;
use super::shared_memory::SharedMemory;

/// Bytes of a chunk: a frame of the usual MTU, with what the kernel leaves before it.
pub const CHUNK_LEN: usize = 2_048;

/// The kernel takes back the socket of a process that has ended a little later, and until then
/// the queue is busy.
const BIND_TRIES: u32 = 20;
const BIND_PAUSE: Duration = Duration::from_millis(50);

/// A socket that receives frames of one queue of an interface from an XDP program.
#[derive(Debug)]
pub struct XdpSocket {
    socket: OwnedFd,
    memory: SharedMemory,
    fill: SharedRing,
    received: SharedRing,
    /// Place in the receive ring, which wraps.
    next: u32,
    /// Place in the fill ring, which wraps.
    filled: u32,
    frames: FrameCount,
    /// By chunk.
    is_ours: Box<[bool]>,
}

/// A frame, or a piece of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpPiece {
    /// The chunk in which it lies.
    pub chunk: usize,
    /// Where in it.
    pub at: usize,
    /// Its bytes.
    pub len: usize,
    /// Whether the next piece is of the same frame.
    pub goes_on: bool,
}

/// What the kernel had no room for, since the socket was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpLosses {
    /// Frames for which there was no chunk, or which it could not store.
    pub without_chunk: u64,
    /// Frames for which there was no place in the receive ring.
    pub ring_full: u64,
}

impl XdpSocket {
    /// Opens a socket with so much memory, and binds it to the first receive queue of an
    /// interface. Frames come once a program hands them over to it.
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_RAW`, `ENOBUFS` beyond the limit of locked memory, `EBUSY` where
    /// the queue has such a socket, and the system's.
    pub fn open(interface_index: u32, size_bytes: usize) -> io::Result<Self> {
        // SAFETY: any numbers are allowed; the result is checked.
        let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, owned by nobody else.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // Rings have a power of two of places, and one for each chunk.
        let count = 1_usize << (size_bytes / CHUNK_LEN).clamp(2, 1 << 24).ilog2();
        let ring_len = u32::try_from(count).map_err(|_| io::ErrorKind::InvalidInput)?;
        // Shared, so that a process that is begun meanwhile does not have it copied.
        let flags = libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        let memory = SharedMemory::map(count * CHUNK_LEN, flags, -1, 0)?;
        let region = libc::xdp_umem_reg {
            addr: memory.start() as u64,
            len: memory.len() as u64,
            chunk_size: CHUNK_LEN as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        set(&socket, libc::XDP_UMEM_REG, &region)?;
        set(&socket, libc::XDP_UMEM_FILL_RING, &ring_len)?;
        // Nothing is sent, but the kernel wants it.
        set(&socket, libc::XDP_UMEM_COMPLETION_RING, &2_u32)?;
        set(&socket, libc::XDP_RX_RING, &ring_len)?;
        // SAFETY: a structure of integers, for which zeros are a value.
        let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
        get(&socket, libc::XDP_MMAP_OFFSETS, &mut offsets)?;
        let fill = SharedRing::new::<u64>(
            &socket,
            &offsets.fr,
            ring_len,
            libc::XDP_UMEM_PGOFF_FILL_RING.cast_signed(),
        )?;
        let received = SharedRing::new::<libc::xdp_desc>(
            &socket,
            &offsets.rx,
            ring_len,
            libc::XDP_PGOFF_RX_RING,
        )?;
        let is_ours = vec![true; count].into();
        let frames = FrameCount::default();
        let mut made = Self { socket, memory, fill, received, next: 0, filled: 0, frames, is_ours };
        made.give_back(0, count);
        let mut tries = BIND_TRIES;
        while let Err(error) = made.bind(interface_index) {
            tries -= 1;
            if error.raw_os_error() != Some(libc::EBUSY) || tries == 0 {
                return Err(error);
            }
            thread::sleep(BIND_PAUSE);
        }
        Ok(made)
    }

    fn bind(&self, interface_index: u32) -> io::Result<()> {
        // Frames longer than a chunk come in pieces. Copies are asked for, since the kernel would
        // first let a card write into the memory itself, which has not been tried on any.
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: libc::XDP_USE_SG | libc::XDP_COPY,
            sxdp_ifindex: interface_index,
            sxdp_queue_id: 0,
            sxdp_shared_umem_fd: 0,
        };
        let place = (&raw const address).cast();
        let len = len_of::<libc::sockaddr_xdp>();
        // SAFETY: an open socket, and an address of the length that is given.
        let status = unsafe { libc::bind(self.socket.as_raw_fd(), place, len) };
        if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// For a map of programs, and for poll(2).
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Pieces in the receive ring.
    #[inline]
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.received.producer().load(Ordering::Acquire).wrapping_sub(self.next)
    }

    /// The next piece in the receive ring, whose chunk is ours from now on; one that does not lie
    /// in a chunk has no bytes.
    #[inline]
    pub fn take(&mut self) -> Option<XdpPiece> {
        if self.waiting() == 0 {
            return None;
        }
        let libc::xdp_desc { addr, len, options } = self.received.description(self.next);
        self.frames.add(self.next, options);
        self.next = self.next.wrapping_add(1);
        let (addr, len) = (usize::try_from(addr).ok()?, len as usize);
        let (chunk, at) = (addr / CHUNK_LEN, addr % CHUNK_LEN);
        let is_ours = self.is_ours.get_mut(chunk)?;
        *is_ours = true;
        let len = if at + len <= CHUNK_LEN { len } else { 0 };
        Some(XdpPiece { chunk, at, len, goes_on: options & libc::XDP_PKT_CONTD != 0 })
    }

    /// Frames since the socket was opened: those that were taken, and those whose last piece is
    /// among the next so many in the receive ring. Each piece is read once for this, however long
    /// it waits.
    pub fn frames(&mut self, piece_count: u32) -> u64 {
        let piece_count = piece_count.min(self.waiting());
        for ahead in self.frames.ahead(self.next)..piece_count {
            let place = self.next.wrapping_add(ahead);
            self.frames.add(place, self.received.description(place).options);
        }
        self.frames.count
    }

    /// Lets the kernel use the places in the receive ring of what was taken.
    #[inline]
    pub fn release(&self) {
        self.received.consumer().store(self.next, Ordering::Release);
    }

    /// The bytes of `count` chunks from `first` on; `None` where not all of them are ours.
    #[inline]
    #[must_use]
    pub fn lent(&self, first: usize, count: usize) -> Option<&[u8]> {
        let (at, len) = self.ours(first, count)?;
        // SAFETY: `ours` says that the kernel does not write there.
        unsafe { self.memory.lent(at, len) }
    }

    /// As [`XdpSocket::lent`], for writing.
    #[inline]
    #[must_use]
    pub fn lent_mut(&mut self, first: usize, count: usize) -> Option<&mut [u8]> {
        let (at, len) = self.ours(first, count)?;
        // SAFETY: as in `lent`; the kernel does not look there before it is given back.
        unsafe { self.memory.lent_mut(at, len) }
    }

    /// Gives chunks back to the kernel, which may overwrite them immediately; those that are not
    /// ours are left out.
    #[inline]
    pub fn give_back(&mut self, first: usize, count: usize) {
        for chunk in first..first.saturating_add(count) {
            let Some(is_ours) = self.is_ours.get_mut(chunk) else { break };
            if std::mem::take(is_ours) {
                self.fill.put(self.filled, (chunk * CHUNK_LEN) as u64);
                self.filled = self.filled.wrapping_add(1);
            }
        }
        self.fill.producer().store(self.filled, Ordering::Release);
    }

    /// What was lost so far.
    ///
    /// # Errors
    /// The system's.
    pub fn losses(&self) -> io::Result<XdpLosses> {
        // SAFETY: a structure of integers, for which zeros are a value.
        let mut counts: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        get(&self.socket, libc::XDP_STATISTICS, &mut counts)?;
        Ok(XdpLosses { without_chunk: counts.rx_dropped, ring_full: counts.rx_ring_full })
    }

    /// Place and length of chunks that are all ours.
    #[inline]
    fn ours(&self, first: usize, count: usize) -> Option<(usize, usize)> {
        let end = first.checked_add(count)?;
        let are_ours = self.is_ours.get(first..end)?.iter().all(|is_ours| *is_ours);
        are_ours.then_some((first * CHUNK_LEN, count * CHUNK_LEN))
    }
}

/// Frames by their last pieces, in the order of the receive ring.
#[derive(Clone, Copy, Debug, Default)]
struct FrameCount {
    /// Place of the first piece that was not read for this; it wraps.
    place: u32,
    count: u64,
}

impl FrameCount {
    /// Pieces from this place on that were read for this.
    fn ahead(self, place: u32) -> u32 {
        self.place.wrapping_sub(place)
    }

    /// Counts the frame that a piece ends, if it does and was not read before.
    #[inline]
    fn add(&mut self, place: u32, options: u32) {
        if place == self.place {
            self.place = place.wrapping_add(1);
            self.count += u64::from(options & libc::XDP_PKT_CONTD == 0);
        }
    }
}

/// A ring of places in memory that the kernel and we read and write.
#[derive(Debug)]
struct SharedRing {
    memory: SharedMemory,
    producer_at: usize,
    consumer_at: usize,
    slots_at: usize,
    mask: u32,
}

impl SharedRing {
    /// Maps a ring of so many places for values of a type.
    fn new<Slot>(
        socket: &OwnedFd,
        offsets: &libc::xdp_ring_offset,
        slot_count: u32,
        place: libc::off_t,
    ) -> io::Result<Self> {
        let at = |offset: u64| usize::try_from(offset).map_err(|_| io::ErrorKind::InvalidData);
        let (producer_at, consumer_at) = (at(offsets.producer)?, at(offsets.consumer)?);
        let slots_at = at(offsets.desc)?;
        let len = slots_at + slot_count as usize * size_of::<Slot>();
        let is_aligned = producer_at.is_multiple_of(align_of::<AtomicU32>())
            && consumer_at.is_multiple_of(align_of::<AtomicU32>())
            && slots_at.is_multiple_of(align_of::<Slot>());
        if !is_aligned || producer_at.max(consumer_at) + size_of::<AtomicU32>() > slots_at {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let memory = SharedMemory::map(len, libc::MAP_POPULATE, socket.as_raw_fd(), place)?;
        Ok(Self { memory, producer_at, consumer_at, slots_at, mask: slot_count - 1 })
    }

    #[inline]
    fn producer(&self) -> &AtomicU32 {
        self.word(self.producer_at)
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        self.word(self.consumer_at)
    }

    #[inline]
    fn word(&self, at: usize) -> &AtomicU32 {
        let word: *mut u32 = self.memory.start().wrapping_add(at).cast();
        // SAFETY: `new` has checked that it lies in the mapping, before the places, and is
        // aligned; the kernel accesses it as one word.
        unsafe { AtomicU32::from_ptr(word) }
    }

    /// Puts an address into a place of a ring of such, which the kernel reads after the producer's
    /// word was moved past it.
    #[inline]
    fn put(&self, at: u32, address: u64) {
        let slot: *mut u64 = self.slot(at);
        // SAFETY: within the mapping by the mask, and aligned as `new` has checked; the kernel
        // does not read a place that was not published.
        unsafe { slot.write(address) };
    }

    /// Reads a place of a ring of descriptions that the kernel has published.
    #[inline]
    fn description(&self, at: u32) -> libc::xdp_desc {
        let slot: *mut libc::xdp_desc = self.slot(at);
        // SAFETY: within the mapping by the mask, and aligned as `new` has checked; the kernel
        // does not write a place before we move the consumer's word past it.
        unsafe { slot.read() }
    }

    #[inline]
    fn slot<Slot>(&self, at: u32) -> *mut Slot {
        let offset = (at & self.mask) as usize * size_of::<Slot>();
        self.memory.start().wrapping_add(self.slots_at + offset).cast()
    }
}

fn set<T>(socket: &OwnedFd, name: c_int, value: &T) -> io::Result<()> {
    let (fd, value) = (socket.as_raw_fd(), ptr::from_ref(value).cast());
    // SAFETY: an open socket; the kernel reads the value, of the length that is given.
    let status = unsafe { libc::setsockopt(fd, libc::SOL_XDP, name, value, len_of::<T>()) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `T` is made of integers, so that whatever the kernel writes is one of its values.
fn get<T>(socket: &OwnedFd, name: c_int, value: &mut T) -> io::Result<()> {
    let (fd, value) = (socket.as_raw_fd(), ptr::from_mut(value).cast());
    let mut len = len_of::<T>();
    // SAFETY: an open socket; the kernel writes no more than the length that is given.
    let status = unsafe { libc::getsockopt(fd, libc::SOL_XDP, name, value, &raw mut len) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_several_pieces_counts_once_whether_it_waits_or_was_taken() {
        const MORE: u32 = libc::XDP_PKT_CONTD;
        // Places wrap.
        let mut frames = FrameCount { place: u32::MAX - 1, count: 0 };
        let pieces = [(u32::MAX - 1, MORE), (u32::MAX, MORE), (0, 0), (1, 0), (2, MORE)];
        for (place, options) in pieces {
            frames.add(place, options);
        }
        assert_eq!((frames.count, frames.ahead(u32::MAX)), (2, 4));
        // Taken later.
        for (place, options) in pieces {
            frames.add(place, options);
        }
        assert_eq!((frames.count, frames.ahead(3)), (2, 0));
        frames.add(3, 0);
        assert_eq!(frames.count, 3);
    }
}
