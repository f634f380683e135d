//! Why a part of the testbed cannot begin.

use std::fmt;
use std::io;

use crate::Place;

/// Why a relay or a tap cannot begin: what was seen, what to try.
#[derive(Debug)]
pub enum SetupError {
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
    /// Waiting is refused.
    Wait(io::Error),
    /// A command that was not understood.
    Command(String),
}

impl fmt::Display for SetupError {
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
                        f.write_str("somebody holds one of this name; choose another")
                    }
                    _ => error.fmt(f),
                }
            }
            Self::Wait(error) => write!(f, "cannot wait for packets: {error}"),
            Self::Command(words) => f.write_str(words),
        }
    }
}

impl std::error::Error for SetupError {}
