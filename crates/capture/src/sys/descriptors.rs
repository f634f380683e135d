//! A descriptor that goes to another process with bytes, over a pair of sockets: `SCM_RIGHTS` of
//! unix(7).

use std::ffi::c_int;
use std::io;
use std::mem::{self, offset_of};
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::ptr;

/// A control message with one descriptor, as the kernel lays it out: `CMSG_DATA` is where the
/// header ends, as that is a multiple of its alignment.
#[repr(C)]
struct Control {
    header: libc::cmsghdr,
    descriptor: c_int,
}

const CONTROL_LEN: usize = offset_of!(Control, descriptor) + size_of::<c_int>();

impl Control {
    fn blank() -> Self {
        // SAFETY: numbers alone, for which zeros are values.
        unsafe { mem::zeroed() }
    }
}

/// A message of one piece with room for a control message.
fn message(piece: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: numbers, and pointers that may be null.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = piece;
    message.msg_iovlen = 1;
    message.msg_control = ptr::from_mut(control).cast();
    message.msg_controllen = CONTROL_LEN as _;
    message
}

/// Sends bytes, and with the first of them a descriptor; how many bytes.
///
/// # Errors
/// The system's.
pub fn send(over: BorrowedFd<'_>, bytes: &[u8], sent: BorrowedFd<'_>) -> io::Result<usize> {
    // Only read, which C cannot say.
    let start = bytes.as_ptr().cast_mut().cast();
    let mut piece = libc::iovec { iov_base: start, iov_len: bytes.len() };
    let mut control = Control::blank();
    control.header.cmsg_len = CONTROL_LEN as _;
    control.header.cmsg_level = libc::SOL_SOCKET;
    control.header.cmsg_type = libc::SCM_RIGHTS;
    control.descriptor = sent.as_raw_fd();
    let message = message(&mut piece, &mut control);
    // SAFETY: an open socket; piece and control message outlive the call, which only reads them.
    let count = unsafe { libc::sendmsg(over.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Takes bytes, and the descriptor that came with the first of them, if one did; how many bytes.
///
/// # Errors
/// The system's.
pub fn receive(over: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut piece = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let mut control = Control::blank();
    let mut message = message(&mut piece, &mut control);
    let flags = libc::MSG_CMSG_CLOEXEC;
    // SAFETY: an open socket; the kernel writes into the bytes and the control message as far as
    // the lengths of both allow.
    let count = unsafe { libc::recvmsg(over.as_raw_fd(), &raw mut message, flags) };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    let Control { header, descriptor } = control;
    let is_one = header.cmsg_level == libc::SOL_SOCKET
        && header.cmsg_type == libc::SCM_RIGHTS
        && header.cmsg_len >= CONTROL_LEN as _;
    // SAFETY: the kernel has just opened it for this process; no one else owns it.
    let received = is_one.then(|| unsafe { OwnedFd::from_raw_fd(descriptor) });
    Ok((count, received))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_descriptor_comes_with_the_bytes_it_was_sent_with_and_once() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (reader, writer) = io::pipe().unwrap();
        assert_eq!(send(theirs.as_fd(), b"it\n", reader.as_fd()).unwrap(), 3);
        drop(reader);
        io::Write::write_all(&mut &theirs, b"more\n").unwrap();
        let mut bytes = [0; 64];
        let (count, received) = receive(ours.as_fd(), &mut bytes).unwrap();
        assert!(bytes[..count].starts_with(b"it\n"), "{count}");
        let mut received = File::from(received.unwrap());
        io::Write::write_all(&mut &writer, b"x").unwrap();
        drop(writer);
        let mut text = String::new();
        received.read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
        if count == 3 {
            let (count, none) = receive(ours.as_fd(), &mut bytes).unwrap();
            assert!((count, none.is_none()) == (5, true));
        }
        drop(theirs);
        assert!(matches!(receive(ours.as_fd(), &mut bytes), Ok((0, None))));
    }

    #[test]
    fn bytes_that_are_read_in_parts_come_whole() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        send(theirs.as_fd(), b"abcd", ours.as_fd()).unwrap();
        let mut bytes = [0; 2];
        assert!(matches!(receive(ours.as_fd(), &mut bytes), Ok((2, Some(_)))));
        assert!(matches!(receive(ours.as_fd(), &mut bytes), Ok((2, None))));
        assert_eq!(&bytes, b"cd");
    }
}
