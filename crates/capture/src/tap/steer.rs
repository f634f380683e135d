//! Steers flows into classes of the queueing discipline of an interface, `bpf/steer.bpf.c`.
//!
//! A flow changes its class by one write to a list that the kernel reads for each packet: no packet
//! is lost for it, and none sees half of a change. The program is held by this process alone: when
//! it ends, however it does, all packets go where the discipline sends what it does not know. It
//! takes Linux 6.6 (tcx).

use std::fmt;
use std::net::SocketAddr;

use aya::maps::HashMap;
use aya::programs::LinkOrder;
use aya::programs::tc::TcAttachType;
use aya::{Ebpf, include_bytes_aligned};

use super::attach::{Attaching, TapError, attach, map_mut};
use super::slots::{KEY_LEN, key};

/// Built from the source next to it by `make bpf`.
const OBJECT: &[u8] = include_bytes_aligned!("../../bpf/steer.bpf.o");

/// A program that steers at one interface, and its list of flows,
/// [`FLOW_COUNT_MAX`](super::FLOW_COUNT_MAX) at most.
pub struct FlowSteer {
    device: String,
    ebpf: Ebpf,
}

impl FlowSteer {
    /// Attaches to what an interface of the calling thread's network namespace sends. No flow is
    /// listed yet.
    ///
    /// # Errors
    /// It takes `CAP_BPF` and `CAP_NET_ADMIN`, such an interface, and a kernel with tcx.
    pub fn attach(device: &str) -> Result<Self, TapError> {
        let attaching = || -> Result<Self, Attaching> {
            let mut ebpf = Ebpf::load(OBJECT)?;
            attach(&mut ebpf, "steer", device, TcAttachType::Egress, LinkOrder::first())?;
            Ok(Self { device: device.to_owned(), ebpf })
        };
        attaching().map_err(|error| error.named(device))
    }

    /// Sends what goes from one end to the other to a class from now on: its major number in the
    /// upper 16 bits, its minor in the lower.
    ///
    /// # Errors
    /// The system's; the list is full.
    pub fn put(
        &mut self,
        (source, destination): (SocketAddr, SocketAddr),
        class_id: u32,
    ) -> Result<(), TapError> {
        let insert = |classes: &mut Classes<'_>| {
            Ok(classes.insert(key(source, destination), class_id, 0)?)
        };
        self.with_classes(insert)
    }

    /// Sends it where the discipline sends what it does not know.
    ///
    /// # Errors
    /// The system's; it was not listed.
    pub fn leave(
        &mut self,
        (source, destination): (SocketAddr, SocketAddr),
    ) -> Result<(), TapError> {
        self.with_classes(|classes| Ok(classes.remove(&key(source, destination))?))
    }

    fn with_classes(
        &mut self,
        change: impl FnOnce(&mut Classes<'_>) -> Result<(), Attaching>,
    ) -> Result<(), TapError> {
        let Self { device, ebpf } = self;
        let changing = || -> Result<(), Attaching> {
            change(&mut HashMap::try_from(map_mut(ebpf, "CLASSES")?)?)
        };
        changing().map_err(|error| error.named(device))
    }
}

type Classes<'a> = HashMap<&'a mut aya::maps::MapData, [u8; KEY_LEN], u32>;

impl fmt::Debug for FlowSteer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowSteer").field("device", &self.device).finish_non_exhaustive()
    }
}
