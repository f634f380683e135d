//! Flows that no test could fill packet by packet.

use packet::flow_key::MarkedKey;
use packet::{FlowKey, HashSeed, KeyHash as _, Protocol};

use super::super::record::FlowCounts;
use super::*;

fn packet(tcp_flags: u8) -> FlowPacket {
    let [low, high] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(Into::into);
    let (key, direction) = FlowKey::from_tuple(low, high, 1_000, 80, Protocol::TCP);
    FlowPacket {
        marked_key: MarkedKey::new(key, 0),
        timestamp: Timestamp::from_parts(1_700_000_000, 0),
        hash: key.key_hash(HashSeed::new(7)),
        wire_len: 100,
        vlan_id: 5,
        tcp_flags,
        direction,
    }
}

#[test]
fn a_flow_ends_where_its_counter_does_also_if_it_is_closed() {
    for (last, reason) in [(RST, EndReason::Rst), (ACK, EndReason::Active)] {
        let (mut table, mut slots) = (FlowTable::new(FlowOptions::default()), Vec::new());
        table.observe(&[packet(last)], &mut slots);
        for slot in &slots {
            table.hot.get_mut(slot.index).unwrap().packets[0] = u32::MAX;
        }
        table.observe(&[packet(ACK)], &mut slots);
        let ended: Vec<_> =
            table.take_ended().map(|end| (end.record.reason, end.record.packets)).collect();
        assert_eq!(ended, [(reason, [u32::MAX, 0])]);
        assert_eq!(table.len(), 1);
    }
}

#[test]
fn bytes_that_are_claimed_stop_at_the_largest_number() {
    let mut counts = FlowCounts::default();
    counts.add_parts(EndReason::End, 1, u64::MAX);
    counts.add_parts(EndReason::End, 1, 1);
    let same = counts;
    counts.fold(&same);
    assert_eq!((counts.total(), counts.packets, counts.bytes), (4, 4, u64::MAX));
}
