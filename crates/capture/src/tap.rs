//! Counts what passes an interface, exactly and without reading it: eBPF at tc ingress and
//! egress, `bpf/tap.bpf.c`.
//!
//! A packet socket may drop, and what it has read is then less than what passed; these counts
//! tell the whole. Both agree to the packet over the same two [`Moment`]s, since what was
//! received carries one stamp that both see. At egress the count is taken before the queue and
//! before frames are segmented: it holds what the queue drops later, and of packets and
//! segments only the segments are those of a capture there.
//!
//! The programs are held by this process alone: when it ends, however it does, they are gone.
//! It takes Linux 6.6 (tcx).

use std::error::Error;
use std::fmt;
use std::io;

use aya::maps::{Array, MapError, PerCpuArray};
use aya::programs::tc::{TcAttachOptions, TcAttachType};
use aya::programs::{LinkOrder, ProgramError, SchedClassifier};
use aya::sys::SyscallError;
use aya::{Ebpf, EbpfError, include_bytes_aligned};
use packet::Timestamp;

use crate::live::Passing;
use crate::sys::packet_socket::PacketSocket;

/// Built from the source beside it by `make bpf`.
const OBJECT: &[u8] = include_bytes_aligned!("../bpf/tap.bpf.o");

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

/// Programs that count at one interface. It counts nothing before it is told from when on.
pub struct TapCounter {
    device: String,
    ebpf: Ebpf,
    /// Has what is received stamped before we see it.
    _stamps: PacketSocket,
}

/// Why an interface cannot be counted at.
#[derive(Debug)]
pub struct TapError {
    device: String,
    words: String,
    is_refused: bool,
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
            attach(&mut ebpf, name, device, at).map_err(failed)?;
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

fn attach(ebpf: &mut Ebpf, name: &str, device: &str, at: TcAttachType) -> Result<(), Attaching> {
    let program: &mut SchedClassifier = ebpf.program_mut(name).ok_or(MISSING)?.try_into()?;
    program.load()?;
    program.attach_with_options(device, at, TcAttachOptions::TcxOrder(LinkOrder::first()))?;
    Ok(())
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

/// What went wrong, before it is known where.
#[derive(Debug)]
enum Attaching {
    Io(io::Error),
    Library(Box<dyn Error>),
    Missing,
}

/// The object is part of this program: this is a fault of its build.
const MISSING: Attaching = Attaching::Missing;

impl Attaching {
    fn named(self, device: &str) -> TapError {
        let device = device.to_owned();
        match self {
            Self::Io(error) => {
                let is_refused = error.kind() == io::ErrorKind::PermissionDenied;
                TapError { device, words: error.to_string(), is_refused }
            }
            Self::Library(error) => {
                let is_refused = refused(error.as_ref());
                TapError { device, words: in_one_line(error.as_ref()), is_refused }
            }
            Self::Missing => {
                let words = String::from("its program is not in the object that was built in");
                TapError { device, words, is_refused: false }
            }
        }
    }
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// An error and its causes; the verifier's words, where there are any, fill pages.
fn in_one_line(error: &(dyn Error + 'static)) -> String {
    let mut words: Vec<String> = Vec::new();
    for line in
        causes(error).filter_map(|error| error.to_string().lines().next().map(str::to_owned))
    {
        if !words.iter().any(|known| known.contains(&line)) {
            words.push(line);
        }
    }
    words.join(": ")
}

/// Whether the system refused for want of permission.
fn refused(error: &(dyn Error + 'static)) -> bool {
    causes(error).any(|error| {
        let io_error = error.downcast_ref::<io::Error>();
        let called = error.downcast_ref::<SyscallError>().map(|error| &error.io_error);
        io_error.or(called).is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    })
}

impl From<io::Error> for Attaching {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<EbpfError> for Attaching {
    fn from(error: EbpfError) -> Self {
        Self::Library(Box::new(error))
    }
}

impl From<ProgramError> for Attaching {
    fn from(error: ProgramError) -> Self {
        Self::Library(Box::new(error))
    }
}

impl From<MapError> for Attaching {
    fn from(error: MapError) -> Self {
        Self::Library(Box::new(error))
    }
}

impl fmt::Display for TapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, words, is_refused } = self;
        write!(f, "{device}: cannot count by eBPF: ")?;
        if *is_refused {
            f.write_str("not permitted; wanted CAP_BPF and CAP_NET_ADMIN, try as root")
        } else {
            write!(f, "{words}; wanted Linux 6.6 or newer with CONFIG_BPF_SYSCALL")
        }
    }
}

impl Error for TapError {}

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

    #[test]
    fn a_refusal_says_what_is_wanted() {
        let denied = io::Error::from_raw_os_error(libc::EPERM);
        let text = Attaching::from(denied).named("eth0").to_string();
        assert!(text.starts_with("eth0: ") && text.contains("CAP_BPF"), "{text}");
        let called = SyscallError {
            call: "bpf_link_create",
            io_error: io::Error::from_raw_os_error(libc::EPERM),
        };
        let text = Attaching::from(ProgramError::from(called)).named("eth0").to_string();
        assert!(text.contains("CAP_BPF"), "{text}");
        let gone = io::Error::from_raw_os_error(libc::ENODEV);
        let text = Attaching::from(gone).named("eth0").to_string();
        assert!(text.contains("No such device") && text.contains("6.6"), "{text}");
    }
}
