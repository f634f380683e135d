//! Sockets of the file system.

use std::io;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};

use crate::FileMode;

/// Connections that wait to be answered.
const BACKLOG: i32 = 128;

/// Listens at a path where nothing is. Its permissions are those of the socket before it has a
/// name, so that at no moment others can connect, whatever the umask is.
///
/// # Errors
/// What the system says; something has the name already.
pub fn listen(path: &Path, mode: FileMode) -> io::Result<UnixListener> {
    let address = SocketAddrUnix::new(path)?;
    let kind = (AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC);
    let socket = socket_with(kind.0, kind.1, kind.2, None)?;
    fchmod(&socket, Mode::from_raw_mode(mode.file()))?;
    bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_socket_is_private_from_its_first_moment_and_replaces_nothing() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("control.sock");
        let listener = listen(&path, FileMode::OWNER).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let _client = UnixStream::connect(&path).unwrap();
        listener.accept().unwrap();
        assert_eq!(listen(&path, FileMode::OWNER).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        symlink("none", home.path().join("link")).unwrap();
        assert!(listen(&home.path().join("link"), FileMode::OWNER).is_err());
        assert!(!home.path().join("none").exists());
    }
}
