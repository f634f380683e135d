//! A lens that panics loses its piece, and nothing else: other lenses see what they see without the
//! fault, and every packet is accounted for.

#![allow(clippy::unwrap_used)]

mod made;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use engine::flow::pass::{
    Drill, Ending, Fault, FaultScope, Faults, LabelKind, LabelUse, Labels, Lens, LensSupervisor,
    Lenses, Pass, PassOutcome, Piece, TakeFaults,
};
use engine::flow::{FlowOptions, FlowPacket, FlowSlot, PerFlow, SideSlab};
use engine::group::Outcome;
use engine::run::{Control, run_one};
use made::{Frames, any_packet, frames, number};
use packet::{HashSeed, Span};
use proptest::prelude::*;

const SEED: HashSeed = HashSeed::new(3);

/// What is kept of a flow: its packets since it began.
#[derive(Clone, Default)]
struct Taken(u64);

impl PerFlow for Taken {
    fn on_packet(&mut self, _: &FlowPacket) {
        self.0 += 1;
    }
}

/// Where a lens panics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Weak {
    #[default]
    Nowhere,
    /// While it drops what it holds.
    Repair,
    /// Never, but it cannot drop anything.
    Keeps,
}

/// Counts packets by flow, names each flow after every packet, and panics at packets of its own.
struct Frail {
    flows: SideSlab<Taken>,
    /// Numbers of frames at which it panics.
    at: Vec<u32>,
    weak: Weak,
    /// Whether it counts packets for itself.
    own: Option<Outcome>,
    /// By frame: packets of its flow so far.
    seen: Arc<Mutex<BTreeMap<u32, u64>>>,
}

impl Lens for Frail {
    fn labels(&self) -> LabelUse {
        LabelUse { reads: vec![], gives: vec![LabelKind::Service] }
    }

    fn on_piece(&mut self, piece: &Piece<'_>, labels: &mut Labels) {
        for (place, frame, packet, slot) in piece.flows() {
            let number = number(frame.bytes);
            assert!(!self.at.contains(&number), "at {number}");
            let Some(taken) = self.flows.state(slot) else { continue };
            taken.on_packet(packet);
            self.seen.lock().unwrap().insert(number, taken.0);
            labels.give(LabelKind::Service, slot, place, 7);
            if let Some(own) = &mut self.own {
                own.keyed += 1;
            }
        }
        if let Some(own) = &mut self.own {
            own.without_key += (piece.packet_count() - piece.packets.len()) as u64;
        }
    }

    fn on_fault(&mut self, lost: &FaultScope<'_>) -> bool {
        assert!(self.weak != Weak::Repair, "again");
        self.flows.forget(lost.slots());
        self.weak != Weak::Keeps
    }

    fn outcome(&self) -> Option<Outcome> {
        self.own.clone()
    }
}

/// Writes down each frame with its flow, and the label that it has.
type Read = Arc<Mutex<Vec<(u32, Option<FlowSlot>, Option<u16>)>>>;

struct Reads(Read);

impl Lens for Reads {
    fn labels(&self) -> LabelUse {
        LabelUse { reads: vec![LabelKind::Service], gives: vec![] }
    }

    fn on_piece(&mut self, piece: &Piece<'_>, labels: &mut Labels) {
        let mut read = self.0.lock().unwrap();
        for (place, frame, _, slot) in piece.flows() {
            let label = labels.of(LabelKind::Service, slot, place);
            read.push((number(frame.bytes), Some(slot), label));
        }
    }

    fn on_fault(&mut self, _: &FaultScope<'_>) -> bool {
        true
    }
}

/// Messages of panics, and how the lens ended.
type Said = Vec<(String, Option<Ending>)>;

/// Pieces that were lost, by the numbers of their frames, and how the lens ended.
#[derive(Clone, Default)]
struct Heard {
    pieces: Arc<Mutex<Vec<Vec<u32>>>>,
    said: Arc<Mutex<Said>>,
}

impl TakeFaults for Heard {
    fn take(&self, fault: &Fault, piece: Option<&Piece<'_>>) {
        let piece = piece.unwrap();
        assert_eq!(fault.packet_count, piece.packet_count());
        let numbers = piece.frames().map(|frame| number(frame.bytes)).collect();
        self.pieces.lock().unwrap().push(numbers);
        let Fault { panic, ending, .. } = fault;
        assert!(panic.location.contains(".rs:"), "{panic}");
        self.said.lock().unwrap().push((panic.message.clone(), *ending));
    }
}

