//! Captures of two taps: what the pass lends is the upstream one, and the lens reads the downstream
//! one as far as that has come.
//!
//! No other lens of the pass sees a frame of the downstream tap, so that all of them count one tap.

use std::sync::Arc;

use engine::flow::pass::{Labels, Lens, Now, Piece};
use engine::group::Outcome;
use packet::SlotClock;

use super::{Cca, Out};
use crate::application::{Application as _, Closing, Count, Opening, Refusal, Watcher, Watchers};
use crate::cca::naming::Namer;
use crate::cca::rows::QueueReport;
use crate::cca::settings::CcaSettings;
use crate::cca::taps::{self, ClockOffset, Downstream, QueuePeriods};
use crate::flows::RunTotals;
use crate::reading::Inputs;
use crate::second::explained;

pub(super) fn open(cca: Cca, mut opening: Opening) -> Result<Watchers, Refusal> {
    let Cca { settings, clock, namer, shown, downstream, .. } = cca;
    let out = Out::new(&mut opening, shown.queue(), clock, namer.as_ref())?;
    let egress = match downstream {
        Some(downstream) => downstream,
        None => downstream_of(&settings, clock, namer.as_ref(), &opening)?,
    };
    let periods = QueuePeriods::new(egress, &settings, clock, namer);
    Ok(Watching { periods, out, refusal: None }.into())
}

/// Opens the downstream tap, by the same clock as the upstream one.
fn downstream_of(
    settings: &CcaSettings,
    clock: SlotClock,
    namer: Option<&Namer>,
    opening: &Opening,
) -> Result<Downstream, Refusal> {
    let behind = taps::behind(&opening.request, &settings.egress);
    let offset = match settings.egress_offset {
        Some(add) => ClockOffset { add, ..ClockOffset::default() },
        None => {
            let options = settings.tap_options(clock, None);
            let found = taps::offset(&opening.request, &behind, options, &opening.control);
            found.map_err(explained)?
        }
    };
    if let Some(tell) = opening.tell {
        if let Some(said) = &offset.said {
            tell(&format!("cca: {said}; egress-offset sets another"));
        }
        if settings.is_sampled() && namer.is_some_and(|namer| !namer.model.knows_samples()) {
            tell(
                "cca: sample: the model was trained on all packets, and is less accurate on a \
                 sample; wanted: a model of `train cca --shares`",
            );
        }
    }
    let inputs = Inputs::find(&behind, true, Arc::clone(&opening.control)).map_err(explained)?;
    Downstream::open(inputs, offset.add).map_err(explained)
}

struct Watching {
    periods: QueuePeriods,
    out: Out<QueueReport>,
    refusal: Option<Refusal>,
}

impl Lens for Watching {
    fn on_piece(&mut self, piece: &Piece<'_>, _: &mut Labels) {
        let Self { periods, out, refusal } = self;
        if let Err(error) = periods.on_batch(&piece.as_batch(), |told| out.put(told)) {
            refusal.get_or_insert(error);
        }
    }

    fn outcome(&self) -> Option<Outcome> {
        Some(self.periods.outcome())
    }
}

impl Watcher for Watching {
    fn name(&self) -> &'static str {
        Cca::NAME
    }

    fn counts(&self, _: &Now<'_>) -> Vec<Count> {
        self.periods.counts()
    }

    fn close(mut self: Box<Self>, _: &RunTotals) -> Result<Closing, Refusal> {
        let Self { periods, out, refusal } = &mut *self;
        if let Err(error) = periods.finish(|told| out.put(told)) {
            refusal.get_or_insert(error);
        }
        if let Some(refusal) = self.refusal {
            return Err(refusal);
        }
        let shown = self.periods.counts();
        let (ingress, egress) = self.periods.into_done();
        Ok(Closing {
            outcome: ingress.outcome,
            key: taps::KEY,
            beyond_max_keys: ingress.beyond_max_flows,
            lines: ingress.lines,
            own: vec![egress],
            shown,
            ..Closing::default()
        })
    }
}
