use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;

fn packet(at_ns: u64, flow: u32) -> Leaving {
    Leaving { at_ns, flow, receiver: 1, size: 1_500 }
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
    assert_eq!(history.forgotten(), Forgotten { unanswered: 0, no_room: 90, flow_no_room: 95 });
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

struct Columns {
    sent: Vec<u64>,
    acked: Vec<u64>,
    latency: Vec<u64>,
    flow: Vec<u32>,
    queue: Vec<u8>,
    receiver: Vec<u32>,
    size: Vec<u32>,
}

impl Columns {
    fn of(packets: &[(u64, u64, bool, u32, bool)]) -> Self {
        let mut now = 0;
        let sent: Vec<u64> = packets
            .iter()
            .map(|one| {
                now += one.0;
                now
            })
            .collect();
        let or_never = |is_answered: bool, ns: u64| if is_answered { ns } else { u64::MAX };
        Self {
            acked: sent.iter().zip(packets).map(|(at, one)| or_never(one.2, at + one.1)).collect(),
            latency: packets.iter().map(|one| or_never(one.2, one.1)).collect(),
            flow: packets.iter().map(|one| one.3).collect(),
            queue: packets.iter().map(|one| u8::from(one.4)).collect(),
            receiver: vec![0; packets.len()],
            size: vec![1_500; packets.len()],
            sent,
        }
    }

    fn rows(&self) -> Rows {
        let trace = Trace {
            sent_ns: &self.sent,
            acked_ns: &self.acked,
            latency_ns: &self.latency,
            flow: &self.flow,
            receiver: &self.receiver,
            size: &self.size,
            queue: &self.queue,
        };
        rows(&trace, HistorySettings::default()).unwrap()
    }
}

/// Bits, since a time that is not known is NaN.
fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

proptest! {
    /// What a packet's row holds depends only on acknowledgements before its batch: every later
    /// latency may be another, and nothing of the row moves.
    #[test]
    fn no_row_depends_on_a_later_acknowledgement(packets in columns(), at in any::<prop::sample::Index>(), other in MS..80 * MS) {
        let columns = Columns::of(&packets);
        let before = columns.rows();
        let at = at.index(packets.len());
        // The batch of this packet began with the first packet that saw as many tokens, or later;
        // what is acknowledged from then on is changed.
        let began = (0..=at).rev().find(|&one| one == 0 || before.known[one - 1] != before.known[at]).unwrap();
        let mut changed = packets.clone();
        for (place, one) in changed.iter_mut().enumerate() {
            if columns.acked[place] >= columns.sent[began] && columns.acked[place] != u64::MAX {
                // Not before the batch.
                let least = columns.sent[at].saturating_sub(columns.sent[place]);
                one.1 = least.max(other);
            }
        }
        let after = Columns::of(&changed).rows();
        let (count, tokens) = (at + 1, before.known[at] as usize * TOKEN_LEN);
        prop_assert_eq!(&before.known[..count], &after.known[..count]);
        prop_assert_eq!(bits(&before.tokens[..tokens]), bits(&after.tokens[..tokens]));
        prop_assert_eq!(bits(&before.queries[..count * QUERY_LEN]), bits(&after.queries[..count * QUERY_LEN]));
        prop_assert_eq!(bits(&before.base_ms[..count]), bits(&after.base_ms[..count]));
    }

    /// Every latency whose acknowledgement a batch could see is a token, and only one.
    #[test]
    fn each_latency_is_one_token(packets in columns()) {
        let columns = Columns::of(&packets);
        let rows = columns.rows();
        let began = columns.sent.last().copied().unwrap();
        let seen = columns.acked.iter().filter(|&&acked| acked < began).count();
        let known = *rows.known.last().unwrap() as usize;
        prop_assert!(known <= seen);
        prop_assert_eq!(rows.tokens.len(), known * TOKEN_LEN);
        prop_assert!(rows.tokens.iter().chain(&rows.queries).all(|value| value.is_finite()));
    }
}

#[test]
fn columns_that_do_not_fit_and_packets_out_of_order_are_refused() {
    let columns = Columns::of(&[(5, MS, true, 0, true), (5, MS, true, 0, true)]);
    let trace = |sent_ns| Trace {
        sent_ns,
        acked_ns: &columns.acked,
        latency_ns: &columns.latency,
        flow: &columns.flow,
        receiver: &columns.receiver,
        size: &columns.size,
        queue: &columns.queue,
    };
    assert!(rows(&trace(&[1]), HistorySettings::default()).is_none());
    assert!(rows(&trace(&[2, 1]), HistorySettings::default()).is_none());
}
