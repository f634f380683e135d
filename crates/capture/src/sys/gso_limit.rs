//! The most segments that a device is handed in one packet, `gso_max_segs` of ip-link(8), by
//! rtnetlink(7).

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// Of linux/if_link.h.
const IFLA_GSO_MAX_SEGS: u16 = 40;

/// `struct nlmsghdr` and `struct ifinfomsg`.
const HEADER_LEN: usize = 16;
const LINK_LEN: usize = 16;
const ATTRIBUTE_LEN: usize = 4;
/// The kernel writes no longer answer than fits two pages; statistics are left out.
const ANSWER_LEN: usize = 32 << 10;
/// `RTEXT_FILTER_SKIP_STATS` in `IFLA_EXT_MASK`.
const IFLA_EXT_MASK: u16 = 29;
const SKIP_STATISTICS: u32 = 1 << 3;

/// The limit of one device.
#[derive(Debug)]
pub struct GsoLimit {
    socket: OwnedFd,
    index: u32,
}

impl GsoLimit {
    /// Of a device of the calling thread's network namespace.
    ///
    /// # Errors
    /// The system's.
    pub fn open(index: u32) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: any numbers are allowed; the result is checked.
        let socket = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) };
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, owned by nobody else.
        Ok(Self { socket: unsafe { OwnedFd::from_raw_fd(socket) }, index })
    }

    /// Segments at most.
    ///
    /// # Errors
    /// `ENODEV`, and the system's.
    pub fn get(&self) -> io::Result<u32> {
        let message = self.message(libc::RTM_GETLINK, 0, IFLA_EXT_MASK, SKIP_STATISTICS);
        let answer = self.ask(&message)?;
        attribute(&answer, IFLA_GSO_MAX_SEGS).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Sets it; 1 keeps TCP from handing over several segments as one packet.
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_ADMIN`, `EINVAL` above what the device takes, and the system's.
    pub fn set(&self, segments_max: u32) -> io::Result<()> {
        let flags = libc::NLM_F_ACK.cast_unsigned();
        let flags = u16::try_from(flags).unwrap_or(0);
        let message = self.message(libc::RTM_SETLINK, flags, IFLA_GSO_MAX_SEGS, segments_max);
        self.ask(&message).map(|_| ())
    }

    fn message(&self, kind: u16, flags: u16, attribute: u16, value: u32) -> Vec<u8> {
        let request = u16::try_from(libc::NLM_F_REQUEST).unwrap_or(1);
        let attribute_len = ATTRIBUTE_LEN + size_of::<u32>();
        let len = HEADER_LEN + LINK_LEN + attribute_len;
        let words = |value: u32| value.to_ne_bytes();
        let mut message = Vec::with_capacity(len);
        message.extend(words(u32::try_from(len).unwrap_or(0)));
        message.extend(kind.to_ne_bytes());
        message.extend((request | flags).to_ne_bytes());
        // Sequence and sender: there is one question at a time.
        message.extend([words(0), words(0)].concat());
        // Family and type of any device, its index, no flags and none that change.
        message.extend([words(0), words(self.index), words(0), words(0)].concat());
        message.extend(u16::try_from(attribute_len).unwrap_or(0).to_ne_bytes());
        message.extend(attribute.to_ne_bytes());
        message.extend(words(value));
        message
    }

    /// What the kernel answers, an error or `0` in place of nothing.
    fn ask(&self, message: &[u8]) -> io::Result<Vec<u8>> {
        let fd = self.socket.as_raw_fd();
        // SAFETY: an open socket, and a message of the length that is given.
        if unsafe { libc::send(fd, message.as_ptr().cast(), message.len(), 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut answer = vec![0_u8; ANSWER_LEN];
        // SAFETY: an open socket, and a place of the length that is given.
        let len = unsafe { libc::recv(fd, answer.as_mut_ptr().cast(), answer.len(), 0) };
        let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
        answer.truncate(len);
        match half(&answer, 4) {
            Some(kind) if i32::from(kind) == libc::NLMSG_ERROR => {
                let error = word(&answer, HEADER_LEN).unwrap_or(0).cast_signed();
                if error == 0 { Ok(answer) } else { Err(io::Error::from_raw_os_error(-error)) }
            }
            Some(_) => Ok(answer),
            None => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|&bytes| u16::from_ne_bytes(bytes))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|&bytes| u32::from_ne_bytes(bytes))
}

/// A number among the attributes of a device.
fn attribute(answer: &[u8], wanted: u16) -> Option<u32> {
    let mut at = HEADER_LEN + LINK_LEN;
    loop {
        let (len, kind) = (usize::from(half(answer, at)?), half(answer, at + 2)?);
        if kind == wanted {
            return word(answer, at + ATTRIBUTE_LEN);
        }
        if len < ATTRIBUTE_LEN {
            return None;
        }
        at += len.next_multiple_of(ATTRIBUTE_LEN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_ends_early_holds_no_attribute() {
        let mut answer = vec![0; HEADER_LEN + LINK_LEN];
        answer.extend([6_u16, 3].map(u16::to_ne_bytes).concat());
        answer.extend([b'l', b'o', 0, 0]);
        answer.extend([8_u16, IFLA_GSO_MAX_SEGS].map(u16::to_ne_bytes).concat());
        answer.extend(65_535_u32.to_ne_bytes());
        assert_eq!(attribute(&answer, IFLA_GSO_MAX_SEGS), Some(65_535));
        assert_eq!(attribute(&answer, 7), None);
        for len in 0..answer.len() {
            assert_eq!(attribute(&answer[..len], IFLA_GSO_MAX_SEGS), None, "{len}");
        }
    }

    #[test]
    fn the_limit_of_loopback_can_be_read() {
        let index = super::super::interfaces::index("lo").unwrap();
        assert!(GsoLimit::open(index).unwrap().get().unwrap() >= 1);
    }
}
