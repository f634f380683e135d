use packet::wire::tcp::SeqNumber;
use packet::{SlotClock, Span, TapSlot, Timestamp};
use proptest::prelude::*;

use super::*;
use crate::segment::Segment;
use crate::tap::TapFlow;

/// The packets of the paper's Table I (a): time in milliseconds, sequence number, length.
const INGRESS: [(i64, u32, u32); 10] = [
    (101, 1600, 100),
    (101, 1700, 200),
    (102, 1900, 100),
    (102, 2000, 100),
    (102, 2100, 100),
    (103, 2200, 100),
    (103, 2300, 100),
    (105, 2400, 100),
    (106, 2500, 100),
    (106, 2600, 100),
];
const EGRESS: [(i64, u32, u32); 7] = [
    (102, 1300, 100),
    (102, 1400, 200),
    (103, 1600, 100),
    (103, 1700, 200),
    (104, 1900, 100),
    (106, 2000, 100),
    (106, 2100, 100),
];

/// Which of them are printed in bold is lost in the text. These give the printed columns, and of
/// those that no column depends on, any may be.
const SAMPLED_INGRESS: [(i64, u32, u32); 4] =
    [(101, 1700, 200), (102, 2000, 100), (103, 2300, 100), (106, 2600, 100)];
const SAMPLED_EGRESS: [(i64, u32, u32); 3] = [(102, 1300, 100), (103, 1700, 200), (106, 2100, 100)];

fn clock() -> SlotClock {
    SlotClock::new(Span::from_ns(1_000_000))
}

fn slots(packets: &[(i64, u32, u32)]) -> Vec<TapSlot> {
    let mut flow = TapFlow::default();
    let mut slots: Vec<TapSlot> = packets
        .iter()
        .filter_map(|&(time, seq, data_len)| {
            let time = Timestamp::from_ns(time * 1_000_000);
            let seq = SeqNumber(seq);
            let segment = Segment { time, seq, data_len, segments: 1, ..Segment::default() };
            flow.add(clock(), &segment)
        })
        .collect();
    slots.extend(flow.open());
    slots
}

fn columns(
    window: Window<'_>,
    inputs: &[Input],
    rules: Rules,
) -> Result<Vec<Vec<f32>>, MissingReason> {
    let mut rows = Vec::new();
    window.fill(inputs, rules, &mut Scratch::default(), &mut rows)?;
    let column = |at| rows.iter().skip(at).step_by(inputs.len()).copied().collect();
    Ok((0..inputs.len()).map(column).collect())
}

fn table(ingress: &[TapSlot], egress: &[TapSlot], rules: Rules) -> Vec<Vec<f32>> {
    let window = Window { start: 101, len: 5, ingress, egress };
    columns(window, &[Input::Cbiq, Input::IngressBytes], rules).unwrap()
}

fn rounded(values: &[f32]) -> Vec<i64> {
    #[allow(clippy::cast_possible_truncation)]
    values.iter().map(|value| value.round() as i64).collect()
}

#[test]
fn table_i_without_sampling_is_the_papers() {
    let found = table(&slots(&INGRESS), &slots(&EGRESS), Rules::default());
    assert_eq!(rounded(&found[0]), [600, 600, 500, 400, 500]);
    // Bytes that came in slots 101 to 105. The paper prints those of the slot after, 300, 200, 0
    // and 100: its columns are those of InSeq(t + 1), and it subtracts them as if of InSeq(t).
    assert_eq!(rounded(&found[1]), [300, 300, 200, 0, 100]);
    let by_sequence = Rules { throughput: Throughput::Sequence, ..Rules::default() };
    let found = table(&slots(&INGRESS), &slots(&EGRESS), by_sequence);
    assert_eq!(rounded(&found[1]), [300, 300, 200, 0, 100]);
}

#[test]
fn table_i_with_sampling_is_the_papers() {
    let found = table(&slots(&SAMPLED_INGRESS), &slots(&SAMPLED_EGRESS), Rules::SAMPLED);
    assert_eq!(rounded(&found[0]), [700, 600, 567, 533, 500]);
    // Printed a slot early again: 300, 100, 100, 100.
    assert_eq!(rounded(&found[1]), [300, 300, 100, 100, 100]);
}

#[test]
fn what_was_sent_again_puts_the_papers_rule_back_and_not_the_highest() {
    let ingress = slots(&[(1, 1000, 100), (2, 1100, 100), (3, 1000, 100), (4, 1200, 100)]);
    let egress = slots(&[(2, 1000, 100), (4, 1100, 100)]);
    let window = Window { start: 1, len: 3, ingress: &ingress, egress: &egress };
    let first = columns(window, &[Input::Cbiq], Rules::default()).unwrap();
    assert_eq!(rounded(&first[0]), [100, 0, 100]);
    let highest = Rules { passed: ProgressRule::Highest, ..Rules::default() };
    let highest = columns(window, &[Input::Cbiq], highest).unwrap();
    assert_eq!(rounded(&highest[0]), [100, 100, 100]);
}

