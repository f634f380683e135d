//! TUN devices: an interface whose other end is a file.

use std::ffi::c_int;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;

/// Where TUN devices are made.
const CONTROL: &str = "/dev/net/tun";

/// Packets that the kernel keeps for us while we wait for our turn: a tenth of a second of
/// the 100,000 a second that is more than a relay carries. Linux gives 500, which a flow at
/// 1 Gbit/s sends in 6 ms.
const QUEUE_LEN_PACKETS: c_int = 10_000;

/// An interface of which we are the other end. It is gone when this is.
#[derive(Debug)]
pub struct Tun {
    file: File,
}

impl Tun {
    /// Makes a device of this name in the network namespace of the calling thread. Packets
    /// come and go as they are, without a header of the kernel's; none is waited for.
    ///
    /// # Errors
    /// There is no `/dev/net/tun`, `CAP_NET_ADMIN` is missing, the name is taken.
    pub fn make(name: &str) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(CONTROL)?;
        let mut request = named(name)?;
        // A device that exists is not taken over, were it even without a holder.
        let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_TUN_EXCL;
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        // SAFETY: an open descriptor of TUN and a request with a terminated name.
        let status = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
        set_queue_len(name)?;
        Ok(Self { file })
    }

    /// Takes one packet into `buffer`, which has to hold the longest; its length.
    ///
    /// # Errors
    /// `WouldBlock` where none waits; `EBADFD` when the device is gone.
    #[inline]
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(buffer)
    }

    /// Hands one packet to the kernel, which is done with it on return.
    ///
    /// # Errors
    /// `EIO` while the device is down, `EBADFD` when it is gone, `EINVAL` for what is no packet.
    #[inline]
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        (&self.file).write(packet).map(drop)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Lengthens the queue before a queueing discipline is made for it.
fn set_queue_len(name: &str) -> io::Result<()> {
    // SAFETY: any numbers are allowed; the result is checked.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, owned by nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let mut request = named(name)?;
    // The kernel reads the length where it writes the metric: one integer.
    request.ifr_ifru.ifru_metric = QUEUE_LEN_PACKETS;
    // SAFETY: an open socket and a request with a terminated name.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFTXQLEN, &raw mut request) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn named(name: &str) -> io::Result<libc::ifreq> {
    if name.len() >= libc::IFNAMSIZ {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_metric: 0 },
    };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    Ok(request)
}
