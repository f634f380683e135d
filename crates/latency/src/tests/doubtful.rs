//! Packets of which it is doubtful which copy was answered, or whether any was.

use packet::wire::dns::Dns;

use super::*;

#[test]
fn an_echo_of_any_copy_is_none_of_the_first_packet() {
    let mut flow = alone();
    for (ms, ticks) in [(0, 1), (300, 10), (900, 20)] {
        flow.data(ms, 0, Some(ticks));
    }
    flow.ack(920, 1000, Some(10));
    assert_eq!(
        flow.found(),
        [
            (0, Err(MissingReason::Lost)),
            (0, Ok((620, Method::AckTimestamp, AckDelay::No))),
            (0, Err(MissingReason::Needless)),
        ]
    );
}

#[test]
fn a_copy_without_room_makes_echoes_say_nothing() {
    let mut flow = Alone::new(Limits { waiting_max: 4, ..Limits::default() });
    flow.data(0, 0, Some(1));
    // No room for a copy, and then for one.
    flow.data(300, 0, Some(10));
    flow.packets = Budget::new(8);
    assert!(flow.packets.take(4));
    flow.data(900, 0, Some(20));
    flow.ack(920, 1000, Some(10));
    let found = flow.found();
    assert_eq!(found[0], (0, Err(MissingReason::NoRoom)));
    assert_eq!(found[1], (0, Err(MissingReason::Ambiguous)));
}

#[test]
fn an_echo_is_that_of_the_left_edge_and_says_nothing_of_what_lies_beyond() {
    let mut flow = alone();
    flow.data(0, 0, Some(1));
    flow.data(1, 1000, Some(2));
    // The receiver waits with its acknowledgement; the second packet is lost, and its copy fills
    // the window. The echo is that of the first one, which came in time.
    flow.data(60, 1000, Some(9));
    flow.ack(80, 2000, Some(1));
    assert_eq!(
        flow.found(),
        [
            (0, Ok((80, Method::Ack, AckDelay::Covered))),
            (1000, Err(MissingReason::Ambiguous)),
            (1000, Err(MissingReason::Ambiguous)),
        ]
    );
    assert_eq!(flow.flow.ways[0].rtt.count, 0);
}

#[test]
fn a_byte_that_is_retransmitted_is_no_keep_alive() {
    let mut flow = alone();
    flow.data(0, 0, None);
    flow.ack(20, 1000, None);
    flow.send(100, UP, data(1000, 1));
    flow.send(300, UP, data(1000, 1));
    flow.ack(320, 1001, None);
    // Acknowledged, it asks whether the other side is there.
    flow.send(9_000, UP, data(1000, 1));
    let totals = flow.flow.ways[0].totals;
    assert_eq!((totals.retransmissions, totals.keep_alives), (1, 1));
    let ambiguous = (1000, Err(MissingReason::Ambiguous));
    assert_eq!(flow.found()[1..], [ambiguous, ambiguous]);
}

#[test]
fn a_connection_whose_number_is_lower_begins_again() {
    let mut flow = alone();
    flow.data(0, 1_000_000, None);
    flow.ack(20, 1_001_000, None);
    let syn = Segment { payload_len: 0, flags: TcpFlags::SYN, ..data(900_000, 1) };
    flow.send(100, UP, syn);
    flow.send(1_100, UP, syn);
    flow.ack(1_120, 900_001, None);
    flow.data(1_130, 900_001, None);
    flow.ack(1_150, 901_001, None);
    assert_eq!(flow.flow.ways[0].totals.retransmissions, 1);
    assert_eq!(flow.found().last(), Some(&(900_001, Ok((20, Method::Ack, AckDelay::No)))));
}

#[test]
fn more_data_than_a_window_without_acknowledgements_does_not_end_measuring() {
    let (mut flow, len) = (alone(), 1 << 29);
    flow.data(0, 0, None);
    flow.ack(20, 1000, None);
    // 3 GiB, while the other direction is not captured.
    let mut seq = 1000_u32;
    for number in 0..6 {
        flow.send(100 + number, UP, data(seq, len));
        seq = seq.wrapping_add(len);
    }
    flow.ack(130, seq, None);
    let found = flow.found();
    let unanswered = found.iter().filter(|(_, found)| *found == Err(MissingReason::NoAnswer));
    assert_eq!((unanswered.count(), found.len()), (4, 7));
    assert_eq!(found.last().unwrap().1, Ok((25, Method::Ack, AckDelay::No)));
    assert_eq!(flow.packets.used(), 0);
}

