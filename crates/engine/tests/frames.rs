//! Flows with their frames at hand are the flows of the owners, and each has its own frames.

#![allow(clippy::unwrap_used)]

mod made;

use engine::PartitionShare;
use engine::exchange::exchange;
use engine::flow::{
    AllFlows, EndedFlow, FlowClock, FlowEnd, FlowExtract, FlowFrames, FlowMark, FlowOptions,
    FlowOwner, FlowPacket, FlowRecord, FlowRest, FlowSink, FlowSlot, FlowState, FromFrames,
    MarkKind, PerFlow, States,
};
use engine::run::{Control, run_one};
use made::{Frames, any_packet, frames, number};
use packet::{Frame, HashSeed, Span, Timestamp};
use proptest::prelude::*;

const SEED: HashSeed = HashSeed::new(3);

/// The numbers of a flow's frames.
struct Numbers;

impl FromFrames for Numbers {
    type State = Vec<u32>;

    fn on_frame(&mut self, state: &mut Vec<u32>, frame: &Frame<'_>, _: &FlowPacket, _: FlowSlot) {
        state.push(number(frame.bytes));
    }
}

/// What is heard of flows besides their frames.
#[derive(Default)]
struct Heard {
    /// Flows that had ended, when that was seen, and the numbers of their frames.
    ends: Vec<(FlowRecord, Timestamp, Vec<u32>)>,
    marks: Vec<FlowMark>,
    /// Where flows stand that have not ended, with their first frames.
    slots: Vec<(FlowSlot, u32)>,
}

impl FromFrames for Heard {
    type State = Vec<u32>;

    fn on_frame(
        &mut self,
        state: &mut Vec<u32>,
        frame: &Frame<'_>,
        _: &FlowPacket,
        slot: FlowSlot,
    ) {
        if state.is_empty() {
            self.slots.push((slot, number(frame.bytes)));
        }
        state.push(number(frame.bytes));
    }

    fn on_end(&mut self, state: &mut Vec<u32>, ended: &FlowEnd) {
        self.ends.push((ended.record, ended.seen, state.clone()));
    }

    fn on_pause(&mut self, states: &mut States<'_, Vec<u32>>) {
        for &(slot, first) in &self.slots {
            // Also those that have just ended.
            assert_eq!(states.of(slot).and_then(|numbers| numbers.first()), Some(&first));
        }
        let ends = &self.ends;
        self.slots.retain(|(_, first)| !ends.iter().any(|(_, _, all)| all.first() == Some(first)));
    }

    fn on_mark(&mut self, _: &mut States<'_, Vec<u32>>, mark: FlowMark) {
        self.marks.push(mark);
    }
}

/// Receives flows and forgets them.
struct Forgotten;

impl<S> FlowSink<S> for Forgotten {
    const WANTS_ANY: bool = false;

    fn take(&mut self, _: &[EndedFlow<S>]) {}
}

/// The same as packets tell it that cross cores: lengths on the wire are made the numbers.
#[derive(Clone, Default)]
struct Lens(Vec<u32>);

impl PerFlow for Lens {
    fn on_packet(&mut self, packet: &FlowPacket) {
        self.0.push(packet.wire_len);
    }
}

#[derive(Default)]
struct Taken(Vec<(FlowRecord, Vec<u32>)>);

impl FlowSink<Vec<u32>> for Taken {
    fn take(&mut self, flows: &[EndedFlow<Vec<u32>>]) {
        self.0.extend(flows.iter().map(|(record, FlowState(numbers))| (*record, numbers.clone())));
    }
}

