//! Traffic that somebody made up to harm whoever watches it: sequence numbers, acknowledgements,
//! blocks and stamps that no connection has. Nothing overflows, what is kept stays within one
//! window, each packet is counted once, and a gap in time is no work.
//!
//! Input: packets of 13 bytes: what it is (tap, direction, flow, flags, blocks), how time goes on,
//! a length, and two numbers of four bytes, the sequence number and what is acknowledged, each
//! absolute or from the last of the same way; then two bytes that make blocks.
#![no_main]

use std::collections::HashSet;

use cca::flight::{FlightSlot, FlightTap};
use cca::inputs::{Empty, Passed, Throughput};
use cca::reach::WINDOW_MAX_BYTES;
use cca::{Pair, Period, Rules, TapOptions, Walk};
use fuzz::input::Input;
use libfuzzer_sys::fuzz_target;
use packet::dissect::{DissectOptions, dissect};
use packet::{Batch, LinkType, Record, SlotClock, Span, Timestamp};

const PACKETS_MAX: usize = 200;
const SLOT: Span = Span::from_ns(1_000_000);
const PERIOD_LEN: usize = 1_000;
const FLOWS_MAX: usize = 3;
/// What waits is told on for ten periods; before and behind it a period may be empty.
const LOOKS_PER_PACKET: usize = 14;

/// How time goes on: within a slot, a period, a minute, a year; backwards; to both ends of time.
const STEPS_NS: [i64; 8] = [
    1_000,
    1_000_000,
    1_000_000_000,
    61_000_000_000,
    31_536_000_000_000_000,
    -3_600_000_000_000,
    i64::MAX,
    i64::MIN,
];

/// Frames of both taps, and when each came.
struct Made {
    bytes: Vec<u8>,
    taps: [Vec<Record>; 2],
}

fuzz_target!(|bytes: &[u8]| {
    let made = made(&mut Input::new(bytes));
    let options = TapOptions {
        clock: SlotClock::new(SLOT),
        flow_count_max: FLOWS_MAX,
        kept: Span::from_seconds(11),
        sampler: None,
    };
    for records in &made.taps {
        one_tap(&made.bytes, records, options);
    }
    two_taps(&made, options);
});

fn made(input: &mut Input<'_>) -> Made {
    let mut made = Made { bytes: Vec::new(), taps: [Vec::new(), Vec::new()] };
    let (mut numbers, mut now_ns) = ([[0_u32; 2]; 8], 1_700_000_000_000_000_000_i64);
    let mut count = 0;
    while !input.is_empty() && count < PACKETS_MAX {
        count += 1;
        let (what, step, len) = (input.u8(), input.u8(), input.u8());
        let (seq, ack, blocks) = (input.u32(), input.u32(), input.u16());
        let way = usize::from(what >> 1 & 7);
        let [last_seq, last_ack] = &mut numbers[way];
        let is_absolute = what & 0x80 != 0;
        *last_seq = if is_absolute { seq } else { last_seq.wrapping_add(seq) };
        *last_ack = if is_absolute { ack } else { last_ack.wrapping_add(ack) };
        let flags = u8::from(what & 0x10 == 0) << 4 | u8::from(what & 0x60 == 0x60) << 1;
        now_ns = match STEPS_NS[usize::from(step & 7)] {
            extreme @ (i64::MAX | i64::MIN) => extreme,
            step_ns => now_ns.saturating_add(step_ns.saturating_mul(i64::from(step >> 3) + 1)),
        };
        let payload_len = u16::from(len) * 250;
        let frame = frame(way, (*last_seq, *last_ack), flags, payload_len, blocks);
        let captured_len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let wire_len = captured_len + u32::from(payload_len);
        made.taps[usize::from(what & 1)].push(Record {
            timestamp: Timestamp::from_ns(now_ns),
            offset: u32::try_from(made.bytes.len()).unwrap_or(u32::MAX),
            captured_len,
            wire_len,
            segments: if len == 255 { u16::MAX } else { 1 },
            layers: dissect(LinkType::ETHERNET, &frame, wire_len, DissectOptions::default()),
            ..Record::default()
        });
        made.bytes.extend_from_slice(&frame);
        if matches!(now_ns, i64::MAX | i64::MIN) {
            now_ns = 1_700_000_000_000_000_000;
        }
    }
    made
}

