//! Cuts flows into slots of time in the kernel, `bpf/slots.bpf.c`: a tap upstream of a queue and
//! one downstream of it, and a list of flows that is changed while they run.
//!
//! Of each slot in which a followed flow had a packet the kernel reports one [`TapSlot`]; what
//! passes otherwise costs a look at its headers. The programs are held by this process alone: when
//! it ends, however it does, they are gone. It takes Linux 6.6 (tcx).

use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::os::unix::fs::MetadataExt as _;

use aya::maps::{Array, HashMap, MapData, PerCpuArray, RingBuf};
use aya::programs::LinkOrder;
use aya::programs::tc::TcAttachType;
use aya::{Ebpf, include_bytes_aligned};
use packet::{FlowSlot, Span, TapSlot, Timestamp};

use super::attach::{Attaching, MISSING, TapDevice, TapError, attach, attach_inside, map, map_mut};
use crate::sys::clock;
use crate::sys::packet_socket::PacketSocket;

/// Built from the source next to it by `make bpf`.
const OBJECT: &[u8] = include_bytes_aligned!("../../bpf/slots.bpf.o");

/// Flows that can be followed at the same time.
pub const FLOW_COUNT_MAX: u32 = 65_536;

const TAPS: u32 = 2;
const COUNTS_LEN: u32 = 7;
pub(super) const KEY_LEN: usize = 36;
const TOLD_LEN: usize = 80;
const STATE_LEN: usize = 128;
/// `BPF_F_LOCK` of linux/bpf.h: a state is read and written whole.
const LOCKED: u64 = 4;
const HAS_OPEN: u32 = 1;
/// In the place of a tap.
const SEEN: u32 = TAPS;
/// The network namespace of the calling thread; its number is that of the file.
const NAMESPACE: &str = "/proc/thread-self/ns/net";
/// Less is what reading two clocks one after the other takes, and what discipline moves them.
const CLOCK_MOVED: Span = Span::from_ns(50_000);

/// Where a tap stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u32)]
pub enum TapSide {
    /// Upstream of the queue.
    Ingress,
    /// Behind it.
    Egress,
}

impl TapSide {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Ingress, Self::Egress];
}

/// How time is cut, and what is examined.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SlotTapOptions {
    /// How long a slot is.
    pub slot: Span,
    /// Packets with data that are examined, chosen by chance, as a share of all.
    pub share: f64,
    /// Whether every packet is reported and not the slots alone: what first-packet sampling saves.
    pub each_packet: bool,
    /// Packets of flows that are not followed, seen upstream of the queue, that are reported, as a
    /// share of all: what it takes to know which flows are worth following.
    pub seen_share: f64,
}

/// What the kernel reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TapEvent {
    /// A slot that is complete; with [`each_packet`](SlotTapOptions::each_packet) one packet, as
    /// if it had a slot of its own.
    Slot {
        /// Which tap saw it.
        side: TapSide,
        /// Whose it is.
        flow: FlowSlot,
        /// What was seen.
        slot: TapSlot,
    },
    /// A packet of a flow that is not followed.
    Seen {
        /// Sender of the data.
        source: SocketAddr,
        /// Its receiver.
        destination: SocketAddr,
        /// Bytes of data.
        data_len: u32,
    },
}

/// The outcome of the packets of one tap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SlotTapCounts {
    /// Packets of flows that are followed, with data or opening a connection.
    pub taken: u64,
    /// Of flows that are not.
    pub not_followed: u64,
    /// Left out by chance.
    pub left_out: u64,
    /// Packets that were taken in, but completed a slot for which the ring had no room: that slot
    /// is lost.
    pub no_room: u64,
    /// Not TCP.
    pub not_tcp: u64,
    /// TCP without data.
    pub no_data: u64,
    /// Later fragments, and headers that cannot be.
    pub unreadable: u64,
}

impl SlotTapCounts {
    /// All packets that passed.
    #[must_use]
    pub const fn received(&self) -> u64 {
        let Self { taken, not_followed, left_out, no_room, not_tcp, no_data, unreadable } = *self;
        taken + not_followed + left_out + no_room + not_tcp + no_data + unreadable
    }
}

/// Programs that cut flows into slots.
pub struct SlotTap {
    ebpf: Ebpf,
    /// Mapped once: mapping it costs more than reading what it holds.
    told: RingBuf<MapData>,
    options: SlotTapOptions,
    realtime_ahead: Span,
    /// Counted up when a flow is followed no more, so that the programs forget where it was.
    changes: NonZeroU32,
    devices: Vec<TapDevice>,
    /// The device whose departures are taken, and its namespace.
    xmit: Option<[u32; 2]>,
    /// Has what is received stamped before we see it.
    _stamps: PacketSocket,
}

