//! An interface that is opened where that is permitted, and read in another process, which is not.

use std::os::fd::OwnedFd;

use packet::LinkType;

use super::error::LiveError;
use super::frame::Origin;
use super::options::LiveOptions;
use super::program::REFUSE_ALL;
use super::source::{LiveSource, interface_dropped};
use super::{Target, frames_of, listed_for, ring, source_of};
use crate::error::OpenError;
use crate::reading::ReadOptions;
use crate::sys::libpcap::Instruction;
use crate::sys::packet_socket::PacketSocket;

/// A socket with a ring, bound to an interface. It refuses every frame, so that none is earlier
/// than what its reader has handed out by the time it [lets them in](LiveSource::let_in).
#[derive(Debug)]
pub struct DetachedSocket {
    /// The packet socket.
    pub socket: OwnedFd,
    /// What frames begin with; on `any` each record gives it.
    pub link: Option<LinkType>,
    /// Whether the interface is up.
    pub is_up: bool,
    /// What it is to let in.
    pub program: Vec<Instruction>,
}

impl DetachedSocket {
    /// Opens a socket on one interface, or on all of them.
    ///
    /// # Errors
    /// As [`open`](super::open).
    pub fn open(
        interface: &str,
        options: &LiveOptions,
        read: &ReadOptions,
    ) -> Result<Self, OpenError> {
        let devices = listed_for(interface)?;
        let target = Target::find(interface, &devices)?;
        let program = target.program(options.passing, read, &devices)?;
        let socket =
            target.ready_socket(&ring::shape(options, read.snaplen), REFUSE_ALL, options)?;
        // What the kernel does not take is known here, and not when frames are to be let in.
        let other = PacketSocket::open();
        let other = other.map_err(|error| target.failed("open a packet socket", error))?;
        target.attach(&other, &program)?;
        let link = match target.origin {
            Origin::One(link) => Some(link),
            Origin::Any(_) => None,
        };
        Ok(Self { socket: socket.into(), link, is_up: target.is_up, program })
    }

    /// The source of its frames, to be read in this process. It takes no right. The options have
    /// to be those that it was opened with.
    ///
    /// # Errors
    /// The ring cannot be mapped.
    pub fn into_source(
        self,
        interface: &str,
        options: &LiveOptions,
        read: &ReadOptions,
    ) -> Result<LiveSource, LiveError> {
        let Self { socket, link, is_up, program } = self;
        let origin = link.map_or_else(|| Origin::Any(Default::default()), Origin::One);
        let socket = PacketSocket::from(socket);
        let frames = frames_of(interface, &socket, &ring::shape(options, read.snaplen))?;
        let source = source_of(interface, (socket, frames), (origin, is_up), options, read);
        let interface_dropped_before = interface_dropped(interface);
        Ok(LiveSource { program: Some(program), interface_dropped_before, ..source })
    }
}
