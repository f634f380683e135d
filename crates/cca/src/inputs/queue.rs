//! What a flow does in the queue over a window, without a row for each of its slots.

use super::sequences::Sequences;
use super::{Empty, Input, MissingReason, Rules, Scratch, Window, are_near, base};
use crate::pair::InQueue;

impl Window<'_> {
    /// The mean and the highest CBIQ of the slots, and what was lost, as [`fill`](Self::fill) has
    /// them. The work is that of slots with packets, however long the window is; but where packets
    /// were not sampled ([`Empty::Line`]), there is a row for each slot, and no estimate of losses.
    ///
    /// # Errors
    /// [`MissingReason`], where CBIQ has no beginning.
    pub fn in_queue(&self, rules: Rules, scratch: &mut Scratch) -> Result<InQueue, MissingReason> {
        if rules.empty == Empty::Line {
            return self.in_rows(rules, scratch);
        }
        let (ingress, egress) = self.connection(rules)?;
        let base = base(ingress, self.start).ok_or(MissingReason::Ingress)?;
        let len = self.len.saturating_add(1);
        let sequences = Sequences { start: self.start, len, base, rules };
        let Scratch { ingress_runs: came, egress_runs: left, .. } = scratch;
        if !sequences.runs(ingress, came) {
            return Err(MissingReason::Ingress);
        }
        if !sequences.runs(egress, left) {
            return Err(MissingReason::Egress);
        }
        if !are_near(ingress, egress) {
            return Err(MissingReason::Apart);
        }
        let mut seen = self.of_runs(came, left);
        let mut lost = 0.0;
        self.drops(&mut |_, drops| lost += f64::from(drops));
        seen.drops = Some(lost);
        Ok(seen)
    }

    /// Numbers hold from a slot on up to the next; that of the first slot is of its beginning, and
    /// none of its own.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
    fn of_runs(&self, came: &[(usize, f64)], left: &[(usize, f64)]) -> InQueue {
        let mut seen = InQueue::default();
        let end = self.len.saturating_add(1);
        let (mut came, mut left) = (came, left);
        let mut at = 1;
        while at < end {
            let (came_here, came_until) = at_slot(&mut came, at, end);
            let (left_here, left_until) = at_slot(&mut left, at, end);
            let until = came_until.min(left_until).max(at + 1);
            let cbiq = f64::from((came_here - left_here).max(0.0) as f32);
            seen.cbiq_mean += cbiq * (until - at) as f64;
            seen.cbiq_max = seen.cbiq_max.max(cbiq);
            at = until;
        }
        seen.cbiq_mean /= self.len.max(1) as f64;
        seen
    }

    #[allow(clippy::cast_precision_loss)]
    fn in_rows(&self, rules: Rules, scratch: &mut Scratch) -> Result<InQueue, MissingReason> {
        let mut rows = Vec::new();
        self.fill(&[Input::Cbiq], rules, scratch, &mut rows)?;
        let mut seen = InQueue::default();
        for cbiq in rows.into_iter().map(f64::from) {
            seen.cbiq_mean += cbiq;
            seen.cbiq_max = seen.cbiq_max.max(cbiq);
        }
        seen.cbiq_mean /= self.len.max(1) as f64;
        Ok(seen)
    }
}

/// What holds at a slot, and up to which; runs before it are left behind.
fn at_slot(runs: &mut &[(usize, f64)], slot: usize, end: usize) -> (f64, usize) {
    while let [_, rest @ ..] = *runs
        && rest.first().is_some_and(|&(from, _)| from <= slot)
    {
        *runs = rest;
    }
    let here = runs.first().map_or(0.0, |&(_, passed)| passed);
    (here, runs.get(1).map_or(end, |&(from, _)| from))
}
