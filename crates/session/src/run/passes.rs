//! The passes of a run: one for all applications, or several on threads of their own.
//!
//! On several threads, an application by flow has a pass for each thread, with a part of
//! the flows each; any other application has a pass of its own, with all packets. If rules read
//! labels, applications that give or may follow them share one pass. All process the same frames in
//! the same order ([`run_lanes`]), so no row depends on the number of threads.
//!
//! Sockets of one interface have a pass each, if all applications are by flow.

use std::ops::RangeFrom;
use std::sync::Arc;
use std::thread;

use engine::flow::FlowOptions;
use engine::flow::pass::{
    Faults, LensSupervisor, Lenses, Pass, PassOutcome, PreparedBatches, Preparer,
};
use engine::lanes::{Lane, LaneNode, run_lanes};
use engine::run::{Control, shard, spawn};
use engine::{PARTITION_COUNT, Stage as _};
use packet::{HashSeed, Source};

use super::seat::{Border, NO_APPLICATION, Seat};
use super::shown::LiveView;
use crate::application::{Refusal, Watcher, Watchers};
use crate::flows::RunTotals;
use crate::outlet::{Merge, Sharing};
use crate::reading::ReceiveOutcome;

/// Frames that cross threads together: enough for each part to process some in one batch.
const FRAMES_PER_ITEM: usize = 1 << 10;

/// Their bytes, more or less.
const BYTES_PER_ITEM: usize = 1 << 22;

/// Items that are read ahead, at least.
const ITEMS_AHEAD_MIN: usize = 8;

pub(super) type SeatPass = Pass<Lenses<Seat>>;

/// How passes are made.
#[derive(Clone)]
pub(super) struct Making {
    /// How flows are cut.
    pub options: FlowOptions,
    /// Spreads keys.
    pub seed: HashSeed,
    /// Threads; 1 where one pass takes in everything as it comes.
    pub thread_count: usize,
    /// Sockets that share an interface; 1 unless each has a pass of its own.
    pub socket_count: usize,
    /// Whether rules read labels.
    pub is_steered: bool,
    /// Bytes of each frame behind its headers that anyone looks at; nothing where nobody looks at
    /// frames.
    pub payload_len_max: Option<usize>,
    /// Faults of lenses that are of no application.
    pub faults: Arc<Faults>,
}

impl Making {
    /// How passes share the flows of an application that looks at them for themselves.
    pub(super) fn sharing(&self) -> Sharing {
        match self {
            Self { socket_count: 2.., .. } => Sharing::Sockets(self.socket_count),
            Self { thread_count: 2.., .. } => {
                Sharing::Parts(self.thread_count.min(PARTITION_COUNT))
            }
            _ => Sharing::Whole,
        }
    }
}

/// All passes of a run.
pub(super) enum Passes {
    /// One for all.
    One(Box<SeatPass>),
    /// Several.
    Several(Box<Several>),
}

/// Passes on several threads.
pub(super) struct Several {
    preparer: Preparer,
    thread_count: usize,
    parts: Vec<SeatPass>,
    whole: Vec<SeatPass>,
    merges: Vec<(usize, Box<dyn Merge>)>,
}

/// The results of passes: lenses that have processed the same flows, and the outcome of those.
pub(super) struct PassResults {
    /// The lenses.
    pub seats: Vec<Seat>,
    /// The outcome of packets and flows.
    pub flows: RunTotals,
}

/// What is left of all passes.
#[derive(Default)]
pub(super) struct RunResults {
    /// By pass, or by passes that shared the flows.
    pub looked: Vec<PassResults>,
    /// Rows that could not be put together, by application.
    pub refusals: Vec<(usize, Refusal)>,
}

/// Lenses before they have passes.
#[derive(Default)]
pub(super) struct Seats {
    parts: Vec<Vec<Seat>>,
    /// Whether it looks for flows, and who looks.
    whole: Vec<(bool, Seat)>,
    merges: Vec<(usize, Box<dyn Merge>)>,
}

impl Seats {
    /// Takes in the lenses of the application at a place.
    pub(super) fn add(
        &mut self,
        place: usize,
        has_flows: bool,
        watchers: Watchers,
        shown: Option<&LiveView>,
        faults: &Arc<Faults>,
    ) {
        let Watchers { lenses, merge, .. } = watchers;
        let is_shared = lenses.len() > 1;
        let seats = lenses.into_iter().enumerate().map(|(part, watcher)| {
            let shown = shown.map(|shown| shown.of_part(part));
            Seat { place, watcher: LensSupervisor::new(watcher, Arc::clone(faults)), shown }
        });
        if !is_shared {
            self.whole.extend(seats.map(|seat| (has_flows, seat)));
            return;
        }
        let seats: Vec<_> = seats.collect();
        self.parts.resize_with(seats.len().max(self.parts.len()), Vec::new);
        self.parts.iter_mut().zip(seats).for_each(|(part, seat)| part.push(seat));
        self.merges.extend(merge.map(|merge| (place, merge)));
    }

