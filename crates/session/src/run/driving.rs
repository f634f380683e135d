//! How packets come to the passes of a run: in order of time from one source, from several sockets
//! side by side, or in parts in whatever order.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use capture::live::LiveSource;
use engine::flow::pass::{Faults, LensSupervisor, Lenses, Pass};
use engine::run::{Control, run_one, shard, spawn};
use engine::{Fold, Stage};
use packet::{Batch, Source};

use super::interfaces::Changing;
use super::passes::{
    Making, PassResults, Passes, RunResults, SeatPass, Seats, joined, looked, of_sockets,
};
use super::seat::Seat;
use crate::application::{MakeWatcher, Refusal};
use crate::done::RunTotals;
use crate::live_interfaces::LiveInterfaces;
use crate::outside::{Pace, PacedFrames, read_ahead};
use crate::reading::{InOrder, InputError, Inputs, OpenSources, ReceiveOutcome};

/// Batches that are read ahead of a replay.
const PIECES_AHEAD_MAX: usize = 32;

/// How long a hangup may go unnoticed by a thread that has no packets.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Who looks at packets.
pub(super) enum Looking {
    Any((MakeWatcher, Arc<Faults>)),
    Sockets(Vec<SeatPass>),
    InOrder(Passes),
}

impl Looking {
    /// Gives lenses passes.
    ///
    /// # Errors
    /// [`Refusal`]: lenses that wait for each other's labels.
    pub(super) fn new(
        any: Option<(MakeWatcher, Arc<Faults>)>,
        seats: Seats,
        making: Making,
    ) -> Result<Self, Refusal> {
        Ok(match any {
            Some(make) => Self::Any(make),
            None if making.socket_count > 1 => Self::Sockets(of_sockets(seats, making)?),
            None => Self::InOrder(seats.into_passes(making)?),
        })
    }
}

/// What is read, and who looks at it.
pub(super) enum Driving {
    /// In order of time.
    InOrder {
        /// All inputs as one.
        source: Telling,
        /// Who looks.
        passes: Passes,
        /// At which speed, where that is asked for.
        pace: Option<Arc<Pace>>,
    },
    /// Sockets of one interface, each on a thread, with a pass of its own.
    Sockets(Vec<(LiveSource, SeatPass)>),
    /// In parts, each on a thread, in whatever order.
    AnyOrder {
        /// What is read.
        opened: OpenSources,
        /// Makes the lens of a thread; its faults.
        make: (MakeWatcher, Arc<Faults>),
    },
}

impl Driving {
    /// Gives those who look what they look at.
    pub(super) fn new(
        looking: Looking,
        opened: OpenSources,
        inputs: &Inputs,
        pace: Option<Arc<Pace>>,
        changing: Option<Changing>,
        tell: Option<fn(&str)>,
    ) -> Self {
        match (looking, opened) {
            (Looking::Any(make), opened) => Self::AnyOrder { opened, make },
            (Looking::Sockets(passes), OpenSources::Live(sources)) => {
                Self::Sockets(sources.into_iter().zip(passes).collect())
            }
            // Sockets that share a link are of one interface.
            (Looking::Sockets(_), _) => Self::Sockets(Vec::new()),
            (Looking::InOrder(passes), opened) => {
                let (source, live) = (inputs.in_order(opened), inputs.live.clone());
                let source = Telling { source, live, changing, tell };
                Self::InOrder { source, passes, pace }
            }
        }
    }

    /// Reads to the end. `after_batch` is called whenever something was read, or a while has
    /// passed.
    ///
    /// # Errors
    /// [`InputError`]: a capture that has to be opened again, and is no longer there.
    pub(super) fn run(
        self,
        inputs: &Inputs,
        after_batch: &mut impl FnMut(),
    ) -> Result<(RunResults, ReceiveOutcome), InputError> {
        let control = &inputs.control;
        match self {
            Self::InOrder { mut source, passes, pace } => {
                let bar = inputs.bar();
                let (left, unread) = match pace {
                    None => (passes.run(&mut source, control, after_batch), 0),
                    Some(pace) => {
                        let tell = source.tell;
                        let done = paced(&mut source, passes, &pace, control, after_batch);
                        pace.said().zip(tell).into_iter().for_each(|(line, tell)| tell(&line));
                        done
                    }
                };
                drop(bar);
                let mut received = source.source.received();
                received.report.received = received.report.received.saturating_sub(unread);
                Ok((left, received))
            }
            Self::Sockets(sockets) => Ok(side_by_side(sockets, control, after_batch)),
            Self::AnyOrder { opened, make } => {
                let (parts, received) = beside(after_batch, || {
                    inputs.run_unordered(opened, || Parts(vec![part(&make)]))
                })?;
                let mut left = RunResults::default();
                left.looked.extend(whole(parts.0.into_iter().map(|pass| looked(pass.finish()))));
                Ok((left, received))
            }
        }
    }
}

