//! Stages after the first that are computed elsewhere say what they say here.

use std::sync::Arc;

use classify::evidence::Evidence;
use classify::serve::{AskElsewhere, StageOutcome, StageRow, StageRows};
use classify::{Cascade, Cause, Counts, Options, StageName};
use packet::FlowKey;
use proptest::prelude::*;

use crate::build::{artifact, read};
use crate::frames::{TestPacket, Way, serve, serve_elsewhere};
use crate::serving::{any_packet, stamped};

fn cascade() -> Arc<Cascade> {
    Arc::new(read(&artifact()).unwrap())
}

/// A machine that has the same cascade, answers the latest row first, and only every so many.
struct Elsewhere {
    rows: StageRows,
    room: usize,
    /// One of so many rows is not answered; 0 for none.
    unanswered: usize,
    taken: usize,
    waiting: Vec<StageOutcome>,
}

impl Elsewhere {
    fn new(cascade: &Arc<Cascade>, room: usize, unanswered: usize) -> Box<Self> {
        let rows = StageRows::new(Arc::clone(cascade), 1);
        Box::new(Self { rows, room, unanswered, taken: 0, waiting: Vec::new() })
    }
}

impl AskElsewhere for Elsewhere {
    fn ask(&mut self, place: u32, _: &FlowKey, row: StageRow<'_>) -> bool {
        if self.waiting.len() == self.room {
            return false;
        }
        self.taken += 1;
        // As it comes over a network: nothing of the sensor's is left but bytes.
        let (records, numbers) = (row.records.to_vec(), row.numbers.to_vec());
        let sent = StageRow { records: &records, numbers: &numbers, ..row };
        assert!(self.rows.push(sent));
        let mut answer = None;
        self.rows.answer(row.stage, |told| answer = Some(told));
        assert!(answer.is_some());
        let answer = answer.filter(|_| !self.taken.is_multiple_of(self.unanswered));
        self.waiting.push(StageOutcome { place, stage: row.stage, answer });
        true
    }

    fn flush(&mut self) {}

    fn take(&mut self, waits: bool, outcomes: &mut Vec<StageOutcome>) {
        if waits {
            outcomes.extend(self.waiting.pop());
        }
    }

    fn under_way(&self) -> usize {
        self.waiting.len()
    }

    fn under_way_max(&self) -> usize {
        self.room
    }
}

#[test]
fn a_row_that_is_no_stages_is_not_taken() {
    let mut rows = StageRows::new(cascade(), 4);
    let row = StageRow { stage: 9, records: &[], numbers: &[], evidence: None };
    assert!(!rows.push(row));
    let numbers = [1.0; 99];
    assert!(!rows.push(StageRow { stage: 1, numbers: &numbers, ..row }));
    assert!(!rows.push(StageRow { stage: 1, records: &[0; 3], ..row }));
    let evidence = Some(Evidence::default());
    assert!(!rows.push(StageRow { stage: 1, evidence, ..row }));
    rows.answer(1, |_| panic!("nothing was taken"));
}

#[test]
fn where_no_answer_comes_the_last_model_decides() {
    let cascade = cascade();
    let flow = [TestPacket::udp(1, 9000, 0)];
    for (room, unanswered, asked) in [(4, 1, [1, 1, 0]), (0, 0, [1, 0, 0])] {
        let elsewhere = Elsewhere::new(&cascade, room, unanswered);
        let served = serve_elsewhere(&cascade, &flow, Way::default(), (), Some(elsewhere));
        assert_eq!(served.verdicts.len(), 1);
        assert_eq!(served.verdicts[0].cause, Cause::Unanswered);
        assert_eq!(served.verdicts[0].stage, Some(StageName::Fastest));
        assert_eq!((served.counts.of(Cause::Unanswered), served.counts.asked), (1, asked));
    }
}

/// The first packet is asked about elsewhere when the second one makes the classifier fall; the
/// flow begins again with the third. What comes for the first says nothing of that.
#[test]
fn a_flow_that_began_again_has_one_verdict() {
    let cascade = cascade();
    let flow = [0, 1, 2].map(|at| TestPacket::udp(1, 9000, at * 1_000_000));
    let options = Options { is_live: true, ..Options::default() };
    let way = Way { batch_len: 1, options, fault_at: Some(1), ..Way::default() };
    for (unanswered, cause) in [(0, Cause::Confident), (1, Cause::Unanswered)] {
        let elsewhere = Elsewhere::new(&cascade, 8, unanswered);
        let served = serve_elsewhere(&cascade, &flow, way, (), Some(elsewhere));
        let found: Vec<_> = served.verdicts.iter().map(|one| (one.cause, one.first)).collect();
        let third = packet::Timestamp::from_ns(crate::frames::START_NS + 2_000_000);
        assert_eq!(found, [(cause, third)]);
        assert_eq!((served.counts.begun, served.counts.given_up), (1, 1));
    }
}

proptest! {
    #[test]
    fn verdicts_are_those_of_one_machine(
        packets in prop::collection::vec(any_packet(), 0..250),
        batch_len in 1..200usize,
        room in 1..50usize,
    ) {
        let cascade = cascade();
        let packets = stamped(packets);
        let way = Way { batch_len, ..Way::default() };
        let alone = serve(&cascade, &packets, way);
        let elsewhere = Elsewhere::new(&cascade, room, 0);
        let served = serve_elsewhere(&cascade, &packets, way, (), Some(elsewhere));
        prop_assert_eq!(&served.verdicts, &alone.verdicts);
        let Counts { waiting_most, .. } = alone.counts;
        prop_assert_eq!(Counts { waiting_most, ..served.counts }, alone.counts);
    }

    #[test]
    fn each_flow_has_one_verdict_whatever_is_answered(
        packets in prop::collection::vec(any_packet(), 0..250),
        batch_len in 1..200usize,
        room in 0..6usize,
        unanswered in 0..4usize,
        is_live in any::<bool>(),
    ) {
        let cascade = cascade();
        let options = Options { is_live, ..Options::default() };
        let way = Way { batch_len, options, ..Way::default() };
        let elsewhere = Elsewhere::new(&cascade, room, unanswered);
        let served = serve_elsewhere(&cascade, &stamped(packets), way, (), Some(elsewhere));
        prop_assert_eq!(served.verdicts.len() as u64, served.flow_count);
    }

    #[test]
    fn no_flow_has_two_verdicts_after_a_fault(
        packets in prop::collection::vec(any_packet(), 1..250),
        batch_len in 1..200usize,
        room in 0..6usize,
        unanswered in 0..4usize,
        is_live in any::<bool>(),
        fault_at in 0..250usize,
    ) {
        let cascade = cascade();
        let options = Options { is_live, ..Options::default() };
        let way = Way { batch_len, options, fault_at: Some(fault_at), ..Way::default() };
        let elsewhere = Elsewhere::new(&cascade, room, unanswered);
        let served = serve_elsewhere(&cascade, &stamped(packets), way, (), Some(elsewhere));
        let (verdicts, flows) = (served.verdicts.len() as u64, served.flow_count);
        prop_assert!((flows - served.counts.given_up..=flows).contains(&verdicts));
        prop_assert_eq!(served.counts.begun, verdicts);
    }
}