    /// Whether no application reads packets.
    pub(super) fn are_empty(&self) -> bool {
        self.parts.is_empty() && self.whole.is_empty()
    }

    /// Gives them passes.
    ///
    /// # Errors
    /// [`Refusal`]: lenses that wait for each other's labels.
    pub(super) fn into_passes(self, making: Making) -> Result<Passes, Refusal> {
        let Self { parts, whole, merges } = self;
        let Making { options, seed, thread_count, is_steered, payload_len_max, faults, .. } =
            making;
        let mut numbers = 0..;
        let mut pass = |has_flows: bool, mut seats: Vec<Seat>| -> Result<SeatPass, Refusal> {
            note_flow_table(&mut seats, &mut numbers);
            let lenses = in_order(seats)?;
            let has_flows = has_flows || is_steered;
            Ok(if has_flows { Pass::new(options, seed, lenses) } else { Pass::of_frames(lenses) })
        };
        // One that has all packets has them first hand.
        if thread_count <= 1 || parts.is_empty() && whole.len() <= 1 {
            let has_flows = whole.iter().any(|(has_flows, _)| *has_flows);
            let seats = whole.into_iter().map(|(_, seat)| seat).collect();
            return Ok(Passes::One(Box::new(pass(has_flows, seats)?)));
        }
        let preparer = Preparer::new(&options, seed, parts.len(), payload_len_max);
        let whole = if is_steered {
            vec![pass(true, whole.into_iter().map(|(_, seat)| seat).collect())?]
        } else {
            let each = whole.into_iter().map(|(has_flows, seat)| pass(has_flows, vec![seat]));
            each.collect::<Result<_, _>>()?
        };
        let mut borders: Vec<Vec<_>> = parts.iter().map(|_| Vec::new()).collect();
        for (_, merge) in &merges {
            borders.iter_mut().zip(merge.sections()).for_each(|(border, of)| border.push(of));
        }
        let parts = parts.into_iter().zip(borders).map(|(mut seats, border)| {
            let watcher: Box<dyn Watcher> = Box::new(Border(border));
            let watcher = LensSupervisor::new(watcher, Arc::clone(&faults));
            note_flow_table(&mut seats, &mut numbers);
            seats.push(Seat { place: NO_APPLICATION, watcher, shown: None });
            Ok(Pass::new(options, seed, in_order(seats)?))
        });
        let parts = parts.collect::<Result<_, Refusal>>()?;
        let several = Several { preparer, thread_count, parts, whole, merges };
        Ok(Passes::Several(Box::new(several)))
    }
}

/// Passes of the sockets of an interface, which share the room for flows.
///
/// # Errors
/// [`Refusal`]: lenses that wait for each other's labels.
pub(super) fn of_sockets(seats: Seats, making: Making) -> Result<Vec<SeatPass>, Refusal> {
    let Making { options, seed, socket_count, .. } = making;
    let flow_count_max = options.flow_count_max / socket_count.max(1);
    let options = FlowOptions { flow_count_max, ..options };
    let mut numbers = 0..;
    let of_socket = |mut seats: Vec<Seat>| {
        note_flow_table(&mut seats, &mut numbers);
        Ok(Pass::new(options, seed, in_order(seats)?))
    };
    seats.parts.into_iter().map(of_socket).collect()
}

/// One of the lenses of a pass says how large its flow table is.
fn note_flow_table(seats: &mut [Seat], numbers: &mut RangeFrom<usize>) {
    if let Some(shown) = seats.iter_mut().find_map(|seat| seat.shown.as_mut()) {
        shown.note_flow_table(numbers.next().unwrap_or_default());
    }
}

fn in_order(seats: Vec<Seat>) -> Result<Lenses<Seat>, Refusal> {
    Lenses::in_order(seats.into_iter().map(Box::new).collect()).map_err(Refusal::new)
}

