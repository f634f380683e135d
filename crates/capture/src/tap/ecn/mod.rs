//! Re-marks packets of named flows from ECT(1) to Not-ECT when they leave an interface,
//! `bpf/ecn.bpf.c`.
//!
//! A sender that expects the L4S queue of a router to be the slower one can so send packets through
//! the classic queue. Each flow has a budget of packets, which one call sets; packets of flows that
//! are not named, and packets that are not ECT(1), are never changed. A budget expires on the
//! kernel's clock, so that nothing is re-marked by the last decisions of a process that is stopped
//! or late. The program runs after other
//! programs at tcx egress, and before the queueing discipline.
//!
//! The program is held by this process alone: when it ends, however it does, packets leave as their
//! sender marked them. It takes Linux 6.6 (tcx); older kernels have clsact only, whose filters
//! would remain, and are refused.

mod counts;
mod error;
mod offloads;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aya::maps::{Array, HashMap, PerCpuArray};
use aya::programs::LinkOrder;
use aya::programs::tc::TcAttachType;
use aya::{Ebpf, EbpfLoader, include_bytes_aligned};
use packet::{EcnControl, EcnFlowCounts, EcnRefusal, FlowSlot, OneWayFlow, Protocol, Span};

use self::counts::{COUNTS_LEN, FLOW_COUNTS_LEN, flow_counts};
use super::FLOW_COUNT_MAX;
use super::attach::{Attaching, TapDevice, attach, map, map_mut};
use super::slots::{KEY_LEN as ENDS_LEN, key as key_of_ends};
use crate::sys::{clock, interfaces};

pub use counts::EcnCounts;
pub use error::{EcnError, EcnFault};
pub use offloads::Offloads;

/// Built from the source next to it by `make bpf`.
const OBJECT: &[u8] = include_bytes_aligned!("../../../bpf/ecn.bpf.o");

/// Ends, protocol, version of IP, and two bytes that are 0.
const KEY_LEN: usize = ENDS_LEN + 4;
/// Place and generation in one word, and counts.
const NAMED_LEN: usize = 1 + FLOW_COUNTS_LEN;
/// Lock and generation in one word, packets allowed so far, and the time of expiry.
type BudgetWords = [u64; 3];
/// `BPF_F_LOCK` of linux/bpf.h: a budget is read and written whole.
const LOCKED: u64 = 4;
const DRY_RUN: u32 = 1;

/// What is re-marked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EcnSettings {
    /// Flows that can be named at the same time, 1 to [`FLOW_COUNT_MAX`]. If as many are named,
    /// another one is refused and counted; none is dropped for it. A flow takes about 200 bytes
    /// of kernel memory.
    pub flow_count_max: u32,
    /// Count the packets that would be re-marked, spend budgets on them, and change none.
    pub is_dry_run: bool,
    /// A budget expires so long after it was set, whatever is left of it.
    pub budget_lasts: Span,
}

impl Default for EcnSettings {
    fn default() -> Self {
        let budget_lasts = Span::from_ns(200_000_000);
        Self { flow_count_max: 4_096, is_dry_run: false, budget_lasts }
    }
}

/// A named flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EcnFlow {
    /// Which.
    pub flow: OneWayFlow,
    /// Packets that may still be re-marked; none of a budget that has expired.
    pub budget_left: u32,
    /// What happened to its packets.
    pub counts: EcnFlowCounts,
}

/// A program that re-marks what one interface sends, and the flows that are named to it.
pub struct EcnMarker {
    device: TapDevice,
    settings: EcnSettings,
    named: Mutex<MarkedFlows>,
}

struct MarkedFlows {
    ebpf: Ebpf,
    budget_lasts: Span,
    places: BTreeMap<OneWayFlow, Place>,
    /// The place that was left first is used first: packets on their way have passed by then.
    free: VecDeque<u32>,
    generation: u32,
    refused: u64,
}

/// Of a named flow, what the program was given last.
#[derive(Clone, Copy)]
struct Place {
    slot: FlowSlot,
    allowed: u64,
    until_ns: u64,
}

