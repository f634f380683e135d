//! Why a part of the testbed cannot do its work.

use std::fmt;
use std::io;
use std::path::PathBuf;

use capture::tap::TapError;
use capture::{OpenError, Place};

/// Why a relay or a tap cannot do its work: what was seen, what to try.
#[derive(Debug)]
pub enum TestbedError {
    /// A network namespace cannot be entered.
    Namespace {
        /// Which, and the device that was wanted there.
        place: Place,
        /// The system's words.
        error: io::Error,
    },
    /// A TUN device cannot be made.
    Tun {
        /// Where, and its name.
        place: Place,
        /// The system's words.
        error: io::Error,
    },
    /// A device cannot be listened on.
    Listen {
        /// Which.
        place: Place,
        /// Why; it names the device.
        error: OpenError,
    },
    /// A device cannot be counted at.
    Count {
        /// Which.
        place: Place,
        /// Why; it names the device.
        error: TapError,
    },
    /// A router cannot be as it was asked for.
    Router(dualq::SettingsError),
    /// A capture or a trace cannot be written.
    File {
        /// Which.
        path: PathBuf,
        /// The system's words.
        error: io::Error,
    },
    /// Waiting is refused.
    Wait(io::Error),
    /// A command that was not understood.
    Command(String),
}

impl fmt::Display for TestbedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace { place, error } => {
                let file = place.namespace_file();
                write!(f, "{place}: cannot enter the network namespace {}: ", file.display())?;
                match error.kind() {
                    io::ErrorKind::NotFound => {
                        f.write_str("there is none; make it with `ip netns add`")
                    }
                    io::ErrorKind::PermissionDenied => {
                        f.write_str("not permitted; it takes CAP_SYS_ADMIN, so run as root")
                    }
                    _ => error.fmt(f),
                }
            }
            Self::Tun { place, error } => {
                write!(f, "{place}: cannot make this TUN device: ")?;
                match error.kind() {
                    io::ErrorKind::NotFound => f.write_str(
                        "there is no /dev/net/tun; wanted a kernel with TUN, try `modprobe tun`",
                    ),
                    io::ErrorKind::PermissionDenied => {
                        f.write_str("not permitted; it takes CAP_NET_ADMIN, so run as root")
                    }
                    io::ErrorKind::ResourceBusy => {
                        f.write_str("the name is in use; choose another")
                    }
                    _ => error.fmt(f),
                }
            }
            Self::Listen { place, error } => write!(f, "{}: {error}", place.namespace),
            Self::Count { place, error } => write!(f, "{}: {error}", place.namespace),
            Self::File { path, error } => match error.kind() {
                io::ErrorKind::AlreadyExists => write!(
                    f,
                    "{}: exists, and is not replaced; remove it or choose another name",
                    path.display()
                ),
                _ => write!(f, "{}: cannot be written: {error}", path.display()),
            },
            Self::Router(error) => write!(f, "router: {error}"),
            Self::Wait(error) => write!(f, "cannot wait for packets or commands: {error}"),
            Self::Command(words) => f.write_str(words),
        }
    }
}

impl std::error::Error for TestbedError {}