impl Passes {
    /// Takes in a source to its end. `after_batch` is called whenever something was read.
    pub(super) fn run(
        self,
        source: &mut impl Source,
        control: &Control,
        after_batch: &mut impl FnMut(),
    ) -> RunResults {
        match self {
            Self::One(mut pass) => {
                while !control.is_stopped() || source.ends_by_itself() {
                    match source.next_batch() {
                        Some(batch) => pass.on_batch(&batch),
                        None => break,
                    }
                    after_batch();
                }
                RunResults { looked: vec![looked(pass.finish())], refusals: Vec::new() }
            }
            Self::Several(several) => several.run(source, control, after_batch),
        }
    }
}

pub(super) fn looked(done: PassOutcome<Lenses<Seat>>) -> PassResults {
    let PassOutcome { lens, outcome, clock, counts } = done;
    let (received, late, clock_steps) = (ReceiveOutcome::default(), clock.late, clock.steps);
    let seats = lens.into_inner().into_iter().map(|seat| *seat).collect();
    PassResults { seats, flows: RunTotals { outcome, received, late, clock_steps, counts } }
}

/// What threads take turns at.
enum Turn {
    Part(usize, Box<SeatPass>),
    Whole(Box<SeatPass>),
    Merge(usize, Box<dyn Merge>),
}

impl Lane<PreparedBatches> for Turn {
    fn on_item(&mut self, item: &PreparedBatches) {
        match self {
            Self::Part(part, pass) => pass.on_part(item, *part),
            Self::Whole(pass) => item.batches().for_each(|batch| pass.on_batch(&batch)),
            Self::Merge(_, merge) => merge.hand_on(),
        }
    }
}

impl Several {
    fn run(
        self,
        source: &mut impl Source,
        control: &Control,
        after_batch: &mut impl FnMut(),
    ) -> RunResults {
        let Self { mut preparer, thread_count, parts, whole, merges } = self;
        let of_parts: Vec<usize> = (0..parts.len()).collect();
        let first = |lane| LaneNode { lane, after: Vec::new() };
        let parts = parts.into_iter().enumerate();
        let parts = parts.map(|(part, pass)| first(Turn::Part(part, Box::new(pass))));
        let whole = whole.into_iter().map(|pass| first(Turn::Whole(Box::new(pass))));
        let merges = merges.into_iter().map(|(place, merge)| LaneNode {
            lane: Turn::Merge(place, merge),
            after: of_parts.clone(),
        });
        let lanes = parts.chain(whole).chain(merges).collect();
        let mut has_ended = false;
        let fill = |spare: Option<PreparedBatches>| {
            let mut item = spare.unwrap_or_default();
            item.clear();
            while !has_ended && item.len() < FRAMES_PER_ITEM && item.byte_count() < BYTES_PER_ITEM {
                // What was read is counted as received: a stop comes before or after it.
                let is_over = control.is_stopped();
                match (!is_over).then(|| source.next_batch()).flatten() {
                    Some(batch) => preparer.add(&batch, &mut item),
                    None => has_ended = true,
                }
                after_batch();
            }
            preparer.close(&mut item);
            (!item.is_empty()).then_some(item)
        };
        let lanes = run_lanes(lanes, thread_count, ITEMS_AHEAD_MIN.max(2 * thread_count), fill);
        finish(lanes, preparer)
    }
}

/// The flows that are left are handed in by all passes at the same time.
fn finish(lanes: Vec<Turn>, preparer: Preparer) -> RunResults {
    let (outcome, clock) = preparer.finish();
    let last = clock.last_mark();
    let mut shared = RunTotals { outcome, ..RunTotals::default() };
    (shared.late, shared.clock_steps) = (clock.late, clock.steps);
    let mut left = RunResults::default();
    let mut seats = Vec::new();
    thread::scope(|scope| {
        let (mut parts, mut whole, mut merges) = (Vec::new(), Vec::new(), Vec::new());
        for lane in lanes {
            match lane {
                Turn::Part(part, pass) => {
                    let work = move || looked(pass.finish_at(last));
                    parts.push(spawn(scope, shard(part), work));
                }
                Turn::Whole(pass) => {
                    whole.push(spawn(scope, "ending", move || looked(pass.finish())));
                }
                Turn::Merge(place, merge) => {
                    merges.push(spawn(scope, "ending", move || (place, merge.finish())));
                }
            }
        }
        for part in parts {
            let PassResults { seats: of_part, flows } = joined(part);
            seats.extend(of_part);
            shared.counts.fold(&flows.counts);
        }
        left.looked.extend(whole.into_iter().map(joined));
        let refused = merges.into_iter().map(joined);
        left.refusals.extend(refused.filter_map(|(place, done)| Some((place, done.err()?))));
    });
    left.looked.push(PassResults { seats, flows: shared });
    left
}

/// What a thread leaves; its panic, where it panicked.
pub(super) fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