fn by_owners(source: &mut Frames, options: FlowOptions) -> Vec<(FlowRecord, Vec<u32>)> {
    let clock = FlowClock::new(options.idle_timeout, None);
    let mut extract = FlowExtract::new(SEED, clock);
    let mut all: Vec<(FlowRecord, Vec<u32>)> = Vec::new();
    let make = || FlowOwner::<Lens, AllFlows<Lens>>::new(options, AllFlows::default());
    exchange(source, &mut extract, make, 1, &Control::default(), |parts| {
        let (mut ended, mut rests) = (Vec::new(), Vec::new());
        for part in parts {
            ended.extend(part.collected);
            rests.extend(part.rest);
        }
        ended.sort_by_key(|(record, _)| record.order());
        all.extend(ended.into_iter().map(|(record, lens)| (record, lens.0)));
        let drained = FlowRest::drain(rests, 5, |flows| {
            all.extend(flows.iter().map(|(record, lens)| (*record, lens.0.clone())));
            Ok::<(), ()>(())
        });
        drained.unwrap();
    });
    all
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn frames_come_to_the_flows_that_their_packets_come_to(
        packets in prop::collection::vec(any_packet(), 0..300),
        batch_len in 1..200usize, flow_count_max in prop::sample::select(vec![64usize, 1 << 20]),
    ) {
        let options = FlowOptions {
            idle_timeout: Span::from_seconds(8),
            active_timeout: Span::from_seconds(60),
            flow_count_max,
            ..FlowOptions::default()
        };
        let mut source = frames(packets, batch_len);
        let packet_count = source.records.len() as u64;
        let expected = by_owners(&mut source, options);
        source.next = 0;
        let mut stage = FlowFrames::new(options, SEED, Numbers, Taken::default());
        run_one(&mut source, &mut stage, &Control::default());
        let done = stage.finish();
        prop_assert_eq!(&done.output.0, &expected);
        prop_assert_eq!(done.counts.total(), expected.len() as u64);
        prop_assert_eq!((done.outcome.keyed, done.counts.packets), (packet_count, packet_count));
    }

    #[test]
    fn shares_together_are_the_whole(
        packets in prop::collection::vec(any_packet(), 0..300), batch_len in 1..200usize,
        share_count in 1..7usize, flow_count_max in prop::sample::select(vec![64usize, 1 << 20]),
    ) {
        let whole = FlowOptions {
            idle_timeout: Span::from_seconds(8),
            active_timeout: Span::from_seconds(60),
            flow_count_max,
            ..FlowOptions::default()
        };
        let mut source = frames(packets, batch_len);
        let mut run = |options| {
            source.next = 0;
            let mut stage = FlowFrames::new(options, SEED, Numbers, Taken::default());
            run_one(&mut source, &mut stage, &Control::default());
            stage.finish()
        };
        let wanted = run(whole);
        let mut found = Vec::new();
        for index in 0..share_count {
            let share = PartitionShare::new(index, share_count).unwrap();
            let part = run(FlowOptions { share, ..whole });
            // All hear of the same packets, and of each other's flows nothing.
            prop_assert_eq!(part.outcome.keyed, wanted.outcome.keyed);
            prop_assert_eq!(part.clock.last_mark(), wanted.clock.last_mark());
            prop_assert_eq!(part.counts.total(), part.output.0.len() as u64);
            found.extend(part.output.0);
        }
        let mut wanted = wanted.output.0;
        wanted.sort_by_key(|(record, _)| record.order());
        found.sort_by_key(|(record, _)| record.order());
        prop_assert_eq!(found, wanted);
    }

    #[test]
    fn ends_are_heard_of_once_and_at_the_same_time_whatever_the_batches(
        packets in prop::collection::vec(any_packet(), 0..300),
        batch_len in 2..200usize,
    ) {
        let options = FlowOptions {
            idle_timeout: Span::from_seconds(8),
            active_timeout: Span::from_seconds(60),
            ..FlowOptions::default()
        };
        let hear = |batch_len| {
            let mut stage = FlowFrames::new(options, SEED, Heard::default(), Forgotten);
            let mut source = frames(packets.clone(), batch_len);
            run_one(&mut source, &mut stage, &Control::default());
            let done = stage.finish();
            let mut ends = done.keep.ends;
            // Those that one sweep ends have no order among them.
            ends.sort_by_key(|(record, seen, _)| (*seen, record.order()));
            (ends, done.keep.marks, done.counts)
        };
        let (ends, marks, counts) = hear(1);
        prop_assert!(ends.len() as u64 <= counts.total());
        let mut numbers: Vec<_> = ends.iter().flat_map(|(_, _, numbers)| numbers).collect();
        numbers.sort();
        prop_assert!(numbers.is_sorted_by(|a, b| a < b));
        prop_assert_eq!(marks.last().map(|mark| mark.kind), Some(MarkKind::Last));
        let (other_ends, other_marks, other_counts) = hear(batch_len);
        prop_assert_eq!((ends, marks, counts), (other_ends, other_marks, other_counts));
    }
}