impl SlotTap {
    /// Loads the programs; nothing passes them before they are attached.
    ///
    /// # Errors
    /// It takes `CAP_BPF`, `CAP_NET_RAW`, and a kernel that has tcx.
    pub fn load(options: SlotTapOptions) -> Result<Self, TapError> {
        let loading = || -> Result<Self, Attaching> {
            let stamps = PacketSocket::open()?;
            stamps.ask_for_stamps()?;
            let mut ebpf = Ebpf::load(OBJECT)?;
            let told = RingBuf::try_from(ebpf.take_map("TOLD").ok_or(MISSING)?)?;
            let mut tap = Self {
                ebpf,
                told,
                options,
                realtime_ahead: clock::realtime_ahead(),
                changes: NonZeroU32::MIN,
                devices: Vec::new(),
                xmit: None,
                _stamps: stamps,
            };
            tap.set()?;
            Ok(tap)
        };
        loading().map_err(|error| error.named("slots"))
    }

    fn set(&mut self) -> Result<(), Attaching> {
        let departures = self.xmit.unwrap_or_default();
        let words = self.options.words(self.realtime_ahead, departures, self.changes);
        let mut settings: Array<_, [u64; 5]> =
            Array::try_from(map_mut(&mut self.ebpf, "SETTINGS")?)?;
        Ok(settings.set(0, words, 0)?)
    }

    /// Looks whether the wall clock was set, for packets that carry no stamp; to be called now and
    /// then. What time it is.
    ///
    /// # Errors
    /// The system's.
    pub fn keep_time(&mut self) -> Result<Timestamp, TapError> {
        let ahead = clock::realtime_ahead();
        let moved_ns = ahead.as_ns().saturating_sub(self.realtime_ahead.as_ns());
        if moved_ns.unsigned_abs() > CLOCK_MOVED.as_ns().unsigned_abs() {
            self.realtime_ahead = ahead;
            self.set().map_err(|error| error.named("slots"))?;
        }
        Ok(clock::realtime_now())
    }

    /// Attaches a tap to what an interface of the calling thread's network namespace receives.
    ///
    /// # Errors
    /// It takes `CAP_NET_ADMIN` there, `CAP_PERFMON`, and such an interface.
    pub fn attach(&mut self, device: &str, side: TapSide) -> Result<(), TapError> {
        let name = match side {
            TapSide::Ingress => "slots_ingress",
            TapSide::Egress => "slots_egress",
        };
        let mut attaching = || -> Result<(), Attaching> {
            let (tapped, _) = TapDevice::new(device)?;
            attach(&mut self.ebpf, name, device, TcAttachType::Ingress, LinkOrder::first())?;
            self.devices.push(tapped);
            Ok(())
        };
        attaching().map_err(|error| error.named(device))
    }

    /// Takes what an interface of the calling thread's network namespace sends for what leaves the
    /// queue: packets as the kernel hands them to its driver. It is called for nearly all of them;
    /// bursts are missing now and then, and nothing shows which.
    ///
    /// # Errors
    /// It takes such an interface, and a kernel that describes its types (BTF).
    pub fn attach_to_departures(&mut self, device: &str) -> Result<(), TapError> {
        let mut attaching = || -> Result<(), Attaching> {
            let (tapped, index) = TapDevice::new(device)?;
            // Numbers of namespaces fit the kernel's `unsigned int`.
            let namespace = u32::try_from(fs::metadata(NAMESPACE)?.ino()).unwrap_or(0);
            self.xmit = Some([index, namespace]);
            self.set()?;
            attach_inside(&mut self.ebpf, "slots_xmit", "net_dev_start_xmit")?;
            self.devices.push(tapped);
            Ok(())
        };
        attaching().map_err(|error| error.named(device))
    }

    /// Whether every device that is tapped is still there.
    ///
    /// # Errors
    /// Names one that is not: nothing comes from there any more.
    pub fn check_devices(&self) -> Result<(), TapError> {
        let gone = self.devices.iter().find(|tapped| tapped.is_gone());
        gone.map_or(Ok(()), |tapped| Err(TapError::gone(tapped.name())))
    }

