//! Whatever numbers and stamps packets have, what is kept of them stays within one window.

use packet::wire::tcp::SeqNumber;
use packet::{FlowDirection, FlowKey, Protocol, SlotClock, Span, Timestamp};
use proptest::prelude::*;

use super::tap::Passing;
use super::*;
use crate::segment::{FlowWay, Segment};
use crate::{TapOptions, Walk};
use packet::reach::WINDOW_MAX_BYTES;

fn tap() -> FlightTap {
    FlightTap::new(TapOptions {
        clock: SlotClock::new(Span::from_ns(1_000_000)),
        flow_count_max: 4,
        kept: Span::from_seconds(11),
        sampler: None,
    })
}

fn way(port: u16, direction: FlowDirection) -> FlowWay {
    let ends = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
    let (key, _) = FlowKey::from_tuple(ends.0, ends.1, port, 80, Protocol::TCP);
    FlowWay { key, direction }
}

#[derive(Clone, Debug)]
struct Made {
    is_back: bool,
    is_opening: bool,
    wait_ms: i64,
    seq: u32,
    data_len: u32,
    ack: Option<(u32, [(u32, u32); 2])>,
}

fn put(tap: &mut FlightTap, now_ns: i64, made: &Made) {
    let direction = if made.is_back { FlowDirection::HighToLow } else { FlowDirection::LowToHigh };
    let time = Timestamp::from_ns(now_ns);
    let segment = Segment {
        time,
        seq: SeqNumber(made.seq),
        data_len: made.data_len,
        segments: u32::MAX / 2,
        opens: made.is_opening,
        ..Segment::default()
    };
    let ack = made.ack.map(|(number, blocks)| {
        let mut found = [None; 4];
        for (place, (start, end)) in found.iter_mut().zip(blocks) {
            *place = Some((SeqNumber(start), SeqNumber(end)));
        }
        Ack { time, number: SeqNumber(number), blocks: found, ticks: None }
    });
    let segment = (made.data_len > 0 || made.is_opening).then_some(segment);
    tap.add(&Passing { way: way(1, direction), time, segment, ack, is_cut: false });
}

/// Around the corners at which 32 bits, a window and half of all numbers end.
fn number() -> impl Strategy<Value = u32> {
    let corner = prop_oneof![
        Just(0_u32),
        Just(1 << 30),
        Just(1 << 31),
        Just(3 << 30),
        Just((1 << 30) - 1500),
    ];
    prop_oneof![
        any::<u32>(),
        0_u32..5_000,
        (corner, -3_i32..3_000).prop_map(|(corner, off)| corner.wrapping_add_signed(off)),
    ]
}

