//! Why an interface cannot be listened on.

use std::fmt;
use std::io;

/// Why an interface cannot be listened on: what was seen, what was wanted, what to try.
#[derive(Debug)]
pub enum LiveError {
    /// There is no interface of this name.
    NotFound {
        /// The name.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// The kernel does not let us.
    NotPermitted {
        /// The interface.
        name: String,
    },
    /// No one knows what its frames begin with.
    LinkUnknown {
        /// The interface.
        name: String,
        /// `ARPHRD_*`.
        hardware_type: u16,
    },
    /// There is no memory for the ring, or the kernel does not take its shape.
    RingRefused {
        /// The interface.
        name: String,
        /// Bytes asked for, for one socket.
        size_bytes: usize,
        /// The system's words.
        error: io::Error,
    },
    /// The kernel does not take the filter.
    FilterRefused {
        /// The interface.
        name: String,
        /// Instructions in the filter.
        instruction_count: usize,
        /// The system's words.
        error: io::Error,
    },
    /// A program hands frames of one interface over, and this is the name of all.
    NotOne {
        /// The name.
        name: String,
    },
    /// A program hands frames over to sockets of the ports that received them, and this interface
    /// is made of such.
    Bond {
        /// The name.
        name: String,
        /// Its ports, as far as they are known.
        ports: Vec<String>,
    },
    /// A program hands frames of one receive queue over, and there are more.
    Queues {
        /// The interface.
        name: String,
        /// How many there are.
        count: u32,
    },
    /// The kernel makes no `AF_XDP` socket.
    XdpRefused {
        /// The interface.
        name: String,
        /// Bytes asked for.
        size_bytes: usize,
        /// The system's words.
        error: io::Error,
    },
    /// Another step failed.
    Failed {
        /// The interface.
        name: String,
        /// The step, as "cannot ...".
        step: &'static str,
        /// The system's words.
        error: io::Error,
    },
}

impl fmt::Display for LiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { name, known } => {
                write!(f, "{name}: no such interface; there are {}", known.join(", "))?;
                match nearest(name, known) {
                    Some(nearest) => write!(f, "; did you mean {nearest}?"),
                    None => f.write_str("; any listens on all of them"),
                }
            }
            Self::NotPermitted { name } => write!(
                f,
                "{name}: not permitted to listen; wanted the capability CAP_NET_RAW; \
                 try `sudo setcap cap_net_raw=eip $(which wirelens)`, or run as root"
            ),
            Self::LinkUnknown { name, hardware_type } => write!(
                f,
                "{name}: frames of hardware type {hardware_type} are not supported; wanted \
                 Ethernet, loopback, PPP or a tunnel of IP packets; try the interface that it runs \
                 over"
            ),
            Self::RingRefused { name, error, .. } if error.kind() == io::ErrorKind::Unsupported => {
                write!(
                    f,
                    "{name}: this kernel has no packet rings (TPACKET_V3): {error}; wanted Linux \
                     3.2 or newer"
                )
            }
            Self::RingRefused { name, size_bytes, error } => write!(
                f,
                "{name}: no ring of {size_bytes} bytes: {error}; \
                 the memory must be free and cannot be swapped; try a smaller one with -B"
            ),
            Self::FilterRefused { name, instruction_count, error } => write!(
                f,
                "{name}: the kernel refuses the filter of {instruction_count} instructions: \
                 {error}; try a shorter expression, or raise net.core.optmem_max"
            ),
            Self::NotOne { name } => write!(
                f,
                "{name}: an AF_XDP socket receives from one interface; wanted one interface by its \
                 name, -i NAME"
            ),
            Self::Bond { name, ports } => {
                let known = if ports.is_empty() { "" } else { ": " };
                write!(
                    f,
                    "{name}: a bond, whose frames are received by its ports, and an AF_XDP socket \
                     receives those of its own interface alone; try a command for each of its \
                     ports{known}{}",
                    ports.join(", ")
                )
            }
            Self::Queues { name, count } => write!(
                f,
                "{name}: {count} receive queues, and an AF_XDP socket receives from one; \
                 try `ethtool -L {name} combined 1`, or --offload xdp"
            ),
            Self::XdpRefused { name, size_bytes, error } => {
                write!(f, "{name}: no AF_XDP socket with {size_bytes} bytes: {error}; ")?;
                f.write_str(wanted_for_xdp(error))
            }
            Self::Failed { name, step, error } => write!(f, "{name}: cannot {step}: {error}"),
        }
    }
}

