//! Where messages go: a file (RFC 5655), or a collector over UDP or TCP.

use std::io::Write as _;
use std::net::{TcpStream, ToSocketAddrs as _, UdpSocket};
use std::path::Path;
use std::time::Duration;

use sink::{Existing, OutputFile};

use crate::outlet::RowsError;

/// A collector that takes nothing for this long has gone.
const PATIENCE: Duration = Duration::from_secs(30);

/// What may be sent to a collector.
const SCHEMES: [&str; 2] = ["udp://", "tcp://"];

/// Whether a path names a collector.
#[must_use]
pub fn is_collector(path: &Path) -> bool {
    let text = path.to_string_lossy();
    SCHEMES.iter().any(|scheme| text.starts_with(scheme))
}

/// Where messages go.
pub(super) enum To {
    /// One after the other.
    File(Option<OutputFile>),
    /// A datagram each.
    Udp { socket: UdpSocket, refused: u64 },
    /// One after the other.
    Tcp(TcpStream),
}

impl To {
    /// Opens a file or connects.
    pub(super) fn open(path: &Path, force: bool) -> Result<Self, RowsError> {
        let text = path.to_string_lossy();
        if let Some(address) = text.strip_prefix("udp://") {
            return udp(address).map_err(|error| unreachable(&text, &error));
        }
        if let Some(address) = text.strip_prefix("tcp://") {
            return tcp(address).map_err(|error| unreachable(&text, &error));
        }
        let existing = if force { Existing::Replace } else { Existing::Refuse };
        Ok(Self::File(Some(OutputFile::create(path, existing)?)))
    }

    /// Bytes that a message may have: those of a datagram that is not cut on its way (RFC 7011,
    /// section 10.3.3), else those that its length can tell.
    pub(super) const fn message_len_max(&self) -> usize {
        match self {
            Self::Udp { .. } => 1400,
            Self::File(_) | Self::Tcp(_) => 32 << 10,
        }
    }

    /// Whether messages may be lost, so that templates have to be re-sent.
    pub(super) const fn is_lossy(&self) -> bool {
        matches!(self, Self::Udp { .. })
    }

    pub(super) fn send(&mut self, message: &[u8]) -> Result<(), RowsError> {
        match self {
            Self::File(None) => Ok(()),
            Self::File(Some(file)) => Ok(file.write_all(message)?),
            Self::Tcp(stream) => {
                let sent = stream.write_all(message);
                sent.map_err(|error| {
                    RowsError::Door(format!("the collector takes no more: {error}"))
                })
            }
            Self::Udp { socket, refused } => {
                // The answer to an earlier datagram, that nothing listens, would be taken for one
                // to this: it would not be sent.
                *refused += answered(socket);
                // One for which the system has no room is lost.
                *refused += u64::from(socket.send(message).is_err());
                Ok(())
            }
        }
    }

    /// Bytes in the file.
    pub(super) fn size_bytes(&self) -> u64 {
        match self {
            Self::File(Some(file)) => file.written_bytes(),
            _ => 0,
        }
    }

    /// Begins another file; whether there is one.
    pub(super) fn reopen(&mut self) -> Result<bool, RowsError> {
        match self {
            Self::File(open) => {
                if let Some(file) = open.take() {
                    *open = Some(file.reopen()?.0);
                }
                Ok(true)
            }
            Self::Udp { .. } | Self::Tcp(_) => Ok(false),
        }
    }

    /// Gives a file its name. Datagrams that were refused.
    pub(super) fn finish(self) -> Result<u64, RowsError> {
        match self {
            Self::File(Some(file)) => file.finish().map(|_| 0).map_err(RowsError::from),
            Self::File(None) => Ok(0),
            Self::Udp { socket, refused } => Ok(refused + answered(&socket)),
            Self::Tcp(mut stream) => {
                stream.flush()?;
                Ok(0)
            }
        }
    }
}

/// Datagrams before that were answered by a refusal: one, as far as the system says.
fn answered(socket: &UdpSocket) -> u64 {
    u64::from(matches!(socket.take_error(), Ok(Some(_))))
}

fn unreachable(collector: &str, error: &std::io::Error) -> RowsError {
    let wanted = "wanted: HOST:PORT of a collector, such as udp://127.0.0.1:4739";
    RowsError::Door(format!("{collector}: {error}; {wanted}"))
}

fn udp(address: &str) -> std::io::Result<To> {
    let mut last = no_address();
    for to in address.to_socket_addrs()? {
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        match UdpSocket::bind(any).and_then(|socket| socket.connect(to).map(|()| socket)) {
            Ok(socket) => return Ok(To::Udp { socket, refused: 0 }),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn tcp(address: &str) -> std::io::Result<To> {
    let mut last = no_address();
    for to in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&to, PATIENCE) {
            Ok(stream) => {
                stream.set_write_timeout(Some(PATIENCE))?;
                return Ok(To::Tcp(stream));
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn no_address() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::NotFound, "no such host")
}