#[test]
fn every_copy_of_a_syn_is_one_without_a_latency() {
    let at = |ms: i64, segment: Segment| Segment { time: Timestamp::from_ns(ms * MS), ..segment };
    let syn = Segment { payload_len: 0, flags: TcpFlags::SYN, ..data(99, 1) };
    let (mut opening, mut flow) = (Opening::default(), alone());
    for ms in [0, 1_000, 3_000, 7_000] {
        opening.add(&at(ms, syn), UP);
    }
    let syn_ack = TcpFlags::SYN | TcpFlags::ACK;
    opening.add(&at(7_020, Segment { ack: Some(SeqNumber(100)), flags: syn_ack, ..syn }), DOWN);
    flow.flow = flow.with(|_, context| Flow::opened(&opening, UP, context));
    let totals = flow.flow.ways[0].totals;
    assert_eq!((totals.packets, totals.retransmissions), (4, 3));
    assert_eq!(totals.missing[MissingReason::Ambiguous as usize], 4);
}

fn dns(flow: &mut Alone, ms: i64, number: u16, is_response: bool) {
    let mut bytes = [0; 12];
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    bytes[2] = if is_response { 0x80 } else { 0 };
    let time = Timestamp::from_ns(ms * MS);
    let packet = Waiting::of(&Segment { time, len: 12, ..Segment::default() });
    let direction = if is_response { DOWN } else { UP };
    let message = Dns::new(&bytes).unwrap();
    flow.with(|flow, context| flow.on_dns(&message, packet, direction, context));
}

#[test]
fn queries_that_are_never_answered_make_room_for_others() {
    let mut flow = alone();
    (0..64).for_each(|number| dns(&mut flow, number.into(), number, false));
    // They may still be answered.
    dns(&mut flow, 1_000, 100, false);
    dns(&mut flow, 31_000, 101, false);
    dns(&mut flow, 31_020, 101, true);
    // A number that comes again after so long is another query's.
    dns(&mut flow, 32_000, 7, false);
    dns(&mut flow, 32_030, 7, true);
    let found = flow.found();
    let answered: Vec<_> = found.iter().filter(|(_, found)| found.is_ok()).collect();
    let answer = |number, ms| (number, Ok((ms, Method::Dns, AckDelay::No)));
    assert_eq!(answered, [&answer(101, 20), &answer(7, 30)]);
    let of = |missing| found.iter().filter(|(_, found)| *found == Err(missing)).count();
    assert_eq!([of(MissingReason::NoRoom), of(MissingReason::NoAnswer)], [1, 64]);
    assert_eq!(flow.flow.ways[0].totals.packets, 67);
}

#[test]
fn queries_take_part_in_what_may_wait() {
    let mut flow = Alone::new(Limits { waiting_max: 8, ..Limits::default() });
    (0..20).for_each(|number| dns(&mut flow, 0, number, false));
    assert_eq!(flow.packets.used(), 8);
    (0..3).for_each(|number| dns(&mut flow, 20, number, true));
    assert_eq!(flow.packets.used(), 5);
    assert_eq!(flow.found().len(), 20);
    assert_eq!(flow.packets.used(), 0);
}

#[test]
fn every_copy_of_a_query_is_one_without_a_latency() {
    let mut flow = alone();
    for ms in [0, 1_000, 2_000] {
        dns(&mut flow, ms, 7, false);
    }
    dns(&mut flow, 2_020, 7, true);
    assert_eq!(flow.found(), [(7, Err(MissingReason::Ambiguous)); 3]);
    let copies = flow.out.0.iter().filter(|sample| sample.place == Place::Retransmission);
    assert_eq!(copies.count(), 2);
}

#[test]
fn of_several_new_blocks_one_packet_is_answered() {
    let mut flow = alone();
    for (ms, seq) in [(0, 0), (1, 1000), (2, 2000), (9, 3000)] {
        flow.data(ms, seq, None);
    }
    // The acknowledgement that had the first block alone was lost.
    let block = |start| Some((SeqNumber(start), SeqNumber(start + 1000)));
    flow.send(29, DOWN, Segment { blocks: [block(3000), block(1000), None, None], ..ack(0) });
    let found = flow.found();
    assert_eq!(found[0], (3000, Ok((20, Method::Sack, AckDelay::No))));
    assert_eq!(found[1], (1000, Ok((28, Method::Sack, AckDelay::Covered))));
    assert_eq!(flow.out.0[1].wait_ns, Some(8_000_000));
    assert_eq!(flow.flow.ways[0].rtt.count, 1);
}