/// What is left of a pass.
struct Done {
    read: Vec<(u32, Option<FlowSlot>, Option<u16>)>,
    seen: BTreeMap<u32, u64>,
    heard: Heard,
    faults: Arc<Faults>,
    /// The account of the frail lens, and that of the pass.
    outcome: Outcome,
    of_pass: Outcome,
}

fn run(
    mut source: Frames,
    at: Vec<u32>,
    weak: Weak,
    counts_itself: bool,
    (count_max, drill): (u64, Option<Drill>),
) -> Done {
    let (read, seen, heard) = (Read::default(), Arc::default(), Heard::default());
    let faults = Arc::new(Faults::new(count_max, drill, Box::new(heard.clone())));
    let no_faults = Arc::new(Faults::new(1, None, Box::new(Heard::default())));
    let own = counts_itself.then(Outcome::default);
    let flows = SideSlab::default();
    let frail: Box<dyn Lens + Send> =
        Box::new(Frail { flows, at, weak, own, seen: Arc::clone(&seen) });
    let reads: Box<dyn Lens + Send> = Box::new(Reads(Arc::clone(&read)));
    let options = FlowOptions {
        idle_timeout: Span::from_seconds(8),
        active_timeout: Span::from_seconds(60),
        ..FlowOptions::default()
    };
    let lenses = vec![
        Box::new(LensSupervisor::new(reads, no_faults)),
        Box::new(LensSupervisor::new(frail, Arc::clone(&faults))),
    ];
    let mut pass = Pass::new(options, SEED, Lenses::in_order(lenses).unwrap());
    run_one(&mut source, &mut pass, &Control::default());
    let PassOutcome { lens, outcome: of_pass, .. } = pass.finish();
    let frail = lens.into_inner().into_iter().find(|lens| !lens.labels().gives.is_empty());
    let outcome = frail.unwrap().outcome_of(&of_pass);
    let (read, seen) = (read.lock().unwrap().clone(), seen.lock().unwrap().clone());
    Done { read, seen, heard, faults, outcome, of_pass }
}

/// Some frames are no IP.
fn some_frames(
    packets: Vec<(u8, bool, Option<u8>, i64)>,
    batch_len: usize,
    strangers: &[usize],
) -> Frames {
    let mut source = frames(packets, batch_len);
    for &at in strangers {
        if let Some(record) = source.records.get_mut(at) {
            record.layers = packet::Layers::default();
        }
    }
    source
}

