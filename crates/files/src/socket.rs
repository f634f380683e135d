//! Sockets of the file system.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use rustix::fs::{Mode, OFlags, fchmod};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect as connect_to,
    socket_with,
};

use crate::FileMode;
use crate::folder::folder_of;
use crate::open::bits;

/// Connections that wait to be answered.
const BACKLOG: i32 = 128;

/// A path as sockets take it.
struct Address {
    address: SocketAddrUnix,
    /// The folder, where the address goes by its descriptor.
    _folder: Option<File>,
}

impl Address {
    /// A socket's address has 108 bytes (unix(7)). A longer path goes by its folder's descriptor.
    fn of(path: &Path) -> io::Result<Self> {
        match SocketAddrUnix::new(path) {
            Ok(address) => Ok(Self { address, _folder: None }),
            Err(Errno::NAMETOOLONG) => {
                let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
                let mut options = OpenOptions::new();
                options.read(true).custom_flags(bits(OFlags::PATH | OFlags::DIRECTORY));
                let folder = options.open(folder_of(path))?;
                let short = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string());
                let address = SocketAddrUnix::new(short.join(name))?;
                Ok(Self { address, _folder: Some(folder) })
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn stream() -> io::Result<std::os::fd::OwnedFd> {
    let kind = (AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC);
    Ok(socket_with(kind.0, kind.1, kind.2, None)?)
}

/// Connects to the socket at a path, which may be as long as that of any file.
///
/// # Errors
/// What the system says.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    let socket = stream()?;
    connect_to(&socket, &Address::of(path)?.address)?;
    Ok(UnixStream::from(socket))
}

/// Listens at a path where nothing is. Its permissions are those of the socket before it has a
/// name, so that at no moment others can connect, whatever the umask is.
///
/// # Errors
/// What the system says; something has the name already.
pub fn listen(path: &Path, mode: FileMode) -> io::Result<UnixListener> {
    let socket = stream()?;
    fchmod(&socket, Mode::from_raw_mode(mode.file()))?;
    bind(&socket, &Address::of(path)?.address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_path_may_be_longer_than_an_address() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("x".repeat(100)).join("y".repeat(100));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("control.sock");
        assert_eq!(connect(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        let listener = listen(&path, FileMode::OWNER).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let _client = connect(&path).unwrap();
        listener.accept().unwrap();
        assert_eq!(listen(&path, FileMode::OWNER).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn a_socket_is_private_from_its_first_moment_and_replaces_nothing() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("control.sock");
        let listener = listen(&path, FileMode::OWNER).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let _client = connect(&path).unwrap();
        listener.accept().unwrap();
        assert_eq!(listen(&path, FileMode::OWNER).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        symlink("none", home.path().join("link")).unwrap();
        assert!(listen(&home.path().join("link"), FileMode::OWNER).is_err());
        assert!(!home.path().join("none").exists());
    }
}
