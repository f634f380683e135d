//! Lenses of a pass see every frame once, and labels do not depend on where batches are cut.

#![allow(clippy::unwrap_used)]

mod made;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use engine::flow::pass::{LabelClash, LabelKind, LabelUse, Labels, Lens, Lenses, Pass, Piece};
use engine::flow::{FlowMark, FlowOptions, FlowSlot};
use engine::run::{Control, run_one};
use made::{any_packet, frames, number};
use packet::{HashSeed, Span};
use proptest::prelude::*;

const SEED: HashSeed = HashSeed::new(3);

/// Of each packet with a flow: its number, its flow, and the labels that hold for it.
type Seen = Arc<Mutex<Vec<(u32, FlowSlot, Option<u16>, Option<u16>)>>>;

/// Names a flow after every third of its packets; the fourth time it takes the name away.
#[derive(Default)]
struct Names(BTreeMap<(u32, u32), u16>);

impl Lens for Names {
    fn labels(&self) -> LabelUse {
        LabelUse { reads: vec![], gives: vec![LabelKind::Service] }
    }

    fn on_piece(&mut self, piece: &Piece<'_>, labels: &mut Labels) {
        for (place, _, _, slot) in piece.flows() {
            let count = self.0.entry((slot.index, slot.generation)).or_default();
            *count += 1;
            if count.is_multiple_of(3) {
                let label = if *count == 12 { u16::MAX } else { *count };
                labels.give(LabelKind::Service, slot, place, label);
            }
        }
    }
}

/// Calls a flow odd as soon as it has a name.
struct Odd;

impl Lens for Odd {
    fn labels(&self) -> LabelUse {
        LabelUse { reads: vec![LabelKind::Service], gives: vec![LabelKind::Anomaly] }
    }

    fn on_piece(&mut self, piece: &Piece<'_>, labels: &mut Labels) {
        for (place, _, _, slot) in piece.flows() {
            if let Some(name) = labels.of(LabelKind::Service, slot, place) {
                labels.give(LabelKind::Anomaly, slot, place, name % 2);
            }
        }
    }
}

/// Writes down what holds for each packet, and how many frames there are.
struct Reads {
    seen: Seen,
    frames: Arc<Mutex<Vec<u32>>>,
}

impl Lens for Reads {
    fn labels(&self) -> LabelUse {
        LabelUse { reads: vec![LabelKind::Anomaly, LabelKind::Service], gives: vec![] }
    }

    fn on_piece(&mut self, piece: &Piece<'_>, labels: &mut Labels) {
        self.frames.lock().unwrap().extend(piece.frames().map(|frame| number(frame.bytes)));
        for (place, frame, _, slot) in piece.flows() {
            let [name, odd] =
                [LabelKind::Service, LabelKind::Anomaly].map(|kind| labels.of(kind, slot, place));
            self.seen.lock().unwrap().push((number(frame.bytes), slot, name, odd));
        }
    }
}

