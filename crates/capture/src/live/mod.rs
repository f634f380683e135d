//! Interfaces to batches: packet sockets with rings that the kernel fills and we read.
//!
//! Nothing is copied: a batch borrows the part of the ring in which its frames lie, and that
//! goes back to the kernel when the next batch is asked for. Filter and snaplen act in the
//! kernel, so that the ring holds only what is wanted. Frames that were tagged, segmented or
//! shown twice by the kernel are handed out as they were on the wire, as far as can be determined;
//! `vlan`, `segments` and `program` tell how.
//!
//! What is asked of the inside of a frame, such as `udp port 53`, is asked past a VLAN tag that
//! the kernel took out: tagged frames pass here that would not in a file, as with tcpdump. Ask
//! for `not vlan` as well where they are not wanted.
//!
//! A frame that the kernel cannot describe together with its segmentation (SCTP put together
//! by offloads) is refused by it and counted among the dropped.
//!
//! It needs Linux 4.10 (the numbering of fanout groups); all other parts are older.

mod detached;
mod error;
mod frame;
mod frames;
#[cfg(feature = "fuzzed")]
pub mod fuzzed;
mod hand_over;
mod link;
mod options;
mod program;
mod ring;
mod ring_v2;
mod ring_v3;
mod segments;
mod several;
mod source;
mod stall;
mod vlan;
mod xdp;

use std::io;

use packet::{BATCH_LEN_MAX, LinkType, Record};

use crate::devices::{self, Device};
use crate::error::OpenError;
use crate::reading::ReadOptions;
use crate::report::Report;
use crate::sys::interfaces::{self, InterfaceAddress};
use crate::sys::libpcap::Instruction;
use crate::sys::packet_ring::PacketRing;
use crate::sys::packet_socket::{PacketSocket, RingShape};
use crate::sys::xdp_socket::XdpSocket;

pub use detached::DetachedSocket;
pub use error::LiveError;
pub use hand_over::{CutFrames, HandOver};
pub use link::link_type_of;
pub use options::{BLOCK_COUNT_MIN, Latency, LiveOptions, Passing, STALL_AFTER, STALL_MAX};
pub use several::{LiveSeveral, ReleasedInterfaces};
pub use source::LiveSource;

use frame::Origin;
use frames::{Frames, Nap};
use ring::Reader;
use source::{Phase, Scheduling, interface_dropped};
use stall::Stall;
use xdp::XdpReader;

/// The name that stands for all interfaces.
pub const ANY: &str = "any";

/// Room before each frame: four bytes for a VLAN tag, and two so that network headers lie at
/// multiples of 16, with the 10 bytes of the segmentation header between.
const RESERVE_LEN: u32 = 6;

/// Opens sockets on one interface, or on all of them with [`ANY`]: each a source of its own,
/// for a thread of its own. Frames are received from now on.
///
/// An interface that is down is no error: see [`LiveSource::is_up_at_start`].
///
/// On `any`, interfaces whose link type is not known are left out, and so are frames without
/// link header where a filter asks for what only Ethernet has. Each record gives its link type.
///
/// # Errors
/// There is no such interface, its link type is not known, listening is not permitted, there
/// is no memory for the ring, or libpcap or the kernel refuses the filter.
pub fn open(
    interface: &str,
    options: &LiveOptions,
    read: &ReadOptions,
) -> Result<Vec<LiveSource>, OpenError> {
    let devices = listed_for(interface)?;
    let target = Target::find(interface, &devices)?;
    let program = target.program(options.passing, read, &devices)?;
    let shape = ring::shape(options, read.snaplen);
    let opened = target.open_all(&shape, &program, options)?;
    let mut interface_dropped_before = interface_dropped(interface);
    let sources = opened.into_iter().map(|opened| {
        let origin = target.origin.clone();
        let mut source = source_of(interface, opened, (origin, target.is_up), options, read);
        source.interface_dropped_before = interface_dropped_before.take();
        source
    });
    Ok(sources.collect())
}

/// The devices of the machine, of which one is to be listened on.
fn listed_for(interface: &str) -> Result<Vec<Device>, LiveError> {
    devices::list().map_err(|error| LiveError::Failed {
        name: interface.to_owned(),
        step: "list the interfaces",
        error,
    })
}

/// A source of what is open.
fn source_of(
    name: &str,
    (socket, frames): (PacketSocket, Frames),
    (origin, is_up_at_start): (Origin, bool),
    options: &LiveOptions,
    read: &ReadOptions,
) -> LiveSource {
    LiveSource {
        name: name.to_owned(),
        socket,
        frames,
        origin,
        options: read.clone(),
        scheduling: match options.latency {
            Latency::Throughput => Scheduling::Usual,
            Latency::Low => Scheduling::Wanted,
        },
        tick_ms: options.tick_ms(),
        cut_secret: options.cut.as_ref().map(|cut| cut.secret),
        block_timeout_ms: ring::shape(options, read.snaplen).block_timeout_ms,
        stall: options.stall_until_dropped.map(Stall::new),
        is_up_at_start,
        interface_dropped_before: None,
        program: None,
        records: vec![Record::default(); BATCH_LEN_MAX].into(),
        phase: Phase::Reading,
        handed_out: 0,
        batches_since_refresh: 0,
        refreshes_since_interface: 0,
        report: Report::default(),
    }
}