#[test]
fn losses_are_what_is_missing_behind_the_queue_alone() {
    // 1200 is lost before the first tap, 1400 in the queue.
    let ingress =
        slots(&[(1, 1000, 100), (1, 1100, 100), (2, 1300, 100), (3, 1400, 100), (3, 1500, 100)]);
    let egress = slots(&[(2, 1000, 100), (3, 1100, 100), (4, 1300, 100), (5, 1500, 100)]);
    let window = Window { start: 1, len: 6, ingress: &ingress, egress: &egress };
    let drops = columns(window, &[Input::Drops], Rules::default()).unwrap();
    assert_eq!(rounded(&drops[0]), [0, 0, 0, 0, 1, 0]);
}

/// Losses in a window over all of a run of packets of 100 bytes.
fn lost(ingress: &[(i64, u32)], egress: &[(i64, u32)]) -> i64 {
    let of = |packets: &[(i64, u32)]| {
        let packets: Vec<_> = packets.iter().map(|&(ms, seq)| (ms, seq, 100)).collect();
        slots(&packets)
    };
    let (ingress, egress) = (of(ingress), of(egress));
    let window = Window { start: 0, len: 100, ingress: &ingress, egress: &egress };
    let drops = columns(window, &[Input::Drops], Rules::default()).unwrap();
    rounded(&drops[0]).iter().sum()
}

#[test]
fn a_tap_that_begins_at_a_retransmission_has_not_lost_what_passed_before_it() {
    let whole = [(1, 1000), (2, 1100), (3, 1200), (4, 1300), (5, 1400)];
    let again = [(6, 1100), (7, 1500), (8, 1600), (9, 1700)];
    let ingress = [&whole[..], &again].concat();
    // 1600 is lost in the queue.
    let egress = [(6, 1100), (8, 1500), (10, 1700)];
    // All that is below 1500 left before the downstream tap began.
    assert_eq!(lost(&ingress, &egress), 1);
    // The same in one slot; of 1700 it is not known whether it left before.
    assert_eq!(lost(&ingress, &[(9, 1100), (9, 1500), (9, 1700)]), 0);
    // Both begin there, or upstream after what the downstream tap begins with.
    assert_eq!(lost(&again, &egress), 1);
    assert_eq!(lost(&again[1..], &egress), 1);
}

#[test]
fn what_passed_before_the_upstream_tap_began_hides_no_loss() {
    // The upstream tap begins at a retransmission; 1600 and 1800 are lost in the queue.
    let ingress = [(6, 1100), (7, 1500), (8, 1600), (9, 1700), (10, 1800), (11, 1900)];
    let before = [(2, 1000), (3, 1100), (4, 1200), (5, 1300), (6, 1400)];
    let egress = [&before[..], &[(7, 1100), (8, 1500), (10, 1700), (12, 1900)]].concat();
    assert_eq!(lost(&ingress, &egress), 2);
}

#[test]
fn a_flow_that_one_tap_does_not_see_has_no_cbiq() {
    let seen = slots(&INGRESS);
    let of = |ingress, egress| {
        columns(Window { start: 101, len: 5, ingress, egress }, &[Input::Cbiq], Rules::default())
    };
    assert_eq!(of(&seen, &[]), Err(MissingReason::Egress));
    assert_eq!(of(&[], &seen), Err(MissingReason::Ingress));
    let other: Vec<TapSlot> = seen
        .iter()
        .map(|slot| TapSlot { high_seq: slot.high_seq.wrapping_add(1 << 31), ..*slot })
        .collect();
    assert_eq!(of(&seen, &other), Err(MissingReason::Apart));
}

#[test]
fn what_was_seen_before_the_window_stands_for_an_empty_one() {
    let (ingress, egress) = (slots(&INGRESS), slots(&EGRESS));
    let window = Window { start: 200, len: 3, ingress: &ingress, egress: &egress };
    let cbiq = columns(window, &[Input::Cbiq, Input::IngressBytes], Rules::default()).unwrap();
    // 2700 is the end of what came, 2200 of what left.
    assert_eq!(rounded(&cbiq[0]), [500, 500, 500]);
    assert_eq!(rounded(&cbiq[1]), [0, 0, 0]);
}

