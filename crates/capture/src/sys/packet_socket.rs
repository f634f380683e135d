//! A packet socket and its settings; see packet(7) and
//! `Documentation/networking/packet_mmap.rst` of the kernel.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use super::libpcap::Instruction;
use super::shared_memory::SharedMemory;

/// A packet socket that receives whole frames, link header included.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
}

/// Shape of a receive ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingShape {
    /// Bytes of one block, a multiple of the page size.
    pub block_size_bytes: u32,
    /// Blocks in the ring.
    pub block_count: u32,
    /// Bytes of one slot, a divisor of the block's; with blocks only a lower bound counts.
    pub slot_size_bytes: u32,
    /// After so long a block is handed over though it is not full; 0 where slots are
    /// handed over one by one.
    pub block_timeout_ms: u32,
}

/// What the kernel counted since it was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames that passed the filter, dropped ones included.
    pub received: u32,
    /// Of those, the ones for which there was no room.
    pub dropped: u32,
    /// Times that the ring was full and the kernel waited for a block.
    pub freezes: u32,
}

/// Why waiting ended.
#[derive(Debug)]
pub enum Readiness {
    /// Look at the ring.
    Ready,
    /// The time passed.
    TimedOut,
    /// A signal came.
    Interrupted,
    /// Something happened to the socket, such as `ENETDOWN`.
    Error(io::Error),
}

/// What a packet socket puts before a frame: `struct virtio_net_hdr` without buffers.
pub const VNET_HEADER_LEN: usize = 10;

