//! Programs on their way into the kernel, and why they may not get there.

use std::error::Error;
use std::fmt;
use std::io;

use aya::maps::{Map, MapError};
use aya::programs::tc::{TcAttachOptions, TcAttachType};
use aya::programs::{BtfTracePoint, LinkOrder, ProgramError, SchedClassifier};
use aya::sys::SyscallError;
use aya::{Btf, Ebpf, EbpfError};

use crate::sys::interfaces;
use crate::sys::packet_socket::PacketSocket;

/// Where a kernel describes its types (BTF).
const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";

const KERNEL_RELEASE: &str = "/proc/sys/kernel/osrelease";

/// Why an interface cannot be tapped.
#[derive(Debug)]
pub struct TapError {
    device: String,
    cause: Cause,
}

#[derive(Debug)]
pub(super) enum Cause {
    Refused,
    NoDevice,
    Gone,
    /// By the verifier.
    Program(String),
    /// With what the kernel calls itself.
    NoTcx(String),
    /// With what was seen in its place.
    NoTypes(String),
    Other(String),
}

impl TapError {
    /// An interface that was there.
    pub(super) fn gone(device: &str) -> Self {
        Self { device: device.to_owned(), cause: Cause::Gone }
    }
}

/// A device at which a program is attached.
pub(super) struct TapDevice {
    name: String,
    /// Detects when it is gone.
    hold: PacketSocket,
}

impl TapDevice {
    /// Holds on to a device of the calling thread's network namespace; returns its index as well.
    pub(super) fn new(name: &str) -> io::Result<(Self, u32)> {
        let index = interfaces::index(name)?;
        let hold = PacketSocket::open()?;
        hold.bind_to_nothing_of(index.cast_signed())?;
        Ok((Self { name: name.to_owned(), hold }, index))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether the device was removed, or moved to another namespace.
    pub(super) fn is_gone(&self) -> bool {
        self.hold.interface_index().is_ok_and(|index| index < 0)
    }
}

/// Attaches a program of an object, before or after whatever else is attached there.
pub(super) fn attach(
    ebpf: &mut Ebpf,
    name: &str,
    device: &str,
    at: TcAttachType,
    order: LinkOrder,
) -> Result<(), Attaching> {
    // The library says that there is none in words alone.
    interfaces::index(device)?;
    let program: &mut SchedClassifier = ebpf.program_mut(name).ok_or(MISSING)?.try_into()?;
    program.load()?;
    program.attach_with_options(device, at, TcAttachOptions::TcxOrder(order))?;
    Ok(())
}

/// Attaches a program to a place in the kernel that hands over its own structures.
pub(super) fn attach_inside(ebpf: &mut Ebpf, name: &str, place: &str) -> Result<(), Attaching> {
    let types = Btf::parse_file(KERNEL_TYPES, aya::Endianness::default())
        .map_err(|error| Attaching::Types(in_one_line(&error)))?;
    let program: &mut BtfTracePoint = ebpf.program_mut(name).ok_or(MISSING)?.try_into()?;
    program.load(place, &types)?;
    program.attach()?;
    Ok(())
}

/// A map of the object.
pub(super) fn map<'a>(ebpf: &'a Ebpf, name: &str) -> Result<&'a Map, Attaching> {
    ebpf.map(name).ok_or(MISSING)
}

/// The same, to be written.
pub(super) fn map_mut<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut Map, Attaching> {
    ebpf.map_mut(name).ok_or(MISSING)
}

/// What went wrong, before it is known where.
#[derive(Debug)]
pub(super) enum Attaching {
    Io(io::Error),
    Library(Box<dyn Error>),
    /// The kernel's types cannot be read.
    Types(String),
    Missing,
}

/// The object is part of this program: this is a fault of its build.
pub(super) const MISSING: Attaching = Attaching::Missing;

impl Attaching {
    pub(super) fn named(self, device: &str) -> TapError {
        TapError { device: device.to_owned(), cause: self.cause() }
    }

    pub(super) fn cause(self) -> Cause {
        match self {
            Self::Io(error) => cause(&error, error.to_string()),
            Self::Library(error) => cause(error.as_ref(), in_one_line(error.as_ref())),
            Self::Types(words) => Cause::NoTypes(words),
            Self::Missing => {
                Cause::Other(String::from("its program is not in the object that was built in"))
            }
        }
    }
}

/// What lies behind an error.
fn cause(error: &(dyn Error + 'static), words: String) -> Cause {
    if causes(error).any(is_refused_program) {
        return Cause::Program(words);
    }
    if system_errors(error).any(|error| error.kind() == io::ErrorKind::PermissionDenied) {
        return Cause::Refused;
    }
    if system_errors(error).any(|error| error.raw_os_error() == Some(libc::ENODEV)) {
        return Cause::NoDevice;
    }
    // Of a link of a kind that it does not know a kernel says that it is invalid.
    let is_link = |error: &SyscallError| {
        error.call == "bpf_link_create" && error.io_error.kind() == io::ErrorKind::InvalidInput
    };
    if causes(error).filter_map(called).any(is_link) {
        return Cause::NoTcx(release());
    }
    Cause::Other(words)
}

fn is_refused_program(error: &(dyn Error + 'static)) -> bool {
    let failed = error.downcast_ref();
    matches!(failed, Some(ProgramError::LoadError { io_error, .. }) if is_of_program(io_error))
}

/// Of a program that may not be loaded as it is, the kernel says that access is denied or that it
/// is invalid; of one by a user who may load none, that it is not permitted.
fn is_of_program(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EINVAL | libc::E2BIG))
}