#[test]
fn ports_that_are_used_again_are_another_flow() {
    let mut flow = TapFlow::default();
    let mut seen = Vec::new();
    let at = |ms: i64, seq, data_len, opens| Segment {
        time: Timestamp::from_ns(ms * 1_000_000),
        seq: SeqNumber(seq),
        data_len,
        segments: 1,
        opens,
        ..Segment::default()
    };
    for segment in
        [at(1, 5_000, 100, false), at(2, 9_000_000, 0, true), at(3, 9_000_001, 100, false)]
    {
        seen.extend(flow.add(clock(), &segment));
    }
    seen.extend(flow.open());
    assert_eq!(seen.iter().map(|slot| slot.began()).collect::<Vec<_>>(), [false, true]);
    assert_eq!(seen[1].skipped_bytes, 0);
}

/// Slots of packets of 100 bytes, by slot and first byte; those of `opens` begin a connection.
fn connections(packets: &[(i64, u32)], opens: &[(i64, u32)]) -> Vec<TapSlot> {
    let mut flow = TapFlow::default();
    let mut all: Vec<_> = opens.iter().map(|&(ms, seq)| (ms, seq, 0)).collect();
    all.extend(packets.iter().map(|&(ms, seq)| (ms, seq, 100)));
    all.sort_by_key(|&(ms, _, data_len)| (ms, data_len));
    let mut seen = Vec::new();
    for (ms, seq, data_len) in all {
        let time = Timestamp::from_ns(ms * 1_000_000);
        let (seq, opens) = (SeqNumber(seq), data_len == 0);
        let segment = Segment { time, seq, data_len, segments: 1, opens, ..Segment::default() };
        seen.extend(flow.add(clock(), &segment));
    }
    seen.extend(flow.open());
    seen
}

/// CBIQ of each slot, which both ways to compute it agree on.
fn cbiq(window: Window<'_>) -> Result<Vec<i64>, MissingReason> {
    let found = columns(window, &[Input::Cbiq], Rules::default());
    let seen = window.in_queue(Rules::default(), &mut Scratch::default());
    let highest = |rows: &Vec<Vec<f32>>| rounded(&rows[0]).into_iter().max().unwrap();
    let highest = found.as_ref().map(highest).map_err(|&missing| missing);
    assert_eq!(seen.map(|seen| seen.cbiq_max.round() as i64), highest);
    found.map(|rows| rounded(&rows[0]))
}

#[test]
fn what_left_of_the_connection_before_says_nothing_about_the_next() {
    // Ports are used again, with numbers near those before.
    let ingress = connections(&[(1, 1000), (2, 1100), (5, 50_001), (6, 50_101)], &[(5, 50_000)]);
    let before = connections(&[(2, 1000), (3, 1100)], &[]);
    let window = Window { start: 1, len: 6, ingress: &ingress, egress: &before };
    assert_eq!(cbiq(window), Err(MissingReason::Egress));
    // It does up to the new connection, and the new one does from its first packet on.
    assert_eq!(cbiq(Window { len: 3, ..window }), Ok(vec![100, 100, 0]));
    let egress = connections(&[(2, 1000), (3, 1100), (8, 50_001)], &[(7, 50_000)]);
    let window = Window { start: 5, len: 4, egress: &egress, ..window };
    assert_eq!(cbiq(window), Ok(vec![100, 200, 200, 100]));
    // Taps that saw some packets alone see it begin at different ones.
    let window = Window { start: 1, len: 6, egress: &before, ..window };
    assert!(columns(window, &[Input::Cbiq], Rules::SAMPLED).is_ok());
}

#[test]
fn an_opening_packet_that_the_queue_lost_begins_no_other_connection() {
    let ingress = connections(&[(1, 1000), (2, 1100), (4, 1200), (5, 1300)], &[(4, 999)]);
    let egress = connections(&[(2, 1000), (3, 1100), (5, 1200)], &[]);
    let window = Window { start: 4, len: 2, ingress: &ingress, egress: &egress };
    assert_eq!(cbiq(window), Ok(vec![100, 100]));
}

