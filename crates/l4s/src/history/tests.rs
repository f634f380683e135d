use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;

fn packet(at_ns: u64, flow: u32) -> SentPacket {
    SentPacket { at_ns, flow, receiver: 1, size: 1_500 }
}

fn history() -> History {
    History::new(HistorySettings::default())
}

fn number(values: &[f32], names: &[&str], name: &str) -> f32 {
    let at = names.iter().position(|&one| one == name).unwrap();
    // Names before those that stand for several numbers.
    let wider = names[..at].iter().filter(|one| one.contains("(2)")).count();
    values[at + wider]
}

#[test]
fn an_acknowledgement_becomes_a_token_when_the_next_batch_begins() {
    let mut history = history();
    assert!(history.advance(0));
    let first = history.leave(&packet(0, 1), Queue::L4s);
    history.acknowledge(first, MS, Some(MS));
    assert!(!history.advance(MS + 1), "the batch takes packets for 2 ms");
    assert!(history.query(&packet(MS + 1, 1), Queue::L4s).base_ns.is_none());
    assert!(history.advance(3 * MS));
    assert_eq!(history.tokens().len(), 1);
    let query = history.query(&packet(3 * MS, 1), Queue::L4s);
    assert_eq!((query.base_ns, query.floor_ns), (Some(MS), Some(MS)));
    let since = number(&query.values, &QUERY_NAMES, "since the newest acknowledgement");
    assert!((since - 2_001_f32.ln() / 10.0).abs() < 1e-6, "{since}");
}

#[test]
fn a_batch_ends_after_so_many_packets() {
    let mut history = history();
    let began: Vec<bool> = (0..20)
        .map(|at| {
            let began = history.advance(at);
            history.leave(&packet(at, 1), Queue::L4s);
            began
        })
        .collect();
    assert!(began.iter().enumerate().all(|(at, &began)| began == (at % 8 == 0)));
}

#[test]
fn delays_are_above_the_least_latency() {
    let mut history = history();
    for (sent_ns, latency_ns) in [(0, 40 * MS), (100 * MS, 55 * MS), (200 * MS, 35 * MS)] {
        history.advance(sent_ns);
        let number = history.leave(&packet(sent_ns, 3), Queue::Classic);
        history.acknowledge(number, sent_ns + latency_ns, Some(latency_ns));
    }
    history.advance(300 * MS);
    assert_eq!(history.tokens().len(), 1);
    let [token] = history.tokens() else { panic!() };
    assert_eq!(number(token, &TOKEN_NAMES, "queueing delay"), 0.0);
    assert!((number(token, &TOKEN_NAMES, "change within the flow") + 0.2).abs() < 1e-6);
    assert_eq!(history.query(&packet(300 * MS, 3), Queue::L4s).base_ns, Some(35 * MS));
}

#[test]
fn packets_in_flight_are_counted_by_queue_and_flow() {
    let mut history = history();
    history.advance(0);
    for (flow, queue) in [(1, Queue::L4s), (1, Queue::Classic), (2, Queue::L4s)] {
        history.leave(&packet(0, flow), queue);
    }
    let query = history.query(&packet(0, 1), Queue::L4s);
    for (name, count) in
        [("in flight: L4S", 2.0_f32), ("in flight: classic", 1.0), ("in flight: flow", 2.0)]
    {
        // Three delays stand before them with two numbers each.
        let found = number(&query.values, &QUERY_NAMES, name);
        assert!((found - count.ln_1p() / 5.0).abs() < 1e-6, "{name}: {found}");
    }
    history.advance(4_000 * MS);
    assert_eq!(history.forgotten().unanswered, 3);
    let query = history.query(&packet(4_000 * MS, 1), Queue::L4s);
    assert_eq!(number(&query.values, &QUERY_NAMES, "in flight: flow"), 0.0);
}

#[test]
fn what_is_kept_is_bounded_and_what_is_let_go_is_counted() {
    let settings =
        HistorySettings { in_flight_max: 10, flows_max: 5, ..HistorySettings::default() };
    let mut history = History::new(settings);
    for at in 0..100 {
        history.advance(u64::from(at));
        history.leave(&packet(u64::from(at), at), Queue::L4s);
    }
    assert_eq!(history.in_flight.len(), 10);
    assert_eq!(history.flows.len(), 5);
    assert_eq!(
        history.forgotten(),
        EvictionCounts { unanswered: 0, no_room: 90, flow_no_room: 95 }
    );
    for _ in 0..1_000 {
        history.acknowledge(99, 100, Some(1));
    }
    assert!(history.answers.len() <= 10);
    // A minute later idle flows make room.
    history.advance(120_000 * MS);
    history.leave(&packet(120_000 * MS, 200), Queue::L4s);
    assert_eq!(history.forgotten().flow_no_room, 95);
}

