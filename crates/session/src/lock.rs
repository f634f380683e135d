//! A device that no other run changes.

use std::io;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::thread;
use std::time::Duration;

/// The helper of a run that was killed a moment ago has its work done by then.
const LOCK_TRIES: u32 = 40;
const LOCK_TRY_EVERY: Duration = Duration::from_millis(50);

/// A device on which no other run acts, in the network namespace of the calling thread. The name is
/// known there alone, and goes with whoever holds it.
pub(crate) struct Lock(UnixListener);

impl Lock {
    /// Takes it; waits for the helper of a run that was killed.
    ///
    /// # Errors
    /// `AddrInUse`: another process holds it; the system's.
    pub(crate) fn take(name: &str) -> io::Result<Self> {
        let address = SocketAddr::from_abstract_name(name)?;
        let mut tries = 1;
        loop {
            match UnixListener::bind_addr(&address) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries < LOCK_TRIES => {
                    tries += 1;
                    thread::sleep(LOCK_TRY_EVERY);
                }
                bound => return bound.map(Self),
            }
        }
    }

    /// Its handle for another process, which then holds it as well.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn shared(&self) -> io::Result<OwnedFd> {
        Ok(self.0.try_clone()?.into())
    }
}