impl std::error::Error for LiveError {}

/// What an `AF_XDP` socket takes that was refused with this error.
fn wanted_for_xdp(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EAFNOSUPPORT) => {
            "wanted a kernel with CONFIG_XDP_SOCKETS, and a sandbox that allows the socket \
             (RestrictAddressFamilies=AF_XDP in systemd); try --offload xdp"
        }
        Some(libc::ENOBUFS | libc::EPERM) => {
            "it locks its memory; wanted CAP_IPC_LOCK, or a higher limit of locked memory \
             (`ulimit -l`, LimitMEMLOCK in systemd); try less with -B, or --offload xdp"
        }
        _ => {
            "wanted Linux 6.6, an interface without another such socket, and memory that is free \
             and not swapped; try a smaller one with -B, or --offload xdp"
        }
    }
}

/// The name that takes the fewest changes, if it takes few.
fn nearest<'a>(name: &str, known: &'a [String]) -> Option<&'a String> {
    let (changes, nearest) =
        known.iter().map(|known| (changes_between(name, known), known)).min()?;
    (changes <= name.len() / 2).then_some(nearest)
}

/// Bytes to insert, delete or replace to make one name of the other (Levenshtein).
fn changes_between(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (done, byte) in one.bytes().enumerate() {
        let mut diagonal = done;
        let mut left = done + 1;
        for (cell, wanted) in row.iter_mut().skip(1).zip(other.bytes()) {
            let replaced = diagonal + usize::from(byte != wanted);
            diagonal = *cell;
            left = replaced.min(left + 1).min(*cell + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = done + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_counted() {
        let cases = [("eth0", "eth0", 0), ("eht0", "eth0", 2), ("", "lo", 2), ("enp1", "en1", 1)];
        for (one, other, changes) in cases {
            assert_eq!(changes_between(one, other), changes, "{one} {other}");
            assert_eq!(changes_between(other, one), changes, "{other} {one}");
        }
    }

    #[test]
    fn a_wrong_name_is_answered_with_those_that_exist_and_the_nearest() {
        let known = ["lo", "eth0", "wlan0"].map(str::to_owned).to_vec();
        let text = |name: &str| {
            LiveError::NotFound { name: name.to_owned(), known: known.clone() }.to_string()
        };
        let wanted = "eth1: no such interface; there are lo, eth0, wlan0; did you mean eth0?";
        assert_eq!(text("eth1"), wanted);
        assert!(text("bridge7").ends_with("; any listens on all of them"));
    }

    #[test]
    fn a_bond_is_refused_with_the_ports_to_try() {
        let text = |ports: &[&str]| {
            let ports = ports.iter().map(ToString::to_string).collect();
            LiveError::Bond { name: "bond0".to_owned(), ports }.to_string()
        };
        assert!(text(&["eth1", "eth2"]).ends_with("each of its ports: eth1, eth2"));
        assert!(text(&[]).starts_with("bond0: a bond") && text(&[]).ends_with("of its ports"));
    }

    #[test]
    fn what_an_xdp_socket_lacks_is_named_by_the_error() {
        let text = |number| {
            let (name, error) = ("eth0".to_owned(), io::Error::from_raw_os_error(number));
            LiveError::XdpRefused { name, size_bytes: 64, error }.to_string()
        };
        assert!(text(libc::EAFNOSUPPORT).contains("RestrictAddressFamilies=AF_XDP"));
        for locked in [libc::ENOBUFS, libc::EPERM] {
            assert!(text(locked).contains("CAP_IPC_LOCK") && text(locked).contains("-B"));
        }
        assert!(text(libc::EBUSY).contains("an interface without another such socket"));
    }

    #[test]
    fn a_missing_permission_names_the_capability_and_how_to_give_it() {
        let text = LiveError::NotPermitted { name: "eth0".to_owned() }.to_string();
        assert!(text.contains("CAP_NET_RAW") && text.contains("setcap") && text.contains("root"));
    }
}
