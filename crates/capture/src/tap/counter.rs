//! Counts what passes an interface, exactly and without reading it: eBPF at tc ingress and
//! egress, `bpf/tap.bpf.c`.
//!
//! A packet socket may drop, and what it has read is then less than what passed; these counts
//! tell the whole. Both agree to the packet over the same two [`Moment`]s, since what was
//! received carries one stamp that both see. At egress the count is taken upstream of the queue and
//! before frames are segmented: it holds what the queue drops later, and of packets and
//! segments only the segments are those of a capture there.
//!
//! The programs are held by this process alone: when it ends, however it does, they are gone.
//! It takes Linux 6.6 (tcx).

use std::fmt;

use aya::maps::{Array, PerCpuArray};
use aya::programs::LinkOrder;
use aya::programs::tc::TcAttachType;
use aya::{Ebpf, include_bytes_aligned};
use packet::Timestamp;

use super::attach::{Attaching, MISSING, TapError, attach};
use crate::live::Passing;
use crate::sys::packet_socket::PacketSocket;

/// Built from the source next to it by `make bpf`.
const OBJECT: &[u8] = include_bytes_aligned!("../../bpf/tap.bpf.o");

/// A moment, as two clocks tell it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Moment {
    /// `CLOCK_REALTIME`, which stamps what is received.
    pub realtime: Timestamp,
    /// `CLOCK_MONOTONIC`, for packets that have no stamp.
    pub monotonic_ns: u64,
}

/// What passed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TapCounts {
    /// Packets, as the kernel handles them: with offloads, one may hold many segments.
    pub packets: u64,
    /// Their bytes, link header included.
    pub bytes: u64,
    /// Packets as they are on the wire.
    pub segments: u64,
}

/// Programs that count at one interface. It counts nothing before it is given a start time.
pub struct TapCounter {
    device: String,
    ebpf: Ebpf,
    /// Has what is received stamped before we see it.
    _stamps: PacketSocket,
}

impl TapCounter {
    /// Attaches to an interface of the calling thread's network namespace, before whatever else
    /// is attached there.
    ///
    /// # Errors
    /// It takes `CAP_BPF` and `CAP_NET_ADMIN`, such an interface, and a kernel with tcx.
    pub fn attach(device: &str, passing: Passing) -> Result<Self, TapError> {
        let failed = |error: Attaching| error.named(device);
        let stamps = PacketSocket::open().map_err(|error| failed(error.into()))?;
        stamps.ask_for_stamps().map_err(|error| failed(error.into()))?;
        // This library reads what the kernel can do, and tries no other limit for memory.
        let mut ebpf = Ebpf::load(OBJECT).map_err(|error| failed(error.into()))?;
        let ways = [
            ("tap_in", TcAttachType::Ingress, passing != Passing::Out),
            ("tap_out", TcAttachType::Egress, passing != Passing::In),
        ];
        for (name, at, _) in ways.into_iter().filter(|(.., is_wanted)| *is_wanted) {
            attach(&mut ebpf, name, device, at, LinkOrder::first()).map_err(failed)?;
        }
        Ok(Self { device: device.to_owned(), ebpf, _stamps: stamps })
    }

    /// Counts what passes from `start` on, and before `stop` where one is given. What was
    /// counted stays.
    ///
    /// # Errors
    /// The system's.
    pub fn count_between(&mut self, start: Moment, stop: Option<Moment>) -> Result<(), TapError> {
        let value = moments(start, stop);
        let set = |map: Option<&mut aya::maps::Map>| -> Result<(), Attaching> {
            let mut map: Array<_, [u64; 4]> = Array::try_from(map.ok_or(MISSING)?)?;
            Ok(map.set(0, value, 0)?)
        };
        set(self.ebpf.map_mut("MOMENTS")).map_err(|error| error.named(&self.device))
    }

    /// What passed between the two moments so far.
    ///
    /// # Errors
    /// The system's.
    pub fn counts(&self) -> Result<TapCounts, TapError> {
        let sum = |map: Option<&aya::maps::Map>| -> Result<TapCounts, Attaching> {
            let map: PerCpuArray<_, [u64; 3]> = PerCpuArray::try_from(map.ok_or(MISSING)?)?;
            Ok(map.get(&0, 0)?.iter().fold(TapCounts::default(), |sum, counts| TapCounts {
                packets: sum.packets + counts[0],
                bytes: sum.bytes + counts[1],
                segments: sum.segments + counts[2],
            }))
        };
        sum(self.ebpf.map("COUNTS")).map_err(|error| error.named(&self.device))
    }
}

/// As the program reads them: an open end is never reached.
fn moments(start: Moment, stop: Option<Moment>) -> [u64; 4] {
    let realtime_ns = |moment: Moment| u64::try_from(moment.realtime.as_ns()).unwrap_or(0);
    [
        realtime_ns(start),
        stop.map_or(u64::MAX, realtime_ns),
        start.monotonic_ns,
        stop.map_or(u64::MAX, |stop| stop.monotonic_ns),
    ]
}

impl fmt::Debug for TapCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TapCounter").field("device", &self.device).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Moment = Moment { realtime: Timestamp::from_parts(7, 1), monotonic_ns: 3 };
    const STOP: Moment = Moment { realtime: Timestamp::from_parts(9, 0), monotonic_ns: 5 };

    #[test]
    fn the_program_is_told_both_clocks_and_an_open_end() {
        assert_eq!(moments(START, Some(STOP)), [7_000_000_001, 9_000_000_000, 3, 5]);
        assert_eq!(moments(START, None), [7_000_000_001, u64::MAX, 3, u64::MAX]);
    }
}