impl EcnMarker {
    /// Attaches to what an interface of the calling thread's network namespace sends. No flow is
    /// named yet, so no packet is changed.
    ///
    /// # Errors
    /// It takes `CAP_BPF`, `CAP_NET_ADMIN`, `CAP_NET_RAW` and `CAP_PERFMON`, an interface with
    /// Ethernet headers, and a kernel with tcx.
    pub fn attach(interface: &str, settings: EcnSettings) -> Result<Self, EcnError> {
        let failed = |fault| EcnError::new(interface, fault);
        let EcnSettings { flow_count_max, .. } = settings;
        if !(1..=FLOW_COUNT_MAX).contains(&flow_count_max) {
            return Err(failed(EcnFault::FlowCountMax(flow_count_max)));
        }
        let attaching = || -> Result<Self, Attaching> {
            let (device, _) = TapDevice::new(interface)?;
            let mut ebpf = EbpfLoader::new()
                .map_max_entries("FLOWS", flow_count_max)
                .map_max_entries("BUDGETS", flow_count_max)
                .map_max_entries("SPENT", flow_count_max)
                .load(OBJECT)?;
            let flags = if settings.is_dry_run { DRY_RUN } else { 0 };
            let mut words: Array<_, u32> = Array::try_from(map_mut(&mut ebpf, "SETTINGS")?)?;
            words.set(0, flags, 0)?;
            attach(&mut ebpf, "ecn", interface, TcAttachType::Egress, LinkOrder::last())?;
            let named = MarkedFlows {
                ebpf,
                budget_lasts: settings.budget_lasts,
                places: BTreeMap::new(),
                free: (0..flow_count_max).collect(),
                generation: 0,
                refused: 0,
            };
            Ok(Self { device, settings, named: Mutex::new(named) })
        };
        check_link(interface).map_err(failed)?;
        attaching().map_err(|error| failed(error.into()))
    }

    /// Re-marks the next packets of a flow, `budget` at most, until the budget expires, and names
    /// the flow if it is not named yet. What is left of an earlier budget is void.
    ///
    /// # Errors
    /// As many flows are named as may be; the interface is gone; the system's.
    pub fn allow(&self, flow: OneWayFlow, budget: u32) -> Result<(), EcnError> {
        self.check()?;
        let mut named = self.lock();
        let allowed = match named.places.get(&flow).copied() {
            Some(place) => named.set_budget(flow, place.slot, budget).map_err(EcnFault::from),
            None => named.name(flow, budget),
        };
        allowed.map_err(|fault| self.error(fault))
    }

    /// Adds packets to what is left of a flow's budget, which then is `budget_max` at most, and
    /// lasts as long as a new one. What has expired is not added to. Exact, whatever is spent at
    /// the same moment: no more packets are re-marked than were allowed and added.
    ///
    /// # Errors
    /// It is not named; the interface is gone; the system's.
    pub fn add(&self, flow: OneWayFlow, packets: u32, budget_max: u32) -> Result<(), EcnError> {
        self.check()?;
        let mut named = self.lock();
        let place = named.place_of(flow).map_err(|fault| self.error(fault))?;
        let added = named.add_budget(flow, place, packets, budget_max);
        added.map_err(|error| self.error(error.into()))
    }

    /// Sets the budget of a flow that is named; 0 stops re-marking it, and it is still counted.
    ///
    /// # Errors
    /// It is not named; the interface is gone; the system's.
    pub fn set_budget(&self, flow: OneWayFlow, budget: u32) -> Result<(), EcnError> {
        self.check()?;
        let mut named = self.lock();
        let place = named.place_of(flow).map_err(|fault| self.error(fault))?;
        named.set_budget(flow, place.slot, budget).map_err(|error| self.error(error.into()))
    }

    /// Removes a flow, no packet of which is re-marked once this returns. Returns its final counts,
    /// without what passes at the same moment on another processor.
    ///
    /// # Errors
    /// It is not named; the system's.
    pub fn forget(&self, flow: OneWayFlow) -> Result<EcnFlowCounts, EcnError> {
        self.lock().remove(flow).map_err(|fault| self.error(fault))
    }

    /// What happened to the packets of a flow so far.
    ///
    /// # Errors
    /// It is not named; the system's.
    pub fn flow(&self, flow: OneWayFlow) -> Result<EcnFlow, EcnError> {
        let named = self.lock();
        let read = named.place_of(flow).and_then(|place| Ok(named.read(flow, place)?));
        read.map_err(|fault| self.error(fault))
    }

    /// All named flows, in the order of their ends.
    ///
    /// # Errors
    /// The system's.
    pub fn flows(&self) -> Result<Vec<EcnFlow>, EcnError> {
        let named = self.lock();
        let flows = named.places.iter().map(|(&flow, &place)| named.read(flow, place));
        flows.collect::<Result<_, _>>().map_err(|error| self.error(error.into()))
    }

    /// What happened to all packets of the interface so far. Also to be read when the interface is
    /// gone.
    ///
    /// # Errors
    /// The system's.
    pub fn counts(&self) -> Result<EcnCounts, EcnError> {
        self.lock().counts().map_err(|error| self.error(error.into()))
    }

