//! Traffic that somebody made up to harm whoever watches it: sequence numbers, acknowledgements,
//! blocks and stamps that no connection has. Nothing overflows, what is kept stays within one
//! window, each packet is counted once, and a gap in time is no work.
//!
//! Input: as `fuzz::hostile` reads it.
#![no_main]

use std::collections::HashSet;

use cca::flight::{FlightSlot, FlightTap};
use cca::inputs::{Empty, ProgressRule, Throughput};
use cca::{Pair, Period, Rules, TapOptions, Walk};
use fuzz::hostile::{TapFrames, made};
use fuzz::input::Input;
use libfuzzer_sys::fuzz_target;
use packet::reach::WINDOW_MAX_BYTES;
use packet::{Batch, Record, SlotClock, Span};

const SLOT: Span = Span::from_ns(1_000_000);
const PERIOD_LEN: usize = 1_000;
const FLOWS_MAX: usize = 3;
/// What waits is told on for ten periods; before and behind it a period may be empty.
const LOOKS_PER_PACKET: usize = 14;

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

fn two_taps(made: &TapFrames, options: TapOptions) {
    let mut pair = Pair::new(options);
    let [ingress, egress] = &made.taps;
    pair.ingress.take(&Batch { bytes: &made.bytes, records: ingress, tick: None });
    pair.egress.take(&Batch { bytes: &made.bytes, records: egress, tick: None });
    let received = pair.ingress.counts().received() + pair.egress.counts().received();
    assert_eq!(received, (ingress.len() + egress.len()) as u64);
    let rules = Rules {
        passed: if ingress.len() % 2 == 0 { ProgressRule::Highest } else { ProgressRule::First },
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
            assert!(queue.cbiq_mean <= queue.cbiq_max * 1.000_001);
            assert!(queue.drops.is_none_or(f64::is_finite));
            // Both taps' numbers lie within half of all that there are.
            assert!(queue.cbiq_max <= 4_294_967_296.0, "{queue:?}");
            is_told |= queue.cbiq_max > 0.0;
        }
    }
    is_told
}
