//! Programs on their way into the kernel, and why they may not get there.

use std::error::Error;
use std::fmt;
use std::io;

use aya::maps::{Map, MapError};
use aya::programs::tc::{TcAttachOptions, TcAttachType};
use aya::programs::{LinkOrder, ProgramError, SchedClassifier};
use aya::sys::SyscallError;
use aya::{Ebpf, EbpfError};

/// Why an interface cannot be counted at.
#[derive(Debug)]
pub struct TapError {
    device: String,
    words: String,
    is_refused: bool,
}

/// Attaches a program of an object, before whatever else is attached there.
pub(super) fn attach(
    ebpf: &mut Ebpf,
    name: &str,
    device: &str,
    at: TcAttachType,
) -> Result<(), Attaching> {
    let program: &mut SchedClassifier = ebpf.program_mut(name).ok_or(MISSING)?.try_into()?;
    program.load()?;
    program.attach_with_options(device, at, TcAttachOptions::TcxOrder(LinkOrder::first()))?;
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
    Missing,
}

/// The object is part of this program: this is a fault of its build.
pub(super) const MISSING: Attaching = Attaching::Missing;

impl Attaching {
    pub(super) fn named(self, device: &str) -> TapError {
        let device = device.to_owned();
        match self {
            Self::Io(error) => {
                let is_refused = error.kind() == io::ErrorKind::PermissionDenied;
                TapError { device, words: error.to_string(), is_refused }
            }
            Self::Library(error) => {
                let is_refused = refused(error.as_ref());
                TapError { device, words: in_one_line(error.as_ref()), is_refused }
            }
            Self::Missing => {
                let words = String::from("its program is not in the object that was built in");
                TapError { device, words, is_refused: false }
            }
        }
    }
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// An error and its causes; the verifier's words, where there are any, fill pages.
fn in_one_line(error: &(dyn Error + 'static)) -> String {
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

/// Whether the system refused for want of permission.
fn refused(error: &(dyn Error + 'static)) -> bool {
    causes(error).any(|error| {
        let io_error = error.downcast_ref::<io::Error>();
        let called = error.downcast_ref::<SyscallError>().map(|error| &error.io_error);
        io_error.or(called).is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
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
        let Self { device, words, is_refused } = self;
        write!(f, "{device}: cannot count by eBPF: ")?;
        if *is_refused {
            f.write_str("not permitted; wanted CAP_BPF and CAP_NET_ADMIN, try as root")
        } else {
            write!(f, "{words}; wanted Linux 6.6 or newer with CONFIG_BPF_SYSCALL")
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
        let gone = io::Error::from_raw_os_error(libc::ENODEV);
        let text = Attaching::from(gone).named("eth0").to_string();
        assert!(text.contains("No such device") && text.contains("6.6"), "{text}");
    }
}