/// What is listened on.
struct Target<'a> {
    name: &'a str,
    /// 0 for all interfaces.
    index: i32,
    origin: Origin,
    is_up: bool,
}

impl<'a> Target<'a> {
    fn find(name: &'a str, devices: &[Device]) -> Result<Self, LiveError> {
        if name == ANY {
            return Ok(Self {
                name,
                index: 0,
                origin: Origin::Any(Default::default()),
                is_up: true,
            });
        }
        let Some(device) = devices.iter().find(|device| device.name == name) else {
            let known = devices.iter().map(|device| device.name.clone()).collect();
            return Err(LiveError::NotFound { name: name.to_owned(), known });
        };
        let Device { index, hardware_type, link, is_up, .. } = *device;
        let unknown = || LiveError::LinkUnknown { name: name.to_owned(), hardware_type };
        Ok(Self { name, index, origin: Origin::One(link.ok_or_else(unknown)?), is_up })
    }

    /// The program for the kernel.
    fn program(
        &self,
        passing: Passing,
        read: &ReadOptions,
        devices: &[Device],
    ) -> Result<Vec<Instruction>, OpenError> {
        let part = |link| -> Result<Vec<Instruction>, OpenError> {
            match &read.filter {
                Some(filter) => {
                    let interfaces = self.ethernet_interfaces(devices);
                    Ok(program::limit(filter.compile_live(link, &interfaces)?, read.snaplen))
                }
                None => Ok(program::accept_all(read.snaplen)),
            }
        };
        let whole = match self.origin {
            Origin::One(link) => part(link)?,
            Origin::Any(_) => {
                let mut parts = vec![(LinkType::ETHERNET, part(LinkType::ETHERNET)?)];
                // What can be asked of Ethernet alone, such as `vlan 5`, no other frame is.
                if let Ok(raw) = part(LinkType::RAW) {
                    parts.push((LinkType::RAW, raw));
                }
                program::by_link(&parts)
            }
        };
        let may_be_loopback = matches!(self.origin, Origin::Any(_))
            || devices.iter().any(|device| device.index == self.index && device.is_loopback);
        Ok(match passing {
            Passing::Both if may_be_loopback => program::once_on_loopback(whole),
            passing => program::passing(passing, whole),
        })
    }

