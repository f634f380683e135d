//! The network interfaces of this network namespace, as the C library lists them.
//!
//! Not from `/sys`, which shows the namespace in which it was mounted. What is nowhere else is read
//! there only if it shows an interface of the same name and index.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

/// One address of one interface; every interface has at least one that names its link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The interface's name.
    pub name: String,
    /// `IFF_*`.
    pub flags: u32,
    /// What the entry says.
    pub address: Address,
}

/// What one entry of the list says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An IP address.
    Ip(IpAddr),
    /// The link itself.
    Link {
        /// Index of the interface.
        index: i32,
        /// `ARPHRD_*`.
        hardware_type: u16,
        /// Its address, at most 8 bytes of it.
        bytes: Vec<u8>,
    },
    /// Something else, or nothing.
    Other,
}

/// Everything that getifaddrs(3) lists.
///
/// # Errors
/// The system's.
pub fn interface_addresses() -> io::Result<Vec<InterfaceAddress>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: a valid place for the list's head.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut list = Vec::new();
    let mut next = first;
    // SAFETY: null or an entry of the list, which is freed only below.
    while let Some(entry) = unsafe { next.as_ref() } {
        // SAFETY: every entry has a terminated name.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
        // SAFETY: the entry's address is null or valid while the list is.
        let address = unsafe { socket_address(entry.ifa_addr) };
        list.push(InterfaceAddress { name, flags: entry.ifa_flags, address });
        next = entry.ifa_next;
    }
    // SAFETY: made by getifaddrs, freed once, nothing borrowed from it is left.
    unsafe { libc::freeifaddrs(first) };
    Ok(list)
}

/// SAFETY: `address` must be null or point to a socket address of the length
/// that its family says.
unsafe fn socket_address(address: *const libc::sockaddr) -> Address {
    // SAFETY: passed on to the caller.
    let Some(generic) = (unsafe { address.as_ref() }) else { return Address::Other };
    match i32::from(generic.sa_family) {
        libc::AF_INET => {
            // SAFETY: an address of this family is a sockaddr_in.
            let v4 = unsafe { &*address.cast::<libc::sockaddr_in>() };
            Address::Ip(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: an address of this family is a sockaddr_in6.
            let v6 = unsafe { &*address.cast::<libc::sockaddr_in6>() };
            Address::Ip(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        libc::AF_PACKET => {
            // SAFETY: an address of this family is a sockaddr_ll.
            let link = unsafe { &*address.cast::<libc::sockaddr_ll>() };
            let bytes = link.sll_addr.get(..usize::from(link.sll_halen)).unwrap_or(&link.sll_addr);
            Address::Link {
                index: link.sll_ifindex,
                hardware_type: link.sll_hatype,
                bytes: bytes.to_vec(),
            }
        }
        _ => Address::Other,
    }
}

/// Index of an interface of the calling thread's network namespace.
///
/// # Errors
/// `ENODEV`: there is no such interface.
pub fn index(name: &str) -> io::Result<u32> {
    let name = CString::new(name)?;
    // SAFETY: a terminated name, which is only read.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 { Err(io::Error::last_os_error()) } else { Ok(index) }
}

/// MTU of an interface in bytes.
///
/// # Errors
/// The system's; there is no such interface.
pub fn mtu(name: &str) -> io::Result<u32> {
    let (socket, mut request) = request_of(name)?;
    // SAFETY: an open socket and a request with a terminated name.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &raw mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a request that succeeded has filled in this member.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    Ok(u32::try_from(mtu).unwrap_or(0))
}

/// What an interface's frames begin with, `ARPHRD_*`; also of one that has no link address.
///
/// # Errors
/// The system's; there is no such interface.
pub fn hardware_type(name: &str) -> io::Result<u16> {
    let (socket, mut request) = request_of(name)?;
    // SAFETY: an open socket and a request with a terminated name.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR as _, &raw mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a request that succeeded has filled in this member.
    Ok(unsafe { request.ifr_ifru.ifru_hwaddr.sa_family })
}

/// Ways in which a card, or the kernel in its place, makes one frame of several packets or several
/// packets of one frame: of each its usual name and how ethtool asks for it.
const OFFLOADS: [(&str, u32, u32); 4] = [
    ("GRO", 0x2b, u32::MAX),
    ("TSO", 0x1e, u32::MAX),
    ("GSO", 0x23, u32::MAX),
    // One of the flags of `ETHTOOL_GFLAGS`.
    ("LRO", 0x25, 1 << 15),
];

pub(super) const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// Offloads of an interface that are on, by which a capture sees frames of several packets.
///
/// # Errors
/// The system's; there is no such interface.
pub fn offloads(name: &str) -> io::Result<Vec<&'static str>> {
    let (socket, mut request) = request_of(name)?;
    let mut found = Vec::new();
    for (offload, command, mask) in OFFLOADS {
        let mut value = EthtoolValue { command, data: 0 };
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: an open socket, a request with a terminated name, a value that outlives it.
        let status = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
        // One that the interface does not know is not on.
        if status == 0 && value.data & mask != 0 {
            found.push(offload);
        }
    }
    Ok(found)
}

/// Slots of the rings between a card and its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardRing {
    /// For frames received.
    pub rx: u32,
    /// As many as the card can have.
    pub rx_max: u32,
}

/// `ETHTOOL_GRINGPARAM`: the receive ring of a card; nothing where it has none.
///
/// # Errors
/// `EOPNOTSUPP` where the driver reports none, and the system's; there is no such interface.
pub fn card_ring(name: &str) -> io::Result<Option<CardRing>> {
    // The command; the maxima of rx, mini, jumbo and tx; then the same as they are.
    let mut words = [0_u32; 9];
    words[0] = 0x10;
    ask(name, &mut words)?;
    Ok((words[1] > 0).then_some(CardRing { rx: words[5], rx_max: words[1] }))
}

/// Queues of a card for frames received: those of their own, and those shared with frames sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channels {
    /// For frames received alone.
    pub rx: u32,
    /// For both.
    pub combined: u32,
    /// As many of the first as the card can have.
    pub rx_max: u32,
    /// As many of the second.
    pub combined_max: u32,
}

