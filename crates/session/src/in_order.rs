//! All inputs of a run as one source, in order of time.

use capture::distinct::Distinct;
use capture::limited::FrameLimit;
use capture::live::{LiveSeveral, LiveSource};
use capture::merged::MergedSource;
use capture::{Damage, FileSource};
use packet::Source;

use crate::reading::ReceiveOutcome;

/// All inputs as one source, in order of time.
pub enum InOrder {
    /// One capture, in its own order.
    One(FrameLimit<FileSource>),
    /// Several, merged.
    Several(FrameLimit<MergedSource>),
    /// An interface.
    Live(Option<FrameLimit<Box<LiveSource>>>),
    /// Several, merged.
    Interfaces(FrameLimit<LiveSeveral>),
    /// Any of these without copies of packets.
    Distinct(Box<Distinct<InOrder>>),
}

impl Source for InOrder {
    fn next_batch(&mut self) -> Option<packet::Batch<'_>> {
        match self {
            Self::One(source) => source.next_batch(),
            Self::Several(source) => source.next_batch(),
            Self::Live(source) => source.as_mut()?.next_batch(),
            Self::Interfaces(source) => source.next_batch(),
            Self::Distinct(source) => source.next_batch(),
        }
    }

    fn ends_by_itself(&self) -> bool {
        match self {
            Self::Live(_) | Self::Interfaces(_) => true,
            Self::One(_) | Self::Several(_) => false,
            Self::Distinct(source) => source.ends_by_itself(),
        }
    }
}

impl InOrder {
    /// Of several interfaces those that have vanished since this was asked last; the others go on.
    pub fn newly_ended(&mut self) -> Vec<Damage> {
        match self {
            Self::Interfaces(source) => source.get_mut().newly_ended(),
            Self::Distinct(source) => source.get_mut().newly_ended(),
            Self::One(_) | Self::Several(_) | Self::Live(_) => Vec::new(),
        }
    }

    /// Takes in another interface, which records call by this number. Captures have none.
    pub fn add(&mut self, source: LiveSource, number: u16) {
        match self {
            Self::Interfaces(several) => several.get_mut().add(source, number),
            Self::Distinct(all) => all.get_mut().add(source, number),
            Self::Live(one) => {
                let Some(one) = one.take() else { return };
                let mut several = one.map(|one| LiveSeveral::new(vec![*one]));
                several.get_mut().add(source, number);
                *self = Self::Interfaces(several);
            }
            Self::One(_) | Self::Several(_) => {}
        }
    }

    /// Lets an interface go, which is one of several: what came up to now is handed out.
    pub fn let_go(&mut self, name: &str) {
        match self {
            Self::Interfaces(several) => several.get_mut().let_go(name),
            Self::Distinct(all) => all.get_mut().let_go(name),
            Self::One(_) | Self::Several(_) | Self::Live(_) => {}
        }
    }

    /// Outcome of the frames; those read past the count do not count.
    #[must_use]
    pub fn received(self) -> ReceiveOutcome {
        let (sources, unused) = match self {
            Self::Live(None) => return ReceiveOutcome::default(),
            Self::Distinct(source) => {
                let (source, duplicates) = source.into_inner();
                let mut received = source.received();
                received.report.dropped.duplicates += duplicates;
                return received;
            }
            Self::Live(Some(source)) => {
                let (source, unused) = source.into_inner();
                let mut received = ReceiveOutcome::of_live([*source]);
                received.report.unread += unused.count;
                received.report.subtract_undecoded(&unused);
                return received;
            }
            Self::Interfaces(source) => {
                let (merged, mut unused) = source.into_inner();
                let mut received = ReceiveOutcome::default();
                let released = merged.released();
                received.report.merge(&released.report);
                received.damages.extend(released.damages.iter().cloned());
                let (sources, waiting) = merged.into_sources();
                unused.merge(&waiting);
                for source in sources {
                    let ReceiveOutcome { report, damages } = ReceiveOutcome::of_live([source]);
                    received.report.merge(&report);
                    received.damages.extend(damages);
                }
                received.report.unread += unused.count;
                received.report.subtract_undecoded(&unused);
                return received;
            }
            Self::One(source) => {
                let (source, unused) = source.into_inner();
                (vec![source], unused)
            }
            Self::Several(source) => {
                let (merged, mut unused) = source.into_inner();
                let (sources, waiting) = merged.into_sources();
                unused.merge(&waiting);
                (sources, unused)
            }
        };
        ReceiveOutcome::up_to(&sources, &unused)
    }
}