/// Headers of Ethernet, IPv4 and TCP with two blocks of SACK; the payload was cut off.
fn frame(way: usize, (seq, ack): (u32, u32), flags: u8, len: u16, blocks: u16) -> Vec<u8> {
    let [there, back] = [[192, 0, 2, 1], [192, 0, 2, 2]];
    let (from, to) = if way & 1 == 0 { (there, back) } else { (back, there) };
    let client = 1_000 + u16::try_from(way >> 1).unwrap_or(0);
    let ports = if way & 1 == 0 { [client, 80] } else { [80, client] };
    let mut options = vec![1, 1, 5, 18];
    for part in blocks.to_be_bytes() {
        // Offsets from what is acknowledged, up to around the whole space of numbers.
        let start = ack.wrapping_add(u32::from(part >> 4) << 28 | u32::from(part & 3));
        let end = start.wrapping_add(1 << u32::from(part & 31));
        options.extend(start.to_be_bytes());
        options.extend(end.to_be_bytes());
    }
    let total_len = (40 + options.len() + usize::from(len)).min(65_535);
    let mut frame = vec![0; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend(u16::try_from(total_len).unwrap_or(u16::MAX).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 6, 0, 0]);
    frame.extend(from.into_iter().chain(to));
    frame.extend(ports.into_iter().flat_map(u16::to_be_bytes));
    frame.extend(seq.to_be_bytes());
    frame.extend(ack.to_be_bytes());
    frame.extend([0xa0, flags, 0xff, 0xff, 0, 0, 0, 0]);
    frame.extend(options);
    frame
}

fn one_tap(bytes: &[u8], records: &[Record], options: TapOptions) {
    let mut tap = FlightTap::new(options);
    tap.take(&Batch { bytes, records, tick: None });
    assert_eq!(tap.counts().received(), records.len() as u64);
    let ways: Vec<_> = tap.flows().collect();
    let mut slots = Vec::new();
    for way in &ways {
        tap.slots(way, &mut slots);
        slots.iter().for_each(check_slot);
    }
    let walk = Walk::new(options.clock, PERIOD_LEN, 0);
    let Some(first) = tap.earliest() else { return };
    let latest = options.clock.slot(tap.latest());
    let mut begin = walk.begin_of(first);
    let mut looks = 0;
    while begin <= latest {
        let is_worth = walk.is_worth(begin, |slots| tap.has_slot(&slots));
        let is_told = is_worth && !tap.periods(walk.period(begin)).is_empty();
        let next = walk.next(walk.period(begin).end(), is_told, |from| tap.next_slot(from), latest);
        assert!(next > begin, "time goes on");
        begin = next;
        tap.forget_before(options.clock.start(begin));
        looks += 1;
    }
    assert!(looks <= (records.len() + 1) * LOOKS_PER_PACKET, "{looks} looks");
}

fn check_slot(slot: &FlightSlot) {
    assert!(slot.flight_bytes <= slot.flight_max_bytes, "{slot:?}");
    assert!(slot.flight_max_bytes <= WINDOW_MAX_BYTES, "{slot:?}");
    assert!(slot.sacked_bytes <= WINDOW_MAX_BYTES, "{slot:?}");
    assert!(slot.resent_bytes <= slot.sent_bytes, "{slot:?}");
    assert!(slot.lost_segments <= slot.resent_segments, "{slot:?}");
}

fn two_taps(made: &Made, options: TapOptions) {
    let mut pair = Pair::new(options);
    let [ingress, egress] = &made.taps;
    pair.ingress.take(&Batch { bytes: &made.bytes, records: ingress, tick: None });
    pair.egress.take(&Batch { bytes: &made.bytes, records: egress, tick: None });
    let received = pair.ingress.counts().received() + pair.egress.counts().received();
    assert_eq!(received, (ingress.len() + egress.len()) as u64);
    let rules = Rules {
        passed: if ingress.len() % 2 == 0 { Passed::Highest } else { Passed::First },
        empty: Empty::Next,
        throughput: Throughput::Counted,
    };
    let walk = Walk::new(options.clock, PERIOD_LEN, 1);
    let Some(first) = pair.ingress.earliest() else { return };
    let latest = options.clock.slot(pair.ingress.latest().max(pair.egress.latest()));
    let mut begin = walk.begin_of(options.clock.slot(first));
    let mut looks = 0;
    while begin <= latest {
        let period = walk.period(begin);
        let is_worth = walk.is_worth(begin, |slots| pair.has_slot(&slots));
        let is_told = is_worth && told(&mut pair, period, rules);
        let next = walk.next(period.end(), is_told, |from| pair.next_slot(from), latest);
        assert!(next > begin, "time goes on");
        begin = next;
        pair.forget_before(options.clock.start(begin));
        looks += 1;
    }
    assert!(looks <= (ingress.len() + egress.len() + 1) * LOOKS_PER_PACKET, "{looks} looks");
}

/// Whether a flow brought anything, or waits.
fn told(pair: &mut Pair, period: Period, rules: Rules) -> bool {
    let mut is_told = false;
    let mut seen = HashSet::new();
    for (way, _) in pair.by_weight(period) {
        assert!(seen.insert(way), "once each");
        let flow = pair.flow(way, period, rules);
        is_told |= flow.ingress_bytes > 0;
        if let Ok(queue) = flow.queue {
            assert!(queue.cbiq_mean <= queue.cbiq_max * 1.000_001 && queue.drops.is_finite());
            // Both taps' numbers lie within half of all that there are.
            assert!(queue.cbiq_max <= 4_294_967_296.0, "{queue:?}");
            is_told |= queue.cbiq_max > 0.0;
        }
    }
    is_told
}