    /// Follows the data that goes from one end to the other. What was kept at this place is gone.
    ///
    /// # Errors
    /// The system's; [`FLOW_COUNT_MAX`] flows are followed already.
    pub fn follow(
        &mut self,
        (source, destination): (SocketAddr, SocketAddr),
        place: FlowSlot,
    ) -> Result<(), TapError> {
        let following = |ebpf: &mut Ebpf| -> Result<(), Attaching> {
            let mut states: Array<_, [u8; STATE_LEN]> = Array::try_from(map_mut(ebpf, "STATES")?)?;
            for side in TapSide::ALL {
                states.set(place.index * TAPS + side as u32, [0; STATE_LEN], LOCKED)?;
            }
            let mut flows: HashMap<_, [u8; KEY_LEN], [u32; 2]> =
                HashMap::try_from(map_mut(ebpf, "FLOWS")?)?;
            Ok(flows.insert(key(source, destination), [place.index, place.generation], 0)?)
        };
        following(&mut self.ebpf).map_err(|error| error.named("slots"))
    }

    /// Follows it no more. What it reported before may still be read.
    ///
    /// # Errors
    /// The system's; it was not followed.
    pub fn leave(
        &mut self,
        (source, destination): (SocketAddr, SocketAddr),
    ) -> Result<(), TapError> {
        let leaving = |ebpf: &mut Ebpf| -> Result<(), Attaching> {
            let mut flows: HashMap<_, [u8; KEY_LEN], [u32; 2]> =
                HashMap::try_from(map_mut(ebpf, "FLOWS")?)?;
            Ok(flows.remove(&key(source, destination))?)
        };
        self.changes = self.changes.checked_add(1).unwrap_or(NonZeroU32::MIN);
        leaving(&mut self.ebpf)
            // Only then, as the programs look there again.
            .and_then(|()| self.set())
            .map_err(|error| error.named("slots"))
    }

    /// Hands over the slots that were completed since, in the order in which they were.
    pub fn read(&mut self, mut each: impl FnMut(TapEvent)) {
        while let Some(item) = self.told.next() {
            if let Some(told) = item.first_chunk().and_then(parse) {
                each(told);
            }
        }
    }

    /// The slot of a place that is not complete yet, as far as it has come.
    ///
    /// # Errors
    /// The system's.
    pub fn open_slot(&self, index: u32, side: TapSide) -> Result<Option<TapSlot>, TapError> {
        let reading = || -> Result<Option<TapSlot>, Attaching> {
            let states: Array<_, [u8; STATE_LEN]> = Array::try_from(map(&self.ebpf, "STATES")?)?;
            let state = states.get(&(index * TAPS + side as u32), LOCKED)?;
            Ok(open_slot(&state))
        };
        reading().map_err(|error| error.named("slots"))
    }

    /// The outcome of the packets of a tap so far.
    ///
    /// # Errors
    /// The system's.
    pub fn counts(&self, side: TapSide) -> Result<SlotTapCounts, TapError> {
        let reading = || -> Result<SlotTapCounts, Attaching> {
            let counts: PerCpuArray<_, u64> = PerCpuArray::try_from(map(&self.ebpf, "COUNTS")?)?;
            let first = side as u32 * COUNTS_LEN;
            let sum = |at: u32| -> Result<u64, Attaching> {
                Ok(counts.get(&(first + at), 0)?.iter().sum())
            };
            Ok(SlotTapCounts {
                taken: sum(0)?,
                not_followed: sum(1)?,
                left_out: sum(2)?,
                no_room: sum(3)?,
                not_tcp: sum(4)?,
                no_data: sum(5)?,
                unreadable: sum(6)?,
            })
        };
        reading().map_err(|error| error.named("slots"))
    }
}

impl SlotTapOptions {
    /// As the programs read them.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn words(
        &self,
        realtime_ahead: Span,
        [device, namespace]: [u32; 2],
        changes: NonZeroU32,
    ) -> [u64; 5] {
        let draws_below = |share: f64| (share.clamp(0.0, 1.0) * f64::from(u32::MAX)) as u32;
        let both = |first: u32, second: u32| {
            let mut bytes = [0; 8];
            let (one, other) = bytes.split_at_mut(4);
            one.copy_from_slice(&first.to_ne_bytes());
            other.copy_from_slice(&second.to_ne_bytes());
            u64::from_ne_bytes(bytes)
        };
        [
            self.slot.as_ns().max(1).unsigned_abs(),
            realtime_ahead.as_ns().cast_unsigned(),
            both(draws_below(self.share), self.each_packet.into()),
            both(draws_below(self.seen_share), device),
            both(namespace, changes.get()),
        ]
    }
}

