//! Slots: whatever packets come, each is in one slot, and what a window tells of them is what
//! stands in the packets, looked at one by one.
//!
//! Input: the length of a slot in two bytes, in microseconds; which rules, in one; then packets of
//! six bytes: tap, flow and what they are, time since the packet before in two bytes, a step of the
//! sequence number in two, a length.
#![no_main]

use std::net::Ipv4Addr;

use cca::inputs::{Empty, ProgressRule, Throughput};
use cca::{FlowWay, Input as Column, Pair, Period, Rules, Segment, TapOptions};
use fuzz::input::Input;
use libfuzzer_sys::fuzz_target;
use packet::wire::tcp::SeqNumber;
use packet::{FlowKey, Protocol, SlotClock, Span, TapSlot, Timestamp};

const FLOWS: u8 = 4;
const FLOWS_MAX: usize = 3;
const WINDOW_LEN: usize = 50;
const PACKETS_MAX: usize = 400;

/// A packet, and where it was seen.
struct Seen {
    is_egress: bool,
    flow: u8,
    segment: Segment,
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let clock = SlotClock::new(Span::from_ns(i64::from(input.u16().max(1)) * 1_000));
    let rules = rules(input.u8());
    let options = TapOptions {
        clock,
        flow_count_max: FLOWS_MAX,
        kept: Span::from_ns(i64::MAX),
        sampler: None,
    };
    let packets = packets(&mut input);
    let mut pair = Pair::new(options);
    for seen in &packets {
        let tap = if seen.is_egress { &mut pair.egress } else { &mut pair.ingress };
        tap.add(way(seen.flow), &seen.segment);
    }
    let received = pair.ingress.counts().received() + pair.egress.counts().received();
    assert_eq!(received, packets.len() as u64);
    for flow in 0..FLOWS {
        let came = slots(&packets, flow, false, &pair);
        let left = slots(&packets, flow, true, &pair);
        check_window(&mut pair, flow, rules, (&came, &left));
    }
    pair.forget_old();
});

fn rules(byte: u8) -> Rules {
    Rules {
        passed: if byte & 1 == 0 { ProgressRule::First } else { ProgressRule::Highest },
        empty: if byte & 2 == 0 { Empty::Next } else { Empty::Line },
        throughput: if byte & 4 == 0 { Throughput::Counted } else { Throughput::Sequence },
    }
}

fn way(flow: u8) -> FlowWay {
    let (here, there) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));
    let port = 1000 + u16::from(flow);
    let (key, direction) = FlowKey::from_tuple(here.into(), there.into(), port, 80, Protocol::TCP);
    FlowWay { key, direction }
}

fn packets(input: &mut Input<'_>) -> Vec<Seen> {
    let mut packets = Vec::new();
    let mut now_ns = 1_700_000_000_000_000_000_i64;
    let mut next = [[0xffff_f000_u32; 2]; FLOWS as usize];
    while !input.is_empty() && packets.len() < PACKETS_MAX {
        let what = input.u8();
        // Some come late, or seem to.
        let step_ns = i64::from(input.u16().cast_signed()) * 500;
        now_ns += step_ns;
        let (step, len) = (input.u16().cast_signed(), input.u8());
        let (is_egress, flow) = (what & 1 == 1, (what >> 1) % FLOWS);
        let opens = what & 0xf0 == 0xf0;
        let at = &mut next[usize::from(flow)][usize::from(is_egress)];
        // Now and then a jump that only another connection makes.
        let scale = if what & 0x08 == 0 { 1 } else { 1 << 16 };
        let seq = at.wrapping_add_signed(i32::from(step) * scale);
        let data_len = u32::from(len) * 40 + u32::from(!opens);
        *at = seq.wrapping_add(data_len);
        let segment = Segment {
            time: Timestamp::from_ns(now_ns),
            seq: SeqNumber(seq),
            data_len,
            frame_len: data_len + 54,
            segments: 1 + u32::from(len) / 64,
            source_ticks: (len & 1 == 1).then_some(u32::from(len)),
            opens,
            ..Segment::default()
        };
        packets.push(Seen { is_egress, flow, segment });
    }
    packets
}

