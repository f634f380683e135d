//! Who sends how much to whom, and when: drawn before a frame is made.
//!
//! Shaped like a backbone: sources and destinations by Zipf's law, flow sizes by
//! Pareto's, half of the packets as short as they can be, a quarter full. The
//! numbers are those of the yardstick's generator, so that both are comparable.

use super::mix::Captures;
use super::random::{Random, Zipf, pareto, scramble};

/// How long what is made lasts.
pub(super) const DURATION_NS: u64 = 60_000_000_000;

const ADDRESS_COUNT: usize = 500_000;
const ADDRESS_EXPONENT: f64 = 1.05;
const FLOW_SIZE_SHAPE: f64 = 1.15;
const FLOW_SIZE_MAX: u64 = 200_000;
/// Mean gap between the packets of a flow: 20 ms.
const PACKET_GAP_NS: u64 = 20_000_000;
const IPV6_PERCENT: u64 = 5;
const VLAN_PERCENT: u64 = 6;
const TCP_PERCENT: u64 = 80;
/// Packets of a flow that go backwards.
const REVERSE_PERCENT: u64 = 38;

const TCP_PORTS: [u16; 10] = [443, 443, 443, 80, 53, 8_080, 22, 123, 3_478, 5_001];

/// One conversation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    /// Number of the side that begins; an address is made of it.
    pub(super) source: u32,
    /// Number of the other side.
    pub(super) destination: u32,
    /// Port of the side that begins.
    pub(super) source_port: u16,
    /// Port of the other side.
    pub(super) destination_port: u16,
    /// TCP, else UDP.
    pub(super) is_tcp: bool,
    /// IPv6, else IPv4.
    pub(super) is_ipv6: bool,
    /// Tagged with this VLAN.
    pub(super) vlan: Option<u16>,
}

/// Where the frame of an event comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin {
    /// Made for the flow of this index.
    Flow(u32),
    /// Copied from the real packet of this index.
    Capture(u32),
}

/// One packet to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    /// When, from the start.
    pub(super) time_ns: u64,
    pub(super) origin: Origin,
    /// The how many-th repetition of a real packet.
    pub(super) round: u32,
    /// Bytes of a made frame.
    pub(super) len: u16,
    /// Whether a made frame goes backwards.
    pub(super) is_reverse: bool,
}

/// Everything, in order of time.
pub(super) struct Plan {
    pub(super) flows: Vec<Flow>,
    pub(super) events: Vec<Event>,
}

impl Plan {
    pub(super) fn new(seed: u64, packet_count: u64, captures: &Captures) -> Self {
        let mut random = Random::new(seed);
        let mut plan = Self { flows: Vec::new(), events: captures.events(&mut random) };
        let addresses = Zipf::new(ADDRESS_COUNT, ADDRESS_EXPONENT);
        let mut left = packet_count;
        while left > 0 {
            let flow = flow(&mut random, &addresses);
            let size = pareto(&mut random, FLOW_SIZE_SHAPE, FLOW_SIZE_MAX).min(left);
            plan.add_flow(&mut random, flow, size);
            left -= size;
        }
        // Stable, so that packets of one instant keep the order of their flow.
        plan.events.sort_by_key(|event| event.time_ns);
        plan
    }

    fn add_flow(&mut self, random: &mut Random, flow: Flow, size: u64) {
        let wanted = (size * PACKET_GAP_NS).min(DURATION_NS - 1);
        // Long flows end at different times.
        let span = if wanted > DURATION_NS / 2 {
            DURATION_NS / 2 + random.below(DURATION_NS / 2)
        } else {
            wanted
        };
        let start = random.below(DURATION_NS - span);
        let origin = Origin::Flow(u32::try_from(self.flows.len()).unwrap_or(u32::MAX));
        self.flows.push(flow);
        for number in 0..size {
            let (offset, is_reverse) = match number {
                0 => (0, false),
                _ => (random.below(span + 1), random.percent(REVERSE_PERCENT)),
            };
            let len = frame_len(random);
            self.events.push(Event { time_ns: start + offset, origin, round: 0, len, is_reverse });
        }
    }
}

fn flow(random: &mut Random, addresses: &Zipf) -> Flow {
    let is_tcp = random.percent(TCP_PERCENT);
    let destination_port = if is_tcp {
        TCP_PORTS.get(random.below(10) as usize).copied().unwrap_or(443)
    } else if random.percent(67) {
        443
    } else {
        53
    };
    Flow {
        source: side(addresses.draw(random), 0x0123_4567),
        destination: side(addresses.draw(random), 0x089a_bcde),
        source_port: 1_024 + u16::try_from(random.below(64_000)).unwrap_or_default(),
        destination_port,
        is_tcp,
        is_ipv6: random.percent(IPV6_PERCENT),
        vlan: random
            .percent(VLAN_PERCENT)
            .then(|| 100 + u16::try_from(random.below(8)).unwrap_or_default()),
    }
}

/// A rank as 32 bits without pattern whose first byte is 1 to 222: unicast.
#[allow(clippy::cast_possible_truncation)]
fn side(rank: usize, salt: u64) -> u32 {
    let scrambled = scramble(rank as u64 ^ salt << 32);
    let first = 1 + (scrambled >> 32) as u32 % 222;
    first << 24 | scrambled as u32 & 0x00ff_ffff
}

fn frame_len(random: &mut Random) -> u16 {
    let len = match random.below(100) {
        0..50 => 60 + random.below(16),
        50..77 => 80 + random.below(920),
        _ => 1_514,
    };
    u16::try_from(len).unwrap_or_default()
}
