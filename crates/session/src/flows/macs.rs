//! MAC addresses of both ends of a flow, as the frames on this link have them.
//!
//! Beyond a router they are the router's. The first frame has both, and they stay: a flow that
//! moves to another path has those of its first one, as in NFStream and Zeek's `mac-logging`.

use engine::columns::{Field, Value};
use engine::flow::{FlowPacket, FlowRecord, FlowStatistics, PerFlow};
use packet::wire::cooked::Cooked;
use packet::wire::ethernet::{Ethernet, MacAddress};
use packet::{FlowDirection, Frame, LinkType};

use super::layout::FlowColumns;
use super::row::{Row, StateColumns, text};

/// The columns.
pub(super) const MACS: [Field; 2] = [
    text(
        "src_mac",
        "MAC address of the source in the flow's first frame; empty if the link has none.",
    )
    .nullable(),
    text(
        "dst_mac",
        "MAC address of the destination in that frame; in a Linux cooked capture only after a \
         reply.",
    )
    .nullable(),
];

/// What is kept of a flow, and its MAC addresses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WithMacs<P> {
    kept: P,
    /// Of the low and of the high endpoint.
    sides: [Option<MacAddress>; 2],
}

impl<P: PerFlow> PerFlow for WithMacs<P> {
    const READS_FRAMES: bool = true;

    fn on_packet(&mut self, packet: &FlowPacket) {
        self.kept.on_packet(packet);
    }

    #[inline]
    fn on_frame(&mut self, frame: &Frame<'_>, packet: &FlowPacket) {
        self.kept.on_frame(frame, packet);
        if let [Some(_), Some(_)] = self.sides {
            return;
        }
        let [source, destination] = addresses(frame);
        let from = packet.direction as usize;
        for (side, address) in [(from, source), (1 - from, destination)] {
            if let Some(place) = self.sides.get_mut(side) {
                *place = place.or(address);
            }
        }
    }
}

/// Source and destination of a frame.
fn addresses(frame: &Frame<'_>) -> [Option<MacAddress>; 2] {
    /// ARP hardware type of Ethernet, whose addresses have 6 bytes (RFC 826).
    const HARDWARE_ETHERNET: u16 = 1;
    let cooked = match frame.record.link {
        LinkType::ETHERNET => {
            let header = Ethernet::new(frame.bytes);
            return header.map_or([None; 2], |it| [it.source(), it.destination()].map(Some));
        }
        LinkType::LINUX_SLL => Cooked::new(frame.bytes),
        LinkType::LINUX_SLL2 => Cooked::new_v2(frame.bytes),
        _ => return [None; 2],
    };
    let of_ethernet = cooked.ok().filter(|header| header.hardware_type() == HARDWARE_ETHERNET);
    let source = of_ethernet.and_then(|header| header.address().try_into().ok());
    [source.map(MacAddress), None]
}

/// What is of the low and of the high endpoint, the source's first.
fn from_source<T>([low, high]: [T; 2], direction: FlowDirection) -> [T; 2] {
    match direction {
        FlowDirection::LowToHigh => [low, high],
        FlowDirection::HighToLow => [high, low],
    }
}

impl<P: StateColumns> StateColumns for WithMacs<P> {
    fn push<'a>(&'a self, record: &FlowRecord, row: &mut Row<'a>) {
        self.kept.push(record, row);
        let value = |side: &'a Option<MacAddress>| match side {
            Some(address) => Value::Text(address),
            None => Value::Null,
        };
        row.extend(from_source(self.sides.each_ref().map(value), record.direction));
    }
}

impl<P: FlowColumns> FlowColumns for WithMacs<P> {
    fn statistics(&self) -> Option<&FlowStatistics> {
        self.kept.statistics()
    }

    fn macs(&self, direction: FlowDirection) -> [Option<MacAddress>; 2] {
        from_source(self.sides, direction)
    }
}