/// `ETHTOOL_GCHANNELS`: the queues of a card.
///
/// # Errors
/// `EOPNOTSUPP` where the driver reports none, and the system's; there is no such interface.
pub fn channels(name: &str) -> io::Result<Channels> {
    // The command; the maxima of rx, tx, other and combined; then the same as they are.
    let mut words = [0_u32; 9];
    words[0] = 0x3c;
    ask(name, &mut words)?;
    let [_, rx_max, _, _, combined_max, rx, _, _, combined] = words;
    Ok(Channels { rx, combined, rx_max, combined_max })
}

/// Receive queues of an interface whose driver does not report its [`channels`]; nothing where
/// `/sys` does not show the interface.
#[must_use]
pub fn receive_queue_count(name: &str, index: u32) -> Option<u32> {
    let queues = names_in(&folder(name, index)?.join("queues"), "rx-");
    u32::try_from(queues.len()).ok()
}

/// Interfaces that another one, such as a bond, is made of, in the order of their names; none where
/// `/sys` does not show it.
#[must_use]
pub fn ports(name: &str, index: u32) -> Vec<String> {
    folder(name, index).map(|folder| names_in(&folder, "lower_")).unwrap_or_default()
}

/// The folder of an interface in `/sys`.
fn folder(name: &str, index: u32) -> Option<PathBuf> {
    let folder = Path::new("/sys/class/net").join(name);
    let shown = fs::read_to_string(folder.join("ifindex")).ok()?;
    shown.trim().parse::<u32>().is_ok_and(|shown| shown == index).then_some(folder)
}

/// What follows the prefix in names of a folder that have it.
fn names_in(folder: &Path, prefix: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_prefix(prefix)?.to_owned()))
        .collect();
    names.sort_unstable();
    names
}

/// `ETHTOOL_GDRVINFO`: the name of the driver of an interface.
///
/// # Errors
/// `EOPNOTSUPP` where it has none, and the system's; there is no such interface.
pub fn driver(name: &str) -> io::Result<String> {
    const NAME_WORDS: usize = 8;
    // The command; names of 32 bytes of the driver, its version, the firmware's, the bus and the
    // ROM's; then eight words.
    let mut words = [0_u32; 1 + 5 * NAME_WORDS + 8];
    words[0] = 0x3;
    ask(name, &mut words)?;
    let bytes = words.iter().skip(1).take(NAME_WORDS).flat_map(|word| word.to_ne_bytes());
    let name: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    Ok(String::from_utf8_lossy(&name).into_owned())
}

/// `ETHTOOL_GET_TS_INFO`: whether the card itself stamps frames that it receives.
///
/// # Errors
/// `EOPNOTSUPP`, and the system's; there is no such interface.
pub fn stamps_in_hardware(name: &str) -> io::Result<bool> {
    const RX_HARDWARE: u32 = 1 << 2;
    // The command, what there is, and nine words about clock and filters.
    let mut words = [0_u32; 11];
    words[0] = 0x41;
    ask(name, &mut words)?;
    Ok(words[1] & RX_HARDWARE != 0)
}

/// One command of ethtool that only reads: its first word, and room for what the kernel answers.
fn ask(name: &str, words: &mut [u32]) -> io::Result<()> {
    let (socket, mut request) = request_of(name)?;
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: an open socket, a request with a terminated name, and as many words as the command
    // has, which outlive the call.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A socket to ask about interfaces, and a question about this one.
fn request_of(name: &str) -> io::Result<(OwnedFd, libc::ifreq)> {
    let request = request(name)?;
    Ok((socket()?, request))
}

/// A socket to ask about interfaces of the calling thread's network namespace; it stays one of this
/// namespace, whichever process uses it.
pub(super) fn socket() -> io::Result<OwnedFd> {
    // SAFETY: any numbers are allowed; the result is checked.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

/// A question about an interface.
pub(super) fn request(name: &str) -> io::Result<libc::ifreq> {
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_mtu: 0 },
    };
    if name.len() >= libc::IFNAMSIZ {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_and_ports_are_named_by_entries_with_their_prefix() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["rx-0", "rx-10", "rx-2", "tx-0", "byte_queue"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        assert_eq!(names_in(folder.path(), "rx-"), ["0", "10", "2"]);
        assert!(names_in(&folder.path().join("gone"), "rx-").is_empty());
    }

    #[test]
    fn an_interface_of_another_namespace_is_not_taken_for_this_one() {
        // Loopback has index 1 in every namespace.
        assert_eq!(receive_queue_count("lo", 2), None);
        assert!(ports("lo", 2).is_empty() && ports("no such interface", 1).is_empty());
    }
}