/// The labels that should have held: those of the decisions by packets before.
fn expected(seen: &[(u32, FlowSlot, Option<u16>, Option<u16>)]) -> Vec<(Option<u16>, Option<u16>)> {
    let mut flows: BTreeMap<_, (u16, Option<u16>, Option<u16>)> = BTreeMap::new();
    seen.iter()
        .map(|(_, slot, ..)| {
            let flow = flows.entry((slot.index, slot.generation)).or_default();
            let (count, name, odd) = *flow;
            let count = count + 1;
            let next_odd = name.map_or(odd, |name| Some(name % 2));
            let next_name = match count {
                12 => None,
                _ if count.is_multiple_of(3) => Some(count),
                _ => name,
            };
            *flow = (count, next_name, next_odd);
            (name, odd)
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_label_holds_from_the_packet_after_the_deciding_one(
        packets in prop::collection::vec(any_packet(), 0..400),
        batch_len in 1..200usize, strangers in prop::collection::vec(0..400usize, 0..20),
    ) {
        let (seen, all) = (Seen::default(), Arc::default());
        let reads = Reads { seen: Arc::clone(&seen), frames: Arc::clone(&all) };
        // Named the wrong way round.
        let lenses: Vec<Box<dyn Lens + Send>> =
            vec![Box::new(reads), Box::new(Odd), Box::<Names>::default()];
        let options = FlowOptions {
            idle_timeout: Span::from_seconds(8),
            active_timeout: Span::from_seconds(60),
            ..FlowOptions::default()
        };
        let mut source = frames(packets, batch_len);
        // Some frames are no IP.
        for at in strangers {
            if let Some(record) = source.records.get_mut(at) {
                record.layers = packet::Layers::default();
            }
        }
        let frame_count = source.records.len() as u32;
        let mut pass = Pass::new(options, SEED, Lenses::in_order(lenses).unwrap());
        run_one(&mut source, &mut pass, &Control::default());
        let done = pass.finish();
        prop_assert_eq!(&*all.lock().unwrap(), &(0..frame_count).collect::<Vec<_>>());
        let seen = seen.lock().unwrap();
        prop_assert!(seen.is_sorted_by(|a, b| a.0 < b.0));
        prop_assert_eq!(done.outcome.keyed, seen.len() as u64);
        let held: Vec<_> = seen.iter().map(|&(_, _, name, odd)| (name, odd)).collect();
        prop_assert_eq!(held, expected(&seen));
    }
}

/// Only says which labels it has to do with.
struct Uses(LabelUse);

impl Lens for Uses {
    fn labels(&self) -> LabelUse {
        self.0.clone()
    }

    fn on_piece(&mut self, _: &Piece<'_>, _: &mut Labels) {}
}

#[test]
fn lenses_that_cannot_share_a_pass_are_refused() {
    use LabelKind::{Anomaly, Queue, Service};
    let clash = |uses: &[(&'static [LabelKind], &'static [LabelKind])]| {
        let lens = |&(reads, gives): &(&[LabelKind], &[LabelKind])| {
            let (reads, gives) = (reads.to_vec(), gives.to_vec());
            Box::new(Uses(LabelUse { reads, gives })) as Box<dyn Lens + Send>
        };
        Lenses::in_order(uses.iter().map(lens).collect()).err()
    };
    assert_eq!(clash(&[(&[Service], &[Anomaly]), (&[], &[Service])]), None);
    assert_eq!(clash(&[(&[Queue], &[]), (&[Queue], &[])]), None);
    let twice = clash(&[(&[], &[Service]), (&[], &[Service])]);
    assert_eq!(twice, Some(LabelClash::GivenTwice(Service)));
    let circle = clash(&[(&[Service], &[Anomaly]), (&[Anomaly], &[Service])]);
    assert_eq!(circle, Some(LabelClash::Circle(Service)));
    assert!(circle.unwrap().to_string().contains("wait for each other's labels, service"));
}

/// Labels what it hears of at marks.
struct AtMarks {
    slots: Vec<FlowSlot>,
}

impl Lens for AtMarks {
    fn on_piece(&mut self, piece: &Piece<'_>, labels: &mut Labels) {
        for (place, _, _, slot) in piece.flows() {
            // A flow that was there at the last mark has its label from its first packet on.
            let is_known = self.slots.contains(&slot);
            let label = labels.of(LabelKind::Queue, slot, place);
            assert!(label.is_none() || is_known, "a flow has the label of another");
            if !is_known {
                self.slots.push(slot);
            }
        }
    }

    fn on_mark(&mut self, _: FlowMark, labels: &mut Labels) {
        for &slot in &self.slots {
            labels.give_now(LabelKind::Queue, slot, 1);
        }
    }
}

#[test]
fn a_slot_that_is_given_to_another_flow_has_no_label() {
    let packets = (0..200)
        .map(|n| (n as u8 % 4, n % 2 == 0, Some(if n % 5 == 0 { 4 } else { 2 }), 900_000_000))
        .collect();
    let mut pass = Pass::new(FlowOptions::default(), SEED, AtMarks { slots: Vec::new() });
    run_one(&mut frames(packets, 7), &mut pass, &Control::default());
    assert!(pass.finish().lens.slots.len() > 4);
}