fn made() -> impl Strategy<Value = Made> {
    let blocks = [(number(), number()), (number(), number())];
    (
        (any::<bool>(), prop::bool::weighted(0.05), 0_i64..4_000),
        (number(), prop_oneof![Just(0_u32), 1_u32..3_000, Just(65_000), Just(u32::MAX)]),
        prop::option::of((number(), blocks)),
    )
        .prop_map(|((is_back, is_opening, wait_ms), (seq, data_len), ack)| Made {
            is_back,
            is_opening,
            wait_ms,
            seq,
            data_len,
            ack,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_kept_stays_within_one_window(packets in prop::collection::vec(made(), 1..120)) {
        let mut tap = tap();
        let mut now_ns = 1_700_000_000_000_000_000;
        for made in &packets {
            now_ns += made.wait_ms * 1_000_000;
            put(&mut tap, now_ns, made);
        }
        prop_assert_eq!(tap.counts().received(), packets.len() as u64);
        let ways: Vec<_> = tap.flows().collect();
        for way in ways {
            let mut slots = Vec::new();
            tap.slots(&way, &mut slots);
            for slot in slots {
                prop_assert!(slot.flight_max_bytes <= WINDOW_MAX_BYTES, "{:?}", slot);
                prop_assert!(slot.sacked_bytes <= WINDOW_MAX_BYTES, "{:?}", slot);
                prop_assert!(slot.resent_bytes <= slot.sent_bytes, "{:?}", slot);
            }
        }
    }

    #[test]
    fn skipping_tells_what_visiting_tells(
        packets in prop::collection::vec(
            (any::<bool>(), prop_oneof![
                4 => 0_i64..300, 2 => 300_i64..3_000, 1 => 3_000_i64..30_000,
            ], 0_u32..20_000, 1_u32..3_000),
            1..24,
        ),
        period_len in prop_oneof![Just(100_usize), Just(1_000), Just(7_000)],
    ) {
        let walked = |skips: bool| {
            let mut tap = tap();
            let mut now_ns = 1_700_000_000_123_000_000;
            for &(is_back, wait_ms, seq, len) in &packets {
                now_ns += wait_ms * 1_000_000;
                let ack = is_back.then_some((seq, [(0, 0); 2]));
                let data_len = if is_back { 0 } else { len };
                let made =
                    Made { is_back, is_opening: false, wait_ms, seq, data_len, ack };
                put(&mut tap, now_ns, &made);
            }
            rows(&mut tap, period_len, skips)
        };
        prop_assert_eq!(walked(false), walked(true));
    }
}

fn rows(tap: &mut FlightTap, period_len: usize, skips: bool) -> Vec<(i64, Vec<FlightPeriod>)> {
    let clock = tap.options().clock;
    let walk = Walk::new(clock, period_len, 0);
    let mut found = Vec::new();
    let Some(first) = tap.earliest() else { return found };
    let latest = clock.slot(tap.latest());
    let mut begin = walk.begin_of(first);
    while begin <= latest {
        let period = walk.period(begin);
        let is_worth = walk.is_worth(begin, |slots| tap.has_slot(&slots));
        let seen = if is_worth { tap.periods(period) } else { Vec::new() };
        let is_told = !seen.is_empty();
        if is_told {
            found.push((begin, seen));
        }
        begin = if skips {
            walk.next(period.end(), is_told, |from| tap.next_slot(from), latest)
        } else {
            period.end()
        };
        tap.forget_before(clock.start(begin));
    }
    found
}

#[test]
fn what_fits_no_window_is_counted_by_its_cause() {
    let mut tap = tap();
    let data =
        |seq| Made { is_back: false, is_opening: false, wait_ms: 0, seq, data_len: 100, ack: None };
    let ack = |number| Made {
        is_back: true,
        is_opening: false,
        wait_ms: 0,
        seq: 0,
        data_len: 0,
        ack: Some((number, [(0, 0); 2])),
    };
    for (at, made) in [data(0), ack(100), ack(2 << 30), data(2 << 30), ack(100)].iter().enumerate()
    {
        put(&mut tap, at as i64, made);
    }
    let counts = tap.counts();
    assert_eq!((counts.data, counts.begun_again), (2, 1));
    assert_eq!((counts.acks, counts.out_of_window), (1, 2));
    assert_eq!(counts.received(), 5);
}

#[test]
fn all_flows_forget_alike_where_they_send_more_than_there_is_room_for() {
    let mut tap = tap().with_slots_max(1_000);
    let ways = [1, 2].map(|port| way(port, FlowDirection::LowToHigh));
    let mut slots = Vec::new();
    for ms in 0..20_000_i64 {
        let time = Timestamp::from_ns(ms * 1_000_000);
        // The second begins when the first has filled all of the room already.
        for way in ways.iter().take(if ms < 5_000 { 1 } else { 2 }) {
            let seq = SeqNumber(u32::try_from(ms).unwrap() * 10);
            let segment = Segment { time, seq, data_len: 10, segments: 1, ..Segment::default() };
            tap.add(&Passing { way: *way, time, segment: Some(segment), ack: None, is_cut: false });
        }
        tap.make_room(ms - 50);
        tap.slots(&ways[0], &mut slots);
        assert!(slots.len() <= 1_001);
    }
    let lens = ways.map(|way| {
        tap.slots(&way, &mut slots);
        slots.len()
    });
    assert!(lens[0].abs_diff(lens[1]) <= 1 && (100..=501).contains(&lens[0]), "{lens:?}");
    let now = slots.last().unwrap().slot;
    assert_eq!((now, slots[0].slot), (19_999, 20_000 - i64::try_from(lens[1]).unwrap()));
    assert!((34_000..35_000).contains(&tap.forgotten_early()), "{}", tap.forgotten_early());
    // What is needed stays, and the last before it, which shows what was in flight.
    let mut tap = tap.with_slots_max(10);
    tap.make_room(19_900);
    tap.slots(&ways[0], &mut slots);
    assert_eq!(slots.len(), 101);
}
