//! What the kernel lets this process do.

use std::io;
use std::path::Path;

use capture::devices;
use capture::sys::packet_ring::page_size_bytes;
use capture::sys::packet_socket::{PacketSocket, RingShape};

use crate::check::{Check, Level};
use crate::system::System;

const NAME: &str = "packet capture";

/// Capabilities that taps take, and their bits in `CapEff` (linux/capability.h).
const OF_TAPS: [(&str, u32); 4] =
    [("CAP_NET_ADMIN", 12), ("CAP_NET_RAW", 13), ("CAP_PERFMON", 38), ("CAP_BPF", 39)];
/// Has the rights of `CAP_BPF` and `CAP_PERFMON` as well.
const SYS_ADMIN: u32 = 21;

/// The outcome of a packet socket that receives nothing and is closed again.
pub(crate) struct SocketProbe {
    /// The socket, and its ring of the kind that captures have.
    pub ring: Result<(), io::Error>,
    /// Whether several sockets can share an interface; nothing where that could not be tried.
    pub fanout: Option<bool>,
}

pub(crate) fn try_socket() -> SocketProbe {
    let open = || -> io::Result<PacketSocket> {
        let socket = PacketSocket::open()?;
        let page = u32::try_from(page_size_bytes()).unwrap_or(4096);
        let (block_size_bytes, slot_size_bytes) = (page * 4, 2048);
        let block_timeout_ms = 10;
        socket.set_ring(&RingShape {
            block_size_bytes,
            block_count: 2,
            slot_size_bytes,
            block_timeout_ms,
        })?;
        Ok(socket)
    };
    match open() {
        Ok(socket) => SocketProbe { ring: Ok(()), fanout: try_fanout(&socket) },
        Err(error) => SocketProbe { ring: Err(error), fanout: None },
    }
}

/// On an interface that is up: older kernels refuse it on others.
fn try_fanout(socket: &PacketSocket) -> Option<bool> {
    let up = devices::list().ok()?.into_iter().find(|device| device.is_up)?;
    socket.bind(up.index).ok()?;
    Some(socket.make_fanout().is_ok())
}

pub(crate) fn capture(tried: &SocketProbe, program: &Path) -> Check {
    let give = || format!("sudo setcap cap_net_raw=eip {}", program.display());
    match &tried.ring {
        Ok(()) => {
            let fanout = match tried.fanout {
                Some(true) => "PACKET_FANOUT works",
                Some(false) => "PACKET_FANOUT is refused, so --threads has no effect on interfaces",
                None => "PACKET_FANOUT was not tried: no interface is up",
            };
            Check::ok(NAME, format!("permitted, TPACKET_V3 works, {fanout}"))
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Check::problem(NAME, "not permitted: the capability CAP_NET_RAW is missing")
                .wanted("CAP_NET_RAW; captures from files need no permission")
                .change(give())
        }
        Err(error) if error.raw_os_error() == Some(AF_NOT_SUPPORTED) => {
            Check::problem(NAME, "this kernel has no packet sockets, or a sandbox refuses them")
                .wanted("CONFIG_PACKET, and AF_PACKET in RestrictAddressFamilies of a service")
                .change("sudo modprobe af_packet")
        }
        Err(error) => Check::problem(NAME, format!("a ring of TPACKET_V3 is refused: {error}"))
            .wanted("Linux 3.2 or newer, and memory for the ring"),
    }
}

/// The same where nothing is captured on an interface: nothing to be changed.
pub(crate) fn not_needed(capture: Check) -> Check {
    match capture.level {
        Level::Problem => {
            Check::ok(NAME, format!("{}; these settings listen on no interface", capture.seen))
        }
        _ => capture,
    }
}

/// `EAFNOSUPPORT` of Linux.
const AF_NOT_SUPPORTED: i32 = 97;

pub(crate) fn taps(system: &System, are_asked_for: bool, program: &Path) -> Check {
    let name = "eBPF taps";
    let field = system.field("proc/self/status", "CapEff:");
    let Some(has) = field.and_then(|text| u64::from_str_radix(&text, 16).ok()) else {
        return Check::unknown(name, "capabilities cannot be read");
    };
    let is_set = |bit: u32| has >> bit & 1 == 1;
    let has_one = |bit: u32| is_set(bit) || (bit >= 38 && is_set(SYS_ADMIN));
    let missing = OF_TAPS.iter().filter(|(_, bit)| !has_one(*bit));
    let missing: Vec<_> = missing.map(|(name, _)| *name).collect();
    if missing.is_empty() {
        return Check::ok(name, "permitted");
    }
    let missing = missing.join(", ");
    if !are_asked_for {
        let what = "only taps (cca --egress), marking (l4s --act, cca --act) and packetlog \
                    --offload need them";
        return Check::ok(name, format!("not permitted, {missing} missing; {what}"));
    }
    let all = OF_TAPS.map(|(name, _)| name.to_lowercase()).join(",");
    Check::problem(name, format!("not permitted: {missing} missing"))
        .wanted("these capabilities, which the settings need for programs in the kernel")
        .change(format!("sudo setcap {all}=eip {}", program.display()))
}
