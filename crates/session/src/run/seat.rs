//! Lenses of a run, each with the application that it is of.

use engine::flow::pass::{LabelUse, Labels, Lens, LensSupervisor, Now, Piece};
use engine::flow::{FlowEnd, FlowMark, MarkKind, RemainingFlows};
use engine::group::Outcome;
use packet::Timestamp;

use crate::application::{Closing, Refusal, Watcher};
use crate::flows::RunTotals;
use crate::outlet::Sections;

use super::shown::LiveView;

/// The place of a lens that is of no application, such as one that labels flows for rules.
pub(super) const NO_APPLICATION: usize = usize::MAX;

/// The place of lenses that mark where sections of rows end.
pub(super) const BORDERS: usize = NO_APPLICATION - 1;

/// A lens of an application.
pub(super) struct Seat {
    /// The application's place in the run, or [`NO_APPLICATION`].
    pub place: usize,
    /// Who looks; a panic of it costs it a piece.
    pub watcher: LensSupervisor<dyn Watcher>,
    /// The observers of the run.
    pub shown: Option<LiveView>,
}

impl Lens for Seat {
    fn labels(&self) -> LabelUse {
        self.watcher.labels()
    }

    fn on_piece(&mut self, piece: &Piece<'_>, labels: &mut Labels) {
        self.watcher.on_piece(piece, labels);
    }

    fn on_source(&mut self, index: usize) {
        self.watcher.on_source(index);
    }

    fn on_ended(&mut self, ended: &[FlowEnd], labels: &mut Labels) {
        self.watcher.on_ended(ended, labels);
    }

    fn on_batch_end(&mut self, labels: &mut Labels) {
        self.watcher.on_batch_end(labels);
    }

    fn on_tick(&mut self, time: Timestamp) {
        self.watcher.on_tick(time);
    }

    fn on_mark(&mut self, mark: FlowMark, labels: &mut Labels) {
        self.watcher.on_mark(mark, labels);
    }

    fn on_marked(&mut self, mark: FlowMark) {
        self.watcher.on_marked(mark);
    }

    fn on_left(&mut self, left: &RemainingFlows<'_>, labels: &Labels) {
        self.watcher.on_left(left, labels);
    }

    fn is_asked(&self) -> bool {
        self.shown.as_ref().is_some_and(LiveView::is_asked)
    }

    fn on_asked(&mut self, now: &Now<'_>) {
        let Self { watcher, shown, .. } = self;
        if let Some(shown) = shown {
            shown.answer(watcher, now);
        }
    }

    fn outcome(&self) -> Option<Outcome> {
        self.watcher.outcome()
    }
}

/// The last lens of a pass of a part of the flows: it marks where sections of rows end, when all
/// others have handed in theirs.
pub(super) struct Border(pub Vec<Box<dyn Sections>>);

impl Lens for Border {
    fn on_piece(&mut self, _: &Piece<'_>, _: &mut Labels) {}

    fn on_marked(&mut self, mark: FlowMark) {
        self.0.iter().for_each(|sections| sections.end(mark.kind == MarkKind::Last));
    }

    fn on_left(&mut self, _: &RemainingFlows<'_>, _: &Labels) {
        self.0.iter().for_each(|sections| sections.close());
    }
}

/// No application: it says nothing.
impl Watcher for Border {
    fn name(&self) -> &'static str {
        ""
    }

    fn close(self: Box<Self>, _: &RunTotals) -> Result<Closing, Refusal> {
        Ok(Closing::default())
    }
}

/// If a pass is abandoned, no thread waits for it.
impl Drop for Border {
    fn drop(&mut self) {
        self.0.iter().for_each(|sections| sections.close());
    }
}