/// The system call that failed. The library's own error shows through to what is behind the call.
fn called<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a SyscallError> {
    match error.downcast_ref() {
        Some(ProgramError::SyscallError(called)) => Some(called),
        _ => error.downcast_ref(),
    }
}

fn release() -> String {
    let release = std::fs::read_to_string(KERNEL_RELEASE);
    release.map_or_else(|_| String::from("of unknown release"), |text| text.trim().to_owned())
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// An error and its causes; the verifier's words, where there are any, fill pages.
pub(super) fn in_one_line(error: &(dyn Error + 'static)) -> String {
    let mut words: Vec<String> = Vec::new();
    for line in
        causes(error).filter_map(|error| error.to_string().lines().next().map(str::to_owned))
    {
        if !words.iter().any(|known| known.contains(&line)) {
            words.push(line);
        }
    }
    words.join(": ")
}

/// What the system answered.
fn system_errors<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a io::Error> {
    causes(error).filter_map(|error| {
        let called = error.downcast_ref::<SyscallError>().map(|error| &error.io_error);
        error.downcast_ref::<io::Error>().or(called)
    })
}

impl From<io::Error> for Attaching {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<EbpfError> for Attaching {
    fn from(error: EbpfError) -> Self {
        Self::Library(Box::new(error))
    }
}

impl From<ProgramError> for Attaching {
    fn from(error: ProgramError) -> Self {
        Self::Library(Box::new(error))
    }
}

impl From<MapError> for Attaching {
    fn from(error: MapError) -> Self {
        Self::Library(Box::new(error))
    }
}

impl fmt::Display for TapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: cannot be tapped by eBPF: ", self.device)?;
        match &self.cause {
            Cause::Refused => f.write_str(
                "not permitted; wanted CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW and CAP_PERFMON, try as \
                 root",
            ),
            Cause::NoDevice => f.write_str(
                "no such device; wanted one that `ip link` shows, or NETNS:DEV for one of another \
                 network namespace",
            ),
            Cause::Gone => {
                f.write_str("the device is gone; wanted one that stays, try again when it is back")
            }
            Cause::Program(words) => write!(
                f,
                "the kernel refuses the program: {words}; wanted Linux 6.6 or newer, try another \
                 kernel"
            ),
            Cause::NoTcx(release) => write!(
                f,
                "this is Linux {release}, which takes no links at tc (tcx); wanted Linux 6.6 or \
                 newer, try captures instead"
            ),
            Cause::NoTypes(words) => write!(
                f,
                "{KERNEL_TYPES}: {words}; wanted a kernel with CONFIG_DEBUG_INFO_BTF, try a device \
                 of the next hop, --egress NETNS:DEV, which takes none"
            ),
            Cause::Other(words) => {
                write!(f, "{words}; wanted Linux 6.6 or newer with CONFIG_BPF_SYSCALL")
            }
        }
    }
}

impl Error for TapError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_is_wanted() {
        let denied = io::Error::from_raw_os_error(libc::EPERM);
        let text = Attaching::from(denied).named("eth0").to_string();
        assert!(text.starts_with("eth0: ") && text.contains("CAP_BPF"), "{text}");
        let called = SyscallError {
            call: "bpf_link_create",
            io_error: io::Error::from_raw_os_error(libc::EPERM),
        };
        let text = Attaching::from(ProgramError::from(called)).named("eth0").to_string();
        assert!(text.contains("CAP_BPF"), "{text}");
        let none = io::Error::from_raw_os_error(libc::ENODEV);
        let text = Attaching::from(none).named("eth0").to_string();
        assert!(text.contains("no such device") && text.contains("ip link"), "{text}");
    }

    #[test]
    fn a_program_that_the_verifier_refuses_is_no_lack_of_permission() {
        assert!(is_of_program(&io::Error::from_raw_os_error(libc::EACCES)));
        assert!(!is_of_program(&io::Error::from_raw_os_error(libc::EPERM)));
        let cause = Cause::Program(String::from("R1 invalid mem access"));
        let text = TapError { device: String::from("eth0"), cause }.to_string();
        assert!(text.contains("the kernel refuses the program: R1 invalid"), "{text}");
    }

    #[test]
    fn a_kernel_without_tcx_is_named() {
        // What Linux 5.15 answers.
        let called = SyscallError {
            call: "bpf_link_create",
            io_error: io::Error::from_raw_os_error(libc::EINVAL),
        };
        let text = Attaching::from(ProgramError::from(called)).named("eth0").to_string();
        let this = release();
        assert!(text.contains(&this) && text.contains("tcx") && text.contains("6.6"), "{text}");
    }
}