    /// Segmentation offloads of the interface that are on, out of TSO, GSO and USO. With one of
    /// them, and mostly without, TCP hands over packets of many segments: see [`Offloads::off`].
    ///
    /// # Errors
    /// The interface is gone; the calling thread is in another network namespace.
    pub fn offloads(&self) -> Result<Vec<&'static str>, EcnError> {
        self.check()?;
        offloads::list(self.device.name())
    }

    /// Whether the interface is still there.
    ///
    /// # Errors
    /// It is not: no packet is re-marked any more.
    pub fn check(&self) -> Result<(), EcnError> {
        if self.device.is_gone() { Err(self.error(EcnFault::Gone)) } else { Ok(()) }
    }

    /// The settings that it was attached with.
    #[must_use]
    pub const fn settings(&self) -> EcnSettings {
        self.settings
    }

    fn error(&self, fault: EcnFault) -> EcnError {
        EcnError::new(self.device.name(), fault)
    }

    fn lock(&self) -> MutexGuard<'_, MarkedFlows> {
        // Each step leaves places and maps in agreement, or a place unused.
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MarkedFlows {
    fn place_of(&self, flow: OneWayFlow) -> Result<Place, EcnFault> {
        self.places.get(&flow).copied().ok_or(EcnFault::NotNamed(flow))
    }

    fn name(&mut self, flow: OneWayFlow, budget: u32) -> Result<(), EcnFault> {
        if !matches!(flow.key.protocol(), Protocol::TCP | Protocol::UDP) {
            return Err(EcnFault::NotTcpUdp(flow));
        }
        let Some(index) = self.free.pop_front() else {
            self.refused += 1;
            // Every place that is not free has a flow.
            return Err(EcnFault::Full(u32::try_from(self.places.len()).unwrap_or(u32::MAX)));
        };
        self.generation = self.generation.wrapping_add(1);
        let slot = FlowSlot { index, generation: self.generation };
        // The budget first: the program goes by it as soon as the flow is there.
        let naming = self.set_budget(flow, slot, budget).and_then(|()| {
            let mut value = [0; NAMED_LEN];
            value[0] = both(slot.index, slot.generation);
            Ok(flows_of(&mut self.ebpf)?.insert(key(flow), value, 0)?)
        });
        if naming.is_err() {
            self.places.remove(&flow);
            self.free.push_front(index);
        }
        Ok(naming?)
    }

    /// What is left is void.
    fn set_budget(
        &mut self,
        flow: OneWayFlow,
        slot: FlowSlot,
        budget: u32,
    ) -> Result<(), Attaching> {
        let allowed = self.spent(slot)? + u64::from(budget);
        self.write(flow, slot, allowed)
    }

    fn add_budget(
        &mut self,
        flow: OneWayFlow,
        place: Place,
        packets: u32,
        budget_max: u32,
    ) -> Result<(), Attaching> {
        if monotonic_ns() >= place.until_ns {
            return self.set_budget(flow, place.slot, packets.min(budget_max));
        }
        // What is spent from now on makes room that the next call sees.
        let left = place.allowed.saturating_sub(self.spent(place.slot)?);
        let added = u64::from(packets).min(u64::from(budget_max).saturating_sub(left));
        self.write(flow, place.slot, place.allowed + added)
    }

    fn write(&mut self, flow: OneWayFlow, slot: FlowSlot, allowed: u64) -> Result<(), Attaching> {
        let lasts_ns = u64::try_from(self.budget_lasts.as_ns()).unwrap_or(0);
        let until_ns = monotonic_ns().saturating_add(lasts_ns);
        let mut budgets: Array<_, BudgetWords> =
            Array::try_from(map_mut(&mut self.ebpf, "BUDGETS")?)?;
        // The first half is the lock, which stays as it is.
        let words = [both(0, slot.generation), allowed, until_ns];
        budgets.set(slot.index, words, LOCKED)?;
        self.places.insert(flow, Place { slot, allowed, until_ns });
        Ok(())
    }

    fn spent(&self, slot: FlowSlot) -> Result<u64, Attaching> {
        let spent: Array<_, u64> = Array::try_from(map(&self.ebpf, "SPENT")?)?;
        Ok(spent.get(&slot.index, 0)?)
    }

    fn remove(&mut self, flow: OneWayFlow) -> Result<EcnFlowCounts, EcnFault> {
        let slot = self.place_of(flow)?.slot;
        // Nothing is spent from now on, so that the counts are final.
        self.set_budget(flow, slot, 0)?;
        let EcnFlow { counts, .. } = self.read(flow, self.place_of(flow)?)?;
        flows_of(&mut self.ebpf)?.remove(&key(flow)).map_err(Attaching::from)?;
        self.places.remove(&flow);
        self.free.push_back(slot.index);
        Ok(counts)
    }

    fn read(&self, flow: OneWayFlow, place: Place) -> Result<EcnFlow, Attaching> {
        let flows: HashMap<_, [u8; KEY_LEN], [u64; NAMED_LEN]> =
            HashMap::try_from(map(&self.ebpf, "FLOWS")?)?;
        let [_, counts @ ..] = flows.get(&key(flow), 0)?;
        let left = place.allowed.saturating_sub(self.spent(place.slot)?);
        let left = if monotonic_ns() < place.until_ns { left } else { 0 };
        let budget_left = u32::try_from(left).unwrap_or(u32::MAX);
        Ok(EcnFlow { flow, budget_left, counts: flow_counts(&counts) })
    }

    fn counts(&self) -> Result<EcnCounts, Attaching> {
        let counts: PerCpuArray<_, u64> = PerCpuArray::try_from(map(&self.ebpf, "COUNTS")?)?;
        let mut sums = [0; COUNTS_LEN];
        for (at, sum) in (0..).zip(&mut sums) {
            *sum = counts.get(&at, 0)?.iter().sum();
        }
        Ok(EcnCounts::from_kernel(&sums, self.refused))
    }
}

