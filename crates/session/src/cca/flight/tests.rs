//! Rows do not depend on how packets are cut into batches.

use std::convert::Infallible;

use packet::dissect::{DissectOptions, dissect};
use packet::{LinkType, SlotClock, Span};
use proptest::prelude::*;

use super::super::PeriodReport as _;
use super::*;

fn clock() -> SlotClock {
    SlotClock::new(Span::from_ns(1_000_000))
}

/// Data or an acknowledgement of a flow, so long after the packet before it.
type Packet = (u8, bool, u32, u32);

/// Frames of IPv4 and TCP one after the other, and their records.
fn frames(packets: &[Packet]) -> (Vec<u8>, Vec<Record>) {
    let (mut bytes, mut records) = (Vec::new(), Vec::new());
    let (mut now_ns, mut sent) = (1_700_000_000_000_000_000_i64, [0_u32; 256]);
    for &(flow, is_ack, wait_ms, data_len) in packets {
        now_ns += i64::from(wait_ms) * 1_000_000;
        let data_len = if is_ack { 0 } else { data_len };
        let before = sent[usize::from(flow)];
        sent[usize::from(flow)] += data_len;
        let (seq, ack) = if is_ack { (1, before) } else { (before, 1) };
        let ends: [[u8; 4]; 2] = [[10, 0, 0, 1], [10, 0, 0, 2]];
        let ports = [1000 + u16::from(flow), 80];
        let (from, to) = if is_ack { (1, 0) } else { (0, 1) };
        let start = bytes.len();
        let total_len = u16::try_from(40 + data_len).unwrap();
        bytes.extend([0; 12]);
        bytes.extend([8, 0, 0x45, 0]);
        bytes.extend(total_len.to_be_bytes());
        bytes.extend([0, 0, 0, 0, 64, 6, 0, 0]);
        bytes.extend(ends[from]);
        bytes.extend(ends[to]);
        bytes.extend(ports[from].to_be_bytes());
        bytes.extend(ports[to].to_be_bytes());
        bytes.extend(seq.to_be_bytes());
        bytes.extend(ack.to_be_bytes());
        bytes.extend([0x50, 0x10, 1, 0, 0, 0, 0, 0]);
        let len = u32::try_from(bytes.len() - start).unwrap();
        let options = DissectOptions { decapsulate: true, transport: true };
        let layers = dissect(LinkType::ETHERNET, &bytes[start..], len + data_len, options);
        let record = Record {
            timestamp: Timestamp::from_ns(now_ns),
            offset: u32::try_from(start).unwrap(),
            captured_len: len,
            wire_len: len + data_len,
            layers,
            ..Record::default()
        };
        records.push(record);
    }
    (bytes, records)
}

fn reader() -> FlightReader {
    let kept = Span::from_seconds(11);
    let options = TapOptions { clock: clock(), flow_count_max: 100, kept, sampler: None };
    FlightReader::new(options, 100, usize::MAX, None)
}

fn rows(packets: &[Packet], cut: usize) -> Vec<engine::columns::Columns> {
    let (bytes, records) = frames(packets);
    let mut reader = reader();
    let mut told = Vec::new();
    let mut put = |period: &FlightReport| {
        if !period.is_empty() {
            told.push(period.columns(clock(), &[]).unwrap());
        }
        Ok::<(), Infallible>(())
    };
    for records in records.chunks(cut) {
        let Ok(()) = reader.on_batch(&Batch { bytes: &bytes, records, tick: None }, &mut put);
    }
    let Ok(()) = reader.finish(&mut put);
    told
}

proptest! {
    #[test]
    fn rows_do_not_depend_on_batches(
        packets in prop::collection::vec(
            (0_u8..4, any::<bool>(), prop_oneof![0_u32..300, 9_000_u32..12_000], 1_u32..1400),
            1..200,
        ),
        cut in 1_usize..70,
    ) {
        let whole = rows(&packets, packets.len());
        prop_assert!(!whole.is_empty() || packets.iter().all(|packet| packet.1));
        prop_assert_eq!(rows(&packets, cut), whole);
    }
}

#[test]
fn each_packet_moves_time_once() {
    let (bytes, mut records) = frames(&[(0, false, 10, 100); 60]);
    // Every fifth packet sets the clock back by more than an epoch.
    for (at, record) in records.iter_mut().enumerate() {
        let back = Span::from_seconds(200 * i64::try_from(at / 5).unwrap());
        record.timestamp = record.timestamp.minus(back);
    }
    let (mut reader, mut time) = (reader(), EventTime::new(STEP_BACK));
    let Ok(()) = reader.on_batch(&Batch { bytes: &bytes, records: &records, tick: None }, |_| {
        Ok::<(), Infallible>(())
    });
    for record in &records {
        time.on_packet(record.timestamp);
    }
    assert_eq!(reader.epochs, 11);
    // The latest stamp, the steps back that are left, and the packets that earn the next.
    assert_eq!(format!("{:?}", reader.time), format!("{time:?}"));
}