    /// Ethernet interfaces on which libpcap can be asked to compile: the one that is listened
    /// on first, then others, since it takes none that is down.
    fn ethernet_interfaces<'b>(&self, devices: &'b [Device]) -> Vec<&'b str> {
        let mut found: Vec<_> = devices
            .iter()
            .filter(|device| device.link == Some(LinkType::ETHERNET) && device.is_up)
            .collect();
        found.sort_by_key(|device| device.index != self.index);
        found.into_iter().map(|device| device.name.as_str()).collect()
    }

    /// The sockets that are asked for.
    fn open_all(
        &self,
        shape: &RingShape,
        program: &[Instruction],
        options: &LiveOptions,
    ) -> Result<Vec<(PacketSocket, Frames)>, LiveError> {
        if let Some(hand_over) = options.cut.as_ref().and_then(|cut| cut.hand_over.as_ref()) {
            return Ok(vec![self.open_handed_over(hand_over, options)?]);
        }
        // Alone, a socket receives everything that passes the program, in a group nothing yet:
        // until all have joined, each would be given what belongs to the others.
        let is_alone = options.socket_count <= 1;
        let first = if is_alone { program } else { program::REFUSE_ALL };
        let open_one = |_| -> Result<_, LiveError> {
            let socket = self.ready_socket(shape, first, options)?;
            let frames = frames_of(self.name, &socket, shape)?;
            Ok((socket, frames))
        };
        let opened: Vec<_> =
            (0..options.socket_count.max(1)).map(open_one).collect::<Result<_, LiveError>>()?;
        if !is_alone {
            join(&opened).map_err(|error| self.failed("share it among several sockets", error))?;
            for (socket, _) in &opened {
                self.attach(socket, program)?;
            }
        }
        Ok(opened)
    }

    /// A socket that receives what passes the program, into a ring that is not mapped yet.
    fn ready_socket(
        &self,
        shape: &RingShape,
        program: &[Instruction],
        options: &LiveOptions,
    ) -> Result<PacketSocket, LiveError> {
        let failed = |step| move |error| self.failed(step, error);
        let socket = PacketSocket::open().map_err(failed("open a packet socket"))?;
        self.attach(&socket, program)?;
        socket.set_headroom(RESERVE_LEN).map_err(failed("read its offloads"))?;
        socket.set_ring(shape).map_err(|error| ring_refused(self.name, shape, error))?;
        self.bind(&socket, options)?;
        Ok(socket)
    }

    /// A socket to which a program in the kernel hands frames over, and one that receives nothing
    /// and detects what becomes of the interface.
    fn open_handed_over(
        &self,
        hand_over: &HandOver,
        options: &LiveOptions,
    ) -> Result<(PacketSocket, Frames), LiveError> {
        let failed = |step| move |error| self.failed(step, error);
        let index = u32::try_from(self.index).unwrap_or(0);
        self.check_handed_over(index)?;
        let socket = PacketSocket::open().map_err(failed("open a packet socket"))?;
        self.attach(&socket, program::REFUSE_ALL)?;
        let (name, size_bytes) = (self.name.to_owned(), options.ring_size_bytes);
        // The packet socket took CAP_NET_RAW: what is not permitted now is so for another reason.
        let frames = XdpSocket::open(index, size_bytes).map_err(|error| LiveError::XdpRefused {
            name,
            size_bytes,
            error,
        })?;
        let shared = frames.fd().try_clone_to_owned();
        hand_over.put(shared.map_err(failed("share its AF_XDP socket"))?);
        self.bind(&socket, options)?;
        let naps = options.latency == Latency::Throughput;
        let driver = interfaces::driver(self.name).ok();
        let reader = XdpReader::new(frames, hand_over.clone(), driver.as_deref(), naps);
        Ok((socket, Frames::Xdp(Box::new(reader))))
    }

    /// Refuses interfaces of which an `AF_XDP` socket would receive nothing, or a part.
    fn check_handed_over(&self, index: u32) -> Result<(), LiveError> {
        let name = || self.name.to_owned();
        if index == 0 {
            return Err(LiveError::NotOne { name: name() });
        }
        // To the kernel a frame is of the port that received it, also in a program of the bond: a
        // socket of the bond is refused it, and no counter says so.
        let listed = interfaces::interface_addresses();
        let listed = listed.map_err(|error| self.failed("list the interfaces", error))?;
        let is_bond = |one: &InterfaceAddress| one.flags & libc::IFF_MASTER.cast_unsigned() != 0;
        if listed.iter().any(|one| one.name == self.name && is_bond(one)) {
            let ports = interfaces::ports(self.name, index);
            return Err(LiveError::Bond { name: name(), ports });
        }
        let queues = match interfaces::channels(self.name) {
            Ok(channels) => channels.rx + channels.combined,
            // Of a driver that does not say how many there are the kernel knows it.
            Err(_) => interfaces::receive_queue_count(self.name, index).unwrap_or(1),
        };
        if queues > 1 {
            return Err(LiveError::Queues { name: name(), count: queues });
        }
        Ok(())
    }

    fn bind(&self, socket: &PacketSocket, options: &LiveOptions) -> Result<(), LiveError> {
        let failed = |step| move |error| self.failed(step, error);
        if options.is_promiscuous && self.index != 0 {
            socket.set_promiscuous(self.index).map_err(failed("enter promiscuous mode"))?;
        }
        socket.bind(self.index).map_err(failed("be bound to"))?;
        // Of an interface that is down: known, and not one that went down.
        let _ = socket.take_error();
        Ok(())
    }

    fn attach(&self, socket: &PacketSocket, program: &[Instruction]) -> Result<(), LiveError> {
        socket.attach_filter(program).map_err(|error| LiveError::FilterRefused {
            name: self.name.to_owned(),
            instruction_count: program.len(),
            error,
        })
    }

    fn failed(&self, step: &'static str, error: io::Error) -> LiveError {
        let name = self.name.to_owned();
        match error.kind() {
            io::ErrorKind::PermissionDenied => LiveError::NotPermitted { name },
            _ => LiveError::Failed { name, step, error },
        }
    }
}

/// Makes one group of all sockets.
fn join(opened: &[(PacketSocket, Frames)]) -> io::Result<()> {
    let Some(((first, _), others)) = opened.split_first() else { return Ok(()) };
    let group = first.make_fanout()?;
    others.iter().try_for_each(|(socket, _)| socket.join_fanout(group))
}

/// Maps the ring that a socket has, and reads it from its beginning.
fn frames_of(name: &str, socket: &PacketSocket, shape: &RingShape) -> Result<Frames, LiveError> {
    let ring =
        PacketRing::mapped(socket, shape).map_err(|error| ring_refused(name, shape, error))?;
    let is_of_blocks = shape.block_timeout_ms > 0;
    let nap = is_of_blocks.then(|| Nap::for_ring(ring.size_bytes(), shape.block_timeout_ms));
    Ok(Frames::Ring(ring, Reader::new(shape), nap))
}

fn ring_refused(name: &str, shape: &RingShape, error: io::Error) -> LiveError {
    LiveError::RingRefused {
        name: name.to_owned(),
        size_bytes: shape.block_size_bytes as usize * shape.block_count as usize,
        error,
    }
}