impl PacketSocket {
    /// A socket that receives nothing before [`PacketSocket::bind`]: it is opened for
    /// protocol 0, so that no frame can come before filter and ring are in place.
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_RAW`, and the system's.
    pub fn open() -> io::Result<Self> {
        // SAFETY: any numbers are allowed; the result is checked.
        let socket =
            unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, owned by nobody else.
        Ok(Self { socket: unsafe { OwnedFd::from_raw_fd(socket) } })
    }

    /// Puts a [`VNET_HEADER_LEN`] header before each frame, and leaves `reserve_len` bytes
    /// more before that. To be set before the ring.
    ///
    /// # Errors
    /// The system's.
    pub fn set_headroom(&self, reserve_len: u32) -> io::Result<()> {
        self.set_packet_option(libc::PACKET_VNET_HDR, &1_i32)?;
        self.set_packet_option(libc::PACKET_RESERVE, &reserve_len)
    }

    /// Has the kernel stamp what it receives as soon as it has it, and not only when someone
    /// listens to it; everywhere on this machine, as long as this socket is open.
    ///
    /// # Errors
    /// The system's.
    pub fn ask_for_stamps(&self) -> io::Result<()> {
        self.set_option(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1_i32)
    }

    /// Makes a receive ring: of blocks where the shape has a time-out, else of slots.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] where the kernel knows no such ring, `ENOMEM`, `EINVAL` for a
    /// shape that the kernel does not take, and the system's.
    pub fn set_ring(&self, shape: &RingShape) -> io::Result<()> {
        let RingShape { block_size_bytes, block_count, slot_size_bytes, block_timeout_ms } = *shape;
        let slot_count = (block_size_bytes / slot_size_bytes.max(1)).saturating_mul(block_count);
        if block_timeout_ms > 0 {
            let version = libc::tpacket_versions::TPACKET_V3 as c_int;
            self.set_packet_option(libc::PACKET_VERSION, &version).map_err(no_version)?;
            let request = libc::tpacket_req3 {
                tp_block_size: block_size_bytes,
                tp_block_nr: block_count,
                tp_frame_size: slot_size_bytes,
                tp_frame_nr: slot_count,
                tp_retire_blk_tov: block_timeout_ms,
                tp_sizeof_priv: 0,
                tp_feature_req_word: 0,
            };
            return self.set_packet_option(libc::PACKET_RX_RING, &request);
        }
        let version = libc::tpacket_versions::TPACKET_V2 as c_int;
        self.set_packet_option(libc::PACKET_VERSION, &version).map_err(no_version)?;
        let request = libc::tpacket_req {
            tp_block_size: block_size_bytes,
            tp_block_nr: block_count,
            tp_frame_size: slot_size_bytes,
            tp_frame_nr: slot_count,
        };
        self.set_packet_option(libc::PACKET_RX_RING, &request)
    }

    /// Attaches a filter, in place of the one before: no frame passes between the two.
    ///
    /// # Errors
    /// `EINVAL` for a program that the kernel does not take, `ENOMEM` for one that is too
    /// long for `net.core.optmem_max`.
    pub fn attach_filter(&self, program: &[Instruction]) -> io::Result<()> {
        let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        // The kernel only reads through this pointer, which C cannot say.
        let filter = program.as_ptr().cast_mut().cast();
        self.set_option(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &libc::sock_fprog { len, filter })
    }

    /// Takes what is for other stations too, until the socket is closed.
    ///
    /// # Errors
    /// The system's.
    pub fn set_promiscuous(&self, interface_index: i32) -> io::Result<()> {
        let membership = libc::packet_mreq {
            mr_ifindex: interface_index,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set_packet_option(libc::PACKET_ADD_MEMBERSHIP, &membership)
    }

    /// Receives the frames of an interface from now on; of all with index 0.
    ///
    /// # Errors
    /// `ENODEV`, and the system's. An interface that is down is no error here; it shows as
    /// `ENETDOWN` in the first [`PacketSocket::take_error`].
    pub fn bind(&self, interface_index: i32) -> io::Result<()> {
        self.bind_to(&link_address(interface_index))
    }

    fn bind_to(&self, address: &libc::sockaddr_ll) -> io::Result<()> {
        let address: *const libc::sockaddr_ll = address;
        let len = len_of::<libc::sockaddr_ll>();
        // SAFETY: an open socket, and an address of the length that is given.
        let status = unsafe { libc::bind(self.socket.as_raw_fd(), address.cast(), len) };
        if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Holds on to an interface, and receives nothing of it: see
    /// [`PacketSocket::interface_index`].
    ///
    /// # Errors
    /// `ENODEV`, and the system's.
    pub fn bind_to_nothing_of(&self, interface_index: i32) -> io::Result<()> {
        self.bind_to(&libc::sockaddr_ll { sll_protocol: 0, ..link_address(interface_index) })
    }

    /// Index of the interface that is received from; -1 once it was removed.
    ///
    /// # Errors
    /// The system's.
    pub fn interface_index(&self) -> io::Result<i32> {
        let mut address = link_address(0);
        let mut len = len_of::<libc::sockaddr_ll>();
        let place = (&raw mut address).cast();
        // SAFETY: an open socket, and a place of the length that is given.
        if unsafe { libc::getsockname(self.socket.as_raw_fd(), place, &raw mut len) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(address.sll_ifindex)
    }

    /// Makes a group whose sockets share the frames, both directions of a flow going to one;
    /// returns its number, which no other group of this network namespace has.
    ///
    /// # Errors
    /// The system's; an older kernel refuses while the interface is down.
    pub fn make_fanout(&self) -> io::Result<u16> {
        let flags = FANOUT_MODE | libc::PACKET_FANOUT_FLAG_UNIQUEID;
        self.set_packet_option(libc::PACKET_FANOUT, &(flags << 16))?;
        let mut answer: u32 = 0;
        self.get_packet_option(libc::PACKET_FANOUT, &mut answer)?;
        Ok((answer & 0xffff) as u16)
    }

    /// Joins a group that [`PacketSocket::make_fanout`] made.
    ///
    /// # Errors
    /// As there.
    pub fn join_fanout(&self, group: u16) -> io::Result<()> {
        self.set_packet_option(libc::PACKET_FANOUT, &(FANOUT_MODE << 16 | u32::from(group)))
    }

    /// What the kernel counted since the last call.
    ///
    /// # Errors
    /// The system's.
    pub fn take_statistics(&self) -> io::Result<Statistics> {
        // Of a ring of slots the kernel fills only the first two.
        let mut counts = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
        self.get_packet_option(libc::PACKET_STATISTICS, &mut counts)?;
        Ok(Statistics {
            received: counts.tp_packets,
            dropped: counts.tp_drops,
            freezes: counts.tp_freeze_q_cnt,
        })
    }

    /// Waits until the ring holds something, at most `timeout_ms`.
    #[must_use]
    pub fn wait(&self, timeout_ms: u32) -> Readiness {
        self.wait_with(None, timeout_ms)
    }

    /// As [`PacketSocket::wait`], or until another descriptor can be read.
    #[must_use]
    pub fn wait_with(&self, other: Option<BorrowedFd<'_>>, timeout_ms: u32) -> Readiness {
        let events = libc::POLLIN | libc::POLLERR;
        // One below zero is left out.
        let other = other.map_or(-1, |other| other.as_raw_fd());
        let mut polled =
            [self.socket.as_raw_fd(), other].map(|fd| libc::pollfd { fd, events, revents: 0 });
        let timeout = c_int::try_from(timeout_ms).unwrap_or(c_int::MAX);
        // SAFETY: two valid pollfds, whose descriptors this socket and the borrow keep open.
        let ready = unsafe { libc::poll(polled.as_mut_ptr(), 2, timeout) };
        if ready < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::Interrupted => Readiness::Interrupted,
                _ => Readiness::Error(error),
            };
        }
        match self.error_of(polled[0].revents) {
            Some(error) => Readiness::Error(error),
            None if ready == 0 => Readiness::TimedOut,
            None => Readiness::Ready,
        }
    }

    /// The error that is pending on the socket, if one is; it is then no longer.
    #[must_use]
    pub fn take_error(&self) -> Option<io::Error> {
        let mut error: c_int = 0;
        match self.get_option(libc::SOL_SOCKET, libc::SO_ERROR, &mut error) {
            Ok(()) if error == 0 => None,
            Ok(()) => Some(io::Error::from_raw_os_error(error)),
            Err(refused) => Some(refused),
        }
    }

    /// Maps the ring that [`PacketSocket::set_ring`] made, of `size_bytes` in all.
    pub(super) fn map(&self, size_bytes: usize) -> io::Result<SharedMemory> {
        SharedMemory::map(size_bytes, 0, self.socket.as_raw_fd(), 0)
    }

    fn error_of(&self, revents: libc::c_short) -> Option<io::Error> {
        if revents & libc::POLLERR == 0 { None } else { self.take_error() }
    }

    fn set_packet_option<T>(&self, name: c_int, value: &T) -> io::Result<()> {
        self.set_option(libc::SOL_PACKET, name, value)
    }

    fn get_packet_option<T>(&self, name: c_int, value: &mut T) -> io::Result<()> {
        self.get_option(libc::SOL_PACKET, name, value)
    }

    fn set_option<T>(&self, level: c_int, name: c_int, value: &T) -> io::Result<()> {
        let fd = self.socket.as_raw_fd();
        let value: *const T = value;
        // SAFETY: an open socket; the kernel reads the value, of the length that is given.
        let status = unsafe { libc::setsockopt(fd, level, name, value.cast(), len_of::<T>()) };
        if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// `T` is made of integers, so that whatever the kernel writes is one of its values.
    fn get_option<T>(&self, level: c_int, name: c_int, value: &mut T) -> io::Result<()> {
        let fd = self.socket.as_raw_fd();
        let mut len = len_of::<T>();
        let value: *mut T = value;
        // SAFETY: an open socket; the kernel writes no more than the length that is given.
        let status = unsafe { libc::getsockopt(fd, level, name, value.cast(), &raw mut len) };
        if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl From<OwnedFd> for PacketSocket {
    /// One that another process has opened.
    fn from(socket: OwnedFd) -> Self {
        Self { socket }
    }
}

impl From<PacketSocket> for OwnedFd {
    fn from(socket: PacketSocket) -> Self {
        socket.socket
    }
}

/// By a hash that is the same in both directions; fragments are put together first, since
/// later ones have no ports.
const FANOUT_MODE: u32 = libc::PACKET_FANOUT_HASH | libc::PACKET_FANOUT_FLAG_DEFRAG;

/// The address of an interface for every protocol.
pub(super) fn link_address(interface_index: i32) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: interface_index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}

/// `socklen_t` of a type; those used here have tens of bytes.
#[allow(clippy::cast_possible_truncation)]
pub(super) const fn len_of<T>() -> libc::socklen_t {
    size_of::<T>() as libc::socklen_t
}

/// Waits until the ring of any of these holds something, at most `timeout_ms`.
pub fn wait_any<'a>(sockets: impl Iterator<Item = &'a PacketSocket>, timeout_ms: u32) {
    let events = libc::POLLIN | libc::POLLERR;
    let polled =
        |socket: &PacketSocket| libc::pollfd { fd: socket.socket.as_raw_fd(), events, revents: 0 };
    let mut polled: Vec<_> = sockets.map(polled).collect();
    let count = libc::nfds_t::try_from(polled.len()).unwrap_or(libc::nfds_t::MAX);
    let timeout = c_int::try_from(timeout_ms).unwrap_or(c_int::MAX);
    // The outcome shows when each is looked at: an error stays until it is taken.
    // SAFETY: as many valid pollfds as are counted, whose descriptors the sockets keep open.
    unsafe { libc::poll(polled.as_mut_ptr(), count, timeout) };
}

/// A kernel without this version of packet rings.
fn no_version(error: io::Error) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, error)
}
