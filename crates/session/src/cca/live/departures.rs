//! The source of departures: packets that the next hop receives, or, if that cannot be tapped,
//! packets that the router passes to its own device's driver, which misses some.

use std::collections::HashMap;
use std::str::FromStr;

use capture::tap::{SlotTap, TapSide};
use cca::{FlowWay, SequenceGaps};
use packet::TapSlot;

use super::{Device, DeviceError, WatchError};

/// Before a device of the router itself.
const XMIT: &str = "xmit:";

/// Where departures are taken from.
#[derive(Clone, Debug)]
pub enum Departures {
    /// Packets received by a device downstream of the queue.
    NextHop(Device),
    /// What a device of the router sends.
    Xmit(Device),
}

/// Reads `DEV`, `NETNS:DEV`, or either behind `xmit:`.
impl FromStr for Departures {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        match text.strip_prefix(XMIT) {
            None => text.parse().map(Self::NextHop),
            Some(device) => device.parse().map(Self::Xmit),
        }
    }
}

impl Departures {
    /// Whether the device is in another network namespace.
    #[must_use]
    pub const fn is_elsewhere(&self) -> bool {
        match self {
            Self::NextHop(device) | Self::Xmit(device) => device.is_elsewhere(),
        }
    }

    /// Attaches the tap downstream of the queue.
    pub(super) fn attach(&self, tap: &mut SlotTap) -> Result<(), WatchError> {
        match self {
            Self::NextHop(device) => device.attach(|name| tap.attach(name, TapSide::Egress)),
            Self::Xmit(device) => device.attach(|name| tap.attach_to_departures(name)),
        }
    }

    /// What is kept of packets that it misses; nothing where it misses none.
    pub(super) fn missed(&self) -> Option<MissedDepartures> {
        matches!(self, Self::Xmit(_)).then(MissedDepartures::default)
    }
}

/// What a tap that misses packets has missed, as far as sequence numbers show it.
#[derive(Debug, Default)]
pub struct MissedDepartures {
    flows: HashMap<FlowWay, SequenceGaps>,
    /// Of flows that are followed no more.
    past: u64,
    data_bytes: u64,
    segments: u64,
}

impl MissedDepartures {
    /// Takes in a slot that is complete.
    pub(super) fn put(&mut self, way: FlowWay, slot: &TapSlot) {
        self.data_bytes += slot.data_bytes;
        self.segments += u64::from(slot.segments);
        self.flows.entry(way).or_default().put(slot);
    }

    pub(super) fn forget(&mut self, way: &FlowWay) {
        self.past += self.flows.remove(way).map_or(0, |unseen| unseen.bytes());
    }

    /// Bytes of a flow that were not seen so far.
    pub(super) fn bytes(&self, way: &FlowWay) -> u64 {
        self.flows.get(way).map_or(0, SequenceGaps::bytes)
    }

    /// A line of the summary, ended.
    #[must_use]
    pub fn line(&self) -> String {
        let bytes = self.past + self.flows.values().map(SequenceGaps::bytes).sum::<u64>();
        let segment_len = (self.data_bytes / self.segments.max(1)).max(1);
        format!(
            "departures: by net_dev_start_xmit, which does not see every packet: {bytes} bytes of \
             tracked flows, about {} packets, were not seen to leave\n",
            bytes.div_ceil(segment_len)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_of_the_router_stands_behind_a_word() {
        let is_xmit = |text: &str| matches!(text.parse(), Ok(Departures::Xmit(_)));
        assert!(is_xmit("xmit:up0") && is_xmit("xmit:router:up0"));
        assert!(!is_xmit("up0") && !is_xmit("exit:up0"));
        assert!("xmit:router:".parse::<Departures>().is_err());
    }
}