/// Columns of a trace: gaps before each packet, latencies, whether they are answered, flows.
fn columns() -> impl Strategy<Value = Vec<(u64, u64, bool, u32, bool)>> {
    let one = (0..3 * MS, MS..80 * MS, proptest::bool::weighted(0.9), 0..3_u32, any::<bool>());
    proptest::collection::vec(one, 1..200)
}

fn trace(drawn: &[(u64, u64, bool, u32, bool)]) -> Vec<Packet> {
    let mut at_ns = 0;
    let packet =
        |&(gap_ns, latency_ns, is_answered, flow, is_l4s): &(u64, u64, bool, u32, bool)| {
            at_ns += gap_ns;
            Packet {
                leaving: packet(at_ns, flow),
                queue: if is_l4s { Queue::L4s } else { Queue::Classic },
                acked_ns: is_answered.then_some(at_ns + latency_ns),
                latency_ns: is_answered.then_some(latency_ns),
            }
        };
    drawn.iter().map(packet).collect()
}

fn read(packets: &[Packet]) -> Rows {
    rows(packets, HistorySettings::default()).unwrap()
}

/// Bits, since a time that is not known is NaN.
fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

proptest! {
    /// What a packet's row holds depends only on acknowledgements before its batch: every later
    /// latency may be another, and nothing of the row moves.
    #[test]
    fn no_row_depends_on_a_later_acknowledgement(
        drawn in columns(), at in any::<prop::sample::Index>(), other in MS..80 * MS,
    ) {
        let packets = trace(&drawn);
        let before = read(&packets);
        let at = at.index(packets.len());
        let known = before.known[at];
        // The packet's batch began no earlier than the first packet that saw as many tokens.
        let first = before.known.iter().position(|&one| one == known).unwrap();
        let (began_ns, left_ns) = (packets[first].leaving.at_ns, packets[at].leaving.at_ns);
        let changed: Vec<_> = packets.iter().map(|packet| {
            if packet.acked_ns.is_none_or(|acked_ns| acked_ns < began_ns) {
                return *packet;
            }
            let latency_ns = left_ns.saturating_sub(packet.leaving.at_ns).max(other);
            let acked_ns = Some(packet.leaving.at_ns + latency_ns);
            Packet { acked_ns, latency_ns: Some(latency_ns), ..*packet }
        }).collect();
        let after = read(&changed);
        let (count, tokens) = (at + 1, known as usize * TOKEN_LEN);
        let queries = count * QUERY_LEN;
        prop_assert_eq!(&before.known[..count], &after.known[..count]);
        prop_assert_eq!(bits(&before.tokens[..tokens]), bits(&after.tokens[..tokens]));
        prop_assert_eq!(bits(&before.queries[..queries]), bits(&after.queries[..queries]));
        prop_assert_eq!(bits(&before.base_ms[..count]), bits(&after.base_ms[..count]));
    }

    /// Every latency that a batch could see is one token.
    #[test]
    fn each_latency_is_one_token(drawn in columns()) {
        let packets = trace(&drawn);
        let rows = read(&packets);
        let last_ns = packets.last().unwrap().leaving.at_ns;
        let seen = packets.iter().filter(|one| one.acked_ns.is_some_and(|ns| ns < last_ns)).count();
        let known = *rows.known.last().unwrap() as usize;
        prop_assert!(known <= seen);
        prop_assert_eq!(rows.tokens.len(), known * TOKEN_LEN);
        prop_assert_eq!(rows.queries.len(), packets.len() * QUERY_LEN);
        prop_assert!(rows.tokens.iter().chain(&rows.queries).all(|value| value.is_finite()));
    }
}

#[test]
fn packets_out_of_order_are_refused() {
    let mut packets = trace(&[(5, MS, true, 0, true), (5, MS, true, 0, true)]);
    packets.swap(0, 1);
    let error = rows(&packets, HistorySettings::default()).unwrap_err();
    assert!(error.to_string().starts_with("packet 1 left before"), "{error}");
}