proptest! {
    /// Whatever a window begins with, and wherever numbers wrap, it shows what all bytes together
    /// tell, as long as nothing is lost or retransmitted.
    #[test]
    fn cbiq_is_what_came_less_what_left(
        packets in prop::collection::vec((0_i64..3, 1_u32..3000, 0_i64..9), 1..80),
        begin in any::<u32>(),
        start in 0_i64..40,
        len in 1_usize..60,
        rule in prop::sample::select(vec![ProgressRule::First, ProgressRule::Highest]),
    ) {
        let (mut time, mut seq, mut left) = (0, begin, 0);
        let (mut ingress, mut egress) = (Vec::new(), Vec::new());
        for &(gap, data_len, wait) in &packets {
            time += gap;
            left = (time + wait).max(left);
            ingress.push((time, seq, data_len));
            egress.push((left, seq, data_len));
            seq = seq.wrapping_add(data_len);
        }
        let passed = |packets: &[(i64, u32, u32)], end: i64| -> i64 {
            packets.iter().filter(|packet| packet.0 <= end).map(|packet| i64::from(packet.2)).sum()
        };
        let (ingress_slots, egress_slots) = (slots(&ingress), slots(&egress));
        let window =
            Window { start, len, ingress: &ingress_slots, egress: &egress_slots };
        let rules = Rules { passed: rule, ..Rules::default() };
        match columns(window, &[Input::Cbiq, Input::IngressBytes, Input::EgressBytes], rules) {
            Ok(found) => {
                for (at, slot) in (start..start + len as i64).enumerate() {
                    // What is not seen to leave within the window is not known to be there.
                    let came = passed(&ingress, slot);
                    let gone = passed(&egress, slot);
                    prop_assert_eq!(found[0][at] as i64, came - gone, "slot {}", slot);
                }
            }
            Err(missing) => {
                let end = start + len as i64;
                let seen = if missing == MissingReason::Ingress { &ingress } else { &egress };
                prop_assert!(seen.iter().all(|packet| packet.0 > end));
            }
        }
    }

    /// Windows one after the other count each loss of the queue once, and none that never came to
    /// it, however long packets wait.
    #[test]
    fn losses_of_windows_add_up_to_those_of_the_queue(
        packets in prop::collection::vec((0_i64..3, 0_u8..10, 0_i64..60), 1..150),
        len in 1_usize..50,
    ) {
        const BYTES: u32 = 100;
        let (mut time, mut seq, mut left, mut lost) = (0, 1000, 0, 0);
        let (mut ingress, mut egress) = (Vec::new(), Vec::new());
        let ends = (0..3).map(|_| (1, 9, 0));
        for (gap, fate, wait) in [(0, 9, 0)].into_iter().chain(packets).chain(ends) {
            time += gap;
            left = (time + wait).max(left);
            // One in ten never comes to the queue, which drops another of them.
            if fate > 0 {
                ingress.push((time, seq, BYTES));
            }
            match fate {
                0 => {}
                1 => lost += 1,
                _ => egress.push((left, seq, BYTES)),
            }
            seq += BYTES;
        }
        let (ingress, egress) = (slots(&ingress), slots(&egress));
        let mut found = 0.0;
        for start in (0..=left).step_by(len) {
            let window = Window { start, len, ingress: &ingress, egress: &egress };
            window.drops(&mut |_, drops| found += drops);
        }
        prop_assert_eq!(found.round() as i64, lost);
    }

    /// Wherever the taps begin in a flow that retransmits what was lost, they find no loss that
    /// was none.
    #[test]
    fn taps_that_begin_in_the_middle_find_no_loss_that_was_none(
        packets in prop::collection::vec((0_i64..3, 0_u8..12, 0_i64..9), 1..150),
        begins in (0_i64..150, 0_i64..150),
        len in 1_usize..50,
    ) {
        const BYTES: u32 = 100;
        let (mut time, mut seq, mut left, mut lost) = (0, 1000, 0, 0);
        let (mut ingress, mut egress, mut again) = (Vec::new(), Vec::new(), Vec::new());
        let ends = (0..3).map(|_| (1, 9, 0));
        for (gap, fate, wait) in [(0, 9, 0)].into_iter().chain(packets).chain(ends) {
            time += gap;
            left = (time + wait).max(left);
            // What was lost is retransmitted later, and arrives.
            let sent = if fate == 2 { again.pop() } else { None };
            let at = sent.unwrap_or(seq);
            seq += if sent.is_none() { BYTES } else { 0 };
            if fate > 0 {
                ingress.push((time, at, BYTES));
            }
            match fate {
                0 => again.push(at),
                1 => {
                    lost += 1;
                    again.push(at);
                }
                _ => egress.push((left, at, BYTES)),
            }
        }
        let from = |packets: &[(i64, u32, u32)], begin| {
            let seen = packets.iter().filter(|packet| packet.0 >= begin);
            slots(&seen.copied().collect::<Vec<_>>())
        };
        let (ingress, egress) = (from(&ingress, begins.0), from(&egress, begins.1));
        let mut found = 0.0;
        for start in (0..=left).step_by(len) {
            let window = Window { start, len, ingress: &ingress, egress: &egress };
            window.drops(&mut |_, drops| found += drops);
        }
        let found = found.round() as i64;
        prop_assert!(found <= lost, "{} of {}", found, lost);
    }
}