fn total(outcome: &Outcome) -> u64 {
    outcome.processed() + outcome.malformed.total() + outcome.faulted
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_fault_costs_its_piece_and_nothing_else(
        packets in prop::collection::vec(any_packet(), 1..400),
        batch_len in 1..200usize, strangers in prop::collection::vec(0..400usize, 0..20),
        at in prop::collection::vec(0..400u32, 0..6), counts_itself in any::<bool>(),
    ) {
        let source = || some_frames(packets.clone(), batch_len, &strangers);
        let whole = run(source(), vec![], Weak::Nowhere, counts_itself, (u64::MAX, None));
        let done = run(source(), at, Weak::Nowhere, counts_itself, (u64::MAX, None));
        // Others see the same frames in the same flows.
        let of = |done: &Done| done.read.iter().map(|&(n, slot, _)| (n, slot)).collect::<Vec<_>>();
        prop_assert_eq!(of(&done), of(&whole));
        // Every packet is in the account once; those of the pieces are faulted.
        prop_assert_eq!(&done.of_pass, &whole.of_pass);
        prop_assert_eq!(total(&done.outcome), packets.len() as u64);
        let pieces = done.heard.pieces.lock().unwrap().clone();
        let lost: Vec<u32> = pieces.iter().flatten().copied().collect();
        prop_assert_eq!(done.outcome.faulted, lost.len() as u64);
        prop_assert_eq!(done.faults.packets(), lost.len() as u64);
        prop_assert_eq!(done.faults.count(), pieces.len() as u64);
        prop_assert!(!done.faults.has_ended());
        // What the lens says of a packet of no lost piece is right: its flow's packets since the
        // flow began, or since the last lost piece that had some of it.
        let mut flows: BTreeMap<Place, u64> = BTreeMap::new();
        let mut pieces = pieces.iter().peekable();
        let mut at_place = done.read.iter().peekable();
        while let Some(&&(number, slot, _)) = at_place.peek() {
            if let Some(piece) = pieces.next_if(|piece| piece.contains(&number)) {
                while let Some((_, slot, _)) = at_place.next_if(|(n, ..)| piece.contains(n)) {
                    flows.insert(place(*slot), 0);
                }
                continue;
            }
            let count = flows.entry(place(slot)).or_default();
            *count += 1;
            prop_assert_eq!(done.seen.get(&number), Some(&*count), "packet {}", number);
            at_place.next();
        }
        // A label holds where a packet of the flow was taken in before: those of a lost piece were
        // not given.
        let mut labelled = BTreeSet::new();
        for &(number, slot, label) in &done.read {
            prop_assert_eq!(label, labelled.contains(&place(slot)).then_some(7), "{}", number);
            if !lost.contains(&number) {
                labelled.insert(place(slot));
            }
        }
    }

    #[test]
    fn one_that_cannot_be_repaired_ends(
        packets in prop::collection::vec(any_packet(), 100..300), batch_len in 1..200usize,
        at in 0..100u32, weak in prop::sample::select(vec![Weak::Repair, Weak::Keeps]),
        counts_itself in any::<bool>(),
    ) {
        let source = || frames(packets.clone(), batch_len);
        let done = run(source(), vec![at], weak, counts_itself, (u64::MAX, None));
        let ending = if weak == Weak::Keeps { Ending::KeepsState } else { Ending::AgainOnRepair };
        let expected = vec![(format!("at {at}"), Some(ending))];
        prop_assert_eq!(&*done.heard.said.lock().unwrap(), &expected);
        let first = done.heard.pieces.lock().unwrap()[0][0];
        // All from the piece on are lost; others have them.
        prop_assert_eq!(done.outcome.faulted, packets.len() as u64 - u64::from(first));
        prop_assert_eq!(total(&done.outcome), packets.len() as u64);
        prop_assert_eq!(done.read.len(), packets.len());
    }

    #[test]
    fn a_drill_is_a_fault(
        packets in prop::collection::vec(any_packet(), 1..300), batch_len in 1..200usize,
        at in 1..300u64, repeats in any::<bool>(), counts_itself in any::<bool>(),
    ) {
        let count = packets.len() as u64;
        let drill = Some(Drill::at(at, repeats));
        let source = frames(packets, batch_len);
        let done = run(source, vec![], Weak::Nowhere, counts_itself, (3, drill));
        let said = done.heard.said.lock().unwrap();
        prop_assert_eq!(said.is_empty(), at > count);
        let most = if repeats { 3 } else { 1 };
        prop_assert!(said.len() <= most, "said {} times", said.len());
        prop_assert_eq!(done.faults.has_ended(), said.len() == 3);
        prop_assert_eq!(total(&done.outcome), count);
        if let Some(first) = done.heard.pieces.lock().unwrap().first() {
            // The lens has taken in those before the packet.
            let before = |number: &&u32| u64::from(**number) + 1 < at;
            let seen = done.seen.keys().filter(|number| first.contains(number)).count();
            prop_assert_eq!(seen, first.iter().filter(before).count());
        }
    }
}

/// Slots, in an order.
type Place = (u32, u32);

fn place(slot: Option<FlowSlot>) -> Place {
    slot.map_or((u32::MAX, 0), |slot| (slot.index, slot.generation))
}

/// Panics wherever it is called.
struct Broken(Arc<AtomicU64>);

impl Lens for Broken {
    fn on_piece(&mut self, _: &Piece<'_>, _: &mut Labels) {}

    fn on_batch_end(&mut self, _: &mut Labels) {
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        assert!(before == u64::MAX, "nothing is right any more");
    }
}

struct Ends(Arc<Mutex<Option<Ending>>>);

impl TakeFaults for Ends {
    fn take(&self, fault: &Fault, piece: Option<&Piece<'_>>) {
        assert!(piece.is_none() && fault.packet_count == 0);
        *self.0.lock().unwrap() = fault.ending;
        assert!(fault.packet_count > 0, "who writes it down may fail, too");
    }
}

#[test]
fn a_panic_that_concerns_all_ends_the_lens_and_not_the_pass() {
    let (calls, ending) = (Arc::new(AtomicU64::new(0)), Arc::default());
    let faults = Arc::new(Faults::new(9, None, Box::new(Ends(Arc::clone(&ending)))));
    let lens = LensSupervisor::new(Box::new(Broken(Arc::clone(&calls))), Arc::clone(&faults));
    let mut pass = Pass::new(FlowOptions::default(), SEED, lens);
    let mut source = frames(vec![(1, false, Some(16), 1_000_000); 300], 100);
    run_one(&mut source, &mut pass, &Control::default());
    let PassOutcome { lens, outcome, .. } = pass.finish();
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert!(matches!(*ending.lock().unwrap(), Some(Ending::Whole(_))));
    // The first batch was taken in, the others were not.
    let outcome = lens.outcome_of(&outcome);
    assert_eq!((outcome.keyed, outcome.faulted), (100, 200));
}