/// What a tap made of a flow, which is held against its packets.
fn slots(packets: &[Seen], flow: u8, is_egress: bool, pair: &Pair) -> Vec<TapSlot> {
    let tap = if is_egress { &pair.egress } else { &pair.ingress };
    let mut slots = Vec::new();
    tap.slots(&way(flow), &mut slots);
    assert!(slots.is_sorted_by(|one, next| one.slot < next.slot));
    if !tap.knows(&way(flow)) {
        return slots;
    }
    let ours = packets.iter().filter(|seen| seen.flow == flow && seen.is_egress == is_egress);
    let (mut packet_count, mut data_bytes, mut frame_bytes) = (0, 0, 0);
    let mut segment_count = 0;
    for Seen { segment, .. } in ours {
        // What opens a connection and brings nothing is in no slot.
        if segment.data_len > 0 {
            packet_count += 1;
            data_bytes += u64::from(segment.data_len);
            frame_bytes += u64::from(segment.frame_len);
            segment_count += u64::from(segment.segments);
        }
    }
    let sum = |of: fn(&TapSlot) -> u64| slots.iter().map(of).sum::<u64>();
    assert_eq!(sum(|slot| slot.packets.into()), packet_count);
    assert_eq!(sum(|slot| slot.segments.into()), segment_count);
    assert_eq!(sum(|slot| slot.data_bytes), data_bytes);
    assert_eq!(sum(|slot| slot.frame_bytes), frame_bytes);
    slots
}

fn check_window(pair: &mut Pair, flow: u8, rules: Rules, (came, left): (&[TapSlot], &[TapSlot])) {
    let Some(first) = came.first() else { return };
    let period = Period { start: first.slot.saturating_sub(3), len: WINDOW_LEN };
    let columns = Column::ALL;
    let Ok(rows) = pair.fill(&way(flow), period, &columns, rules) else { return };
    assert_eq!(rows.len(), WINDOW_LEN * columns.len());
    assert!(rows.iter().all(|value| value.is_finite() && *value >= 0.0), "{rows:?}");
    for (at, row) in rows.chunks_exact(columns.len()).enumerate() {
        let slot = period.start + i64::try_from(at).unwrap_or(0);
        check_row(row, slot, rules, (came, left));
    }
    for column in &columns {
        // One column alone is the same column.
        let mut alone = Vec::new();
        if let Ok(rows) = pair.fill(&way(flow), period, std::slice::from_ref(column), rules) {
            alone.extend_from_slice(rows);
        }
        assert_eq!(alone.len(), WINDOW_LEN);
    }
    let told = pair.flow(way(flow), period, rules);
    let of_period = |slots: &[TapSlot]| -> u64 {
        let inside = |slot: &&TapSlot| (period.start..period.end()).contains(&slot.slot);
        slots.iter().filter(inside).map(|slot| slot.data_bytes).sum()
    };
    assert_eq!((told.ingress_bytes, told.egress_bytes), (of_period(came), of_period(left)));
}

/// What was counted is what the slot says; what was not is nothing.
#[allow(clippy::cast_precision_loss)]
fn check_row(row: &[f32], slot: i64, rules: Rules, (came, left): (&[TapSlot], &[TapSlot])) {
    let of = |slots: &[TapSlot]| {
        slots.iter().find(|seen| seen.slot == slot).copied().unwrap_or_default()
    };
    let (came, left) = (of(came), of(left));
    let value =
        |column: Column| row[Column::ALL.iter().position(|&one| one == column).unwrap_or(0)];
    if rules.throughput == Throughput::Counted {
        assert_eq!(value(Column::IngressBytes), came.data_bytes as f32);
        assert_eq!(value(Column::EgressBytes), left.data_bytes as f32);
    }
    assert_eq!(value(Column::SourceGap), came.source_gap_max_ticks as f32);
    assert_eq!(value(Column::ArrivalGap), came.arrival_gap_max_ns as f32);
    assert_eq!(value(Column::IngressSegments), came.segments as f32);
    assert_eq!(value(Column::IngressPackets), came.packets as f32);
    assert_eq!(value(Column::EgressSegments), left.segments as f32);
}