/// The passes of all threads.
struct Parts(Vec<SeatPass>);

fn part((make, faults): &(MakeWatcher, Arc<Faults>)) -> SeatPass {
    let watcher = LensSupervisor::new(make(), Arc::clone(faults));
    // The only application of the run.
    Pass::of_frames(Lenses::of_one(Box::new(Seat { place: 0, watcher, shown: None })))
}

impl Stage for Parts {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.0.iter_mut().for_each(|pass| pass.on_batch(batch));
    }

    fn on_source(&mut self, index: usize) {
        self.0.iter_mut().for_each(|pass| pass.on_source(index));
    }
}

impl Fold for Parts {
    fn fold(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

/// Passes that have shared the packets, as one.
fn whole(parts: impl Iterator<Item = PassResults>) -> Option<PassResults> {
    parts.reduce(|mut whole, part| {
        whole.seats.extend(part.seats);
        let RunTotals { outcome, late, clock_steps, counts, .. } = &part.flows;
        whole.flows.outcome.fold(outcome);
        whole.flows.late += late;
        whole.flows.clock_steps += clock_steps;
        whole.flows.counts.fold(counts);
        whole
    })
}

/// Does something on another thread, and looks up from waiting for it now and then.
fn beside<T: Send>(after_batch: &mut impl FnMut(), work: impl FnOnce() -> T + Send) -> T {
    let (ends, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let working = scope.spawn(move || {
            // Gone with this thread, which is what is waited for.
            let _ends = ends;
            work()
        });
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(LOOK_EVERY) {
            after_batch();
        }
        joined(working)
    })
}

fn side_by_side(
    sockets: Vec<(LiveSource, SeatPass)>,
    control: &Control,
    after_batch: &mut impl FnMut(),
) -> (RunResults, ReceiveOutcome) {
    let ended: Vec<_> = beside(after_batch, || {
        thread::scope(|scope| {
            let listening = sockets.into_iter().enumerate();
            let listening = listening.map(|(at, (mut source, mut pass))| {
                spawn(scope, shard(at), move || {
                    run_one(&mut source, &mut pass, control);
                    (source, looked(pass.finish()))
                })
            });
            let listening: Vec<_> = listening.collect();
            listening.into_iter().map(joined).collect()
        })
    });
    let (sources, parts): (Vec<_>, Vec<_>) = ended.into_iter().unzip();
    let mut left = RunResults::default();
    left.looked.extend(whole(parts.into_iter()));
    (left, ReceiveOutcome::of_live(sources))
}

/// The source of a run; some of its parts may vanish while the others continue, and settings that
/// are read again add interfaces and let others go.
pub(super) struct Telling {
    source: InOrder,
    live: LiveInterfaces,
    changing: Option<Changing>,
    tell: Option<fn(&str)>,
}

impl Source for Telling {
    fn next_batch(&mut self) -> Option<Batch<'_>> {
        if let Some(changing) = &self.changing {
            changing.carry_out(&mut self.source);
        }
        for damage in self.source.newly_ended() {
            self.live.close(&damage.name);
            if let Some(tell) = self.tell {
                tell(&format!("{damage}; capture on the other interfaces continues"));
            }
        }
        self.source.next_batch()
    }

    fn ends_by_itself(&self) -> bool {
        self.source.ends_by_itself()
    }
}

/// At the capture's own speed, or so many times that; and how many frames were read, but not handed
/// out before the run was stopped.
fn paced(
    source: &mut (impl Source + Send),
    passes: Passes,
    pace: &Pace,
    control: &Control,
    after_batch: &mut impl FnMut(),
) -> (RunResults, u64) {
    let (to, ahead) = mpsc::sync_channel(PIECES_AHEAD_MAX);
    thread::scope(|scope| {
        let reading = spawn(scope, "reading", move || read_ahead(source, &to));
        let mut paced = PacedFrames::new(ahead, pace, control);
        let passed = passes.run(&mut paced, control, after_batch);
        let handed = paced.handed();
        // Nobody listens to the reader from here on.
        drop(paced);
        (passed, joined(reading) - handed)
    })
}