type Flows<'a> = HashMap<&'a mut aya::maps::MapData, [u8; KEY_LEN], [u64; NAMED_LEN]>;

fn flows_of(ebpf: &mut Ebpf) -> Result<Flows<'_>, Attaching> {
    Ok(HashMap::try_from(map_mut(ebpf, "FLOWS")?)?)
}

/// Whether the interface's packets begin with an Ethernet header.
fn check_link(interface: &str) -> Result<(), EcnFault> {
    let hardware_type = interfaces::hardware_type(interface);
    match hardware_type.map_err(|error| EcnFault::from(Attaching::from(error)))? {
        libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => Ok(()),
        other => Err(EcnFault::NotEthernet(other)),
    }
}

/// Two words in one, the first at the lower address.
fn both(first: u32, second: u32) -> u64 {
    let [[a, b, c, d], [e, f, g, h]] = [first.to_ne_bytes(), second.to_ne_bytes()];
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// Now, by the clock of programs in the kernel.
fn monotonic_ns() -> u64 {
    u64::try_from(clock::monotonic_now().as_ns()).unwrap_or(0)
}

/// A flow as the program names it: addresses of 16 bytes and ports as they are on the wire.
fn key(flow: OneWayFlow) -> [u8; KEY_LEN] {
    let (source, destination) = flow.key.endpoints(flow.direction);
    let [source, destination] =
        [source, destination].map(|end| SocketAddr::new(end.address, end.port));
    let version = if flow.key.is_ipv6() { 6 } else { 4 };
    let mut key = [0; KEY_LEN];
    let parts =
        key_of_ends(source, destination).into_iter().chain([flow.key.protocol().0, version]);
    key.iter_mut().zip(parts).for_each(|(place, part)| *place = part);
    key
}

impl EcnControl for EcnMarker {
    fn allow(&self, flow: OneWayFlow, budget: u32) -> Result<(), EcnRefusal> {
        Ok(Self::allow(self, flow, budget)?)
    }

    fn add(&self, flow: OneWayFlow, packets: u32, budget_max: u32) -> Result<(), EcnRefusal> {
        Ok(Self::add(self, flow, packets, budget_max)?)
    }

    fn forget(&self, flow: OneWayFlow) -> Result<EcnFlowCounts, EcnRefusal> {
        Ok(Self::forget(self, flow)?)
    }

    fn flow_counts(&self, flow: OneWayFlow) -> Result<EcnFlowCounts, EcnRefusal> {
        Ok(self.flow(flow)?.counts)
    }
}

impl fmt::Debug for EcnMarker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EcnMarker")
            .field("device", &self.device.name())
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_named_by_its_direction_protocol_and_version() {
        let (a, b) = ("10.1.2.3:80".parse().unwrap(), "10.1.2.4:443".parse().unwrap());
        let there = key(OneWayFlow::new(a, b, Protocol::TCP));
        assert_eq!(there[10..16], [255, 255, 10, 1, 2, 3]);
        assert_eq!(there[32..], [0, 80, 1, 187, 6, 4, 0, 0]);
        let back = key(OneWayFlow::new(b, a, Protocol::UDP));
        assert_eq!(back[32..], [1, 187, 0, 80, 17, 4, 0, 0]);
        // Of the same bytes in IPv6 it is another flow.
        let (a, b) = ("[::ffff:10.1.2.3]:80", "[::ffff:10.1.2.4]:443");
        let six = key(OneWayFlow::new(a.parse().unwrap(), b.parse().unwrap(), Protocol::TCP));
        assert_eq!((six[..32] == there[..32], six[37]), (true, 6));
    }

    #[test]
    fn a_maximum_out_of_range_is_refused() {
        for flow_count_max in [0, FLOW_COUNT_MAX + 1] {
            let settings = EcnSettings { flow_count_max, ..EcnSettings::default() };
            let error = EcnMarker::attach("lo", settings).unwrap_err();
            assert_eq!(error.fault(), &EcnFault::FlowCountMax(flow_count_max));
        }
    }
}
