//! What the frames of an interface begin with.

use packet::LinkType;

/// `ARPHRD_*` of the interface that leads back to this host.
pub(crate) const LOOPBACK: u16 = libc::ARPHRD_LOOPBACK;

/// `ARPHRD_RAWIP`, which modems use and libc does not name.
const RAW_IP: u16 = 519;

/// The hardware types that are known, and how a packet socket shows their frames.
///
/// PPP interfaces stand among those without a link header: the kernel takes it off before,
/// and puts it on behind, the place where a packet socket listens. GRE interfaces do not
/// stand here: theirs is there in one direction and missing in the other.
pub(crate) const KNOWN: &[(u16, LinkType)] = &[
    (libc::ARPHRD_ETHER, LinkType::ETHERNET),
    (LOOPBACK, LinkType::ETHERNET),
    (libc::ARPHRD_NONE, LinkType::RAW),
    (RAW_IP, LinkType::RAW),
    (libc::ARPHRD_PPP, LinkType::RAW),
    (libc::ARPHRD_TUNNEL, LinkType::RAW),
    (libc::ARPHRD_TUNNEL6, LinkType::RAW),
    (libc::ARPHRD_SIT, LinkType::RAW),
];

/// What the frames of an interface with this `ARPHRD_*` begin with, if that is known.
#[must_use]
pub fn link_type_of(hardware_type: u16) -> Option<LinkType> {
    KNOWN.iter().find(|(known, _)| *known == hardware_type).map(|(_, link)| *link)
}
