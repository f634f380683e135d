//! Why a queue cannot be acted on.

use std::{fmt, io};

use capture::tap::TapError;

use crate::cca::live::NamespaceError;

/// Why a queue cannot be acted on.
#[derive(Debug)]
pub enum ActError {
    /// There is neither a model nor a file that names controls.
    Unnamed,
    /// The file that names controls cannot be read or understood.
    Names(String),
    /// A rate was given for a device whose tbf has one.
    RateOfTbf {
        /// The device.
        device: String,
        /// The tbf's.
        rate_bit: u64,
    },
    /// Nothing says how fast the link is.
    RateUnknown {
        /// The device.
        device: String,
        /// What is there; nothing where it is ours.
        kind: Option<String>,
    },
    /// The queueing discipline is an operator's.
    Operators {
        /// The device.
        device: String,
        /// Its kind.
        kind: String,
        /// Its number.
        handle: String,
    },
    /// The kernel put the queueing discipline there, and would put another there now.
    OtherDefault {
        /// The device.
        device: String,
        /// What is there.
        kind: String,
        /// What the kernel would put there.
        default: String,
    },
    /// The device has a queue length of 0, which the kernel raises for good.
    NoQueueLen {
        /// The device.
        device: String,
    },
    /// Another run acts on the device.
    Busy {
        /// The device.
        device: String,
    },
    /// The device cannot be locked.
    Lock {
        /// The device.
        device: String,
        /// The system's words.
        error: io::Error,
    },
    /// The device's network namespace cannot be entered.
    Namespace(NamespaceError),
    /// `tc` is not installed, or cannot be run.
    NoTc(io::Error),
    /// `tc` does not do what it is to do.
    Refused {
        /// The device.
        device: String,
        /// In its words.
        said: String,
    },
    /// The output of `tc` is not JSON.
    NoJson {
        /// The device.
        device: String,
        /// Why.
        error: serde_json::Error,
    },
    /// The output of `tc` has no queue of a known kind.
    Unknown {
        /// The device.
        device: String,
    },
    /// The process that changes the queue and puts it back does not start.
    Helper {
        /// The device.
        device: String,
        /// What of it.
        said: String,
    },
    /// The same, while a run acted.
    Lost(String),
    /// Flows cannot be steered.
    Steer(TapError),
    /// Events cannot be written.
    Events(io::Error),
}

impl fmt::Display for ActError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unnamed => f.write_str(
                "nothing identifies congestion controls; wanted a model, or a file \
                             that names them",
            ),
            Self::Names(said) => f.write_str(said),
            Self::RateOfTbf { device, rate_bit } => {
                write!(f, "{device} has a tbf of {rate_bit}bit, which stays; leave the rate out")
            }
            Self::RateUnknown { device, kind: Some(kind) } => write!(
                f,
                "{device}: its queueing discipline does not show the rate of the link ({kind}); \
                 give a rate slightly below that of the link, or the queue forms elsewhere"
            ),
            Self::RateUnknown { device, kind: None } => write!(f, "{device}: give its rate"),
            Self::Operators { device, kind, handle } => write!(
                f,
                "{device}: it has a queueing discipline already, {kind} {handle}, which cannot be \
                 restored afterwards; wanted: the kernel's default, or a tbf with a plain queue of \
                 the tbf's limit. If you do not need it, remove it: tc qdisc del dev {device} root"
            ),
            Self::OtherDefault { device, kind, default } => write!(
                f,
                "{device}: its queueing discipline {kind} was the kernel's default, which is \
                 {default} now, so {kind} would not be restored afterwards. Set the one or the \
                 other: sysctl net.core.default_qdisc={kind}, or tc qdisc replace dev {device} \
                 root {default} && tc qdisc del dev {device} root"
            ),
            Self::NoQueueLen { device } => write!(
                f,
                "{device}: its transmit queue length is 0, which the kernel raises to 1000 with \
                 the first queueing discipline and does not restore; if that does no harm, set it \
                 first: ip link set dev {device} txqueuelen 1000"
            ),
            Self::Busy { device } => {
                write!(f, "{device}: another wirelens acts on this device; end it first")
            }
            Self::Lock { device, error } => write!(f, "{device}: cannot be locked: {error}"),
            Self::Namespace(error) => error.fmt(f),
            Self::NoTc(error) if error.kind() == io::ErrorKind::NotFound => f.write_str(
                "tc: not found, and queues are changed by it; try: apt-get install iproute2",
            ),
            Self::NoTc(error) => write!(f, "tc: {error}"),
            Self::Refused { device, said } => write!(
                f,
                "{device}: tc refuses: {said}; wanted: root (CAP_NET_ADMIN), and a kernel with \
                 htb (CONFIG_NET_SCH_HTB)"
            ),
            Self::NoJson { device, error } => {
                write!(f, "{device}: iproute2 printed invalid JSON about its queue: {error}")
            }
            Self::Unknown { device } => write!(
                f,
                "{device}: tc printed no queue that is supported; wanted: iproute2 5.0 or newer"
            ),
            Self::Helper { device, said } => write!(f, "{device}: {said}"),
            Self::Lost(said) => f.write_str(said),
            Self::Steer(error) => error.fmt(f),
            Self::Events(error) => write!(f, "events: {error}"),
        }
    }
}

impl std::error::Error for ActError {}

impl From<NamespaceError> for ActError {
    fn from(error: NamespaceError) -> Self {
        Self::Namespace(error)
    }
}

impl From<TapError> for ActError {
    fn from(error: TapError) -> Self {
        Self::Steer(error)
    }
}