/// A flow as the programs name it: addresses of 16 bytes and ports, as they are on the wire.
pub(super) fn key(source: SocketAddr, destination: SocketAddr) -> [u8; KEY_LEN] {
    let octets = |address: IpAddr| match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    let mut key = [0; KEY_LEN];
    let parts = octets(source.ip())
        .into_iter()
        .chain(octets(destination.ip()))
        .chain(source.port().to_be_bytes())
        .chain(destination.port().to_be_bytes());
    key.iter_mut().zip(parts).for_each(|(place, part)| *place = part);
    key
}

/// What a state holds of the slot that is open, where the programs put it.
fn open_slot(state: &[u8; STATE_LEN]) -> Option<TapSlot> {
    let wide = |at: usize| {
        state.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |&bytes| u64::from_ne_bytes(bytes))
    };
    let narrow = |at: usize| {
        state.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |&bytes| u32::from_ne_bytes(bytes))
    };
    let slot = TapSlot {
        slot: wide(64).cast_signed(),
        first_ns: wide(72).cast_signed(),
        data_bytes: wide(24),
        frame_bytes: wide(32),
        packets: narrow(40),
        segments: narrow(44),
        first_seq: narrow(80),
        high_seq: narrow(48),
        skipped_bytes: narrow(84),
        source_gap_max_ticks: narrow(56),
        arrival_gap_max_ns: narrow(60),
        flags: narrow(88),
    };
    Some(slot).filter(|_| narrow(4) & HAS_OPEN != 0)
}

fn parse(told: &[u8; TOLD_LEN]) -> Option<TapEvent> {
    let word = |at: usize| told.as_chunks().0.get(at).map_or(0, |&word| u32::from_ne_bytes(word));
    let (_, rest) = told.split_at_checked(16)?;
    if word(0) == SEEN {
        let (source, destination) = ends(rest.first_chunk()?);
        return Some(TapEvent::Seen { source, destination, data_len: word(3) });
    }
    let side = TapSide::ALL.into_iter().find(|&side| side as u32 == word(0))?;
    let flow = FlowSlot { index: word(1), generation: word(2) };
    let slot = rest.first_chunk().map(TapSlot::from_ne_bytes)?;
    Some(TapEvent::Slot { side, flow, slot })
}

/// The ends of a flow from what the programs name it by.
fn ends(key: &[u8; KEY_LEN]) -> (SocketAddr, SocketAddr) {
    let address = |at: usize| {
        let octets = key.as_chunks::<16>().0.get(at).copied().unwrap_or_default();
        Ipv6Addr::from(octets).to_canonical()
    };
    let &[.., a, b, c, d] = key;
    (
        SocketAddr::new(address(0), u16::from_be_bytes([a, b])),
        SocketAddr::new(address(1), u16::from_be_bytes([c, d])),
    )
}

impl fmt::Debug for SlotTap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotTap").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_named_as_it_is_on_the_wire() {
        let named = key("10.1.2.3:80".parse().unwrap(), "[2001:db8::1]:443".parse().unwrap());
        assert_eq!(named[..16], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 1, 2, 3]);
        assert_eq!(named[16..20], [0x20, 0x01, 0x0d, 0xb8]);
        assert_eq!(named[32..], [0, 80, 1, 187]);
        let back = ends(&named);
        assert_eq!(back, ("10.1.2.3:80".parse().unwrap(), "[2001:db8::1]:443".parse().unwrap()));
    }

    #[test]
    fn the_program_is_told_how_time_is_cut() {
        let options = SlotTapOptions {
            slot: Span::from_ns(1_000_000),
            share: 1.0,
            each_packet: true,
            seen_share: 0.0,
        };
        let [slot_ns, ahead, shares, seen, namespace] =
            options.words(Span::from_ns(-5), [7, 9], NonZeroU32::MIN);
        assert_eq!((slot_ns, ahead.cast_signed()), (1_000_000, -5));
        assert_eq!(seen.to_ne_bytes()[..4], [0; 4]);
        assert_eq!(seen.to_ne_bytes()[4..], 7_u32.to_ne_bytes());
        assert_eq!(namespace.to_ne_bytes()[..4], 9_u32.to_ne_bytes());
        assert_eq!(namespace.to_ne_bytes()[4..], 1_u32.to_ne_bytes());
        let bytes = shares.to_ne_bytes();
        assert_eq!(bytes[..4], u32::MAX.to_ne_bytes());
        assert_eq!(bytes[4..], 1_u32.to_ne_bytes());
    }
}
