//! The manager's end: a datagram socket with a path or an abstract name.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Where messages go. Each finds the manager by its address, so that one that was started again in
/// between gets it too.
#[derive(Debug)]
pub(crate) struct Socket {
    own: UnixDatagram,
    to: SocketAddr,
    name: String,
}

impl Socket {
    /// # Errors
    /// What is wrong with the name, and what was wanted.
    pub(crate) fn open(name: &OsStr) -> Result<Self, String> {
        let shown = name.to_string_lossy().into_owned();
        let wanted = "wanted: an absolute path, or an abstract name behind @, as systemd gives it";
        let wrong = |cause: &dyn std::fmt::Display| {
            format!("NOTIFY_SOCKET: {shown}: {cause}; {wanted}; the run goes on without it")
        };
        let bytes = name.as_bytes();
        let to = match bytes.first() {
            Some(b'@') => SocketAddr::from_abstract_name(&bytes[1..]),
            Some(b'/') => SocketAddr::from_pathname(name),
            _ => return Err(wrong(&"no Unix socket")),
        };
        let to = to.map_err(|error| wrong(&error))?;
        let own = UnixDatagram::unbound().map_err(|error| wrong(&error))?;
        own.set_nonblocking(true).map_err(|error| wrong(&error))?;
        Ok(Self { own, to, name: shown })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// # Errors
    /// `WouldBlock` where the manager has no room now, and the system's.
    pub(crate) fn send(&self, message: &str) -> io::Result<()> {
        self.own.send_to_addr(message.as_bytes(), &self.to).map(drop)
    }
}
