//! Sends frames as they are: for tests and measurements, which must know what was sent.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use super::packet_socket::{len_of, link_address};

/// A socket that puts whole frames on one interface.
#[derive(Debug)]
pub struct PacketSender {
    socket: OwnedFd,
}

impl PacketSender {
    /// For the interface with this index. It receives nothing.
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_RAW`, `ENODEV`, and the system's.
    pub fn open(interface_index: i32) -> io::Result<Self> {
        // SAFETY: any numbers are allowed; the result is checked.
        let socket =
            unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, owned by nobody else.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let mut address = link_address(interface_index);
        address.sll_protocol = 0;
        let len = len_of::<libc::sockaddr_ll>();
        // SAFETY: an open socket, and an address of the length that is given.
        let status = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
        if status == 0 { Ok(Self { socket }) } else { Err(io::Error::last_os_error()) }
    }

    /// Hands frames to the driver past the queue in front of it, and past every packet socket
    /// that listens there.
    ///
    /// # Errors
    /// The system's.
    pub fn set_queue_bypass(&self) -> io::Result<()> {
        let on: libc::c_int = 1;
        // SAFETY: an open socket and an option of the type that packet(7) gives.
        let status = unsafe {
            libc::setsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_QDISC_BYPASS,
                (&raw const on).cast(),
                len_of::<libc::c_int>(),
            )
        };
        if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Sends frames in order; how many were sent until the queue was full.
    ///
    /// # Errors
    /// The system's, where not even the first went.
    pub fn send(&self, frames: &[&[u8]]) -> io::Result<usize> {
        let mut parts: Vec<libc::iovec> = frames
            .iter()
            .map(|frame| libc::iovec {
                iov_base: frame.as_ptr().cast_mut().cast(),
                iov_len: frame.len(),
            })
            .collect();
        let mut messages: Vec<libc::mmsghdr> = parts.iter_mut().map(message).collect();
        let count = libc::c_uint::try_from(messages.len()).unwrap_or(libc::c_uint::MAX);
        let fd = self.socket.as_raw_fd();
        // SAFETY: an open socket and `count` messages, whose parts and frames outlive the
        // call; the kernel only reads the frames.
        let sent = unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), count, 0) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

fn message(part: &mut libc::iovec) -> libc::mmsghdr {
    // SAFETY: a message header of zeros and null pointers is an empty message.
    let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
    message.msg_hdr.msg_iov = part;
    message.msg_hdr.msg_iovlen = 1;
    message
}
